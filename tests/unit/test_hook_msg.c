/* The hook's protocol: versions, buckets, packets and triggers as the hook takes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "driver-iface/hook/hook_msg.h"

static struct kymo_hook_policy good(void)
{
    return (struct kymo_hook_policy){.header = {.size = sizeof(struct kymo_hook_policy), .type = KYMO_HOOK_POLICY},
                                     .version_min = 1,
                                     .version_max = 1,
                                     .version = 1,
                                     .mode = KYMO_HOOK_MODE_CONTINUOUS,
                                     .stall_limit_ns = 5};
}

static void test_versions(void **state)
{
    (void)state;
    assert_int_equal(kymo_hook_common_version(1, 1, 1, 1), 1);
    assert_int_equal(kymo_hook_common_version(1, 4, 3, 9), 4);
    assert_int_equal(kymo_hook_common_version(3, 9, 1, 4), 4);
    assert_int_equal(kymo_hook_common_version(1, 2, 3, 4), 0);
    assert_int_equal(kymo_hook_common_version(4, 1, 1, 9), 0); /* no range at all */
}

static void test_buckets(void **state)
{
    uint32_t last = 0;

    (void)state;
    assert_int_equal(kymo_hook_bucket(0), 0);
    assert_int_equal(kymo_hook_bucket(1023), 0);
    assert_int_equal(kymo_hook_bucket(1024), 1);
    assert_int_equal(kymo_hook_bucket(1279), 1);
    assert_int_equal(kymo_hook_bucket(1280), 2);
    assert_int_equal(kymo_hook_bucket(2048), 5);
    assert_int_equal(kymo_hook_bucket(UINT64_MAX), KYMO_HOOK_BUCKETS - 1);
    for (unsigned i = 0; i < 64; i++) {
        uint32_t b = kymo_hook_bucket(1ull << i);

        assert_true(b >= last && b < KYMO_HOOK_BUCKETS);
        last = b;
    }
}

static void test_policy(void **state)
{
    struct kymo_hook_policy p = good();
    union hook_msg got;

    (void)state;
    p.buffer_mb[0] = 64;
    p.buffer_mb[1] = KYMO_HOOK_BUFFER_MAX_MB + 1;
    assert_int_equal(hook_msg_parse(&p, sizeof p, sizeof p, &got), HOOK_MSG_POLICY);
    assert_int_equal(got.policy.version, 1);
    assert_int_equal(got.policy.mode, KYMO_HOOK_MODE_CONTINUOUS);
    assert_int_equal(got.policy.stall_limit_ns, 5);
    assert_int_equal(got.policy.buffer_mb[0], 64);
    assert_int_equal(got.policy.buffer_mb[1], KYMO_HOOK_BUFFER_LEAVE);
}

static void test_policy_is_clamped(void **state)
{
    struct kymo_hook_policy p = good();
    union hook_msg got;

    (void)state;
    p.mode = 77;
    p.stall_limit_ns = p.neff_max_bytes = p.neff_total_bytes = UINT64_MAX;
    p.hbm_core_count = p.hbm_device = p.hbm_core_first = UINT32_MAX;
    assert_int_equal(hook_msg_parse(&p, sizeof p, sizeof p, &got), HOOK_MSG_POLICY);
    assert_int_equal(got.policy.mode, KYMO_HOOK_MODE_NONE);
    assert_int_equal(got.policy.stall_limit_ns, HOOK_STALL_LIMIT_MAX_NS);
    assert_int_equal(got.policy.neff_max_bytes, HOOK_NEFF_MAX_BYTES);
    assert_int_equal(got.policy.hbm_core_count, 64);
    p.version = 3; /* not what the ranges give */
    assert_int_equal(hook_msg_parse(&p, sizeof p, sizeof p, &got), HOOK_MSG_POLICY);
    assert_int_equal(got.policy.version, 0);
}

