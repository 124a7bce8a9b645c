/* The SQL that makes one view per table over a directory of Parquet files. */
#ifndef KYMO_COLLECTOR_QUERY_QUERY_VIEWS_H
#define KYMO_COLLECTOR_QUERY_QUERY_VIEWS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "formats/schema/schema.h"

/* A table that cannot be read, and a line that says of which file, and why. */
struct query_bad_table {
    char *table, *why;
};
struct query_bad_tables {
    struct query_bad_table *items;
    size_t n, cap;
};

/*
 * Calls run with one CREATE VIEW statement per table found in dir (query_files.h), then per table of the schema that
 * has no file. -ENOENT when dir holds no table at all. named: only tables whose names stand in it; NULL: all. bad:
 * takes tables that cannot be read, of which no view is made then; NULL: they are an error.
 */
int query_views_each(const char *dir, const char *named, struct query_bad_tables *bad,
                     int (*run)(void *ctx, const char *sql, struct kymo_err *err), void *ctx,
                     struct kymo_err *err) KYMO_MUST_CHECK;
void query_views_bad_done(struct query_bad_tables *bad);

/* Appends the statement for a view of a table of the schema without rows. */
int query_views_nothing(struct kymo_buf *b, const struct kymo_table *table) KYMO_MUST_CHECK;

/* Appends text in quotes, each quote inside doubled, and keeps the buffer NUL-terminated. */
int query_views_quote(struct kymo_buf *b, const char *text, char quote) KYMO_MUST_CHECK;

/* DuckDB's name of a column's type. */
const char *query_views_type(enum kymo_type type);

#endif
