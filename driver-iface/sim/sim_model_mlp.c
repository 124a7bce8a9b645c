/*
 * A training step of a multi-layer perceptron, over and over: forward (bf16, every third layer fp8), loss, backward
 * (input gradients bf16; weight gradients bf16, fp32 in low and high passes for layer 0), weight update. Layer inputs
 * are spilled to HBM on the way forward and reloaded on the way back. With LNC=2 the cores compute alternate tiles and
 * fetch the others'.
 */
#include "driver-iface/sim/sim_model.h"

#include <stdio.h>

#include "arch/opcode.h"

#define TILE 128
#define TILES_MAX 16
#define LAYERS_MAX 64
#define TRIPS 8
#define BANK 512 /* fp32 in a PSUM bank */
#define SLOTS 2

struct mlp {
    struct sim_program *p;
    const struct sim_model_options *o;
    unsigned tiles, turn; /* of the PSUM banks */
    struct sim_model_queues q;
    struct sim_buf x, target, loss_out, exchange, weights[LAYERS_MAX], updated[LAYERS_MAX], spill[LAYERS_MAX];
    struct sim_buf identity, act[SLOTS][TILES_MAX], fp8[TILES_MAX], reload[TILES_MAX], grad[SLOTS][TILES_MAX],
        column[SLOTS];
    struct sim_buf act_t, grad_t, old[SLOTS], new[SLOTS], square, norm, label, loss;
};

static uint8_t layer_dtype(const struct mlp *m, unsigned layer)
{
    bool fp8 = layer % 3 == 1 && sim_program_arch(m->p)->cost[KYMO_COST_FP8] > 0;
    return fp8 ? KYMO_DT_FP8_E4 : KYMO_DT_BF16;
}

static struct sim_operand tokens(const struct mlp *m, struct sim_buf b, uint8_t dtype)
{
    return sim_model_at(b, 0, (uint16_t)m->o->batch, dtype);
}

static uint32_t column_bytes(const struct mlp *m)
{
    return m->tiles * TILE * 2;
}

static struct sim_buf add_var(struct mlp *m, const char *stem, unsigned layer, const char *type, uint32_t row_bytes)
{
    char name[SIM_NAME_MAX], shape[64];
    (void)snprintf(name, sizeof name, "%s_%u", stem, layer);
    (void)snprintf(shape, sizeof shape, "[%u,%u]", m->o->hidden, row_bytes / 2);
    return sim_program_var(m->p, name, type, m->o->hidden * row_bytes, shape, "bfloat16");
}

static void allocate_vars(struct mlp *m)
{
    uint32_t token_bytes = m->o->batch * 2;
    m->x = add_var(m, "x", 0, "input", token_bytes);
    m->target = add_var(m, "target", 0, "input", token_bytes);
    m->loss_out = sim_program_var(m->p, "loss", "output", TILE * 4, "[128]", "float32");
    m->identity = sim_program_var(m->p, "identity", "file", TILE * TILE * 2, "[128,128]", "bfloat16");
    m->exchange = add_var(m, "exchange", 0, "tmp-buf", token_bytes);
    for (unsigned l = 0; l < m->o->layers; l++) {
        m->weights[l] = add_var(m, "weight", l, "input", column_bytes(m));
        m->updated[l] = add_var(m, "weight_updated", l, "output", column_bytes(m));
        m->spill[l] = add_var(m, "spill", l, "tmp-buf", token_bytes);
    }
}

