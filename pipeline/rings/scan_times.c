#include "pipeline/rings/scan_times.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

struct scan_times *scan_times_new(struct scan *s, struct kymo_err *err)
{
    struct scan_times *t = KYMO_NEW(struct scan_times);
    if (!t) {
        (void)kymo_err_set(err, -ENOMEM, "no memory for the order of times");
        return NULL;
    }
    t->scan = s;
    t->err = err;
    t->certain = (struct time_range){.first_ps = UINT64_MAX};
    return t;
}

struct scan_times *scan_times_free(struct scan_times *t)
{
    if (t)
        kymo_free(t->edges);
    kymo_free(t);
    return NULL;
}

static void widen(struct time_range *r, uint64_t ps)
{
    r->first_ps = ps < r->first_ps ? ps : r->first_ps;
    r->last_ps = ps > r->last_ps ? ps : r->last_ps;
}

void scan_times_sound(void *ctx, const struct time_order_entry *e)
{
    struct scan_times *t = ctx;
    struct scan_times_stream *stream = &t->streams[scan_times_stream_of(e->low)];
    if (stream->sound == 0) {
        stream->first = *e;
    } else if (stream->sound == 1) {
        stream->before_last = stream->first;
        stream->second = stream->last = *e;
    } else {
        scan_times_certain(t, stream->last.ps);
        t->note(t->ctx, stream->last.ps, stream->last.low);
        stream->before_last = stream->last;
        stream->last = *e;
    }
    stream->sound++;
}

void scan_times_chunk(struct scan_times *t, const uint8_t *records, size_t n)
{
    uint64_t newest[SCAN_TIMES_STREAMS];
    bool contradicted = false;
    for (unsigned i = 0; i < SCAN_TIMES_STREAMS; i++) {
        struct scan_times_stream *stream = &t->streams[i];
        newest[i] = stream->order.count ? time_order_at(&stream->order, stream->order.count - 1)->ps : 0;
        contradicted |= stream->order.waiting_count > 0;
        stream->place = 0;
    }
    for (size_t i = 0; i < n; i++) {
        const uint8_t *record = records + i * KYMO_RECORD_SIZE;
        uint32_t low = kymo_le32(record);
        unsigned s = scan_times_stream_of(low);
        uint64_t ps = timebase_correct(t->r->clocks.by_type[scan_times_type(low)], kymo_le64(record + 8));
        contradicted |= time_order_before(ps, newest[s]);
        newest[s] = t->ps[i] = ps;
        t->streams[s].place++;
    }
    t->in_order = !contradicted;
    for (unsigned i = 0; i < SCAN_TIMES_STREAMS; i++) {
        uint32_t all = t->streams[i].place;
        t->streams[i].inner = t->in_order && all > 2 * SCAN_TIMES_MARGIN ? all - 2 * SCAN_TIMES_MARGIN : 0;
        t->streams[i].place = 0;
    }
}

/* Gives a record another time, and notes it there. */
static int put(struct scan_times *t, const struct time_order_entry *e, uint64_t raw)
{
    struct ring_io_times *times = &t->r->times;
    uint64_t there = e->ps;
    void *p = times->at;
    int r = kymo_grow(&p, &times->cap, times->count + 1, SCAN_TIMES_DOUBTFUL_MAX, sizeof *times->at);
    times->at = p;
    if (r == -ENOMEM)
        return kymo_err_set(t->err, r, "no memory for times in doubt");
    t->r->doubtful++;
    if (r == 0) {
        times->at[times->count++] = (struct ring_io_time){.index = e->index, .raw = raw};
        there = timebase_correct(t->r->clocks.by_type[scan_times_type(e->low)], raw);
    }
    t->note(t->ctx, there, e->low);
    return 0;
}

int scan_times_doubtful(void *ctx, const struct time_order_entry *e, const struct time_order_entry *near)
{
    return put(ctx, e, near->raw);
}

/* Kinds of records that need no execution, nor company. */
static bool is_alone(const struct ntff_ring *ring, unsigned type)
{
    return ring->kind == NTFF__RING_KIND__RING_ERROR || ring->kind == NTFF__RING_KIND__RING_CC_CORE_ERROR ||
           ring->kind == NTFF__RING_KIND__RING_THROTTLE ||
           (type != RECORD_TYPE_DMA && type != RECORD_TYPE_AXI_SEMAPHORE &&
            (type < RECORD_TYPE_ENGINE_FIRST || type > RECORD_TYPE_ENGINE_LAST));
}

