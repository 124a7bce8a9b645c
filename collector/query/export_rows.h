/*
 * Rows of a table in a range as CSV, for whoever takes the text. A row begins with timeline_track and goes on with the
 * columns of the table, values as they are stored. Complete, there is every row that the range touches, in the order of
 * the table. Sampled, the range is cut into so many equal intervals, and of the events of a track that begin in an
 * interval (or before the range, in the first) the longest is kept, of equals the first; the rows ascend by start, and
 * a last column events_in_sample says how many events a row stands for, so that its sum is the number of events in the
 * range.
 */
#ifndef KYMO_COLLECTOR_QUERY_EXPORT_ROWS_H
#define KYMO_COLLECTOR_QUERY_EXPORT_ROWS_H

#include "collector/query/export_profile.h"

struct export_event {
    const char *track; /* not terminated; only told apart from others */
    size_t track_len;
    int64_t start, end, key;
};
typedef int (*export_event_take)(void *taker, const struct export_event *e, struct kymo_err *err);

struct export_rows {
    const struct export_source *source;
    struct export_range range; /* of the intervals */
    uint64_t samples;          /* intervals; 0: complete */
    const char *key; /* a column of whole numbers, other in each row, of a table that ascends by start; or NULL */
    /* Gives all events that the range touches, in the order of the table, faster than SQL does; NULL: by SQL. */
    int (*events)(void *ctx, export_event_take take, void *taker, struct kymo_err *err);
    bool sort; /* the table may not ascend by start; complete rows are never sorted */
    int (*write)(void *ctx, const void *data, size_t n, struct kymo_err *err);
    int (*rewind)(void *ctx, struct kymo_err *err); /* forgets what was written, to begin anew; NULL: it is gone */
    int (*check)(void *ctx, struct kymo_err *err);  /* an error ends it; asked for each row */
    void *ctx;
};

struct export_rows_figures {
    uint64_t events, rows; /* in the range, and written */
};

/* Where samples are wanted and the rows turn out not to ascend, it starts again and sorts, or fails with -EDOM where
 * nothing can be taken back. */
int export_rows_write(const struct export_profile *p, const struct export_rows *o, struct export_rows_figures *ret,
                      struct kymo_err *err) KYMO_MUST_CHECK;

#endif
