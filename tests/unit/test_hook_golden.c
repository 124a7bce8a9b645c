/*
 * Packets between hook and daemon under tests/golden/hook, heard by both sides: those of version 1, which keep their
 * bytes for ever, and those of a later version, which are longer and of types that nobody knows yet.
 * --write DIR makes them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "daemon/hook_packet.h"
#include "driver-iface/hook/hook_msg.h"

#define DIR "tests/golden/hook"
#define STREAM_MAX (1u << 20)
#define MORE 40 /* bytes that a later version's packets have behind what version 1 knows */

/* WORDS: version 1, with words that were reserved at first. DONE: with NEFF_DONE. */
enum age { FIRST, WORDS, DONE, NEWER };

static bool has_words(enum age age)
{
    return age == WORDS || age == DONE;
}

/* ---- what is said ---- */

static void add(struct kymo_buf *b, const void *packet, size_t n, enum age age)
{
    struct kymo_hook_header header;
    uint8_t more[MORE];
    memset(more, 0xa5, sizeof more);
    memcpy(&header, packet, sizeof header);
    header.size = (uint32_t)(n + (age == NEWER ? sizeof more : 0));
    assert_int_equal(kymo_buf_append(b, &header, sizeof header), 0);
    assert_int_equal(kymo_buf_append(b, (const uint8_t *)packet + sizeof header, n - sizeof header), 0);
    if (age == NEWER)
        assert_int_equal(kymo_buf_append(b, more, sizeof more), 0);
}

static void add_unknown(struct kymo_buf *b, uint16_t type)
{
    struct kymo_hook_header header = {.size = sizeof header + 3, .type = type, .version = 1, .seq = 99};
    assert_int_equal(kymo_buf_append(b, &header, sizeof header), 0);
    assert_int_equal(kymo_buf_append(b, "new", 3), 0);
}

static struct kymo_hook_header head(uint16_t type, uint16_t version, uint64_t seq)
{
    return (struct kymo_hook_header){.type = type, .version = version, .seq = seq};
}

static void say_hello(struct kymo_buf *b, enum age age)
{
    struct kymo_hook_hello m = {.header = head(KYMO_HOOK_HELLO, 0, 1),
                                .version_min = 1,
                                .version_max = age == NEWER ? 2 : 1,
                                .pid = 4711,
                                .flags = KYMO_HOOK_HELLO_ASYNC,
                                .page_size = sizeof(struct kymo_hook_page),
                                .start_unix_ns = 1700000000000000001u,
                                .start_mono_ns = 5000000000u,
                                .hook_version = "0.1.0",
                                .program = "python3"};
    add(b, &m, sizeof m, age);
}

static void say_loads(struct kymo_buf *b, enum age age)
{
    struct kymo_hook_state_msg state = {.header = head(KYMO_HOOK_STATE, 1, 2),
                                        .state = KYMO_HOOK_RUN_READY,
                                        .armed = KYMO_HOOK_MODE_CONTINUOUS,
                                        .buffers_user = 2,
                                        .buffers_ours = 5,
                                        .question_us = 700,
                                        .answered = 1,
                                        .step_model = has_words(age) ? 3 : 0};
    const uint32_t version[4] = {2, 33, 41, 7};
    struct kymo_hook_loaded loaded = {.header = head(KYMO_HOOK_LOADED, 1, 3),
                                      .model = 1,
                                      .vnc = 4,
                                      .vnc_count = 2,
                                      .flags = KYMO_HOOK_NEFF_ATTACHED,
                                      .neff_bytes = 123456,
                                      .ctx_device = 1,
                                      .ctx_devices = 16,
                                      .unix_ns = 1700000000000000002u,
                                      .slot = 0};
    struct kymo_hook_unloaded unloaded = {.header = head(KYMO_HOOK_UNLOADED, 1, 6), .model = 1, .executions = 1000};
    if (has_words(age))
        memcpy(state.runtime_version, version, sizeof version);
    add(b, &state, sizeof state, age);
    add(b, &loaded, sizeof loaded, age);
    add(b, &unloaded, sizeof unloaded, age);
}

static void say_captures(struct kymo_buf *b, enum age age)
{
    struct kymo_hook_captured captured = {.header = head(KYMO_HOOK_CAPTURED, 1, 4),
                                          .id = "capture-1",
                                          .mode = KYMO_HOOK_MODE_SESSION,
                                          .asked = KYMO_HOOK_MODE_MODEL,
                                          .flags = KYMO_HOOK_CAPTURE_FALLBACK,
                                          .model = 1,
                                          .first_execution = 50,
                                          .executions = 3,
                                          .start_unix_ns = 1700000000000000003u,
                                          .end_unix_ns = 1700000000000000004u,
                                          .stall_ns = 9000000,
                                          .stall_max_ns = 8000000};
    struct kymo_hook_refused refused = {.header = head(KYMO_HOOK_REFUSED, 1, 5),
                                        .id = "capture-2",
                                        .reason = KYMO_HOOK_REASON_MEMORY,
                                        .mode = KYMO_HOOK_MODE_CONTINUOUS,
                                        .text = "needs 100, has 50"};
    add(b, &captured, sizeof captured, age);
    add(b, &refused, sizeof refused, age);
}

