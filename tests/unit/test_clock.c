#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static uint64_t seven(void)
{
    return 7;
}

static uint64_t eight(void)
{
    return 8;
}

static void test_source_can_be_replaced(void **state)
{
    (void)state;
    static const struct kymo_clock_ops ops = {.mono_ns = seven, .real_ns = eight};
    kymo_clock_set_ops(&ops);
    assert_int_equal(kymo_clock_mono_ns(), 7);
    assert_int_equal(kymo_clock_real_ns(), 8);
    kymo_clock_set_ops(NULL);
    uint64_t before = kymo_clock_mono_ns();
    assert_true(before > 8);
    assert_true(kymo_clock_mono_ns() >= before);
    /* After 2020, in nanoseconds. */
    assert_true(kymo_clock_real_ns() > (uint64_t)1577836800 * 1000000000u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_source_can_be_replaced)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
