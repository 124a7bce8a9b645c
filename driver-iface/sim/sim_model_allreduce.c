/*
 * Data-parallel training steps, over and over: forward, backward, and the gradients of each layer brought together over
 * all ranks while the layer below is still being computed. Even layers do it by AllReduce; odd ones keep a shard of
 * their weights on each rank: ReduceScatter, update of the shard, AllGather of the new weights. The loss is reduced
 * over pairs of ranks on a stream of its own. With LNC=2 the cores compute alternate tiles, meet at a barrier before
 * and behind each collective, and core 0 triggers it.
 */
#include <stdio.h>

#include "arch/cc.h"
#include "arch/opcode.h"
#include "driver-iface/sim/sim_model.h"

#define TILE 128
#define TILES_MAX 16
#define LAYERS_MAX 64
#define TRIPS 4
#define BANK 512
#define GRADIENT_STREAM 0
#define LOSS_STREAM 1

struct dp {
    struct sim_program *p;
    const struct sim_model_options *o;
    unsigned tiles, turn, world_group, pair_group;
    struct sim_model_queues q;
    struct sim_buf x, loss_var, loss_out, weights[LAYERS_MAX], updated[LAYERS_MAX], grads[LAYERS_MAX],
        shards[LAYERS_MAX];
    struct sim_buf act[2][TILES_MAX], column[2], grad[2], old[2], new[2], loss;
};

static struct sim_operand tokens(const struct dp *m, struct sim_buf b)
{
    return sim_model_at(b, 0, (uint16_t)m->o->batch, KYMO_DT_BF16);
}

static uint32_t row_bytes(const struct dp *m)
{
    return m->o->hidden * 2;
}

static bool is_sharded(unsigned layer)
{
    return layer % 2 == 1;
}

static bool is_mine(const struct dp *m, unsigned tile)
{
    return tile % m->o->lnc == m->o->core || m->tiles == 1;
}

static struct sim_buf add_var(struct dp *m, const char *stem, unsigned layer, const char *type, uint32_t bytes)
{
    char name[SIM_NAME_MAX], shape[64];
    (void)snprintf(name, sizeof name, "%s_%u", stem, layer);
    (void)snprintf(shape, sizeof shape, "[%u]", bytes / 2);
    return sim_program_var(m->p, name, type, bytes, shape, "bfloat16");
}

static void allocate(struct dp *m)
{
    struct sim_program *p = m->p;
    uint32_t size = m->o->hidden * row_bytes(m), tile = TILE * row_bytes(m);
    m->x = add_var(m, "x", 0, "input", m->o->hidden * m->o->batch * 2);
    m->loss_var = sim_program_var(p, "loss_local", "tmp-buf", TILE * 4, "[128]", "float32");
    m->loss_out = sim_program_var(p, "loss", "output", TILE * 4, "[128]", "float32");
    for (unsigned l = 0; l < m->o->layers; l++) {
        m->weights[l] = add_var(m, "weight", l, "input", size);
        m->updated[l] = add_var(m, "weight_updated", l, "output", size);
        m->grads[l] = add_var(m, "gradient", l, "tmp-buf", size);
        m->shards[l] = is_sharded(l) ? add_var(m, "shard", l, "tmp-buf", tile > size / m->o->ranks ? tile : size)
                                     : (struct sim_buf){0};
    }
    for (unsigned s = 0; s < 2; s++) {
        for (unsigned t = 0; t < m->tiles; t++)
            m->act[s][t] = sim_program_sbuf(p, m->o->batch * 2);
        m->column[s] = sim_program_sbuf(p, row_bytes(m));
        m->grad[s] = sim_program_sbuf(p, row_bytes(m));
        m->old[s] = sim_program_sbuf(p, row_bytes(m));
        m->new[s] = sim_program_sbuf(p, row_bytes(m));
    }
    m->loss = sim_program_sbuf(p, 64);
}

