#include "pipeline/dma/dma_stream.h"

#include <errno.h>

#include "base/alloc.h"
#include "formats/ntff/record_decode.h"
#include "pipeline/rings/ledger.h"
#include "pipeline/rings/ring_io.h"

#define START_CAP 1024u
#define NONE UINT64_MAX

struct slot {
    struct dma_event event;
    uint64_t next; /* in the queue's list of open packets */
    bool decided;
};

struct queue {
    uint64_t oldest, newest; /* open packets, counts of slots; NONE: none */
    uint32_t open;
    uint32_t stale; /* closings still to come for packets that are not in the list */
    uint64_t idle_since;
};

struct dma_stream {
    struct ring_io io;
    const struct scan_ring *ring;
    const struct timebase_clock *clock;
    uint8_t open_kind, close_kind;
    struct slot *slots;
    size_t cap; /* a power of two */
    uint64_t head, tail;
    struct queue queues[SCAN_QUEUES];
    size_t segment;
    uint64_t chunk, key;
    const uint8_t *records;
    size_t at, count;
    bool pending_gap, finished;
};

static struct slot *slot(const struct dma_stream *s, uint64_t n)
{
    return &s->slots[n & (s->cap - 1)];
}

/* Closings that the stretch has for packets opened before it. */
static void begin_segment(struct dma_stream *s)
{
    for (unsigned q = 0; q < SCAN_QUEUES; q++) {
        s->queues[q].oldest = s->queues[q].newest = NONE;
        s->queues[q].open = 0;
        s->queues[q].stale = s->segment < s->ring->segment_count ? s->ring->segments[s->segment].open[q] : 0;
    }
}

int dma_stream_open(const struct input *in, const struct scan *scan, size_t ring, struct dma_stream **ret,
                    struct kymo_err *err)
{
    struct dma_stream *s = KYMO_NEW(struct dma_stream);
    if (!s)
        return kymo_err_set(err, -ENOMEM, "no memory for a DMA ring");
    ring_io_init(&s->io, in->ntff, ring, &scan->rings[ring].times);
    s->ring = &scan->rings[ring];
    s->clock = s->ring->clocks.by_type[2];
    s->open_kind = in->arch->dma_open;
    s->close_kind = in->arch->dma_close;
    s->cap = START_CAP;
    s->slots = KYMO_NEW_ARRAY(struct slot, s->cap);
    if (!s->slots) {
        dma_stream_free(s);
        return kymo_err_set(err, -ENOMEM, "no memory for a DMA ring");
    }
    begin_segment(s);
    *ret = s;
    return 0;
}

struct dma_stream *dma_stream_free(struct dma_stream *s)
{
    if (!s)
        return NULL;
    ring_io_done(&s->io);
    kymo_free(s->slots);
    kymo_free(s);
    return NULL;
}

static int grow(struct dma_stream *s, struct kymo_err *err)
{
    struct slot *bigger = KYMO_NEW_ARRAY(struct slot, 2 * s->cap);
    if (!bigger)
        return kymo_err_set(err, -ENOMEM, "no memory for %zu open DMA packets", 2 * s->cap);
    for (uint64_t n = s->head; n < s->tail; n++)
        bigger[n & (2 * s->cap - 1)] = *slot(s, n);
    kymo_free(s->slots);
    s->slots = bigger;
    s->cap *= 2;
    return 0;
}

/* The oldest packet of a full window is given up; its closing, should it come, finds no packet. */
static void give_up_head(struct dma_stream *s)
{
    struct slot *h = slot(s, s->head);
    if (h->decided)
        return;
    struct queue *q = &s->queues[h->event.queue];
    h->decided = true;
    h->event.reason = PAIR_LOST_AFTER;
    q->oldest = h->next;
    q->newest = h->next == NONE ? NONE : q->newest;
    q->open--;
    q->stale++;
}

/* A cleared place for a packet, which is in the window already. NULL: out of memory. */
static struct slot *push(struct dma_stream *s, struct kymo_err *err)
{
    if (s->tail - s->head == s->cap && grow(s, err) < 0)
        return NULL;
    struct slot *one = slot(s, s->tail++);
    *one = (struct slot){.next = NONE, .event.key = s->key};
    if (s->tail - s->head >= DMA_STREAM_OPEN_MAX)
        give_up_head(s);
    return one;
}

