/* An image as the NTFF's protobuf names it. The messages own all their memory, so that free_unpacked may release them.
 */
#include <string.h>

#include "arch/cc.h"
#include "arch/layout.h"
#include "base/alloc.h"
#include "driver-iface/sim/sim_image.h"

#define NEW_MESSAGE(T, INIT)                                                                                           \
    __extension__({                                                                                                    \
        T *msg_ = KYMO_NEW(T);                                                                                         \
        if (msg_)                                                                                                      \
            *msg_ = (T)INIT;                                                                                           \
        msg_;                                                                                                          \
    })

/* Messages hang in their parent's array as soon as they exist: one free of the root releases a half-built tree. */
static bool set_string(char **at, const char *s)
{
    char *copy = kymo_strdup(s);
    if (!copy)
        return false;
    *at = copy;
    return true;
}

static bool set_bytes(ProtobufCBinaryData *at, const uint8_t *data, size_t n)
{
    at->data = kymo_malloc(n);
    if (!at->data)
        return false;
    memcpy(at->data, data, n);
    at->len = n;
    return true;
}

static bool describe_engine(const struct sim_engine_image *ei, Ntff__EngineInstructionInfo *info)
{
    info->start_address = ei->start_address;
    info->nc_engine_type = (Ntff__NcEngineType)ei->engine;
    info->engine_index = (uint32_t)ei->engine;
    info->block_type = NTFF__BLOCK_TYPE__BLOCK_TYPE_NC;
    info->sections = KYMO_NEW_ARRAY(Ntff__ImageSectionInfo *, ei->section_count);
    if (!info->sections)
        return false;
    for (unsigned i = 0; i < ei->section_count; i++) {
        Ntff__ImageSectionInfo *s = NEW_MESSAGE(Ntff__ImageSectionInfo, NTFF__IMAGE_SECTION_INFO__INIT);
        if (!s)
            return false;
        s->section = ei->sections[i].section;
        s->first = ei->sections[i].first;
        s->count = ei->sections[i].count;
        s->compiler_first = ei->sections[i].compiler_first;
        info->sections[info->n_sections++] = s;
    }
    return true;
}

static bool describe_patches(const struct sim_engine_image *ei, Ntff__SubgraphInfo *g)
{
    for (size_t i = 0; i < ei->patch_count; i++) {
        Ntff__InstructionPatchInfo *p = NEW_MESSAGE(Ntff__InstructionPatchInfo, NTFF__INSTRUCTION_PATCH_INFO__INIT);
        if (!p)
            return false;
        p->nc_engine_type = (Ntff__NcEngineType)ei->engine;
        p->type = ei->patches[i].type;
        p->section = ei->patches[i].section;
        p->offset = ei->patches[i].offset;
        p->count = ei->patches[i].count;
        g->patch_info[g->n_patch_info++] = p;
    }
    return true;
}

static bool describe_engines(const struct sim_core_image *ci, Ntff__SubgraphInfo *g)
{
    size_t patches = 0;
    for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++)
        patches += ci->engines[e].patch_count;
    g->instruction_info = KYMO_NEW_ARRAY(Ntff__EngineInstructionInfo *, KYMO_ENGINE_MAX);
    g->patch_info = KYMO_NEW_ARRAY(Ntff__InstructionPatchInfo *, patches);
    if (!g->instruction_info || !g->patch_info)
        return false;
    for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++) {
        if (!ci->engines[e].count)
            continue;
        Ntff__EngineInstructionInfo *info =
            NEW_MESSAGE(Ntff__EngineInstructionInfo, NTFF__ENGINE_INSTRUCTION_INFO__INIT);
        if (!info)
            return false;
        g->instruction_info[g->n_instruction_info++] = info;
        if (!describe_engine(&ci->engines[e], info) || !describe_patches(&ci->engines[e], g))
            return false;
    }
    return true;
}

static bool describe_blocks(const struct sim_queue *q, unsigned engine, Ntff__DmaQueueUsageInfo *u)
{
    u->desc_block_info = KYMO_NEW_ARRAY(Ntff__DescBlockInfo *, q->block_count);
    if (!u->desc_block_info)
        return false;
    for (size_t b = 0; b < q->block_count; b++) {
        const struct sim_block *blk = &q->blocks[b];
        uint32_t n = blk->share_first[engine + 1] - blk->share_first[engine];
        if (!n)
            continue;
        Ntff__DescBlockInfo *d = NEW_MESSAGE(Ntff__DescBlockInfo, NTFF__DESC_BLOCK_INFO__INIT);
        if (!d)
            return false;
        u->desc_block_info[u->n_desc_block_info++] = d;
        d->block_id = blk->id;
        d->packet_count = d->m2s_desc_count = d->s2m_desc_count = n;
        if (blk->function && !set_string(&d->function_name, blk->function))
            return false;
    }
    return true;
}

