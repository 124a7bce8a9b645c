/* Collectives and barriers over the cores of a logical core: instructions, and what def.json says of them. */
#include <errno.h>

#include "arch/cc.h"
#include "driver-iface/sim/sim_program_internal.h"

void sim_program_world(struct sim_program *p, unsigned ranks)
{
    if (ranks > KYMO_CC_RANKS_MAX)
        sim_program_fail(p, -EINVAL, "%u ranks, at most %d", ranks, KYMO_CC_RANKS_MAX);
    else
        p->world = ranks;
}

unsigned sim_program_replica_groups(struct sim_program *p, unsigned size)
{
    if (size == 0 || p->world % size)
        sim_program_fail(p, -EINVAL, "groups of %u do not divide %u ranks", size, p->world);
    if (p->layout_count == REPLICA_LAYOUTS_MAX)
        sim_program_fail(p, -E2BIG, "more than %d layouts of replica groups", REPLICA_LAYOUTS_MAX);
    if (p->error)
        return 0;
    p->group_sizes[p->layout_count] = size;
    return p->layout_count++;
}

/* The number that the file's variables have. */
static uint32_t var_id_of(const struct sim_program *p, struct sim_buf b)
{
    for (size_t i = 0; i < p->var_count; i++)
        if (p->vars[i].buf == b.id)
            return (uint32_t)i + SIM_FIRST_VAR;
    return SIM_STATE_BUFFER_VAR;
}

static bool is_allowed(struct sim_program *p, const struct sim_collective_spec *c)
{
    if (p->world < 2)
        sim_program_fail(p, -EINVAL, "a collective in a program for one rank");
    else if (c->group >= p->layout_count || c->stream >= KYMO_CC_STREAMS_MAX || p->op_count == KYMO_CC_OPS_MAX)
        sim_program_fail(p, -EINVAL, "collective %u: no such replica groups or stream, or one too many", p->op_count);
    return !p->error;
}

void sim_emit_collective(struct sim_program *p, const struct sim_collective_spec *c)
{
    if (p->error || !is_allowed(p, c))
        return;
    struct node *n = sim_program_node(p, NODE_DMA, c->engine, KYMO_OP_PSEUDO_TRIGGER_COLLECTIVE);
    n->bir = sim_program_bir(p, c->engine, DEBUG_REGULAR);
    n->queue = QUEUES_MAX + c->stream; /* beyond the DMA queues: tells its semaphores from theirs */
    n->chip_buf = c->out.id;
    n->amount = 1;
    if (c->in.id != c->out.id)
        sim_program_access(p, n, c->in.id, false);
    sim_program_access(p, n, c->out.id, true);
    sim_program_set(p, n, KYMO_F_ALU_OP, c->alu);
    sim_program_set(p, n, KYMO_F_IN_DTYPE, c->dtype);
    sim_program_set(p, n, KYMO_F_GROUP, c->group);
    sim_program_set(p, n, KYMO_F_IN_VAR, var_id_of(p, c->in));
    sim_program_set(p, n, KYMO_F_OUT_VAR, var_id_of(p, c->out));
    sim_program_set(p, n, KYMO_F_ELEM_COUNT, c->elements);
    sim_program_set(p, n, KYMO_F_CC_KIND, c->kind);
    sim_program_set(p, n, KYMO_F_ID, p->op_count++);
    sim_program_set(p, n, KYMO_F_DMA_SEM_INC, n->amount);
    sim_program_set(p, n, KYMO_F_STREAM, c->stream);
    p->stream_count = c->stream >= p->stream_count ? c->stream + 1 : p->stream_count;
}

void sim_emit_core_barrier(struct sim_program *p, enum kymo_engine e, const struct sim_buf *vars, size_t n)
{
    if (p->error)
        return;
    struct node *b = sim_program_node(p, NODE_OP, e, KYMO_OP_PSEUDO_CORE_BARRIER);
    b->bir = sim_program_bir(p, e, DEBUG_REGULAR);
    for (size_t i = 0; i < n; i++)
        sim_program_access(p, b, vars[i].id, true);
    sim_program_set(p, b, KYMO_F_ID, p->barrier_count);
    sim_program_set(p, b, KYMO_F_DMA_SEM, BARRIER_FIRST_SEMAPHORE + p->barrier_count % BARRIER_SEMAPHORES);
    p->barrier_count++;
}

static json_t *make_layout(unsigned world, unsigned size, bool *failed)
{
    json_t *layout = json_array();
    for (unsigned first = 0; first < world; first += size) {
        json_t *group = json_array();
        for (unsigned r = 0; r < size; r++)
            sim_json_push(failed, group, json_integer(first + r));
        sim_json_push(failed, layout, group);
    }
    return layout;
}

void sim_program_put_collectives(const struct sim_program *p, json_t *def, bool *failed)
{
    if (p->world < 2)
        return;
    json_t *layouts = json_array(), *streams = json_array();
    for (unsigned i = 0; i < p->layout_count; i++)
        sim_json_push(failed, layouts, make_layout(p->world, p->group_sizes[i], failed));
    for (unsigned i = 0; i < p->stream_count; i++)
        sim_json_push(failed, streams, json_pack("{s:i}", "id", (int)i));
    sim_json_put(failed, def, "world-size", json_integer(p->world));
    sim_json_put(failed, def, "replica_groups", layouts);
    sim_json_put(failed, def, "cc_stream", streams);
}
