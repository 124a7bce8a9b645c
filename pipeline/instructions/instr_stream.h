/*
 * All instructions of a profile in order of their start: one cursor per (ring, engine) pairs starts and ends within a
 * bounded window, the cursors are merged. May be run several times over the same files with the same result.
 */
#ifndef KYMO_PIPELINE_INSTRUCTIONS_INSTR_STREAM_H
#define KYMO_PIPELINE_INSTRUCTIONS_INSTR_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/instructions/statics.h"
#include "pipeline/rings/pair.h"
#include "pipeline/rings/scan.h"
#include "pipeline/rings/timeline.h"

struct instr_event {
    uint64_t start_ps, end_ps; /* corrected; of the sides that are there */
    uint32_t row;              /* static row */
    uint32_t pc;
    uint32_t ring; /* in scan.rings */
    uint16_t wait_cycles, crc_in, crc_out;
    uint8_t pcore, engine;
    bool has_start, has_end;
    bool gap;       /* no instruction: records of this ring were lost here */
    uint8_t reason; /* enum pair_reason */
    bool has_dge;
    bool dge_group;          /* engines 16 to 31 */
    uint16_t dge_engines;    /* bitmap */
    uint16_t dge_per_engine; /* packets */
};

struct instr_stream;

int instr_stream_open(const struct input *in, const struct scan *scan, const struct statics *statics,
                      const struct timeline *timeline, struct instr_stream **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* Before the first event: leaves an engine's events and loss marks out. */
void instr_stream_skip(struct instr_stream *s, unsigned pcore, enum kymo_engine engine);
struct instr_stream *instr_stream_free(struct instr_stream *s);
void instr_stream_freep(struct instr_stream **s);
/* 1 and *ret (valid until the next call), 0 at the end, negative on failure. */
int instr_stream_next(struct instr_stream *s, const struct instr_event **ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
