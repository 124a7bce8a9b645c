/*
 * The fleet's tables on disk, <dir>/<Table>/date=YYYY-MM-DD/cluster=<name>/part-<profile>.parquet
 * (collector/fleet_store.h). Names that are not of this form are passed over.
 */
#ifndef KYMO_COLLECTOR_QUERY_FLEET_FILES_H
#define KYMO_COLLECTOR_QUERY_FLEET_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define FLEET_DAY_MAX sizeof "2026-11-30"
#define FLEET_PARTS_MAX 100000 /* of a day */

/* Days since the Unix epoch, and as YYYY-MM-DD. -EINVAL: it is none. */
int fleet_day_parse(const char *text, int64_t *ret, struct kymo_err *err) KYMO_MUST_CHECK;
void fleet_day_text(int64_t day, char ret[static FLEET_DAY_MAX]);

/* What a question needs: one table that has it all, or, of older collectors, five. */
enum fleet_table {
    FLEET_PROFILE,
    FLEET_SUMMARY,
    FLEET_METADATA,
    FLEET_EXECUTIONS,
    FLEET_THROTTLES,
    FLEET_LOSSES,
    FLEET_TABLES
};
extern const char *const fleet_tables[FLEET_TABLES];

/* Rows of one profile on one day. */
struct fleet_part {
    char *key;      /* date=.../cluster=.../part-...parquet, below each table */
    uint64_t stamp; /* another when its files are */
    bool whole;     /* FLEET_PROFILE has it */
};

struct fleet_parts {
    struct fleet_part *list; /* by key */
    size_t n, cap;
};

/* fd: the directory. -E2BIG: more than FLEET_PARTS_MAX. What was in ret is not looked at. */
int fleet_files_list(int fd, int64_t day, struct fleet_parts *ret, struct kymo_err *err) KYMO_MUST_CHECK;
void fleet_parts_done(struct fleet_parts *p);
/* Is there a file of a table? */
bool fleet_files_has(int fd, enum fleet_table table, const char *key);

/*
 * What tells whether files of a day came, went or were exchanged, when its directories are compared; never 0. *calm
 * becomes false where one was written to so lately that it may be again in the same tick of the clock.
 */
uint64_t fleet_files_mark(int fd, int64_t day, bool *calm);
/* The first and the last day that there is. false: there is none. */
bool fleet_files_days(int fd, int64_t *ret_first, int64_t *ret_last);

#endif
