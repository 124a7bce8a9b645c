/*
 * Self-attention with softmax, one head of 128 per iteration: projections, masked scores, exponentials, transposed
 * probabilities, weighted values; then the output projection. The score matmuls of the last query block run in fp32 low
 * and high passes. With LNC=2 the second core has one head less.
 */
#include "driver-iface/sim/sim_model.h"

#include <stdio.h>

#include "arch/opcode.h"

#define TILE 128
#define TILES_MAX 16
#define CHUNKS_MAX 4
#define SLOTS 2

enum projection { QUERY, KEY, VALUE, PROJECTIONS };

struct attention {
    struct sim_program *p;
    const struct sim_model_options *o;
    unsigned tiles, chunks, turn; /* chunks of 128 tokens */
    struct sim_model_queues q;
    struct sim_buf x_var, weights_var, out_weights_var, out_var, spill_var, identity_var;
    struct sim_buf x[TILES_MAX], weights[PROJECTIONS], projected[PROJECTIONS], projected32[PROJECTIONS], value_t;
    struct sim_buf mask, identity, scores[SLOTS], probs[SLOTS], probs_t, max, sum, scale, head[SLOTS], column[SLOTS],
        out[SLOTS];
};

static struct sim_operand tokens(const struct attention *a, struct sim_buf b, uint8_t dtype)
{
    return sim_model_at(b, 0, (uint16_t)a->o->batch, dtype);
}

static uint32_t row_bytes(const struct attention *a)
{
    return a->tiles * TILE * 2;
}

static void allocate(struct attention *a)
{
    struct sim_program *p = a->p;
    unsigned h = a->o->hidden, b = a->o->batch;
    char x[64], w[64];
    (void)snprintf(x, sizeof x, "[%u,%u]", h, b);
    (void)snprintf(w, sizeof w, "[%u,%u]", h, h);
    a->x_var = sim_program_var(p, "hidden_states", "input", h * b * 2, x, "bfloat16");
    a->weights_var =
        sim_program_var(p, "qkv_weights", "input", PROJECTIONS * TILE * row_bytes(a), "[3,128,-1]", "bfloat16");
    a->out_weights_var = sim_program_var(p, "out_weights", "input", h * h * 2, w, "bfloat16");
    a->out_var = sim_program_var(p, "attention_output", "output", h * b * 2, x, "bfloat16");
    a->spill_var = sim_program_var(p, "spill_value", "tmp-buf", TILE * b * 2, "[128,-1]", "bfloat16");
    a->identity_var = sim_program_var(p, "identity", "file", TILE * TILE * 2, "[128,128]", "bfloat16");
    for (unsigned t = 0; t < a->tiles; t++)
        a->x[t] = sim_program_sbuf(p, b * 2);
    for (unsigned i = 0; i < PROJECTIONS; i++) {
        a->weights[i] = sim_program_sbuf(p, row_bytes(a));
        a->projected[i] = sim_program_sbuf(p, b * 2);
        a->projected32[i] = sim_program_sbuf(p, b * 4);
    }
    for (unsigned s = 0; s < SLOTS; s++) {
        a->scores[s] = sim_program_sbuf(p, b * 4);
        a->probs[s] = sim_program_sbuf(p, b * 2);
        a->head[s] = sim_program_sbuf(p, TILE * 2);
        a->column[s] = sim_program_sbuf(p, row_bytes(a));
        a->out[s] = sim_program_sbuf(p, b * 2);
    }
    a->value_t = sim_program_sbuf(p, b * 2);
    a->probs_t = sim_program_sbuf(p, b * 2);
    a->mask = sim_program_sbuf(p, b * 4);
    a->identity = sim_program_sbuf(p, TILE * 2);
    a->max = sim_program_sbuf(p, 64);
    a->sum = sim_program_sbuf(p, 64);
    a->scale = sim_program_sbuf(p, 64);
}

