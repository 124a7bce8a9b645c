/*
 * Captures on their way from a connection into the store: the loop's side hands over what comes, the store's thread
 * (store_thread.h) writes, syncs, checks and publishes, and the answers come back to the loop. NEFFs that another
 * capture is bringing are waited for, so that the fleet sends each once. All functions belong to the loop's thread.
 */
#ifndef KYMO_COLLECTOR_INTAKE_H
#define KYMO_COLLECTOR_INTAKE_H

#include "collector/store_thread.h"
#include "proto/uplink.h"

#define INTAKE_SYNC_BYTES (32u << 20)  /* of one file, until it is made durable and acknowledged */
#define INTAKE_NEFF_STILL_MS 5000      /* without a byte for so long, a NEFF's bringer is not waited for */
#define INTAKE_NEFF_WAIT_MAX_MS 120000 /* nor longer than this in any case */
#define INTAKE_CLAIMS_MAX 256          /* NEFFs under way that are waited for; more come as often as they are sent */

struct intakes;
struct intake;

/* On the loop. owner is who offered; none is called after intake_end. */
struct intake_ops {
    void (*began)(void *owner, struct intake *i, const uint64_t *offsets); /* one per item: where to go on */
    void (*have)(void *owner, struct intake *i);                           /* it is stored already */
    /* The store holds n bytes no longer; also after intake_end, while the owner lives (intake_orphan). */
    void (*taken)(void *owner, struct intake *i, size_t n);
    void (*durable)(void *owner, struct intake *i, uint32_t item, uint64_t offset);
    void (*stored)(void *owner, struct intake *i);
    /* -ENOSPC: come again when there is room. -EBADMSG: a hash is wrong. What is durable stays. */
    void (*failed)(void *owner, struct intake *i, int code, const char *text);
};

struct intakes_config {
    uint64_t neff_still_ms, neff_wait_ms; /* 0: those above */
    uint64_t sync_bytes;                  /* 0: INTAKE_SYNC_BYTES */
    const struct intake_ops *ops;
    struct incoming_limits limits; /* on what waits to be gone on with */
    /* On the store's thread: a line for the log; may be NULL. level: enum kymo_log_level. */
    void (*say)(void *ctx, int level, const char *text);
    void *ctx;
};

/* What the intakes of a store share. The thread is set before the first offer and must have ended before free. */
int intakes_new(const struct intakes_config *config, struct intakes **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct intakes *intakes_free(struct intakes *all);
void intakes_set_thread(struct intakes *all, struct store_thread *t);
/* For store_thread_config.tick. */
void intakes_tick(struct intakes *all, struct store_thread *t);

/* On the store's thread: new limits. */
void intakes_limit(struct intakes *all, const struct incoming_limits *limits, struct store_thread *t);

/* What waits or is under way in raw/incoming, as of the last second, and what was forgotten since the start. */
struct intakes_figures {
    uint64_t captures, bytes, forgotten[INCOMING_CAUSE_MAX];
};
void intakes_figures(const struct intakes *all, struct intakes_figures *ret);
uint64_t intakes_bytes(const struct intakes *all); /* that the store's thread has not taken yet */
size_t intakes_open(const struct intakes *all);    /* captures that have not ended */

/* source: who sends, for the catalogue. All is copied. began, have or failed follows. */
int intake_offer(struct intakes *all, void *owner, const char *source, const Kymo__Uplink__Offer *offer,
                 struct intake **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* Copied; taken follows, whatever becomes of it. */
int intake_write(struct intake *i, uint32_t item, uint64_t offset, const void *data, size_t n,
                 struct kymo_err *err) KYMO_MUST_CHECK;
/* All has been written; stored or failed follows. */
int intake_done(struct intake *i, struct kymo_err *err) KYMO_MUST_CHECK;
/* To be called once, also after stored, have and failed; i is not the caller's any more. */
void intake_end(struct intake *i);
/* The owner goes away: nothing is called for it any more. Ended intakes included. */
void intakes_orphan(struct intakes *all, const void *owner);

const char *intake_id(const struct intake *i);
void *intake_owner(const struct intake *i); /* NULL once ended or orphaned */
/* The intake of this capture that has not ended; NULL: there is none. */
struct intake *intakes_find(const struct intakes *all, const char *id);

#endif
