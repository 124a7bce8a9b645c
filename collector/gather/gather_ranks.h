/*
 * Many profiles of one request as one: Member, ClockMap, CollectiveSkew, CollectiveArrival, with Warning, Metadata and
 * SchemaFields. Members that cannot be read are rows that say so. README.md has the rules.
 */
#ifndef KYMO_COLLECTOR_GATHER_GATHER_RANKS_H
#define KYMO_COLLECTOR_GATHER_GATHER_RANKS_H

#include "collector/gather/gather_db.h"
#include "collector/gather/gather_members.h"

struct gather_ranks {
    const struct gather_members *members;
    const char *name; /* of the parent; NULL: none */
    double drift_max; /* of a device's clock against its host's, per ns */
    /* NULL: nobody listens. Nonzero ends it, with -ECANCELED. */
    int (*progress)(void *ctx, const char *stage, uint64_t done, uint64_t total);
    void (*unreadable)(const char *member, const char *why); /* told of each that has a directory; NULL: nobody is */
    void *ctx;                                               /* of progress */
};

/* ret_rows: collectives found. -ENODATA: no member has tables that can be read. */
int gather_ranks_run(struct gather_db *db, const struct gather_ranks *g, uint64_t *ret_rows,
                     struct kymo_err *err) KYMO_MUST_CHECK;

#endif
