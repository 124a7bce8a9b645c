/*
 * Operand layouts: where the fields of a 64-byte instruction record lie (facts: neff.md 2.1, 2.2, 2.5; C and G). One
 * table per generation; the simulator's program builder writes through it, the pipeline reads through it, so that a
 * real sample corrects one file. Bytes 0 to 11 (opcode, length, debug, wait, update, semaphore value) are common to
 * all.
 */
#ifndef KYMO_ARCH_LAYOUT_H
#define KYMO_ARCH_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "base/err.h"

#define KYMO_INSTR_SIZE 64
#define KYMO_INSTR_WORDS 0x10 /* byte 1 */
#define KYMO_DIMS_MAX 4

/* Fields by meaning. A layout maps those that its form has to (byte, width). */
enum kymo_field {
    KYMO_F_SRC,  /* tensor reference */
    KYMO_F_SRC1, /* second source */
    KYMO_F_DST,
    KYMO_F_IN_DTYPE,
    KYMO_F_IN1_DTYPE,
    KYMO_F_OUT_DTYPE,
    KYMO_F_FP32_MODE,
    KYMO_F_ROWS,
    KYMO_F_COLS,
    KYMO_F_CHANNELS,
    KYMO_F_ALU_OP,
    KYMO_F_ACT_FN,
    KYMO_F_IMM0,
    KYMO_F_IMM1,
    KYMO_F_MM_FLAGS, /* matmul: bit 0 transpose, bits 3:1 accumulate group flags: 1 begin (clears), 2 end, 4 begin of a
                        group */
    KYMO_F_PERF_MODE,
    KYMO_F_QUEUE_NAME, /* char[32] */
    KYMO_F_BLOCK_ID,
    KYMO_F_SRC_ADDR64, /* DMA copies: 8-byte device address */
    KYMO_F_DST_ADDR64,
    KYMO_F_SRC_STEP0,
    KYMO_F_SRC_STEP1,
    KYMO_F_SRC_COUNT0,
    KYMO_F_SRC_COUNT1,
    KYMO_F_SRC_ELEM,
    KYMO_F_DST_STEP0,
    KYMO_F_DST_STEP1,
    KYMO_F_DST_COUNT0,
    KYMO_F_DST_COUNT1,
    KYMO_F_DST_ELEM,
    KYMO_F_DMA_SEM,
    KYMO_F_DMA_SEM_INC,
    KYMO_F_REG_DST,
    KYMO_F_REG_A,
    KYMO_F_BRANCH_OP,
    KYMO_F_ADDR,    /* WRITE: address u64 */
    KYMO_F_VALUE,   /* WRITE, MOVE, ALU_OP, COMPARE_BRANCH, NOTIFY: u32 */
    KYMO_F_TARGET,  /* TARGET: signed count of instructions, from this one */
    KYMO_F_LABEL,   /* branch label id */
    KYMO_F_ALU_OP1, /* second operation of scalar-tensor-tensor */
    KYMO_F_RANGE_FIRST,
    KYMO_F_RANGE_COUNT, /* semaphores that a range clear sets to 0 */
    KYMO_F_ID,          /* core barrier */
    KYMO_F_RAW_COUNT,   /* DMA trigger: BLOCK_ID holds a count */
    KYMO_F_GROUP,
    KYMO_F_IN_VAR,
    KYMO_F_OUT_VAR,
    KYMO_F_ELEM_COUNT,
    KYMO_F_CC_KIND,
    KYMO_F_SRC_OFFSET,
    KYMO_F_DST_OFFSET,
    KYMO_F_STREAM,   /* collectives */
    KYMO_F_DGE_KIND, /* direct copies: 0 direct, 1 indirect, 2 transpose, 3 gather-transpose */
    KYMO_F_MAX,
};

enum kymo_field_kind { KYMO_FK_NONE, KYMO_FK_UINT, KYMO_FK_INT, KYMO_FK_TENSOR, KYMO_FK_CHARS };

struct kymo_field_at {
    uint8_t kind;        /* enum kymo_field_kind; NONE: the form has no such field */
    uint8_t byte;        /* 0..63 */
    uint8_t width;       /* bytes; for TENSOR the number of dimensions */
    uint8_t shift, bits; /* for packed fields: bits 0 means all of width */
};

