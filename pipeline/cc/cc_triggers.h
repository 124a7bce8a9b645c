/*
 * Which instruction started a collective: the latest execution of its trigger (the WRITE that a
 * PSEUDO_TRIGGER_COLLECTIVE became) that was over when the collective began, each used once. A collective is not
 * triggered again before it is done. Where records of the triggering engine were lost in between, there is no answer.
 * Walks the instruction stream along with the collectives; memory is a few triggers of each op.
 */
#ifndef KYMO_PIPELINE_CC_CC_TRIGGERS_H
#define KYMO_PIPELINE_CC_CC_TRIGGERS_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/cc/cc_table.h"
#include "pipeline/job.h"

struct cc_trigger {
    uint64_t start_ps, end_ps;
    uint32_t row; /* static */
    uint8_t pcore, engine;
    bool has_start;
};

struct cc_triggers;

/* *ret NULL: no program has a trigger. */
int cc_triggers_open(const struct job *j, const struct cc_table *table, struct cc_triggers **ret,
                     struct kymo_err *err) KYMO_MUST_CHECK;
struct cc_triggers *cc_triggers_free(struct cc_triggers *t);
/* 1 and *ret, or 0. Times of calls must rise. */
int cc_triggers_find(struct cc_triggers *t, uint32_t op, uint64_t start_ps, struct cc_trigger *ret,
                     struct kymo_err *err) KYMO_MUST_CHECK;

#endif
