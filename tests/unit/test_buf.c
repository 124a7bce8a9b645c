#include "base/buf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

static void test_append_up_to_the_maximum(void **state)
{
    (void)state;
    struct kymo_buf b;
    kymo_buf_init(&b, 10);
    assert_null(b.data);
    assert_int_equal(kymo_buf_append(&b, "abcdef", 6), 0);
    assert_int_equal(kymo_buf_append(&b, "ghij", 4), 0);
    assert_int_equal(b.len, 10);
    assert_memory_equal(b.data, "abcdefghij", 10);
    assert_int_equal(kymo_buf_append(&b, "k", 1), -ENOBUFS);
    assert_int_equal(b.len, 10);
    assert_int_equal(kymo_buf_append(&b, NULL, 0), 0);
    kymo_buf_done(&b);
    assert_int_equal(b.len, 0);
    /* It may be used again. */
    assert_int_equal(kymo_buf_append(&b, "x", 1), 0);
    kymo_buf_done(&b);
}

static void test_reserve_refuses_overflow(void **state)
{
    (void)state;
    struct kymo_buf b;
    kymo_buf_init(&b, SIZE_MAX);
    assert_int_equal(kymo_buf_append(&b, "x", 1), 0);
    assert_int_equal(kymo_buf_reserve(&b, SIZE_MAX), -ENOBUFS);
    assert_int_equal(b.len, 1);
    assert_int_equal(b.data[0], 'x');
    kymo_buf_done(&b);
}

static void test_printf(void **state)
{
    (void)state;
    struct kymo_buf b;
    kymo_buf_init(&b, 12);
    assert_int_equal(kymo_buf_printf(&b, "%s-%d", "ring", 4), 0);
    assert_int_equal(b.len, 6);
    /* Five more and the terminator fit exactly; one more does not. */
    assert_int_equal(kymo_buf_printf(&b, "%s", "123456"), -ENOBUFS);
    assert_int_equal(b.len, 6);
    assert_int_equal(kymo_buf_printf(&b, "%s", "12345"), 0);
    assert_string_equal((const char *)b.data, "ring-412345");
    kymo_buf_reset(&b);
    assert_int_equal(b.len, 0);
    assert_true(b.cap > 0);
    kymo_buf_done(&b);
}

static void test_out_of_memory_leaves_contents(void **state)
{
    (void)state;
    struct kymo_buf b;
    kymo_buf_init(&b, 1 << 20);
    assert_int_equal(kymo_buf_append(&b, "kept", 4), 0);
    char big[256] = {0};
    kymo_alloc_fail_after(0);
    assert_int_equal(kymo_buf_append(&b, big, sizeof big), -ENOMEM);
    kymo_alloc_fail_after(-1);
    assert_int_equal(b.len, 4);
    assert_memory_equal(b.data, "kept", 4);
    kymo_buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append_up_to_the_maximum),
        cmocka_unit_test(test_reserve_refuses_overflow),
        cmocka_unit_test(test_printf),
        cmocka_unit_test(test_out_of_memory_leaves_contents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
