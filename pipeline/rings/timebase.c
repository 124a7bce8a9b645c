#include "pipeline/rings/timebase.h"

#include <string.h>

static struct timebase_clock clock_of(const Ntff__BlockTimestampInfo *info)
{
    if (!info)
        return (struct timebase_clock){0};
    return (struct timebase_clock){info->init_timestamp, info->actual_timestamp_inc, info->expected_timestamp_inc};
}

static void read_core(struct timebase *tb, unsigned pcore, const Ntff__NcTimestampInfo *t)
{
    tb->engine[pcore][KYMO_ENGINE_TENSOR] = clock_of(t->tpb_pe);
    tb->engine[pcore][KYMO_ENGINE_SCALAR] = clock_of(t->tpb_act);
    tb->engine[pcore][KYMO_ENGINE_VECTOR] = clock_of(t->tpb_dve);
    tb->engine[pcore][KYMO_ENGINE_GPSIMD] = clock_of(t->tpb_pool);
    tb->engine[pcore][KYMO_ENGINE_SYNC] = clock_of(t->tpb_sp);
    for (size_t i = 0; i < t->n_dma && i < 32; i++)
        tb->dma[pcore][i] = clock_of(t->dma[i]);
    for (size_t i = 0; i < t->n_top_sp && i < TIMEBASE_CC_CORES; i++)
        tb->cc[pcore][i] = clock_of(t->top_sp[i]);
    for (size_t i = 0; i < t->n_h2d_dma && i < KYMO_H2D_ENGINES_MAX; i++)
        tb->h2d[pcore][i] = clock_of(t->h2d_dma[i]);
}

void timebase_init(struct timebase *tb, const struct input *in)
{
    memset(tb, 0, sizeof *tb);
    tb->rescale = in->arch->rescale;
    for (unsigned pcore = 0; tb->rescale && pcore < in->cores; pcore++)
        for (size_t n = 0; n < in->node_count; n++) {
            const Ntff__SubgraphInfo *g = in->nodes[n].graph[pcore];
            if (g && g->timestamp_info) {
                read_core(tb, pcore, g->timestamp_info);
                break;
            }
        }
}

/* A triple of zeroes means that the file has none: the record's time stands. */
static const struct timebase_clock *usable(const struct timebase_clock *c)
{
    return c->actual_inc && c->expected_inc ? c : NULL;
}

/* Position of a ring among those of its kind and core: triples are listed in that order. */
static unsigned position_of(const struct input *in, const struct ntff_ring *ring, Ntff__RingKind kind)
{
    unsigned position = 0;
    for (size_t i = 0; i < ntff_reader_ring_count(in->ntff); i++) {
        const struct ntff_ring *other = ntff_reader_ring(in->ntff, i);
        if (other->kind == kind && other->pcore_idx == ring->pcore_idx && other->engine_index < ring->engine_index)
            position++;
    }
    return position;
}

static bool is_cc_ring(const struct ntff_ring *ring)
{
    return ring->kind == NTFF__RING_KIND__RING_CC_CORE_INSTRUCTION || ring->kind == NTFF__RING_KIND__RING_CC_CORE_EVENT;
}

/* CC-cores write as Sync does, by a clock of their own. */
static struct timebase_ring of_cc_ring(const struct timebase *tb, const struct input *in, const struct ntff_ring *ring)
{
    struct timebase_ring r = {0};
    unsigned position = position_of(in, ring, NTFF__RING_KIND__RING_CC_CORE_INSTRUCTION);
    for (unsigned what = 0; what < 4 && position < TIMEBASE_CC_CORES; what++)
        r.by_type[4 + 4 * KYMO_ENGINE_SYNC + what] = usable(&tb->cc[ring->pcore_idx][position]);
    return r;
}

struct timebase_ring timebase_of_ring(const struct timebase *tb, const struct input *in, const struct ntff_ring *ring)
{
    struct timebase_ring r = {0};
    if (!tb->rescale || ring->pcore_idx >= in->cores)
        return r;
    if (is_cc_ring(ring))
        return of_cc_ring(tb, in, ring);
    for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++)
        for (unsigned what = 0; what < 4; what++)
            r.by_type[4 + 4 * e + what] = usable(&tb->engine[ring->pcore_idx][e]);
    if (ring->kind == NTFF__RING_KIND__RING_DMA && ring->engine_index < 32)
        r.by_type[2] = usable(&tb->dma[ring->pcore_idx][ring->engine_index]);
    if (ring->kind == NTFF__RING_KIND__RING_H2D_DMA) {
        unsigned position = position_of(in, ring, NTFF__RING_KIND__RING_H2D_DMA);
        if (position < KYMO_H2D_ENGINES_MAX)
            r.by_type[2] = usable(&tb->h2d[ring->pcore_idx][position]);
    }
    return r;
}

const struct timebase_clock *timebase_sync(const struct timebase *tb, unsigned pcore)
{
    return tb->rescale ? usable(&tb->engine[pcore][KYMO_ENGINE_SYNC]) : NULL;
}