static int open_packet(struct dma_stream *s, const struct record *rec, uint64_t ps, struct kymo_err *err)
{
    uint8_t number = rec->u.dma.queue & (SCAN_QUEUES - 1);
    struct queue *q = &s->queues[number];
    bool idle = !q->open && !q->stale;
    s->key = ps;
    uint64_t n = s->tail;
    if (q->newest != NONE)
        slot(s, q->newest)->next = n;
    struct slot *one = push(s, err);
    if (!one)
        return -ENOMEM;
    one->event.start_ps = ps;
    one->event.has_start = true;
    one->event.queue = number;
    one->event.idle = idle;
    one->event.idle_since_ps = q->idle_since;
    q->oldest = q->oldest == NONE ? n : q->oldest;
    q->newest = n;
    q->open++;
    return 0;
}

static void close_with(struct slot *o, const struct record *rec, uint64_t ps)
{
    o->decided = true;
    o->event.end_ps = ps;
    o->event.has_end = true;
    o->event.bytes = rec->u.dma.byte_count;
}

static int close_packet(struct dma_stream *s, const struct record *rec, uint64_t ps, struct kymo_err *err)
{
    uint8_t number = rec->u.dma.queue & (SCAN_QUEUES - 1);
    struct queue *q = &s->queues[number];
    q->idle_since = ps;
    if (q->stale || q->oldest == NONE) {
        q->stale -= q->stale > 0;
        struct slot *one = push(s, err);
        if (!one)
            return -ENOMEM;
        close_with(one, rec, ps);
        one->event.queue = number;
        one->event.reason = (uint8_t)(s->segment ? PAIR_LOST_BEFORE : PAIR_OPEN_AT_START);
        return 0;
    }
    struct slot *o = slot(s, q->oldest);
    close_with(o, rec, ps);
    q->oldest = o->next;
    q->newest = o->next == NONE ? NONE : q->newest;
    q->open--;
    return 0;
}

static void give_up_open(struct dma_stream *s, enum pair_reason reason)
{
    for (uint64_t n = s->head; n < s->tail; n++)
        if (!slot(s, n)->decided) {
            slot(s, n)->decided = true;
            slot(s, n)->event.reason = (uint8_t)reason;
        }
}

static int note_gap(struct dma_stream *s, uint64_t ps, struct kymo_err *err)
{
    give_up_open(s, PAIR_LOST_AFTER);
    s->segment++;
    begin_segment(s);
    for (unsigned q = 0; q < SCAN_QUEUES; q++)
        s->queues[q].idle_since = ps;
    struct slot *one = push(s, err);
    if (!one)
        return -ENOMEM;
    one->decided = one->event.gap = true;
    return 0;
}

static int take(struct dma_stream *s, const uint8_t *bytes, struct kymo_err *err)
{
    struct record rec;
    record_decode_inline(bytes, &rec);
    bool gap = s->pending_gap || rec.sw_overflow;
    s->pending_gap = rec.hw_overflow;
    uint64_t ps = rec.kind == RECORD_DMA ? timebase_correct(s->clock, rec.ts_ps) : rec.ts_ps;
    int r = gap ? note_gap(s, ps, err) : 0;
    if (r < 0 || rec.kind != RECORD_DMA)
        return r;
    if (rec.u.dma.kind == s->open_kind)
        return open_packet(s, &rec, ps, err);
    return rec.u.dma.kind == s->close_kind ? close_packet(s, &rec, ps, err) : 0;
}

static void finish(struct dma_stream *s)
{
    uint64_t lost = 0;
    bool dropped = s->pending_gap || (ledger_lost(s->ring, &lost) && lost);
    s->finished = true;
    give_up_open(s, dropped ? PAIR_LOST_AFTER : PAIR_OPEN_AT_END);
}

static int advance(struct dma_stream *s, struct kymo_err *err)
{
    if (s->at == s->count) {
        s->at = 0;
        int r = ring_io_chunk(&s->io, s->chunk++, &s->records, &s->count, err);
        if (r < 0)
            return r;
        if (!s->count) {
            finish(s);
            return 0;
        }
    }
    return take(s, s->records + s->at++ * KYMO_RECORD_SIZE, err);
}

int dma_stream_peek(struct dma_stream *s, const struct dma_event **ret, struct kymo_err *err)
{
    while (s->head == s->tail || !slot(s, s->head)->decided) {
        if (s->finished)
            return 0;
        int r = advance(s, err);
        if (r < 0)
            return r;
    }
    *ret = &slot(s, s->head)->event;
    return 1;
}

void dma_stream_pop(struct dma_stream *s)
{
    s->head++;
}
