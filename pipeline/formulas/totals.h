/*
 * Accumulators over event rows: busy time of a set of spans, DMA by class, the window of real work, the run time of the
 * device. They feed Summary, OpcodeSummary and ActiveTime. Times are ns. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_FORMULAS_TOTALS_H
#define KYMO_PIPELINE_FORMULAS_TOTALS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "pipeline/formulas/spans.h"

/* Count, plain sum of durations (overlaps counted twice) and union of busy spans. */
struct totals_busy {
    uint64_t count;
    int64_t time; /* sum of end - start */
    struct spans active;
};
void totals_busy_init(struct totals_busy *b, size_t max_open, void (*out)(void *ctx, struct span s), void *ctx);
void totals_busy_done(struct totals_busy *b);
/* wait: leading part of the span that is a semaphore wait; it counts in time, not in the active spans. */
int totals_busy_add(struct totals_busy *b, int64_t start, int64_t end, int64_t wait) KYMO_MUST_CHECK;

/* Queue classes: static is instruction, input, output and data; dynamic is both others together. */
enum totals_dma_class {
    TOTALS_DMA_STATIC,
    TOTALS_DMA_SOFTWARE,
    TOTALS_DMA_HARDWARE,
    TOTALS_DMA_UNKNOWN,
    TOTALS_DMA_CLASSES
};
enum totals_dma_class totals_dma_class(const char *queue_type); /* DmaPacket.queue_type */

struct totals_dma {
    uint64_t packets[TOTALS_DMA_CLASSES], bytes[TOTALS_DMA_CLASSES];
    int64_t packet_time;
    struct spans by_class[TOTALS_DMA_CLASSES], dynamic, all;
};
void totals_dma_init(struct totals_dma *d, size_t max_open);
void totals_dma_done(struct totals_dma *d);
int totals_dma_add(struct totals_dma *d, enum totals_dma_class c, int64_t start, int64_t end,
                   uint64_t bytes) KYMO_MUST_CHECK;
void totals_dma_advance(struct totals_dma *d, int64_t watermark);
void totals_dma_finish(struct totals_dma *d);
uint64_t totals_dma_all_packets(const struct totals_dma *d);
uint64_t totals_dma_all_bytes(const struct totals_dma *d);

/* First start to last end. */
struct totals_window {
    int64_t first, last;
    bool any;
};
void totals_window_add(struct totals_window *w, int64_t start, int64_t end);
int64_t totals_window_length(const struct totals_window *w); /* 0 when nothing was added */

/* total_exec_time: instructions but the set-up ones, and DMA packets. */
void totals_window_add_instruction(struct totals_window *w, uint8_t opcode, int64_t start, int64_t end);

/* total_time: from the start notice to the stop notice, else the span of all notices. */
struct totals_run {
    struct totals_window notices;
    int64_t start, stop, last_start;
    bool has_start, has_stop;
};
void totals_run_notice(struct totals_run *r, int64_t ts);
void totals_run_start(struct totals_run *r, int64_t ts); /* the first counts */
void totals_run_stop(struct totals_run *r, int64_t ts);  /* the last counts */
/* From the first start to the last stop. Where there are none, or nothing stopped what began last: to the last notice.
 */
int64_t totals_run_time(const struct totals_run *r);

#endif
