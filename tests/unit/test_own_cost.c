/* The daemon's view of itself: what is measured, and the ladder against made-up samples. */
#include "daemon/own_cost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"

#define S 1000000000ull

struct world {
    uv_loop_t loop;
    struct own_cost *cost;
    struct own_cost_sample s;
    unsigned changes;
    enum own_cost_rung rung;
    char text[KYMO_ERR_TEXT_MAX];
};

static void count(void *ctx, struct own_cost_sample *s)
{
    const struct world *w = ctx;
    s->taken_bytes = w->s.taken_bytes + 7;
}

static void changed(void *ctx, enum own_cost_rung now, const char *text)
{
    struct world *w = ctx;
    w->changes++;
    w->rung = now;
    assert_true(strlen(text) < sizeof w->text);
    memcpy(w->text, text, strlen(text) + 1);
}

static const struct own_cost_ops ops = {.count = count, .changed = changed};

/* A clock of our own, so that the first sample of own_cost_new goes with ours. */
static uint64_t zero(void)
{
    return 0;
}
static const struct kymo_clock_ops still = {.mono_ns = zero, .real_ns = zero};

static int setup(void **state)
{
    static struct world w;
    memset(&w, 0, sizeof w);
    *state = &w;
    return uv_loop_init(&w.loop);
}

static int teardown(void **state)
{
    struct world *w = *state;
    own_cost_free(w->cost);
    kymo_clock_set_ops(NULL);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    return uv_loop_close(&w->loop);
}

static void make(struct world *w, double cpu, uint64_t disk, uint64_t net)
{
    const struct own_cost_limits limits = {cpu, disk, net};
    kymo_clock_set_ops(&still);
    assert_int_equal(own_cost_new(&w->loop, &limits, &ops, w, &w->cost, NULL), 0);
    struct own_cost_figures f;
    own_cost_get(w->cost, &f);
    w->s = f.last;
    w->s.taken_bytes = 0;
}

/* Minutes of a life with these rates a second. */
static void live(struct world *w, unsigned minutes, uint64_t cpu_ns, uint64_t written, uint64_t taken, uint64_t sent)
{
    for (unsigned i = 0; i < minutes * 6; i++) {
        w->s.mono_ns += 10 * S;
        w->s.cpu_ns += 10 * cpu_ns;
        w->s.written_bytes += 10 * written;
        w->s.taken_bytes += 10 * taken;
        w->s.sent_bytes += 10 * sent;
        own_cost_add(w->cost, &w->s);
    }
}

static void test_measure(void **state)
{
    (void)state;
    struct own_cost_sample a, b;
    assert_int_equal(own_cost_measure(&a, NULL), 0);
    assert_in_range(a.rss_bytes, 500u << 10, 500u << 20);
    for (volatile unsigned i = 0; i < 50000000; i++)
        ;
    assert_int_equal(own_cost_measure(&b, NULL), 0);
    assert_true(b.cpu_ns > a.cpu_ns && b.mono_ns - a.mono_ns >= (b.cpu_ns - a.cpu_ns) / 2);
    assert_true(b.written_bytes >= a.written_bytes);
}

static void test_ladder(void **state)
{
    struct world *w = *state;
    make(w, 2.0, 0, 0);
    live(w, 10, S / 100, 1u << 30, 1u << 30, 1u << 30);
    assert_int_equal(w->changes, 0);
    for (unsigned i = 0; i < OWN_COST_STRETCH; i++)
        assert_true(own_cost_allows_turn(w->cost, i, NULL));
    /* One rung a minute, not more, and none beyond the last. */
    live(w, 1, S / 10, 0, 0, 0);
    assert_int_equal(w->rung, OWN_COST_LONGER);
    for (unsigned i = 0; i < 2 * OWN_COST_STRETCH; i++)
        assert_int_equal(own_cost_allows_turn(w->cost, i, NULL), (i + 1) % OWN_COST_STRETCH == 0);
    own_cost_shed(w->cost, 3);
    assert_true(own_cost_allows(w->cost, "periodic", NULL));
    assert_non_null(strstr(w->text, "CPU at"));
    assert_non_null(strstr(w->text, "limit 2.00"));
    live(w, 1, S / 10, 0, 0, 0);
    assert_int_equal(w->rung, OWN_COST_NO_PERIODIC);
    const char *why = NULL;
    assert_false(own_cost_allows(w->cost, "periodic", &why));
    assert_false(own_cost_allows_turn(w->cost, OWN_COST_STRETCH - 1, NULL));
    own_cost_shed(w->cost, 1);
    assert_string_equal(why, w->text);
    assert_true(own_cost_allows(w->cost, "collector", NULL));
    live(w, 5, S / 10, 0, 0, 0);
    assert_int_equal(own_cost_rung(w->cost), OWN_COST_ON_DEMAND_ONLY);
    assert_int_equal(w->changes, 3);
    assert_false(own_cost_allows(w->cost, "collector", NULL));
    assert_true(own_cost_allows(w->cost, "on-demand", NULL));
    /* Between half of the limit and the limit nothing changes; below, one rung back a minute. */
    live(w, 5, S / 67, 0, 0, 0);
    assert_int_equal(w->changes, 3);
    live(w, 8, S / 1000, 0, 0, 0);
    assert_int_equal(own_cost_rung(w->cost), OWN_COST_ALL);
    assert_int_equal(w->changes, 6);
    struct own_cost_figures f;
    own_cost_get(w->cost, &f);
    assert_int_equal(f.decisions[OWN_COST_LONGER], 2);
    assert_int_equal(f.decisions[OWN_COST_ON_DEMAND_ONLY], 1);
    assert_int_equal(f.skipped[OWN_COST_LONGER], 3);
    assert_int_equal(f.skipped[OWN_COST_NO_PERIODIC], 1);
    assert_int_equal(f.skipped[OWN_COST_ON_DEMAND_ONLY], 0);
    assert_int_equal(f.last.taken_bytes, w->s.taken_bytes + 7);
}

static void test_bytes(void **state)
{
    struct world *w = *state;
    make(w, 0, 10000000, 1000000);
    /* What was copied is counted once. */
    live(w, 3, S, 8000000, 8000000, 900000);
    assert_int_equal(w->changes, 0);
    live(w, 1, 0, 0, 20000000, 0);
    assert_int_equal(w->rung, OWN_COST_LONGER);
    assert_non_null(strstr(w->text, "disk at"));
    struct own_cost_figures f;
    own_cost_get(w->cost, &f);
    assert_in_range(f.disk_bytes_s, 19000000, 21000000);
    live(w, 4, 0, 0, 0, 0);
    assert_int_equal(w->rung, OWN_COST_ALL);
    live(w, 1, 0, 0, 0, 5000000);
    assert_int_equal(w->rung, OWN_COST_LONGER);
    assert_non_null(strstr(w->text, "network at"));
    /* Without limits everything comes back. */
    own_cost_set_limits(w->cost, &(struct own_cost_limits){0});
    live(w, 2, 0, 0, 0, 5000000);
    assert_int_equal(w->rung, OWN_COST_ALL);
}

static void test_no_memory(void **state)
{
    struct world *w = *state;
    const struct own_cost_limits limits = {0};
    kymo_alloc_fail_after(0);
    assert_int_equal(own_cost_new(&w->loop, &limits, &ops, w, &w->cost, NULL), -ENOMEM);
    kymo_alloc_fail_after(-1);
    assert_null(own_cost_free(NULL));
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {T(test_measure), T(test_ladder), T(test_bytes), T(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