static void say_as_hook(struct kymo_buf *b, enum age age)
{
    say_hello(b, age);
    if (age == NEWER)
        add_unknown(b, 7);
    say_loads(b, age);
    say_captures(b, age);
    if (age == NEWER)
        add_unknown(b, UINT16_MAX);
}

static void say_as_daemon(struct kymo_buf *b, enum age age)
{
    struct kymo_hook_policy m = {.header = head(KYMO_HOOK_POLICY, 1, 1),
                                 .version_min = 1,
                                 .version_max = age == NEWER ? 2 : 1,
                                 .version = 1,
                                 .mode = KYMO_HOOK_MODE_CONTINUOUS,
                                 .step_model = has_words(age) ? 3 : 0,
                                 .stall_limit_ns = 20000000,
                                 .neff_max_bytes = 1u << 30,
                                 .neff_total_bytes = 2u << 30,
                                 .hbm_need_bytes = 3u << 20,
                                 .hbm_capacity_bytes = 4u << 20,
                                 .hbm_device = 1,
                                 .hbm_core_first = 2,
                                 .hbm_core_count = 2};
    struct kymo_hook_neff_done done = {.header = head(KYMO_HOOK_NEFF_DONE, 1, 2), .model = 5};
    for (size_t i = 0; i < KYMO_HOOK_BUFFERS; i++)
        m.buffer_mb[i] = i ? KYMO_HOOK_BUFFER_LEAVE : 64;
    if (age == NEWER)
        add_unknown(b, 65);
    if (age == DONE)
        m.flags = KYMO_HOOK_POLICY_NEFF_DONE;
    add(b, &m, sizeof m, age);
    if (age == DONE)
        add(b, &done, sizeof done, age);
}

/* ---- the files ---- */

static const struct {
    const char *name;
    bool daemon;
    enum age age;
} files[] = {{"hook-v1.hook", false, FIRST},       {"hook-v1.daemon", true, FIRST},
             {"hook-v1-words.hook", false, WORDS}, {"hook-v1-words.daemon", true, WORDS},
             {"hook-v1-done.hook", false, DONE},   {"hook-v1-done.daemon", true, DONE},
             {"hook-newer.hook", false, NEWER},    {"hook-newer.daemon", true, NEWER}};
static const char *const from_hooks[] = {"hook-v1.hook", "hook-v1-words.hook", "hook-v1-done.hook", "hook-newer.hook"};
static const char *const from_daemons[] = {"hook-v1.daemon", "hook-v1-words.daemon", "hook-v1-done.daemon",
                                           "hook-newer.daemon"};

static void say(struct kymo_buf *b, size_t file)
{
    kymo_buf_init(b, STREAM_MAX);
    if (files[file].daemon)
        say_as_daemon(b, files[file].age);
    else
        say_as_hook(b, files[file].age);
}

static uint8_t *golden(const char *name, size_t *ret_n)
{
    char path[128];
    uint8_t *data;
    struct kymo_err err = {0};
    (void)snprintf(path, sizeof path, "%s/%s", DIR, name);
    if (kymo_file_read_all(path, STREAM_MAX, &data, ret_n, &err) < 0)
        fail_msg("%s", err.text);
    return data;
}

/* The packet at *at, with its length. */
static const uint8_t *next(const uint8_t *data, size_t n, size_t *at, size_t *ret_len)
{
    uint32_t size;
    if (*at == n)
        return NULL;
    memcpy(&size, data + *at, sizeof size);
    assert_true(size >= sizeof(struct kymo_hook_header) && size <= n - *at);
    *at += *ret_len = size;
    return data + *at - size;
}

/* ---- tests ---- */

/* Structures that somebody changes no longer say these bytes. */
static void test_bytes_stay(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct kymo_buf b;
        size_t n;
        uint8_t *data KYMO_FREE = golden(files[i].name, &n);
        say(&b, i);
        assert_int_equal(b.len, n);
        assert_memory_equal(b.data, data, n);
        kymo_buf_done(&b);
    }
}

static void check_heard(const union hook_packet *p, enum age age)
{
    switch (p->header.type) {
    case KYMO_HOOK_HELLO:
        assert_int_equal(p->hello.pid, 4711);
        assert_string_equal(p->hello.program, "python3");
        assert_int_equal(p->hello.version_max, age == NEWER ? 2 : 1);
        assert_int_equal(kymo_hook_common_version(p->hello.version_min, p->hello.version_max, 1, 1), 1);
        break;
    case KYMO_HOOK_STATE:
        assert_int_equal(p->state.state, KYMO_HOOK_RUN_READY);
        assert_int_equal(p->state.question_us, 700);
        assert_int_equal(p->state.step_model, has_words(age) ? 3 : 0);
        assert_int_equal(p->state.runtime_version[2], has_words(age) ? 41 : 0);
        break;
    case KYMO_HOOK_LOADED:
        assert_int_equal(p->loaded.neff_bytes, 123456);
        assert_int_equal(p->loaded.ctx_devices, 16);
        break;
    case KYMO_HOOK_UNLOADED:
        assert_int_equal(p->unloaded.executions, 1000);
        break;
    case KYMO_HOOK_CAPTURED:
        assert_string_equal(p->captured.id, "capture-1");
        assert_int_equal(p->captured.stall_max_ns, 8000000);
        break;
    case KYMO_HOOK_REFUSED:
        assert_int_equal(p->refused.reason, KYMO_HOOK_REASON_MEMORY);
        assert_string_equal(p->refused.text, "needs 100, has 50");
        break;
    default:
        fail_msg("type %u", p->header.type);
    }
}