static void test_neff_done(void **state)
{
    struct kymo_hook_neff_done done = {.header = {.size = sizeof done, .type = KYMO_HOOK_NEFF_DONE}, .model = 7};
    union hook_msg got;

    (void)state;
    assert_int_equal(hook_msg_parse(&done, sizeof done, sizeof done, &got), HOOK_MSG_NEFF_DONE);
    assert_int_equal(got.neff_done.model, 7);
    done.header.size = 20;
    assert_int_equal(hook_msg_parse(&done, 20, 20, &got), HOOK_MSG_BAD);
}

static void test_bad_packets(void **state)
{
    struct kymo_hook_policy p = good();
    union hook_msg got;
    uint8_t longer[KYMO_HOOK_PACKET_MAX] = {0};

    (void)state;
    assert_int_equal(hook_msg_parse(&p, 15, 15, &got), HOOK_MSG_BAD);
    assert_int_equal(hook_msg_parse(&p, sizeof p, sizeof p + 1, &got), HOOK_MSG_BAD);
    p.header.size = 100;
    assert_int_equal(hook_msg_parse(&p, 100, 100, &got), HOOK_MSG_BAD);
    p.header.type = 999;
    assert_int_equal(hook_msg_parse(&p, 100, 100, &got), HOOK_MSG_UNKNOWN);
    p.header.size = KYMO_HOOK_PACKET_MAX + 1;
    assert_int_equal(hook_msg_parse(&p, sizeof p, KYMO_HOOK_PACKET_MAX + 1, &got), HOOK_MSG_BAD);
    p = good();
    p.header.size = sizeof longer; /* a later version's */
    memcpy(longer, &p, sizeof p);
    assert_int_equal(hook_msg_parse(longer, sizeof longer, sizeof longer, &got), HOOK_MSG_POLICY);
}

static void test_ids(void **state)
{
    static const char *const bad[] = {"", ".", "..", ".x", "a/b", "a b", "\xc3\xa4"};
    char id[KYMO_HOOK_ID_MAX] = "job-1_a.B";

    (void)state;
    assert_true(hook_msg_id_valid(id));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)snprintf(id, sizeof id, "%s", bad[i]);
        assert_false(hook_msg_id_valid(id));
    }
    memset(id, 'a', sizeof id); /* without an end */
    assert_false(hook_msg_id_valid(id));
    id[KYMO_HOOK_ID_MAX - 1] = 0;
    assert_true(hook_msg_id_valid(id));
}

static void test_triggers(void **state)
{
    struct kymo_hook_trigger t = {.seq = 1, .mode = KYMO_HOOK_MODE_SESSION, .id = "x"}, got;

    (void)state;
    assert_true(hook_msg_trigger(&t, &got));
    assert_int_equal(got.count, 1);
    t.count = 9;
    assert_true(hook_msg_trigger(&t, &got));
    assert_int_equal(got.count, 9);
    t.mode = KYMO_HOOK_MODE_MODEL;
    assert_true(hook_msg_trigger(&t, &got));
    assert_int_equal(got.count, 1);
    t.mode = KYMO_HOOK_MODE_ON_FAILURE; /* armed by policy alone */
    assert_false(hook_msg_trigger(&t, &got));
    t.mode = 4000;
    assert_false(hook_msg_trigger(&t, &got));
    t.mode = KYMO_HOOK_MODE_SESSION;
    memset(t.id, 0xff, sizeof t.id);
    assert_false(hook_msg_trigger(&t, &got));
    assert_string_equal(got.id, "");
    t.mode = KYMO_HOOK_MODE_NONE;
    assert_true(hook_msg_trigger(&t, &got));
}

static void test_reasons(void **state)
{
    (void)state;
    assert_string_equal(hook_msg_reason(KYMO_HOOK_REASON_MEMORY), "too little device memory");
    assert_string_equal(hook_msg_reason(KYMO_HOOK_REASON_COUNT), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),  cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_policy),    cmocka_unit_test(test_policy_is_clamped),
        cmocka_unit_test(test_neff_done), cmocka_unit_test(test_bad_packets),
        cmocka_unit_test(test_ids),       cmocka_unit_test(test_triggers),
        cmocka_unit_test(test_reasons),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