static void setup(struct attention *a)
{
    struct sim_program *p = a->p;
    sim_model_scope(p, "attention", 0, "Setup", "constant", 10);
    sim_emit_load_act_table(p, KYMO_ACT_EXP);
    sim_model_move(p, a->q.in, false, a->identity_var, 0, sim_model_at(a->identity, 0, TILE, KYMO_DT_BF16));
    for (unsigned t = 0; t < a->tiles; t++)
        sim_model_move(p, a->q.in, false, a->x_var, t * TILE * a->o->batch * 2, tokens(a, a->x[t], KYMO_DT_BF16));
    sim_model_scope(p, "attention", 0, "CausalMask", "iota", 12);
    struct sim_operand mask = tokens(a, a->mask, KYMO_DT_FP32);
    sim_emit_fill(p, KYMO_ENGINE_GPSIMD, KYMO_OP_IOTA, 0, mask);
    sim_emit_tensor_scalar(p, KYMO_ENGINE_GPSIMD, KYMO_ALU_MIN, 0, mask, mask);
}

static void project(struct attention *a, enum projection which)
{
    struct sim_program *p = a->p;
    static const char *const steps[] = {"Query", "Key", "Value"};
    sim_model_scope(p, "attention", 0, steps[which], "dot", 20 + (int)which);
    struct sim_operand bank = sim_model_bank(p, &a->turn, (uint16_t)a->o->batch);
    for (unsigned k = 0; k < a->tiles; k++)
        sim_emit_matmul(p,
                        &(struct sim_matmul){.weights = sim_model_at(a->weights[which], k * TILE, TILE, KYMO_DT_BF16),
                                             .moving = tokens(a, a->x[k], KYMO_DT_BF16),
                                             .dst = bank,
                                             .rows = TILE,
                                             .cols = TILE,
                                             .begin = k == 0,
                                             .end = k == a->tiles - 1});
    sim_emit_activate(p, KYMO_ACT_IDENTITY, bank, tokens(a, a->projected[which], KYMO_DT_BF16));
    if (which != VALUE)
        sim_emit_unary(p, KYMO_ENGINE_VECTOR, KYMO_OP_COPY, KYMO_ALU_BYPASS, bank,
                       tokens(a, a->projected32[which], KYMO_DT_FP32));
}

/* in[chunk c] (128 x 128) transposed to out[chunk c], copied out of PSUM by Vector and Scalar in turn. */
static void transpose(struct attention *a, struct sim_buf in, struct sim_buf out, const char *step)
{
    struct sim_program *p = a->p;
    sim_model_scope(p, "attention", 0, step, "transpose", 25);
    sim_program_enter(p, SIM_KERNEL_FRAME, "attention_nki.transpose_tiles", 0, 62);
    for (unsigned c = 0; c < a->chunks; c++) {
        sim_program_enter(p, SIM_KERNEL_VARIABLE, "tile", c, 80);
        sim_program_kernel_line(p, 81);
        struct sim_operand bank = sim_model_bank(p, &a->turn, TILE);
        sim_emit_matmul(p, &(struct sim_matmul){.weights = sim_model_at(in, c * TILE, TILE, KYMO_DT_BF16),
                                                .moving = sim_model_at(a->identity, 0, TILE, KYMO_DT_BF16),
                                                .dst = bank,
                                                .rows = TILE,
                                                .cols = TILE,
                                                .begin = true,
                                                .end = true,
                                                .transpose = true});
        struct sim_operand to = sim_model_at(out, c * TILE, TILE, KYMO_DT_BF16);
        sim_program_kernel_line(p, 82);
        if (c % 2)
            sim_emit_activate(p, KYMO_ACT_IDENTITY, bank, to);
        else
            sim_emit_unary(p, KYMO_ENGINE_VECTOR, KYMO_OP_COPY, KYMO_ALU_BYPASS, bank, to);
        sim_program_leave(p, SIM_KERNEL_VARIABLE);
    }
    sim_program_leave(p, SIM_KERNEL_FRAME);
}

