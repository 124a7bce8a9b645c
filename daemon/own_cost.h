/*
 * What kymod itself costs the host, held against what the operator allows. Beyond the limits work is shed rung by rung,
 * and taken up again rung by rung once the cost has fallen to half of them. Belongs to the loop's thread.
 *
 *   ALL ──► LONGER ──► NO_PERIODIC ──► ON_DEMAND_ONLY      one rung for each window over a limit
 *       ◄──        ◄──             ◄──                     one rung for each window below half of all limits
 *
 * Sources: getrusage(2), write_bytes of /proc/self/io, /proc/self/statm.
 */
#ifndef KYMO_DAEMON_OWN_COST_H
#define KYMO_DAEMON_OWN_COST_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "base/err.h"

#define OWN_COST_EVERY_MS 10000
#define OWN_COST_WINDOW_MS 60000
#define OWN_COST_STRETCH 4 /* times the period, on the rung LONGER */

/* X(symbol, text). */
#define OWN_COST_RUNGS(X)                                                                                              \
    X(ALL, "everything")                                                                                               \
    X(LONGER, "longer periods")                                                                                        \
    X(NO_PERIODIC, "no periodic captures")                                                                             \
    X(ON_DEMAND_ONLY, "captures on demand only")
enum own_cost_rung {
#define X(symbol, text) OWN_COST_##symbol,
    OWN_COST_RUNGS(X)
#undef X
        OWN_COST_RUNG_COUNT
};
const char *own_cost_rung_name(enum own_cost_rung r);

/* 0: no limit. */
struct own_cost_limits {
    double cpu_percent; /* of one core */
    uint64_t disk_bytes_s, net_bytes_s;
};

/* Totals since the process began. */
struct own_cost_sample {
    uint64_t mono_ns, cpu_ns, rss_bytes;
    uint64_t written_bytes; /* by this process, to disk */
    uint64_t taken_bytes;   /* captures taken over, which others wrote for us */
    uint64_t sent_bytes;    /* to the network */
};

struct own_cost_ops {
    /* Fills in taken_bytes and sent_bytes. May be NULL. */
    void (*count)(void *ctx, struct own_cost_sample *s);
    /* Another rung; text says why, with the figures. Each call is one decision to be logged. */
    void (*changed)(void *ctx, enum own_cost_rung now, const char *text);
};

struct own_cost;

/* Measures every OWN_COST_EVERY_MS from a timer that does not keep the loop alive. ops is not copied. */
int own_cost_new(uv_loop_t *loop, const struct own_cost_limits *limits, const struct own_cost_ops *ops, void *ctx,
                 struct own_cost **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* The loop must run once more before it is closed. NULL is fine; returns NULL. */
struct own_cost *own_cost_free(struct own_cost *c);
void own_cost_set_limits(struct own_cost *c, const struct own_cost_limits *limits);

enum own_cost_rung own_cost_rung(const struct own_cost *c);
/* Whether a capture for this trigger (manifest.trigger) may be taken now; else *ret_why, which may be NULL, says why.
 */
bool own_cost_allows(const struct own_cost *c, const char *trigger, const char **ret_why);
/* The same for the period's turns, of which the rung LONGER takes one in OWN_COST_STRETCH. */
bool own_cost_allows_turn(const struct own_cost *c, uint64_t turn, const char **ret_why);
/* So many captures were not begun. */
void own_cost_shed(struct own_cost *c, uint64_t captures);

struct own_cost_figures {
    struct own_cost_sample last; /* measured now */
    double cpu_percent;          /* of one core, over the window; as the two below */
    uint64_t disk_bytes_s, net_bytes_s;
    struct own_cost_limits limits;
    enum own_cost_rung rung;
    char why[KYMO_ERR_TEXT_MAX];             /* of the last decision; "": there was none */
    uint64_t decisions[OWN_COST_RUNG_COUNT]; /* by the rung gone to */
    uint64_t skipped[OWN_COST_RUNG_COUNT];   /* captures that were not begun, by rung */
};
void own_cost_get(struct own_cost *c, struct own_cost_figures *ret);

/* The parts beneath, for tests. */
int own_cost_measure(struct own_cost_sample *ret, struct kymo_err *err) KYMO_MUST_CHECK;
void own_cost_add(struct own_cost *c, const struct own_cost_sample *s);

#endif
