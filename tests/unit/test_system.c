/* pipeline/system*: pairs, clock readings and streams beyond their bounds, and failures on the way. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "pipeline/system/system_impl.h"
#include "tests/unit/systrace_sample.h"

static char dir[64];

static int set_up(void **state)
{
    struct kymo_err err = {0};
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/kymo-system.XXXXXX");
    return mkdtemp(dir) ? systrace_sample_write(dir, &err) : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return kymo_file_remove_tree(dir, NULL);
}

static struct system_open start_of(uint64_t tracking, uint64_t thread, uint16_t type, int64_t ts)
{
    return (struct system_open){.tracking = tracking, .thread = thread, .type = type, .ts = ts};
}

static void test_pairs(void **state)
{
    struct system_pairs *p = system_pairs_new();
    struct system_open o, evicted;
    struct kymo_err err = {0};
    (void)state;
    assert_non_null(p);
    for (int64_t i = 0; i < 3; i++) {
        o = start_of(5, 1, 3, i);
        assert_int_equal(system_pairs_open(p, &o, &evicted, &err), 0);
    }
    o = start_of(0, 1, 3, 10);
    assert_int_equal(system_pairs_open(p, &o, &evicted, &err), 0);
    o = start_of(5, 2, 3, 0);
    assert_true(system_pairs_close(p, &o, &evicted)); /* the thread does not matter; the newest first */
    assert_int_equal(evicted.ts, 2);
    o.type = 4;
    assert_false(system_pairs_close(p, &o, &evicted));
    o = start_of(0, 2, 3, 0);
    assert_false(system_pairs_close(p, &o, &evicted)); /* without a tracking id it does */
    o.thread = 1;
    assert_true(system_pairs_close(p, &o, &evicted));
    assert_int_equal(evicted.ts, 10);
    assert_true(system_pairs_take(p, &evicted));
    assert_int_equal(evicted.ts, 0); /* the oldest */
    system_pairs_free(p);
}

static void test_pairs_full(void **state)
{
    struct system_pairs *p = system_pairs_new();
    struct system_open o, evicted;
    struct kymo_err err = {0};
    (void)state;
    for (uint64_t i = 0; i < SYSTEM_OPEN_MAX + 100; i++) {
        o = start_of(i + 1, 1, 3, (int64_t)i);
        o.json = kymo_strdup("x");
        int r = system_pairs_open(p, &o, &evicted, &err);
        assert_int_equal(r, i >= SYSTEM_OPEN_MAX);
        if (r > 0) {
            assert_int_equal(evicted.ts, (int64_t)(i - SYSTEM_OPEN_MAX));
            system_open_done(&evicted);
        }
    }
    o = start_of(100, 1, 3, 0);
    assert_false(system_pairs_close(p, &o, &evicted));
    o = start_of(101, 1, 3, 0);
    assert_true(system_pairs_close(p, &o, &evicted));
    system_open_done(&evicted);
    system_pairs_free(p);
}

static void add_sync(struct system_syncs *s, uint32_t nc, uint64_t exec_id, int64_t device, int64_t cpu)
{
    struct kymo_err err = {0};
    assert_int_equal(
        system_syncs_add(s, &(struct system_sync){.nc = nc, .exec_id = exec_id, .device_ns = device, .cpu_ns = cpu},
                         &err),
        0);
}

static void test_syncs(void **state)
{
    struct system_syncs *s = system_syncs_new();
    uint64_t exec = 2, other = 9;
    int64_t ts;
    (void)state;
    add_sync(s, 1, 2, 200, 5200);
    add_sync(s, 1, 1, 100, 5000);
    add_sync(s, 0, 2, 100, 9000);
    system_syncs_sort(s);
    assert_true(system_syncs_convert(s, 1, &exec, 110, &ts)); /* its own execution's, though the other is nearer */
    assert_int_equal(ts, 5110);
    assert_true(system_syncs_convert(s, 1, &other, 110, &ts));
    assert_int_equal(ts, 5010);
    assert_true(system_syncs_convert(s, 1, NULL, 190, &ts));
    assert_int_equal(ts, 5190);
    assert_true(system_syncs_convert(s, 0, NULL, 50, &ts));
    assert_int_equal(ts, 8950);
    assert_true(system_syncs_convert(s, 0, NULL, INT64_MAX, &ts));
    assert_false(system_syncs_convert(s, 2, NULL, 50, &ts));
    system_syncs_free(s);
}

