/* The SQL that makes one view per table over a directory of Parquet files. */
#ifndef KYMO_COLLECTOR_QUERY_QUERY_VIEWS_H
#define KYMO_COLLECTOR_QUERY_QUERY_VIEWS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "formats/schema/schema.h"

#define QUERY_FILES_MAX 65536

/*
 * Calls run with one CREATE VIEW statement per table found in dir (Name.parquet, Name_0.parquet ...), then per table of
 * the schema that has no file. -ENOENT when dir holds no table at all. named: only tables whose names stand in it;
 * NULL: all.
 */
int query_views_each(const char *dir, const char *named, int (*run)(void *ctx, const char *sql, struct kymo_err *err),
                     void *ctx, struct kymo_err *err) KYMO_MUST_CHECK;

/* True: a file of a table (Name.parquet, Name_0.parquet ...); *ret_len: of the table's name in it. */
bool query_views_is_table(const char *file, size_t *ret_len);

/* Appends text in quotes, each quote inside doubled, and keeps the buffer NUL-terminated. */
int query_views_quote(struct kymo_buf *b, const char *text, char quote) KYMO_MUST_CHECK;

/* DuckDB's name of a column's type. */
const char *query_views_type(enum kymo_type type);

#endif