static int add_edge(struct scan_times *t, const struct time_order_entry *e, const struct time_order_entry *near)
{
    void *p = t->edges;
    int r = kymo_grow(&p, &t->cap, t->count + 1, 2 * SCAN_TIMES_STREAMS * t->scan->count, sizeof *t->edges);
    t->edges = p;
    if (r < 0)
        return kymo_err_set(t->err, r, "no memory for the edges of %zu rings", t->scan->count);
    t->edges[t->count++] = (struct time_edge){.e = *e, .near_ps = near->ps, .near_raw = near->raw, .ring = t->ring};
    return 0;
}

int scan_times_end_ring(struct scan_times *t)
{
    const struct time_order_sink sink = {scan_times_sound, scan_times_doubtful, t};
    int r = 0;
    for (unsigned i = 0; i < SCAN_TIMES_STREAMS && r == 0; i++) {
        struct scan_times_stream *stream = &t->streams[i];
        r = time_order_finish(&stream->order, &sink);
        if (r == 0 && stream->sound)
            r = add_edge(t, &stream->first, stream->sound > 1 ? &stream->second : &stream->first);
        if (r == 0 && stream->sound > 1)
            r = add_edge(t, &stream->last, &stream->before_last);
    }
    memset(t->streams, 0, sizeof t->streams);
    return r;
}

/* The timeline bears witness when it is of the same clock as the records. */
static bool add_executions(struct time_range *certain, const struct timeline *timeline)
{
    struct time_range all = {.first_ps = UINT64_MAX};
    for (size_t i = 0; i < timeline->count; i++) {
        widen(&all, timeline->execs[i].start_ps);
        widen(&all, timeline->execs[i].end_ps > timeline->execs[i].start_ps ? timeline->execs[i].end_ps
                                                                            : timeline->execs[i].start_ps);
    }
    if (!timeline->count || certain->first_ps > certain->last_ps || all.first_ps > certain->last_ps ||
        all.last_ps < certain->first_ps)
        return false;
    widen(certain, all.first_ps);
    widen(certain, all.last_ps);
    return true;
}

static bool nothing_lost(const struct scan *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->rings[i].gaps || !s->rings[i].ring.has_counters || s->rings[i].ring.dropped)
            return false;
    return true;
}

/* A start that has waited since before the capture began: its record was written when the wait was over. */
static bool is_long_wait(const struct time_order_entry *e)
{
    unsigned type = scan_times_type(e->low);
    return type >= RECORD_TYPE_ENGINE_FIRST && type <= RECORD_TYPE_ENGINE_LAST && (type & 3) == RECORD_WHAT_START &&
           e->high >> 16 == RECORD_WAIT_SATURATED;
}

static uint64_t reach(const struct scan *s, const struct time_edge *edge, bool executed, bool whole)
{
    const struct ntff_ring *ring = &s->rings[edge->ring].ring;
    if (is_alone(ring, scan_times_type(edge->e.low)) || is_long_wait(&edge->e))
        return TIME_ORDER_EDGE_ALONE_PS;
    /* Host-device transfers need no execution, but each packet has its two records near each other. */
    if (ring->kind == NTFF__RING_KIND__RING_H2D_DMA)
        return whole ? TIME_ORDER_EDGE_EXECUTED_PS : TIME_ORDER_EDGE_ALONE_PS;
    if (executed)
        return TIME_ORDER_EDGE_EXECUTED_PS;
    /* The notices of a long execution may be all that is left of its end. */
    return whole && ring->kind != NTFF__RING_KIND__RING_INFER_STATUS ? TIME_ORDER_EDGE_PS : TIME_ORDER_EDGE_ALONE_PS;
}

static int by_index(const void *a, const void *b)
{
    const struct ring_io_time *x = a, *y = b;
    return x->index < y->index ? -1 : x->index > y->index;
}

int scan_times_end(struct scan_times *t, const struct timeline *timeline)
{
    bool executed = add_executions(&t->certain, timeline), whole = nothing_lost(t->scan);
    for (size_t i = 0; i < t->count; i++)
        t->edges[i].reach_ps = reach(t->scan, &t->edges[i], executed, whole);
    time_edges_judge(t->edges, t->count, t->certain);
    int r = 0;
    for (size_t i = 0; i < t->count && r == 0; i++) {
        const struct time_edge *edge = &t->edges[i];
        t->ring = edge->ring;
        t->r = &t->scan->rings[edge->ring];
        if (edge->raw == edge->e.raw)
            t->note(t->ctx, edge->e.ps, edge->e.low);
        else
            r = put(t, &edge->e, edge->raw);
    }
    for (size_t i = 0; i < t->scan->count && r == 0; i++)
        if (t->scan->rings[i].times.count)
            qsort(t->scan->rings[i].times.at, t->scan->rings[i].times.count, sizeof(struct ring_io_time), by_index);
    return r;
}
