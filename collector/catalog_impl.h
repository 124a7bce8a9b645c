/* What the files of the catalogue share. */
#ifndef KYMO_COLLECTOR_CATALOG_IMPL_H
#define KYMO_COLLECTOR_CATALOG_IMPL_H

#include <sqlite3.h>

#include "collector/catalog.h"

struct catalog {
    sqlite3 *db;
    char *path;
};

/* The error of the last call on the connection, as an errno with its text. */
int catalog_error(struct catalog *c, const char *what, struct kymo_err *err);
/* Prepares sql and binds the arguments that types names: t text (NULL is null), i int64_t. */
int catalog_prepare(struct catalog *c, sqlite3_stmt **ret, struct kymo_err *err, const char *sql, const char *types,
                    ...) KYMO_MUST_CHECK;
/* Runs one statement to its end; the number of rows it changed. */
int catalog_run(struct catalog *c, struct kymo_err *err, const char *sql, const char *types, ...) KYMO_MUST_CHECK;
/* Several statements without arguments. */
int catalog_script(struct catalog *c, const char *sql, struct kymo_err *err) KYMO_MUST_CHECK;
/* Ends a transaction: commits when r is 0, else rolls back and gives r. */
int catalog_end(struct catalog *c, int r, struct kymo_err *err) KYMO_MUST_CHECK;
void catalog_finalize(sqlite3_stmt **s);
/* A text column cut to n - 1 bytes; null is "". */
void catalog_text(sqlite3_stmt *s, int column, char *out, size_t n);

#endif
