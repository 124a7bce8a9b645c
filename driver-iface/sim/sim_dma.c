/*
 * The 16 DMA engines of a physical core. An engine serves its queues in turn, one packet each; the read side is busy
 * for the packet's bytes, writes follow after a latency, so several packets are under way and end in the order of their
 * starts.
 */
#include <errno.h>

#include "base/alloc.h"
#include "driver-iface/sim/sim_internal.h"

#define DOORBELL_LATENCY_PS 400000u /* from the trigger's end to the first descriptor (G) */
#define DYNAMIC_LATENCY_PS 600000u  /* descriptor generation (G) */
#define PACKET_SETUP_PS 60000u
#define WRITE_LATENCY_PS 500000u

static struct sim_transfer *new_transfer(struct sim_core *c)
{
    struct sim_transfer *t = c->free_transfers;
    if (t) {
        c->free_transfers = t->next_free;
        *t = (struct sim_transfer){0};
        return t;
    }
    if (kymo_grow((void **)&c->transfers, &c->transfer_cap, c->transfer_count + 1, SIM_TRANSFERS_MAX,
                  sizeof *c->transfers) < 0)
        return NULL;
    t = KYMO_NEW(struct sim_transfer);
    if (t)
        c->transfers[c->transfer_count++] = t;
    return t;
}

static void free_transfer(struct sim_core *c, struct sim_transfer *t)
{
    t->next_free = c->free_transfers;
    c->free_transfers = t;
}

static void schedule(struct sim_pcore *p, unsigned e)
{
    const struct sim_dma *d = &p->dma[e];
    uint64_t key = SIM_NEVER;
    if (d->inflight_count < SIM_DMA_INFLIGHT && d->pending) {
        for (unsigned mask = d->pending; mask; mask &= mask - 1) {
            uint64_t ready = d->head[__builtin_ctz(mask)]->ready_ps;
            key = ready < key ? ready : key;
        }
        key = key < d->port_free_ps ? d->port_free_ps : key;
    }
    if (d->inflight_count && d->inflight[d->inflight_first].end_ps <= key)
        key = d->inflight[d->inflight_first].end_ps;
    sim_agenda_set(&p->exec->agenda, sim_leaf_dma(p, e), key);
}

static void enqueue(struct sim_pcore *p, struct sim_transfer *t, unsigned e, uint64_t ready_ps)
{
    struct sim_dma *d = &p->dma[e];
    struct sim_share *s = &t->share[e];
    s->transfer = t;
    s->ready_ps = ready_ps;
    if (d->tail[t->queue_index])
        d->tail[t->queue_index]->next = s;
    else
        d->head[t->queue_index] = s;
    d->tail[t->queue_index] = s;
    d->pending = (uint16_t)(d->pending | 1u << t->queue_index);
    schedule(p, e);
}

static void out_of_transfers(struct sim_pcore *p)
{
    p->exec->error = kymo_err_set(p->exec->err, -ENOBUFS, "more than %d DMA transfers under way", SIM_TRANSFERS_MAX);
}

static void truth_begin(struct sim_pcore *p, struct sim_transfer *t, const struct sim_op *op, uint32_t run,
                        uint64_t bytes, uint32_t trigger_row)
{
    t->row = SIM_TRUTH_NONE;
    if (p->capture)
        p->capture->counts.dma_transfers++;
    if (!p->capture || !sim_truth_detail(p->capture->truth))
        return;
    struct sim_truth_transfer row = {.pcore = (uint8_t)p->pcore_idx,
                                     .queue = op->queue,
                                     .block = t->block ? op->block : SIM_TRUTH_NONE,
                                     .run = run,
                                     .packets = t->packets,
                                     .trigger_row = trigger_row,
                                     .bytes = bytes,
                                     .from = t->block ? t->block->neff->from.variable : t->dynamic->from,
                                     .to = t->block ? t->block->neff->to.variable : t->dynamic->to};
    t->row = sim_truth_transfer_begin(p->capture->truth, &row);
    if (trigger_row != SIM_TRUTH_NONE && t->row != SIM_TRUTH_NONE)
        sim_truth_edge(p->capture->truth, SIM_EDGE_DMA_TRIGGER, trigger_row, t->row, 0);
}

static uint32_t count_run(struct sim_pcore *p, const struct sim_op *op)
{
    size_t at = 0;
    for (size_t q = 0; q < op->queue; q++)
        at += p->image->queues[q].block_count + 1;
    at += op->kind == SIM_OP_DIRECT2D ? p->image->queues[op->queue].block_count : op->block;
    return at < p->block_runs_cap ? p->block_runs[at]++ : 0;
}