static void softmax(struct attention *a, unsigned slot, struct sim_operand bank)
{
    struct sim_program *p = a->p;
    struct sim_operand scores = tokens(a, a->scores[slot], KYMO_DT_FP32),
                       probs = tokens(a, a->probs[slot], KYMO_DT_BF16);
    struct sim_operand max = sim_model_at(a->max, 0, 1, KYMO_DT_FP32), sum = sim_model_at(a->sum, 0, 1, KYMO_DT_FP32);
    struct sim_operand scale = sim_model_at(a->scale, 0, 1, KYMO_DT_FP32);
    sim_program_enter(p, SIM_KERNEL_REGION, "softmax", 0, 52);
    sim_program_enter(p, SIM_KERNEL_FRAME, "attention_nki.softmax_tile", 0, 53);
    sim_program_kernel_line(p, 70);
    sim_model_scope(p, "attention", 0, "Softmax", "maximum", 30);
    sim_emit_tensor_tensor(p, KYMO_ENGINE_VECTOR, KYMO_ALU_ADD, bank, tokens(a, a->mask, KYMO_DT_FP32), scores);
    sim_emit_unary(p, KYMO_ENGINE_VECTOR, KYMO_OP_TENSOR_REDUCE, KYMO_ALU_MAX, scores, max);
    sim_program_kernel_line(p, 71);
    sim_model_scope(p, "attention", 0, "Softmax", "exponential", 31);
    sim_emit_tensor_scalar(p, KYMO_ENGINE_VECTOR, KYMO_ALU_SUBTRACT, 0, scores, scores);
    sim_emit_activate(p, KYMO_ACT_EXP, scores, probs);
    sim_program_enter(p, SIM_KERNEL_REGION, "normalize", 0, 73);
    sim_program_kernel_line(p, 74);
    sim_model_scope(p, "attention", 0, "Softmax", "divide", 32);
    sim_emit_unary(p, KYMO_ENGINE_VECTOR, KYMO_OP_TENSOR_REDUCE, KYMO_ALU_ADD, probs, sum);
    sim_emit_unary(p, KYMO_ENGINE_VECTOR, 0x48, KYMO_ALU_BYPASS, sum, scale);
    sim_emit_scalar_tensor_tensor(p, KYMO_ENGINE_GPSIMD, KYMO_ALU_MULT, KYMO_ALU_MULT, probs, probs, probs);
    sim_program_leave(p, SIM_KERNEL_REGION);
    sim_program_leave(p, SIM_KERNEL_FRAME);
    sim_program_leave(p, SIM_KERNEL_REGION);
}

static void attend(struct attention *a, unsigned chunk)
{
    struct sim_program *p = a->p;
    unsigned slot = chunk % SLOTS;
    bool precise = chunk == a->chunks - 1;
    uint8_t dtype = precise ? KYMO_DT_FP32 : KYMO_DT_BF16;
    struct sim_buf *from = precise ? a->projected32 : a->projected;
    sim_program_enter(p, SIM_KERNEL_VARIABLE, "chunk", chunk, 40);
    sim_program_enter(p, SIM_KERNEL_REGION, "attend", 0, 41);
    sim_program_kernel_line(p, 45);
    sim_model_scope(p, "attention", 0, "Scores", "dot", 28);
    struct sim_operand bank = sim_model_bank(p, &a->turn, (uint16_t)a->o->batch);
    sim_emit_matmul(p, &(struct sim_matmul){.weights = sim_model_at(from[QUERY], chunk * TILE, TILE, dtype),
                                            .moving = tokens(a, from[KEY], dtype),
                                            .dst = bank,
                                            .rows = TILE,
                                            .cols = TILE,
                                            .begin = true,
                                            .end = true});
    softmax(a, slot, bank);
    transpose(a, a->probs[slot], a->probs_t, "Probabilities");
    sim_program_kernel_line(p, 64);
    sim_model_scope(p, "attention", 0, "Context", "dot", 35);
    struct sim_operand context = sim_model_bank(p, &a->turn, TILE);
    for (unsigned c = 0; c < a->chunks; c++)
        sim_emit_matmul(p, &(struct sim_matmul){.weights = sim_model_at(a->probs_t, c * TILE, TILE, KYMO_DT_BF16),
                                                .moving = sim_model_at(a->value_t, c * TILE, TILE, KYMO_DT_BF16),
                                                .dst = context,
                                                .rows = TILE,
                                                .cols = TILE,
                                                .begin = c == 0,
                                                .end = c == a->chunks - 1});
    struct sim_operand head = sim_model_at(a->head[slot], 0, TILE, KYMO_DT_BF16);
    sim_emit_activate(p, KYMO_ACT_IDENTITY, context, head);
    sim_model_scope(p, "attention", 0, "Context", "store", 36);
    sim_program_leave(p, SIM_KERNEL_REGION);
    /* The store stands behind the region, in the loop alone. */
    sim_program_kernel_line(p, 66);
    sim_model_move(p, chunk % 2 ? a->q.software_dge : a->q.out, true, a->out_var, chunk * TILE * TILE * 2, head);
    sim_program_leave(p, SIM_KERNEL_VARIABLE);
}

