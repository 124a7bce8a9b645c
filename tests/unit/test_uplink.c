/* The two ends of the uplink together, over links that split and break at random. Hostile ends: test_uplink_hostile. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/uplink_world.h"

#define STEPS_MAX 200000

static void run(struct world *w)
{
    for (int i = 0; !world_is_finished(w); i++) {
        if (i == STEPS_MAX)
            fail_msg("not finished after %d steps", i);
        world_step(w);
    }
    world_verify(w);
}

static void test_one_connection(void **state)
{
    (void)state;
    uint64_t told = 0;
    for (unsigned seed = 1; seed <= 30; seed++) {
        struct world w;
        world_init(&w, seed, 1 + seed % WORLD_CAPTURES);
        uint32_t window = 1 + world_random(&w, 30000);
        world_connect(&w, 1 + world_random(&w, 9000), window, seed % 2 ? 1 : 0);
        run(&w);
        /* What the store has to hold never exceeds the window it stated. */
        assert_true(w.pending_max <= window);
        assert_int_equal(w.refusals, 0);
        uint32_t version = session_version(uplink_send_session(w.send));
        assert_true(version == 1 || version == 2);
        assert_true(version == 2 || w.kept == 0);
        told += w.told;
        assert_int_equal(session_features(uplink_recv_session(w.recv)), seed % 2 ? UPLINK_FEATURE_ZSTD : 0);
        world_done(&w);
    }
    assert_true(told > 10);
}

static void test_breaks_and_resumes(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 60; seed++) {
        struct world w;
        world_init(&w, seed * 77, 1 + seed % WORLD_CAPTURES);
        w.faults = seed % 3 == 0;
        int connections = 0;
        while (!world_is_finished(&w)) {
            if (++connections == 1000)
                fail_msg("seed %u: not finished", seed);
            world_connect(&w, 1 + world_random(&w, 9000), 1 + world_random(&w, 30000), seed % 2 ? 1 : 0);
            for (unsigned steps = world_random(&w, 300); steps > 0 && !world_is_finished(&w); steps--)
                world_step(&w);
            world_disconnect(&w);
        }
        world_verify(&w);
        world_done(&w);
    }
}

/* What was durable before the break is not sent again. */
static void test_resume_sends_the_rest_only(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 5, 1);
    struct world_capture *c = &w.captures[0];
    uint64_t total = 0, durable = 0;
    for (uint32_t k = 0; k < c->n_items; k++) {
        c->durable[k] = c->len[k] = c->items[k].size / 2;
        memcpy(c->stored[k], c->items[k].bytes, c->durable[k]);
        total += c->items[k].size;
        durable += c->durable[k];
    }
    assert_true(durable > 0);
    world_connect(&w, 1000, 5000, 0);
    run(&w);
    assert_int_equal(w.sent_bytes, total - durable);
    world_done(&w);
}

static void test_neff_once(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 9, 2);
    struct world_capture *a = &w.captures[0], *b = &w.captures[1];
    assert_true(a->n_items >= 2 && b->n_items >= 2);
    assert_memory_equal(a->items[1].sha256, b->items[1].sha256, 32);
    /* The second capture waits until the first is stored. */
    b->told = 1;
    world_connect(&w, 1000, 50000, 0);
    for (int i = 0; !world_is_finished(&w) && i < STEPS_MAX; i++)
        world_step(&w);
    b->told = 0;
    uint64_t before = w.sent_bytes;
    run(&w);
    uint64_t expected = 0;
    for (uint32_t k = 0; k < b->n_items; k++)
        expected += b->items[k].neff && memcmp(b->items[k].sha256, a->items[1].sha256, 32) == 0 ? 0 : b->items[k].size;
    assert_int_equal(w.sent_bytes - before, expected);
    world_done(&w);
}

static void test_requests_losses_pings(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 3, 1);
    world_connect(&w, 1000, 5000, 0);
    Kymo__Uplink__CaptureRequest request = KYMO__UPLINK__CAPTURE_REQUEST__INIT;
    request.has_request_id = request.has_step = 1;
    request.request_id = 7;
    assert_int_equal(uplink_recv_request(w.recv, &request, NULL), -EAGAIN);
    assert_int_equal(uplink_send_ping(w.send, 1, NULL), -EAGAIN);
    run(&w);
    assert_int_equal(uplink_recv_request(w.recv, &request, NULL), 0);
    request.request_id = request.step = 13;
    assert_int_equal(uplink_recv_request(w.recv, &request, NULL), 0);
    char ring[] = "nc0 DMA 3", cause[] = "ring_full", id[] = "c0", profile[] = "p";
    Kymo__Uplink__RingLoss loss = KYMO__UPLINK__RING_LOSS__INIT;
    Kymo__Uplink__RingLoss *list[] = {&loss};
    loss.ring = ring;
    loss.cause = cause;
    Kymo__Uplink__RingLosses losses = KYMO__UPLINK__RING_LOSSES__INIT;
    losses.capture_id = id;
    losses.profile = profile;
    losses.losses = list;
    losses.n_losses = 1;
    assert_int_equal(uplink_recv_losses(w.recv, &losses, NULL), 0);
    assert_int_equal(uplink_send_ping(w.send, 42, NULL), 0);
    assert_int_equal(uplink_recv_ping(w.recv, 43, NULL), 0);
    for (int i = 0; i < 1000; i++)
        world_step(&w);
    assert_int_equal(w.requests, 2);
    assert_int_equal(w.replies, 102);
    assert_int_equal(w.losses, 1);
    assert_int_equal(session_last_pong(uplink_send_session(w.send)), 42);
    assert_int_equal(session_last_pong(uplink_recv_session(w.recv)), 43);
    world_done(&w);
}

static void test_offer_limits(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 3, 1);
    world_connect(&w, 1000, 5000, 0);
    struct uplink_send_item item = {.name = "a", .size = 1};
    int handle;
    assert_int_equal(uplink_send_offer(w.send, "x", "m", 1, &item, 1, &handle, NULL), -EAGAIN);
    while (!session_is_ready(uplink_send_session(w.send)))
        world_step(&w);
    struct kymo_err err = {0};
    assert_int_equal(uplink_send_offer(w.send, "../x", "m", 1, &item, 1, &handle, &err), -EINVAL);
    assert_int_equal(uplink_send_offer(w.send, "x", "m", 0, &item, 1, &handle, &err), -EINVAL);
    item.name = "../a";
    assert_int_equal(uplink_send_offer(w.send, "x", "m", 1, &item, 1, &handle, &err), -EINVAL);
    assert_int_equal(uplink_send_offer(w.send, "x", "m", 1, &item, UPLINK_ITEMS_MAX + 1, &handle, &err), -EINVAL);
    item = (struct uplink_send_item){.name = "a", .size = UPLINK_ITEM_SIZE_MAX + 1};
    assert_int_equal(uplink_send_offer(w.send, "x", "m", 1, &item, 1, &handle, &err), -EINVAL);
    item.size = 1;
    size_t n = uplink_send_captures(w.send);
    for (; n < UPLINK_CAPTURES_MAX; n++)
        assert_int_equal(uplink_send_offer(w.send, "x", "m", 1, &item, 1, &handle, &err), 0);
    assert_int_equal(uplink_send_offer(w.send, "x", "m", 1, &item, 1, &handle, &err), -ENOBUFS);
    world_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_connection),
        cmocka_unit_test(test_breaks_and_resumes),
        cmocka_unit_test(test_resume_sends_the_rest_only),
        cmocka_unit_test(test_neff_once),
        cmocka_unit_test(test_requests_losses_pings),
        cmocka_unit_test(test_offer_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
