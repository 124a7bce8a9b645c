/*
 * Collectives as dependencies need them: which one an instruction started, and which one's end it was that counted a
 * semaphore up through AXI. The CC-core that does it is in no record of the semaphore; the trigger in the NEFF names
 * the semaphore, and the notice of the collective's end tells when. Collectives are taken first; after the seal,
 * instructions and updates are asked for in order of time. Memory is bounded. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_FLOW_FLOW_CC_H
#define KYMO_PIPELINE_FLOW_FLOW_CC_H

#include "pipeline/consumer.h"
#include "pipeline/flow/flow_ends.h"

struct flow_collective {
    int64_t id, start, end; /* ns */
};

struct flow_cc;

int flow_cc_open(const struct job *j, struct flow_cc **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct flow_cc *flow_cc_free(struct flow_cc *c);
int flow_cc_collective(struct flow_cc *c, const struct consumer_collective *one, struct kymo_err *err) KYMO_MUST_CHECK;
int flow_cc_seal(struct flow_cc *c, struct kymo_err *err) KYMO_MUST_CHECK;
/* 1 and the collective that this instruction started, or 0. */
int flow_cc_started(struct flow_cc *c, const struct instr_row *row, struct flow_collective *ret,
                    struct kymo_err *err) KYMO_MUST_CHECK;
/* 1 and the collective whose end counted a core's semaphore up at ps, or 0. */
int flow_cc_find(struct flow_cc *c, unsigned pcore, unsigned semaphore, uint64_t ps, struct flow_found *ret,
                 struct kymo_err *err) KYMO_MUST_CHECK;
/* Collectives count this semaphore up, and records of some were lost. */
bool flow_cc_lost(const struct flow_cc *c, unsigned pcore, unsigned semaphore);

#endif
