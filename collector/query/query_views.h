/* The SQL that makes one view per table over a directory of Parquet files. */
#ifndef KYMO_COLLECTOR_QUERY_QUERY_VIEWS_H
#define KYMO_COLLECTOR_QUERY_QUERY_VIEWS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "collector/query/query_bad.h"
#include "collector/query/query_files.h"
#include "formats/schema/schema.h"

/* Whether a file's table is among those named in a text, whatever the case of letters; NULL: all are. */
bool query_views_named(const char *named, const struct query_file *f);

/*
 * Calls run with one CREATE VIEW statement per table found in dir (query_files.h), then per table of the schema that
 * has no file. -ENOENT when dir holds no table at all. named: only tables whose names stand in it; NULL: all. bad:
 * takes tables that cannot be read, of which no view is made then; NULL: they are an error. known: tables of which it
 * is known that they cannot be read; NULL: none.
 */
int query_views_each(const char *dir, const char *named, const struct query_bad *known, struct query_bad *bad,
                     int (*run)(void *ctx, const char *sql, struct kymo_err *err), void *ctx,
                     struct kymo_err *err) KYMO_MUST_CHECK;

/* Appends the statement for a view of a table of the schema without rows. */
int query_views_nothing(struct kymo_buf *b, const struct kymo_table *table) KYMO_MUST_CHECK;

/* Appends text in quotes, each quote inside doubled, and keeps the buffer NUL-terminated. */
int query_views_quote(struct kymo_buf *b, const char *text, char quote) KYMO_MUST_CHECK;

/* DuckDB's name of a column's type. */
const char *query_views_type(enum kymo_type type);

#endif