struct kymo_operand_form {
    const char *name; /* matmul, weights, ... */
    struct kymo_field_at at[KYMO_F_MAX];
};

/* One per generation; form by opcode number, NULL when the layout is not known (operands are then printed as hex). */
struct kymo_operand_layouts {
    const struct kymo_operand_form *form[256];
};

/* An on-chip operand: 4-byte address, then steps (elements) and counts, first dimension innermost. */
struct kymo_tensor {
    uint32_t addr;
    uint8_t dims; /* 1..4 */
    int16_t step[KYMO_DIMS_MAX];
    uint16_t count[KYMO_DIMS_MAX];
};

/* 32-bit operand address (neff.md 3.3). */
enum kymo_addr_mark {
    KYMO_ADDR_IMMEDIATE = 0x00,
    KYMO_ADDR_REGISTER = 0x80,
    KYMO_ADDR_SHAPE_REGISTER = 0x40,
    KYMO_ADDR_INDIRECT = 0x20
};
struct kymo_addr {
    uint8_t mark; /* top byte & 0xFC */
    bool psum;
    uint32_t partition; /* start partition: 0 32 64 96 */
    uint32_t offset;    /* byte within the partition */
    uint32_t bank;      /* PSUM only */
};
struct kymo_addr kymo_addr_decode(uint32_t addr);

/*
 * 8-byte address of a compiler's DMA copy (PSEUDO_DMA_DIRECT2D): the offset in bytes 0 to 3, the NEFF's var_id in bytes
 * 4 to 6, in byte 7 what it is (C: of two public notes, one on the compiler's encoder, one on the instruction set's
 * headers). The runtime puts the variable's device address in its place. Other marks: a table entry or a register,
 * which name no variable; 0: a device address.
 */
#define KYMO_ADDR64_VARIABLE 0x10u
#define KYMO_ADDR64_TABLE 0x20u
#define KYMO_ADDR64_SHAPE_REGISTER 0x40u
#define KYMO_ADDR64_REGISTER 0x80u
#define KYMO_ADDR64_VAR_MAX 0xFFFFFFu
struct kymo_var_ref {
    uint32_t var_id, offset;
};
/* *ret untouched and false: the address names no variable. */
bool kymo_addr64_variable(uint64_t addr, struct kymo_var_ref *ret);
uint64_t kymo_addr64_of_variable(struct kymo_var_ref ref);
uint32_t kymo_addr_sbuf(uint32_t partition, uint32_t offset);
uint32_t kymo_addr_psum(uint32_t partition, uint32_t bank, uint32_t offset);

/* Unsigned and signed fields. Getting an absent field is false / leaves *ret alone; setting one is -EINVAL. */
bool kymo_layout_get(const struct kymo_arch *arch, const uint8_t rec[KYMO_INSTR_SIZE], enum kymo_field f,
                     uint64_t *ret);
bool kymo_layout_get_int(const struct kymo_arch *arch, const uint8_t rec[KYMO_INSTR_SIZE], enum kymo_field f,
                         int64_t *ret);
bool kymo_layout_get_tensor(const struct kymo_arch *arch, const uint8_t rec[KYMO_INSTR_SIZE], enum kymo_field f,
                            struct kymo_tensor *ret);
/* NUL-terminated into out (33 bytes are enough). */
bool kymo_layout_get_chars(const struct kymo_arch *arch, const uint8_t rec[KYMO_INSTR_SIZE], enum kymo_field f,
                           char *out, size_t n);
int kymo_layout_set(const struct kymo_arch *arch, uint8_t rec[KYMO_INSTR_SIZE], enum kymo_field f,
                    uint64_t value) KYMO_MUST_CHECK;
int kymo_layout_set_tensor(const struct kymo_arch *arch, uint8_t rec[KYMO_INSTR_SIZE], enum kymo_field f,
                           const struct kymo_tensor *t) KYMO_MUST_CHECK;
