/* Which times are in doubt: steps back in a stream, and the edges of a capture. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "pipeline/rings/time_edges.h"
#include "pipeline/rings/time_order.h"

#define MS 1000000000ull
#define S (1000 * MS)
#define RECORDS_MAX 64

struct seen {
    uint64_t sound[RECORDS_MAX], doubtful[RECORDS_MAX], near[RECORDS_MAX];
    size_t sound_count, doubtful_count;
};

static void on_sound(void *ctx, const struct time_order_entry *e)
{
    struct seen *seen = ctx;
    seen->sound[seen->sound_count++] = e->index;
}

static int on_doubtful(void *ctx, const struct time_order_entry *e, const struct time_order_entry *near)
{
    struct seen *seen = ctx;
    seen->near[seen->doubtful_count] = near->index;
    seen->doubtful[seen->doubtful_count++] = e->index;
    return 0;
}

static struct seen order(const uint64_t *times, size_t n)
{
    struct seen seen = {0};
    struct time_order o = {0};
    const struct time_order_sink sink = {on_sound, on_doubtful, &seen};
    for (size_t i = 0; i < n; i++) {
        const struct time_order_entry e = {.ps = times[i], .raw = times[i], .index = i};
        assert_int_equal(time_order_add(&o, &e, &sink), 0);
    }
    assert_int_equal(time_order_finish(&o, &sink), 0);
    assert_int_equal(seen.sound_count + seen.doubtful_count, n);
    for (size_t i = 1; i < seen.sound_count; i++)
        assert_true(seen.sound[i] > seen.sound[i - 1]);
    return seen;
}

static void expect_one(const uint64_t *times, size_t n, size_t bad, size_t near)
{
    struct seen seen = order(times, n);
    assert_int_equal(seen.doubtful_count, 1);
    assert_int_equal(seen.doubtful[0], bad);
    assert_int_equal(seen.near[0], near);
}

static void test_honest(void **state)
{
    (void)state;
    /* Idle stretches of minutes, and steps back that a writer may make. */
    const uint64_t times[] = {5 * S,    5 * S + 1,    300 * S,  300 * S - MS, 300 * S, 300 * S + 5 * MS,
                              9000 * S, 9000 * S + 1, 90000 * S};
    assert_int_equal(order(times, sizeof times / sizeof *times).doubtful_count, 0);
    assert_int_equal(order(times, 1).doubtful_count, 0);
    assert_int_equal(order(NULL, 0).doubtful_count, 0);
}

static void test_one_bad_anywhere(void **state)
{
    (void)state;
    const uint64_t wrong[] = {0, 1, 2 * S, 70 * S, UINT64_MAX};
    for (size_t n = 3; n < 24; n++)
        for (size_t bad = 0; bad < n; bad++)
            for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
                uint64_t times[24];
                for (size_t i = 0; i < n; i++)
                    times[i] = 12 * S + i;
                times[bad] = wrong[k];
                /* At an edge, what is further out contradicts nobody. */
                if ((bad == 0 && wrong[k] < 12 * S) || (bad == n - 1 && wrong[k] > 12 * S))
                    assert_int_equal(order(times, n).doubtful_count, 0);
                else
                    expect_one(times, n, bad, bad ? bad - 1 : 1);
            }
}

static void test_within_an_idle_stretch(void **state)
{
    (void)state;
    /* Ahead into the stretch, and back into it; the latter is next to the stretch's end. */
    const uint64_t ahead[] = {S, S + 1, 30 * S, S + 3, 60 * S, 60 * S + 1};
    expect_one(ahead, 6, 2, 1);
    const uint64_t back[] = {S, S + 1, 60 * S, 30 * S, 60 * S + 2, 60 * S + 3};
    expect_one(back, 6, 3, 2);
}

static void test_two_bad(void **state)
{
    (void)state;
    const uint64_t apart[] = {S, 1, S + 2, S + 3, 70 * S, S + 5, S + 6};
    struct seen seen = order(apart, 7);
    assert_int_equal(seen.doubtful_count, 2);
    assert_int_equal(seen.doubtful[0], 1);
    assert_int_equal(seen.doubtful[1], 4);
    const uint64_t together[] = {S, S + 1, 5, 1, S + 4, S + 5};
    seen = order(together, 6);
    assert_int_equal(seen.doubtful_count, 2);
    assert_int_equal(seen.sound_count, 4);
}

static void test_going_back_for_good_is_no_damage(void **state)
{
    (void)state;
    uint64_t times[40];
    for (size_t i = 0; i < 40; i++)
        times[i] = (i < 20 ? 90 * S : 10 * S) + i;
    struct seen seen = order(times, 40);
    assert_int_equal(seen.doubtful_count, 0);
}

static struct time_edge edge(uint32_t ring, uint64_t ps, uint64_t near, uint64_t reach)
{
    return (struct time_edge){
        .e = {.ps = ps, .raw = ps + 7}, .near_ps = near, .near_raw = near + 7, .reach_ps = reach, .ring = ring};
}

static const struct time_edge *of_ring(const struct time_edge *edges, size_t n, uint32_t ring)
{
    for (size_t i = 0; i < n; i++)
        if (edges[i].ring == ring)
            return &edges[i];
    fail();
    return NULL;
}

static void test_edges(void **state)
{
    (void)state;
    const struct time_range certain = {10 * S, 11 * S};
    struct time_edge edges[] = {
        edge(0, 1, 10 * S + 1, S),                 /* alone, far before */
        edge(1, 10 * S - 5 * MS, 10 * S + 1, S),   /* in reach */
        edge(2, 11 * S + 900 * MS, 11 * S - 1, S), /* in reach, and widens it */
        edge(3, 12 * S + 800 * MS, 11 * S, S),     /* of what 2 has widened */
        edge(4, 70 * S, 70 * S, S),                /* the only record of its stream */
        edge(5, 900 * S, 900 * S + MS, S),         /* two that back each other */
        edge(6, 900 * S + MS, 900 * S, S),
        edge(7, 4000 * S, 11 * S, TIME_ORDER_EDGE_ALONE_PS), /* less than an hour after those */
    };
    size_t n = sizeof edges / sizeof *edges;
    time_edges_judge(edges, n, certain);
    assert_int_equal(of_ring(edges, n, 0)->raw, 10 * S + 8);
    assert_int_equal(of_ring(edges, n, 4)->raw, 12 * S + 800 * MS);
    for (uint32_t ring = 1; ring < 8; ring++)
        if (ring != 4)
            assert_int_equal(of_ring(edges, n, ring)->raw, of_ring(edges, n, ring)->e.raw);
}

static void test_nothing_certain(void **state)
{
    (void)state;
    struct time_edge edges[] = {edge(0, 1, 1, S), edge(1, 70 * S, 70 * S, S)};
    time_edges_judge(edges, 2, (struct time_range){.first_ps = UINT64_MAX});
    assert_int_equal(edges[0].raw, edges[0].e.raw);
    assert_int_equal(edges[1].raw, edges[1].e.raw);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_honest),
        cmocka_unit_test(test_one_bad_anywhere),
        cmocka_unit_test(test_within_an_idle_stretch),
        cmocka_unit_test(test_two_bad),
        cmocka_unit_test(test_going_back_for_good_is_no_damage),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_nothing_certain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