void sim_dma_start_block(struct sim_core *c, struct sim_pcore *p, const struct sim_op *op, uint32_t trigger_row,
                         uint64_t ps)
{
    const struct sim_queue *q = &p->image->queues[op->queue];
    struct sim_transfer *t = new_transfer(c);
    if (!t) {
        out_of_transfers(p);
        return;
    }
    t->block = &q->blocks[op->block];
    t->queue_index = q->queue_index;
    t->packets = t->remaining = t->block->packet_count;
    t->complete = true;
    truth_begin(p, t, op, count_run(p, op), t->block->bytes, trigger_row);
    unsigned shares = 0;
    for (unsigned e = 0; e < SIM_DMA_ENGINES; e++) {
        t->share[e].first = t->block->share_first[e];
        t->share[e].count = t->block->share_first[e + 1] - t->block->share_first[e];
        shares += t->share[e].count != 0;
    }
    t->empty_rings = (uint8_t)((unsigned)__builtin_popcount(q->engines) - shares);
    for (unsigned e = 0; e < SIM_DMA_ENGINES; e++)
        if (t->share[e].count)
            enqueue(p, t, e, ps + DOORBELL_LATENCY_PS);
}

void sim_dma_start_dynamic(struct sim_core *c, struct sim_pcore *p, const struct sim_op *op, uint32_t trigger_row,
                           uint64_t ps)
{
    struct sim_transfer *t = new_transfer(c);
    if (!t) {
        out_of_transfers(p);
        return;
    }
    t->dynamic = &op->dynamic;
    t->queue_index = p->image->queues[op->queue].queue_index;
    t->packets = t->remaining = (uint32_t)__builtin_popcount(op->dynamic.engines) * op->dynamic.per_engine;
    t->complete = true;
    truth_begin(p, t, op, count_run(p, op), op->dynamic.bytes, trigger_row);
    uint32_t first = 0;
    for (unsigned e = 0; e < SIM_DMA_ENGINES; e++) {
        if (!(op->dynamic.engines >> e & 1))
            continue;
        t->share[e].first = first;
        t->share[e].count = op->dynamic.per_engine;
        first += op->dynamic.per_engine;
    }
    for (unsigned e = 0; e < SIM_DMA_ENGINES; e++)
        if (t->share[e].count)
            enqueue(p, t, e, ps + DYNAMIC_LATENCY_PS);
}

static uint32_t packet_bytes(const struct sim_transfer *t, uint32_t k)
{
    if (t->block)
        return t->block->packets[k].bytes;
    return (uint32_t)(t->dynamic->bytes / t->packets + (k < t->dynamic->bytes % t->packets ? 1u : 0u));
}

/* The next queue in turn whose first share may start now. */
static unsigned pick_queue(const struct sim_dma *d, uint64_t ps)
{
    for (unsigned k = 1; k <= SIM_DMA_QUEUES; k++) {
        unsigned q = (d->turn + k) % SIM_DMA_QUEUES;
        if (d->pending >> q & 1 && d->head[q]->ready_ps <= ps)
            return q;
    }
    return SIM_DMA_QUEUES;
}

static void pop_share(struct sim_dma *d, unsigned q)
{
    d->head[q] = d->head[q]->next;
    if (!d->head[q]) {
        d->tail[q] = NULL;
        d->pending = (uint16_t)(d->pending & ~(1u << q));
    }
}

