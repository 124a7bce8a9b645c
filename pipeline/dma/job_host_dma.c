/* The pass that writes HostDmaTransfer from the rings of host-device DMA engines. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/dma/dma_stream.h"
#include "pipeline/job.h"

struct source {
    struct dma_stream *stream;
    const struct dma_event *next; /* NULL: at its end */
    uint32_t ring;
};

struct pass {
    struct job *j;
    struct source *sources;
    size_t count;
    struct parquet_row *row;
    int64_t next_id;
    uint64_t unknown;
};

static const char *usage_name(const struct job *j, const struct ntff_ring *ring, unsigned queue)
{
    for (size_t n = 0; n < j->in->node_count; n++) {
        const Ntff__SubgraphInfo *g = ring->pcore_idx < INPUT_CORES_MAX ? j->in->nodes[n].graph[ring->pcore_idx] : NULL;
        for (size_t i = 0; g && i < g->n_dma_queue_usage; i++) {
            const Ntff__DmaQueueUsageInfo *u = g->dma_queue_usage[i];
            if (u->engine_index == ring->engine_index && u->queue_index == queue && u->name && *u->name)
                return u->name;
        }
    }
    return NULL;
}

/* What a queue carries: by its name in the file's usage table, else by its number on the engine. */
static const struct kymo_h2d_queue *find_queue(const struct job *j, const struct ntff_ring *ring, unsigned queue)
{
    const struct kymo_arch *a = j->in->arch;
    const char *name = usage_name(j, ring, queue);
    for (size_t i = 0; name && i < a->h2d_queue_count; i++)
        if (!strcmp(a->h2d_queues[i].name, name))
            return &a->h2d_queues[i];
    unsigned local = a->h2d_queue_stride ? queue % a->h2d_queue_stride : queue;
    for (size_t i = 0; i < a->h2d_queue_count; i++)
        if (a->h2d_queues[i].queue == local)
            return &a->h2d_queues[i];
    return NULL;
}

static int write_whole(struct pass *p, const struct source *s, struct kymo_err *err)
{
    struct job *j = p->j;
    const struct ntff_ring *ring = &j->scan.rings[s->ring].ring;
    const struct dma_event *e = s->next;
    const struct kymo_h2d_queue *q = find_queue(j, ring, e->queue);
    int64_t start = timebase_ns(&j->timebase, e->start_ps), end = timebase_ns(&j->timebase, e->end_ps);
    struct consumer_host_transfer row = {p->next_id++, start, end, e->bytes, s->ring, e->queue, q};
    p->unknown += !q;
    parquet_row_int(p->row, KYMO_HOST_DMA_TRANSFER_ID, row.id);
    parquet_row_int(p->row, KYMO_HOST_DMA_TRANSFER_START_TS, start);
    parquet_row_int(p->row, KYMO_HOST_DMA_TRANSFER_END_TS, end);
    parquet_row_int(p->row, KYMO_HOST_DMA_TRANSFER_DURATION_NS, end - start);
    parquet_row_int(p->row, KYMO_HOST_DMA_TRANSFER_ENGINE_IDX, ring->engine_index);
    parquet_row_int(p->row, KYMO_HOST_DMA_TRANSFER_QUEUE_IDX, e->queue);
    parquet_row_string(p->row, KYMO_HOST_DMA_TRANSFER_DIRECTION, q ? q->direction : NULL);
    parquet_row_string(p->row, KYMO_HOST_DMA_TRANSFER_TRAFFIC, q && q->traffic ? q->traffic : "unknown");
    parquet_row_int(p->row, KYMO_HOST_DMA_TRANSFER_TRANSFER_BYTES, e->bytes);
    parquet_row_int(p->row, KYMO_HOST_DMA_TRANSFER_NEURON_DEVICE_IDX, j->in->info->nd_idx);
    parquet_row_int(p->row, KYMO_HOST_DMA_TRANSFER_NEURONCORE_IDX, ring->nc_idx);
    j->ledger.rings[s->ring].rows[RECORD_DMA] += 2;
    int r = parquet_row_end(p->row, err);
    return r < 0 ? r : consumers_host_transfer(j->consumers, &row, err);
}

