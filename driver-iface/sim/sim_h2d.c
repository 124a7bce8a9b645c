/* Host-device DMA engines: one transfer after another, in descriptors of at most a host page (G). */
#include <string.h>

#include "driver-iface/sim/sim_internal.h"

#define H2D_BYTES_MAX 4096u
#define H2D_SETUP_PS 300000u
#define H2D_PS_PER_BYTE 40u /* 25 GB/s */

static const struct kymo_h2d_queue *find_queue(const struct kymo_arch *arch, const char *traffic, const char *direction)
{
    for (size_t i = 0; i < arch->h2d_queue_count; i++) {
        const struct kymo_h2d_queue *q = &arch->h2d_queues[i];
        if (!strcmp(q->traffic, traffic) && (!q->direction || !strcmp(q->direction, direction)))
            return q;
    }
    return NULL;
}

/* The capture whose rings trace this engine, whichever core the traffic is for. */
static struct sim_capture *find_capture(struct sim_core *c, unsigned engine)
{
    for (unsigned i = 0; i < SIM_PCORES_MAX; i++) {
        struct sim_capture *cap = c->captures[i];
        if (cap && cap->armed && cap->by_use.h2d >= 0 && cap->rings[cap->by_use.h2d].plan.engine_index == engine)
            return cap;
    }
    return NULL;
}

static void move_one(struct sim_core *c, struct sim_capture *cap, struct sim_h2d *h, struct sim_truth_h2d *row)
{
    uint64_t start = h->busy_ps,
             end = start + H2D_SETUP_PS + (uint64_t)row->bytes * H2D_PS_PER_BYTE + (sim_random(c) & 0xFFFF);
    h->busy_ps = end;
    if (!cap)
        return;
    uint8_t queue = (uint8_t)row->queue;
    cap->counts.host_dma++;
    cap->counts.host_dma_bytes += row->bytes;
    row->start_stored = sim_ring_emit(cap, cap->by_use.h2d, &h->clock, sim_record_dma_open(c->arch->dma_open, queue),
                                      start, &row->start_ps);
    row->end_stored = sim_ring_emit(cap, cap->by_use.h2d, &h->clock,
                                    sim_record_dma_close(c->arch->dma_close, queue, row->bytes), end, &row->end_ps);
    sim_truth_h2d(cap->truth, row);
}

uint64_t sim_h2d_move(struct sim_core *c, unsigned nc, const char *traffic, const char *direction, uint64_t n,
                      uint64_t ps)
{
    const struct kymo_arch *arch = c->arch;
    const struct kymo_h2d_queue *q = find_queue(arch, traffic, direction);
    unsigned index = nc / arch->h2d_pcores_per_engine, engine = arch->h2d_first + index;
    if (!q || index >= KYMO_H2D_ENGINES_MAX)
        return ps;
    struct sim_h2d *h = &c->h2d[index];
    struct sim_capture *cap = find_capture(c, engine);
    if (h->busy_ps < ps)
        h->busy_ps = ps;
    struct sim_truth_h2d row = {
        .engine = (uint16_t)engine, .what = q, .nc = (uint8_t)(cap ? cap->rings[cap->by_use.h2d].plan.nc_idx : 0)};
    row.queue = (uint16_t)(arch->h2d_queue_stride * (nc % arch->h2d_pcores_per_engine) + q->queue);
    for (uint64_t left = n; left; left -= row.bytes) {
        row.bytes = left < H2D_BYTES_MAX ? (uint32_t)left : H2D_BYTES_MAX;
        move_one(c, cap, h, &row);
    }
    return h->busy_ps;
}
