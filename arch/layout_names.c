/* Codes of the operand fields and their names (facts: neff.md 2.2 and 2.5). */
#include "arch/layout.h"

const char *kymo_update_operation(uint8_t mode)
{
    if (mode == KYMO_UPD_NONE)
        return "none";
    /* The schema has no word for operands in registers, and a bare completion bit is no mode. */
    if (mode & 0xE0)
        return "unknown";
    switch (mode & 0x0F) {
    case KYMO_UPD_EVT_SET:
        return "evt_set";
    case KYMO_UPD_EVT_CLEAR:
        return "evt_clr";
    case KYMO_UPD_INC:
        return "sem_inc";
    case KYMO_UPD_DEC:
        return "sem_dec";
    case KYMO_UPD_ADD:
        return "sem_add_imm";
    case KYMO_UPD_SUB:
        return "sem_sub_imm";
    case KYMO_UPD_WRITE:
        return "sem_wr_imm";
    default:
        return "unknown";
    }
}

const char *kymo_update_timing(uint8_t mode)
{
    const char *operation = kymo_update_operation(mode);
    if (operation[0] == 'n' || operation[0] == 'u')
        return NULL;
    return mode & KYMO_UPD_COMPLETE ? "complete" : "read";
}

static const struct {
    const char *name;
    uint8_t bits;
    enum kymo_dtype_cost cost;
} dtypes[] = {
    /* Numbers and widths C. Costs A for bf16, fp16, fp32, fp8, u8 and MX; fp32r as tf32 and all others are G. */
    [KYMO_DT_U64] = {"u64", 64, KYMO_COST_FP32},     [KYMO_DT_I8] = {"i8", 8, KYMO_COST_UINT8},
    [KYMO_DT_U8] = {"u8", 8, KYMO_COST_UINT8},       [KYMO_DT_I16] = {"i16", 16, KYMO_COST_BF16},
    [KYMO_DT_U16] = {"u16", 16, KYMO_COST_BF16},     [KYMO_DT_BF16] = {"bf16", 16, KYMO_COST_BF16},
    [KYMO_DT_FP16] = {"fp16", 16, KYMO_COST_BF16},   [KYMO_DT_I32] = {"i32", 32, KYMO_COST_FP32},
    [KYMO_DT_U32] = {"u32", 32, KYMO_COST_FP32},     [KYMO_DT_FP32] = {"fp32", 32, KYMO_COST_FP32},
    [KYMO_DT_FP32R] = {"fp32r", 32, KYMO_COST_BF16}, [KYMO_DT_I64] = {"i64", 64, KYMO_COST_FP32},
    [KYMO_DT_FP8_E3] = {"fp8_e3", 8, KYMO_COST_FP8}, [KYMO_DT_FP8_E4] = {"fp8_e4", 8, KYMO_COST_FP8},
    [KYMO_DT_FP8_E5] = {"fp8_e5", 8, KYMO_COST_FP8}, [KYMO_DT_FP4] = {"fp4", 4, KYMO_COST_MX},
    [0x11] = {"fp8_e2", 8, KYMO_COST_FP8},           [0x12] = {"int4", 4, KYMO_COST_UINT8},
};
#define DTYPES (sizeof dtypes / sizeof dtypes[0])

unsigned kymo_dtype_bits(uint8_t dtype)
{
    return dtype < DTYPES ? dtypes[dtype].bits : 0;
}

const char *kymo_dtype_name(uint8_t dtype)
{
    return dtype < DTYPES ? dtypes[dtype].name : NULL;
}

enum kymo_dtype_cost kymo_dtype_cost(uint8_t dtype)
{
    return dtype < DTYPES ? dtypes[dtype].cost : KYMO_COST_BF16;
}

/* Numbers are G; names are those of the public kernel language. */
static const char *const act_fns[] = {
    "identity", "square", "relu", "gelu", "gelu_dx", "silu",       "sigmoid", "tanh", "softplus",
    "erf",      "exp",    "log",  "sqrt", "rsqrt",   "reciprocal", "sign",    "abs",  "sin",
};

const char *kymo_act_fn_name(unsigned fn)
{
    return fn < sizeof act_fns / sizeof act_fns[0] ? act_fns[fn] : NULL;
}

/* C: bypass, add, max, abs_max, abs_min. The others' codes are G. */
static const char *const alu_ops[] = {
    [KYMO_ALU_BYPASS] = "bypass", [KYMO_ALU_ADD] = "add", [KYMO_ALU_SUBTRACT] = "subtract",
    [KYMO_ALU_MULT] = "mult",     [KYMO_ALU_MAX] = "max", [KYMO_ALU_MIN] = "min",
    [0x20] = "abs_max",           [0x21] = "abs_min",
};

const char *kymo_alu_op_name(unsigned op)
{
    return op < sizeof alu_ops / sizeof alu_ops[0] ? alu_ops[op] : NULL;
}
