/*
 * Static rows: everything about an executed instruction that depends on its program counter alone, found once per
 * (NEFF, core, engine, pc) that occurs in the trace. The row loop then passes one number per row; the text columns are
 * dictionary ids behind it.
 */
#ifndef KYMO_PIPELINE_INSTRUCTIONS_STATICS_H
#define KYMO_PIPELINE_INSTRUCTIONS_STATICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/dma/dma_queues.h"
#include "pipeline/instructions/program.h"
#include "pipeline/rings/scan.h"

#define STATICS_MAX (1u << 24)

enum statics_trigger { STATICS_NO_TRIGGER, STATICS_TRIGGER_BLOCK, STATICS_TRIGGER_DYNAMIC };

struct static_row {
    const struct program *program; /* NULL: no image for this engine */
    int64_t slot;                  /* -1: the pc is outside the image */
    uint32_t pc;                   /* as in the trace */
    uint8_t pcore, engine, opcode;
    bool known;          /* the opcode is known */
    bool setup;          /* left out of total_exec_time */
    uint8_t trigger;     /* enum statics_trigger */
    uint32_t set, block; /* of the trigger; DMA_NONE */
    uint32_t copy;       /* of a dynamic one; DMA_NONE: its variables are not known */
};

/* What the operands say, and for triggers the block. */
struct static_facts {
    struct kymo_footprint footprint;
    bool has_layout; /* byte counts and elements are known */
    bool transpose;
    uint64_t raw_flops, adjusted_flops, tensor_elements;
    uint64_t dma_read, dma_write; /* bytes of the triggered block, or of the copy that the operands describe */
    enum dma_memory dma_from, dma_to;
    const struct dma_block *block;
    const struct dma_set *set;
    const struct neff_debug *debug;
    const uint8_t *record, *compiler; /* NULL: not known */
};

/* Bytes that one execution moves, its transfer's included. */
struct statics_traffic {
    bool known;
    uint64_t hbm_read, hbm_write, sbuf_read, sbuf_write, psum_read, psum_write, spill_save, spill_reload;
};

struct statics_space; /* one (node, core, engine) */

struct statics {
    const struct input *in;
    struct dma_queues *queues;
    struct static_row *rows;
    size_t count, cap;
    struct statics_space *spaces;
    size_t nodes;
};

int statics_open(struct statics *s, const struct input *in, const struct programs *programs, struct dma_queues *queues,
                 const struct scan *scan, struct warnings *w, struct kymo_err *err) KYMO_MUST_CHECK;
void statics_done(struct statics *s);

/* A place in one engine's stream. */
struct statics_place {
    const struct statics_space *space;
    int64_t previous; /* last slot */
};
/* Row of a pc that occurs in the trace (a start or end record of this engine has it). */
uint32_t statics_find(const struct statics *s, struct statics_place *place, uint32_t node, unsigned pcore,
                      enum kymo_engine engine, uint32_t pc);
bool statics_is_matmul(const struct static_row *row);
/* Track of the timeline that shows the row: Tensor, TensorMatrix, Tensor(nc1). */
void statics_track(const struct statics *s, const struct static_row *row, char *out, size_t n);
/* Which memory a device address in an instruction's operands lies in. */
enum dma_memory statics_memory_at(const struct kymo_arch *arch, const uint8_t *record, enum kymo_field field);
struct statics_traffic statics_traffic(const struct static_facts *facts);
void statics_facts(const struct statics *s, const struct static_row *row, struct static_facts *ret);

#endif
