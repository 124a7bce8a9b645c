#include "pipeline/flow/flow_dma.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/flow/flow_static.h"
#include "pipeline/job.h"
#include "pipeline/spill/sort_spill.h"

#define DYNAMIC (1u << 14) /* transfers under way whose semaphore their instruction names */
#define NO_SEMAPHORE (-1)
#define AT_RUN_TIME (-2)

struct transfer { /* by id */
    int64_t end;
    int32_t semaphore;
    uint32_t there; /* 0: no such transfer */
};

struct dynamic {
    int64_t transfer;
    uint32_t semaphore;
};

struct flow_dma {
    const struct dma_queues *queues;
    struct flow_end *open; /* by hardware queue: the last packet, whose transfer may not be over there; id -1: none */
    struct sort_spill *ends[INPUT_CORES_MAX];
    struct flow_end next[INPUT_CORES_MAX];
    bool has_next[INPUT_CORES_MAX];
    uint64_t reach_ps[INPUT_CORES_MAX]; /* how far an end may be from its update */
    struct spill *transfers;
    struct flow_ends (*recent)[256]; /* by semaphore */
    struct dynamic *dynamic;
};

static bool lossy(const struct job *j, unsigned pcore)
{
    for (size_t i = 0; i < j->scan.count; i++) {
        const struct scan_ring *r = &j->scan.rings[i];
        uint64_t lost = 0;
        if (r->ring.kind == NTFF__RING_KIND__RING_DMA && r->ring.pcore_idx == pcore &&
            (r->gaps || (ledger_lost(r, &lost) && lost)))
            return true;
    }
    return false;
}

int flow_dma_open(const struct job *j, struct flow_dma **ret, struct kymo_err *err)
{
    struct flow_dma *d = KYMO_NEW(struct flow_dma);
    if (d) {
        d->queues = &j->queues;
        d->open = KYMO_NEW_ARRAY(struct flow_end, DMA_PHYS_MAX);
        d->recent = kymo_calloc(INPUT_CORES_MAX, sizeof *d->recent);
        d->dynamic = KYMO_NEW_ARRAY(struct dynamic, DYNAMIC);
    }
    if (!d || !d->open || !d->recent || !d->dynamic) {
        flow_dma_free(d);
        return kymo_err_set(err, -ENOMEM, "no memory for the ends of transfers");
    }
    for (size_t i = 0; i < DMA_PHYS_MAX; i++)
        d->open[i].id = -1;
    for (size_t i = 0; i < DYNAMIC; i++)
        d->dynamic[i].transfer = -1;
    int r = spill_open(j->dir, sizeof(struct transfer), &d->transfers, err);
    for (unsigned c = 0; c < INPUT_CORES_MAX && r == 0; c++) {
        d->reach_ps[c] = lossy(j, c) ? FLOW_REACH_EXACT_PS : FLOW_REACH_PS;
        r = sort_spill_open(j->dir, sizeof(struct flow_end), 0, &d->ends[c], err);
    }
    if (r < 0) {
        flow_dma_free(d);
        return r;
    }
    *ret = d;
    return 0;
}

struct flow_dma *flow_dma_free(struct flow_dma *d)
{
    if (!d)
        return NULL;
    for (unsigned c = 0; c < INPUT_CORES_MAX; c++)
        sort_spill_free(d->ends[c]);
    spill_free(d->transfers);
    kymo_free(d->open);
    kymo_free(d->recent);
    kymo_free(d->dynamic);
    kymo_free(d);
    return NULL;
}

static int close_queue(struct flow_dma *d, uint32_t phys, struct kymo_err *err)
{
    struct flow_end *open = &d->open[phys];
    if (open->id < 0)
        return 0;
    int r = sort_spill_add(d->ends[phys / (DMA_ENGINES * DMA_QUEUES)], (int64_t)open->ps, open, err);
    open->id = -1;
    return r;
}

int flow_dma_packet(struct flow_dma *d, const struct consumer_packet *p, struct kymo_err *err)
{
    struct flow_end *open = &d->open[p->row.phys];
    int r = open->id != p->row.transfer ? close_queue(d, p->row.phys, err) : 0;
    if (r == 0)
        *open = (struct flow_end){p->end_ps, p->row.transfer};
    return r;
}

int flow_dma_transfer(struct flow_dma *d, const struct consumer_transfer *t, struct kymo_err *err)
{
    const struct dma_transfer *x = &t->transfer;
    struct transfer row = {.end = x->end, .semaphore = AT_RUN_TIME, .there = 1};
    if (x->block != DMA_NONE)
        row.semaphore = flow_static_block_semaphore(d->queues, x->block);
    return spill_put(d->transfers, (uint64_t)x->id, &row, err);
}

static int read_next(struct flow_dma *d, unsigned pcore, struct kymo_err *err)
{
    const void *next;
    int r = sort_spill_next(d->ends[pcore], &next, err);
    d->has_next[pcore] = r > 0;
    if (r > 0)
        memcpy(&d->next[pcore], next, sizeof d->next[pcore]);
    return r < 0 ? r : 0;
}

int flow_dma_seal(struct flow_dma *d, struct kymo_err *err)
{
    int r = 0;
    for (uint32_t i = 0; i < DMA_PHYS_MAX && r == 0; i++)
        r = close_queue(d, i, err);
    for (unsigned c = 0; c < INPUT_CORES_MAX && r == 0; c++) {
        r = sort_spill_merge(d->ends[c], err);
        if (r == 0)
            r = read_next(d, c, err);
    }
    return r;
}

void flow_dma_dynamic(struct flow_dma *d, int64_t transfer, unsigned semaphore)
{
    d->dynamic[(uint64_t)transfer % DYNAMIC] = (struct dynamic){transfer, semaphore};
}

static int semaphore_of(struct flow_dma *d, int64_t id, int32_t *ret, struct kymo_err *err)
{
    struct transfer t = {0};
    int r = (uint64_t)id < spill_count(d->transfers) ? spill_get(d->transfers, (uint64_t)id, &t, err) : 0;
    *ret = t.there ? t.semaphore : NO_SEMAPHORE;
    const struct dynamic *at = &d->dynamic[(uint64_t)id % DYNAMIC];
    if (*ret == AT_RUN_TIME)
        *ret = at->transfer == id ? (int32_t)at->semaphore : NO_SEMAPHORE;
    return r;
}

static int take_ends(struct flow_dma *d, unsigned pcore, uint64_t ps, struct kymo_err *err)
{
    int r = 0;
    while (r == 0 && d->has_next[pcore] && d->next[pcore].ps <= ps) {
        int32_t semaphore;
        r = semaphore_of(d, d->next[pcore].id, &semaphore, err);
        if (r == 0 && semaphore >= 0)
            flow_ends_add(&d->recent[pcore][semaphore], &d->next[pcore]);
        r = r < 0 ? r : read_next(d, pcore, err);
    }
    return r;
}

int flow_dma_find(struct flow_dma *d, unsigned pcore, unsigned semaphore, uint64_t ps, struct flow_found *ret,
                  struct kymo_err *err)
{
    int r = take_ends(d, pcore, ps + FLOW_REACH_EXACT_PS, err);
    const struct flow_end *best = flow_ends_near(&d->recent[pcore][semaphore & 255], ps, d->reach_ps[pcore]);
    if (r < 0 || !best)
        return r;
    struct transfer t;
    r = spill_get(d->transfers, (uint64_t)best->id, &t, err);
    *ret = (struct flow_found){.id = best->id, .end = t.end, .distance = flow_ends_distance(best, ps)};
    return r < 0 ? r : 1;
}
