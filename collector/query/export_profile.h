/*
 * A finished directory of tables, opened for reading: which tables it holds, their columns, and the SQL that reads the
 * rows of a range of time with their tracks. No SQL of users comes here. Not thread-safe.
 */
#ifndef KYMO_COLLECTOR_QUERY_EXPORT_PROFILE_H
#define KYMO_COLLECTOR_QUERY_EXPORT_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "collector/query/export_tables.h"
#include "collector/query/query_rows.h"

#define EXPORT_NAME_MAX 128
#define EXPORT_TABLES_MAX 256

struct export_range {
    int64_t start, end; /* nanoseconds of the profile; the end is not in it */
    bool whole;         /* everything: no condition */
};

struct export_profile {
    const char *dir;
    struct query_db *db; /* NULL: somebody else's, behind run */
    bool several_cores;
    int (*run)(void *ctx, const char *sql, const struct query_row_sink *sink, struct kymo_err *err); /* one SELECT */
    void *ctx;
};

/* With a database of its own; export_profile_done is due. Others fill in what they have. */
int export_profile_open(struct export_profile *p, const char *dir, const struct query_limits *limits,
                        struct kymo_err *err) KYMO_MUST_CHECK;
void export_profile_done(struct export_profile *p);

/* True: the directory has a file of this table. */
bool export_profile_has(const struct export_profile *p, const char *table);
/* Says that it has none: -ENODATA. */
int export_profile_lacks(const struct export_profile *p, const char *table, struct kymo_err *err);
/* Appends the names of those tables in dir that are shown, by name, with ", " between them. */
int export_profile_list(const char *dir, bool (*is_shown)(const char *table), struct kymo_buf *out) KYMO_MUST_CHECK;

/* How the rows of one table are read. */
struct export_source {
    char name[EXPORT_NAME_MAX], start[EXPORT_NAME_MAX], end[EXPORT_NAME_MAX]; /* end "": instants */
    char *track;                                                              /* SQL */
    char *condition;                                                          /* SQL behind FROM: "", or WHERE ... */
    char **columns;
    size_t column_count;
    bool has_track_column;
};

/* -ENODATA: the directory has no such table. -EINVAL: it has no times. */
int export_source_open(struct export_source *s, const struct export_profile *p, const char *table,
                       const struct export_range *range, struct kymo_err *err) KYMO_MUST_CHECK;
void export_source_done(struct export_source *s);
bool export_source_has(const struct export_source *s, const char *column);

/* Whether the rows ascend by start: kymo's do. Reads the column. */
int export_source_sorted(const struct export_source *s, const struct export_profile *p, bool *ret,
                         struct kymo_err *err) KYMO_MUST_CHECK;

/* First start and last end (or instant) of a table's rows; -ENODATA: it has none. */
int export_source_span(const struct export_source *s, const struct export_profile *p, struct export_range *ret,
                       struct kymo_err *err) KYMO_MUST_CHECK;

#endif
