/*
 * Rows of the fleet in a DuckDB in memory. Tables there: rows, one row per part (fleet_files.h), and the view
 * fleet(part, profile, job, host, rank, capture_id, time_unix_ns, day, cluster, instance_type, mfu, hfu, time_s,
 * step_ns, throttled, lost, unknown, parent); day is YYYY-MM-DD, parent the profile of many ranks of the same request,
 * whatever day that is of.
 */
#ifndef KYMO_COLLECTOR_QUERY_FLEET_ROWS_H
#define KYMO_COLLECTOR_QUERY_FLEET_ROWS_H

#include "collector/query/fleet_files.h"
#include "collector/query/serve_sql.h"

#define FLEET_CHUNK 256 /* parts read with one statement; of those that are not whole a quarter of it */

int fleet_rows_create(const struct sql *s, struct kymo_err *err) KYMO_MUST_CHECK;
/* The rows of n parts, all whole or none; fd: the fleet's directory. All of them, or an error. */
int fleet_rows_read(const struct sql *s, int fd, const struct fleet_part *const *parts, size_t n,
                    struct kymo_err *err) KYMO_MUST_CHECK;
int fleet_rows_delete(const struct sql *s, const struct fleet_part *const *parts, size_t n,
                      struct kymo_err *err) KYMO_MUST_CHECK;
/* Puts the table's rows into a new one: what was deleted takes memory until then. */
int fleet_rows_renew(const struct sql *s, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
