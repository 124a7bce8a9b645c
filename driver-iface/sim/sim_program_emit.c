/* Operations of the engines: operands into records, buffers into accesses. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "driver-iface/sim/sim_program_internal.h"

#define ALL_CHANNELS 128
#define FP32_LOW 1
#define FP32_HIGH 2

static uint32_t reach_bytes(const struct sim_operand *o)
{
    uint32_t elements = o->count;
    if (o->count1 > 1)
        elements += (uint32_t)(o->step1 * (o->count1 - 1));
    return o->offset + elements * kymo_dtype_bits(o->dtype) / 8;
}

static void set_operand(struct sim_program *p, struct node *n, enum kymo_field f, const struct sim_operand *o,
                        bool write)
{
    if (reach_bytes(o) > o->buf.bytes)
        sim_program_fail(p, -EINVAL, "opcode 0x%02x: an operand of %u elements at %u leaves its buffer of %u bytes",
                         n->rec[0], o->count, o->offset, o->buf.bytes);
    bool two = o->count1 > 1;
    struct kymo_tensor t = {.addr = o->buf.addr + o->offset,
                            .dims = two ? 2 : 1,
                            .step = {1, two ? o->step1 : 0},
                            .count = {o->count, two ? o->count1 : 0}};
    int r = kymo_layout_set_tensor(p->arch, n->rec, f, &t);
    if (r < 0)
        sim_program_fail(p, r, "opcode 0x%02x of %s has no operand %d", n->rec[0], p->arch->name, (int)f);
    sim_program_access(p, n, o->buf.id, write);
}

/* One instruction of its own compiler operation. */
static struct node *start(struct sim_program *p, enum kymo_engine e, uint8_t opcode)
{
    struct node *n = sim_program_node(p, NODE_OP, e, opcode);
    n->bir = sim_program_bir(p, e, DEBUG_REGULAR);
    return n;
}

static void set_io(struct sim_program *p, struct node *n, const struct sim_operand *src, const struct sim_operand *dst)
{
    set_operand(p, n, KYMO_F_SRC, src, false);
    set_operand(p, n, KYMO_F_DST, dst, true);
    sim_program_set(p, n, KYMO_F_IN_DTYPE, src->dtype);
    sim_program_set(p, n, KYMO_F_OUT_DTYPE, dst->dtype);
    sim_program_set(p, n, KYMO_F_CHANNELS, ALL_CHANNELS);
}

static void emit_pass(struct sim_program *p, const struct sim_matmul *m, uint32_t bir, unsigned fp32_mode, bool begin,
                      bool end)
{
    struct node *n = sim_program_node(p, NODE_OP, KYMO_ENGINE_TENSOR, KYMO_OP_LDWEIGHTS);
    n->bir = bir;
    set_operand(p, n, KYMO_F_SRC, &m->weights, false);
    sim_program_set(p, n, KYMO_F_IN_DTYPE, m->weights.dtype);
    sim_program_set(p, n, KYMO_F_FP32_MODE, fp32_mode);
    sim_program_set(p, n, KYMO_F_ROWS, m->rows);
    sim_program_set(p, n, KYMO_F_COLS, m->cols);

    n = sim_program_node(p, NODE_OP, KYMO_ENGINE_TENSOR, KYMO_OP_MATMUL);
    n->bir = bir;
    set_operand(p, n, KYMO_F_SRC, &m->moving, false);
    set_operand(p, n, KYMO_F_DST, &m->dst, true);
    sim_program_set(p, n, KYMO_F_IN_DTYPE, m->moving.dtype);
    sim_program_set(p, n, KYMO_F_OUT_DTYPE, m->dst.dtype);
    sim_program_set(p, n, KYMO_F_FP32_MODE, fp32_mode);
    sim_program_set(p, n, KYMO_F_ROWS, m->rows);
    sim_program_set(p, n, KYMO_F_COLS, m->cols);
    unsigned flags = (begin ? KYMO_MM_BEGIN : 0) | (end ? KYMO_MM_END : 0) | (m->transpose ? KYMO_MM_TRANSPOSE : 0);
    sim_program_set(p, n, KYMO_F_MM_FLAGS, flags);
}

void sim_emit_matmul(struct sim_program *p, const struct sim_matmul *m)
{
    uint32_t bir = sim_program_bir(p, KYMO_ENGINE_TENSOR, m->transpose ? DEBUG_TRANSPOSE : DEBUG_REGULAR);
    if (bir != NODE_NONE)
        p->birs[bir].elements = (uint64_t)m->rows * m->cols * m->moving.count;
    if (m->moving.dtype == KYMO_DT_FP32) {
        emit_pass(p, m, bir, FP32_LOW, m->begin, false);
        emit_pass(p, m, bir, FP32_HIGH, false, m->end);
    } else {
        emit_pass(p, m, bir, 0, m->begin, m->end);
    }
    if (!m->transpose)
        p->stats.macs += p->trips * m->rows * m->cols * m->moving.count;
}

