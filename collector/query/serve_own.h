/*
 * What the views k.levels and k.src_KIND of a directory give (serve_tracks.h), from kymo's own files without DuckDB
 * (table_file.h): events and buckets of a window in the time that reading them takes, however long the tables are.
 */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_OWN_H
#define KYMO_COLLECTOR_QUERY_SERVE_OWN_H

#include "collector/query/query_files.h"
#include "collector/query/serve_dir.h"
#include "formats/parquet_read/table_reader.h"
#include "formats/schema/schema.h"

enum serve_own_table {
    SERVE_OWN_LEVELS,
    SERVE_OWN_INSTRUCTIONS,
    SERVE_OWN_PACKETS,
    SERVE_OWN_TRANSFERS,
    SERVE_OWN_HOST,
    SERVE_OWN_WAITS,
    SERVE_OWN_ACTIVE,
    SERVE_OWN_MAX
};

struct serve_own {
    /* NULL: not of kymo's, or in several parts: SQL reads it */
    struct table_file *files[SERVE_OWN_MAX];
    struct table_file *samples[KYMO_T_MAX]; /* of series: serve_own_series.h */
    struct serve_own_coarse *coarse;        /* one of each series; NULL: none made yet */
    size_t n_coarse;
    struct table_file *flow;       /* serve_own_edges.h */
    struct serve_own_index *edges; /* NULL: not made yet */
};

/* Least, greatest and last value of a series in each bucket of time that has a sample; ts is the last one's. */
struct serve_own_bucket {
    int64_t ts;
    double least, greatest, last;
};
struct serve_own_coarse {
    struct serve_own_bucket *buckets;
    size_t n, cap;
};

/* place: the directory by a name of its descriptor. Files that are not read here are no error. bad: tables to leave
 * out.
 */
int serve_own_open(struct serve_own *o, const char *place, const struct query_bad *bad,
                   struct kymo_err *err) KYMO_MUST_CHECK;
void serve_own_done(struct serve_own *o);

bool serve_own_has_levels(const struct serve_dir *d);
/* The first and the last time in the levels; false: their file does not tell. */
bool serve_own_extent(const struct serve_dir *d, int64_t *ret_from, int64_t *ret_to);
/* Widths of the levels of each kind, the finest first, 0 behind the last one. */
int serve_own_widths(const struct serve_dir *d, int64_t ret[SERVE_KIND_MAX][SERVE_LEVELS_MAX],
                     struct kymo_err *err) KYMO_MUST_CHECK;
bool serve_own_has_events(const struct serve_dir *d, enum serve_kind kind);

/* Which cells are given of an event: all; track, id, start, end and wait; the same without the id. */
enum serve_own_given { SERVE_OWN_WHOLE, SERVE_OWN_KEYED, SERVE_OWN_BARE };

/* Of a call for a window. Rows come in the order of the file, which is that of start; cells hold until row returns. */
struct serve_own_window {
    const struct serve_dir *dir;
    enum serve_kind kind;
    int64_t from, to; /* what begins at to or before and ends at from or later */
    const volatile bool *stop;
    /* Of events. NULL: of all tracks; asked at least once for each that comes. */
    bool (*wanted)(void *ctx, const struct sql_cell *track);
    enum serve_own_given given;
    sql_row row;
    void *ctx;
};

enum serve_own_event {
    SERVE_OWN_TRACK,
    SERVE_OWN_ID,
    SERVE_OWN_START,
    SERVE_OWN_END,
    SERVE_OWN_BYTES,
    SERVE_OWN_WAIT,
    SERVE_OWN_LABEL,
    SERVE_OWN_COLOR,
    SERVE_OWN_EVENT_CELLS
};

enum serve_own_level {
    SERVE_OWN_L_TRACK,
    SERVE_OWN_L_START,
    SERVE_OWN_L_FIRST,
    SERVE_OWN_L_LAST,
    SERVE_OWN_L_COUNT,
    SERVE_OWN_L_BUSY,
    SERVE_OWN_L_BYTES,
    SERVE_OWN_L_ID,
    SERVE_OWN_L_LONGEST,
    SERVE_OWN_L_LABEL,
    SERVE_OWN_L_COLOR,
    SERVE_OWN_L_PCORE,
    SERVE_OWN_LEVEL_CELLS
};

int serve_own_events(const struct serve_own_window *w, struct kymo_err *err) KYMO_MUST_CHECK;
/* counts: only track, core and count are given. */
int serve_own_levels(const struct serve_own_window *w, int64_t bucket, bool counts,
                     struct kymo_err *err) KYMO_MUST_CHECK;

#endif
