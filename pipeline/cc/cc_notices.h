/*
 * Collectives of a profile from the notices in the CC-cores' rings: a start and an end that name the op and the number
 * of the collective on its stream, so that a pair is told from its neighbours even across a loss. In order of start.
 */
#ifndef KYMO_PIPELINE_CC_CC_NOTICES_H
#define KYMO_PIPELINE_CC_CC_NOTICES_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/job.h"

struct cc_notice {
    uint64_t start_ps, end_ps; /* corrected; of the sides that are there */
    uint64_t sequence;         /* of the stream, modulo 2^26 */
    uint32_t place, node;      /* place in the node's cc_op_info */
    uint32_t ring;             /* in scan.rings */
    bool has_start, has_end;
    uint8_t reason; /* enum pair_reason */
};

/* Is this an explicit record that begins or ends a collective? */
bool cc_notice_is(const struct record *rec);
/* Those of one ring, in order of their first record; records that are no notices are counted in the ledger as such. */
int cc_notices_collect(struct job *j, size_t ring, struct spill *to, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