static void test_syncs_thinned(void **state)
{
    struct system_syncs *s = system_syncs_new();
    int64_t ts;
    (void)state;
    for (int64_t i = 0; i < 3 * (int64_t)SYSTEM_SYNCS_MAX; i++)
        add_sync(s, 0, (uint64_t)i, i * 10, i * 10 + 7);
    assert_true(system_syncs_thinned(s));
    system_syncs_sort(s);
    for (int64_t at = 0; at < 30 * (int64_t)SYSTEM_SYNCS_MAX; at += 999983) {
        assert_true(system_syncs_convert(s, 0, NULL, at, &ts));
        assert_int_equal(ts, at + 7);
    }
    system_syncs_free(s);
}

static void test_streams(void **state)
{
    struct system_streams *s = system_streams_new();
    (void)state;
    assert_null(system_streams_find(s, 1));
    for (uint64_t i = 0; i < SYSTEM_STREAMS_MAX; i++)
        assert_true(system_streams_add(s, i << 20, i % 2 ? "a" : "b"));
    assert_false(system_streams_add(s, 1, "c"));
    assert_true(system_streams_add(s, 3 << 20, "d")); /* it is there already */
    assert_string_equal(system_streams_find(s, 3 << 20), "d");
    assert_string_equal(system_streams_find(s, 4 << 20), "b");
    assert_null(system_streams_find(s, 1));
    system_streams_free(s);
}

static void test_text(void **state)
{
    struct system_text t = {.failed = false};
    static const char *const values[][2] = {
        {"0", "0"},         {"-12", "-12"}, {"007", "\"007\""},         {"-0", "\"-0\""},
        {"1.5", "\"1.5\""}, {"", "\"\""},   {"\xff\n", "\"?\\u000a\""}, {"1234567890123456", "\"1234567890123456\""}};
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char want[64];
        system_text_start(&t);
        system_text_member(&t, "p_", "k", values[i][0]);
        (void)snprintf(want, sizeof want, "\"p_k\":%s", values[i][1]);
        assert_int_equal(t.buf.len, strlen(want));
        assert_memory_equal(t.buf.data, want, t.buf.len);
    }
    kymo_buf_done(&t.buf);
}

/* Whatever allocation fails, the profile is whole or not there, and nothing is lost on the way. */
static void test_without_memory(void **state)
{
    char output[128];
    const struct system_options options = {.dir = dir, .output = output};
    struct system_result result;
    int r = -1;
    (void)state;
    (void)snprintf(output, sizeof output, "%s/tables", dir);
    for (long n = 0; r < 0 && n < 5000; n += n < 200 ? 1 : 13) {
        struct kymo_err err = {0};
        kymo_alloc_fail_after(n);
        r = system_run(&options, &result, &err);
        kymo_alloc_fail_after(-1);
        assert_true(r == 0 || access(output, F_OK) != 0);
        assert_true(r == 0 || *err.text);
    }
    assert_int_equal(r, 0);
    assert_int_equal(result.events, 7);
    assert_int_equal(result.partials, 1);
    assert_int_equal(result.samples, 5);
}

static int stop(void *ctx, enum process_stage stage, uint64_t done, uint64_t total)
{
    (void)ctx;
    (void)done;
    (void)total;
    return stage == PROCESS_SUMMARY;
}

static void test_stopped(void **state)
{
    char output[128];
    const struct system_options options = {.dir = dir, .output = output, .progress = stop};
    struct system_result result;
    struct kymo_err err = {0};
    (void)state;
    (void)snprintf(output, sizeof output, "%s/stopped", dir);
    assert_int_equal(system_run(&options, &result, &err), -ECANCELED);
    assert_int_not_equal(access(output, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),          cmocka_unit_test(test_pairs_full), cmocka_unit_test(test_syncs),
        cmocka_unit_test(test_syncs_thinned),  cmocka_unit_test(test_streams),    cmocka_unit_test(test_text),
        cmocka_unit_test(test_without_memory), cmocka_unit_test(test_stopped),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
