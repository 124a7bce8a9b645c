/* Values of a table_file's row groups, column by column, at the rows that are wanted. One object per thread. */
#ifndef KYMO_FORMATS_PARQUET_READ_TABLE_READER_H
#define KYMO_FORMATS_PARQUET_READ_TABLE_READER_H

#include "formats/parquet_read/table_file.h"

#define TABLE_READER_CHUNK_MAX (256u << 20)
#define TABLE_READER_PAGE_MAX (64u << 20)
#define TABLE_READER_GROUP_MAX (16u << 20) /* rows */

struct table_text {
    const char *at; /* NULL: null; not terminated */
    uint32_t n;
    uint32_t place; /* in the group's dictionary: equal places are equal texts; UINT32_MAX: not from there */
};

struct table_reader;

struct table_reader *table_reader_new(const struct table_file *f); /* f outlives it; NULL without memory */
struct table_reader *table_reader_free(struct table_reader *r);    /* NULL is fine; returns NULL */
void table_reader_freep(struct table_reader **r);

/*
 * Values of one column of a group at n rows of it, ascending; rows NULL: at all n, which are the group's. Pages without
 * such a row are not unpacked. Of a column that the file does not have all are null. -EBADMSG: the file is broken;
 * -ENOTSUP: it is packed in another way than our writer does.
 */
int table_reader_ints(struct table_reader *r, size_t group, size_t column, const uint32_t *rows, size_t n, int64_t *ret,
                      struct kymo_err *err) KYMO_MUST_CHECK; /* null: TABLE_NULL */
int table_reader_reals(struct table_reader *r, size_t group, size_t column, const uint32_t *rows, size_t n, double *ret,
                       struct kymo_err *err) KYMO_MUST_CHECK; /* null: NaN */
/* Texts stay until table_reader_forget. */
int table_reader_texts(struct table_reader *r, size_t group, size_t column, const uint32_t *rows, size_t n,
                       struct table_text *ret, struct kymo_err *err) KYMO_MUST_CHECK;
void table_reader_forget(struct table_reader *r);

#endif
