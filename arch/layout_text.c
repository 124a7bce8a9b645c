/*
 * Operand text. The shape key=value with [step,count] groups and the two sync forms $S[15]>=1 and $S[15]++@complete are
 * the vendor's (A, D); all other words are ours (G).
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "arch/layout.h"
#include "arch/opcode.h"

/* Appends to a caller's buffer and cuts at its end; a space comes before every item but the first. */
struct text {
    char *out;
    size_t n, len;
};

static void put(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text *t, const char *fmt, ...)
{
    if (t->len + 1 >= t->n)
        return;
    va_list ap;
    va_start(ap, fmt);
    int w = vsnprintf(t->out + t->len, t->n - t->len, fmt, ap);
    va_end(ap);
    if (w > 0)
        t->len += (size_t)w < t->n - t->len ? (size_t)w : t->n - t->len - 1;
}

static void item(struct text *t)
{
    if (t->len)
        put(t, " ");
}

static void put_wait(struct text *t, uint8_t mode, uint8_t idx, uint32_t value)
{
    static const char *const compare[] = {"", "==", "<", "<=", ">", ">="};
    uint8_t base = mode & 0x7F;
    if (mode == KYMO_WAIT_NONE)
        return;
    item(t);
    if (mode == KYMO_WAIT_UNORDERED)
        put(t, "unordered");
    else if (base >= KYMO_WAIT_EQ && base <= KYMO_WAIT_GE)
        put(t, mode & KYMO_WAIT_REGISTER ? "$S[%u]%s$R[%u]" : "$S[%u]%s%u", idx, compare[base], value);
    else if (mode == KYMO_WAIT_EVT_SET || mode == KYMO_WAIT_EVT_SET_CLEAR)
        put(t, "$E[%u]==1%s", idx, mode == KYMO_WAIT_EVT_SET ? "" : "&clear");
    else if (mode == KYMO_WAIT_EVT_CLEAR || mode == KYMO_WAIT_EVT_CLEAR_SET)
        put(t, "$E[%u]==0%s", idx, mode == KYMO_WAIT_EVT_CLEAR ? "" : "&set");
    else
        put(t, "wait=0x%x,%u,%u", mode, idx, value);
}

static void put_update(struct text *t, uint8_t mode, uint8_t idx, uint32_t value)
{
    if (mode == KYMO_UPD_NONE)
        return;
    item(t);
    const char *when = mode & KYMO_UPD_COMPLETE ? "@complete" : "@read";
    const char *reg = mode & KYMO_UPD_REGISTER ? "$R" : "";
    switch (mode & 0x6F) {
    case KYMO_UPD_EVT_SET:
        put(t, "$E[%u]=1%s", idx, when);
        break;
    case KYMO_UPD_EVT_CLEAR:
        put(t, "$E[%u]=0%s", idx, when);
        break;
    case KYMO_UPD_INC:
        put(t, "$S[%u]++%s", idx, when);
        break;
    case KYMO_UPD_DEC:
        put(t, "$S[%u]--%s", idx, when);
        break;
    case KYMO_UPD_ADD:
    case KYMO_UPD_SUB:
    case KYMO_UPD_WRITE: {
        static const char *const op[] = {[KYMO_UPD_ADD] = "+=", [KYMO_UPD_SUB] = "-=", [KYMO_UPD_WRITE] = "="};
        put(t, reg[0] ? "$S[%u]%s%s[%u]%s" : "$S[%u]%s%s%u%s", idx, op[mode & 0x0F], reg, value, when);
        break;
    }
    default:
        put(t, "update=0x%x,%u,%u", mode, idx, value);
        break;
    }
}

static void put_sync(struct text *t, const struct kymo_sync *s)
{
    put_wait(t, s->wait_mode, s->wait_idx, s->wait_value);
    put_update(t, s->update_mode, s->update_idx, s->update_value);
}

enum style {
    STYLE_NONE,
    STYLE_DEC,
    STYLE_INT,
    STYLE_HEX,
    STYLE_REG,
    STYLE_DTYPE,
    STYLE_ALU,
    STYLE_ACT,
    STYLE_BRANCH,
    STYLE_TENSOR,
    STYLE_CHARS
};