static void allocate_sbuf(struct mlp *m)
{
    struct sim_program *p = m->p;
    for (unsigned t = 0; t < m->tiles; t++) {
        for (unsigned s = 0; s < SLOTS; s++) {
            m->act[s][t] = sim_program_sbuf(p, m->o->batch * 2);
            m->grad[s][t] = sim_program_sbuf(p, m->o->batch * 2);
        }
        m->fp8[t] = sim_program_sbuf(p, m->o->batch);
        m->reload[t] = sim_program_sbuf(p, m->o->batch * 2);
    }
    for (unsigned s = 0; s < SLOTS; s++) {
        m->column[s] = sim_program_sbuf(p, column_bytes(m));
        m->old[s] = sim_program_sbuf(p, column_bytes(m));
        m->new[s] = sim_program_sbuf(p, column_bytes(m));
    }
    m->act_t = sim_program_sbuf(p, m->tiles * m->o->batch * 4);
    m->grad_t = sim_program_sbuf(p, m->tiles * m->o->batch * 4);
    m->square = sim_program_sbuf(p, BANK * 4);
    m->norm = sim_program_sbuf(p, 64);
    m->label = sim_program_sbuf(p, m->o->batch * 2);
    m->loss = sim_program_sbuf(p, 64);
}

static bool is_mine(const struct mlp *m, unsigned tile)
{
    return tile % m->o->lnc == m->o->core || m->tiles == 1;
}

static void load_column(struct mlp *m, unsigned layer, unsigned tile)
{
    uint8_t dtype = layer_dtype(m, layer);
    /* Layers take turns between pre-computed and, where it exists, hardware-made descriptors. */
    unsigned queue = layer % 2 ? m->q.scalar_dge : m->q.weights;
    uint16_t count = (uint16_t)(m->tiles * TILE);
    sim_model_move(m->p, queue, false, m->weights[layer], tile * TILE * column_bytes(m),
                   sim_model_at(m->column[tile / m->o->lnc % SLOTS], 0, count, dtype));
}

static unsigned next_mine(const struct mlp *m, unsigned tile)
{
    for (tile++; tile < m->tiles; tile++)
        if (is_mine(m, tile))
            return tile;
    return m->tiles;
}

/* One output tile: all input tiles against one column of weights, added up in a bank. */
static struct sim_operand multiply_column(struct mlp *m, unsigned tile, struct sim_buf *in, uint8_t dtype)
{
    struct sim_operand bank = sim_model_bank(m->p, &m->turn, (uint16_t)m->o->batch);
    struct sim_buf column = m->column[tile / m->o->lnc % SLOTS];
    for (unsigned k = 0; k < m->tiles; k++)
        sim_emit_matmul(m->p, &(struct sim_matmul){.weights = sim_model_at(column, k * TILE, TILE, dtype),
                                                   .moving = tokens(m, in[k], dtype),
                                                   .dst = bank,
                                                   .rows = TILE,
                                                   .cols = TILE,
                                                   .begin = k == 0,
                                                   .end = k == m->tiles - 1});
    return bank;
}

/* The other core's tiles come through HBM. */
static void exchange_tiles(struct mlp *m, unsigned layer, struct sim_buf *tiles)
{
    if (m->o->lnc == 1 || m->tiles == 1)
        return;
    sim_model_scope(m->p, "mlp", layer, "Exchange", "all-gather", 18);
    for (unsigned t = 0; t < m->tiles; t++)
        sim_model_move(m->p, is_mine(m, t) ? m->q.out : m->q.in, is_mine(m, t), m->exchange, t * TILE * m->o->batch * 2,
                       tokens(m, tiles[t], KYMO_DT_BF16));
}

