/* Several ranks of the data-parallel step, side by side: they meet, whoever is slow, fails, or shares a device. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/le.h"
#include "driver-iface/sim/sim_core.h"
#include "driver-iface/sim/sim_model.h"

#define RANKS 4
#define START_PS 1000000000ull
#define ROOM 65536

/* A CC-core ring of one rank, and whether its records of one source were in order of time. */
struct watch {
    size_t ring;
    uint64_t count, last_ps;
    bool orderly;
};

struct world {
    const struct kymo_arch *arch;
    struct sim_image *image;
    struct sim_core *cores[RANKS];
    struct sim_joint_rank ranks[RANKS];
    struct sim_exec_result results[RANKS];
    struct kymo_err errs[RANKS];
    struct kymo_ring_plan plan[KYMO_RING_PLAN_MAX];
    struct watch watch;
};

static struct sim_image *make_image(const struct kymo_arch *arch, unsigned lnc, unsigned ranks)
{
    struct kymo_err err = {0};
    struct sim_program *programs[2] = {NULL};
    const struct sim_model *model = sim_model_find("allreduce");
    struct sim_model_options o = model->defaults;
    struct sim_program_stats stats;
    char path[] = "/tmp/kymo-joint-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    o.lnc = lnc;
    o.ranks = ranks;
    o.hidden = 256;
    for (o.core = 0; o.core < lnc; o.core++) {
        programs[o.core] = sim_program_new(arch, o.core);
        model->build(programs[o.core], &o);
        if (sim_program_finish(programs[o.core], &stats, &err) < 0)
            fail_msg("%s", err.text);
    }
    const struct sim_neff_info info = {.name = "allreduce", .seed = 1, .lnc = lnc};
    struct neff *neff = NULL;
    struct sim_image *im = NULL;
    int r = sim_program_write(programs, &info, 1, path, &err);
    if (r == 0)
        r = neff_open(path, NEFF_NO_DEBUG, &neff, &err);
    if (r == 0)
        r = sim_image_build(arch, lnc, neff, 1, &im, &err);
    if (r < 0)
        fail_msg("%s", err.text);
    (void)unlink(path);
    for (unsigned c = 0; c < lnc; c++)
        sim_program_free(programs[c]);
    return im;
}

static bool put(void *ctx, size_t ring, const uint8_t record[KYMO_RECORD_SIZE])
{
    struct watch *w = ctx;
    if (ring != w->ring)
        return true;
    uint64_t ps = kymo_le64(record + 8);
    w->orderly &= ps >= w->last_ps;
    w->last_ps = ps;
    w->count++;
    return true;
}

/* Ranks on devices of their own, or all on the logical cores of one. */
static void open_world(struct world *w, const char *arch, unsigned lnc, bool shared)
{
    struct kymo_err err = {0};
    *w = (struct world){.arch = kymo_arch_find(arch), .watch = {.orderly = true}};
    w->image = make_image(w->arch, lnc, RANKS);
    assert_int_equal(sim_image_world(w->image), RANKS);
    for (unsigned r = 0; r < RANKS; r++) {
        struct sim_config config = {
            .arch = w->arch, .lnc = lnc, .seed = 7, .start_ps = START_PS + (shared ? 0 : r * 5000)};
        if (r == 0 || !shared)
            assert_int_equal(sim_core_new(&config, &w->cores[r], &err), 0);
        w->ranks[r] = (struct sim_joint_rank){.core = shared ? w->cores[0] : w->cores[r],
                                              .first_pcore = shared ? r * lnc : 0,
                                              .image = w->image,
                                              .skew_ps = shared ? 0 : r * 5000,
                                              .result = &w->results[r],
                                              .err = &w->errs[r]};
    }
}

static void close_world(struct world *w)
{
    for (unsigned r = 0; r < RANKS; r++)
        sim_core_free(w->cores[r]);
    sim_image_free(w->image);
}

static void execute(struct world *w)
{
    struct kymo_err err = {0};
    if (sim_core_execute_joint(w->ranks, RANKS, &err) < 0)
        fail_msg("%s", err.text);
}