/* Key and style by field; those without a key are printed by code of their own, or not at all when 0. */
static const struct {
    const char *key;
    enum style style;
    bool skip_zero;
} keys[KYMO_F_MAX] = {
    [KYMO_F_SRC] = {"src", STYLE_TENSOR, false},          [KYMO_F_SRC1] = {"src1", STYLE_TENSOR, false},
    [KYMO_F_DST] = {"dst", STYLE_TENSOR, false},          [KYMO_F_IN_DTYPE] = {"dtype", STYLE_DTYPE, true},
    [KYMO_F_IN1_DTYPE] = {"dtype1", STYLE_DTYPE, true},   [KYMO_F_OUT_DTYPE] = {"out_dtype", STYLE_DTYPE, true},
    [KYMO_F_FP32_MODE] = {"fp32_mode", STYLE_DEC, true},  [KYMO_F_ROWS] = {"rows", STYLE_DEC, false},
    [KYMO_F_COLS] = {"cols", STYLE_DEC, false},           [KYMO_F_CHANNELS] = {"channels", STYLE_DEC, false},
    [KYMO_F_ALU_OP] = {"op", STYLE_ALU, false},           [KYMO_F_ACT_FN] = {"fn", STYLE_ACT, false},
    [KYMO_F_IMM0] = {"imm0", STYLE_HEX, false},           [KYMO_F_IMM1] = {"imm1", STYLE_HEX, true},
    [KYMO_F_MM_FLAGS] = {"flags", STYLE_HEX, true},       [KYMO_F_PERF_MODE] = {"perf_mode", STYLE_DEC, true},
    [KYMO_F_QUEUE_NAME] = {"queue", STYLE_CHARS, false},  [KYMO_F_BLOCK_ID] = {"id", STYLE_DEC, false},
    [KYMO_F_DMA_SEM] = {"semaphore", STYLE_DEC, false},   [KYMO_F_DMA_SEM_INC] = {"inc", STYLE_DEC, false},
    [KYMO_F_REG_DST] = {"dst", STYLE_REG, false},         [KYMO_F_REG_A] = {"src", STYLE_REG, false},
    [KYMO_F_BRANCH_OP] = {"op", STYLE_BRANCH, false},     [KYMO_F_VALUE] = {"value", STYLE_DEC, false},
    [KYMO_F_TARGET] = {"target", STYLE_INT, false},       [KYMO_F_LABEL] = {"label", STYLE_DEC, true},
    [KYMO_F_ALU_OP1] = {"op1", STYLE_ALU, false},         [KYMO_F_RANGE_FIRST] = {"first", STYLE_DEC, false},
    [KYMO_F_RANGE_COUNT] = {"count", STYLE_DEC, false},   [KYMO_F_ID] = {"id", STYLE_DEC, false},
    [KYMO_F_RAW_COUNT] = {"raw_count", STYLE_DEC, true},  [KYMO_F_GROUP] = {"group", STYLE_DEC, false},
    [KYMO_F_IN_VAR] = {"in_var_id", STYLE_DEC, false},    [KYMO_F_OUT_VAR] = {"out_var_id", STYLE_DEC, false},
    [KYMO_F_ELEM_COUNT] = {"elements", STYLE_DEC, false}, [KYMO_F_CC_KIND] = {"kind", STYLE_DEC, false},
    [KYMO_F_SRC_OFFSET] = {"src_off", STYLE_HEX, false},  [KYMO_F_DST_OFFSET] = {"dst_off", STYLE_HEX, false},
    [KYMO_F_DGE_KIND] = {"dge_kind", STYLE_DEC, true},    [KYMO_F_STREAM] = {"stream", STYLE_DEC, false},
};

static void put_tensor(struct text *t, const char *key, const struct kymo_tensor *v)
{
    struct kymo_addr a = kymo_addr_decode(v->addr);
    const char *indirect = a.mark & KYMO_ADDR_INDIRECT ? "*" : "";
    if (a.mark & KYMO_ADDR_REGISTER)
        put(t, "%s=%s$R[%u]", key, indirect, v->addr & (KYMO_REGISTERS - 1));
    else
        put(t, "%s=%s0x%x", key, indirect, v->addr & 0x03FFFFFFu);
    item(t);
    put(t, "%s_pattern=", key);
    for (unsigned d = 0; d < v->dims; d++)
        put(t, "[%d,%u]", v->step[d], v->count[d]);
}

