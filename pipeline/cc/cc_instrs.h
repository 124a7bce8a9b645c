/* Instructions of all CC-cores of a profile in order of start, paired within a bounded window. */
#ifndef KYMO_PIPELINE_CC_CC_INSTRS_H
#define KYMO_PIPELINE_CC_CC_INSTRS_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/job.h"

struct cc_instr {
    uint64_t start_ps, end_ps; /* corrected; of the sides that are there */
    uint32_t pc, ring;         /* ring in scan.rings */
    uint16_t wait_cycles;
    uint8_t hint, reason; /* enum kymo_cc_instr, enum pair_reason */
    bool has_start, has_end;
};

struct cc_instrs;

int cc_instrs_open(const struct job *j, struct cc_instrs **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct cc_instrs *cc_instrs_free(struct cc_instrs *s);
/* 1 and *ret, 0 at the end. */
int cc_instrs_next(struct cc_instrs *s, struct cc_instr *ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