static uint64_t length(const struct world *w, unsigned rank)
{
    return w->results[rank].end_ps - w->results[rank].start_ps;
}

static void all_end_well(const struct world *w)
{
    for (unsigned r = 0; r < RANKS; r++) {
        if (w->ranks[r].error < 0)
            fail_msg("rank %u: %s", r, w->errs[r].text);
        assert_int_equal(w->results[r].status, 0);
        assert_true(length(w, r) > 0);
    }
}

static void test_a_slow_rank_holds_the_others(void **state)
{
    (void)state;
    struct world w;
    uint64_t usual;
    open_world(&w, "trn2", 1, false);
    execute(&w);
    all_end_well(&w);
    usual = length(&w, 0);
    w.ranks[2].slow_factor = 8;
    execute(&w);
    all_end_well(&w);
    for (unsigned r = 0; r < RANKS; r++) {
        assert_true(length(&w, r) > usual * 3 / 2);
        /* They leave the last collective together, and the slow one is at most its own last work behind. */
        assert_true(length(&w, r) > length(&w, 2) / 2);
    }
    close_world(&w);
}

static void test_the_same_again(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct world a, b;
        open_world(&a, "trn2", 1, shared);
        open_world(&b, "trn2", 1, shared);
        for (int n = 0; n < 2; n++) {
            execute(&a);
            execute(&b);
            all_end_well(&a);
            assert_memory_equal(a.results, b.results, sizeof a.results);
        }
        close_world(&a);
        close_world(&b);
    }
}

static void test_both_cores_of_a_pair(void **state)
{
    (void)state;
    struct world w;
    open_world(&w, "trn3", 2, true);
    execute(&w);
    all_end_well(&w);
    close_world(&w);
}

static void test_a_failure_leaves_nobody_waiting(void **state)
{
    (void)state;
    struct world w;
    open_world(&w, "trn1", 1, false);
    w.ranks[1].fail = true;
    execute(&w);
    for (unsigned r = 0; r < RANKS; r++) {
        assert_int_equal(w.ranks[r].error, 0);
        assert_int_equal(w.results[r].status, r == 1 ? 1004 : 1200);
    }
    w.ranks[1].fail = false;
    execute(&w); /* everything works again */
    all_end_well(&w);
    close_world(&w);
}

static void test_refusals(void **state)
{
    (void)state;
    struct world w;
    struct kymo_err err = {0};
    struct sim_exec_result result;
    open_world(&w, "trn2", 1, false);
    assert_int_equal(sim_core_execute_joint(w.ranks, RANKS - 1, &err), -EINVAL);
    assert_non_null(strstr(err.text, "4 ranks, there are 3"));
    assert_int_equal(sim_core_execute(w.cores[0], 0, w.image, false, &result, &err), -EINVAL);
    assert_non_null(strstr(err.text, "collectives over 4 ranks"));
    close_world(&w);
}

static void test_records_of_a_cc_core_are_in_order(void **state)
{
    (void)state;
    struct world w;
    struct kymo_err err = {0};
    open_world(&w, "trn2", 1, false);
    struct kymo_ring_sizes sizes = {0};
    for (int i = 0; i < KYMO_RING_MAX; i++)
        sizes.bytes[i] = 1 << 20;
    size_t n = kymo_ring_plan(w.arch, 0, 1, "2.31.0", &sizes, w.plan);
    while (w.plan[w.watch.ring].ring != KYMO_RING_CC_CORE_INSTRUCTION)
        w.watch.ring++;
    struct sim_ring_sink sink = {.put = put, .ctx = &w.watch};
    assert_int_equal(sim_core_arm(w.cores[0], 0, w.plan, n, sink, NULL, &err), 0);
    execute(&w);
    all_end_well(&w);
    assert_true(w.watch.orderly);
    assert_true(w.watch.count > 100);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slow_rank_holds_the_others),
        cmocka_unit_test(test_the_same_again),
        cmocka_unit_test(test_both_cores_of_a_pair),
        cmocka_unit_test(test_a_failure_leaves_nobody_waiting),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_records_of_a_cc_core_are_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
