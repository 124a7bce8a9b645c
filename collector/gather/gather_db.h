/*
 * A DuckDB in memory for fixed statements over Parquet tables that may be hostile: one thread, a limit on memory beyond
 * which it spills to a directory, nothing but this process's own descriptors to read from and write to. Directories are
 * named by their descriptor ("/proc/self/fd/N"), so that no name of anybody's gets into a statement. Not thread-safe.
 */
#ifndef KYMO_COLLECTOR_GATHER_GATHER_DB_H
#define KYMO_COLLECTOR_GATHER_GATHER_DB_H

#include <stdint.h>

#include "base/err.h"
#include "formats/schema/schema.h"

struct gather_db;

/* dir: of the results, where a spill goes as well; stays the caller's. */
int gather_db_open(int dir, uint64_t memory, struct gather_db **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct gather_db *gather_db_free(struct gather_db *db);
void gather_db_freep(struct gather_db **db);

/* Runs statements without parameters. -ENOSPC, -ENOMEM where that is the reason, else -EINVAL; the text is DuckDB's. */
int gather_db_script(struct gather_db *db, const char *sql, struct kymo_err *err) KYMO_MUST_CHECK;
/* Runs one with parameters ?: t text (NULL is null), i int64_t, d double. */
int gather_db_run(struct gather_db *db, struct kymo_err *err, const char *sql, const char *types, ...) KYMO_MUST_CHECK;
/* Rows of n columns of text, NULL for null; valid during the call. Ends at a negative return of each, and gives it. */
int gather_db_rows(struct gather_db *db, const char *sql, size_t n,
                   int (*each)(void *ctx, const char *const *values, struct kymo_err *err), void *ctx,
                   struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * Makes a table's name a view of the table in a directory (Name.parquet, or Name_0.parquet and so on) with exactly the
 * schema's columns and types: those that a file lacks are null, values that do not fit are. A table without file is an
 * empty view. 1: there is a file, 0: there is none.
 */
int gather_db_view(struct gather_db *db, int dir, const struct kymo_table *table, struct kymo_err *err) KYMO_MUST_CHECK;
/*
 * Writes the rows of a query as a table of the schema into the directory of results; columns that the query has not
 * are null, required ones hold the schema's empty value instead. No file when there is no row. front: more columns in
 * front, such as "profile, job", or "".
 */
int gather_db_write(struct gather_db *db, const struct kymo_table *table, const char *front, const char *query,
                    struct kymo_err *err) KYMO_MUST_CHECK;

#endif
