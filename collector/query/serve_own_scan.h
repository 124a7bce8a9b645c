/*
 * kymo_rows(table, from, to): a table function of DuckDB with the rows of kymo's own files that touch a window, for
 * statements about few rows of a long table. DuckDB's reader looks at the bounds of all columns in all row groups for
 * each statement it plans, which takes longer than such rows themselves. Rows come in the file's order, on one thread.
 */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_OWN_SCAN_H
#define KYMO_COLLECTOR_QUERY_SERVE_OWN_SCAN_H

#include <duckdb.h>

#include "collector/query/serve_own.h"

/* The directory outlives its database's connections. */
int serve_own_scan_register(const struct serve_dir *d, duckdb_connection c, struct kymo_err *err) KYMO_MUST_CHECK;
/* Whether kymo_rows reads this table: the file is kymo's own, and in the order of time. */
bool serve_own_scan_has(const struct serve_dir *d, const char *table);

#endif
