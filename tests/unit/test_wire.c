#include "proto/wire.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "proto/control.h"
#include "proto/uplink.h"

static size_t count_bounds(const struct wire_protocol *p, const ProtobufCMessageDescriptor *in, const char *field)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_bounds; i++)
        n += p->bounds[i].in == in && strcmp(p->bounds[i].field, field) == 0;
    return n;
}

static void assert_bounded(const struct wire_protocol *p, const ProtobufCMessageDescriptor *d)
{
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        if (count_bounds(p, d, f->name) != 1)
            fail_msg("%s.%s: %zu rows of bounds, not 1", d->name, f->name, count_bounds(p, d, f->name));
        assert_int_not_equal(f->label, PROTOBUF_C_LABEL_REQUIRED);
        for (size_t k = 0; f->label == PROTOBUF_C_LABEL_REPEATED && k < p->n_bounds; k++)
            if (p->bounds[k].in == d && strcmp(p->bounds[k].field, f->name) == 0)
                assert_true(p->bounds[k].count > 0);
        if (f->type == PROTOBUF_C_TYPE_MESSAGE)
            assert_bounded(p, f->descriptor);
    }
}

/* Every field of every message that can arrive has exactly one row, and every row a field. */
static void test_every_field_is_bounded(void **state)
{
    (void)state;
    const struct wire_protocol *protocols[] = {&uplink_protocol, &control_protocol};
    for (size_t k = 0; k < 2; k++) {
        const struct wire_protocol *p = protocols[k];
        for (size_t i = 0; i < p->n_types; i++) {
            assert_bounded(p, p->types[i].message);
            for (size_t j = 0; j < i; j++)
                assert_int_not_equal(p->types[i].type, p->types[j].type);
        }
        for (size_t i = 0; i < p->n_bounds; i++) {
            assert_non_null(protobuf_c_message_descriptor_get_field_by_name(p->bounds[i].in, p->bounds[i].field));
            assert_true(p->bounds[i].min <= p->bounds[i].max);
        }
    }
}

static int unpack(enum wire_side from, uint16_t type, const void *bytes, size_t n, struct kymo_err *err)
{
    const struct frame f = {.type = type, .message = bytes, .message_len = (uint32_t)n};
    struct wire_message m = {0};
    int r = wire_unpack(&uplink_protocol, from, &f, &m, err);
    wire_message_done(&m);
    return r;
}

static void test_types(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    assert_int_equal(unpack(WIRE_SERVER, UPLINK_CREDIT, "\x08\x05", 2, &err), 1);
    assert_int_equal(unpack(WIRE_CLIENT, UPLINK_CREDIT, "\x08\x05", 2, &err), -EPROTO);
    assert_non_null(strstr(err.text, "kymo.uplink.credit"));
    assert_int_equal(unpack(WIRE_CLIENT, 999, "", 0, &err), -EPROTO);
    assert_int_equal(unpack(WIRE_CLIENT, 999 | FRAME_MAY_SKIP, "", 0, &err), 0);
    assert_int_equal(unpack(WIRE_CLIENT, UPLINK_DATA, "\x08\x01\x10\x00\x18\x00", 6, &err), -EPROTO);
    assert_non_null(strstr(err.text, "without raw bytes"));
    assert_int_equal(unpack(WIRE_SERVER, UPLINK_CREDIT, "\x08", 1, &err), -EBADMSG);
}

static void test_bounds(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    assert_int_equal(unpack(WIRE_SERVER, UPLINK_CREDIT, "", 0, &err), -ERANGE);
    assert_non_null(strstr(err.text, "kymo.uplink.credit.total: is missing"));
    assert_int_equal(unpack(WIRE_BOTH, WIRE_HELLO, "\x08\x00\x10\x01", 4, &err), -ERANGE);
    assert_non_null(strstr(err.text, "version_min"));
    assert_int_equal(unpack(WIRE_BOTH, WIRE_HELLO, "\x08\x01\x10\x01\x22\x02\xff\xff", 8, &err), -ERANGE);
    assert_non_null(strstr(err.text, "not UTF-8"));

    Kymo__Uplink__CaptureRequest request = KYMO__UPLINK__CAPTURE_REQUEST__INIT;
    static uint32_t cores[1025];
    request.has_request_id = 1;
    request.request_id = 1;
    request.cores = cores;
    request.n_cores = 1024;
    assert_int_equal(wire_check(&uplink_protocol, &request.base, &err), 0);
    request.n_cores = 1025;
    assert_int_equal(wire_check(&uplink_protocol, &request.base, &err), -ERANGE);
    assert_non_null(strstr(err.text, "cores: 1025 of them, at most 1024"));
    request.n_cores = 1024;
    cores[1023] = 70000;
    assert_int_equal(wire_check(&uplink_protocol, &request.base, &err), -ERANGE);
    cores[1023] = 0;
    char mode[66];
    memset(mode, 'm', 65);
    mode[65] = '\0';
    request.mode = mode;
    assert_int_equal(wire_check(&uplink_protocol, &request.base, &err), -ERANGE);
    assert_non_null(strstr(err.text, "mode: a length of 65, allowed are 1 to 64"));
}

