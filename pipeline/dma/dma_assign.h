/*
 * Says to which trigger each packet of a hardware queue belongs: packets follow descriptor order on their queue, blocks
 * follow their triggers. After a loss the queue finds its place again at the next idle point: a moment with nothing in
 * flight after which a trigger came before the next packet. Packets in between belong to no block. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_DMA_DMA_ASSIGN_H
#define KYMO_PIPELINE_DMA_DMA_ASSIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/dma/dma_queues.h"
#include "pipeline/dma/dma_stream.h"
#include "pipeline/spill/spill.h"

enum dma_trigger_kind {
    DMA_TRIGGER_BLOCK,   /* a block with descriptors of the compiler's */
    DMA_TRIGGER_DYNAMIC, /* descriptors made at run time, as its DGE record says */
    DMA_TRIGGER_GAP,     /* triggers may be missing here */
};

struct dma_trigger {           /* a record of a group's spill, in order of time */
    uint64_t start_ps, end_ps; /* 0: not known */
    uint64_t effect_ps;        /* from then on its packets can be there */
    uint32_t set, block;       /* block: DMA_NONE for dynamic ones */
    uint32_t copy;             /* of dynamic ones; DMA_NONE: their variables are not known */
    uint32_t number;           /* among the triggers of its engine */
    uint16_t dge_engines, dge_per_engine;
    uint8_t kind, pcore, engine;
    uint8_t dge_group; /* 1: engines 16 to 31 */
    uint8_t from, to;  /* enum dma_memory, of dynamic ones */
};

/* Packets of one hardware queue that a trigger starts. */
uint32_t dma_trigger_share(const struct dma_trigger *t, const struct dma_queues *q, uint32_t phys);
/* All its packets. */
uint64_t dma_trigger_packets(const struct dma_trigger *t, const struct dma_queues *q);

struct dma_assign { /* one hardware queue */
    const struct dma_queues *queues;
    uint32_t phys;
    struct spill_reader reader; /* spill NULL: no triggers */
    struct dma_trigger at;      /* the trigger whose packets come now or next */
    uint64_t entry;             /* its place; every earlier one is over */
    uint32_t remaining;         /* packets still to come of it */
    bool have;                  /* at is valid */
    bool lost;                  /* the place is not known */
    bool ended;
    uint64_t strays; /* packets that belong to no trigger */
};

/* triggers: sealed, stays with the caller; NULL: none. */
int dma_assign_init(struct dma_assign *a, const struct dma_queues *q, uint32_t phys, const struct spill *triggers,
                    struct kymo_err *err) KYMO_MUST_CHECK;
void dma_assign_done(struct dma_assign *a);
/* 1 and the trigger with its place, 0 when the packet belongs to none, negative on failure. *ret_moved: triggers were
 * left behind. */
int dma_assign_packet(struct dma_assign *a, const struct dma_event *packet, struct dma_trigger *ret,
                      uint64_t *ret_entry, bool *ret_moved, struct kymo_err *err) KYMO_MUST_CHECK;
/* Records of the ring were lost. */
void dma_assign_gap(struct dma_assign *a);
/* No more packets come. */
void dma_assign_end(struct dma_assign *a);
/* No packet of this entry can come any more. */
static inline bool dma_assign_over(const struct dma_assign *a, uint64_t entry)
{
    return a->ended || a->entry > entry || (a->entry == entry && a->have && !a->remaining);
}

#endif
