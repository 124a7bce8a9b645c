/* Notification rings: the consumer against the simulator's producer, alone and with the two in different threads. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/le.h"
#include "driver-iface/nq/nq.h"
#include "driver-iface/sim/sim_ring.h"

#define RING_RECORDS 8u

struct fixture {
    _Alignas(64) struct nq_control control;
    _Alignas(64) uint8_t ring[RING_RECORDS * KYMO_RECORD_SIZE];
    struct sim_ring producer;
    struct nq *q;
};

static int setup(void **state)
{
    static struct fixture f;

    memset(&f, 0, sizeof f);
    sim_ring_init(&f.producer, &f.control, f.ring, sizeof f.ring);
    assert_int_equal(nq_new(&f.control, f.ring, sizeof f.ring, &f.q, NULL), 0);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    f->q = nq_free(f->q);
    return 0;
}

static bool put(struct sim_ring *r, uint64_t number, uint8_t marks)
{
    uint8_t record[KYMO_RECORD_SIZE] = {0};

    record[3] = marks;
    kymo_put_le64(record + 8, number);
    return sim_ring_put(r, record);
}

struct seen {
    uint64_t next, count, wrong;
    int refuse; /* errno to answer with */
};

static int sink(void *ctx, const uint8_t *records, uint64_t n)
{
    struct seen *s = ctx;

    if (s->refuse)
        return -s->refuse;
    for (uint64_t i = 0; i < n; i++, s->next++)
        s->wrong += kymo_le64(records + i * KYMO_RECORD_SIZE + 8) != s->next;
    s->count += n;
    return 0;
}

static void test_empty(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {0};
    uint64_t n = 99;

    assert_int_equal(nq_drain(f->q, UINT64_MAX, sink, &seen, &n, NULL), 0);
    assert_int_equal(n, 0);
    assert_int_equal(seen.count, 0);
}

static void test_wraps(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {0};
    uint64_t number = 0;

    for (unsigned round = 0; round < 50; round++) {
        unsigned batch = 1 + round % RING_RECORDS;
        uint64_t n;

        for (unsigned i = 0; i < batch; i++)
            assert_true(put(&f->producer, number++, 0));
        assert_int_equal(nq_drain(f->q, UINT64_MAX, sink, &seen, &n, NULL), 0);
        assert_int_equal(n, batch);
    }
    assert_int_equal(seen.wrong, 0);
    assert_int_equal(seen.count, number);
    assert_int_equal(nq_get_stats(f->q)->taken, number);
    assert_int_equal(nq_get_stats(f->q)->phase_stops, 0);
}

static void test_full_ring_drops_later_records(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {0};

    for (unsigned i = 0; i < RING_RECORDS; i++)
        assert_true(put(&f->producer, i, 0));
    for (unsigned i = 0; i < 5; i++)
        assert_false(put(&f->producer, 100 + i, 0));
    assert_int_equal(atomic_load(&f->control.emitted), RING_RECORDS + 5);
    assert_int_equal(atomic_load(&f->control.dropped), 5);
    assert_int_equal(nq_drain(f->q, 3, sink, &seen, NULL, NULL), 0);
    assert_int_equal(seen.count, 3);
    assert_true(put(&f->producer, RING_RECORDS, NQ_SW_MARK));
    assert_true(put(&f->producer, RING_RECORDS + 1, NQ_HW_MARK));
    assert_int_equal(nq_drain(f->q, UINT64_MAX, sink, &seen, NULL, NULL), 0);
    assert_int_equal(seen.count, RING_RECORDS + 2);
    assert_int_equal(seen.wrong, 0);
    assert_int_equal(nq_get_stats(f->q)->sw_marks, 1);
    assert_int_equal(nq_get_stats(f->q)->hw_marks, 1);
}

static void test_overrun(void **state)
{
    struct fixture *f = *state;
    struct nq_span spans[2];

    /* A producer that overwrites the oldest: the tail is 20 records ahead of a ring of 8. */
    for (uint64_t i = 0; i < 20; i++) {
        uint8_t *slot = f->ring + (i % RING_RECORDS) * KYMO_RECORD_SIZE;

        memset(slot, 0, KYMO_RECORD_SIZE);
        kymo_put_le64(slot + 8, i);
        slot[3] = nq_phase_of(i, RING_RECORDS) ? NQ_PHASE : 0;
    }
    atomic_store(&f->control.tail, 20);
    assert_int_equal(nq_peek(f->q, spans), RING_RECORDS);
    assert_int_equal(kymo_le64(spans[0].data + 8), 12);
    assert_int_equal(nq_get_stats(f->q)->overrun, 12);
    atomic_store(&f->control.tail, 23);
    nq_release(f->q, UINT64_MAX);
    assert_int_equal(nq_get_stats(f->q)->torn, 3);
    assert_int_equal(nq_get_stats(f->q)->taken, RING_RECORDS);
}

static void test_untrusted_indices(void **state)
{
    struct fixture *f = *state;
    struct nq_span spans[2];
    struct nq *other = NULL;
    struct kymo_err err = {0};

    atomic_store(&f->control.tail, UINT64_MAX);
    assert_true(nq_peek(f->q, spans) <= RING_RECORDS);
    assert_true(spans[0].records + spans[1].records <= RING_RECORDS);
    atomic_store(&f->control.tail, 3);
    assert_int_equal(nq_peek(f->q, spans), 0);
    assert_int_equal(nq_get_stats(f->q)->backward, 1);
    atomic_store(&f->control.head, 4);
    assert_int_equal(nq_new(&f->control, f->ring, sizeof f->ring, &other, &err), -EPROTO);
    assert_null(other);
    assert_int_equal(nq_new(&f->control, f->ring, 48, &other, &err), -EINVAL);
    assert_int_equal(nq_new(&f->control, f->ring, 96, &other, &err), -EINVAL);
    assert_non_null(strstr(err.text, "power of two"));
}

