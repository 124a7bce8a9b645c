/* Series by hand-computed values: rates, levels, windows and the queue that puts their changes in order. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/formulas/levels.h"
#include "pipeline/formulas/rates.h"
#include "pipeline/formulas/windows.h"
#include "pipeline/series/series.h"
#include "pipeline/settings.h"

static char dir[] = "/tmp/kymo-series-XXXXXX";

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    return rmdir(dir); /* files of runs have no names, so it is empty */
}

static uint64_t random_next(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    return *x ^= *x << 17;
}

/* Everything that was pushed comes out once, in order, whatever part of it went to files. */
static void drain(struct time_queue *q, int64_t until, int64_t *last, uint64_t *sum, size_t *n)
{
    struct kymo_err err = {0};
    const struct time_item *first;
    while ((first = time_queue_first(q)) && first->at < until) {
        assert_true(first->at >= *last);
        *last = first->at;
        *sum += first->a;
        ++*n;
        assert_int_equal(time_queue_pop(q, &err), 0);
    }
}

static void test_queue_keeps_order_beyond_memory(void **state)
{
    (void)state;
    enum { ITEMS = 200000 };
    struct time_queue *q;
    struct kymo_err err = {0};
    uint64_t x = 88172645463325252u, pushed = 0, popped = 0;
    int64_t last = INT64_MIN;
    size_t n = 0, runs = 0;
    assert_int_equal(time_queue_open(dir, TIME_QUEUE_HELD_MIN, &q, &err), 0);
    for (size_t i = 0; i < ITEMS; i++) {
        /* Later and later, far out of order. */
        struct time_item item = {.at = (int64_t)(i + random_next(&x) % 100000), .a = i};
        pushed += i;
        assert_int_equal(time_queue_push(q, &item, &err), 0);
        if (i % 1000 == 0)
            drain(q, (int64_t)i, &last, &popped, &n);
        runs = time_queue_runs(q) > runs ? time_queue_runs(q) : runs;
    }
    assert_true(runs > 2);
    assert_true(runs <= 96); /* runs of one level are put together */
    drain(q, INT64_MAX, &last, &popped, &n);
    assert_int_equal(n, ITEMS);
    assert_int_equal(popped, pushed);
    assert_null(time_queue_first(q));
    assert_int_equal(time_queue_runs(q), 0);
    time_queue_free(q);
}

static void test_queue_order_decides_equal_times(void **state)
{
    (void)state;
    struct time_queue *q;
    struct kymo_err err = {0};
    assert_int_equal(time_queue_open(dir, 0, &q, &err), 0);
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(time_queue_push(q, &(struct time_item){.at = 5, .order = i * 37 % 100}, &err), 0);
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(time_queue_first(q)->order, i);
        assert_int_equal(time_queue_pop(q, &err), 0);
    }
    time_queue_free(q);
}

/* Items near their order, ones far ahead, and late ones, which the line and the heap share. */
static void test_queue_takes_what_is_nearly_in_order(void **state)
{
    (void)state;
    enum { ITEMS = 50000 };
    struct time_queue *q;
    struct kymo_err err = {0};
    uint64_t x = 88172645463325252u, pushed = 0, popped = 0;
    int64_t last = INT64_MIN;
    size_t n = 0;
    assert_int_equal(time_queue_open(dir, 0, &q, &err), 0);
    for (uint64_t i = 0; i < ITEMS; i++) {
        uint64_t ahead = i % 100 == 0 ? 20000 : i % 7 == 0 ? 400 : random_next(&x) % 40;
        assert_int_equal(time_queue_push(q, &(struct time_item){.at = (int64_t)(i + ahead), .a = i}, &err), 0);
        pushed += i;
        drain(q, (int64_t)i - 100, &last, &popped, &n);
    }
    drain(q, INT64_MAX, &last, &popped, &n);
    assert_int_equal(n, ITEMS);
    assert_int_equal(popped, pushed);
    time_queue_free(q);
}

struct points {
    size_t n;
    struct rates_point at[64];
};

static int keep_point(void *ctx, const struct rates_point *p, struct kymo_err *err)
{
    struct points *all = ctx;
    (void)err;
    assert_true(all->n < 64);
    all->at[all->n++] = *p;
    return 0;
}

static void expect_point(const struct rates_point *p, int64_t at, unsigned lane, double rate, uint64_t total)
{
    assert_int_equal(p->at, at);
    assert_int_equal(p->lane, lane);
    assert_true(p->rate == rate);
    assert_int_equal(p->total, total);
}

