/* Types of a statement's columns, in DuckDB's words. */
#ifndef KYMO_COLLECTOR_QUERY_QUERY_TYPES_H
#define KYMO_COLLECTOR_QUERY_QUERY_TYPES_H

#include <duckdb.h>
#include <stddef.h>

#include "base/err.h"

struct query_types {
    char **names;
    size_t n;
};

int query_types_read(duckdb_prepared_statement statement, struct query_types *ret) KYMO_MUST_CHECK;
void query_types_done(struct query_types *t);

#endif
