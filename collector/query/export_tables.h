/*
 * Which tables a timeline shows, when their rows begin and end, and on which track they stand. The names of tracks are
 * those of the vendor's device trace viewer where it has one for the table; the others are ours. Constant data.
 */
#ifndef KYMO_COLLECTOR_QUERY_EXPORT_TABLES_H
#define KYMO_COLLECTOR_QUERY_EXPORT_TABLES_H

#include <stdbool.h>

struct export_table {
    const char *name;
    const char *start; /* column */
    const char *end;   /* column; NULL: a row is an instant */
    /* SQL that gives the track's name; $NC stands for the physical core, "(nc0)", where a profile has several. */
    const char *track;
    const char *columns; /* that the SQL needs beside pcore_idx, separated by blanks; without them the table's name is
                            the track */
    bool usual;          /* one of the boxes of the viewer's dialog, or of a system profile */
};

/* The last has no name. */
extern const struct export_table export_tables[];

/* NULL: no such table, or one without times. */
const struct export_table *export_tables_find(const char *name);

#endif