static void one_head(struct attention *a)
{
    struct sim_program *p = a->p;
    sim_model_scope(p, "attention", 0, "Weights", "copy", 18);
    for (unsigned i = 0; i < PROJECTIONS; i++)
        sim_model_move(p, i == KEY ? a->q.scalar_dge : a->q.weights, false, a->weights_var, i * TILE * row_bytes(a),
                       sim_model_at(a->weights[i], 0, (uint16_t)(a->tiles * TILE), KYMO_DT_BF16));
    for (int i = QUERY; i < PROJECTIONS; i++)
        project(a, (enum projection)i);
    /* The values leave SBUF while the scores need room, and come back. */
    struct sim_transfer_spec spill = {.queue = a->q.spill,
                                      .store = true,
                                      .spill = true,
                                      .var = a->spill_var,
                                      .chip = tokens(a, a->projected[VALUE], KYMO_DT_BF16),
                                      .partitions = TILE};
    sim_model_scope(p, "attention", 0, "Spill", "copy", 26);
    sim_emit_transfer(p, &spill);
    spill.store = false;
    sim_emit_transfer(p, &spill);
    transpose(a, a->projected[VALUE], a->value_t, "Value");
    if (a->o->nki)
        sim_program_kernel_open(p, "flash_attention", "/opt/model/attention_nki.py");
    sim_program_enter(p, SIM_KERNEL_FRAME, "attention_nki.flash_attention", 0, 38);
    for (unsigned c = 0; c < a->chunks; c++)
        attend(a, c);
    sim_program_leave(p, SIM_KERNEL_FRAME);
    sim_program_kernel_close(p);
}

static void project_output(struct attention *a)
{
    struct sim_program *p = a->p;
    for (unsigned t = 0; t < a->tiles; t++) {
        unsigned slot = t % SLOTS;
        sim_model_scope(p, "attention", 1, "Output", "dot", 40);
        sim_model_move(p, a->q.sync_dge, false, a->out_weights_var, t * TILE * row_bytes(a),
                       sim_model_at(a->column[slot], 0, (uint16_t)(a->tiles * TILE), KYMO_DT_BF16));
        struct sim_operand bank = sim_model_bank(p, &a->turn, (uint16_t)a->o->batch);
        for (unsigned k = 0; k < a->tiles; k++)
            sim_emit_matmul(p,
                            &(struct sim_matmul){.weights = sim_model_at(a->column[slot], k * TILE, TILE, KYMO_DT_BF16),
                                                 .moving = tokens(a, a->x[k], KYMO_DT_BF16),
                                                 .dst = bank,
                                                 .rows = TILE,
                                                 .cols = TILE,
                                                 .begin = k == 0,
                                                 .end = k == a->tiles - 1});
        sim_model_scope(p, "attention", 1, "Residual", "add", 41);
        sim_emit_tensor_tensor(p, KYMO_ENGINE_VECTOR, KYMO_ALU_ADD, bank, tokens(a, a->x[t], KYMO_DT_BF16),
                               tokens(a, a->out[slot], KYMO_DT_BF16));
        sim_model_move(p, a->q.vector_out, true, a->out_var, t * TILE * a->o->batch * 2,
                       tokens(a, a->out[slot], KYMO_DT_BF16));
    }
}

static void build(struct sim_program *p, const struct sim_model_options *o)
{
    struct attention a = {
        .p = p, .o = o, .tiles = o->hidden / TILE, .chunks = o->batch / TILE, .q = sim_model_add_queues(p)};
    allocate(&a);
    setup(&a);
    uint32_t heads = a.tiles * o->layers;
    if (o->core && heads > 1)
        heads--;
    sim_program_loop_begin(p, heads * o->repeat);
    one_head(&a);
    sim_program_loop_end(p);
    project_output(&a);
}

const struct sim_model sim_model_attention = {
    .name = "attention",
    .defaults = {.layers = 4, .hidden = 512, .batch = 256, .repeat = 1, .lnc = 1},
    .build = build,
};
