/* Text of DuckDB's result values, chunk by chunk. */
#ifndef KYMO_COLLECTOR_QUERY_QUERY_CELL_H
#define KYMO_COLLECTOR_QUERY_QUERY_CELL_H

#include <duckdb.h>
#include <stdbool.h>

#include "base/err.h"
#include "collector/query/query_db.h"

/* Booleans, integers up to 128 bits, floats, text, and lists of these. */
bool query_cell_printable(duckdb_logical_type type);

/* Fetches every chunk of result and hands its rows to sink. All columns must be printable. */
int query_cell_stream(duckdb_result *result, const struct query_sink *sink, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
