/*
 * What instructions that make their descriptors at run time copy: the variables that their operands name in the
 * compiler's record (kymo_addr64_variable). One entry per queue set, pair of variables and pair of memories; added
 * while the static rows are opened, from then on immutable.
 */
#ifndef KYMO_PIPELINE_DMA_DMA_COPIES_H
#define KYMO_PIPELINE_DMA_DMA_COPIES_H

#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "base/err.h"
#include "formats/neff/neff.h"

#define DMA_COPY_BUCKETS 1024

enum dma_memory { DMA_MEMORY_UNKNOWN, DMA_MEMORY_HBM, DMA_MEMORY_SBUF };

struct dma_copy {
    uint32_t set;
    uint32_t next;                            /* of the same bucket; UINT32_MAX: none */
    const struct neff_var *from_var, *to_var; /* NULL: that side names none */
    const char *variable;                     /* on the HBM side where one side is HBM; never NULL */
    enum dma_memory from, to;
};

struct dma_copies {
    struct dma_copy *list;
    size_t count, cap;
    uint32_t *buckets;
};

/*
 * Entry of a copy on a set whose executed operands lie in `from` and `to` (where known, they count for more than the
 * type of a variable). compiler: its record in the NEFF. *ret UINT32_MAX: it names no variable.
 */
int dma_copies_add(struct dma_copies *c, const struct kymo_arch *arch, const struct neff_subgraph *sg, uint32_t set,
                   const uint8_t *compiler, enum dma_memory from, enum dma_memory to, uint32_t *ret,
                   struct kymo_err *err) KYMO_MUST_CHECK;
void dma_copies_done(struct dma_copies *c);

/* Word of a memory list, as in DmaPacketAggregated.source: SB, INPUT, OUTPUT, WEIGHT, DRAM; "": unknown. */
const char *dma_memory_word(const struct neff_var *var);
enum dma_memory dma_memory_of(const struct neff_var *var);

#endif