static void forward_layer(struct mlp *m, unsigned layer)
{
    struct sim_program *p = m->p;
    struct sim_buf *in = m->act[layer % 2], *out = m->act[(layer + 1) % 2];
    uint8_t dtype = layer_dtype(m, layer);
    sim_model_scope(p, "mlp", layer, "Spill", "copy", 20);
    for (unsigned t = 0; t < m->tiles; t++)
        sim_emit_transfer(p, &(struct sim_transfer_spec){.queue = m->q.spill,
                                                         .store = true,
                                                         .spill = true,
                                                         .var = m->spill[layer],
                                                         .var_offset = t * TILE * m->o->batch * 2,
                                                         .chip = tokens(m, in[t], KYMO_DT_BF16),
                                                         .partitions = TILE});
    sim_model_scope(p, "mlp", layer, "Cast", "convert", 21);
    for (unsigned t = 0; dtype != KYMO_DT_BF16 && t < m->tiles; t++)
        sim_emit_unary(p, KYMO_ENGINE_VECTOR, KYMO_OP_CAST, KYMO_ALU_BYPASS, tokens(m, in[t], KYMO_DT_BF16),
                       tokens(m, m->fp8[t], dtype));
    sim_model_scope(p, "mlp", layer, "Linear", "dot", 22);
    unsigned first = is_mine(m, 0) ? 0 : next_mine(m, 0), ahead = next_mine(m, first);
    load_column(m, layer, first);
    if (ahead < m->tiles)
        load_column(m, layer, ahead);
    for (unsigned t = first; t < m->tiles; t = next_mine(m, t)) {
        sim_model_scope(p, "mlp", layer, "Linear", "dot", 22);
        struct sim_operand bank = multiply_column(m, t, dtype == KYMO_DT_BF16 ? in : m->fp8, dtype);
        if (ahead < m->tiles && (ahead = next_mine(m, ahead)) < m->tiles)
            load_column(m, layer, ahead);
        sim_model_scope(p, "mlp", layer, "Gelu", "gelu", 23);
        sim_emit_activate(p, KYMO_ACT_GELU, bank, tokens(m, out[t], KYMO_DT_BF16));
        sim_model_scope(p, "mlp", layer, "Dropout", "multiply", 24);
        if (t % 2)
            sim_emit_tensor_scalar(p, KYMO_ENGINE_GPSIMD, KYMO_ALU_MULT, 0x3F8E38E4, tokens(m, out[t], KYMO_DT_BF16),
                                   tokens(m, out[t], KYMO_DT_BF16));
        else
            sim_emit_tensor_tensor(p, KYMO_ENGINE_VECTOR, KYMO_ALU_ADD, tokens(m, out[t], KYMO_DT_BF16),
                                   tokens(m, in[t], KYMO_DT_BF16), tokens(m, out[t], KYMO_DT_BF16));
    }
    exchange_tiles(m, layer, out);
}

static void compute_loss(struct mlp *m)
{
    struct sim_program *p = m->p;
    unsigned last = m->o->layers;
    struct sim_buf *out = m->act[last % 2], *grad = m->grad[last % 2];
    for (unsigned t = 0; t < m->tiles; t++) {
        struct sim_operand g = tokens(m, grad[t], KYMO_DT_BF16), square = tokens(m, m->square, KYMO_DT_FP32);
        sim_model_scope(p, "mlp", last, "Loss", "subtract", 30);
        sim_model_move(p, m->q.sync_dge, false, m->target, t * TILE * m->o->batch * 2,
                       tokens(m, m->label, KYMO_DT_BF16));
        sim_emit_tensor_tensor(p, KYMO_ENGINE_VECTOR, KYMO_ALU_SUBTRACT, tokens(m, out[t], KYMO_DT_BF16),
                               tokens(m, m->label, KYMO_DT_BF16), g);
        /* Core 0 alone adds up the loss. */
        if (m->o->core)
            continue;
        sim_model_scope(p, "mlp", last, "Loss", "reduce", 31);
        sim_emit_tensor_tensor(p, KYMO_ENGINE_GPSIMD, KYMO_ALU_MULT, g, g, square);
        sim_emit_unary(p, KYMO_ENGINE_VECTOR, KYMO_OP_TENSOR_REDUCE, KYMO_ALU_ADD, square,
                       sim_model_at(m->loss, t % 8, 1, KYMO_DT_FP32));
    }
    if (!m->o->core)
        sim_model_move(p, m->q.vector_out, true, m->loss_out, 0, sim_model_at(m->loss, 0, 1, KYMO_DT_FP32));
}

/* Tokens into partitions: 128 x 128 blocks through the tensor engine, copied out of PSUM by Vector and Scalar in turn.
 */