void sim_emit_activate(struct sim_program *p, unsigned fn, struct sim_operand src, struct sim_operand dst)
{
    struct node *n = start(p, KYMO_ENGINE_SCALAR, KYMO_OP_ACTIVATE);
    set_io(p, n, &src, &dst);
    sim_program_set(p, n, KYMO_F_ACT_FN, fn);
    sim_program_set(p, n, KYMO_F_IMM0, 0x3F800000); /* scale 1.0 */
}

void sim_emit_tensor_tensor(struct sim_program *p, enum kymo_engine e, unsigned alu, struct sim_operand a,
                            struct sim_operand b, struct sim_operand dst)
{
    struct node *n = start(p, e, KYMO_OP_TENSOR_TENSOR);
    set_operand(p, n, KYMO_F_SRC1, &b, false);
    set_io(p, n, &a, &dst);
    sim_program_set(p, n, KYMO_F_IN1_DTYPE, b.dtype);
    sim_program_set(p, n, KYMO_F_ALU_OP, alu);
}

void sim_emit_scalar_tensor_tensor(struct sim_program *p, enum kymo_engine e, unsigned alu, unsigned alu1,
                                   struct sim_operand a, struct sim_operand b, struct sim_operand dst)
{
    struct node *n = start(p, e, 0x9D);
    set_operand(p, n, KYMO_F_SRC1, &b, false);
    set_io(p, n, &a, &dst);
    sim_program_set(p, n, KYMO_F_IN1_DTYPE, b.dtype);
    sim_program_set(p, n, KYMO_F_ALU_OP, alu);
    sim_program_set(p, n, KYMO_F_ALU_OP1, alu1);
    sim_program_set(p, n, KYMO_F_IMM0, 0xBC23D70A); /* -0.01 */
}

void sim_emit_tensor_scalar(struct sim_program *p, enum kymo_engine e, unsigned alu, uint32_t imm,
                            struct sim_operand src, struct sim_operand dst)
{
    struct node *n = start(p, e, KYMO_OP_TENSOR_SCALAR);
    set_io(p, n, &src, &dst);
    sim_program_set(p, n, KYMO_F_ALU_OP, alu);
    sim_program_set(p, n, KYMO_F_IMM0, imm);
}

void sim_emit_unary(struct sim_program *p, enum kymo_engine e, uint8_t opcode, unsigned alu, struct sim_operand src,
                    struct sim_operand dst)
{
    struct node *n = start(p, e, opcode);
    set_io(p, n, &src, &dst);
    sim_program_set(p, n, KYMO_F_ALU_OP, alu);
}

void sim_emit_fill(struct sim_program *p, enum kymo_engine e, uint8_t opcode, uint32_t value, struct sim_operand dst)
{
    struct node *n = start(p, e, opcode);
    set_operand(p, n, KYMO_F_DST, &dst, true);
    sim_program_set(p, n, KYMO_F_OUT_DTYPE, dst.dtype);
    sim_program_set(p, n, KYMO_F_CHANNELS, ALL_CHANNELS);
    sim_program_set(p, n, KYMO_F_IMM0, value);
}

void sim_emit_load_act_table(struct sim_program *p, uint32_t set)
{
    struct node *n = start(p, KYMO_ENGINE_SCALAR, 0xC6);
    sim_program_set(p, n, KYMO_F_VALUE, set);
}

unsigned sim_program_queue(struct sim_program *p, const char *name, const char *type, enum kymo_engine owner,
                           unsigned num_queues)
{
    if (p->queue_count == QUEUES_MAX)
        sim_program_fail(p, -E2BIG, "more than %d DMA queues", QUEUES_MAX);
    if (p->error)
        return 0;
    struct queue *q = &p->queues[p->queue_count];
    *q = (struct queue){.owner = owner, .num_queues = num_queues, .dynamic = !strcmp(type, "dynamic")};
    (void)snprintf(q->name, sizeof q->name, "%s", name);
    (void)snprintf(q->type, sizeof q->type, "%s", type);
    return p->queue_count++;
}

static uint32_t var_of(const struct sim_program *p, uint32_t buf)
{
    for (size_t i = 0; i < p->var_count; i++)
        if (p->vars[i].buf == buf)
            return (uint32_t)i;
    return 0;
}

/* A transfer's place on the chip as an offset into the state buffer, whose rows lie one pitch apart. */
static uint64_t chip_address(const struct sim_transfer_spec *t)
{
    return kymo_addr64_of_variable((struct kymo_var_ref){SIM_STATE_BUFFER_VAR, t->chip.buf.addr + t->chip.offset});
}