static void test_wrong_phase_ends_span(void **state)
{
    struct fixture *f = *state;
    struct nq_span spans[2];

    for (unsigned i = 0; i < 4; i++)
        assert_true(put(&f->producer, i, 0));
    f->ring[2 * KYMO_RECORD_SIZE + 3] &= (uint8_t)~NQ_PHASE;
    assert_int_equal(nq_peek(f->q, spans), 2);
    assert_int_equal(nq_get_stats(f->q)->phase_stops, 1);
    assert_int_equal(nq_discard(f->q), 4);
    assert_int_equal(nq_get_stats(f->q)->discarded, 4);
}

static void test_sink_refusal_keeps_records(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {.refuse = ENOSPC};
    struct kymo_err err = {0};
    uint64_t n = 99;

    for (unsigned i = 0; i < 5; i++)
        assert_true(put(&f->producer, i, 0));
    assert_int_equal(nq_drain(f->q, UINT64_MAX, sink, &seen, &n, &err), -ENOSPC);
    assert_int_equal(n, 0);
    seen.refuse = 0;
    assert_int_equal(nq_drain(f->q, UINT64_MAX, sink, &seen, &n, &err), 0);
    assert_int_equal(n, 5);
    assert_int_equal(seen.wrong, 0);
}

static void test_restart(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {.next = 50};
    struct nq *q KYMO_CLEANUP(nq_freep) = NULL;

    for (unsigned i = 0; i < RING_RECORDS + 2; i++)
        (void)put(&f->producer, i, 0);
    assert_true(sim_ring_mark_last(&f->producer));
    assert_int_equal(f->ring[(RING_RECORDS - 1) * KYMO_RECORD_SIZE + 3], NQ_PHASE | NQ_HW_MARK);
    sim_ring_restart(&f->producer);
    assert_int_equal(atomic_load(&f->control.emitted), 0);
    assert_int_equal(atomic_load(&f->control.dropped), 0);
    assert_int_equal(f->ring[3], 0);
    assert_false(sim_ring_mark_last(&f->producer));
    for (unsigned i = 50; i < 53; i++)
        assert_true(put(&f->producer, i, 0));
    assert_int_equal(nq_new(&f->control, f->ring, sizeof f->ring, &q, NULL), 0);
    assert_int_equal(nq_drain(q, UINT64_MAX, sink, &seen, NULL, NULL), 0);
    assert_int_equal(seen.count, 3);
    assert_int_equal(seen.wrong, 0);
}

#define CONCURRENT_RECORDS 300000u
#define CONCURRENT_RING 64u

struct concurrent {
    _Alignas(64) struct nq_control control;
    _Alignas(64) uint8_t ring[CONCURRENT_RING * KYMO_RECORD_SIZE];
    struct sim_ring producer;
    uint64_t stored;
    _Atomic bool done;
};

/* Numbers only what was stored, so that the consumer must see 0, 1, 2 ... without a gap. */
static void *produce(void *arg)
{
    struct concurrent *c = arg;

    for (unsigned i = 0; i < CONCURRENT_RECORDS; i++)
        if (put(&c->producer, c->stored, 0))
            c->stored++;
    atomic_store(&c->done, true);
    return NULL;
}

static void test_concurrent_producer(void **state)
{
    static struct concurrent c;
    struct seen seen = {0};
    struct nq *q KYMO_CLEANUP(nq_freep) = NULL;
    pthread_t thread;
    bool last = false;

    (void)state;
    sim_ring_init(&c.producer, &c.control, c.ring, sizeof c.ring);
    assert_int_equal(nq_new(&c.control, c.ring, sizeof c.ring, &q, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, produce, &c), 0);
    while (!last) {
        last = atomic_load(&c.done);
        assert_int_equal(nq_drain(q, UINT64_MAX, sink, &seen, NULL, NULL), 0);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(nq_drain(q, UINT64_MAX, sink, &seen, NULL, NULL), 0);
    assert_int_equal(seen.wrong, 0);
    assert_int_equal(seen.count, c.stored);
    assert_int_equal(atomic_load(&c.control.emitted), CONCURRENT_RECORDS);
    assert_int_equal(atomic_load(&c.control.dropped), CONCURRENT_RECORDS - c.stored);
    assert_int_equal(nq_get_stats(q)->phase_stops + nq_get_stats(q)->overrun + nq_get_stats(q)->torn, 0);
}

static void test_layout(void **state)
{
    struct kymo_ring_plan plan[3] = {{.bytes = 64}, {.bytes = 1u << 20}, {.bytes = 128}};
    uint64_t offsets[KYMO_RING_PLAN_MAX];

    (void)state;
    assert_int_equal(sim_ring_layout(plan, 3, offsets), 4096 + 4096 + (1u << 20) + 4096);
    assert_int_equal(offsets[0], 4096);
    assert_int_equal(offsets[1], 8192);
    assert_int_equal(offsets[2], 8192 + (1u << 20));
    plan[1].bytes = UINT64_MAX;
    assert_int_equal(sim_ring_layout(plan, 3, offsets), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wraps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_ring_drops_later_records, setup, teardown),
        cmocka_unit_test_setup_teardown(test_overrun, setup, teardown),
        cmocka_unit_test_setup_teardown(test_untrusted_indices, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_phase_ends_span, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sink_refusal_keeps_records, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restart, setup, teardown),
        cmocka_unit_test(test_concurrent_producer),
        cmocka_unit_test(test_layout),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
