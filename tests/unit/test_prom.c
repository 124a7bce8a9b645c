/* Metrics as text: families, labels with anything in them, a buffer that is full. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/prom.h"

static void test_text(void **state)
{
    (void)state;
    struct kymo_buf b;
    kymo_buf_init(&b, 4096);
    struct prom p = {.buf = &b};
    prom_counter(&p, "kymo_a_total", UINT64_MAX, "All of a.");
    prom_family(&p, "kymo_b_seconds_total", "counter", "Time.");
    prom_seconds(&p, 1000000001, "why", "a\"b\\c\nd\xff");
    prom_gauge(&p, "kymo_c", 0, "C.");
    assert_int_equal(p.failed, 0);
    assert_int_equal(kymo_buf_append(&b, "", 1), 0);
    assert_string_equal((const char *)b.data, "# HELP kymo_a_total All of a.\n# TYPE kymo_a_total counter\n"
                                              "kymo_a_total 18446744073709551615\n"
                                              "# HELP kymo_b_seconds_total Time.\n# TYPE kymo_b_seconds_total counter\n"
                                              "kymo_b_seconds_total{why=\"a\\\"b\\\\c\\nd?\"} 1.000000001\n"
                                              "# HELP kymo_c C.\n# TYPE kymo_c gauge\nkymo_c 0\n");
    kymo_buf_done(&b);
}

static void test_full(void **state)
{
    (void)state;
    struct kymo_buf b;
    kymo_buf_init(&b, 60);
    struct prom p = {.buf = &b};
    for (int i = 0; i < 10; i++)
        prom_gauge(&p, "kymo_c", 0, "C.");
    assert_int_equal(p.failed, -ENOBUFS);
    assert_true(b.len <= 60);
    kymo_buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_text), cmocka_unit_test(test_full)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
