/*
 * One column of one row group in the making: its pages, compressed as they come, and the part of the column's
 * dictionary that they use. Internal to the writer. Not thread-safe.
 */
#ifndef KYMO_FORMATS_PARQUET_PARQUET_CHUNK_H
#define KYMO_FORMATS_PARQUET_PARQUET_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "formats/parquet/parquet_dict.h"
#include "formats/parquet/parquet_index.h"
#include "formats/parquet/parquet_reals.h"
#include "formats/parquet/parquet_writer.h"

#define PARQUET_DICT_PAGE_MAX (8u << 20)          /* bytes; more, and the chunk goes on without dictionary */
#define PARQUET_CHUNK_BYTES_MAX ((size_t)1 << 31) /* compressed */
#define PARQUET_PAGE_BYTES_MAX ((size_t)1 << 30)
#define PARQUET_PAGE_BYTES_GOAL ((size_t)1 << 20)  /* of strings without dictionary */
#define PARQUET_PAGE_LEVELS_GOAL ((size_t)1 << 18) /* of lists */
#define PARQUET_CHUNK_PAGES_MAX (1u << 24)
#define PARQUET_LIST_MAX (1u << 20) /* elements of one list */
#define PARQUET_WORK_INDEXES 8
#define PARQUET_WORK_MADE 8
#define PARQUET_WORK_VALUES_MAX ((size_t)1 << 22) /* levels or values of one page */

/* Parquet's numbers. */
enum parquet_encoding {
    PARQUET_PLAIN = 0,
    PARQUET_RLE = 3,
    PARQUET_DELTA_BINARY_PACKED = 5,
    PARQUET_RLE_DICTIONARY = 8
};

struct parquet_page {
    size_t off, len;  /* compressed body in data; len 0: all null, the body is made when the chunk is written */
    uint32_t raw_len; /* before compression */
    uint32_t rows, levels, nulls;
    enum parquet_encoding encoding;
    bool bounded;      /* min and max are there */
    uint64_t min, max; /* scalar, or number in the dictionary */
};

struct parquet_chunk {
    const struct kymo_column *column;
    enum kymo_type leaf_type;
    bool is_list;
    uint8_t max_def, max_rep;
    struct parquet_dict leaf;  /* values, or elements of lists */
    struct parquet_dict lists; /* the elements' numbers, as bytes */

    struct kymo_buf data;
    struct parquet_page *pages;
    size_t page_count, page_cap;
    uint64_t values, nulls; /* levels and nulls so far */
    uint32_t *local;        /* number in the row group's dictionary + 1, by number */
    size_t local_cap;
    uint32_t *used; /* number, by number in the row group's dictionary */
    size_t used_count, used_cap;
    size_t dict_bytes;
    bool no_dict;                /* the rest of the chunk is written without */
    bool unsorted;               /* values did not ascend, or were not given as such */
    uint64_t last;               /* value of the last row, while sorted */
    unsigned raw_run;            /* pages to store without trying zstd */
    struct parquet_reals *reals; /* of reals given as such; NULL: none yet */
    bool many_reals;             /* they were too many */
};

/* A body made from an array of values: a column of the same type and levels that is given the same array copies it. */
struct parquet_made {
    const void *values;
    const uint8_t *valid;
    enum kymo_type type;
    bool levels;
    enum parquet_encoding encoding;
    const struct kymo_buf *buf; /* as in struct parquet_body */
    size_t off, len;
    uint32_t raw_len;
};

/* What all columns of a writer share. */
struct parquet_work {
    void *zstd;
    struct kymo_buf body, packed;
    uint32_t *split, *ids, *defs, *reps;
    size_t split_cap, ids_cap, defs_cap, reps_cap;
    uint64_t *values;
    size_t values_cap;
    struct parquet_index index[PARQUET_WORK_INDEXES];
    size_t index_count, index_next;
    struct parquet_made made[PARQUET_WORK_MADE];
    size_t made_count;
};

int parquet_work_init(struct parquet_work *w, int zstd_level) KYMO_MUST_CHECK;
void parquet_work_done(struct parquet_work *w);
/* Forgets the arrays of the last page, whose addresses may come again with other contents. */
void parquet_work_page(struct parquet_work *w);
/* w->body into out (appended), as one zstd frame. *raw_run as in struct parquet_chunk; NULL always tries. */
int parquet_work_compress(struct parquet_work *w, struct kymo_buf *out, unsigned *raw_run) KYMO_MUST_CHECK;

void parquet_chunk_init(struct parquet_chunk *c, const struct kymo_column *column);
void parquet_chunk_done(struct parquet_chunk *c);
void parquet_chunk_forget(struct parquet_chunk *c); /* between row groups: values and all */
void parquet_chunk_reset(struct parquet_chunk *c);  /* for the next row group */
/* One page, or several, of n rows (0 < n <= PARQUET_BATCH_MAX). */
int parquet_chunk_rows(struct parquet_chunk *c, struct parquet_work *w, const struct parquet_column *in, size_t n,
                       struct kymo_err *err) KYMO_MUST_CHECK;

size_t parquet_type_size(enum kymo_type type); /* of a scalar in memory and, bool apart, in the file */
/* Compares what min and max hold. */
int parquet_chunk_compare(const struct parquet_chunk *c, uint64_t a, uint64_t b);

/* Within the writer: pages of lists, and pages from values, for the row paths. */
int parquet_chunk_lists(struct parquet_chunk *c, struct parquet_work *w, struct parquet_index *x, const uint32_t *map,
                        struct kymo_err *err) KYMO_MUST_CHECK;
/* Definition or repetition levels with their length before them; v as for parquet_rle_append. */
int parquet_append_levels(struct kymo_buf *b, uint32_t *v, size_t n, unsigned max) KYMO_MUST_CHECK;
/* Compresses w->body into a new page. */
int parquet_chunk_add(struct parquet_chunk *c, struct parquet_work *w, struct parquet_page page) KYMO_MUST_CHECK;
int parquet_chunk_add_null(struct parquet_chunk *c, size_t rows) KYMO_MUST_CHECK;
/* The value's number in the row group's dictionary, new if need be; *ret is UINT32_MAX when the dictionary would be too
 * large. */
int parquet_chunk_local(struct parquet_chunk *c, uint32_t id, uint32_t *ret) KYMO_MUST_CHECK;
/* Forgets the numbers given since the dictionary had count, and uses it no more. */
void parquet_chunk_give_up(struct parquet_chunk *c, size_t count);
/* Dictionary values by number, n of them, without dictionary, behind what w->body has. */
int parquet_chunk_plain(struct parquet_chunk *c, struct parquet_work *w, const uint32_t *ids, size_t n,
                        enum parquet_encoding *ret) KYMO_MUST_CHECK;
void parquet_page_bound(const struct parquet_chunk *c, struct parquet_page *p, uint32_t id);

#endif
