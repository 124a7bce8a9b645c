/* Span union: hand-made cases, and random ones against a bitmap. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/formulas/spans.h"

#define LINE 4096

struct drawn {
    uint8_t covered[LINE];
    int64_t last_end;
};

static void draw(void *ctx, struct span s)
{
    struct drawn *d = ctx;
    /* Merged spans go out in order and never touch each other. */
    assert_true(s.start > d->last_end);
    assert_true(s.end > s.start);
    d->last_end = s.end;
    memset(d->covered + s.start, 1, (size_t)(s.end - s.start));
}

static void test_hand_made(void **state)
{
    (void)state;
    struct drawn d = {.last_end = -1};
    struct spans s;
    spans_init(&s, 16, draw, &d);
    assert_int_equal(spans_add(&s, 10, 20), 0);
    assert_int_equal(spans_add(&s, 5, 5), 0);
    assert_int_equal(spans_add(&s, 30, 40), 0);
    assert_int_equal(spans_add(&s, 20, 25), 0);
    assert_int_equal(spans_add(&s, 24, 31), 0);
    assert_int_equal(s.count, 1);
    spans_advance(&s, 40);
    assert_int_equal(s.total, 0);
    assert_int_equal(spans_add(&s, 40, 41), 0);
    assert_int_equal(spans_finish(&s), 31);
    spans_done(&s);
}

static void test_maximum(void **state)
{
    (void)state;
    struct spans s;
    spans_init(&s, 20, NULL, NULL);
    for (int64_t i = 0; i < 20; i++)
        assert_int_equal(spans_add(&s, 10 * i, 10 * i + 5), 0);
    assert_int_equal(spans_add(&s, 1000, 1001), -ENOBUFS);
    spans_advance(&s, 100);
    assert_int_equal(spans_add(&s, 1000, 1001), 0);
    assert_int_equal(spans_finish(&s), 101);
    spans_done(&s);
}

static void random_run(unsigned seed)
{
    srand(seed);
    static uint8_t want[LINE];
    memset(want, 0, sizeof want);
    struct drawn d = {.last_end = -1};
    struct spans s;
    spans_init(&s, LINE, draw, &d);
    int64_t total = 0;
    for (int64_t base = 0; base + 200 < LINE; base += rand() % 60) {
        spans_advance(&s, base);
        for (int i = rand() % 4; i > 0; i--) {
            int64_t start = base + rand() % 150, end = start + rand() % 40;
            memset(want + start, 1, (size_t)(end - start));
            assert_int_equal(spans_add(&s, start, end), 0);
        }
    }
    for (size_t i = 0; i < LINE; i++)
        total += want[i];
    assert_int_equal(spans_finish(&s), total);
    assert_memory_equal(d.covered, want, LINE);
    spans_done(&s);
}

static void test_random(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 500; seed++)
        random_run(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hand_made),
        cmocka_unit_test(test_maximum),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
