/* Offsets, drifts and bounds by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "collector/gather/clock_map.h"

#define UNIX 1700000000000000000ll
#define PPM 1e-6

static void none_without_a_moment(void **state)
{
    (void)state;
    struct clock_map m;
    clock_map_fit(NULL, 0, 1000, 100 * PPM, &m);
    assert_int_equal(m.method, CLOCK_MAP_NONE);
    assert_int_equal(m.error_ns, -1);
    assert_string_equal(clock_map_method_name(m.method), "none");
}

/* One moment at 1 ms of a profile of 11 ms: its own 500 ns, 100 ppm of the 10 ms to the farther end, 1 for rounding. */
static void offset_of_one_moment(void **state)
{
    (void)state;
    const struct clock_map_sync s = {1000000, UNIX + 1000000 + 77, 500};
    struct clock_map m;
    clock_map_fit(&s, 1, 11000000, 100 * PPM, &m);
    assert_int_equal(m.method, CLOCK_MAP_OFFSET);
    assert_int_equal(m.offset_ns, UNIX + 77);
    assert_int_equal(m.error_ns, 500 + 1000 + 1);
    assert_false(m.contradict);
}

/* Too near each other for a drift: 2 x 500 ns over 1 ms say no more than 1,000 ppm. What both allow is [-400, +500]
 * about 100 less and more; the distances are 1 ms for both. */
static void offset_that_two_moments_allow(void **state)
{
    (void)state;
    const struct clock_map_sync s[] = {{0, UNIX, 500}, {1000000, UNIX + 1000000 + 100, 500}};
    struct clock_map m;
    clock_map_fit(s, 2, 1000000, 100 * PPM, &m);
    assert_int_equal(m.method, CLOCK_MAP_OFFSET);
    assert_int_equal(m.used, 2);
    /* [UNIX - 600, UNIX + 600] and [UNIX - 500, UNIX + 700]. */
    assert_int_equal(m.offset_ns, UNIX + 50);
    assert_int_equal(m.error_ns, 551);
}

/* 20 us in 1 s is 20 ppm, known to 2 x 1 us in 1 s, 2 ppm. The profile goes on for half a second: 1 us more. */
static void line_through_two_moments(void **state)
{
    (void)state;
    const struct clock_map_sync s[] = {{0, UNIX, 1000}, {1000000000, UNIX + 1000020000, 1000}};
    struct clock_map m;
    clock_map_fit(s, 2, 1500000000, 100 * PPM, &m);
    assert_int_equal(m.method, CLOCK_MAP_LINE);
    assert_int_equal(m.offset_ns, UNIX);
    assert_true(m.drift > 19.999 * PPM && m.drift < 20.001 * PPM);
    assert_in_range(m.error_ns, 2000, 2002);
}

/* A third moment 700 ns off the line: 700 and its own 1,000. One without a bound says nothing. */
static void line_is_as_good_as_its_worst_moment(void **state)
{
    (void)state;
    const struct clock_map_sync s[] = {{0, UNIX, 1000},
                                       {400000000, UNIX, -1},
                                       {500000000, UNIX + 500000700, 1000},
                                       {1000000000, UNIX + 1000000000, 1000}};
    struct clock_map m;
    clock_map_fit(s, 4, 1000000000, 100 * PPM, &m);
    assert_int_equal(m.method, CLOCK_MAP_LINE);
    assert_int_equal(m.used, 3);
    assert_in_range(m.error_ns, 1700, 1702);
}

/* A clock that was set by a second in between; and two moments of one time that exclude each other. */
static void contradictions_have_no_bound(void **state)
{
    (void)state;
    const struct clock_map_sync set[] = {{0, UNIX, 1000}, {1000000000, UNIX + 2000000000, 1000}};
    const struct clock_map_sync apart[] = {{0, UNIX, 1000}, {0, UNIX + 5000, 1000}};
    struct clock_map m;
    clock_map_fit(set, 2, 1000000000, 100 * PPM, &m);
    assert_true(m.contradict);
    assert_int_equal(m.error_ns, -1);
    clock_map_fit(apart, 2, 0, 100 * PPM, &m);
    assert_int_equal(m.method, CLOCK_MAP_OFFSET);
    assert_true(m.contradict);
    assert_int_equal(m.error_ns, -1);
}

static void unbounded_and_absurd_moments(void **state)
{
    (void)state;
    const struct clock_map_sync bare = {10, UNIX + 10, -1};
    const struct clock_map_sync absurd[] = {{INT64_MIN, INT64_MAX, 0}, {INT64_MAX, INT64_MIN, INT64_MAX}};
    struct clock_map m;
    clock_map_fit(&bare, 1, 1000, 100 * PPM, &m);
    assert_int_equal(m.method, CLOCK_MAP_OFFSET);
    assert_int_equal(m.offset_ns, UNIX);
    assert_int_equal(m.error_ns, -1);
    clock_map_fit(absurd, 2, INT64_MAX, 100 * PPM, &m);
    assert_int_equal(m.method, CLOCK_MAP_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_without_a_moment),
        cmocka_unit_test(offset_of_one_moment),
        cmocka_unit_test(offset_that_two_moments_allow),
        cmocka_unit_test(line_through_two_moments),
        cmocka_unit_test(line_is_as_good_as_its_worst_moment),
        cmocka_unit_test(contradictions_have_no_bound),
        cmocka_unit_test(unbounded_and_absurd_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
