/* What the files of kymo-query's library share. */
#ifndef KYMO_COLLECTOR_QUERY_QUERY_INTERNAL_H
#define KYMO_COLLECTOR_QUERY_QUERY_INTERNAL_H

#include <duckdb.h>

#include "collector/query/query_db.h"
#include "collector/query/query_types.h"

/* Takes all rows of a result whose columns are printable (query_cell.h). */
typedef int (*query_stream)(duckdb_result *result, const void *sink, struct kymo_err *err);

/*
 * One statement that reads, with columns that are printable. A PIVOT without IN reads its table here already. types:
 * those that the columns have before they are made printable; NULL: nobody asks.
 */
int query_db_prepare(duckdb_connection c, const char *sql, struct query_types *types, duckdb_prepared_statement *ret,
                     struct kymo_err *err) KYMO_MUST_CHECK;

/* Checks and runs one statement that reads, within the time limit. */
int query_db_stream(struct query_db *db, const char *sql, struct query_types *types, query_stream stream,
                    const void *sink, struct kymo_err *err) KYMO_MUST_CHECK;

/* All rows of a result to a struct query_row_sink. */
int query_rows_take(duckdb_result *result, const void *sink, struct kymo_err *err) KYMO_MUST_CHECK;

/* Another connection to the same views, for another thread. The caller's to disconnect. */
int query_db_connect(struct query_db *db, duckdb_connection *ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
