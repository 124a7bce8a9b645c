#include "pipeline/dma/dma_queues.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define SETS_MAX 4096
#define HWQS_MAX (1u << 16)
#define BLOCKS_MAX (1u << 24)
#define SHARES_MAX 1024

static const char *usage_type(const Ntff__DmaQueueUsageInfo *u)
{
    if (u->software_dynamic)
        return "software_dynamic";
    if (u->hardware_dynamic)
        return "hardware_dynamic";
    switch (u->queue_type) {
    case NTFF__DMA_QUEUE_TYPE__DMA_QUEUE_INSTRUCTIONS:
        return "instruction";
    case NTFF__DMA_QUEUE_TYPE__DMA_QUEUE_WEIGHTS:
        return "data";
    case NTFF__DMA_QUEUE_TYPE__DMA_QUEUE_INPUT:
        return "input";
    case NTFF__DMA_QUEUE_TYPE__DMA_QUEUE_OUTPUT:
        return "output";
    default:
        return NULL;
    }
}

/* The NEFF's word for a queue whose usage row has no type. */
static const char *neff_type(const struct neff_queue *q)
{
    if (!q || !q->type)
        return "unknown";
    if (!strcmp(q->type, "in"))
        return "input";
    if (!strcmp(q->type, "out"))
        return "output";
    if (!strcmp(q->type, "data") || !strcmp(q->type, "embedding_update"))
        return "data";
    if (!strcmp(q->type, "dynamic"))
        return q->owner && kymo_engine_find(q->owner) == KYMO_ENGINE_GPSIMD ? "software_dynamic" : "hardware_dynamic";
    return "unknown";
}

static const struct neff_queue *find_neff_queue(const struct neff_subgraph *sg, const char *name)
{
    for (size_t i = 0; sg && i < sg->queue_count; i++) {
        if (!strcmp(sg->queues[i].name, name))
            return &sg->queues[i];
        for (size_t k = 0; k < sg->queues[i].instance_count; k++)
            if (!strcmp(sg->queues[i].instances[k], name))
                return &sg->queues[i];
    }
    return NULL;
}

/* Names of dynamic queues begin with q and their engine: qSyncDynamicHW. Used where no NEFF names the owner. */
static int owner_by_name(const char *name)
{
    for (int e = 0; e < KYMO_ENGINE_MAX; e++) {
        const char *engine = kymo_engine_name((enum kymo_engine)e);
        if (name[0] == 'q' && !strncmp(name + 1, engine, strlen(engine)))
            return e;
    }
    return -1;
}

uint32_t dma_queues_find_set(const struct dma_queues *q, uint32_t node, unsigned pcore, const char *name)
{
    for (size_t i = 0; i < q->set_count; i++)
        if (q->sets[i].node == node && q->sets[i].pcore == pcore && !strcmp(q->sets[i].name, name))
            return (uint32_t)i;
    return DMA_NONE;
}

uint32_t dma_queues_find_dynamic(const struct dma_queues *q, uint32_t node, unsigned pcore, enum kymo_engine owner)
{
    for (size_t i = 0; i < q->set_count; i++) {
        const struct dma_set *s = &q->sets[i];
        if (s->node == node && s->pcore == pcore && s->dynamic && s->owner == (int)owner)
            return (uint32_t)i;
    }
    return DMA_NONE;
}

