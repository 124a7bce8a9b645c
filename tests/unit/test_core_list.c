/* base/core_list: what is a list of cores, and what is not. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/core_list.h"

static void test_lists(void **state)
{
    uint32_t c[8];
    size_t n = 0;
    (void)state;
    assert_int_equal(kymo_core_list("2", 100, c, 8, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(c[0], 2);
    assert_int_equal(kymo_core_list("0,2-4,99", 100, c, 8, &n), 0);
    assert_int_equal(n, 5);
    static const uint32_t want[] = {0, 2, 3, 4, 99};
    assert_memory_equal(c, want, sizeof want);
    assert_int_equal(kymo_core_list("0-7", 100, c, 8, &n), 0);
    assert_int_equal(n, 8);
}

static void test_what_is_none(void **state)
{
    static const char *const bad[] = {"",   "x",  "4-2",  "1-",  "1,,2",  "1,", ",1",
                                      "-1", " 1", "1-4x", "100", "0-100", "+1", "18446744073709551616"};
    uint32_t c[8];
    size_t n = 77;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (kymo_core_list(bad[i], 100, c, 8, &n) != -EINVAL)
            fail_msg("\"%s\" was understood", bad[i]);
    assert_int_equal(kymo_core_list("0-8", 100, c, 8, &n), -ENOBUFS);
    assert_int_equal(kymo_core_list("1,2-9", 100, c, 8, &n), -ENOBUFS);
    assert_int_equal(n, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lists), cmocka_unit_test(test_what_is_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
