/* Statements with bound values on one DuckDB connection, row by row. Texts of statements are ours; values are bound. */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_SQL_H
#define KYMO_COLLECTOR_QUERY_SERVE_SQL_H

#include <duckdb.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "collector/query/query_rows.h"

#define SERVE_SQL_COLUMNS_MAX 32

/* Text when text is given, else a number. */
struct sql_bind {
    const char *text;
    int64_t number;
};
#define SQL_INT(v) ((struct sql_bind){.number = (v)})
#define SQL_TEXT(v) ((struct sql_bind){.text = (v)})

/* Columns must be BIGINT, DOUBLE or VARCHAR: statements cast to these. */
struct sql_cell {
    bool null;
    int64_t i;
    double f;
    const char *text; /* not terminated; valid until row returns */
    size_t len;
};

typedef int (*sql_row)(void *ctx, const struct sql_cell *cells, struct kymo_err *err);

/* *stop is read between chunks: true ends the statement with -ECANCELED. NULL: nothing stops it. */
struct sql {
    duckdb_connection connection;
    const volatile bool *stop;
};

/* -EINVAL with DuckDB's text; a row's error ends it and comes back. row NULL: the result is dropped. */
int sql_run(const struct sql *s, const char *text, const struct sql_bind *binds, size_t n, sql_row row, void *ctx,
            struct kymo_err *err) KYMO_MUST_CHECK;
/* The rows of one SELECT without values, whatever its columns. A callback's error comes back as it is. */
int sql_rows(const struct sql *s, const char *text, const struct query_row_sink *sink,
             struct kymo_err *err) KYMO_MUST_CHECK;
/* One row of at most n numbers; a null is INT64_MIN, and so is all of a row that is not there. */
int sql_numbers(const struct sql *s, const char *text, const struct sql_bind *binds, size_t n_binds, int64_t *ret,
                size_t n, struct kymo_err *err) KYMO_MUST_CHECK;
/*
 * The rows as objects, keys being columns: text is any SELECT. At most max of them; *more says whether there were more
 * (NULL: nobody asks).
 */
int sql_objects(const struct sql *s, const char *text, const struct sql_bind *binds, size_t n, size_t max, json_t **ret,
                bool *more, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