static int add_set(struct dma_queues *q, const struct input *in, uint32_t node, unsigned pcore,
                   const Ntff__DmaQueueUsageInfo *u, uint32_t *ret, struct kymo_err *err)
{
    const char *name = u->name ? u->name : "";
    uint32_t found = dma_queues_find_set(q, node, pcore, name);
    if (found != DMA_NONE) {
        *ret = found;
        return 0;
    }
    void *p = q->sets;
    int r = kymo_grow(&p, &q->set_cap, q->set_count + 1, SETS_MAX, sizeof *q->sets);
    q->sets = p;
    if (r < 0)
        return kymo_err_set(err, r, "more than %d DMA queue sets", SETS_MAX);
    const struct neff_queue *neff = find_neff_queue(input_subgraph(in, node, pcore), name);
    const char *type = usage_type(u) ? usage_type(u) : neff_type(neff);
    enum kymo_engine owner = neff && neff->owner ? kymo_engine_find(neff->owner) : KYMO_ENGINE_INVALID;
    q->sets[q->set_count] = (struct dma_set){
        .node = node,
        .pcore = pcore,
        .name = name,
        .type = type,
        .dma_class = totals_dma_class(type),
        .dynamic = u->software_dynamic || u->hardware_dynamic || (neff && neff->type && !strcmp(neff->type, "dynamic")),
        .owner = owner == KYMO_ENGINE_INVALID ? owner_by_name(name) : (int)owner,
        .neff = neff,
        .group = (uint32_t)q->set_count,
    };
    *ret = (uint32_t)q->set_count++;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct neff_var *const *)a)->name, (*(const struct neff_var *const *)b)->name);
}

static int name_before(const void *key, const void *v)
{
    return strcmp(key, (*(const struct neff_var *const *)v)->name);
}

static int block_order(const struct dma_block *x, uint32_t set, uint32_t id, const char *function)
{
    if (x->set != set)
        return x->set < set ? -1 : 1;
    if (x->id != id)
        return x->id < id ? -1 : 1;
    return function ? strcmp(x->function, function) : 0;
}

static int by_block(const void *a, const void *b)
{
    const struct dma_block *y = b;
    return block_order(a, y->set, y->id, y->function);
}

