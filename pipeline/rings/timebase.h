/*
 * From raw record times to a table's time: Trn1 and Inf2 correct each engine's clock by its triple, errors and records
 * through AXI stay as they are; then everything counts from the least time of any record (design, Decided: Time).
 */
#ifndef KYMO_PIPELINE_RINGS_TIMEBASE_H
#define KYMO_PIPELINE_RINGS_TIMEBASE_H

#include <stdint.h>

#include "formats/ntff/record.h"
#include "pipeline/formulas/formulas.h"
#include "pipeline/input.h"

#define TIMEBASE_TYPES 32 /* record types */
#define TIMEBASE_CC_CORES 64

struct timebase_clock {
    uint64_t init, actual_inc, expected_inc;
};

/* One ring's clocks by record type; NULL: unscaled. */
struct timebase_ring {
    const struct timebase_clock *by_type[TIMEBASE_TYPES];
};

struct timebase {
    struct timebase_clock engine[INPUT_CORES_MAX][KYMO_ENGINE_MAX];
    struct timebase_clock dma[INPUT_CORES_MAX][32];
    struct timebase_clock cc[INPUT_CORES_MAX][TIMEBASE_CC_CORES]; /* in order of their numbers */
    struct timebase_clock h2d[INPUT_CORES_MAX][KYMO_H2D_ENGINES_MAX];
    bool rescale;
    int64_t zero_ns; /* floor(first / 1000) */
};

void timebase_init(struct timebase *tb, const struct input *in);
/* Clocks of ring i of the NTFF. */
struct timebase_ring timebase_of_ring(const struct timebase *tb, const struct input *in, const struct ntff_ring *ring);
/* Clock of a physical core's Sync engine, which writes status records; NULL: unscaled. */
const struct timebase_clock *timebase_sync(const struct timebase *tb, unsigned pcore);

static inline uint64_t timebase_correct(const struct timebase_clock *c, uint64_t raw)
{
    if (!c || raw < c->init)
        return raw;
    return c->init + formulas_rescale_delta(raw - c->init, c->expected_inc, c->actual_inc);
}

static inline int64_t timebase_ns(const struct timebase *tb, uint64_t ps)
{
    return (int64_t)(ps / 1000) - tb->zero_ns;
}

#endif
