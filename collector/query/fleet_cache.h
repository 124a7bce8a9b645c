/*
 * Rows of the fleet in memory, one per profile, day by day: files are many and small, and most do not change any more.
 * A day whose directories were written to (fleet_store renames files into them) is looked through again, and of it what
 * is new or another is read. Of one fleet at a time, for the life of the process; one question at a time, but while
 * files are read, which may take long, others come in between.
 */
#ifndef KYMO_COLLECTOR_QUERY_FLEET_CACHE_H
#define KYMO_COLLECTOR_QUERY_FLEET_CACHE_H

#include "collector/query/fleet_rows.h"
#include "collector/query/serve_request.h"

#define FLEET_WAIT_ALL (-1) /* until all is read */

/* What a question is told besides the rows. */
struct fleet_cache_told {
    size_t files;        /* profiles that had to be read */
    size_t left, of;     /* profiles of these days that are not read yet, and all of them */
    size_t unreadable;   /* of these days */
    bool any;            /* are there rows of any day? Then: */
    int64_t first, last; /* days since the Unix epoch */
};

/*
 * Calls ask with a connection to the view fleet (fleet_rows.h) with the rows of these days at least: those that have
 * been read when wait_ms are over, the newest days first. -ENOENT: no such directory. What was read stays when the
 * question is cancelled.
 */
int fleet_cache_ask(struct serve_request *q, const char *dir, int64_t from, int64_t to, int64_t wait_ms,
                    struct fleet_cache_told *ret, int (*ask)(struct serve_request *q, void *ctx, struct kymo_err *err),
                    void *ctx, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
