/*
 * What the static rows say of dependencies: waits and updates, PSUM banks, loops, and which instructions a compiler
 * edge leaves and enters. Found once, before any event. Immutable after opening.
 *
 * Compiler edges stand between BIR instructions, of which one may have become several machine instructions (weights and
 * matmul, two passes of FP32, a wait of its own). Ours (G): an edge leaves one of them (flow_compiler.h says which) and
 * enters each, semaphore instructions left out unless there is nothing else, and those of other engines than the first
 * too. Both ends lie on one core.
 *
 * Loops are found from backward branches of the image. Bodies on different engines are one loop when they branch on the
 * same condition and their BIR numbers overlap or follow each other with nothing outside of loops between (G: BIR
 * numbers grow along the program, and a body is a stretch of it).
 */
#ifndef KYMO_PIPELINE_FLOW_FLOW_STATIC_H
#define KYMO_PIPELINE_FLOW_FLOW_STATIC_H

#include "arch/layout.h"
#include "pipeline/instructions/statics.h"

#define FLOW_NONE UINT32_MAX

enum flow_type { /* Flow.dependency_type */
                 FLOW_TYPE_FLOW,
                 FLOW_TYPE_ANTI,
                 FLOW_TYPE_OUTPUT,
                 FLOW_TYPE_ORDERED,
                 FLOW_TYPE_DMA_TRIGGER,
                 FLOW_TYPE_DMA_WAIT,
                 FLOW_TYPE_SEMAPHORE,
                 FLOW_TYPE_SAME_PSUM_BANK,
                 FLOW_TYPE_MAX
};
const char *flow_type_name(enum flow_type t);

enum flow_table { FLOW_INSTRUCTION, FLOW_TRANSFER, FLOW_COLLECTIVE, FLOW_TABLES }; /* where an edge begins or ends */
const char *flow_table_name(enum flow_table t);                                    /* as Flow.in_table has it */
/* Of an edge to an instruction from what met its wait. */
static inline enum flow_type flow_wait_type(enum flow_table from)
{
    return from == FLOW_TRANSFER ? FLOW_TYPE_DMA_WAIT : FLOW_TYPE_SEMAPHORE;
}

enum flow_accumulate { FLOW_ACC_NONE, FLOW_ACC_BEGIN, FLOW_ACC_CONTINUE };

struct flow_row { /* one static row */
    struct kymo_sync sync[2];
    uint32_t loop; /* 0: none; rows of one loop run equally often */
    uint32_t preds, pred_count;
    uint32_t tail;         /* edges leave it: number of its BIR instruction among those; FLOW_NONE */
    int16_t dma_semaphore; /* of a DMA with descriptors made at run time; -1 */
    int16_t writes;        /* WRITE to a semaphore: 256 * its core + its number; -1: none */
    uint16_t clear_first, clear_count;
    uint8_t sets; /* of sync */
    uint8_t pcore, engine;
    uint8_t psum_read, psum_write, accumulate;
    bool known; /* its operands are */
};

struct flow_pred {
    uint32_t tail;
    uint8_t type;     /* enum flow_type */
    bool comes_later; /* in the program: within a loop, the edge comes from the round before */
};

struct flow_static {
    struct flow_row *rows; /* as statics.rows */
    size_t count;
    struct flow_pred *preds;
    size_t pred_count, pred_cap;
    uint32_t *tail_loop; /* by tail */
    size_t tail_count;
    uint64_t unknown_kinds; /* edges of a kind that no fact names */
    uint64_t beyond;        /* edges left out because an instruction has too many */
    bool has_debug;
};

struct input;
int flow_static_open(struct flow_static *f, const struct input *in, const struct statics *statics,
                     struct kymo_err *err) KYMO_MUST_CHECK;
void flow_static_done(struct flow_static *f);
/* The semaphore that a transfer of a block counts up; -1: not known. */
int flow_static_block_semaphore(const struct dma_queues *q, uint32_t block);

#endif
