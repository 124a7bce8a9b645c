/*
 * The DMA queues of a profile: which queue set each hardware queue belongs to, what kind of traffic it carries, and how
 * many packets of each block fall to it. From the NTFF's queue usage table, joined with the NEFF's queues and blocks.
 * Immutable after opening, but for the dynamic copies, which the static rows add.
 */
#ifndef KYMO_PIPELINE_DMA_DMA_QUEUES_H
#define KYMO_PIPELINE_DMA_DMA_QUEUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/dma/dma_copies.h"
#include "pipeline/formulas/totals.h"
#include "pipeline/input.h"

#define DMA_ENGINES 32 /* of one physical core; the generations known have 16 */
#define DMA_QUEUES 16  /* of one engine */
#define DMA_PHYS_MAX (INPUT_CORES_MAX * DMA_ENGINES * DMA_QUEUES)
#define DMA_NONE UINT32_MAX

/* Number of one hardware queue. */
static inline uint32_t dma_phys(unsigned pcore, unsigned engine, unsigned queue)
{
    return (pcore * DMA_ENGINES + engine) * DMA_QUEUES + queue;
}

struct dma_set { /* a queue set of def.json (or an instance), on one core of one NEFF */
    uint32_t node;
    unsigned pcore;
    const char *name;
    const char *type; /* DmaPacket.queue_type */
    enum totals_dma_class dma_class;
    bool dynamic;
    int owner;                     /* enum kymo_engine, -1: not known */
    const struct neff_queue *neff; /* NULL: no NEFF, or it has no such queue */
    uint32_t group;                /* sets that share a hardware queue share their order of triggers */
};

struct dma_hwq { /* one hardware queue in one NEFF */
    uint32_t node, phys, set;
    const Ntff__DmaQueueUsageInfo *usage;
};

struct dma_share {
    uint32_t phys, packets;
};

struct dma_block {
    uint32_t set, id;
    const char *function;              /* "": outside functions */
    const struct neff_dma_block *neff; /* NULL: not in a NEFF */
    uint64_t packets;                  /* in all */
    const char *variable;              /* on the HBM side where one side is HBM */
    enum dma_memory from, to;
    const struct neff_var *from_var, *to_var;
    bool spill;
    struct dma_share *shares;
    size_t share_count, share_cap;
};

struct dma_queues {
    struct dma_set *sets;
    size_t set_count, set_cap;
    struct dma_hwq *hwqs; /* by node, then phys */
    size_t hwq_count, hwq_cap;
    struct dma_block *blocks; /* by set, id, function */
    size_t block_count, block_cap;
    struct dma_copies copies;
    uint32_t group_count;
};

int dma_queues_open(struct dma_queues *q, const struct input *in, struct kymo_err *err) KYMO_MUST_CHECK;
void dma_queues_done(struct dma_queues *q);

/* NULL: the usage table does not name this hardware queue. */
const struct dma_hwq *dma_queues_hwq(const struct dma_queues *q, uint32_t node, uint32_t phys);
uint32_t dma_queues_find_set(const struct dma_queues *q, uint32_t node, unsigned pcore,
                             const char *name); /* DMA_NONE */
/* The dynamic set that an engine of a core owns; DMA_NONE. */
uint32_t dma_queues_find_dynamic(const struct dma_queues *q, uint32_t node, unsigned pcore, enum kymo_engine owner);
/* function "": the block outside functions, else the only one of that id. DMA_NONE. */
uint32_t dma_queues_find_block(const struct dma_queues *q, uint32_t set, uint32_t id, const char *function);
uint32_t dma_block_share(const struct dma_block *b, uint32_t phys);

#endif
