/* Ranks that wait for each other, on threads of their own. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "driver-iface/sim/sim_gather.h"

#define RANKS 8

struct caller {
    struct sim_gather *gather;
    struct sim_gather_place at;
    int number, result, seen;
    struct kymo_err err;
    pthread_t thread;
};

static atomic_int runs;

/* Tells each what all of them gave, in order. */
static int run(void *ctx, void *const *all, unsigned n)
{
    (void)ctx;
    atomic_fetch_add(&runs, 1);
    for (unsigned i = 0; i < n; i++) {
        struct caller *c = all[i];
        for (unsigned k = 0; k < n; k++)
            c->seen = c->seen * 10 + ((const struct caller *)all[k])->number;
    }
    return 0;
}

static int break_off(void *ctx, void *const *all, unsigned n)
{
    (void)ctx;
    (void)all;
    (void)n;
    return -EIO;
}

static void *meet(void *arg)
{
    struct caller *c = arg;
    c->result = sim_gather_meet(c->gather, &c->at, c, c->at.job == 13 ? break_off : run, NULL, &c->err);
    return NULL;
}

static void start(struct caller *c, struct sim_gather *g, uint64_t job, unsigned rank, unsigned world, unsigned ms)
{
    *c = (struct caller){.gather = g, .number = (int)rank + 1};
    c->at = (struct sim_gather_place){.job = job, .rank = rank, .world = world, .timeout_ms = ms};
    assert_int_equal(pthread_create(&c->thread, NULL, meet, c), 0);
}

static void test_all_come(void **state)
{
    (void)state;
    struct sim_gather *g = sim_gather_new();
    struct caller c[RANKS];
    atomic_store(&runs, 0);
    for (int again = 0; again < 50; again++) {
        for (unsigned r = 0; r < RANKS; r++) /* two jobs of four, mixed */
            start(&c[r], g, r % 2, r / 2, RANKS / 2, 60000);
        for (unsigned r = 0; r < RANKS; r++)
            (void)pthread_join(c[r].thread, NULL);
        for (unsigned r = 0; r < RANKS; r++) {
            assert_int_equal(c[r].result, 0);
            assert_int_equal(c[r].seen, 1234);
        }
    }
    assert_int_equal(atomic_load(&runs), 100);
    sim_gather_free(g);
}

static void test_nobody_waits_for_ever(void **state)
{
    (void)state;
    struct sim_gather *g = sim_gather_new();
    struct caller c[3];
    uint64_t begin = kymo_clock_mono_ns();
    for (unsigned r = 0; r < 3; r++)
        start(&c[r], g, 1, r, 4, 50);
    for (unsigned r = 0; r < 3; r++) {
        (void)pthread_join(c[r].thread, NULL);
        assert_int_equal(c[r].result, -ETIMEDOUT);
        assert_non_null(strstr(c[r].err.text, "waited 50 ms"));
        assert_non_null(strstr(c[r].err.text, "of 4 were there"));
    }
    assert_true(kymo_clock_mono_ns() - begin < 20000000000ull);
    /* Who gave up is not counted: the next attempt needs all of them again. */
    for (unsigned r = 0; r < 3; r++)
        start(&c[r], g, 1, r, 3, 60000);
    for (unsigned r = 0; r < 3; r++) {
        (void)pthread_join(c[r].thread, NULL);
        assert_int_equal(c[r].result, 0);
    }
    sim_gather_free(g);
}

static void test_a_failure_is_everybodys(void **state)
{
    (void)state;
    struct sim_gather *g = sim_gather_new();
    struct caller c[2];
    for (unsigned r = 0; r < 2; r++)
        start(&c[r], g, 13, r, 2, 60000);
    for (unsigned r = 0; r < 2; r++) {
        (void)pthread_join(c[r].thread, NULL);
        assert_int_equal(c[r].result, -EIO);
    }
    sim_gather_free(g);
}

static void test_refusals(void **state)
{
    (void)state;
    struct sim_gather *g = sim_gather_new();
    struct kymo_err err = {0};
    struct sim_gather_place at = {.rank = 2, .world = 2};
    assert_int_equal(sim_gather_meet(g, &at, g, run, NULL, &err), -EINVAL);
    at = (struct sim_gather_place){.world = 1};
    assert_int_equal(sim_gather_meet(g, &at, g, run, NULL, &err), -EINVAL);
    at = (struct sim_gather_place){.world = SIM_GATHER_RANKS_MAX + 1};
    assert_int_equal(sim_gather_meet(g, &at, g, run, NULL, &err), -EINVAL);
    sim_gather_free(g);
    assert_null(sim_gather_free(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_come),
        cmocka_unit_test(test_nobody_waits_for_ever),
        cmocka_unit_test(test_a_failure_is_everybodys),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