static uint64_t hbm_address(const struct sim_program *p, const struct sim_transfer_spec *t)
{
    return kymo_addr64_of_variable((struct kymo_var_ref){var_of(p, t->var.id) + SIM_FIRST_VAR, t->var_offset});
}

/* The state buffer as a variable: partition r begins at r * bytes per partition. */
static void add_block(struct sim_program *p, const struct sim_transfer_spec *t, struct node *n, uint32_t row_bytes)
{
    struct queue *q = &p->queues[t->queue];
    if (!sim_program_grow(p, (void **)&p->blocks, &p->block_cap, p->block_count + 1, SIM_PROGRAM_NODES_MAX,
                          sizeof *p->blocks))
        return;
    n->block = p->block_count;
    n->amount = q->num_queues;
    p->blocks[p->block_count++] = (struct block){.queue = t->queue,
                                                 .id = q->blocks,
                                                 .var = var_of(p, t->var.id),
                                                 .var_offset = t->var_offset,
                                                 .row_bytes = row_bytes,
                                                 .rows = t->partitions,
                                                 .chip_offset = t->chip.buf.addr + t->chip.offset,
                                                 .store = t->store};
    if (kymo_layout_set_chars(p->arch, n->rec, KYMO_F_QUEUE_NAME, q->name) < 0)
        sim_program_fail(p, -EINVAL, "the layouts of %s do not hold a queue's name", p->arch->name);
    sim_program_set(p, n, KYMO_F_BLOCK_ID, q->blocks++);
}

static void set_direct(struct sim_program *p, const struct sim_transfer_spec *t, struct node *n, uint32_t row_bytes)
{
    const struct kymo_arch *a = p->arch;
    uint64_t pitch = a->sbuf_window / a->sbuf_partitions;
    uint64_t chip = chip_address(t), hbm = hbm_address(p, t);
    unsigned element = kymo_dtype_bits(t->chip.dtype) / 8;
    n->amount = 1;
    sim_program_set(p, n, KYMO_F_DMA_SEM_INC, n->amount);
    sim_program_set(p, n, KYMO_F_SRC_ADDR64, t->store ? chip : hbm);
    sim_program_set(p, n, KYMO_F_DST_ADDR64, t->store ? hbm : chip);
    sim_program_set(p, n, KYMO_F_SRC_ELEM, element);
    sim_program_set(p, n, KYMO_F_DST_ELEM, element);
    sim_program_set(p, n, KYMO_F_SRC_STEP0, element);
    sim_program_set(p, n, KYMO_F_DST_STEP0, element);
    sim_program_set(p, n, KYMO_F_SRC_STEP1, t->store ? pitch : row_bytes);
    sim_program_set(p, n, KYMO_F_DST_STEP1, t->store ? row_bytes : pitch);
    sim_program_set(p, n, KYMO_F_SRC_COUNT0, row_bytes / element);
    sim_program_set(p, n, KYMO_F_DST_COUNT0, row_bytes / element);
    sim_program_set(p, n, KYMO_F_SRC_COUNT1, t->partitions);
    sim_program_set(p, n, KYMO_F_DST_COUNT1, t->partitions);
    sim_program_set(p, n, KYMO_F_IN_DTYPE, t->chip.dtype);
    sim_program_set(p, n, KYMO_F_OUT_DTYPE, t->chip.dtype);
}

void sim_emit_transfer(struct sim_program *p, const struct sim_transfer_spec *t)
{
    if (p->error)
        return;
    const struct queue *q = &p->queues[t->queue];
    uint32_t row_bytes = t->chip.count * kymo_dtype_bits(t->chip.dtype) / 8;
    if (reach_bytes(&t->chip) > t->chip.buf.bytes || t->var_offset + (uint64_t)row_bytes * t->partitions > t->var.bytes)
        sim_program_fail(p, -EINVAL, "a transfer on %s leaves its buffers", q->name);
    struct node *n =
        sim_program_node(p, NODE_DMA, q->owner, q->dynamic ? KYMO_OP_PSEUDO_DMA_DIRECT2D : KYMO_OP_PSEUDO_DMA_TRIGGER);
    n->bir = sim_program_bir(p, q->owner, t->spill ? DEBUG_SPILL : DEBUG_REGULAR);
    if (n->bir != NODE_NONE) {
        p->birs[n->bir].queue = t->queue;
        *(t->store ? &p->birs[n->bir].hbm_write : &p->birs[n->bir].hbm_read) = (uint64_t)row_bytes * t->partitions;
    }
    n->queue = t->queue;
    n->store = t->store;
    n->chip_buf = t->chip.buf.id;
    sim_program_access(p, n, t->chip.buf.id, !t->store);
    sim_program_access(p, n, t->var.id, t->store);
    if (q->dynamic)
        set_direct(p, t, n, row_bytes);
    else
        add_block(p, t, n, row_bytes);
    p->stats.transfers += p->trips;
}
