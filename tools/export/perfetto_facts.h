/* What a Perfetto trace shows of each table. Constant data. */
#ifndef KYMO_TOOLS_EXPORT_PERFETTO_FACTS_H
#define KYMO_TOOLS_EXPORT_PERFETTO_FACTS_H

#include <stdbool.h>

struct perfetto_events {
    const char *table, *group;
    const char *name; /* SQL over name_columns */
    const char *name_columns;
    const char *duration; /* column that makes an event of a start alone last; NULL: none */
    const char *args;     /* columns shown with an event, those of them that there are */
    const char *flow;     /* the table's name in Flow, whose ids are the column id; NULL: none */
    const char *points;   /* column with a list of the names of the flows that pass the event; NULL: none */
    bool unusual;         /* drawn only when asked for */
};

struct perfetto_counter {
    const char *table, *value;        /* column */
    const char *divisor;              /* column; the value is per nanosecond of it, so times 1e9; NULL: none */
    const char *track, *unit, *group; /* track NULL: the table's */
    const char *part; /* behind the track's name; then one that is 0 all the time is not drawn; or NULL */
};

extern const struct perfetto_events perfetto_events[]; /* the last has no table */
extern const struct perfetto_counter perfetto_counters[];

/* Groups stand in this order. The last is NULL. */
extern const char *const perfetto_groups[];

#endif
