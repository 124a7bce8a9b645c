/* Busy spans of the compiler's layers: union, lists that are too long, and calls of functions. Values by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "pipeline/formulas/intervals.h"
#include "pipeline/instructions/calls.h"

static void add(struct intervals *v, int64_t start, int64_t end, uint64_t elements, size_t max)
{
    assert_int_equal(intervals_add(v, (struct interval){start, end, elements, 0, 0}, max), 0);
}

static void check_text(const struct intervals *v, const char *want)
{
    struct kymo_buf b KYMO_CLEANUP(kymo_buf_done);
    kymo_buf_init(&b, 4096);
    assert_int_equal(intervals_text(v, &b), 0);
    assert_int_equal(kymo_buf_append(&b, "", 1), 0);
    assert_string_equal((const char *)b.data, want);
}

static void test_spans_that_touch_are_one(void **state)
{
    (void)state;
    struct intervals v KYMO_CLEANUP(intervals_done) = {0};
    check_text(&v, "[]");
    add(&v, 10, 20, 1, 8);
    add(&v, 40, 50, 2, 8);
    check_text(&v, "[[10, 20], [40, 50]]");
    add(&v, 20, 25, 4, 8);  /* touches the first */
    add(&v, 30, 30, 8, 8);  /* empty, between both */
    add(&v, 0, 5, 16, 8);   /* late, before all */
    add(&v, 49, 60, 32, 8); /* overlaps the last */
    check_text(&v, "[[0, 5], [10, 25], [30, 30], [40, 60]]");
    assert_int_equal(intervals_busy(&v), 5 + 15 + 0 + 20);
    add(&v, 5, 40, 64, 8); /* joins everything */
    check_text(&v, "[[0, 60]]");
    assert_int_equal(v.list[0].elements, 127);
    assert_false(v.coarse);
}

/* Four are kept: the fifth joins the two smallest gaps, 1 and 2, so that half are left, and then comes in. */
static void test_a_long_list_is_coarsened(void **state)
{
    (void)state;
    struct intervals v KYMO_CLEANUP(intervals_done) = {0};
    add(&v, 0, 10, 1, 4);
    add(&v, 12, 20, 2, 4);
    add(&v, 50, 60, 4, 4);
    add(&v, 61, 70, 8, 4);
    assert_false(v.coarse);
    add(&v, 100, 110, 16, 4);
    assert_true(v.coarse);
    check_text(&v, "[[0, 20], [50, 70], [100, 110]]");
    assert_int_equal(v.list[0].elements, 3);
    assert_int_equal(v.list[1].elements, 12);
    /* One that a joined gap covers adds to it. */
    add(&v, 10, 11, 32, 4);
    assert_int_equal(v.list[0].elements, 35);
}

/* Equal gaps: only as many are joined as are needed, from the front. */
static void test_union(void **state)
{
    (void)state;
    struct intervals v KYMO_CLEANUP(intervals_done) = {0}, w KYMO_CLEANUP(intervals_done) = {0};
    struct interval all[] = {
        {30, 31, 4, 0, 0}, {10, 11, 2, 0, 0}, {0, 1, 1, 0, 7}, {20, 21, 3, 1, 0}, {30, 35, 5, 0, 1}};
    struct interval again[5];
    memcpy(again, all, sizeof all);
    assert_int_equal(intervals_union(&v, all, 5, 4), 0);
    check_text(&v, "[[0, 1], [10, 11], [20, 21], [30, 35]]");
    assert_int_equal(v.list[3].elements, 9);
    assert_int_equal(v.list[0].hbm, 7);
    assert_int_equal(intervals_union(&w, again, 5, 3), 0);
    check_text(&w, "[[0, 11], [20, 21], [30, 35]]");
    assert_true(w.coarse);
    struct intervals none = {0};
    assert_int_equal(intervals_union(&none, NULL, 0, 4), 0);
    assert_int_equal(none.count, 0);
}

static void test_limit(void **state)
{
    (void)state;
    assert_int_equal(intervals_limit(0), INTERVALS_MAX);
    assert_int_equal(intervals_limit(4096), INTERVALS_MAX);
    assert_int_equal(intervals_limit(8192), 128);
    assert_int_equal(intervals_limit(100000000), INTERVALS_MIN);
}

/* Any order gives what the union gives, as long as nothing is coarsened. */
static void test_order_does_not_matter(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (int round = 0; round < 200; round++) {
        struct intervals v KYMO_CLEANUP(intervals_done) = {0}, w KYMO_CLEANUP(intervals_done) = {0};
        struct interval all[64];
        for (size_t i = 0; i < 64; i++) {
            seed = seed * 1664525 + 1013904223;
            int64_t start = seed >> 20, length = (seed >> 8) % 60;
            all[i] = (struct interval){start, start + length, i, 0, 1};
            assert_int_equal(intervals_add(&v, all[i], 128), 0);
        }
        assert_int_equal(intervals_union(&w, all, 64, 128), 0);
        assert_int_equal(v.count, w.count);
        assert_memory_equal(v.list, w.list, v.count * sizeof *v.list);
    }
}

static uint32_t next(struct calls *c, uint16_t function, int64_t slot)
{
    uint32_t call = 99;
    assert_int_equal(calls_next(c, 0, 0, KYMO_ENGINE_TENSOR, function, slot, &call), 0);
    return call;
}

static void test_calls(void **state)
{
    (void)state;
    struct calls c KYMO_CLEANUP(calls_done) = {0};
    assert_int_equal(next(&c, 0, 0), 0);
    assert_int_equal(next(&c, 3, 100), 0); /* first call of function 3 */
    assert_int_equal(next(&c, 3, 101), 0);
    assert_int_equal(next(&c, 0, 5), 0); /* back in the main part */
    assert_int_equal(next(&c, 3, 100), 1);
    assert_int_equal(next(&c, 4, 200), 0); /* it calls another */
    assert_int_equal(next(&c, 0, 6), 0);
    assert_int_equal(next(&c, 0, 0), 0); /* the next execution */
    assert_int_equal(next(&c, 3, 100), 0);
    uint32_t other = 99;
    assert_int_equal(calls_next(&c, 0, 1, KYMO_ENGINE_TENSOR, 3, 100, &other), 0);
    assert_int_equal(other, 0);
    for (int i = 0; i < 2 * CALLS_MAX; i++) {
        (void)next(&c, 0, 7);
        (void)next(&c, 3, 100);
    }
    assert_int_equal(next(&c, 3, 101), CALLS_MAX - 1);
    assert_true(c.folded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spans_that_touch_are_one),
        cmocka_unit_test(test_a_long_list_is_coarsened),
        cmocka_unit_test(test_union),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_order_does_not_matter),
        cmocka_unit_test(test_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