static void start_packet(struct sim_core *c, struct sim_pcore *p, unsigned e, unsigned q, uint64_t ps)
{
    struct sim_dma *d = &p->dma[e];
    struct sim_share *s = d->head[q];
    uint32_t k = s->first + s->started, bytes = packet_bytes(s->transfer, k), row = SIM_TRUTH_NONE;
    d->turn = (uint8_t)q;
    double bandwidth = c->arch->dma_bandwidth / SIM_DMA_ENGINES; /* bytes/s */
    uint64_t read = PACKET_SETUP_PS + (uint64_t)(bytes * (1e12 / (bandwidth > 0 ? bandwidth : 1e9)));
    uint64_t end = ps + read + WRITE_LATENCY_PS + (sim_random(c) & 0x7FFF);
    end = end > d->last_end_ps ? end : d->last_end_ps + 1;
    d->port_free_ps = ps + read;
    d->last_end_ps = end;
    struct sim_capture *cap = p->capture;
    if (cap) {
        uint64_t ts;
        bool stored = sim_ring_emit(cap, cap->by_use.dma[p->pcore_idx][e], &d->clock,
                                    sim_record_dma_open(c->arch->dma_open, (uint8_t)q), ps, &ts);
        s->transfer->complete = s->transfer->complete && stored;
        cap->counts.dma_packets++;
        cap->counts.dma_bytes += bytes;
        if (s->transfer->row != SIM_TRUTH_NONE && sim_truth_detail(cap->truth))
            row = sim_truth_packet_begin(cap->truth, &(struct sim_truth_packet){.engine = (uint8_t)e,
                                                                                .start_stored = stored,
                                                                                .transfer = s->transfer->row,
                                                                                .packet = k,
                                                                                .bytes = bytes,
                                                                                .start_ps = ts});
    }
    d->inflight[(d->inflight_first + d->inflight_count++) % SIM_DMA_INFLIGHT] =
        (struct sim_inflight){.end_ps = end, .share = s, .bytes = bytes, .row = row, .queue = (uint8_t)q};
    if (++s->started == s->count)
        pop_share(d, q);
}

static void update_semaphore(struct sim_core *c, struct sim_pcore *p, const struct sim_transfer *t, bool last,
                             uint64_t ps)
{
    struct sim_source src = {.engine = SIM_SOURCE_AXI, .by = SIM_BY_TRANSFER, .row = t->row};
    if (t->dynamic) {
        if (last && t->dynamic->increment)
            sim_sync_update(c, p, &src, KYMO_UPD_ADD, t->dynamic->semaphore, t->dynamic->increment, ps);
        return;
    }
    if (t->block->semaphore < 0)
        return;
    sim_sync_update(c, p, &src, KYMO_UPD_INC, (uint8_t)t->block->semaphore, 1, ps);
    if (last && t->empty_rings) /* rings without a descriptor of this block report with the last one */
        sim_sync_update(c, p, &src, KYMO_UPD_ADD, (uint8_t)t->block->semaphore, t->empty_rings, ps);
}

static void end_packet(struct sim_core *c, struct sim_pcore *p, unsigned e, uint64_t ps)
{
    struct sim_dma *d = &p->dma[e];
    struct sim_inflight f = d->inflight[d->inflight_first];
    d->inflight_first = (d->inflight_first + 1) % SIM_DMA_INFLIGHT;
    d->inflight_count--;
    struct sim_transfer *t = f.share->transfer;
    struct sim_capture *cap = p->capture;
    uint64_t ts = ps;
    if (cap) {
        uint64_t low = sim_record_dma_close(c->arch->dma_close, f.queue, f.bytes);
        bool stored = sim_ring_emit(cap, cap->by_use.dma[p->pcore_idx][e], &d->clock, low, ps, &ts);
        t->complete = t->complete && stored;
        if (f.row != SIM_TRUTH_NONE)
            sim_truth_packet_end(cap->truth, f.row, ts, stored);
    }
    f.share->done++;
    bool last = --t->remaining == 0;
    if (last && t->row != SIM_TRUTH_NONE && cap)
        sim_truth_transfer_end(cap->truth, t->row, ts, t->complete);
    schedule(p, e);
    if (f.share->done == f.share->count)
        update_semaphore(c, p, t, last, ps);
    if (last)
        free_transfer(c, t);
}

void sim_dma_step(struct sim_core *c, struct sim_pcore *p, unsigned e, uint64_t ps)
{
    struct sim_dma *d = &p->dma[e];
    if (d->inflight_count && d->inflight[d->inflight_first].end_ps <= ps) {
        end_packet(c, p, e, ps);
        return;
    }
    unsigned q = pick_queue(d, ps);
    if (q < SIM_DMA_QUEUES)
        start_packet(c, p, e, q, ps);
    schedule(p, e);
}

/* All transfers go back to the pool; used when an execution begins and when one was broken off. */
void sim_dma_reset(struct sim_core *c, struct sim_pcore *p)
{
    for (unsigned e = 0; e < SIM_DMA_ENGINES; e++) {
        struct sim_dma *d = &p->dma[e];
        struct sim_clock clock = d->clock;
        uint64_t last = d->last_end_ps;
        *d = (struct sim_dma){.clock = clock, .last_end_ps = last};
    }
    c->free_transfers = NULL;
    for (size_t i = 0; i < c->transfer_count; i++)
        free_transfer(c, c->transfers[i]);
}
