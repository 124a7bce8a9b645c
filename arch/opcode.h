/*
 * Opcodes: number, name, engines, generations (facts: neff.md 2.4, class C; names by the design's list Decided). The
 * rows live in arch/opcode.def, an X-macro list; a number keeps its meaning over generations.
 */
#ifndef KYMO_ARCH_OPCODE_H
#define KYMO_ARCH_OPCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"

/* Those that code must know by number; all others are only data. */
enum {
    KYMO_OP_LDWEIGHTS = 0x01,
    KYMO_OP_MATMUL = 0x02,
    KYMO_OP_LDWEIGHTS_MX = 0x09,
    KYMO_OP_MATMUL_MX = 0x0A,
    KYMO_OP_ACTIVATE = 0x21,
    KYMO_OP_ACTIVATE_QUANTIZE = 0x22,
    KYMO_OP_TENSOR_TENSOR = 0x41,
    KYMO_OP_TENSOR_REDUCE = 0x42,
    KYMO_OP_TENSOR_SCALAR = 0x43,
    KYMO_OP_COPY = 0x46,
    KYMO_OP_CAST = 0x47,
    KYMO_OP_MEMSET = 0x49,
    KYMO_OP_IOTA = 0x7E,
    KYMO_OP_CUSTOM_OP_PAYLOAD = 0x86,
    KYMO_OP_EVENT_SEMAPHORE = 0xA0,
    KYMO_OP_HALT = 0xA1,
    KYMO_OP_DRAIN = 0xA2,
    KYMO_OP_NOP = 0xA4,
    KYMO_OP_WRITE = 0xA5,
    KYMO_OP_NOTIFY = 0xA6,
    KYMO_OP_MOVE = 0xA7,
    KYMO_OP_ALU_OP = 0xA8,
    KYMO_OP_COMPARE_BRANCH = 0xA9,
    KYMO_OP_EVENT_SEMAPHORE_RANGE_CLEAR = 0xB0,
    KYMO_OP_SET_ORDERING_MODE = 0xB1,
    KYMO_OP_DMA_DIRECT2D = 0xB8,
    KYMO_OP_PSEUDO_DMA_TRIGGER = 0xC1,
    KYMO_OP_PSEUDO_TRIGGER_COLLECTIVE = 0xC8,
    KYMO_OP_PSEUDO_BRANCH_LABEL = 0xCC,
    KYMO_OP_PSEUDO_DMA_DIRECT2D = 0xD4,
    KYMO_OP_PSEUDO_CORE_BARRIER = 0xD8,
    KYMO_OP_PSEUDO_EXTENSION = 0xDA,
};

enum kymo_op_class {
    KYMO_OPC_COMPUTE,   /* data path of the engine */
    KYMO_OPC_CONTROL,   /* sequencer: semaphores, registers, branches */
    KYMO_OPC_DMA_START, /* sequencer: starts transfers with descriptors made at run time */
    KYMO_OPC_PSEUDO,    /* only in a NEFF; the runtime rewrites it */
};

struct kymo_opcode {
    uint8_t number;
    const char *name; /* as tables spell it: TENSOR_TENSOR, PSEUDO_DMA_TRIGGER */
    enum kymo_op_class op_class;
    uint8_t engines;      /* bit k: legal on enum kymo_engine k */
    uint8_t first_nc_gen; /* 2, 3, 4 or 5 */
    uint8_t last_nc_gen;  /* 255: still there */
    bool setup;           /* left out of total_exec_time (schema.md section 6) */
};

/* NULL when the number is not assigned. */
const struct kymo_opcode *kymo_opcode_get(uint8_t number);
/* Name for tables: the opcode's, or "Operation(N)" written into buf. */
const char *kymo_opcode_name(uint8_t number, char *buf, size_t n);
/*
 * True: the engine's sequencer executes it itself (register arithmetic, branches, semaphores, DMA triggers); false: it
 * goes to the compute side. The class decides (G for single opcodes, A for the division).
 */
bool kymo_opcode_on_sequencer(const struct kymo_opcode *op);
/* Assigned, and legal on this engine and generation. */
bool kymo_opcode_legal(const struct kymo_arch *arch, enum kymo_engine engine, uint8_t number);

#endif
