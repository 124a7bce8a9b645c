/*
 * One page's index array, taken apart once for all columns that share it: which ids occur, in the order they first do,
 * and each row's place in that list. What a column then has to do by row is done by distinct id instead. A body that
 * one column has had encoded is kept here, since every other column that splits the rows in the same way has the same
 * body. Not thread-safe.
 */
#ifndef KYMO_FORMATS_PARQUET_PARQUET_INDEX_H
#define KYMO_FORMATS_PARQUET_PARQUET_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define PARQUET_INDEX_ROWS_MAX 65536
#define PARQUET_INDEX_BODIES_MAX 64

struct parquet_body {
    uint64_t hash;
    uint32_t *split; /* the split of the rows it belongs to, one entry per distinct id */
    size_t split_cap;
    bool levels; /* whether it begins with definition levels */
    const struct kymo_buf
        *buf; /* where the compressed body is: the first column's, which gets no other page meanwhile */
    size_t off, len;
    uint32_t raw_len;
};

struct parquet_index {
    const uint32_t *key; /* the array, as its name; NULL: unused */
    size_t n;            /* rows */
    size_t distinct;
    uint32_t need;          /* greatest id plus 1; 0: all null */
    uint32_t *ids, *counts; /* by place */
    uint16_t *place;        /* by row */
    uint32_t *place_of;     /* by id, place + 1; all zero between calls */
    size_t ids_cap, counts_cap, place_cap, place_of_cap;
    struct parquet_body body[PARQUET_INDEX_BODIES_MAX];
    size_t body_count;
};

void parquet_index_init(struct parquet_index *x);
void parquet_index_done(struct parquet_index *x);

/* Takes index[0..n) apart, n <= PARQUET_INDEX_ROWS_MAX. -EINVAL when an id is not below limit. */
int parquet_index_build(struct parquet_index *x, const uint32_t *index, size_t n, size_t limit) KYMO_MUST_CHECK;

/* The body kept for a split (one entry per distinct id), or NULL. */
const struct parquet_body *parquet_index_find(const struct parquet_index *x, const uint32_t *split, bool levels);
/* Keeps one, which must stay in buf as long as the index does; does nothing when there are many already. */
int parquet_index_keep(struct parquet_index *x, const uint32_t *split, bool levels, const struct kymo_buf *buf,
                       size_t off, size_t len, uint32_t raw_len) KYMO_MUST_CHECK;

#endif