/* Today's daemon hears hooks of version 1 and of a later one alike. */
static void test_daemon_hears(void **state)
{
    (void)state;
    for (enum age age = FIRST; age <= NEWER; age++) {
        size_t n, len, at = 0, known = 0, skipped = 0;
        uint8_t *data KYMO_FREE = golden(from_hooks[age], &n);
        for (const uint8_t *p; (p = next(data, n, &at, &len));) {
            union hook_packet packet;
            struct kymo_err err = {0};
            int r = hook_packet_parse(p, len, len, &packet, &err);
            if (r < 0)
                fail_msg("%s", err.text);
            known += r == 1;
            skipped += r == 0;
            if (r == 1)
                check_heard(&packet, age);
        }
        assert_int_equal(known, 6);
        assert_int_equal(skipped, age == NEWER ? 2 : 0);
    }
}

/* A reason of a later hook is no broken packet. */
static void test_daemon_hears_later_reasons(void **state)
{
    (void)state;
    struct kymo_hook_refused refused = {.header = head(KYMO_HOOK_REFUSED, 1, 1), .id = "capture-2", .reason = 4000};
    union hook_packet packet;
    struct kymo_err err = {0};
    refused.header.size = sizeof refused;
    assert_int_equal(hook_packet_parse(&refused, sizeof refused, sizeof refused, &packet, &err), 1);
    assert_int_equal(packet.refused.reason, 4000);
    assert_string_equal(hook_packet_reason(packet.refused.reason), "unknown");
}

/* Today's hook hears daemons of version 1 and of a later one alike. */
static void test_hook_hears(void **state)
{
    (void)state;
    for (enum age age = FIRST; age <= NEWER; age++) {
        size_t n, len, at = 0, known = 0, skipped = 0, done = 0;
        uint8_t *data KYMO_FREE = golden(from_daemons[age], &n);
        for (const uint8_t *p; (p = next(data, n, &at, &len));) {
            union hook_msg msg;
            enum hook_msg_kind kind = hook_msg_parse(p, len, len, &msg);
            assert_int_not_equal(kind, HOOK_MSG_BAD);
            skipped += kind == HOOK_MSG_UNKNOWN;
            done += kind == HOOK_MSG_NEFF_DONE && msg.neff_done.model == 5;
            if (kind != HOOK_MSG_POLICY)
                continue;
            const struct kymo_hook_policy policy = msg.policy;
            known++;
            assert_int_equal(policy.version, 1);
            assert_int_equal(policy.mode, KYMO_HOOK_MODE_CONTINUOUS);
            assert_int_equal(policy.stall_limit_ns, 20000000);
            assert_int_equal(policy.step_model, has_words(age) ? 3 : 0);
            assert_int_equal(policy.buffer_mb[0], 64);
            assert_int_equal(policy.buffer_mb[6], KYMO_HOOK_BUFFER_LEAVE);
        }
        assert_int_equal(known, 1);
        assert_int_equal(done, age == DONE ? 1 : 0);
        assert_int_equal(skipped, age == NEWER ? 1 : 0);
    }
}

/* A packet that lost its end, or whose size is not its length, ends the connection on either side. */
static void test_cut_packets(void **state)
{
    (void)state;
    size_t n, len, at = 0;
    uint8_t *data KYMO_FREE = golden("hook-v1.hook", &n);
    for (const uint8_t *p; (p = next(data, n, &at, &len));)
        for (size_t cut = 0; cut < len; cut++) {
            union hook_packet packet;
            uint8_t *copy KYMO_FREE = kymo_malloc(len);
            memcpy(copy, p, len);
            assert_true(hook_packet_parse(copy, cut, cut, &packet, NULL) < 0);
            if (cut < sizeof(struct kymo_hook_header))
                continue;
            uint32_t size = (uint32_t)cut;
            memcpy(copy, &size, sizeof size);
            assert_true(hook_packet_parse(copy, cut, cut, &packet, NULL) < 0);
        }
}

static int write_all(const char *dir)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct kymo_buf b;
        char path[256];
        say(&b, i);
        (void)snprintf(path, sizeof path, "%s/%s", dir, files[i].name);
        int r = kymo_file_write_atomic(path, b.data, b.len, NULL);
        kymo_buf_done(&b);
        if (r < 0)
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        return write_all(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_stay),
        cmocka_unit_test(test_daemon_hears),
        cmocka_unit_test(test_daemon_hears_later_reasons),
        cmocka_unit_test(test_hook_hears),
        cmocka_unit_test(test_cut_packets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
