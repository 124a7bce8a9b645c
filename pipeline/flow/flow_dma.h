/*
 * Whose transfer it was that updated a semaphore through AXI. Packets are taken first: where a transfer's packets on
 * one hardware queue are over, it may report, so these ends are kept, sorted by time. Then the updates are asked for in
 * order of time: an update belongs to the transfer that counts this semaphore up and has such an end next to it
 * (flow_ends.h). Memory is bounded. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_FLOW_FLOW_DMA_H
#define KYMO_PIPELINE_FLOW_FLOW_DMA_H

#include "pipeline/consumer.h"
#include "pipeline/flow/flow_ends.h"

struct flow_dma;

int flow_dma_open(const struct job *j, struct flow_dma **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct flow_dma *flow_dma_free(struct flow_dma *d);
int flow_dma_packet(struct flow_dma *d, const struct consumer_packet *p, struct kymo_err *err) KYMO_MUST_CHECK;
int flow_dma_transfer(struct flow_dma *d, const struct consumer_transfer *t, struct kymo_err *err) KYMO_MUST_CHECK;
int flow_dma_seal(struct flow_dma *d, struct kymo_err *err) KYMO_MUST_CHECK;
/* An instruction started this transfer, which counts that semaphore up when it is over. */
void flow_dma_dynamic(struct flow_dma *d, int64_t transfer, unsigned semaphore);
/* 1 and the transfer, or 0. */
int flow_dma_find(struct flow_dma *d, unsigned pcore, unsigned semaphore, uint64_t ps, struct flow_found *ret,
                  struct kymo_err *err) KYMO_MUST_CHECK;

#endif
