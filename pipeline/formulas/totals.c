#include "pipeline/formulas/totals.h"

#include <string.h>

#include "arch/opcode.h"

void totals_busy_init(struct totals_busy *b, size_t max_open, void (*out)(void *ctx, struct span s), void *ctx)
{
    *b = (struct totals_busy){0};
    spans_init(&b->active, max_open, out, ctx);
}

void totals_busy_done(struct totals_busy *b)
{
    spans_done(&b->active);
}

int totals_busy_add(struct totals_busy *b, int64_t start, int64_t end, int64_t wait)
{
    b->count++;
    b->time += end - start;
    return spans_add(&b->active, start + wait, end);
}

enum totals_dma_class totals_dma_class(const char *queue_type)
{
    static const char *const fixed[] = {"instruction", "input", "output", "data"};
    if (!strcmp(queue_type, "software_dynamic"))
        return TOTALS_DMA_SOFTWARE;
    if (!strcmp(queue_type, "hardware_dynamic"))
        return TOTALS_DMA_HARDWARE;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (!strcmp(queue_type, fixed[i]))
            return TOTALS_DMA_STATIC;
    return TOTALS_DMA_UNKNOWN;
}

void totals_dma_init(struct totals_dma *d, size_t max_open)
{
    *d = (struct totals_dma){0};
    for (int c = 0; c < TOTALS_DMA_CLASSES; c++)
        spans_init(&d->by_class[c], max_open, NULL, NULL);
    spans_init(&d->dynamic, max_open, NULL, NULL);
    spans_init(&d->all, max_open, NULL, NULL);
}

void totals_dma_done(struct totals_dma *d)
{
    for (int c = 0; c < TOTALS_DMA_CLASSES; c++)
        spans_done(&d->by_class[c]);
    spans_done(&d->dynamic);
    spans_done(&d->all);
}

int totals_dma_add(struct totals_dma *d, enum totals_dma_class c, int64_t start, int64_t end, uint64_t bytes)
{
    d->packets[c]++;
    d->bytes[c] += bytes;
    d->packet_time += end - start;
    int r = spans_add(&d->by_class[c], start, end);
    if (r == 0 && (c == TOTALS_DMA_SOFTWARE || c == TOTALS_DMA_HARDWARE))
        r = spans_add(&d->dynamic, start, end);
    return r < 0 ? r : spans_add(&d->all, start, end);
}

void totals_dma_advance(struct totals_dma *d, int64_t watermark)
{
    for (int c = 0; c < TOTALS_DMA_CLASSES; c++)
        spans_advance(&d->by_class[c], watermark);
    spans_advance(&d->dynamic, watermark);
    spans_advance(&d->all, watermark);
}

void totals_dma_finish(struct totals_dma *d)
{
    totals_dma_advance(d, INT64_MAX);
}

uint64_t totals_dma_all_packets(const struct totals_dma *d)
{
    uint64_t sum = 0;
    for (int c = 0; c < TOTALS_DMA_CLASSES; c++)
        sum += d->packets[c];
    return sum;
}

uint64_t totals_dma_all_bytes(const struct totals_dma *d)
{
    uint64_t sum = 0;
    for (int c = 0; c < TOTALS_DMA_CLASSES; c++)
        sum += d->bytes[c];
    return sum;
}

void totals_window_add(struct totals_window *w, int64_t start, int64_t end)
{
    if (!w->any || start < w->first)
        w->first = start;
    if (!w->any || end > w->last)
        w->last = end;
    w->any = true;
}

int64_t totals_window_length(const struct totals_window *w)
{
    return w->any ? w->last - w->first : 0;
}

void totals_window_add_instruction(struct totals_window *w, uint8_t opcode, int64_t start, int64_t end)
{
    const struct kymo_opcode *op = kymo_opcode_get(opcode);
    if (!op || !op->setup)
        totals_window_add(w, start, end);
}

void totals_run_notice(struct totals_run *r, int64_t ts)
{
    totals_window_add(&r->notices, ts, ts);
}

void totals_run_start(struct totals_run *r, int64_t ts)
{
    if (!r->has_start || ts < r->start)
        r->start = ts;
    if (!r->has_start || ts > r->last_start)
        r->last_start = ts;
    r->has_start = true;
}

void totals_run_stop(struct totals_run *r, int64_t ts)
{
    if (!r->has_stop || ts > r->stop)
        r->stop = ts;
    r->has_stop = true;
}

int64_t totals_run_time(const struct totals_run *r)
{
    if (!r->has_start || !r->has_stop || r->stop < r->start)
        return totals_window_length(&r->notices);
    bool open = r->last_start > r->stop && r->notices.any && r->notices.last > r->stop;
    return (open ? r->notices.last : r->stop) - r->start;
}
