/* What is read of each table of events. Part of serve_own. */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_OWN_EVENTS_H
#define KYMO_COLLECTOR_QUERY_SERVE_OWN_EVENTS_H

#include "collector/query/serve_own.h"

/* Where each table has the times. */
enum { SERVE_OWN_C_START = 1, SERVE_OWN_C_END };

struct serve_own_source {
    const char *table;
    const char *const *columns;
    size_t n;
};

/* Of a table; empty for the levels. */
const struct serve_own_source *serve_own_source_of(enum serve_own_table table);
/* By the schema: a file may lack a column. */
bool serve_own_is_text(const struct serve_own_source *s, size_t column);
/* Those of series. */
int serve_own_open_samples(struct serve_own *o, const struct query_files *files, const char *place,
                           struct kymo_err *err) KYMO_MUST_CHECK;
/* Where the events of a kind are; -1: not among these tables. */
int serve_own_table_of(enum serve_kind kind);

#endif
