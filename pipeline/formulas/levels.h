/*
 * A count at each of its changes, by lane; changes are given in any order of time and come out in order at the end. Not
 * thread-safe.
 */
#ifndef KYMO_PIPELINE_FORMULAS_LEVELS_H
#define KYMO_PIPELINE_FORMULAS_LEVELS_H

#include "pipeline/spill/time_queue.h"

#define LEVELS_LANES 2

/* In order of at, at most once per instant and lane. */
typedef int (*levels_sink)(void *ctx, unsigned lane, int64_t at, int64_t value, struct kymo_err *err);

struct levels {
    struct time_queue *changes;
};

int levels_init(struct levels *l, const char *dir, struct kymo_err *err) KYMO_MUST_CHECK;
void levels_done(struct levels *l);
/* One more from `since` to `until`. */
int levels_add(struct levels *l, unsigned lane, int64_t since, int64_t until, struct kymo_err *err) KYMO_MUST_CHECK;
int levels_finish(struct levels *l, levels_sink sink, void *ctx, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