static void forward_layer(struct dp *m, unsigned layer)
{
    struct sim_buf *in = m->act[layer % 2], *out = m->act[(layer + 1) % 2];
    for (unsigned t = 0; t < m->tiles; t++) {
        if (!is_mine(m, t))
            continue;
        unsigned slot = t / m->o->lnc % 2;
        sim_model_scope(m->p, "allreduce", layer, "Linear", "dot", 20);
        sim_model_move(m->p, t % 2 ? m->q.scalar_dge : m->q.weights, false, m->weights[layer], t * TILE * row_bytes(m),
                       sim_model_at(m->column[slot], 0, (uint16_t)m->o->hidden, KYMO_DT_BF16));
        struct sim_operand bank = sim_model_bank(m->p, &m->turn, (uint16_t)m->o->batch);
        for (unsigned k = 0; k < m->tiles; k++)
            sim_emit_matmul(m->p,
                            &(struct sim_matmul){.weights = sim_model_at(m->column[slot], k * TILE, TILE, KYMO_DT_BF16),
                                                 .moving = tokens(m, in[k]),
                                                 .dst = bank,
                                                 .rows = TILE,
                                                 .cols = TILE,
                                                 .begin = k == 0,
                                                 .end = k == m->tiles - 1});
        sim_model_scope(m->p, "allreduce", layer, "Gelu", "gelu", 21);
        sim_emit_activate(m->p, KYMO_ACT_GELU, bank, tokens(m, out[t]));
    }
}

/* Both cores of a pair have done their part of var, or may use what it holds now. */
static void meet(struct dp *m, unsigned layer, struct sim_buf var)
{
    if (m->o->lnc == 1)
        return;
    sim_model_scope(m->p, "allreduce", layer, "Barrier", "barrier", 38);
    sim_emit_core_barrier(m->p, KYMO_ENGINE_GPSIMD, &var, 1);
}

static void collect(struct dp *m, unsigned layer, unsigned kind, struct sim_buf in, struct sim_buf out,
                    uint64_t elements)
{
    meet(m, layer, in);
    if (m->o->core == 0) {
        sim_model_scope(m->p, "allreduce", layer, "Gradients", "all-reduce", 40);
        sim_emit_collective(m->p, &(struct sim_collective_spec){.engine = KYMO_ENGINE_GPSIMD,
                                                                .kind = kind,
                                                                .alu = KYMO_ALU_ADD,
                                                                .group = m->world_group,
                                                                .stream = GRADIENT_STREAM,
                                                                .dtype = KYMO_DT_BF16,
                                                                .elements = elements,
                                                                .in = in,
                                                                .out = out});
    }
    meet(m, layer, out);
}

/* Rows of the weight gradient, from PSUM by Vector into HBM. */
static void backward_layer(struct dp *m, unsigned layer)
{
    struct sim_buf *in = m->act[layer % 2], *above = m->act[(layer + 1) % 2];
    for (unsigned t = 0; t < m->tiles; t++) {
        if (!is_mine(m, t))
            continue;
        unsigned slot = t / m->o->lnc % 2;
        sim_model_scope(m->p, "allreduce", layer, "WeightGradient", "dot", 30);
        for (unsigned k = 0; k < m->tiles; k++) {
            struct sim_operand bank = sim_model_bank(m->p, &m->turn, TILE);
            sim_emit_matmul(m->p, &(struct sim_matmul){.weights = sim_model_at(above[t], 0, TILE, KYMO_DT_BF16),
                                                       .moving = sim_model_at(in[k], 0, TILE, KYMO_DT_BF16),
                                                       .dst = bank,
                                                       .rows = TILE,
                                                       .cols = TILE,
                                                       .begin = true,
                                                       .end = true});
            sim_emit_unary(m->p, KYMO_ENGINE_VECTOR, KYMO_OP_COPY, KYMO_ALU_BYPASS, bank,
                           sim_model_at(m->grad[slot], k * TILE, TILE, KYMO_DT_BF16));
        }
        sim_model_move(m->p, m->q.spill, true, m->grads[layer], t * TILE * row_bytes(m),
                       sim_model_at(m->grad[slot], 0, (uint16_t)m->o->hidden, KYMO_DT_BF16));
    }
    uint64_t elements = (uint64_t)m->o->hidden * m->o->hidden;
    if (is_sharded(layer))
        collect(m, layer, KYMO_CC_REDUCE_SCATTER, m->grads[layer], m->shards[layer], elements);
    else
        collect(m, layer, KYMO_CC_ALL_REDUCE, m->grads[layer], m->grads[layer], elements);
}

