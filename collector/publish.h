/* A directory of tables that somebody made, checked and put in its place: whole, by one rename or exchange. */
#ifndef KYMO_COLLECTOR_PUBLISH_H
#define KYMO_COLLECTOR_PUBLISH_H

#include <stdint.h>

#include "base/err.h"

#define PUBLISH_TABLES_MAX 100000

struct publish_counts {
    uint64_t tables, bytes;
};

/*
 * Publishes what is in work as place. Only regular files *.parquet that are not hidden go there, everything else is
 * removed first; each must begin as Parquet files do and end with a footer that has a schema, which tells files that
 * were cut off, and there must be one: else -EBADMSG, and nothing happens. What was at place before, a directory, is
 * under work afterwards. Durable on return.
 */
int publish_tables(const char *work, const char *place, struct publish_counts *ret,
                   struct kymo_err *err) KYMO_MUST_CHECK;

/* The first half of it: what is in work is checked, made durable and rid of all else. */
int publish_check(const char *work, struct publish_counts *ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
