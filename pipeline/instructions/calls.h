/*
 * Which call of a compiler's function an instruction belongs to (modular_flow_invocation_idx). Nothing in a trace says
 * it, so it is counted: an engine that comes to a function's code from other code begins a call of it, and slot 0 of
 * its image, where an execution begins, begins the count anew. Code outside functions, number 0, is call 0. Class G.
 * Not thread-safe.
 */
#ifndef KYMO_PIPELINE_INSTRUCTIONS_CALLS_H
#define KYMO_PIPELINE_INSTRUCTIONS_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/input.h"

#define CALLS_MAX 64 /* told apart; later ones count as the last of them */

struct calls_engine {
    uint16_t last;   /* function of the instruction before */
    uint8_t *counts; /* calls so far, by function; NULL: none yet */
};

struct calls { /* zeroed: nothing ran */
    struct calls_engine engines[INPUT_NODES_MAX][INPUT_CORES_MAX][KYMO_ENGINE_MAX];
    bool folded; /* some call counted as the last of CALLS_MAX */
};

void calls_done(struct calls *c);
/* The next instruction of an engine, in order. *ret: its call, below CALLS_MAX. 0 or -ENOMEM. */
int calls_next(struct calls *c, uint32_t node, unsigned pcore, enum kymo_engine engine, uint16_t function, int64_t slot,
               uint32_t *ret) KYMO_MUST_CHECK;

#endif
