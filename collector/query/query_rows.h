/* Values of DuckDB's results as they are, row by row: for programs that write them in forms of their own. */
#ifndef KYMO_COLLECTOR_QUERY_QUERY_ROWS_H
#define KYMO_COLLECTOR_QUERY_QUERY_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "collector/query/query_db.h"

enum query_value_kind {
    QUERY_VALUE_NULL,
    QUERY_VALUE_BOOL,   /* integer: 0 or 1 */
    QUERY_VALUE_INT,    /* integer; beyond 64 bits it is text */
    QUERY_VALUE_FLOAT,  /* real */
    QUERY_VALUE_DOUBLE, /* real */
    QUERY_VALUE_TEXT,   /* text and len, not terminated */
    QUERY_VALUE_LIST,   /* as text: [1, 2] */
};

struct query_value {
    enum query_value_kind kind;
    int64_t integer;
    double real;
    const char *text;
    size_t len;
};

/* As struct query_sink; values are valid until row returns. */
struct query_row_sink {
    int (*begin)(void *ctx, size_t columns, const char *const *names, const enum query_type *types);
    int (*row)(void *ctx, size_t columns, const struct query_value *values);
    void *ctx;
};

/* As query_db_run. A callback's error comes back as it is; its text is then the callback's business. */
int query_rows_run(struct query_db *db, const char *sql, const struct query_row_sink *sink,
                   struct kymo_err *err) KYMO_MUST_CHECK;
/* With the types of the columns (query_types.h), before begin is called; those that DuckDB prints come as text. */
struct query_types;
int query_rows_run_typed(struct query_db *db, const char *sql, struct query_types *types,
                         const struct query_row_sink *sink, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
