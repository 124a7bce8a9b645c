/*
 * A Parquet file as kymo's own writer makes it (formats/parquet/FORMAT.md), read by row groups and pages without
 * DuckDB, which plans a statement anew for each window: of a file with hundreds of row groups that takes longer than
 * reading what the window needs. Only columns that are asked for at open are known, and no lists. Opened by one thread,
 * then shared by all; a table_reader belongs to one thread.
 */
#ifndef KYMO_FORMATS_PARQUET_READ_TABLE_FILE_H
#define KYMO_FORMATS_PARQUET_READ_TABLE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TABLE_FILE_COLUMNS_MAX 32
#define TABLE_FILE_GROUPS_MAX 65536u
#define TABLE_FILE_FOOTER_MAX (64u << 20)
#define TABLE_NULL INT64_MIN

enum table_type { TABLE_ABSENT, TABLE_I32, TABLE_I64, TABLE_F32, TABLE_F64, TABLE_TEXT };

/* Of one column in one row group. */
struct table_chunk {
    uint64_t offset; /* dictionary first, then pages */
    uint32_t size;
    uint8_t min_n, max_n;     /* 0: not known */
    const uint8_t *min, *max; /* as the file has them */
};

struct table_file {
    int fd;
    char *path;
    uint8_t *footer; /* bounds point into it */
    size_t n_columns, n_groups;
    enum table_type types[TABLE_FILE_COLUMNS_MAX]; /* TABLE_ABSENT: the file has no such column */
    bool optional[TABLE_FILE_COLUMNS_MAX];
    uint32_t *rows;             /* of each group */
    struct table_chunk *chunks; /* n_columns of each group */
};

/*
 * columns outlives the call only. -ENOTSUP: it is not of kymo's writer, or a column is a list, a bool, or not
 * compressed with zstd; -EBADMSG: it is broken.
 */
int table_file_open(const char *path, const char *const *columns, size_t n, struct table_file **ret,
                    struct kymo_err *err) KYMO_MUST_CHECK;
struct table_file *table_file_free(struct table_file *f); /* NULL is fine; returns NULL */

/* Whether some value of a whole number's column in a group can lie in from to to, ends included; true if it is not
 * known. */
bool table_file_may_have(const struct table_file *f, size_t group, size_t column, int64_t from, int64_t to);
/* The same for a text. */
bool table_file_may_have_text(const struct table_file *f, size_t group, size_t column, const char *text);
/* Least or greatest value of a whole number's column in a group; otherwise if it is not known. */
int64_t table_file_min(const struct table_file *f, size_t group, size_t column, int64_t otherwise);
int64_t table_file_max(const struct table_file *f, size_t group, size_t column, int64_t otherwise);

#endif
