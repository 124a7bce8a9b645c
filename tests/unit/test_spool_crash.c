/*
 * The spool's promise under failure: every operation that changes the disk fails in turn, and the power is cut at every
 * one, with what survives chosen in several ways; then the spool must open and its account must close.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "daemon/spool/spool.h"
#include "tests/unit/shadow_fs.h"
#include "tests/unit/spool_story.h"

#define SEEDS 1 /* of SHADOW_SOME at each cut */

static char top[64], spool[80], intake[80], after[80];

static int setup(void **state)
{
    (void)state;
    /* Memory, where there is some: nothing here needs a disk. */
    (void)snprintf(top, sizeof top, "%s/kymo-spool-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(top))
        return -1;
    (void)snprintf(spool, sizeof spool, "%s/root", top);
    (void)snprintf(intake, sizeof intake, "%s/intake", top);
    (void)snprintf(after, sizeof after, "%s/after", top);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return kymo_file_remove_tree(top, NULL);
}

static void begin(void)
{
    assert_int_equal(kymo_file_remove_tree(spool, NULL), 0);
    assert_int_equal(kymo_file_remove_tree(intake, NULL), 0);
    assert_int_equal(mkdir(spool, 0700), 0);
    assert_int_equal(mkdir(intake, 0700), 0);
    shadow_start(spool);
}

static void check(const struct story *st, enum shadow_survival survival, uint64_t seed, const char *what, long at)
{
    assert_int_equal(kymo_file_remove_tree(after, NULL), 0);
    shadow_lay_out(after, survival, seed);
    const char *bad = story_check(st, after);
    if (bad)
        fail_msg("%s %ld, survival %d, seed %llu: %s", what, at, (int)survival, (unsigned long long)seed, bad);
}

static long count_operations(void)
{
    struct story st;
    begin();
    story_run(&st, spool, intake);
    shadow_stop();
    check(&st, SHADOW_SYNCED, 0, "no failure", 0);
    size_t published = 0, done = 0;
    for (size_t i = 0; i < STORY_CAPTURES; i++) {
        published += st.captures[i].published;
        done += st.captures[i].done;
    }
    assert_int_equal(published, STORY_CAPTURES - 1);
    assert_int_equal(done, 4);
    assert_true(st.reported > 0);
    return shadow_operations();
}

static void test_power_cut_at_every_operation(void **state)
{
    (void)state;
    long n = count_operations();
    assert_true(n > 200);
    for (long at = 1; at <= n + 1; at++) {
        struct story st;
        begin();
        shadow_cut_power(at);
        story_run(&st, spool, intake);
        shadow_stop();
        check(&st, SHADOW_SYNCED, 0, "power cut at", at);
        check(&st, SHADOW_ALL, 0, "power cut at", at);
        for (uint64_t seed = 1; seed <= SEEDS; seed++)
            check(&st, SHADOW_SOME, seed * 1000 + (uint64_t)at, "power cut at", at);
    }
    print_message("power cut at each of %ld operations, %d disks each\n", n, SEEDS + 2);
}

static void fail_each(int cause, const char *what)
{
    long n = count_operations();
    for (long at = 1; at <= n; at++) {
        struct story st;
        begin();
        shadow_fail(at, cause);
        story_run(&st, spool, intake);
        shadow_stop();
        check(&st, at % 2 ? SHADOW_SYNCED : SHADOW_SOME, (uint64_t)at, what, at);
    }
    print_message("%s: each of %ld operations\n", what, n);
}

static void test_every_operation_fails_with_eio(void **state)
{
    (void)state;
    fail_each(EIO, "EIO at");
}

static void test_every_operation_finds_the_disk_full(void **state)
{
    (void)state;
    fail_each(ENOSPC, "ENOSPC at");
}

static void test_every_write_is_short(void **state)
{
    (void)state;
    fail_each(0, "short write at");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power_cut_at_every_operation),
        cmocka_unit_test(test_every_operation_fails_with_eio),
        cmocka_unit_test(test_every_operation_finds_the_disk_full),
        cmocka_unit_test(test_every_write_is_short),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
