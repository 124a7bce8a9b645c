/*
 * Forms shared by the generations. Classes: C where neff.md 2.5 gives the byte, G where it leaves one open; each form
 * says which of its bytes are G.
 */
#include "arch/layout_data.h"

#define U KYMO_AT_U
#define I KYMO_AT_I
#define BITS KYMO_AT_BITS
#define T KYMO_AT_T
#define CHARS KYMO_AT_CHARS

/* C; that bit 0 of the flags marks a transpose here too is G. */
const struct kymo_operand_form kymo_form_weights = {
    "weights",
    {T(SRC, 16, 3), U(IN_DTYPE, 32, 1), U(FP32_MODE, 33, 1), U(ROWS, 34, 1), U(COLS, 35, 1), U(MM_FLAGS, 38, 1),
     U(PERF_MODE, 39, 1)},
};

/* G but for the 3D source and destination, which follow tensor-scalar. */
const struct kymo_operand_form kymo_form_activate = {
    "activate",
    {T(SRC, 16, 3), U(IN_DTYPE, 32, 1), U(OUT_DTYPE, 33, 1), U(CHANNELS, 34, 1), U(ACT_FN, 36, 1), U(IMM0, 40, 4),
     U(IMM1, 44, 4), T(DST, 48, 3)},
};

/* C, the start of the source to be checked; channels, operation and performance mode are G. */
const struct kymo_operand_form kymo_form_tensor_scalar = {
    "tensor-scalar",
    {T(SRC, 16, 3), U(IN_DTYPE, 32, 1), U(OUT_DTYPE, 33, 1), U(CHANNELS, 34, 1), U(ALU_OP, 36, 1), U(PERF_MODE, 38, 1),
     U(IMM0, 40, 4), U(IMM1, 44, 4), T(DST, 48, 3)},
};

/* C for bytes 12 to 14; channels and where the three operands lie are G. */
const struct kymo_operand_form kymo_form_tensor_tensor = {
    "tensor-tensor",
    {BITS(IN_DTYPE, 12, 0, 4), BITS(IN1_DTYPE, 12, 4, 4), U(OUT_DTYPE, 13, 1), U(ALU_OP, 14, 1), U(CHANNELS, 15, 1),
     T(SRC, 16, 3), T(SRC1, 32, 3), T(DST, 48, 3)},
};

/* C; the performance mode's byte is G. */
const struct kymo_operand_form kymo_form_reduce = {
    "reduce",
    {T(SRC, 12, 4), U(IN_DTYPE, 32, 1), U(OUT_DTYPE, 33, 1), U(CHANNELS, 34, 1), U(ALU_OP, 36, 1), U(PERF_MODE, 38, 1),
     T(DST, 44, 4)},
};

/* C for the sources and operations; all else is G. */
const struct kymo_operand_form kymo_form_scalar_tensor_tensor = {
    "scalar-tensor-tensor",
    {T(SRC, 12, 2), T(SRC1, 24, 2), U(ALU_OP, 36, 1), U(ALU_OP1, 37, 1), BITS(IN_DTYPE, 38, 0, 4),
     BITS(IN1_DTYPE, 38, 4, 4), U(OUT_DTYPE, 39, 1), U(IMM0, 40, 4), U(CHANNELS, 44, 1), T(DST, 52, 2)},
};

/* C; the immediates (value, or base and step of an iota) are G. */
const struct kymo_operand_form kymo_form_memset = {
    "memset",
    {U(OUT_DTYPE, 32, 1), U(CHANNELS, 34, 1), U(IMM0, 40, 4), U(IMM1, 44, 4), T(DST, 48, 3)},
};

/* C. Byte 15 is the kind for the pseudo form and the compute operation for the executed one; copies leave it 0. */
const struct kymo_operand_form kymo_form_dma_copy = {
    "dma-copy",
    {U(DMA_SEM, 13, 1), U(DMA_SEM_INC, 14, 1), U(DGE_KIND, 15, 1), U(SRC_ADDR64, 16, 8), I(SRC_STEP0, 24, 4),
     I(SRC_STEP1, 28, 4), U(SRC_COUNT0, 32, 2), U(SRC_COUNT1, 34, 2), U(SRC_ELEM, 36, 2), U(DST_ADDR64, 40, 8),
     I(DST_STEP0, 48, 4), I(DST_STEP1, 52, 4), U(DST_COUNT0, 56, 2), U(DST_COUNT1, 58, 2), U(DST_ELEM, 60, 2),
     U(IN_DTYPE, 62, 1), U(OUT_DTYPE, 63, 1)},
};

/* C */
const struct kymo_operand_form kymo_form_dma_trigger = {
    "dma-trigger",
    {CHARS(QUEUE_NAME, 12, 32), U(RAW_COUNT, 44, 4), U(BLOCK_ID, 48, 4)},
};

/* C but for bytes 36 to 43, which are G: number, completion semaphore with its increment, stream. */
const struct kymo_operand_form kymo_form_collective = {
    "collective",
    {U(ALU_OP, 12, 1), U(IN_DTYPE, 13, 1), U(GROUP, 14, 2), U(IN_VAR, 16, 4), U(OUT_VAR, 20, 4), U(ELEM_COUNT, 24, 8),
     U(CC_KIND, 32, 4), U(ID, 36, 4), U(DMA_SEM, 40, 1), U(DMA_SEM_INC, 41, 1), U(STREAM, 42, 2), U(SRC_OFFSET, 48, 8),
     U(DST_OFFSET, 56, 8)},
};

/* C */
const struct kymo_operand_form kymo_form_core_barrier = {
    "core-barrier",
    {U(ID, 12, 4), U(DMA_SEM, 16, 4)},
};

/* All that follow are G. */
const struct kymo_operand_form kymo_form_write = {"write", {U(ADDR, 16, 8), U(VALUE, 24, 4)}};

const struct kymo_operand_form kymo_form_notify = {"notify", {U(VALUE, 16, 4)}};

const struct kymo_operand_form kymo_form_move = {"move", {U(REG_DST, 12, 1), U(VALUE, 16, 4)}};

const struct kymo_operand_form kymo_form_alu = {
    "alu",
    {U(REG_DST, 12, 1), U(REG_A, 13, 1), U(ALU_OP, 14, 1), U(VALUE, 16, 4)},
};

const struct kymo_operand_form kymo_form_branch = {
    "branch",
    {U(REG_A, 12, 1), U(BRANCH_OP, 13, 1), U(VALUE, 16, 4), I(TARGET, 20, 4), U(LABEL, 24, 4)},
};

const struct kymo_operand_form kymo_form_label = {"label", {U(LABEL, 12, 4)}};

const struct kymo_operand_form kymo_form_range_clear = {
    "range-clear",
    {U(RANGE_FIRST, 12, 1), U(RANGE_COUNT, 14, 2)},
};

const struct kymo_operand_form kymo_form_value = {"value", {U(VALUE, 12, 4)}};
