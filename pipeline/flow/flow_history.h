/*
 * What semaphores and events of one core have been, and who made them so: finds the update that met a wait (rule:
 * driver-iface/sim/TRUTH.md). That is the oldest one since which the wait's condition has held without a break; a
 * condition that held from the start has none. Values come from the records themselves, so that a record that is
 * missing shows as a step that does not fit, and what was before it is forgotten. Not thread-safe; plain data.
 */
#ifndef KYMO_PIPELINE_FLOW_HISTORY_H
#define KYMO_PIPELINE_FLOW_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/layout.h"

#define FLOW_HISTORY_DEPTH 64 /* updates remembered of one semaphore */
#define FLOW_TARGETS 512      /* semaphores, then events */

enum flow_writer {
    FLOW_WRITER_UNKNOWN, /* an instruction, a transfer or a collective that the trace does not name */
    FLOW_WRITER_LOST,    /* not named, and records were lost nearby */
    FLOW_WRITER_INSTRUCTION,
    FLOW_WRITER_TRANSFER,
    FLOW_WRITER_COLLECTIVE,
};

struct flow_update {
    uint64_t ps;
    int64_t id, end; /* of the writer; its end in ns */
    int64_t prior;   /* the latest wait on its engine, or its trigger's, at or before it; -1: none */
    uint32_t value;  /* after the update */
    uint8_t writer;  /* enum flow_writer */
};

enum flow_prior { FLOW_PRIOR_ASSUMED, FLOW_PRIOR_KNOWN, FLOW_PRIOR_LOST };

struct flow_target {
    struct flow_update updates[FLOW_HISTORY_DEPTH];
    uint32_t count; /* ever */
    uint32_t prior; /* value before the first of them */
    uint8_t state;  /* enum flow_prior: assumed 0 where nothing tells, as at the start of an execution */
};

struct flow_history {
    struct flow_target targets[FLOW_TARGETS];
};

enum flow_met {
    FLOW_MET_BY,       /* this update */
    FLOW_MET_BEFORE,   /* the condition held from the start */
    FLOW_MET_LOST,     /* the updates that would tell are not in the trace */
    FLOW_MET_REGISTER, /* the threshold is in a register, and the instruction need not have waited */
    FLOW_MET_LONG,     /* it has held for longer than is remembered */
};

static inline unsigned flow_target_of_wait(const struct kymo_sync *s)
{
    unsigned mode = s->wait_mode & ~(unsigned)KYMO_WAIT_REGISTER;
    return (mode >= KYMO_WAIT_EVT_SET ? 256u : 0u) + s->wait_idx;
}

/* A wait that the hardware records: not none, not unordered. */
static inline bool flow_waits(const struct kymo_sync *s)
{
    return s->wait_mode != KYMO_WAIT_NONE && s->wait_mode != KYMO_WAIT_UNORDERED;
}

/* Nothing is known any more of what came before. lost: records are missing here. */
void flow_history_forget(struct flow_history *h, bool lost);
/* The semaphores and the events from first on are 0 now. */
void flow_history_clear(struct flow_history *h, unsigned first, unsigned count);
/* operand: of ADD and SUB where it is known, else NULL. */
void flow_history_update(struct flow_history *h, unsigned target, uint8_t mode, const uint32_t *operand,
                         const struct flow_update *update);
/* A wait for target was met when it had this value; since: when the instruction was issued. */
enum flow_met flow_history_met(struct flow_history *h, unsigned target, const struct kymo_sync *wait, uint32_t value,
                               uint64_t since, const struct flow_update **ret);
/* The wait that was just met flips its event, without a record. */
void flow_history_flip(struct flow_history *h, unsigned target, uint8_t wait_mode, uint64_t ps);

#endif