int kymo_layout_set_chars(const struct kymo_arch *arch, uint8_t rec[KYMO_INSTR_SIZE], enum kymo_field f,
                          const char *s) KYMO_MUST_CHECK;

/* Starts a record: zeroes it, sets opcode and length. */
void kymo_instr_init(uint8_t rec[KYMO_INSTR_SIZE], uint8_t opcode);

/* Wait and update codes (neff.md 2.2). */
enum {
    KYMO_WAIT_NONE = 0,
    KYMO_WAIT_EQ = 1,
    KYMO_WAIT_LT = 2,
    KYMO_WAIT_LE = 3,
    KYMO_WAIT_GT = 4,
    KYMO_WAIT_GE = 5,
    KYMO_WAIT_EVT_SET = 6,
    KYMO_WAIT_EVT_SET_CLEAR = 7,
    KYMO_WAIT_EVT_CLEAR = 14,
    KYMO_WAIT_EVT_CLEAR_SET = 15,
    KYMO_WAIT_REGISTER = 0x80,
    KYMO_WAIT_UNORDERED = 0xFE,
};
enum {
    KYMO_UPD_NONE = 0,
    KYMO_UPD_EVT_SET = 1,
    KYMO_UPD_EVT_CLEAR = 2,
    KYMO_UPD_INC = 3,
    KYMO_UPD_DEC = 4,
    KYMO_UPD_ADD = 5,
    KYMO_UPD_SUB = 7,
    KYMO_UPD_WRITE = 9,
    KYMO_UPD_COMPLETE = 0x10,
    KYMO_UPD_REGISTER = 0x80,
};
struct kymo_sync { /* one wait/update set of a record */
    uint8_t wait_mode, wait_idx, update_mode, update_idx;
    uint32_t wait_value, update_value; /* the first set has one u32: both read it */
};
struct kymo_sync kymo_instr_sync(const uint8_t rec[KYMO_INSTR_SIZE]);
/* Second set; only EVENT_SEMAPHORE has one. */
bool kymo_instr_sync2(const uint8_t rec[KYMO_INSTR_SIZE], struct kymo_sync *ret);
void kymo_instr_set_wait(uint8_t rec[KYMO_INSTR_SIZE], uint8_t mode, uint8_t idx, uint32_t value);
void kymo_instr_set_update(uint8_t rec[KYMO_INSTR_SIZE], uint8_t mode, uint8_t idx, uint32_t value);
void kymo_instr_set_sync2(uint8_t rec[KYMO_INSTR_SIZE], const struct kymo_sync *s);
/* Words of SemaphoreUpdate: sem_inc, evt_set, ...; "unknown" for a mode no fact lists. Timing: read, complete or NULL.
 */
const char *kymo_update_operation(uint8_t mode);
const char *kymo_update_timing(uint8_t mode);

/*
 * Registers and branches (G). MOVE: R[REG_DST] = VALUE. ALU_OP: R[REG_DST] = R[REG_A] op VALUE, op an ALU code.
 * COMPARE_BRANCH: when R[REG_A] op VALUE holds (unsigned), continue TARGET records further on, else at the next one; in
 * a NEFF LABEL names the PSEUDO_BRANCH_LABEL that TARGET leads to, so that a loader that moves records can set TARGET
 * anew.
 */
#define KYMO_REGISTERS 64 /* per engine */
enum {
    KYMO_BR_ALWAYS = 0,
    KYMO_BR_EQ = 1,
    KYMO_BR_LT = 2,
    KYMO_BR_LE = 3,
    KYMO_BR_GT = 4,
    KYMO_BR_GE = 5,
    KYMO_BR_NE = 6
};
enum {
    KYMO_ALU_BYPASS = 0,
    KYMO_ALU_ADD = 4,
    KYMO_ALU_SUBTRACT = 5,
    KYMO_ALU_MULT = 6,
    KYMO_ALU_MAX = 8,
    KYMO_ALU_MIN = 9
};
enum {
    KYMO_ACT_IDENTITY = 0,
    KYMO_ACT_RELU = 2,
    KYMO_ACT_GELU = 3,
    KYMO_ACT_GELU_DX = 4,
    KYMO_ACT_EXP = 10,
    KYMO_ACT_RECIPROCAL = 14,
    KYMO_ACT_RSQRT = 13
};
/* Bits of KYMO_F_MM_FLAGS. */
enum { KYMO_MM_TRANSPOSE = 1, KYMO_MM_BEGIN = 1 << 1, KYMO_MM_END = 2 << 1, KYMO_MM_GROUP_BEGIN = 4 << 1 };

