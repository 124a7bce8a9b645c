#include "pipeline/dma/dma_assign.h"

#include <string.h>

uint32_t dma_trigger_share(const struct dma_trigger *t, const struct dma_queues *q, uint32_t phys)
{
    if (t->kind == DMA_TRIGGER_BLOCK)
        return t->block == DMA_NONE ? 0 : dma_block_share(&q->blocks[t->block], phys);
    if (t->kind != DMA_TRIGGER_DYNAMIC)
        return 0;
    unsigned engine = phys / DMA_QUEUES % DMA_ENGINES, first = t->dge_group ? 16 : 0;
    if (phys / DMA_QUEUES / DMA_ENGINES != t->pcore || engine < first || engine >= first + 16)
        return 0;
    const struct dma_hwq *h = dma_queues_hwq(q, q->sets[t->set].node, phys);
    bool of_set = h && h->set == t->set;
    return of_set && (t->dge_engines >> (engine - first) & 1) ? t->dge_per_engine : 0;
}

uint64_t dma_trigger_packets(const struct dma_trigger *t, const struct dma_queues *q)
{
    if (t->kind == DMA_TRIGGER_BLOCK)
        return t->block == DMA_NONE ? 0 : q->blocks[t->block].packets;
    return t->kind == DMA_TRIGGER_DYNAMIC ? (uint64_t)__builtin_popcount(t->dge_engines) * t->dge_per_engine : 0;
}

int dma_assign_init(struct dma_assign *a, const struct dma_queues *q, uint32_t phys, const struct spill *triggers,
                    struct kymo_err *err)
{
    *a = (struct dma_assign){.queues = q, .phys = phys};
    return triggers ? spill_reader_init(&a->reader, triggers, err) : 0;
}

void dma_assign_done(struct dma_assign *a)
{
    spill_reader_done(&a->reader);
}

void dma_assign_gap(struct dma_assign *a)
{
    a->lost = true;
}

void dma_assign_end(struct dma_assign *a)
{
    a->ended = true;
}

/* The next trigger that concerns this queue. 1, or 0 at the end of the triggers. */
static int next_trigger(struct dma_assign *a, struct kymo_err *err)
{
    a->have = false;
    a->remaining = 0;
    const void *next;
    int r = 0;
    while (a->reader.spill && (r = spill_reader_next(&a->reader, &next, err)) > 0) {
        memcpy(&a->at, next, sizeof a->at);
        a->entry = a->reader.next - 1;
        uint32_t share = dma_trigger_share(&a->at, a->queues, a->phys);
        if (share || a->at.kind == DMA_TRIGGER_GAP) {
            a->have = true;
            a->remaining = share;
            return 1;
        }
    }
    if (r == 0)
        a->entry = a->reader.next;
    return r;
}

static int stray(struct dma_assign *a)
{
    a->strays++;
    return 0;
}

/*
 * The place is not known. Triggers that took effect before the queue fell idle have had their packets; the first one
 * after it, if it took effect before this packet, is this packet's.
 */
static int find_place(struct dma_assign *a, const struct dma_event *p, bool *ret_moved, struct kymo_err *err)
{
    if (!p->has_start || !p->idle)
        return 0;
    while (!a->have || a->at.effect_ps <= p->idle_since_ps) {
        int r = next_trigger(a, err);
        if (r <= 0)
            return r;
        *ret_moved = true;
    }
    /* A partly consumed trigger is never the one: its other packets ran before the loss. */
    bool fits = a->at.kind != DMA_TRIGGER_GAP && a->at.effect_ps <= p->start_ps;
    if (fits) {
        a->lost = false;
        a->remaining = dma_trigger_share(&a->at, a->queues, a->phys);
    }
    return fits;
}

/* The place is known: the trigger whose packets still come, else the next. */
static int follow(struct dma_assign *a, const struct dma_event *p, bool *ret_moved, struct kymo_err *err)
{
    if (!a->have || !a->remaining) {
        int r = next_trigger(a, err);
        if (r <= 0)
            return r;
        *ret_moved = true;
    }
    bool early = p->has_start && a->at.start_ps && p->start_ps < a->at.start_ps;
    if (a->at.kind == DMA_TRIGGER_GAP || early) {
        a->lost = true;
        return 0;
    }
    return 1;
}

int dma_assign_packet(struct dma_assign *a, const struct dma_event *packet, struct dma_trigger *ret,
                      uint64_t *ret_entry, bool *ret_moved, struct kymo_err *err)
{
    *ret_moved = false;
    int r = a->lost ? 0 : follow(a, packet, ret_moved, err);
    if (r == 0 && a->lost)
        r = find_place(a, packet, ret_moved, err);
    if (r < 0)
        return r;
    if (r == 0)
        return stray(a);
    a->remaining--;
    *ret = a->at;
    *ret_entry = a->entry;
    return 1;
}
