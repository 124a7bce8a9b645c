/* Covered time by key, against a count of the nanoseconds one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collector/query/busy.h"

#define SPAN 500

static void test_one_key(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    struct busy *b = busy_new(10, 100);
    assert_int_equal(busy_add(b, "a", 1, 0, 0, 20, &err), 0);   /* cut by the window: 10 */
    assert_int_equal(busy_add(b, "a", 1, 15, 40, 50, &err), 0); /* behind a wait: 10 */
    assert_int_equal(busy_add(b, "a", 1, 16, 16, 25, &err), 0); /* 5 more */
    assert_int_equal(busy_add(b, "a", 1, 45, 45, 60, &err), 0); /* 10 more */
    assert_int_equal(busy_add(b, "a", 1, 70, 80, 75, &err), 0); /* a wait longer than the event */
    assert_int_equal(busy_add(b, "a", 1, 90, 95, 200, &err), 0);
    assert_int_equal(busy_add(b, "a", 1, 150, 150, 160, &err), 0); /* behind the window */
    assert_int_equal(busy_of(b, "a", 1), 40);
    assert_int_equal(busy_of(b, "b", 1), 0);
    busy_free(b);
}

static void test_keys_are_apart(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    struct busy *b = busy_new(0, 1000);
    assert_int_equal(busy_add(b, "", 0, 0, 0, 7, &err), 0);
    assert_int_equal(busy_add(b, "x\0y", 3, 0, 0, 5, &err), 0);
    assert_int_equal(busy_add(b, "x", 1, 0, 0, 3, &err), 0);
    assert_int_equal(busy_of(b, "x\0y", 3), 5);
    assert_int_equal(busy_of(b, "x", 1), 3);
    assert_int_equal(busy_of(b, "", 0), 7);
    busy_free(b);
}

static unsigned next(unsigned *seed, unsigned below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

static void test_counted(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c"};
    for (unsigned round = 0; round < 200; round++) {
        unsigned seed = round;
        unsigned char seen[3][SPAN] = {{0}};
        struct kymo_err err = {0};
        int64_t from = next(&seed, 100), to = SPAN - next(&seed, 100);
        struct busy *b = busy_new(from, to);
        for (int64_t start = 0; start < SPAN - 60; start += next(&seed, 5)) {
            unsigned key = next(&seed, 3);
            int64_t begin = start + next(&seed, 30), end = start + next(&seed, 60);
            assert_int_equal(busy_add(b, names[key], 1, start, begin, end, &err), 0);
            for (int64_t t = begin; t < end; t++)
                seen[key][t] = t >= from && t < to;
        }
        for (unsigned key = 0; key < 3; key++) {
            int64_t n = 0;
            for (int t = 0; t < SPAN; t++)
                n += seen[key][t];
            assert_int_equal(busy_of(b, names[key], 1), n);
        }
        busy_free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_key),
        cmocka_unit_test(test_keys_are_apart),
        cmocka_unit_test(test_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