/* 1,000 bytes in 100 ns are 1e10 bytes per second. */
static void test_rates_by_hand(void **state)
{
    (void)state;
    struct points got = {0};
    struct rates r;
    struct kymo_err err = {0};
    assert_int_equal(rates_init(&r, dir, keep_point, &got, &err), 0);
    assert_int_equal(rates_add(&r, 0, 10, 110, 1000, 1, &err), 0);
    assert_int_equal(rates_add(&r, 1, 10, 60, 500, 0, &err), 0);
    assert_int_equal(rates_add(&r, 0, 60, 110, 1000, 2, &err), 0);
    assert_int_equal(rates_add(&r, 0, 110, 110, 7, 0, &err), 0); /* no time, no rate */
    assert_int_equal(rates_add(&r, 0, 200, 300, 100, 0, &err), 0);
    assert_int_equal(rates_finish(&r, &err), 0);
    assert_int_equal(got.n, 7);
    expect_point(&got.at[0], 10, 0, 1e10, 0);
    expect_point(&got.at[1], 10, 1, 1e10, 0);
    expect_point(&got.at[2], 60, 0, 3e10, 0);
    expect_point(&got.at[3], 60, 1, 0, 500);
    expect_point(&got.at[4], 110, 0, 0, 2007);
    expect_point(&got.at[5], 200, 0, 1e9, 2007);
    expect_point(&got.at[6], 300, 0, 0, 2107);
    /* The second sum has the first span once and the third twice. */
    assert_true(got.at[0].has_second && got.at[0].second_rate == 1e10);
    assert_false(got.at[1].has_second);
    assert_true(got.at[2].second_rate == 5e10 && got.at[2].second_total == 0);
    assert_true(got.at[4].second_rate == 0 && got.at[4].second_total == 3000);
    assert_false(got.at[5].has_second);
    assert_int_equal(r.late, 0);
    rates_done(&r);
}

/* A span from before the instant reached keeps its bytes, and no row goes back in time. */
static void test_rates_of_a_late_span(void **state)
{
    (void)state;
    struct points got = {0};
    struct rates r;
    struct kymo_err err = {0};
    assert_int_equal(rates_init(&r, dir, keep_point, &got, &err), 0);
    assert_int_equal(rates_add(&r, 0, 100, 200, 10, 0, &err), 0);
    assert_int_equal(rates_add(&r, 0, 50, 60, 10, 0, &err), 0);
    assert_int_equal(rates_add(&r, 0, 50, 150, 10, 0, &err), 0);
    assert_int_equal(rates_finish(&r, &err), 0);
    assert_int_equal(r.late, 2);
    assert_int_equal(got.n, 3);
    assert_int_equal(got.at[0].at, 100);
    assert_int_equal(got.at[0].total, 10);
    assert_int_equal(got.at[2].total, 30);
    assert_true(got.at[2].rate == 0);
    rates_done(&r);
}

/* Millions of rates that are no whole numbers leave exactly nothing behind. */
static void test_rates_do_not_drift(void **state)
{
    (void)state;
    struct points got = {0};
    struct rates r;
    struct kymo_err err = {0};
    struct points *sink = &got;
    assert_int_equal(rates_init(&r, dir, keep_point, sink, &err), 0);
    for (int64_t i = 0; i < 200000; i++) {
        assert_int_equal(rates_add(&r, 0, i, i + 3 + i % 97, (uint64_t)(i * 7919 % 65536), 1, &err), 0);
        got.n = 0;
    }
    got.n = 0;
    assert_true(r.first[0].rate > 0);
    assert_int_equal(rates_finish(&r, &err), 0);
    assert_true(r.first[0].rate == 0 && r.second[0].rate == 0);
    rates_done(&r);
}

struct level {
    unsigned lane;
    int64_t at, value;
};
struct seen_levels {
    size_t n;
    struct level at[16];
};

static int keep_level(void *ctx, unsigned lane, int64_t at, int64_t value, struct kymo_err *err)
{
    struct seen_levels *s = ctx;
    (void)err;
    assert_true(s->n < 16);
    s->at[s->n++] = (struct level){lane, at, value};
    return 0;
}

static void test_levels_by_hand(void **state)
{
    (void)state;
    static const struct level want[] = {{0, 5, 1}, {0, 10, 2}, {1, 10, 1}, {0, 20, 1}, {1, 25, 0}, {0, 30, 0}};
    struct seen_levels got = {0};
    struct levels l;
    struct kymo_err err = {0};
    assert_int_equal(levels_init(&l, dir, &err), 0);
    assert_int_equal(levels_add(&l, 0, 10, 20, &err), 0);
    assert_int_equal(levels_add(&l, 1, 10, 25, &err), 0);
    assert_int_equal(levels_add(&l, 0, 20, 30, &err), 0); /* one goes as the other comes */
    assert_int_equal(levels_add(&l, 0, 5, 20, &err), 0);
    assert_int_equal(levels_finish(&l, keep_level, &got, &err), 0);
    assert_int_equal(got.n, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(got.at[i].lane, want[i].lane);
        assert_int_equal(got.at[i].at, want[i].at);
        assert_int_equal(got.at[i].value, want[i].value);
    }
    levels_done(&l);
}

