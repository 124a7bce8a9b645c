/*
 * Rows of the fleet in memory, one per profile, day by day: files are many and small, and most days do not change any
 * more. A day is read again when one of its directories was written to (fleet_store renames files into them). Of one
 * fleet at a time, for the life of the process; one question at a time.
 *
 * The table is rows(profile, job, host, rank, capture_id, time_unix_ns, day, cluster, instance_type, mfu, hfu, time_s,
 * step_ns, throttled, lost, unknown, parent); day is YYYY-MM-DD.
 */
#ifndef KYMO_COLLECTOR_QUERY_FLEET_CACHE_H
#define KYMO_COLLECTOR_QUERY_FLEET_CACHE_H

#include "collector/query/serve_request.h"

/* What a question is told besides the rows. */
struct fleet_cache_told {
    size_t files;        /* that had to be read */
    bool any;            /* are there rows of any day? Then: */
    int64_t first, last; /* days since the Unix epoch */
};

/*
 * Calls ask with a connection to rows of these days at least, of which the newest are there. -ENOENT: no such
 * directory. Days that were read stay when the question is cancelled.
 */
int fleet_cache_ask(struct serve_request *q, const char *dir, int64_t from, int64_t to, struct fleet_cache_told *ret,
                    int (*ask)(struct serve_request *q, void *ctx, struct kymo_err *err), void *ctx,
                    struct kymo_err *err) KYMO_MUST_CHECK;

#endif
