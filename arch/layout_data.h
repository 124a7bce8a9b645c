/* Operand forms that several generations share, and how a form is written down. The layout data files include this. */
#ifndef KYMO_ARCH_LAYOUT_DATA_H
#define KYMO_ARCH_LAYOUT_DATA_H

#include "arch/arch_data.h"
#include "arch/layout.h"
#include "arch/opcode.h"

#define KYMO_AT_U(f, b, w) [KYMO_F_##f] = {.kind = KYMO_FK_UINT, .byte = (b), .width = (w)}
#define KYMO_AT_I(f, b, w) [KYMO_F_##f] = {.kind = KYMO_FK_INT, .byte = (b), .width = (w)}
#define KYMO_AT_BITS(f, b, s, n)                                                                                       \
    [KYMO_F_##f] = {.kind = KYMO_FK_UINT, .byte = (b), .width = 1, .shift = (s), .bits = (n)}
#define KYMO_AT_T(f, b, dims) [KYMO_F_##f] = {.kind = KYMO_FK_TENSOR, .byte = (b), .width = (dims)}
#define KYMO_AT_CHARS(f, b, w) [KYMO_F_##f] = {.kind = KYMO_FK_CHARS, .byte = (b), .width = (w)}

extern const struct kymo_operand_form kymo_form_weights, kymo_form_activate, kymo_form_tensor_scalar,
    kymo_form_tensor_tensor, kymo_form_reduce, kymo_form_scalar_tensor_tensor, kymo_form_memset, kymo_form_dma_copy,
    kymo_form_dma_trigger, kymo_form_collective, kymo_form_core_barrier, kymo_form_write, kymo_form_notify,
    kymo_form_move, kymo_form_alu, kymo_form_branch, kymo_form_label, kymo_form_range_clear, kymo_form_value;

/* Every opcode whose layout is taken to be the same on all generations. MATMUL is not: each data file adds its own. */
#define KYMO_COMMON_FORMS                                                                                              \
    [KYMO_OP_LDWEIGHTS] = &kymo_form_weights, [KYMO_OP_ACTIVATE] = &kymo_form_activate,                                \
    [KYMO_OP_ACTIVATE_QUANTIZE] = &kymo_form_activate, [0x25] = &kymo_form_activate, [0x23] = &kymo_form_value,        \
    [KYMO_OP_TENSOR_TENSOR] = &kymo_form_tensor_tensor, [0x51] = &kymo_form_tensor_tensor,                             \
    [KYMO_OP_TENSOR_REDUCE] = &kymo_form_reduce, [0x45] = &kymo_form_reduce, [KYMO_OP_COPY] = &kymo_form_reduce,       \
    [KYMO_OP_CAST] = &kymo_form_reduce, [0x48] = &kymo_form_reduce, [0x52] = &kymo_form_reduce,                        \
    [KYMO_OP_TENSOR_SCALAR] = &kymo_form_tensor_scalar, [0x53] = &kymo_form_tensor_scalar,                             \
    [KYMO_OP_MEMSET] = &kymo_form_memset, [KYMO_OP_IOTA] = &kymo_form_memset,                                          \
    [0x9D] = &kymo_form_scalar_tensor_tensor, [0x9E] = &kymo_form_scalar_tensor_tensor,                                \
    [KYMO_OP_WRITE] = &kymo_form_write, [KYMO_OP_NOTIFY] = &kymo_form_notify, [KYMO_OP_MOVE] = &kymo_form_move,        \
    [KYMO_OP_ALU_OP] = &kymo_form_alu, [KYMO_OP_COMPARE_BRANCH] = &kymo_form_branch,                                   \
    [KYMO_OP_EVENT_SEMAPHORE_RANGE_CLEAR] = &kymo_form_range_clear, [KYMO_OP_DMA_DIRECT2D] = &kymo_form_dma_copy,      \
    [KYMO_OP_PSEUDO_DMA_DIRECT2D] = &kymo_form_dma_copy, [KYMO_OP_PSEUDO_DMA_TRIGGER] = &kymo_form_dma_trigger,        \
    [0xC6] = &kymo_form_value, [KYMO_OP_PSEUDO_TRIGGER_COLLECTIVE] = &kymo_form_collective,                            \
    [KYMO_OP_PSEUDO_BRANCH_LABEL] = &kymo_form_label, [KYMO_OP_PSEUDO_CORE_BARRIER] = &kymo_form_core_barrier

#endif
