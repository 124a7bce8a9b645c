/* Writes DmaPacket and DmaPacketAggregated. Columns that depend on the block alone are registered once, by key. */
#ifndef KYMO_PIPELINE_DMA_DMA_ROWS_H
#define KYMO_PIPELINE_DMA_DMA_ROWS_H

#include <stdint.h>

#include "formats/parquet/parquet_writer.h"
#include "pipeline/dma/dma_queues.h"
#include "pipeline/dma/dma_transfers.h"

struct dma_rows;

/* Keys: a block; a dynamic transfer by what it copies, or, where it names no variable, of a set by its two memories; a
 * packet of a set that belongs to no transfer; a packet of an unknown queue. */
uint32_t dma_rows_key_block(const struct dma_queues *q, uint32_t block);
uint32_t dma_rows_key_copy(const struct dma_queues *q, uint32_t copy);
uint32_t dma_rows_key_dynamic(const struct dma_queues *q, uint32_t set, enum dma_memory from, enum dma_memory to);
uint32_t dma_rows_key_stray(const struct dma_queues *q,
                            uint32_t set); /* DMA_NONE: the usage table does not name the queue */

struct dma_packet_row {
    int64_t id, start, end, transfer; /* transfer -1: none */
    uint64_t bytes;
    uint32_t key, phys;
    int32_t index; /* in the transfer */
};

int dma_rows_open(const char *dir, const struct parquet_options *opt, const struct input *in,
                  const struct dma_queues *q, struct dma_rows **ret, struct kymo_err *err) KYMO_MUST_CHECK;
int dma_rows_packet(struct dma_rows *t, const struct dma_packet_row *row, struct kymo_err *err) KYMO_MUST_CHECK;
int dma_rows_transfer(struct dma_rows *t, const struct dma_transfer *x, struct kymo_err *err) KYMO_MUST_CHECK;
int dma_rows_finish(struct dma_rows *t, struct kymo_err *err) KYMO_MUST_CHECK;
/* Without a finish before, nothing is left of the tables. */
struct dma_rows *dma_rows_free(struct dma_rows *t);

#endif