/* Data types (neff.md 2.5). */
enum {
    KYMO_DT_U64 = 1,
    KYMO_DT_I8 = 2,
    KYMO_DT_U8 = 3,
    KYMO_DT_I16 = 4,
    KYMO_DT_U16 = 5,
    KYMO_DT_BF16 = 6,
    KYMO_DT_FP16 = 7,
    KYMO_DT_I32 = 8,
    KYMO_DT_U32 = 9,
    KYMO_DT_FP32 = 0xA,
    KYMO_DT_FP32R = 0xB,
    KYMO_DT_I64 = 0xC,
    KYMO_DT_FP8_E3 = 0xD,
    KYMO_DT_FP8_E4 = 0xE,
    KYMO_DT_FP8_E5 = 0xF,
    KYMO_DT_FP4 = 0x10,
};
unsigned kymo_dtype_bits(uint8_t dtype);    /* 0: unknown */
const char *kymo_dtype_name(uint8_t dtype); /* bf16, fp32, ...; NULL: unknown */
enum kymo_dtype_cost kymo_dtype_cost(uint8_t dtype);
const char *kymo_act_fn_name(unsigned fn); /* scalar activation functions (G table); NULL: unknown */
const char *kymo_alu_op_name(unsigned op);

/*
 * Operand text as the tables show it: key=value pairs such as src=0x2120 dst=0x2002312 rows=64 cols=64, waits and
 * updates as $S[15]>=1 and $S[15]++@complete first. Deterministic; unknown forms print their operand bytes as
 * data=0x.... Never fails: text is cut at n.
 */
void kymo_instr_text(const struct kymo_arch *arch, const uint8_t rec[KYMO_INSTR_SIZE], char *out, size_t n);
/* PSUM operands as PSUM(partition=0,bank=6,offset=0), SBUF ones as SBUF(partition=0,offset=0x2120); empty when none. */
void kymo_instr_symbolic(const struct kymo_arch *arch, const uint8_t rec[KYMO_INSTR_SIZE], char *out, size_t n);

/* What an instruction touches, computed from its operands alone (no loops over elements). */
struct kymo_footprint {
    uint64_t elements; /* moved per partition (matmul: the free size) */
    uint64_t sbuf_read, sbuf_write, psum_read, psum_write, psum_read_sbuf_write; /* bytes */
    uint8_t psum_read_banks, psum_write_banks;                                   /* bit b: bank b */
    bool matmul, transpose;
    uint32_t rows, cols;
    uint8_t dtype;
    bool half_pass;               /* an FP32 low or high pass: counts half */
    bool acc_begin, acc_continue; /* matmul: starts an accumulation / adds to one */
};
/* Bytes of a copy with descriptors made at run time: source element times counts; 0 for all other instructions. */
uint64_t kymo_instr_dma_bytes(const struct kymo_arch *arch, const uint8_t rec[KYMO_INSTR_SIZE]);
struct kymo_footprint kymo_instr_footprint(const struct kymo_arch *arch, const uint8_t rec[KYMO_INSTR_SIZE]);

/* What an on-chip operand covers: bytes first to end - 1 of each of its partitions, gaps between its steps included. */
#define KYMO_INSTR_RANGES_MAX 3
struct kymo_instr_range {
    bool psum, write;
    bool adds; /* a matmul that continues an accumulation: reads what it writes */
    uint32_t partition, partitions;
    uint32_t first, end;
};
/* Reads first. Operands in registers or tables are left out and added to *ret_unknown. */
size_t kymo_instr_ranges(const struct kymo_arch *arch, const uint8_t rec[KYMO_INSTR_SIZE],
                         struct kymo_instr_range ret[KYMO_INSTR_RANGES_MAX], unsigned *ret_unknown);

#endif