static void transpose_tiles(struct mlp *m, struct sim_buf *in, struct sim_buf out, uint8_t dtype)
{
    struct sim_program *p = m->p;
    unsigned chunks = m->o->batch / TILE;
    for (unsigned t = 0; t < m->tiles; t++)
        for (unsigned c = 0; c < chunks; c++) {
            struct sim_operand bank = sim_model_bank(p, &m->turn, TILE);
            sim_emit_matmul(p, &(struct sim_matmul){.weights = sim_model_at(in[t], c * TILE, TILE, KYMO_DT_BF16),
                                                    .moving = sim_model_at(m->identity, 0, TILE, KYMO_DT_BF16),
                                                    .dst = bank,
                                                    .rows = TILE,
                                                    .cols = TILE,
                                                    .begin = true,
                                                    .end = true,
                                                    .transpose = true});
            struct sim_operand to = sim_model_at(out, (c * m->tiles + t) * TILE, TILE, dtype);
            if (t % 2)
                sim_emit_activate(p, KYMO_ACT_IDENTITY, bank, to);
            else
                sim_emit_unary(p, KYMO_ENGINE_VECTOR, KYMO_OP_COPY, KYMO_ALU_BYPASS, bank, to);
        }
}

static void input_gradient(struct mlp *m, unsigned layer)
{
    struct sim_program *p = m->p;
    struct sim_buf *in = m->grad[(layer + 1) % 2], *out = m->grad[layer % 2];
    uint8_t dtype = KYMO_DT_BF16;
    for (unsigned t = 0; t < m->tiles; t++) {
        if (!is_mine(m, t))
            continue;
        sim_model_scope(p, "mlp", layer, "LinearBackward", "dot", 41);
        sim_model_move(p, m->q.weights, false, m->weights[layer], t * TILE * column_bytes(m),
                       sim_model_at(m->column[t / m->o->lnc % SLOTS], 0, (uint16_t)(m->tiles * TILE), dtype));
        struct sim_operand bank = multiply_column(m, t, in, dtype);
        sim_model_scope(p, "mlp", layer, "GeluBackward", "multiply", 42);
        sim_emit_activate(p, KYMO_ACT_GELU_DX, bank, tokens(m, out[t], dtype));
        sim_emit_tensor_tensor(p, KYMO_ENGINE_VECTOR, KYMO_ALU_MULT, tokens(m, out[t], dtype),
                               tokens(m, m->reload[t], dtype), tokens(m, out[t], dtype));
    }
    exchange_tiles(m, layer, out);
}

/* Rows of the weight gradient stay in PSUM until Vector has taken the step. */
static void update_row(struct mlp *m, unsigned layer, unsigned k, uint8_t dtype)
{
    struct sim_program *p = m->p;
    unsigned slot = k / m->o->lnc % SLOTS, chunks = m->o->batch / TILE, width = m->tiles * TILE;
    sim_model_scope(p, "mlp", layer, "Optimizer", "copy", 50);
    sim_model_move(p, m->q.sync_dge, false, m->weights[layer], k * TILE * column_bytes(m),
                   sim_model_at(m->old[slot], 0, (uint16_t)width, KYMO_DT_BF16));
    for (unsigned f = 0; f < width; f += BANK) {
        uint16_t n = (uint16_t)(width - f < BANK ? width - f : BANK);
        struct sim_operand bank = sim_model_bank(p, &m->turn, n);
        sim_model_scope(p, "mlp", layer, "WeightGradient", "dot", 44);
        for (unsigned c = 0; c < chunks; c++)
            sim_emit_matmul(
                p, &(struct sim_matmul){.weights = sim_model_at(m->act_t, (c * m->tiles + k) * TILE, TILE, dtype),
                                        .moving = sim_model_at(m->grad_t, c * width + f, n, dtype),
                                        .dst = bank,
                                        .rows = TILE,
                                        .cols = TILE,
                                        .begin = c == 0,
                                        .end = c == chunks - 1});
        struct sim_operand next = sim_model_at(m->new[slot], f, n, KYMO_DT_BF16);
        sim_model_scope(p, "mlp", layer, "Optimizer", "add", 51);
        sim_emit_scalar_tensor_tensor(p, KYMO_ENGINE_VECTOR, KYMO_ALU_MULT, KYMO_ALU_ADD, bank,
                                      sim_model_at(m->old[slot], f, n, KYMO_DT_BF16), next);
        sim_model_scope(p, "mlp", layer, "Optimizer", "norm", 52);
        sim_emit_tensor_tensor(p, KYMO_ENGINE_GPSIMD, KYMO_ALU_MULT, next, next,
                               sim_model_at(m->square, 0, n, KYMO_DT_FP32));
        sim_emit_unary(p, KYMO_ENGINE_GPSIMD, KYMO_OP_TENSOR_REDUCE, KYMO_ALU_ADD,
                       sim_model_at(m->square, 0, n, KYMO_DT_FP32), sim_model_at(m->norm, 0, 1, KYMO_DT_FP32));
    }
    sim_model_scope(p, "mlp", layer, "Optimizer", "store", 53);
    sim_model_move(p, k % 2 ? m->q.out : m->q.software_dge, true, m->updated[layer], k * TILE * column_bytes(m),
                   sim_model_at(m->new[slot], 0, (uint16_t)width, KYMO_DT_BF16));
}