static void update_tile(struct dp *m, unsigned layer, unsigned tile, struct sim_buf from, struct sim_buf to)
{
    unsigned slot = tile / m->o->lnc % 2;
    struct sim_operand old = sim_model_at(m->old[slot], 0, (uint16_t)m->o->hidden, KYMO_DT_BF16);
    struct sim_operand grad = sim_model_at(m->grad[slot], 0, (uint16_t)m->o->hidden, KYMO_DT_BF16);
    struct sim_operand new = sim_model_at(m->new[slot], 0, (uint16_t)m->o->hidden, KYMO_DT_BF16);
    sim_model_scope(m->p, "allreduce", layer, "Optimizer", "add", 50);
    sim_model_move(m->p, m->q.sync_dge, false, m->weights[layer], tile * TILE * row_bytes(m), old);
    sim_model_move(m->p, m->q.in, false, from, tile * TILE * row_bytes(m), grad);
    sim_emit_scalar_tensor_tensor(m->p, KYMO_ENGINE_VECTOR, KYMO_ALU_MULT, KYMO_ALU_ADD, grad, old, new);
    sim_model_move(m->p, m->q.out, true, to, tile * TILE * row_bytes(m), new);
}

static void update_layer(struct dp *m, unsigned layer)
{
    if (!is_sharded(layer)) {
        for (unsigned t = 0; t < m->tiles; t++)
            if (is_mine(m, t))
                update_tile(m, layer, t, m->grads[layer], m->updated[layer]);
        return;
    }
    /* The shard is taken as whole tiles, at least one. */
    unsigned mine = m->tiles / m->o->ranks ? m->tiles / m->o->ranks : 1;
    for (unsigned t = 0; t < mine; t++)
        if (is_mine(m, t) || mine == 1)
            update_tile(m, layer, t, m->shards[layer], m->shards[layer]);
    collect(m, layer, KYMO_CC_ALL_GATHER, m->shards[layer], m->updated[layer],
            (uint64_t)m->o->hidden * m->o->hidden / m->o->ranks);
}

static void reduce_loss(struct dp *m)
{
    struct sim_operand loss = sim_model_at(m->loss, 0, 1, KYMO_DT_FP32);
    sim_model_scope(m->p, "allreduce", m->o->layers, "Loss", "reduce", 28);
    sim_emit_unary(m->p, KYMO_ENGINE_VECTOR, KYMO_OP_TENSOR_REDUCE, KYMO_ALU_ADD,
                   tokens(m, m->act[m->o->layers % 2][0]), loss);
    if (m->o->core)
        return;
    sim_model_move(m->p, m->q.vector_out, true, m->loss_var, 0, loss);
    sim_emit_collective(m->p, &(struct sim_collective_spec){.engine = KYMO_ENGINE_SYNC,
                                                            .kind = KYMO_CC_ALL_REDUCE,
                                                            .alu = KYMO_ALU_ADD,
                                                            .group = m->pair_group,
                                                            .stream = LOSS_STREAM,
                                                            .dtype = KYMO_DT_FP32,
                                                            .elements = TILE,
                                                            .in = m->loss_var,
                                                            .out = m->loss_out});
}

static void build(struct sim_program *p, const struct sim_model_options *o)
{
    struct dp m = {.p = p, .o = o, .tiles = o->hidden / TILE, .q = sim_model_add_queues(p)};
    sim_program_world(p, o->ranks);
    m.world_group = sim_program_replica_groups(p, o->ranks);
    m.pair_group = sim_program_replica_groups(p, o->ranks % 2 ? o->ranks : 2);
    allocate(&m);
    sim_model_scope(p, "allreduce", 0, "Setup", "constant", 10);
    sim_emit_load_act_table(p, KYMO_ACT_GELU);
    sim_program_loop_begin(p, TRIPS * o->repeat);
    sim_model_scope(p, "allreduce", 0, "Input", "copy", 15);
    for (unsigned t = 0; t < m.tiles; t++)
        sim_model_move(p, m.q.in, false, m.x, t * TILE * o->batch * 2, tokens(&m, m.act[0][t]));
    for (unsigned l = 0; l < o->layers; l++)
        forward_layer(&m, l);
    reduce_loss(&m);
    for (unsigned l = o->layers; l-- > 0;)
        backward_layer(&m, l);
    for (unsigned l = o->layers; l-- > 0;)
        update_layer(&m, l);
    sim_program_loop_end(p);
}

const struct sim_model sim_model_allreduce = {
    .name = "allreduce",
    .defaults = {.layers = 2, .hidden = 512, .batch = 128, .repeat = 1, .lnc = 1, .ranks = 4},
    .build = build,
};
