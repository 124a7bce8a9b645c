/* The command-line form of throttling and notices. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "driver-iface/sim/sim_notices.h"

static int parse(const char *throttle, const char *notice, struct sim_notices *ret)
{
    struct kymo_option_list t = {.n = throttle != NULL, .items = {throttle}};
    struct kymo_option_list n = {.n = notice != NULL, .items = {notice}};
    struct kymo_err err = {0};
    int r = sim_notices_parse(&t, &n, ret, &err);
    assert_int_equal(r < 0, err.text[0] != 0);
    return r;
}

static void test_sound(void **state)
{
    (void)state;
    struct sim_notices s;
    assert_int_equal(parse("activity_1:6/8@20.5+0.25~100#1", "sequencer_fatal@3", &s), 0);
    assert_int_equal(s.count, 2);
    const struct sim_notice *t = &s.rows[0], *n = &s.rows[1];
    assert_int_equal(t->kind, SIM_NOTICE_THROTTLE);
    assert_int_equal(t->id, 1);
    assert_int_equal(t->k, 6);
    assert_int_equal(t->n, 8);
    assert_int_equal(t->at_ps, 20500000);
    assert_int_equal(t->length_ps, 250000);
    assert_int_equal(t->period_ps, 100000000);
    assert_int_equal(t->core, 1);
    assert_int_equal(n->kind, SIM_NOTICE_TPB_ERROR);
    assert_int_equal(n->id, 10);
    assert_int_equal(n->at_ps, 3000000);
    assert_int_equal(n->core, SIM_NOTICE_ALL_CORES);
    assert_int_equal(parse(NULL, "custom-7@1", &s), 0);
    assert_int_equal(s.rows[0].kind, SIM_NOTICE_CUSTOM);
    assert_int_equal(s.rows[0].id, 7);
    assert_int_equal(parse(NULL, NULL, &s), 0);
    assert_int_equal(s.count, 0);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const throttles[] = {"",
                                            "activity_0",
                                            "activity_0:",
                                            "activity_2:1/2@1+1",
                                            "activity_0:0/2@1+1",
                                            "activity_0:3/2@1+1",
                                            "activity_0:1/256@1+1",
                                            "activity_0:1/2@1",
                                            "activity_0:1/2@1+0",
                                            "activity_0:1/2@1+4000001",
                                            "activity_0:1/2@1+2~2",
                                            "activity_0:1/2@1+0.01~0.05",
                                            "activity_0:1/2@1+2#2",
                                            "activity_0:1/2@1.1234567+2",
                                            "activity_0:1/2@-1+2",
                                            "activity_0:1/2@1+2 "};
    static const char *const notices[] = {"",          "nan",         "nan@",        "nano@1",    "custom@1",
                                          "custom-@1", "custom-16@1", "warning@1+2", "warning@x", "nan@99999999999999"};
    struct sim_notices s;
    for (size_t i = 0; i < sizeof throttles / sizeof *throttles; i++)
        assert_int_equal(parse(throttles[i], NULL, &s), -EINVAL);
    for (size_t i = 0; i < sizeof notices / sizeof *notices; i++)
        assert_int_equal(parse(NULL, notices[i], &s), -EINVAL);
}

static void test_too_many(void **state)
{
    (void)state;
    struct kymo_option_list none = {0}, many = {.n = SIM_NOTICES_MAX + 1};
    struct sim_notices s;
    struct kymo_err err = {0};
    for (size_t i = 0; i < many.n; i++)
        many.items[i] = "nan@1";
    assert_int_equal(sim_notices_parse(&none, &many, &s, &err), -EINVAL);
    many.n--;
    assert_int_equal(sim_notices_parse(&none, &many, &s, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