/* A few bytes of hostile message must not unfold to much memory: empty items cost 2 bytes each. */
static void test_unfolding_is_capped(void **state)
{
    (void)state;
    size_t n = 1u << 20;
    uint8_t *bytes KYMO_FREE = kymo_malloc(n);
    for (size_t i = 0; i < n; i += 2) {
        bytes[i] = 0x22;
        bytes[i + 1] = 0;
    }
    struct kymo_err err = {0};
    assert_int_equal(unpack(WIRE_CLIENT, UPLINK_OFFER, bytes, n, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "unfold"));
}

/* The largest legal answer fits under the cap. */
static void test_largest_need_fits(void **state)
{
    (void)state;
    Kymo__Uplink__Want *wants KYMO_FREE = KYMO_NEW_ARRAY(Kymo__Uplink__Want, UPLINK_ITEMS_MAX);
    Kymo__Uplink__Want **list KYMO_FREE = KYMO_NEW_ARRAY(Kymo__Uplink__Want *, UPLINK_ITEMS_MAX);
    Kymo__Uplink__Need need = KYMO__UPLINK__NEED__INIT;
    need.has_ticket = 1;
    need.ticket = 1;
    need.n_wants = UPLINK_ITEMS_MAX;
    need.wants = list;
    for (uint32_t i = 0; i < UPLINK_ITEMS_MAX; i++) {
        list[i] = &wants[i];
        kymo__uplink__want__init(list[i]);
        wants[i].has_item = wants[i].has_offset = 1;
        wants[i].item = i;
    }
    struct kymo_buf out;
    kymo_buf_init(&out, FRAME_MESSAGE_MAX);
    assert_int_equal(wire_append(&uplink_protocol, &out, UPLINK_NEED, &need.base, NULL, NULL, NULL), 0);
    struct kymo_err err = {0};
    int r = unpack(WIRE_SERVER, UPLINK_NEED, out.data + FRAME_HEADER_SIZE, out.len - FRAME_HEADER_SIZE, &err);
    if (r != 1)
        fail_msg("%s", err.text);
    kymo_buf_done(&out);
}

static void test_unknown_fields_are_kept(void **state)
{
    (void)state;
    const uint8_t bytes[] = {0x08, 0x05, 0x9a, 0x06, 0x03, 'n', 'e', 'w'}; /* field 99 */
    const struct frame f = {.type = UPLINK_CREDIT, .message = bytes, .message_len = sizeof bytes};
    struct wire_message m = {0};
    assert_int_equal(wire_unpack(&uplink_protocol, WIRE_SERVER, &f, &m, NULL), 1);
    struct kymo_buf out;
    kymo_buf_init(&out, 100);
    assert_int_equal(wire_append(&uplink_protocol, &out, UPLINK_CREDIT, m.pb, NULL, NULL, NULL), 0);
    assert_int_equal(out.len, FRAME_HEADER_SIZE + sizeof bytes);
    assert_memory_equal(out.data + FRAME_HEADER_SIZE, bytes, sizeof bytes);
    kymo_buf_done(&out);
    wire_message_done(&m);
}

static void test_negotiation(void **state)
{
    (void)state;
    static const struct {
        struct wire_range ours, theirs;
        uint32_t version;
    } rows[] = {
        {{1, 1}, {1, 1}, 1}, {{1, 1}, {1, 9}, 1}, {{2, 5}, {1, 3}, 3}, {{1, 3}, {2, 5}, 3},
        {{2, 2}, {1, 1}, 0}, {{1, 2}, {3, 4}, 0}, {{1, 4}, {3, 2}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t version = 0;
        struct kymo_err err = {0};
        int r = wire_negotiate(&rows[i].ours, &rows[i].theirs, &version, &err);
        assert_int_equal(r, rows[i].version ? 0 : -EPROTONOSUPPORT);
        assert_int_equal(version, rows[i].version);
        assert_true(r == 0 || strstr(err.text, "no common version"));
    }
}

static void test_names(void **state)
{
    (void)state;
    assert_true(wire_is_id("a.B-_9"));
    assert_false(wire_is_id(""));
    assert_false(wire_is_id(".."));
    assert_false(wire_is_id("a/b"));
    assert_false(wire_is_id("12345678901234567890123456789012345678901234567890123456789012345"));
    const char *good[] = {"a", "a/b.ntff", "..a", "a b"};
    const char *bad[] = {"", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "a\nb", "a\x7f"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(uplink_is_name(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(uplink_is_name(bad[i]));
    assert_int_equal(uplink_reason(-EBUSY), KYMO__WIRE__REFUSAL__REASON__BUSY);
    assert_int_equal(uplink_reason(-ENOSPC), KYMO__WIRE__REFUSAL__REASON__FULL);
    assert_int_equal(uplink_reason(-EIO), KYMO__WIRE__REFUSAL__REASON__IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_field_is_bounded),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_unfolding_is_capped),
        cmocka_unit_test(test_largest_need_fits),
        cmocka_unit_test(test_unknown_fields_are_kept),
        cmocka_unit_test(test_negotiation),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
