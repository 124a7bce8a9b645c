/*
 * Series of a directory from kymo's own files, without DuckDB: what op_series.c asks of a table of samples, which lies
 * in the order of time.
 */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_OWN_SERIES_H
#define KYMO_COLLECTOR_QUERY_SERVE_OWN_SERIES_H

#include "collector/query/serve_own.h"
#include "collector/query/serve_series.h"

/* One that is asked for. What is found is in the last four; a part without a value is NaN. */
struct serve_own_wanted {
    const struct serve_series *series;
    bool has_before;
    double before[SERVE_PARTS_MAX]; /* that hold when the window begins */
    int64_t before_ts[SERVE_PARTS_MAX];
    /* of the pixel column that is being put together, -1: none yet */
    int64_t column, last_ts[SERVE_PARTS_MAX];
    double least[SERVE_PARTS_MAX], greatest[SERVE_PARTS_MAX], last[SERVE_PARTS_MAX];
};

struct serve_own_samples {
    const struct serve_dir *dir;
    enum kymo_table_id table;
    struct serve_own_wanted *wanted; /* all of this table */
    size_t n;
    int64_t from, to, width; /* samples from from to to, ends included */
    int64_t step;            /* > 0: columns are so wide, from 0 on, whatever the width */
    uint64_t look_back;      /* rows of a table that is read to its begin for the values before the window */
    const volatile bool *stop;
    /* A column of wanted[i] is whole. */
    void (*column)(void *ctx, size_t i);
    void *ctx;
};

bool serve_own_has_samples(const struct serve_dir *d, enum kymo_table_id table);
uint64_t serve_own_count_samples(const struct serve_dir *d, enum kymo_table_id table);
/* First the values before the window, then column by column what is in it. */
int serve_own_samples(struct serve_own_samples *s, struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * Buckets of all series of a table, of one part each, kept with the directory; step: of each. With the directory's
 * lock. Then the same answers from these, for pixels that are no narrower.
 */
int serve_own_make_coarse(struct serve_dir *d, enum kymo_table_id table, int64_t step, const volatile bool *stop,
                          struct kymo_err *err) KYMO_MUST_CHECK;
void serve_own_coarse_samples(struct serve_own_samples *s);

#endif
