/*
 * Captures from the wish to the collector. Somebody asks (the period, the control socket, the bus, a collector); each
 * rank that is meant gets a capture of its own, which goes through the states below and ends once. Belongs to the
 * loop's thread.
 *
 *   QUEUED ──► ARMED ──► RUNNING ──► SAVED ──► SPOOLED ──► SENT
 *      └─────────┴──────────┴──────────┴──────────┴──► FAILED, with a reason
 */
#ifndef KYMO_DAEMON_CAPTURES_H
#define KYMO_DAEMON_CAPTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "base/err.h"
#include "proto/hook.h"

#define CAPTURES_IDS_MAX 64 /* of one wish: ranks of a host that one request may mean */
#define CAPTURES_CORES_MAX 256

/* X(symbol, text). */
#define CAPTURES_STATES(X)                                                                                             \
    X(QUEUED, "queued")                                                                                                \
    X(ARMED, "armed")                                                                                                  \
    X(RUNNING, "running")                                                                                              \
    X(SAVED, "saved")                                                                                                  \
    X(SPOOLED, "spooled")                                                                                              \
    X(SENT, "sent")                                                                                                    \
    X(FAILED, "failed")
enum captures_state {
#define X(symbol, text) CAPTURES_##symbol,
    CAPTURES_STATES(X)
#undef X
        CAPTURES_STATE_COUNT
};
const char *captures_state_name(enum captures_state s);

/* X(symbol, text): why a capture failed. Each has one. */
#define CAPTURES_FAILURES(X)                                                                                           \
    X(REFUSED, "refused")         /* by the job's hook */                                                              \
    X(LOST, "lost")               /* it has a row of loss in the spool, with a cause of its own */                     \
    X(NOT_SPOOLED, "not-spooled") /* kymod could not hand it on; the next start may */                                 \
    X(NOT_SENT, "not-sent")       /* it left the spool without having got to a collector */                            \
    X(ENDED, "process-ended")                                                                                          \
    X(TIMED_OUT, "timed-out")                                                                                          \
    X(REPLACED, "replaced") /* by one that somebody asked for, before it began */
enum captures_failure {
#define X(symbol, text) CAPTURES_##symbol,
    CAPTURES_FAILURES(X)
#undef X
        CAPTURES_FAILURE_COUNT
};
static inline const char *captures_failure_name(enum captures_failure f)
{
    static const char *const names[CAPTURES_FAILURE_COUNT] = {
#define X(symbol, text) [CAPTURES_##symbol] = (text),
        CAPTURES_FAILURES(X)
#undef X
    };
    return f < CAPTURES_FAILURE_COUNT ? names[f] : "?";
}

struct captures;
struct config;
struct host;
struct jobs;
struct learned;
struct outbox;
struct outbox_ops;
struct own_cost;
struct rank_ops;

/* Everything pointed to stays the caller's and must outlive it. */
struct captures_config {
    uv_loop_t *loop;
    const struct config *config;
    const struct host *host;
    struct learned *learned;
    const char *learned_path; /* written when something was learned */
    const char *intake;
    struct own_cost *cost; /* NULL: nothing is shed */
};
int captures_new(const struct captures_config *config, struct captures **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* For the ranks and for the outbox, with the captures as context. */
extern const struct rank_ops captures_rank_ops;
extern const struct outbox_ops captures_outbox_ops;
/*
 * Begins: takes over what a former kymod left, lets the outbox send after that, and captures by period. Asks count from
 * here on.
 */
int captures_start(struct captures *c, struct jobs *jobs, struct outbox *outbox, struct kymo_err *err) KYMO_MUST_CHECK;
void captures_reconfigure(struct captures *c, const struct config *config);
/* Nothing more is begun; watchers hear nothing more. What is under way is found by the next kymod. */
void captures_stop(struct captures *c);
/* After jobs and outbox have gone. The loop must run once more before it is closed. NULL is fine; returns NULL. */
struct captures *captures_free(struct captures *c);

/* Which ranks, and what. Strings hold until captures_ask returns. */
struct captures_wish {
    const char *trigger; /* manifest.trigger: periodic, on-demand, collector */
    const char *request; /* manifest.request; NULL: the id of the wish's first capture */
    const char *job;     /* NULL: every job */
    uint32_t pid;        /* 0: any; else that process as this host numbers it */
    size_t ncores;       /* 0: any; else ranks with one of these logical cores */
    const uint32_t *cores;
    const char *mode;      /* NULL: the policy's; continuous, model, session */
    uint64_t step;         /* 0: the next; else the number of an execution of the step model */
    uint32_t count;        /* steps of a session; 0: the policy's */
    uint64_t duration_ms;  /* of a session; 0: by count */
    uint32_t ranks_one_in; /* 0, 1: all */
    bool wait;             /* watch is told until SENT or FAILED; else until SPOOLED or FAILED */
};

/* A change of one capture; last: it was the last word about all captures of the ask, which is gone after it. */
typedef void captures_watch(void *ctx, const char *capture_id, enum captures_state now, const char *text, bool last);

struct captures_ask; /* somebody who watches */

/*
 * Starts a capture for each rank that is meant. Fills up to CAPTURES_IDS_MAX ids and their number. watch may be NULL
 * (then *ret_ask, which may be NULL too, is not set); it is never called before this returns. -ENOENT: no rank is
 * meant; -EBUSY: all that are meant have a capture under way; -EINVAL: an unknown mode; -EPERM: switched off. When some
 * of several can and some cannot, those that can are started and err tells of the others though 0 is returned.
 */
int captures_ask(struct captures *c, const struct captures_wish *wish, captures_watch *watch, void *ctx,
                 char ids[][KYMO_HOOK_ID_MAX], size_t *ret_n, struct captures_ask **ret_ask,
                 struct kymo_err *err) KYMO_MUST_CHECK;
/* The watcher is gone: nothing more is told; the captures go on. */
void captures_unwatch(struct captures *c, struct captures_ask *ask);

/* Counters since start, for metrics and status. */
struct captures_counts {
    uint64_t asked, saved, spooled, sent, failed;
    uint64_t failed_by[CAPTURES_FAILURE_COUNT]; /* sum: failed */
    uint64_t skipped;                           /* periodic ones that were due while another was under way */
    uint64_t refused[KYMO_HOOK_REASON_COUNT];   /* by the hook's reason; NONE: one of a later hook */
    uint64_t stall_ns, bytes;                   /* cost to jobs, and what was taken over */
    uint64_t under_way;
    uint64_t ring_records_lost; /* as the collector's pipeline counted */
};
void captures_get_counts(const struct captures *c, struct captures_counts *ret);

#endif
