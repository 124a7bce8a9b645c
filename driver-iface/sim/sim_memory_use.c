/* Sizes are those of the model's own parts; where each lies is not modelled. */
#include <string.h>

#include "arch/layout.h"
#include "base/alloc.h"
#include "driver-iface/sim/sim_image.h"

#define DESCRIPTOR_BYTES 16                 /* one for reading and one for writing per packet (G) */
#define UNLIMITED_BYTES ((uint64_t)1 << 40) /* rings that are in no memory */

static enum kymo_memory_class class_of(const char *type)
{
    if (!strcmp(type, "file"))
        return KYMO_MEMORY_WEIGHTS;
    if (!strcmp(type, "input") || !strcmp(type, "output"))
        return KYMO_MEMORY_TENSORS;
    return !strcmp(type, "tmp-buf") || !strcmp(type, "virtual") ? KYMO_MEMORY_SCRATCHPAD : KYMO_MEMORY_OTHER;
}

void sim_memory_use_image(const struct sim_image *im, unsigned pcore, struct sim_memory_use *add)
{
    const struct sim_core_image *c = &im->cores[pcore];
    for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++)
        add->bytes[KYMO_MEMORY_INSTRUCTIONS] += (uint64_t)c->engines[e].count * KYMO_INSTR_SIZE;
    for (size_t i = 0; i < c->subgraph->var_count; i++) {
        const struct neff_var *v = &c->subgraph->vars[i];
        /* The state buffer is on the chip. */
        if (v->type && strcmp(v->type, "state-buffer") != 0)
            add->bytes[class_of(v->type)] += v->size;
    }
    for (size_t q = 0; q < c->queue_count; q++)
        for (size_t b = 0; b < c->queues[q].block_count; b++)
            add->bytes[KYMO_MEMORY_DMA_RINGS] += 2ull * DESCRIPTOR_BYTES * c->queues[q].blocks[b].packet_count;
}

void sim_memory_use_rings(const struct kymo_ring_plan *plan, size_t n, unsigned pcore, struct sim_memory_use *add)
{
    for (size_t i = 0; i < n; i++)
        if (plan[i].pcore_idx == pcore && plan[i].bytes < UNLIMITED_BYTES)
            add->bytes[KYMO_MEMORY_PROFILER_BUFFERS] += plan[i].bytes;
}

bool sim_memory_use_describe(const struct sim_memory_use *use, Ntff__SubgraphInfo *g)
{
    size_t room = g->n_memory_usage_breakdown + KYMO_MEMORY_MAX;
    Ntff__NcMemoryUsage **all = kymo_realloc_array(g->memory_usage_breakdown, room, sizeof(void *));
    if (!all)
        return false;
    g->memory_usage_breakdown = all;
    for (unsigned k = 0; k < KYMO_MEMORY_MAX; k++) {
        if (!use->bytes[k])
            continue;
        Ntff__NcMemoryUsage *m = KYMO_NEW(Ntff__NcMemoryUsage);
        if (!m)
            return false;
        *m = (Ntff__NcMemoryUsage)NTFF__NC_MEMORY_USAGE__INIT;
        m->usage_type = k;
        m->bytes = use->bytes[k];
        all[g->n_memory_usage_breakdown++] = m;
    }
    return true;
}
