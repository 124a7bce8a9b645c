/*
 * The fleet's tables on disk, <dir>/<Table>/date=YYYY-MM-DD/cluster=<name>/part-<profile>.parquet
 * (collector/fleet_store.h), as sources of statements. Names that are not of this form are passed over.
 */
#ifndef KYMO_COLLECTOR_QUERY_FLEET_FILES_H
#define KYMO_COLLECTOR_QUERY_FLEET_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define FLEET_DAY_MAX sizeof "2026-11-30"
#define FLEET_FILES_MAX 100000 /* read for one question */

/* Days since the Unix epoch, and as YYYY-MM-DD. -EINVAL: it is none. */
int fleet_day_parse(const char *text, int64_t *ret, struct kymo_err *err) KYMO_MUST_CHECK;
void fleet_day_text(int64_t day, char ret[static FLEET_DAY_MAX]);

/*
 * Appends a SELECT * over all files of a table from one day to another, or nothing where there is none; fd: the
 * directory. *n grows by the number of files. -E2BIG: more than FLEET_FILES_MAX in all.
 */
int fleet_files_source(int fd, const char *table, int64_t from, int64_t to, struct kymo_buf *sql, size_t *n,
                       struct kymo_err *err) KYMO_MUST_CHECK;
#define FLEET_MARK_NONE 1 /* before anything is told */
/*
 * What tells whether files of a table's day came, went or were exchanged, when its directories are compared: mark with
 * that added. *calm becomes false where one was written to so lately that it may be again in the same tick of the
 * clock.
 */
uint64_t fleet_files_mark(int fd, const char *table, int64_t day, uint64_t mark, bool *calm);
/* The first and the last day of a table. false: it has none. */
bool fleet_files_days(int fd, const char *table, int64_t *ret_first, int64_t *ret_last);

#endif