static size_t first_block(const struct dma_queues *q, uint32_t set, uint32_t id)
{
    size_t lo = 0, hi = q->block_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct dma_block *b = &q->blocks[mid];
        if (b->set < set || (b->set == set && b->id < id))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

uint32_t dma_queues_find_block(const struct dma_queues *q, uint32_t set, uint32_t id, const char *function)
{
    size_t first = first_block(q, set, id), n = 0;
    for (size_t i = first; i < q->block_count && !block_order(&q->blocks[i], set, id, NULL); i++, n++)
        if (!strcmp(q->blocks[i].function, function))
            return (uint32_t)i;
    return n == 1 ? (uint32_t)first : DMA_NONE;
}

uint32_t dma_block_share(const struct dma_block *b, uint32_t phys)
{
    for (size_t i = 0; i < b->share_count; i++)
        if (b->shares[i].phys == phys)
            return b->shares[i].packets;
    return 0;
}

static int add_share(struct dma_block *b, uint32_t phys, uint32_t packets, struct kymo_err *err)
{
    void *p = b->shares;
    int r = kymo_grow(&p, &b->share_cap, b->share_count + 1, SHARES_MAX, sizeof *b->shares);
    b->shares = p;
    if (r < 0)
        return kymo_err_set(err, r, "DMA block %u lies on more than %d hardware queues", b->id, SHARES_MAX);
    b->shares[b->share_count++] = (struct dma_share){phys, packets};
    b->packets += packets;
    return 0;
}

static int add_block(struct dma_queues *q, uint32_t set, uint32_t id, const char *function, struct kymo_err *err)
{
    void *p = q->blocks;
    int r = kymo_grow(&p, &q->block_cap, q->block_count + 1, BLOCKS_MAX, sizeof *q->blocks);
    q->blocks = p;
    if (r < 0)
        return kymo_err_set(err, r, "more than %u DMA blocks", BLOCKS_MAX);
    q->blocks[q->block_count++] = (struct dma_block){.set = set, .id = id, .function = function ? function : ""};
    return 0;
}

/* Blocks of all usage rows, sorted, each once. */
static int collect_blocks(struct dma_queues *q, struct kymo_err *err)
{
    for (size_t i = 0; i < q->hwq_count; i++) {
        const Ntff__DmaQueueUsageInfo *u = q->hwqs[i].usage;
        for (size_t k = 0; k < u->n_desc_block_info; k++) {
            int r = add_block(q, q->hwqs[i].set, u->desc_block_info[k]->block_id, u->desc_block_info[k]->function_name,
                              err);
            if (r < 0)
                return r;
        }
    }
    if (q->block_count)
        qsort(q->blocks, q->block_count, sizeof *q->blocks, by_block);
    size_t kept = 0;
    for (size_t i = 0; i < q->block_count; i++)
        if (!kept || by_block(&q->blocks[kept - 1], &q->blocks[i]))
            q->blocks[kept++] = q->blocks[i];
    q->block_count = kept;
    return 0;
}

static int share_out(struct dma_queues *q, struct kymo_err *err)
{
    for (size_t i = 0; i < q->hwq_count; i++) {
        const Ntff__DmaQueueUsageInfo *u = q->hwqs[i].usage;
        for (size_t k = 0; k < u->n_desc_block_info; k++) {
            const Ntff__DescBlockInfo *d = u->desc_block_info[k];
            uint32_t b =
                dma_queues_find_block(q, q->hwqs[i].set, d->block_id, d->function_name ? d->function_name : "");
            int r = b == DMA_NONE ? 0 : add_share(&q->blocks[b], q->hwqs[i].phys, d->packet_count, err);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

static const struct neff_var *find_var(const struct neff_var *const *vars, size_t n, const char *name)
{
    const struct neff_var *const *v = name && n ? bsearch(name, vars, n, sizeof *vars, name_before) : NULL;
    return v ? *v : NULL;
}

static void name_block(struct dma_block *b, const struct dma_set *set, const struct neff_dma_block *neff,
                       const struct neff_var *const *vars, size_t n)
{
    b->neff = neff;
    b->from_var = find_var(vars, n, neff->from.variable);
    b->to_var = find_var(vars, n, neff->to.variable);
    b->from = dma_memory_of(b->from_var);
    b->to = dma_memory_of(b->to_var);
    bool to_side = b->from != DMA_MEMORY_HBM && b->to == DMA_MEMORY_HBM;
    b->variable = to_side ? neff->to.variable : neff->from.variable;
    b->spill = strstr(set->name, "Spill") != NULL;
}

/* Joins the NEFF's blocks of one core, whatever engine's file they stand in. */
static int join_core(struct dma_queues *q, const struct neff_subgraph *sg, uint32_t node, unsigned pcore,
                     struct kymo_err *err)
{
    const struct neff_var **vars KYMO_FREE = KYMO_NEW_ARRAY(const struct neff_var *, sg->var_count + 1);
    if (!vars)
        return kymo_err_set(err, -ENOMEM, "no memory for %zu variables", sg->var_count);
    for (size_t i = 0; i < sg->var_count; i++)
        vars[i] = &sg->vars[i];
    if (sg->var_count)
        qsort(vars, sg->var_count, sizeof *vars, by_name);
    for (size_t e = 0; e < sg->engine_count; e++)
        for (size_t k = 0; k < sg->engines[e].block_count; k++) {
            const struct neff_dma_block *nb = &sg->engines[e].blocks[k];
            uint32_t set = dma_queues_find_set(q, node, pcore, nb->queue);
            uint32_t b =
                set == DMA_NONE ? DMA_NONE : dma_queues_find_block(q, set, nb->id, nb->function ? nb->function : "");
            if (b != DMA_NONE)
                name_block(&q->blocks[b], &q->sets[set], nb, vars, sg->var_count);
        }
    return 0;
}

static int by_node_phys(const void *a, const void *b)
{
    const struct dma_hwq *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return x->phys < y->phys ? -1 : x->phys > y->phys;
}

static int collect_hwqs(struct dma_queues *q, const struct input *in, uint32_t node, unsigned pcore,
                        struct kymo_err *err)
{
    const Ntff__SubgraphInfo *g = in->nodes[node].graph[pcore];
    for (size_t i = 0; g && i < g->n_dma_queue_usage; i++) {
        const Ntff__DmaQueueUsageInfo *u = g->dma_queue_usage[i];
        /* Host-device engines stand in the same table under their device-wide numbers. */
        if (u->engine_index >= DMA_ENGINES || u->engine_index >= in->arch->dma_engines || u->queue_index >= DMA_QUEUES)
            continue;
        uint32_t set;
        int r = add_set(q, in, node, pcore, u, &set, err);
        if (r < 0)
            return r;
        void *p = q->hwqs;
        r = kymo_grow(&p, &q->hwq_cap, q->hwq_count + 1, HWQS_MAX, sizeof *q->hwqs);
        q->hwqs = p;
        if (r < 0)
            return kymo_err_set(err, r, "more than %u rows in the DMA queue usage table", HWQS_MAX);
        q->hwqs[q->hwq_count++] = (struct dma_hwq){node, dma_phys(pcore, u->engine_index, u->queue_index), set, u};
    }
    return 0;
}

const struct dma_hwq *dma_queues_hwq(const struct dma_queues *q, uint32_t node, uint32_t phys)
{
    size_t lo = 0, hi = q->hwq_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct dma_hwq *h = &q->hwqs[mid];
        if (h->node == node && h->phys == phys)
            return h;
        if (h->node < node || (h->node == node && h->phys < phys))
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* Two NEFFs of a session may lay different sets on one hardware queue; their triggers then form one order. */
static void join_groups(struct dma_queues *q)
{
    static const uint32_t none = DMA_NONE;
    uint32_t first_of[DMA_PHYS_MAX];
    for (size_t i = 0; i < DMA_PHYS_MAX; i++)
        first_of[i] = none;
    for (size_t i = 0; i < q->hwq_count; i++) {
        struct dma_set *s = &q->sets[q->hwqs[i].set];
        uint32_t *first = &first_of[q->hwqs[i].phys];
        if (*first == none) {
            *first = s->group;
        } else if (*first != s->group) {
            uint32_t from = s->group, to = *first;
            for (size_t k = 0; k < q->set_count; k++)
                if (q->sets[k].group == from)
                    q->sets[k].group = to;
            for (size_t k = 0; k < DMA_PHYS_MAX; k++)
                if (first_of[k] == from)
                    first_of[k] = to;
        }
    }
    q->group_count = (uint32_t)q->set_count;
}

int dma_queues_open(struct dma_queues *q, const struct input *in, struct kymo_err *err)
{
    *q = (struct dma_queues){0};
    int r = 0;
    for (uint32_t node = 0; node < in->node_count && r == 0; node++)
        for (unsigned pcore = 0; pcore < in->cores && r == 0; pcore++)
            r = collect_hwqs(q, in, node, pcore, err);
    if (q->hwq_count)
        qsort(q->hwqs, q->hwq_count, sizeof *q->hwqs, by_node_phys);
    if (r == 0)
        r = collect_blocks(q, err);
    if (r == 0)
        r = share_out(q, err);
    for (uint32_t node = 0; node < in->node_count && r == 0; node++)
        for (unsigned pcore = 0; pcore < in->cores && r == 0; pcore++) {
            const struct neff_subgraph *sg = input_subgraph(in, node, pcore);
            r = sg ? join_core(q, sg, node, pcore, err) : 0;
        }
    if (r < 0) {
        dma_queues_done(q);
        return r;
    }
    join_groups(q);
    return 0;
}

void dma_queues_done(struct dma_queues *q)
{
    for (size_t i = 0; i < q->block_count; i++)
        kymo_free(q->blocks[i].shares);
    kymo_free(q->blocks);
    kymo_free(q->hwqs);
    kymo_free(q->sets);
    dma_copies_done(&q->copies);
    *q = (struct dma_queues){0};
}