static int add_partial(struct pass *p, const struct source *s, bool start_side, struct kymo_err *err)
{
    struct job *j = p->j;
    const struct ntff_ring *ring = &j->scan.rings[s->ring].ring;
    const struct dma_event *e = s->next;
    struct partial one = {
        .ts = timebase_ns(&j->timebase, start_side ? e->start_ps : e->end_ps),
        .id = p->next_id++,
        .pc = -1,
        .ring = s->ring,
        .engine = (uint16_t)ring->engine_index,
        .pcore = (uint8_t)ring->pcore_idx,
        .kind = PARTIAL_HOST_DMA,
        .reason = e->has_start && e->has_end ? PAIR_BACKWARDS : e->reason,
        .start_side = start_side,
    };
    j->ledger.rings[s->ring].partial[RECORD_DMA]++;
    return partials_add(j->partials, one, err);
}

static int write_partial(struct pass *p, const struct source *s, struct kymo_err *err)
{
    bool backwards = s->next->has_start && s->next->has_end;
    p->j->backwards += backwards;
    int r = add_partial(p, s, s->next->has_start, err);
    return r == 0 && backwards ? add_partial(p, s, false, err) : r;
}

static int advance(struct source *s, struct kymo_err *err)
{
    int r = dma_stream_peek(s->stream, &s->next, err);
    if (r == 0)
        s->next = NULL;
    return r < 0 ? r : 0;
}

static int merge(struct pass *p, struct kymo_err *err)
{
    for (;;) {
        struct source *best = NULL;
        for (size_t i = 0; i < p->count; i++)
            if (p->sources[i].next && (!best || p->sources[i].next->key < best->next->key))
                best = &p->sources[i];
        if (!best)
            return 0;
        int r = 0;
        if (!best->next->gap)
            r = dma_event_whole(best->next) ? write_whole(p, best, err) : write_partial(p, best, err);
        if (r < 0)
            return r;
        dma_stream_pop(best->stream);
        r = advance(best, err);
        if (r < 0)
            return r;
    }
}

static int open_sources(struct pass *p, struct kymo_err *err)
{
    struct job *j = p->j;
    p->sources = KYMO_NEW_ARRAY(struct source, j->scan.count + 1);
    if (!p->sources)
        return kymo_err_set(err, -ENOMEM, "no memory for the host-device DMA rings");
    for (size_t i = 0; i < j->scan.count; i++) {
        const struct ntff_ring *ring = &j->scan.rings[i].ring;
        if (ring->kind != NTFF__RING_KIND__RING_H2D_DMA || !ring->records)
            continue;
        struct source *s = &p->sources[p->count++];
        s->ring = (uint32_t)i;
        int r = dma_stream_open(j->in, &j->scan, i, &s->stream, err);
        if (r == 0)
            r = advance(s, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int job_host_dma(struct job *j, struct kymo_err *err)
{
    struct pass p = {.j = j};
    int r = open_sources(&p, err);
    if (r == 0)
        r = parquet_row_open(j->dir, kymo_schema_table(KYMO_T_HOST_DMA_TRANSFER), &j->parquet, &p.row, err);
    if (r == 0)
        r = merge(&p, err);
    if (r < 0) {
        parquet_row_discard(p.row);
    } else {
        j->result->host_transfers = parquet_row_count(p.row);
        r = parquet_row_finish(p.row, err);
    }
    if (p.unknown)
        warnings_add(j->warnings, "Host-device DMA",
                     "%llu transfers are on queues whose traffic is not known: direction is null",
                     (unsigned long long)p.unknown);
    for (size_t i = 0; i < p.count; i++)
        dma_stream_free(p.sources[i].stream);
    kymo_free(p.sources);
    return r;
}
