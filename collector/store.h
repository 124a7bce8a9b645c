/*
 * A store: <data-path> with its raw store, catalogue and the lock that makes one program at a time its writer. Not
 * thread-safe.
 */
#ifndef KYMO_COLLECTOR_STORE_H
#define KYMO_COLLECTOR_STORE_H

#include "collector/catalog.h"
#include "collector/incoming.h"
#include "collector/raw_store.h"

#define STORE_CLEAR_STEP (256ull << 20) /* bytes of a file that one step of store_clear gives back to the disk */
#define STORE_RESERVE_BYTES (64u << 20) /* of the file system, kept from received data */

struct work_queue;

struct store {
    char *data_path; /* absolute */
    int lock;
    struct raw_store *raw;
    struct catalog *catalog;
    struct incoming *incoming; /* without limits until incoming_configure */
    unsigned set_aside;        /* uploads that store_open could not go on with (entering.h) */
};

/*
 * Makes what is missing, and brings what a crash left to the state it would have reached: captures in the raw store but
 * not in the catalogue are added, uploads that were entering it are there, captures that nobody can resume are
 * forgotten, all that waited or was at work is queued. -EBUSY: another program has it; the text names its process.
 */
int store_open(const char *data_path, uint64_t reserve, struct store **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct store *store_free(struct store *s);

/*
 * Removes a profile for good: its tables, its rows in the fleet's tables, and with the last profile of a capture the
 * capture's files too, but for NEFFs. user: who asks. -EALREADY: it is pinned, or being made. -EPERM: somebody else
 * uploaded it. -EBUSY: rows for the fleet are being made of it; again in a moment. A crash leaves a profile without
 * tables, which can be removed again. q: the queue of this store; NULL: there is none. *ret_left: a directory that
 * nobody needs any more, for store_clear, as fresh memory; NULL: none. Should nobody clear it, the next start does.
 */
int store_remove(struct store *s, const struct work_queue *q, const char *profile, const char *user, char **ret_left,
                 struct kymo_err *err) KYMO_MUST_CHECK;
/* Removes a directory with all in it for about so long, big files in steps. 1: there is more. 0: it is gone. */
int store_clear(const char *path, unsigned ms, struct kymo_err *err) KYMO_MUST_CHECK;

/* A capture has all its files: publishes it, adds it to the catalogue, queues its profiles. */
int store_commit(struct store *s, struct raw_capture *c, struct kymo_err *err) KYMO_MUST_CHECK;
/* The same for the upload of a user; NULL: nobody's. */
int store_commit_of(struct store *s, struct raw_capture *c, const char *owner, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