static Ntff__DmaQueueUsageInfo *add_usage(Ntff__SubgraphInfo *g, unsigned nc, unsigned engine, unsigned queue,
                                          const char *name)
{
    Ntff__DmaQueueUsageInfo *u = NEW_MESSAGE(Ntff__DmaQueueUsageInfo, NTFF__DMA_QUEUE_USAGE_INFO__INIT);
    if (!u)
        return NULL;
    g->dma_queue_usage[g->n_dma_queue_usage++] = u;
    u->nc_idx = nc;
    u->engine_index = engine;
    u->queue_index = queue;
    return set_string(&u->name, name) ? u : NULL;
}

static bool describe_queues(const struct sim_core_image *ci, unsigned nc, Ntff__SubgraphInfo *g)
{
    for (size_t i = 0; i < ci->queue_count; i++) {
        const struct sim_queue *q = &ci->queues[i];
        for (unsigned e = 0; e < SIM_DMA_ENGINES; e++) {
            if (!(q->engines >> e & 1))
                continue;
            Ntff__DmaQueueUsageInfo *u = add_usage(g, nc, e, q->queue_index, q->name);
            if (!u || !describe_blocks(q, e, u))
                return false;
            u->queue_type = q->type;
            u->software_dynamic = q->software_dynamic;
            u->hardware_dynamic = q->hardware_dynamic;
        }
    }
    return true;
}

/* The host-device engine's ring holds the traffic of every core that it serves, so all of their queues are named. */
static bool describe_h2d(const struct kymo_arch *arch, unsigned nc, Ntff__SubgraphInfo *g)
{
    unsigned engine = arch->h2d_first + nc / arch->h2d_pcores_per_engine;
    for (unsigned c = 0; c < arch->h2d_pcores_per_engine; c++) {
        for (size_t i = 0; i < arch->h2d_queue_count; i++) {
            const struct kymo_h2d_queue *hq = &arch->h2d_queues[i];
            Ntff__DmaQueueUsageInfo *u = add_usage(g, nc, engine, arch->h2d_queue_stride * c + hq->queue, hq->name);
            if (!u)
                return false;
            bool fetch = hq->traffic && !strcmp(hq->traffic, "instruction_fetch");
            u->queue_type = fetch ? NTFF__DMA_QUEUE_TYPE__DMA_QUEUE_INSTRUCTIONS : NTFF__DMA_QUEUE_TYPE__DMA_QUEUE_H2T;
        }
    }
    return true;
}

static bool describe_op(const struct sim_core_image *ci, const struct sim_cc_op *op, unsigned rank,
                        Ntff__CollectivesOp *m)
{
    const struct neff_replica_set *group = sim_image_group(ci, op, rank);
    unsigned ranks = group ? (unsigned)group->count : 1;
    uint64_t in = 0, out = 0;
    (void)!kymo_cc_sizes(op->kind, op->elements, kymo_dtype_bits(op->dtype), ranks, &in, &out);
    enum kymo_cc_algorithm algorithm = kymo_cc_choose(in > out ? in : out, ranks);
    m->type = op->kind;
    m->algorithm = algorithm;
    m->num_elements = op->elements;
    m->comm_id = op->layout;
    m->data_type = op->dtype;
    m->op_id = op->id;
    m->stream_index = op->stream;
    return set_string(&m->algorithm_name, kymo_cc_algorithm_name(algorithm));
}

static bool describe_ops(const struct sim_core_image *ci, unsigned rank, Ntff__SubgraphInfo *g)
{
    g->cc_op_info = NEW_MESSAGE(Ntff__CollectivesOpInfo, NTFF__COLLECTIVES_OP_INFO__INIT);
    if (!g->cc_op_info)
        return false;
    g->cc_op_info->ops = KYMO_NEW_ARRAY(Ntff__CollectivesOp *, ci->cc_op_count);
    for (size_t i = 0; g->cc_op_info->ops && i < ci->cc_op_count; i++) {
        Ntff__CollectivesOp *m = NEW_MESSAGE(Ntff__CollectivesOp, NTFF__COLLECTIVES_OP__INIT);
        if (!m)
            return false;
        g->cc_op_info->ops[g->cc_op_info->n_ops++] = m;
        if (!describe_op(ci, &ci->cc_ops[i], rank, m))
            return false;
    }
    return g->cc_op_info->ops != NULL;
}

static bool describe_comms(const struct sim_core_image *ci, unsigned rank, Ntff__SubgraphInfo *g)
{
    const struct neff_subgraph *sg = ci->subgraph;
    g->comm_info = KYMO_NEW_ARRAY(Ntff__CollectivesCommInfo *, sg->replica_layout_count);
    for (size_t l = 0; g->comm_info && l < sg->replica_layout_count; l++) {
        const struct sim_cc_op op = {.layout = (uint16_t)l};
        const struct neff_replica_set *group = sim_image_group(ci, &op, rank);
        Ntff__CollectivesCommInfo *m = NEW_MESSAGE(Ntff__CollectivesCommInfo, NTFF__COLLECTIVES_COMM_INFO__INIT);
        if (!m)
            return false;
        g->comm_info[g->n_comm_info++] = m;
        m->id = l;
        m->rank_n = m->local_rank_n = group ? group->count : 1;
        m->node_n = 1;
        m->global_rank_oneof_case = NTFF__COLLECTIVES_COMM_INFO__GLOBAL_RANK_ONEOF_GLOBAL_RANK;
        m->global_rank = rank;
        for (size_t i = 0; group && i < group->count; i++)
            m->rank = group->ranks[i] == rank ? i : m->rank;
    }
    return g->comm_info != NULL;
}

