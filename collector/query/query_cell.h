/* Text of DuckDB's result values, chunk by chunk. */
#ifndef KYMO_COLLECTOR_QUERY_QUERY_CELL_H
#define KYMO_COLLECTOR_QUERY_QUERY_CELL_H

#include <duckdb.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "collector/query/query_db.h"

/* Booleans, integers up to 128 bits, floats, text, and lists of these. */
bool query_cell_printable(duckdb_logical_type type);

enum query_type query_cell_kind(duckdb_type id);

/* Appends a value that is not null. */
int query_cell_print(struct kymo_buf *b, duckdb_vector v, idx_t row) KYMO_MUST_CHECK;

/* Fetches every chunk of result and hands its rows to sink. All columns must be printable. */
int query_cell_stream(duckdb_result *result, const struct query_sink *sink, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
