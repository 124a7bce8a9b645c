/* The throttling integral: by hand, and random notices against a line of nanoseconds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/formulas/limits.h"

struct list {
    const struct limits_notice *rows;
    size_t count, at;
};

static int next(void *ctx, struct limits_notice *ret, struct kymo_err *err)
{
    (void)err;
    struct list *l = ctx;
    if (l->at == l->count)
        return 0;
    *ret = l->rows[l->at++];
    return 1;
}

static void near(double want, double got)
{
    if (want - got > 1e-9 || got - want > 1e-9)
        fail_msg("expected %.9g, got %.9g", want, got);
}

/*
 * Half speed from 10 to 30, a quarter from 20 to 50: 10 at 1/2 and 30 at 1/4, so 5 + 22.5 ns are lost. Busy from 0 to
 * 15 and from 25 to 40: 5 at 1/2 and 15 at 1/4, so 2.5 + 11.25.
 */
static void test_by_hand(void **state)
{
    (void)state;
    const struct limits_notice rows[] = {{10, 30, 0.5}, {20, 50, 0.25}, {60, 60, 0}, {70, 80, 1}};
    struct list list = {rows, 4, 0};
    struct limits l;
    limits_init(&l, next, &list);
    assert_int_equal(limits_busy(&l, 0, 15, NULL), 0);
    assert_int_equal(limits_busy(&l, 25, 40, NULL), 0);
    assert_int_equal(limits_finish(&l, NULL), 0);
    assert_int_equal(l.throttled, 50); /* a notice without a limit holds too */
    near(27.5, l.lost);
    near(13.75, l.busy_lost);
    assert_int_equal(l.left_out, 0);
}

static void test_nothing(void **state)
{
    (void)state;
    struct list list = {NULL, 0, 0};
    struct limits l;
    limits_init(&l, next, &list);
    assert_int_equal(limits_busy(&l, 0, 15, NULL), 0);
    assert_int_equal(limits_finish(&l, NULL), 0);
    assert_int_equal(l.throttled, 0);
    near(0, l.lost + l.busy_lost);
}

/* Beyond the maximum the mildest are left out, and the harshest still counts. */
static void test_too_many(void **state)
{
    (void)state;
    struct limits_notice rows[LIMITS_LIVE_MAX + 10];
    const size_t n = sizeof rows / sizeof *rows;
    for (size_t i = 0; i < n; i++)
        rows[i] = (struct limits_notice){0, 100, 0.9 - 0.01 * (double)i};
    struct list list = {rows, n, 0};
    struct limits l;
    limits_init(&l, next, &list);
    assert_int_equal(limits_busy(&l, 0, 50, NULL), 0);
    assert_int_equal(limits_finish(&l, NULL), 0);
    assert_int_equal(l.left_out, 10);
    near(100 * (1 - rows[n - 1].limit), l.lost);
    near(50 * (1 - rows[n - 1].limit), l.busy_lost);
}

#define LINE 600

static int by_start(const void *a, const void *b)
{
    const struct limits_notice *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static void random_round(unsigned seed)
{
    struct limits_notice rows[20] = {0};
    double limit[LINE];
    char held[LINE] = {0}, busy[LINE] = {0};
    size_t n = seed % 20;
    srand(seed);
    for (int t = 0; t < LINE; t++)
        limit[t] = 1;
    for (size_t i = 0; i < n; i++) {
        int64_t start = rand() % 500;
        rows[i] = (struct limits_notice){start, start + rand() % 90, (rand() % 9) / 8.0};
        for (int64_t t = start; t < rows[i].end; t++) {
            held[t] = 1;
            limit[t] = rows[i].limit < limit[t] ? rows[i].limit : limit[t];
        }
    }
    qsort(rows, n, sizeof *rows, by_start);
    struct list list = {rows, n, 0};
    struct limits l;
    limits_init(&l, next, &list);
    for (int64_t t = 0; t < LINE - 60;) {
        int64_t start = t + 1 + rand() % 30, end = start + 1 + rand() % 25;
        assert_int_equal(limits_busy(&l, start, end, NULL), 0);
        memset(busy + start, 1, (size_t)(end - start));
        t = end;
    }
    assert_int_equal(limits_finish(&l, NULL), 0);
    double lost = 0, busy_lost = 0;
    int64_t throttled = 0;
    for (int t = 0; t < LINE; t++) {
        throttled += held[t];
        lost += 1 - limit[t];
        busy_lost += busy[t] ? 1 - limit[t] : 0;
    }
    assert_int_equal(l.throttled, throttled);
    near(lost, l.lost);
    near(busy_lost, l.busy_lost);
}

static void test_random(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 3000; seed++)
        random_round(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