struct window {
    int64_t since, at;
    double all, marked, done;
};
struct seen_windows {
    size_t n;
    struct window at[16];
};

static int keep_window(void *ctx, int64_t since, int64_t at, const struct windows_lane *lanes, struct kymo_err *err)
{
    struct seen_windows *s = ctx;
    const struct windows_lane *l = lanes;
    (void)err;
    assert_true(s->n < 16);
    s->at[s->n++] = (struct window){since, at, windows_real(l->all.done - l->all.before),
                                    windows_real(l->marked.done - l->marked.before), windows_real(l->all.done)};
    return 0;
}

static void expect_window(const struct window *w, int64_t since, int64_t at, double all, double marked, double done)
{
    assert_int_equal(w->since, since);
    assert_int_equal(w->at, at);
    assert_true(w->all == all && w->marked == marked && w->done == done);
}

static void test_windows_by_hand(void **state)
{
    (void)state;
    struct seen_windows got = {0};
    struct windows w;
    struct kymo_err err = {0};
    assert_int_equal(windows_init(&w, dir, 100, 350, keep_window, &got, &err), 0);
    /* 1,000 from 50 to 250: 250, 500, 250. Marked: 80 from 90 to 110. At 350: 5 at once. Given out of order. */
    assert_int_equal(windows_add(&w, 0, true, 90, 110, 80, &err), 0);
    assert_int_equal(windows_add(&w, 0, false, 50, 250, 1000, &err), 0);
    assert_int_equal(windows_settle(&w, 300, &err), 0);
    assert_int_equal(windows_add(&w, 0, false, 350, 350, 5, &err), 0);
    assert_int_equal(windows_finish(&w, &err), 0);
    assert_int_equal(got.n, 4);
    expect_window(&got.at[0], 0, 100, 290, 40, 290);
    expect_window(&got.at[1], 100, 200, 540, 40, 830);
    expect_window(&got.at[2], 200, 300, 250, 0, 1080);
    expect_window(&got.at[3], 300, 350, 5, 0, 1085);
    windows_done(&w);
}

/* A rate that is no whole number loses nothing by the end of its span. */
static void test_windows_are_exact_at_the_end(void **state)
{
    (void)state;
    struct seen_windows got = {0};
    struct windows w;
    struct kymo_err err = {0};
    assert_int_equal(windows_init(&w, dir, 1000, 1000, keep_window, &got, &err), 0);
    for (int64_t i = 0; i < 300; i++)
        assert_int_equal(windows_add(&w, 0, false, i, i + 7 * (i % 11) + 1, 1000003, &err), 0);
    assert_int_equal(windows_finish(&w, &err), 0);
    assert_int_equal(got.n, 1);
    assert_true(got.at[0].done == 300 * 1000003.0);
    windows_done(&w);
}

static void test_settings(void **state)
{
    (void)state;
    struct settings s;
    struct kymo_err err = {0};
    settings_defaults(&s);
    assert_int_equal(s.flops_window_ns, 0);
    assert_int_equal(settings_set(&s, "flops_window_ns=5000", &err), 0);
    assert_int_equal(settings_set(&s, "flops-window-ns=5000", &err), 0);
    assert_int_equal(s.flops_window_ns, 5000);
    static const char *const wrong[] = {"flops-window-ns",
                                        "flops-window-ns=",
                                        "flops-window-ns=-1",
                                        "flops-window-ns=1x",
                                        "no-such-thing=1",
                                        "flops-window-n=1",
                                        "",
                                        "flops-window-ns=99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(settings_set(&s, wrong[i], &err), -EINVAL);
    assert_int_equal(s.flops_window_ns, 5000);
    assert_int_equal(series_width(68135087, 4096, 1000), 20000);
    assert_int_equal(series_width(4095999, 4096, 1000), 1000);
    assert_int_equal(series_width(4096000, 4096, 1000), 2000);
    assert_int_equal(series_width(0, 4096, 1), 1);
    assert_true(series_width(INT64_MAX, 16, 1) > INT64_MAX / 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue_keeps_order_beyond_memory),
        cmocka_unit_test(test_queue_order_decides_equal_times),
        cmocka_unit_test(test_queue_takes_what_is_nearly_in_order),
        cmocka_unit_test(test_rates_by_hand),
        cmocka_unit_test(test_rates_of_a_late_span),
        cmocka_unit_test(test_rates_do_not_drift),
        cmocka_unit_test(test_levels_by_hand),
        cmocka_unit_test(test_windows_by_hand),
        cmocka_unit_test(test_windows_are_exact_at_the_end),
        cmocka_unit_test(test_settings),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