static void backward_layer(struct mlp *m, unsigned layer)
{
    struct sim_program *p = m->p;
    sim_model_scope(p, "mlp", layer, "Reload", "copy", 40);
    for (unsigned t = 0; t < m->tiles; t++)
        sim_emit_transfer(p, &(struct sim_transfer_spec){.queue = m->q.spill,
                                                         .spill = true,
                                                         .var = m->spill[layer],
                                                         .var_offset = t * TILE * m->o->batch * 2,
                                                         .chip = tokens(m, m->reload[t], KYMO_DT_BF16),
                                                         .partitions = TILE});
    uint8_t dtype = layer == 0 ? KYMO_DT_FP32 : KYMO_DT_BF16;
    if (layer > 0)
        input_gradient(m, layer);
    sim_model_scope(p, "mlp", layer, "WeightGradient", "transpose", 43);
    transpose_tiles(m, m->reload, m->act_t, dtype);
    transpose_tiles(m, m->grad[(layer + 1) % 2], m->grad_t, dtype);
    for (unsigned k = 0; k < m->tiles; k++)
        if (is_mine(m, k))
            update_row(m, layer, k, dtype);
}

static void build(struct sim_program *p, const struct sim_model_options *o)
{
    struct mlp m = {.p = p, .o = o, .tiles = o->hidden / TILE, .q = sim_model_add_queues(p)};
    allocate_vars(&m);
    allocate_sbuf(&m);
    struct sim_buf identity = sim_program_sbuf(p, TILE * 2);
    sim_model_scope(p, "mlp", 0, "Setup", "constant", 10);
    sim_emit_load_act_table(p, KYMO_ACT_GELU);
    sim_model_move(p, m.q.in, false, m.identity, 0, sim_model_at(identity, 0, TILE, KYMO_DT_BF16));
    m.identity = identity;
    sim_emit_fill(p, KYMO_ENGINE_GPSIMD, KYMO_OP_MEMSET, 0, sim_model_at(m.norm, 0, 16, KYMO_DT_FP32));
    sim_emit_fill(p, KYMO_ENGINE_VECTOR, KYMO_OP_MEMSET, 0, sim_model_at(m.loss, 0, 16, KYMO_DT_FP32));
    /* The second core of a pair does an eighth less. */
    sim_program_loop_begin(p, TRIPS * o->repeat - (o->core ? o->repeat : 0));
    sim_model_scope(p, "mlp", 0, "Input", "copy", 15);
    for (unsigned t = 0; t < m.tiles; t++)
        sim_model_move(p, m.q.in, false, m.x, t * TILE * o->batch * 2, tokens(&m, m.act[0][t], KYMO_DT_BF16));
    for (unsigned l = 0; l < o->layers; l++)
        forward_layer(&m, l);
    compute_loss(&m);
    for (unsigned l = o->layers; l-- > 0;)
        backward_layer(&m, l);
    sim_program_loop_end(p);
}

const struct sim_model sim_model_mlp = {
    .name = "mlp",
    .defaults = {.layers = 2, .hidden = 512, .batch = 128, .repeat = 1, .lnc = 1},
    .build = build,
};