static bool describe_streams(const struct sim_image *im, const struct sim_core_image *ci, unsigned first_pcore,
                             Ntff__SubgraphInfo *g)
{
    unsigned n = ci->subgraph->stream_count;
    g->stream_info = KYMO_NEW_ARRAY(Ntff__CollectivesStreamInfo *, n);
    for (unsigned i = 0; g->stream_info && i < n; i++) {
        Ntff__CollectivesStreamInfo *m = NEW_MESSAGE(Ntff__CollectivesStreamInfo, NTFF__COLLECTIVES_STREAM_INFO__INIT);
        if (!m)
            return false;
        g->stream_info[g->n_stream_info++] = m;
        unsigned first = 0, cores = sim_image_cc_cores(im, first_pcore, i, &first);
        m->stream_index = i;
        m->cc_core_id = KYMO_NEW_ARRAY(uint64_t, cores);
        if (!m->cc_core_id)
            return false;
        for (unsigned k = 0; k < cores; k++)
            m->cc_core_id[m->n_cc_core_id++] = first + k;
    }
    return g->stream_info != NULL;
}

/* They are told with the core that triggers them. */
static bool describe_collectives(const struct sim_image *im, unsigned pcore, unsigned first_pcore, unsigned rank,
                                 Ntff__SubgraphInfo *g)
{
    const struct sim_core_image *ci = &im->cores[pcore];
    return !ci->cc_op_count ||
           (describe_ops(ci, rank, g) && describe_comms(ci, rank, g) && describe_streams(im, ci, first_pcore, g));
}

static bool describe_core(const struct sim_image *im, unsigned pcore, unsigned nd_idx, unsigned nc,
                          Ntff__SubgraphInfo *g)
{
    const struct sim_core_image *ci = &im->cores[pcore];
    g->nd_idx = nd_idx;
    g->nc_idx = nc;
    size_t usage = ci->queue_count * SIM_DMA_ENGINES + im->arch->h2d_pcores_per_engine * im->arch->h2d_queue_count;
    g->dma_queue_usage = KYMO_NEW_ARRAY(Ntff__DmaQueueUsageInfo *, usage);
    if (!g->dma_queue_usage || !set_string(&g->name, ci->subgraph->name))
        return false;
    struct sim_memory_use use = {0};
    sim_memory_use_image(im, pcore, &use);
    return describe_engines(ci, g) && describe_queues(ci, nc, g) && (pcore || describe_h2d(im->arch, nc, g)) &&
           sim_memory_use_describe(&use, g);
}

Ntff__NeffNodeInfo *sim_image_describe(const struct sim_image *im, unsigned nd_idx, unsigned first_pcore, unsigned rank)
{
    Ntff__NeffNodeInfo *node = NEW_MESSAGE(Ntff__NeffNodeInfo, NTFF__NEFF_NODE_INFO__INIT);
    if (!node)
        return NULL;
    node->model_id = im->model_id;
    Ntff__NdNodeInfo *nd = NEW_MESSAGE(Ntff__NdNodeInfo, NTFF__ND_NODE_INFO__INIT);
    bool ok = nd != NULL;
    if (ok) {
        node->node_info_case = NTFF__NEFF_NODE_INFO__NODE_INFO_ND_NODE;
        node->nd_node = nd;
        nd->graphs = KYMO_NEW_ARRAY(Ntff__SubgraphInfo *, im->lnc);
        const struct neff_header *h = neff_get_header(im->neff);
        ok = nd->graphs && set_string(&node->neff_name, h->name) &&
             set_bytes(&node->neff_uuid, h->uuid, sizeof h->uuid) &&
             set_bytes(&node->neff_sha256, neff_file_sha256(im->neff), 32);
    }
    for (unsigned p = 0; ok && p < im->lnc; p++) {
        Ntff__SubgraphInfo *g = NEW_MESSAGE(Ntff__SubgraphInfo, NTFF__SUBGRAPH_INFO__INIT);
        ok = g != NULL;
        if (ok) {
            nd->graphs[nd->n_graphs++] = g;
            ok = describe_core(im, p, nd_idx, first_pcore + p, g) && describe_collectives(im, p, first_pcore, rank, g);
        }
    }
    if (!ok) {
        ntff__neff_node_info__free_unpacked(node, NULL);
        return NULL;
    }
    return node;
}
