#include "driver-iface/nq/nq.h"

#include <errno.h>
#include <stdatomic.h>

#include "base/alloc.h"

struct nq {
    struct nq_control *control;
    const uint8_t *ring;
    uint64_t records; /* capacity */
    uint64_t head;    /* ours; the control block only hears of it */
    uint64_t peeked;  /* readable records of the last peek, from head on */
    struct nq_stats stats;
};

int nq_new(struct nq_control *control, const void *ring, uint64_t ring_bytes, struct nq **ret, struct kymo_err *err)
{
    struct nq *q;
    uint64_t head = atomic_load_explicit(&control->head, memory_order_acquire);
    uint64_t tail = atomic_load_explicit(&control->tail, memory_order_acquire);

    if (ring_bytes < NQ_RING_MIN || ring_bytes > NQ_RING_MAX || (ring_bytes & (ring_bytes - 1)) != 0)
        return kymo_err_set(err, -EINVAL, "ring of %llu bytes: not a power of two from %llu to %llu",
                            (unsigned long long)ring_bytes, NQ_RING_MIN, NQ_RING_MAX);
    if (tail < head)
        return kymo_err_set(err, -EPROTO, "ring head %llu is beyond its tail %llu", (unsigned long long)head,
                            (unsigned long long)tail);
    q = KYMO_NEW(struct nq);
    if (!q)
        return kymo_err_set(err, -ENOMEM, "no memory for a ring consumer");
    q->control = control;
    q->ring = ring;
    q->records = ring_bytes / KYMO_RECORD_SIZE;
    q->head = head;
    *ret = q;
    return 0;
}

struct nq *nq_free(struct nq *q)
{
    kymo_free(q);
    return NULL;
}

void nq_freep(struct nq **q)
{
    *q = nq_free(*q);
}

static const uint8_t *at(const struct nq *q, uint64_t position)
{
    return q->ring + (position % q->records) * KYMO_RECORD_SIZE;
}

/* Byte 3 of a record; the producer may be writing it, so the load must be one the language allows to race. */
static uint8_t mark_byte(const struct nq *q, uint64_t position)
{
    return __atomic_load_n(at(q, position) + 3, __ATOMIC_RELAXED);
}

/* A producer that overwrites runs past us: what is gone is counted and skipped. */
static uint64_t catch_up(struct nq *q)
{
    uint64_t tail = atomic_load_explicit(&q->control->tail, memory_order_acquire);

    if (tail < q->head) {
        q->stats.backward++;
        return q->head;
    }
    if (tail - q->head > q->records) {
        q->stats.overrun += tail - q->head - q->records;
        q->head = tail - q->records;
    }
    return tail;
}

static uint64_t run_of_phase(struct nq *q, uint64_t tail)
{
    for (uint64_t i = q->head; i < tail; i++) {
        bool phase = (mark_byte(q, i) & NQ_PHASE) != 0;

        if (phase != nq_phase_of(i, q->records)) {
            q->stats.phase_stops++;
            return i - q->head;
        }
    }
    return tail - q->head;
}

uint64_t nq_peek(struct nq *q, struct nq_span spans[2])
{
    uint64_t tail = catch_up(q);
    uint64_t n = run_of_phase(q, tail);
    uint64_t to_wrap = q->records - q->head % q->records;

    spans[0] = (struct nq_span){.data = at(q, q->head), .records = n < to_wrap ? n : to_wrap};
    spans[1] = (struct nq_span){.data = q->ring, .records = n - spans[0].records};
    q->peeked = n;
    return n;
}

static void count_marks(struct nq *q, uint64_t n)
{
    for (uint64_t i = q->head; i < q->head + n; i++) {
        uint8_t b = mark_byte(q, i);

        q->stats.sw_marks += (b & NQ_SW_MARK) != 0;
        q->stats.hw_marks += (b & NQ_HW_MARK) != 0;
    }
}

static uint64_t advance(struct nq *q, uint64_t n)
{
    if (n > q->peeked)
        n = q->peeked;
    q->head += n;
    q->peeked -= n;
    atomic_store_explicit(&q->control->head, q->head, memory_order_release);
    return n;
}

void nq_release(struct nq *q, uint64_t n)
{
    uint64_t tail;

    if (n > q->peeked)
        n = q->peeked;
    count_marks(q, n);
    /* What the producer overwrote meanwhile was perhaps read half old, half new. */
    tail = atomic_load_explicit(&q->control->tail, memory_order_acquire);
    if (tail > q->head && tail - q->head > q->records) {
        uint64_t over = tail - q->head - q->records;

        q->stats.torn += over < n ? over : n;
    }
    q->stats.taken += advance(q, n);
}

int nq_drain(struct nq *q, uint64_t max, nq_sink sink, void *ctx, uint64_t *ret_n, struct kymo_err *err)
{
    struct nq_span spans[2];
    uint64_t done = 0;
    int r = 0;

    (void)nq_peek(q, spans);
    for (int i = 0; i < 2 && r == 0; i++) {
        uint64_t n = spans[i].records < max - done ? spans[i].records : max - done;

        if (n == 0)
            continue;
        r = sink(ctx, spans[i].data, n);
        if (r < 0) {
            r = kymo_err_set(err, r, "the sink refused %llu records", (unsigned long long)n);
            break;
        }
        nq_release(q, n);
        done += n;
    }
    if (ret_n)
        *ret_n = done;
    return r;
}

uint64_t nq_discard(struct nq *q)
{
    uint64_t n = catch_up(q) - q->head;

    q->peeked = n;
    n = advance(q, n);
    q->stats.discarded += n;
    return n;
}

const struct nq_stats *nq_get_stats(const struct nq *q)
{
    return &q->stats;
}
