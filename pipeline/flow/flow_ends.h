/*
 * The latest ends of what counts one semaphore up through AXI, and whose end an update is. Ends are added in order of
 * time. Plain data.
 */
#ifndef KYMO_PIPELINE_FLOW_FLOW_ENDS_H
#define KYMO_PIPELINE_FLOW_FLOW_ENDS_H

#include <stddef.h>
#include <stdint.h>

#define FLOW_ENDS 4

/* How far an end may be from its update (G: hardware reports after the end, the simulator at it); where records of its
 * kind were lost, only an end at the very time counts. */
#define FLOW_REACH_PS 2000000u
#define FLOW_REACH_EXACT_PS 2000u

struct flow_end {
    uint64_t ps;
    int64_t id;
};

struct flow_ends {
    struct flow_end ends[FLOW_ENDS];
    uint32_t count; /* ever */
};

/* Whose end an update is. */
struct flow_found {
    int64_t id, end; /* end: ns */
    uint64_t distance;
};

static inline void flow_ends_add(struct flow_ends *e, const struct flow_end *end)
{
    e->ends[e->count++ % FLOW_ENDS] = *end;
}

static inline uint64_t flow_ends_distance(const struct flow_end *e, uint64_t ps)
{
    return e->ps < ps ? ps - e->ps : e->ps - ps;
}

/* The end next to ps, the later one of two; NULL: none within reach. */
static inline const struct flow_end *flow_ends_near(const struct flow_ends *e, uint64_t ps, uint64_t reach)
{
    const struct flow_end *best = NULL;
    for (uint32_t k = 1; k <= FLOW_ENDS && k <= e->count; k++) {
        const struct flow_end *at = &e->ends[(e->count - k) % FLOW_ENDS];
        uint64_t distance = flow_ends_distance(at, ps);
        if (distance <= reach && (!best || distance < flow_ends_distance(best, ps)))
            best = at;
    }
    return best;
}

#endif
