#include "base/alloc.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int never_fail(void **state)
{
    (void)state;
    kymo_alloc_fail_after(-1);
    return 0;
}

static void test_zero_sizes_give_memory(void **state)
{
    (void)state;
    void *p KYMO_FREE = kymo_malloc(0);
    void *q KYMO_FREE = kymo_calloc(0, 8);
    void *r KYMO_FREE = kymo_realloc_array(NULL, 0, 8);
    assert_non_null(p);
    assert_non_null(q);
    assert_non_null(r);
    kymo_free(NULL);
}

static void test_overflow_is_refused(void **state)
{
    (void)state;
    /* Through a variable, or the compiler refuses the request itself. */
    volatile size_t huge = SIZE_MAX / 2 + 1;
    assert_null(kymo_calloc(huge, 2));
    char *p = kymo_malloc(1);
    assert_non_null(p);
    assert_null(kymo_realloc_array(p, huge, 2));
    *p = 'x'; /* still ours */
    kymo_free(p);
}

static void test_strings(void **state)
{
    (void)state;
    char *a KYMO_FREE = kymo_strdup("text");
    char *b KYMO_FREE = kymo_strndup("text", 2);
    char *c KYMO_FREE = kymo_strndup("text", 100);
    char *d KYMO_FREE = kymo_asprintf("%s-%d", "rank", 3);
    assert_string_equal(a, "text");
    assert_string_equal(b, "te");
    assert_string_equal(c, "text");
    assert_string_equal(d, "rank-3");
}

static void test_take_hands_over(void **state)
{
    (void)state;
    char *given = NULL;
    {
        char *p KYMO_FREE = kymo_strdup("kept");
        given = KYMO_TAKE(p);
        assert_null(p);
    }
    assert_string_equal(given, "kept");
    kymo_free(given);
}

static void test_grow(void **state)
{
    (void)state;
    void *p = NULL;
    size_t cap = 0;
    assert_int_equal(kymo_grow(&p, &cap, 1, 100, 8), 0);
    assert_int_equal(cap, 16);
    assert_int_equal(kymo_grow(&p, &cap, 16, 100, 8), 0);
    assert_int_equal(cap, 16);
    assert_int_equal(kymo_grow(&p, &cap, 90, 100, 8), 0);
    assert_true(cap >= 90 && cap <= 100);
    assert_int_equal(kymo_grow(&p, &cap, 100, 100, 8), 0);
    assert_int_equal(cap, 100);
    void *before = p;
    assert_int_equal(kymo_grow(&p, &cap, 101, 100, 8), -ENOBUFS);
    kymo_alloc_fail_after(0);
    assert_int_equal(kymo_grow(&p, &cap, 101, 200, 8), -ENOMEM);
    assert_ptr_equal(p, before);
    assert_int_equal(cap, 100);
    kymo_free(p);
}

static void test_grow_survives_huge_maxima(void **state)
{
    (void)state;
    void *p = NULL;
    size_t cap = 0;
    assert_int_equal(kymo_grow(&p, &cap, SIZE_MAX, SIZE_MAX, 8), -ENOMEM);
    assert_null(p);
    assert_int_equal(cap, 0);
}

static void test_the_nth_allocation_fails_once(void **state)
{
    (void)state;
    for (long nth = 0; nth < 4; nth++) {
        kymo_alloc_fail_after(nth);
        for (long i = 0; i < 8; i++) {
            void *p KYMO_FREE = kymo_malloc(8);
            assert_int_equal(p == NULL, i == nth);
        }
    }
}

static void test_every_function_fails_on_demand(void **state)
{
    (void)state;
    kymo_alloc_fail_after(0);
    assert_null(kymo_malloc(1));
    kymo_alloc_fail_after(0);
    assert_null(kymo_calloc(1, 1));
    kymo_alloc_fail_after(0);
    assert_null(kymo_realloc_array(NULL, 1, 1));
    kymo_alloc_fail_after(0);
    assert_null(kymo_strdup("x"));
    kymo_alloc_fail_after(0);
    assert_null(kymo_asprintf("%d", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_zero_sizes_give_memory, never_fail),
        cmocka_unit_test_teardown(test_overflow_is_refused, never_fail),
        cmocka_unit_test_teardown(test_strings, never_fail),
        cmocka_unit_test_teardown(test_take_hands_over, never_fail),
        cmocka_unit_test_teardown(test_grow, never_fail),
        cmocka_unit_test_teardown(test_grow_survives_huge_maxima, never_fail),
        cmocka_unit_test_teardown(test_the_nth_allocation_fails_once, never_fail),
        cmocka_unit_test_teardown(test_every_function_fails_on_demand, never_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
