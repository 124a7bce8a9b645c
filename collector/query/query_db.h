/*
 * Read-only SQL over a directory of Parquet tables, on an in-memory DuckDB. Each table of the schema is a view: over
 * its file, or over all parts of a split table, or, when there is no file, over nothing, with the schema's columns (a
 * missing file is an empty table). Files outside the directory cannot be read, nothing can be written, settings cannot
 * be changed by a query. One object per thread.
 */
#ifndef KYMO_COLLECTOR_QUERY_QUERY_DB_H
#define KYMO_COLLECTOR_QUERY_QUERY_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/options.h"

#define QUERY_COLUMNS_MAX 4096
#define QUERY_SQL_MAX (1u << 20)
#define QUERY_DIRS_MAX 8
#define QUERY_PLACES_MAX 256

struct query_bad; /* query_bad.h */

struct query_limits {
    uint64_t memory_bytes; /* 0: 512 MiB */
    unsigned threads;      /* 0: 1 */
    unsigned timeout_ms;   /* 0: none */
    const char *spill_dir; /* where sorting may put what exceeds the memory; NULL: nowhere, such a query fails */
    bool read_once;        /* files are, by and large: nothing of them is kept, which no limit of memory would hold */
    bool skip_bad;         /* a table that cannot be read is left out (query_db_bad), and no error */
    const struct query_bad *known_bad; /* with skip_bad: left out without being tried; NULL: none */
};

/* For programs: members memory and threads (uint64_t). */
#define QUERY_LIMIT_ROWS(type_)                                                                                        \
    {.name = "memory",                                                                                                 \
     .type = KYMO_OPTION_SIZE,                                                                                         \
     .arg = "BYTES",                                                                                                   \
     .def = "512M",                                                                                                    \
     .offset = offsetof(type_, memory),                                                                                \
     .help = "limit of the memory for reading tables"},                                                                \
    {                                                                                                                  \
        .name = "threads", .type = KYMO_OPTION_U64, .arg = "N", .def = "2", .min = 1, .max = 256,                      \
        .offset = offsetof(type_, threads), .help = "threads for reading tables"                                       \
    }

struct query_db;

/* -ENOENT: no such directory, or no Parquet table in it. */
int query_db_open(const char *dir, const struct query_limits *limits, struct query_db **ret,
                  struct kymo_err *err) KYMO_MUST_CHECK;
/*
 * Several: the tables of the first under their names, those of all in schemas p1, p2, ...; one has no schema. sql: only
 * tables whose names stand in it, which is most of the time that opening takes; NULL: all.
 */
int query_db_open_many(const char *const *dirs, size_t n, const char *sql, const struct query_limits *limits,
                       struct query_db **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/*
 * Without views, for statements of one's own over files in directories: the files of dirs[i] are below
 * /proc/self/fd/N with N of query_db_place, and nothing else can be read. A directory that cannot be opened is none.
 */
int query_db_open_places(const char *const *dirs, size_t n, const struct query_limits *limits, struct query_db **ret,
                         struct kymo_err *err) KYMO_MUST_CHECK;
/* Of query_db_open: 0. -1: it could not be opened. */
int query_db_place(const struct query_db *db, size_t i);
/* Tables that were left out: no view is there of them, in any schema. */
const struct query_bad *query_db_bad(const struct query_db *db);
/* From another thread: what runs ends with an error. */
void query_db_interrupt(struct query_db *db);
struct query_db *query_db_free(struct query_db *db);
void query_db_freep(struct query_db **db);

enum query_type { QUERY_TEXT, QUERY_NUMBER, QUERY_BOOL, QUERY_LIST };

/* Receives a result row by row; a callback that returns a negative errno stops the query. */
struct query_sink {
    int (*begin)(void *ctx, size_t columns, const char *const *names, const enum query_type *types);
    int (*row)(void *ctx, size_t columns, const char *const *values); /* NULL: null; lists as [1, 2] */
    void *ctx;
};

/* Runs one SELECT (or DESCRIBE, SHOW, EXPLAIN). Other statements are refused. -ETIMEDOUT, -EINVAL with DuckDB's text.
 */
int query_db_run(struct query_db *db, const char *sql, const struct query_sink *sink,
                 struct kymo_err *err) KYMO_MUST_CHECK;

/* One row of at most n integers; a null is INT64_MIN. -ENODATA when there is no row. */
int query_db_integers(struct query_db *db, const char *sql, int64_t *ret, size_t n,
                      struct kymo_err *err) KYMO_MUST_CHECK;

#endif
