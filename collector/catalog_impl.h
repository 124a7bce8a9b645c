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

/* 1: there is another row; 0: there is none. */
int catalog_step(struct catalog *c, sqlite3_stmt *s, struct kymo_err *err) KYMO_MUST_CHECK;

/* A profile's columns, from profiles p and captures c, and what they are read with. */
#define CATALOG_PROFILE_COLUMNS_N 32
#define CATALOG_PROFILE_COLUMNS                                                                                        \
    "p.name, p.capture, p.file, p.file_index, p.vnc, p.file_size, c.job, c.host, c.rank, p.state, p.reason,"           \
    " coalesce(p.file_offset,-1), p.stage, p.done, p.total, p.attempts, p.received_ns, p.queued_ns, p.started_ns,"     \
    " p.finished_ns, p.processor, p.schema_version, p.records, p.tables, p.bytes, c.kind='ranks', c.request, p.fleet," \
    " p.fleet_reason, coalesce(nullif(c.start_unix_ns, 0), c.received_ns), c.owner, p.pinned"
/* The same for captures, from captures c and capture_states s. */
#define CATALOG_CAPTURE_COLUMNS_N 19
#define CATALOG_CAPTURE_COLUMNS                                                                                        \
    "c.id, s.state, c.reason, c.files, c.bytes, c.job, c.host, c.rank, c.mode, c.trigger, c.first_execution,"          \
    " c.execution_count, c.start_unix_ns, c.end_unix_ns, c.received_ns, c.instance_type, c.driver_version,"            \
    " c.runtime_version, c.writer"
void catalog_read_capture(sqlite3_stmt *s, struct catalog_capture *capture);
void catalog_read_profile(sqlite3_stmt *s, struct catalog_profile *p);

#endif
