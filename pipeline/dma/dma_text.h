/* Texts of one side of a DMA block, as DmaPacketAggregated shows them. Every function writes a terminated text, cut at
 * n. */
#ifndef KYMO_PIPELINE_DMA_TEXT_H
#define KYMO_PIPELINE_DMA_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "formats/neff/neff.h"

/* [1024, 512] */
void dma_text_list(const int64_t *v, unsigned count, char *out, size_t n);
/* [0x2000] */
void dma_text_offset(int64_t offset, char *out, size_t n);
/*
 * SBUF partitions that an access of a state buffer touches, as 0-15 or 0,1, and their number. In a state buffer,
 * partitions lie one behind the other at their own size (G).
 */
unsigned dma_text_partitions(const struct kymo_arch *arch, const struct neff_access *a, char *out, size_t n);

#endif