static void put_named(struct text *t, const char *key, const char *name, uint64_t v)
{
    if (name)
        put(t, "%s=%s", key, name);
    else
        put(t, "%s=0x%" PRIx64, key, v);
}

static void put_number(struct text *t, const char *key, enum style style, uint64_t v, int64_t i)
{
    static const char *const branch[] = {"always", "eq", "lt", "le", "gt", "ge", "ne"};
    switch (style) {
    case STYLE_DTYPE:
        put_named(t, key, kymo_dtype_name((uint8_t)v), v);
        break;
    case STYLE_ALU:
        put_named(t, key, kymo_alu_op_name((unsigned)v), v);
        break;
    case STYLE_ACT:
        put_named(t, key, kymo_act_fn_name((unsigned)v), v);
        break;
    case STYLE_BRANCH:
        put_named(t, key, v < sizeof branch / sizeof branch[0] ? branch[v] : NULL, v);
        break;
    case STYLE_INT:
        put(t, "%s=%" PRId64, key, i);
        break;
    case STYLE_HEX:
        put(t, "%s=0x%" PRIx64, key, v);
        break;
    case STYLE_REG:
        put(t, "%s=$R[%" PRIu64 "]", key, v);
        break;
    default:
        put(t, "%s=%" PRIu64, key, v);
        break;
    }
}

static void put_field(const struct kymo_arch *arch, const uint8_t *rec, enum kymo_field f, struct text *t)
{
    struct kymo_tensor tensor;
    char chars[64];
    uint64_t v;
    int64_t i;
    if (keys[f].style == STYLE_TENSOR && kymo_layout_get_tensor(arch, rec, f, &tensor)) {
        item(t);
        put_tensor(t, keys[f].key, &tensor);
    } else if (keys[f].style == STYLE_CHARS && kymo_layout_get_chars(arch, rec, f, chars, sizeof chars)) {
        item(t);
        put(t, "%s=%s", keys[f].key, chars);
    } else if (keys[f].style != STYLE_NONE && kymo_layout_get(arch, rec, f, &v) &&
               kymo_layout_get_int(arch, rec, f, &i) && (v || !keys[f].skip_zero)) {
        item(t);
        put_number(t, keys[f].key, keys[f].style, v, i);
    }
}

static void put_dma_side(const struct kymo_arch *arch, const uint8_t *rec, bool dst, struct text *t)
{
    static const enum kymo_field first[] = {KYMO_F_SRC_STEP0, KYMO_F_DST_STEP0};
    int64_t s0 = 0, s1 = 0, c0 = 0, c1 = 0, elem = 0;
    uint64_t addr = 0;
    /* The fields of one side follow each other in the enum: step, step, count, count, element. */
    enum kymo_field f = first[dst];
    (void)kymo_layout_get(arch, rec, dst ? KYMO_F_DST_ADDR64 : KYMO_F_SRC_ADDR64, &addr);
    (void)kymo_layout_get_int(arch, rec, f, &s0);
    (void)kymo_layout_get_int(arch, rec, f + 1, &s1);
    (void)kymo_layout_get_int(arch, rec, f + 2, &c0);
    (void)kymo_layout_get_int(arch, rec, f + 3, &c1);
    (void)kymo_layout_get_int(arch, rec, f + 4, &elem);
    const char *key = dst ? "dst" : "src";
    struct kymo_var_ref var;
    item(t);
    /* Only the compiler's form names variables; an executed copy has addresses. */
    if (rec[0] == KYMO_OP_PSEUDO_DMA_DIRECT2D && kymo_addr64_variable(addr, &var))
        put(t, "%s_var_id=%" PRIu32 " %s_offset=0x%" PRIx32, key, var.var_id, key, var.offset);
    else
        put(t, "%s=0x%" PRIx64, key, addr);
    put(t, " %s_pattern=[%" PRId64 ",%" PRId64 "][%" PRId64 ",%" PRId64 "] %s_size=%" PRId64, key, s0, c0, s1, c1, key,
        elem);
}

