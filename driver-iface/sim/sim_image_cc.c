/* Collectives of an image: found in the compiler's streams, checked against the subgraph's replica groups. */
#include <errno.h>
#include <stdlib.h>

#include "arch/cc.h"
#include "base/alloc.h"
#include "driver-iface/sim/sim_op.h"

#define CC_DOORBELL_BASE 0x2D00000000ull
#define CC_DOORBELL_CORE 0x1000000ull
#define CC_DOORBELL_STREAM 0x1000ull

uint64_t sim_image_cc_doorbell(unsigned nc, unsigned stream)
{
    return CC_DOORBELL_BASE + nc * CC_DOORBELL_CORE + stream * CC_DOORBELL_STREAM;
}

unsigned sim_image_world(const struct sim_image *im)
{
    unsigned world = 1;
    for (unsigned p = 0; p < im->lnc; p++)
        if (im->cores[p].cc_op_count && im->cores[p].subgraph->world_size > world)
            world = im->cores[p].subgraph->world_size;
    return world;
}

const struct neff_replica_set *sim_image_group(const struct sim_core_image *ci, const struct sim_cc_op *op,
                                               unsigned rank)
{
    const struct neff_replica_layout *layout = &ci->subgraph->replica_layouts[op->layout];
    for (size_t s = 0; s < layout->count; s++)
        for (size_t i = 0; i < layout->sets[s].count; i++)
            if (layout->sets[s].ranks[i] == rank)
                return &layout->sets[s];
    return NULL;
}

/* A logical core's CC-cores are shared out evenly; what is left over belongs to the first streams. */
unsigned sim_image_cc_cores(const struct sim_image *im, unsigned first_pcore, unsigned stream, unsigned *ret_first)
{
    unsigned share = im->arch->cc_cores / im->arch->pcores_per_device, all = share * im->lnc, streams = 1;
    for (unsigned p = 0; p < im->lnc; p++)
        if (im->cores[p].subgraph->stream_count > streams)
            streams = im->cores[p].subgraph->stream_count;
    unsigned each = all / streams, more = all % streams;
    *ret_first = first_pcore * share + stream * each + (stream < more ? stream : more);
    return each + (stream < more);
}

static uint64_t field(const struct kymo_arch *arch, const uint8_t *rec, enum kymo_field f)
{
    uint64_t v = 0;
    return kymo_layout_get(arch, rec, f, &v) ? v : 0;
}

static struct sim_cc_op read_op(const struct kymo_arch *arch, enum kymo_engine e, const uint8_t *rec)
{
    return (struct sim_cc_op){
        .id = (uint32_t)field(arch, rec, KYMO_F_ID),
        .engine = (uint8_t)e,
        .kind = (uint8_t)(field(arch, rec, KYMO_F_CC_KIND) > 255 ? 255 : field(arch, rec, KYMO_F_CC_KIND)),
        .alu = (uint8_t)field(arch, rec, KYMO_F_ALU_OP),
        .dtype = (uint8_t)field(arch, rec, KYMO_F_IN_DTYPE),
        .semaphore = (uint8_t)field(arch, rec, KYMO_F_DMA_SEM),
        .increment = (uint8_t)field(arch, rec, KYMO_F_DMA_SEM_INC),
        .layout = (uint16_t)field(arch, rec, KYMO_F_GROUP),
        .stream = (uint16_t)field(arch, rec, KYMO_F_STREAM),
        .elements = field(arch, rec, KYMO_F_ELEM_COUNT),
    };
}

static int check_op(const struct kymo_arch *arch, const struct sim_core_image *ci, const struct sim_cc_op *op,
                    struct kymo_err *err)
{
    const struct neff_subgraph *sg = ci->subgraph;
    uint64_t in, out;
    if (sg->world_size < 2 || op->layout >= sg->replica_layout_count)
        return kymo_err_set(err, -EPROTO, "%s, collective %u: def.json has no replica groups %u, or no world-size",
                            sg->name, op->id, op->layout);
    unsigned share = arch->cc_cores / arch->pcores_per_device;
    if (op->stream >= sg->stream_count || sg->stream_count > share)
        return kymo_err_set(err, -EPROTO, "%s, collective %u: stream %u of %u, and %s has %u CC-cores for a core",
                            sg->name, op->id, op->stream, sg->stream_count, arch->name, share);
    if (!kymo_cc_sizes(op->kind, op->elements, kymo_dtype_bits(op->dtype), sg->world_size, &in, &out))
        return kymo_err_set(err, -EPROTO, "%s, collective %u: kind %u or data type %u is not known", sg->name, op->id,
                            op->kind, op->dtype);
    return 0;
}

static int by_id(const void *a, const void *b)
{
    const struct sim_cc_op *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int add_op(const struct kymo_arch *arch, struct sim_core_image *ci, size_t *cap, const struct sim_cc_op *op,
                  struct kymo_err *err)
{
    for (size_t i = 0; i < ci->cc_op_count; i++)
        if (ci->cc_ops[i].id == op->id)
            return kymo_err_set(err, -EPROTO, "%s: two collectives have number %u", ci->subgraph->name, op->id);
    int r = check_op(arch, ci, op, err);
    if (r < 0)
        return r;
    r = kymo_grow((void **)&ci->cc_ops, cap, ci->cc_op_count + 1, KYMO_CC_OPS_MAX, sizeof *ci->cc_ops);
    if (r < 0)
        return kymo_err_set(err, r, "%s: more than %d collectives", ci->subgraph->name, KYMO_CC_OPS_MAX);
    ci->cc_ops[ci->cc_op_count++] = *op;
    return 0;
}

int sim_image_find_collectives(const struct kymo_arch *arch, unsigned lnc, struct sim_core_image *ci,
                               struct kymo_err *err)
{
    const struct neff_subgraph *sg = ci->subgraph;
    size_t cap = 0;
    for (size_t e = 0; e < sg->engine_count; e++)
        for (size_t i = 0; i < sg->engines[e].count; i++) {
            const uint8_t *rec = sg->engines[e].code + i * KYMO_INSTR_SIZE;
            if (rec[0] == KYMO_OP_PSEUDO_CORE_BARRIER && lnc == 1)
                return kymo_err_set(err, -EPROTO, "%s, compiler pc %zu: a core barrier, but LNC=1",
                                    kymo_engine_name(sg->engines[e].engine), i);
            if (rec[0] != KYMO_OP_PSEUDO_TRIGGER_COLLECTIVE)
                continue;
            struct sim_cc_op op = read_op(arch, sg->engines[e].engine, rec);
            int r = add_op(arch, ci, &cap, &op, err);
            if (r < 0)
                return r;
        }
    if (ci->cc_op_count)
        qsort(ci->cc_ops, ci->cc_op_count, sizeof *ci->cc_ops, by_id);
    return 0;
}
