/*
 * Ranks of one job that come together before each joint execution: the last to come runs it for all of them. Bounded: a
 * rank waits for the others as long as it says, then it is told how many were there. Thread-safe.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_GATHER_H
#define KYMO_DRIVER_IFACE_SIM_SIM_GATHER_H

#include <stdint.h>

#include "base/err.h"

#define SIM_GATHER_RANKS_MAX 256u

struct sim_gather;

struct sim_gather_place {
    uint64_t job; /* ranks with another number never meet */
    unsigned rank, world;
    unsigned timeout_ms;
};

struct sim_gather *sim_gather_new(void); /* NULL: out of memory */
struct sim_gather *sim_gather_free(struct sim_gather *g);
/*
 * mine stays the caller's until the call returns. When all are there, run is called once, on the thread of the last
 * one, with what each rank gave, in order of ranks; 0 or a negative errno goes to every rank. -ETIMEDOUT: not all came
 * in time; -EBUSY: that rank waits already.
 */
int sim_gather_meet(struct sim_gather *g, const struct sim_gather_place *at, void *mine,
                    int (*run)(void *ctx, void *const *all, unsigned n), void *ctx,
                    struct kymo_err *err) KYMO_MUST_CHECK;

#endif
