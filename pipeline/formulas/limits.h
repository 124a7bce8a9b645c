/*
 * The throttling integral of one core: notices in order of start become disjoint segments, on each of which the least
 * limit of the notices that hold counts; what is lost is (1 - limit) times the segment's length, split by whether the
 * PE array was busy meanwhile (active) or not (unused). Streaming; memory does not depend on the number of notices.
 */
#ifndef KYMO_PIPELINE_LIMITS_H
#define KYMO_PIPELINE_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define LIMITS_LIVE_MAX 64 /* notices that hold at one time; the mildest beyond it are left out and counted */

struct limits_notice {
    int64_t start, end;
    double limit; /* k/n */
};

struct limits {
    /* 1 and the next notice in order of start, 0 at the end, negative on failure. */
    int (*next)(void *ctx, struct limits_notice *ret, struct kymo_err *err);
    void *ctx;
    int64_t throttled;      /* ns in which some notice held */
    double lost, busy_lost; /* ns of full speed lost: in all, and while busy */
    uint64_t left_out;
    /* inside */
    struct limits_notice pending, segment, live[LIMITS_LIVE_MAX];
    size_t live_count;
    int64_t at;
    bool has_pending, has_segment, started;
};

void limits_init(struct limits *l, int (*next)(void *, struct limits_notice *, struct kymo_err *), void *ctx);
/* Busy spans are disjoint and in order. */
int limits_busy(struct limits *l, int64_t start, int64_t end, struct kymo_err *err) KYMO_MUST_CHECK;
/* Takes all notices that are left. */
int limits_finish(struct limits *l, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
