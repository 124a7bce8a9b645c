/* pipeline/semaphores/met_waits: which record ends a wait that is longer than its counter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arch/opcode.h"
#include "base/file.h"
#include "pipeline/semaphores/met_waits.h"

#define COUNTED 50000.0 /* ns */

static char dir[64];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/kymo-waits.XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return kymo_file_remove_tree(dir, NULL);
}

struct met {
    uint64_t us;
    int target;
};

static struct met_waits *waits_of(const struct met *list, size_t n)
{
    struct met_waits *m = NULL;
    assert_int_equal(met_waits_open(dir, &m, NULL), 0);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(met_waits_add(m, list[i].us * 1000000, list[i].target, NULL), 0);
    assert_int_equal(met_waits_seal(m, NULL), 0);
    return m;
}

/* When the wait was met in us, -1: no record tells. */
static int find(struct met_waits *m, int target, uint64_t start_us, uint64_t end_us)
{
    uint64_t ps = 0;
    int r = met_waits_find(m, target, start_us * 1000000, COUNTED, end_us * 1000000, &ps, NULL);
    assert_true(r >= 0 && ps % 1000000 == 0);
    return r ? (int)(ps / 1000000) : -1;
}

static void test_find(void **state)
{
    static const struct met list[] = {{10, 3}, {70, 3}, {90, 4}, {100, 3}, {300, 3}, {400, 259}, {900, 3}};
    (void)state;
    struct met_waits *m = waits_of(list, sizeof list / sizeof *list);
    assert_int_equal(find(m, 3, 5, 80), 70); /* not 10: the counter says 50 at least */
    assert_int_equal(find(m, 3, 20, 95), -1);
    assert_int_equal(find(m, 3, 21, 100), 100); /* the end counts */
    assert_int_equal(find(m, 4, 22, 100), 90);  /* another target was met in between */
    assert_int_equal(find(m, 3, 200, 290), -1); /* its record was lost */
    assert_int_equal(find(m, 3, 295, 500), -1); /* 300 is too early to be its own */
    assert_int_equal(find(m, MET_WAITS_ANY, 310, 500), 400);
    assert_int_equal(find(m, 3, 600, 899), -1);
    assert_int_equal(find(m, 3, 700, 2000), 900);
    assert_int_equal(find(m, 3, 950, 3000), -1);
    met_waits_free(m);
    assert_int_equal(find(NULL, 3, 0, 1000), -1);
}

/* Of two that wait at the same time, the older one has the older record, and each record has one owner. */
static void test_owners(void **state)
{
    static const struct met list[] = {{100, 3}, {200, 3}, {200, 3}};
    (void)state;
    struct met_waits *m = waits_of(list, 3);
    assert_int_equal(find(m, 3, 0, 500), 100);
    assert_int_equal(find(m, 3, 10, 500), 200);
    assert_int_equal(find(m, 3, 20, 500), 200);
    assert_int_equal(find(m, 3, 30, 500), -1);
    met_waits_free(m);
}

/* A counter and its record may differ by a little, where clocks are corrected. */
static void test_slack(void **state)
{
    (void)state;
    struct met_waits *m = NULL;
    uint64_t ps = 0, counted = (uint64_t)COUNTED * 1000;
    assert_int_equal(met_waits_open(dir, &m, NULL), 0);
    assert_int_equal(met_waits_add(m, counted - MET_WAITS_SLACK_PS - 1, 3, NULL), 0);
    assert_int_equal(met_waits_add(m, counted - MET_WAITS_SLACK_PS, 3, NULL), 0);
    assert_int_equal(met_waits_seal(m, NULL), 0);
    assert_int_equal(met_waits_find(m, 3, 0, COUNTED, UINT64_MAX, &ps, NULL), 1);
    assert_true(ps == counted - MET_WAITS_SLACK_PS);
    met_waits_free(m);
}

/* Far more records than are held, of which few are asked for. */
static void test_many(void **state)
{
    (void)state;
    struct met_waits *m = NULL;
    assert_int_equal(met_waits_open(dir, &m, NULL), 0);
    for (uint64_t us = 0; us < 100000; us++)
        assert_int_equal(met_waits_add(m, us * 1000000, (int)(us % 500), NULL), 0);
    assert_int_equal(met_waits_seal(m, NULL), 0);
    for (int us = 0; us < 99000; us += 1000)
        assert_int_equal(find(m, (us + 60) % 500, (uint64_t)us, (uint64_t)us + 100), us + 60);
    met_waits_free(m);
}

static void test_target(void **state)
{
    uint8_t rec[KYMO_INSTR_SIZE] = {KYMO_OP_EVENT_SEMAPHORE};
    const struct kymo_sync second = {.wait_mode = KYMO_WAIT_EVT_SET, .wait_idx = 9};
    (void)state;
    assert_int_equal(met_waits_target(rec), MET_WAITS_ANY);
    kymo_instr_set_wait(rec, KYMO_WAIT_GE | KYMO_WAIT_REGISTER, 20, 1);
    assert_int_equal(met_waits_target(rec), 20);
    kymo_instr_set_sync2(rec, &second); /* the last one counts */
    assert_int_equal(met_waits_target(rec), 256 + 9);
    memset(rec, 0, sizeof rec);
    rec[0] = KYMO_OP_COPY;
    kymo_instr_set_wait(rec, KYMO_WAIT_UNORDERED, 20, 1); /* leaves no record */
    assert_int_equal(met_waits_target(rec), MET_WAITS_ANY);
    kymo_instr_set_wait(rec, KYMO_WAIT_EVT_CLEAR_SET, 20, 0);
    assert_int_equal(met_waits_target(rec), 256 + 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_find), cmocka_unit_test(test_owners),
                                       cmocka_unit_test(test_slack), cmocka_unit_test(test_many),
                                       cmocka_unit_test(test_target)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
