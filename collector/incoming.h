/*
 * Captures in raw/incoming: those that are under way, and those that wait for their sender to go on. The latter are
 * forgotten when they have waited for too long, or, oldest first, when others need their room: their senders have them
 * still. What is under way never is; one that finds no room must come later. A crash on the way leaves a capture that
 * can be gone on with, or whose removal raw_store_open ends. Not thread-safe: the store's thread's.
 */
#ifndef KYMO_COLLECTOR_INCOMING_H
#define KYMO_COLLECTOR_INCOMING_H

#include "collector/catalog.h"
#include "collector/raw_store.h"

#define INCOMING_CAPTURES_MAX 65536 /* that wait or are under way */
#define INCOMING_CAPTURE_BYTES                                                                                         \
    (16u << 10) /* counted for each capture besides its files: directories, manifest, its place here */
#define INCOMING_STILL_MS                                                                                              \
    60000 /* its sender may be on its way back: so long nobody else gets the room of a capture                         \
           */

enum incoming_cause { INCOMING_AGE, INCOMING_ROOM, INCOMING_CAUSE_MAX };

struct incoming_forgotten {
    const char *id, *source; /* source: who sent it, "" if not known */
    uint64_t bytes, idle_ms;
    enum incoming_cause cause;
};

/* 0: no limit; still_ms 0: INCOMING_STILL_MS. */
struct incoming_limits {
    uint64_t max_age_ms;     /* without a byte or an offer */
    uint64_t max_bytes;      /* in all; what is under way counts with what it will be */
    uint64_t max_host_bytes; /* of one source */
    uint64_t still_ms;
};

struct incoming_config {
    struct incoming_limits limits;
    /* On the store's thread. May be NULL. */
    void (*forgot)(void *ctx, const struct incoming_forgotten *f);
    void *ctx;
};

struct incoming_figures {
    uint64_t captures, bytes;
};

struct incoming;

/* Looks at what is there. raw and catalog must outlive it. */
int incoming_new(struct raw_store *raw, struct catalog *catalog, struct incoming **ret,
                 struct kymo_err *err) KYMO_MUST_CHECK;
struct incoming *incoming_free(struct incoming *in); /* NULL is fine; returns NULL */
void incoming_configure(struct incoming *in, const struct incoming_config *config);

/* The capture is offered: until released it is not forgotten. -ENOSPC: there are too many. */
int incoming_hold(struct incoming *in, const char *id, const char *source, struct kymo_err *err) KYMO_MUST_CHECK;
/* It begins, and its files will take so many bytes. Those that wait make room. -EBUSY: its host has no room left;
 * -ENOSPC: nobody has. It stays held. */
int incoming_admit(struct incoming *in, const char *id, uint64_t bytes, struct kymo_err *err) KYMO_MUST_CHECK;
/* It is published, or waits from now on. */
void incoming_release(struct incoming *in, const char *id);
/* Forgets what has waited for too long. To be called now and then. An error is about what could not be removed, which
 * is tried again. */
int incoming_turn(struct incoming *in, struct kymo_err *err) KYMO_MUST_CHECK;
void incoming_figures(const struct incoming *in, struct incoming_figures *ret);

#endif
