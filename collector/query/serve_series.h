/*
 * Series: what is measured over time. One row of the table below each; a directory has one of each for each core, or
 * for each semaphore.
 */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_SERIES_H
#define KYMO_COLLECTOR_QUERY_SERVE_SERIES_H

#include "collector/query/serve_dir.h"
#include "formats/schema/schema.h"

#define SERVE_PARTS_MAX 10
#define SERVE_SERIES_MAX 2048

struct serve_series_part {
    const char *name, *value; /* value: an expression over the table's columns */
};

struct serve_series_row {
    const char *label, *group, *table, *unit;
    enum kymo_table_id number;
    bool by_core, by_semaphore; /* by_semaphore: by core as well */
    size_t n_parts;
    struct serve_series_part parts[SERVE_PARTS_MAX];
};

struct serve_series {
    const struct serve_series_row *row;
    char *id, *label;
    int64_t pcore;   /* -1: not by core */
    char *semaphore; /* NULL: no semaphore */
    char *absent;    /* why it is empty; NULL: it is not */
};

struct serve_series_list {
    struct serve_series *items; /* in the order in which to show them */
    size_t n, cap;
};

/* The kinds of series, one by one; NULL: there are no more. */
const struct serve_series_row *serve_series_at(size_t i);
/* All of a directory. Released with serve_series_done. */
int serve_series_find(const struct serve_dir *d, const struct sql *s, struct serve_series_list *ret,
                      struct kymo_err *err) KYMO_MUST_CHECK;
void serve_series_done(struct serve_series_list *list);

#endif
