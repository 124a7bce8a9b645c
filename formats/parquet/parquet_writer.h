/*
 * Writes one table as Parquet: dictionary with RLE/bit-packing, DELTA_BINARY_PACKED or PLAIN by column, zstd,
 * statistics, page index, sorting columns, key-value metadata. Rows come in batches of columns. A file is written under
 * a temporary name and renamed to its own by finish, which syncs file and directory. Not thread-safe; use one writer
 * per table and thread.
 *
 * Three ways to give a column's batch (struct parquet_column):
 *  values   n values of the column's C type (int64_t, int32_t, float, double, uint8_t for bool); valid NULL means all
 * valid; index    n dictionary ids from parquet_writer_*_id, UINT32_MAX for null: any type, the only way for strings
 * and lists; index + map  n ids of the caller's own (for instance a program counter's static id); column value =
 * map[index[i]], map holding dictionary ids of this column. Many columns can share one index: this is the fast way. The
 * array is taken apart once, a column's work is by distinct id, and columns that split the rows alike share encoded
 * pages. Batches of PARQUET_BATCH_MAX rows become pages as they are; batches below half of it are copied together
 * first. The table's sort column is declared for row groups where it was given by value and did ascend without nulls.
 */
#ifndef KYMO_FORMATS_PARQUET_PARQUET_WRITER_H
#define KYMO_FORMATS_PARQUET_PARQUET_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "formats/schema/schema.h"

#define PARQUET_BATCH_MAX 65536
#define PARQUET_NULL UINT32_MAX
#define PARQUET_STRING_MAX (1u << 20)

struct parquet_writer;

struct parquet_options {
    uint64_t rows_per_group; /* 0: 131,072, so that a look at a window reads little beside it */
    int zstd_level;          /* 0: 1 */
    uint64_t split_rows;     /* > 0: Name_0.parquet, Name_1.parquet, ... of at most that many rows; 0: Name.parquet */
    const char *const *kv;   /* key, value, key, value, ..., NULL; copied */
};

struct parquet_column {
    const void *values;
    const uint8_t *valid; /* 1 valid, 0 null, per row; with values only */
    const uint32_t *index;
    const uint32_t *map;
    size_t map_len; /* must be given with map: an id beyond is -EINVAL */
};

/* No file appears before the first row: a table without rows has no file. dir must exist. */
int parquet_writer_open(const char *dir, const struct kymo_table *table, const struct parquet_options *opt,
                        struct parquet_writer **ret, struct kymo_err *err) KYMO_MUST_CHECK;

/* Dictionary ids of a column: interned, stable for the writer's life, valid over splits and row groups. PARQUET_NULL on
 * failure (err set). */
uint32_t parquet_writer_string_id(struct parquet_writer *w, unsigned column, const char *s, size_t len,
                                  struct kymo_err *err);
uint32_t parquet_writer_int_id(struct parquet_writer *w, unsigned column, int64_t v, struct kymo_err *err);
uint32_t parquet_writer_float_id(struct parquet_writer *w, unsigned column, double v, struct kymo_err *err);
uint32_t parquet_writer_list_id(struct parquet_writer *w, unsigned column, const int64_t *v, size_t n,
                                struct kymo_err *err);
uint32_t parquet_writer_string_list_id(struct parquet_writer *w, unsigned column, const char *const *v, size_t n,
                                       struct kymo_err *err);

/* Forgets what a column has seen: numbers given for it before are void. For columns whose values hardly repeat, which
 * would fill the memory. False, and nothing is forgotten, but between two row groups: after a multiple of
 * rows_per_group rows. */
bool parquet_writer_forget(struct parquet_writer *w, unsigned column);

/* columns: table->column_count entries; one left {0} is all null (-EINVAL when the column is required). n <=
 * PARQUET_BATCH_MAX. */
int parquet_writer_batch(struct parquet_writer *w, const struct parquet_column *columns, size_t n,
                         struct kymo_err *err) KYMO_MUST_CHECK;

uint64_t parquet_writer_rows(const struct parquet_writer *w);
/* Writes the footer, syncs, closes, frees w whatever the result. */
int parquet_writer_finish(struct parquet_writer *w, struct kymo_err *err) KYMO_MUST_CHECK;
/* Removes what was written, frees w. NULL is fine. */
struct parquet_writer *parquet_writer_discard(struct parquet_writer *w);

/* Row-at-a-time helper for small tables: values are given one by one, null where not set; flushes by itself. */
struct parquet_row;
int parquet_row_open(const char *dir, const struct kymo_table *table, const struct parquet_options *opt,
                     struct parquet_row **ret, struct kymo_err *err) KYMO_MUST_CHECK;
void parquet_row_int(struct parquet_row *r, unsigned column, int64_t v); /* int64, int32, bool */
void parquet_row_real(struct parquet_row *r, unsigned column, double v);
void parquet_row_string(struct parquet_row *r, unsigned column, const char *s); /* NULL: null */
void parquet_row_list(struct parquet_row *r, unsigned column, const int64_t *v, size_t n);
void parquet_row_string_list(struct parquet_row *r, unsigned column, const char *const *v, size_t n);
/* Ends the row. Required columns not set take the schema's empty value. First failure sticks and is reported here and
 * by finish. */
int parquet_row_end(struct parquet_row *r, struct kymo_err *err) KYMO_MUST_CHECK;
uint64_t parquet_row_count(const struct parquet_row *r);
int parquet_row_finish(struct parquet_row *r, struct kymo_err *err) KYMO_MUST_CHECK;
struct parquet_row *parquet_row_discard(struct parquet_row *r);

#endif
