/*
 * The packets of one DMA ring in order of their opening: one record opens a packet, one closes it, first in first out
 * per queue. Where records were lost, the packets that were open before do not meet closings after, and the first pass
 * has told how many closings of the next stretch belong to packets that were open before it. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_DMA_DMA_STREAM_H
#define KYMO_PIPELINE_DMA_DMA_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/rings/pair.h"
#include "pipeline/rings/scan.h"

#define DMA_STREAM_OPEN_MAX (1u << 18) /* packets held back while an older one of the ring is open */

struct dma_event {
    uint64_t start_ps, end_ps; /* corrected; of the sides that are there */
    uint64_t key;              /* order in a merge: start of the last packet that has one */
    uint64_t idle_since_ps;    /* with idle: the queue's last closing before, or the loss */
    uint32_t bytes;
    uint8_t queue;
    uint8_t reason; /* enum pair_reason */
    bool has_start, has_end;
    bool gap;  /* no packet: records of this ring were lost here */
    bool idle; /* nothing was in flight on the queue when this packet opened */
};

/* Both records are there and in order. */
static inline bool dma_event_whole(const struct dma_event *e)
{
    return e->has_start && e->has_end && e->start_ps <= e->end_ps;
}

struct dma_stream;

int dma_stream_open(const struct input *in, const struct scan *scan, size_t ring, struct dma_stream **ret,
                    struct kymo_err *err) KYMO_MUST_CHECK;
struct dma_stream *dma_stream_free(struct dma_stream *s);
/* 1 and the next event, which stays until dma_stream_pop; 0 at the end; negative on failure. */
int dma_stream_peek(struct dma_stream *s, const struct dma_event **ret, struct kymo_err *err) KYMO_MUST_CHECK;
void dma_stream_pop(struct dma_stream *s);

#endif