static void put_raw(const uint8_t *rec, struct text *t)
{
    /* EVENT_SEMAPHORE's payload is its second sync set, printed already. */
    size_t from = 12, to = KYMO_INSTR_SIZE;
    while (to > from && !rec[to - 1])
        to--;
    if (to == from || rec[0] == KYMO_OP_EVENT_SEMAPHORE)
        return;
    item(t);
    put(t, "data=0x");
    for (size_t i = from; i < to; i++)
        put(t, "%02x", rec[i]);
}

void kymo_instr_text(const struct kymo_arch *arch, const uint8_t rec[KYMO_INSTR_SIZE], char *out, size_t n)
{
    struct text t = {.out = out, .n = n};
    if (n)
        out[0] = 0;
    struct kymo_sync s = kymo_instr_sync(rec);
    put_sync(&t, &s);
    if (kymo_instr_sync2(rec, &s))
        put_sync(&t, &s);
    if (!arch->layouts->form[rec[0]]) {
        put_raw(rec, &t);
        return;
    }
    uint64_t addr, value = 0;
    if (kymo_layout_get(arch, rec, KYMO_F_ADDR, &addr)) {
        (void)kymo_layout_get(arch, rec, KYMO_F_VALUE, &value);
        item(&t);
        put(&t, "data=0x%" PRIx64 " size=4 dst=0x%" PRIx64, value, addr);
        return;
    }
    if (kymo_layout_get(arch, rec, KYMO_F_SRC_ADDR64, &addr)) {
        put_dma_side(arch, rec, false, &t);
        put_dma_side(arch, rec, true, &t);
    }
    for (size_t f = 0; f < KYMO_F_MAX; f++)
        put_field(arch, rec, (enum kymo_field)f, &t);
}

static void put_location(struct text *t, const char *key, bool psum, uint32_t partition, uint32_t offset)
{
    item(t);
    if (psum)
        put(t, "%s=PSUM(partition=%u,bank=%u,offset=%u)", key, partition, (offset & 0x3FFF) >> 11, offset & 0x7FF);
    else
        put(t, "%s=SBUF(partition=%u,offset=0x%x)", key, partition, offset);
}

/* A DMA address inside an on-chip window: partitions follow each other at window / partitions (G). */
static void put_dma_location(const struct kymo_arch *arch, const char *key, uint64_t addr, struct text *t)
{
    unsigned pcore;
    uint64_t offset;
    enum kymo_region region = kymo_arch_region(arch, addr, &pcore, &offset);
    if (region != KYMO_REGION_SBUF && region != KYMO_REGION_PSUM)
        return;
    bool psum = region == KYMO_REGION_PSUM;
    uint64_t pitch = (psum ? arch->psum_window : arch->sbuf_window) / arch->sbuf_partitions;
    put_location(t, key, psum, (uint32_t)(offset / pitch), (uint32_t)(offset % pitch));
}

void kymo_instr_symbolic(const struct kymo_arch *arch, const uint8_t rec[KYMO_INSTR_SIZE], char *out, size_t n)
{
    static const enum kymo_field tensors[] = {KYMO_F_SRC, KYMO_F_SRC1, KYMO_F_DST};
    struct text t = {.out = out, .n = n};
    if (n)
        out[0] = 0;
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        struct kymo_tensor v;
        if (!kymo_layout_get_tensor(arch, rec, tensors[i], &v))
            continue;
        struct kymo_addr a = kymo_addr_decode(v.addr);
        if (!(a.mark & (KYMO_ADDR_REGISTER | KYMO_ADDR_INDIRECT)))
            put_location(&t, keys[tensors[i]].key, a.psum, a.partition, a.offset);
    }
    uint64_t addr;
    if (kymo_layout_get(arch, rec, KYMO_F_SRC_ADDR64, &addr))
        put_dma_location(arch, "src", addr, &t);
    if (kymo_layout_get(arch, rec, KYMO_F_DST_ADDR64, &addr))
        put_dma_location(arch, "dst", addr, &t);
}
