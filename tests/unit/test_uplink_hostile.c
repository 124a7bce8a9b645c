/* Ends of the uplink against peers that break the rules: each is refused with its reason, in bounded memory. */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/le.h"
#include "proto/uplink_recv.h"
#include "proto/uplink_send.h"

#define WINDOW 1000u

/* A store that takes all and counts; a spool of bytes that are all the same. */
struct fixture {
    struct uplink_recv *recv;
    struct uplink_send *send;
    unsigned offers, drops, dones, stored, refused, taken_bytes;
    int why;
};

static int store_offer(void *ctx, const Kymo__Uplink__Offer *offer, uint64_t *offsets, void **ret_handle,
                       struct kymo_err *err)
{
    struct fixture *x = ctx;
    (void)offer;
    (void)err;
    if (offer->n_items)
        offsets[0] = 0;
    *ret_handle = (char *)x + ++x->offers;
    return UPLINK_RECV_NOW;
}

static int store_write(void *ctx, void *handle, uint32_t item, uint64_t offset, const void *data, size_t n,
                       struct kymo_err *err)
{
    struct fixture *x = ctx;
    (void)handle;
    (void)item;
    (void)offset;
    (void)data;
    (void)err;
    x->taken_bytes += (unsigned)n;
    return UPLINK_RECV_LATER;
}

static int store_done(void *ctx, void *handle, struct kymo_err *err)
{
    struct fixture *x = ctx;
    (void)handle;
    (void)err;
    x->dones++;
    return UPLINK_RECV_LATER;
}

static void store_drop(void *ctx, void *handle)
{
    struct fixture *x = ctx;
    (void)handle;
    x->drops++;
}

static const struct uplink_recv_ops store = {
    .offer = store_offer, .write = store_write, .done = store_done, .drop = store_drop};

static int spool_read(void *ctx, void *handle, uint32_t item, uint64_t offset, void *buf, size_t n,
                      struct kymo_err *err)
{
    (void)ctx;
    (void)handle;
    (void)item;
    (void)offset;
    (void)err;
    memset(buf, 'x', n);
    return 0;
}

static void spool_stored(void *ctx, void *handle)
{
    struct fixture *x = ctx;
    (void)handle;
    x->stored++;
}

static void spool_refused(void *ctx, void *handle, int why, const char *text)
{
    struct fixture *x = ctx;
    (void)handle;
    (void)text;
    x->refused++;
    x->why = why;
}

static const struct uplink_send_ops spool = {
    .read = spool_read, .on_stored = spool_stored, .on_refused = spool_refused};

static int setup(void **state)
{
    static struct fixture x;
    memset(&x, 0, sizeof x);
    const struct uplink_recv_config rc = {.window = WINDOW, .zstd = true, .ops = &store, .ctx = &x};
    const struct uplink_send_config sc = {.chunk = 100, .ops = &spool, .ctx = &x};
    *state = &x;
    return uplink_recv_new(&rc, &x.recv, NULL) < 0 || uplink_send_new(&sc, &x.send, NULL) < 0;
}

static int teardown(void **state)
{
    struct fixture *x = *state;
    uplink_recv_free(x->recv);
    uplink_send_free(x->send);
    return 0;
}

/* Feeds one end a frame of hand-made bytes: message is protobuf in C string form. */
static int put(struct fixture *x, bool to_recv, uint16_t type, const char *message, size_t n, const struct frame *raw,
               struct kymo_err *err)
{
    struct kymo_buf b;
    kymo_buf_init(&b, 4u << 20);
    struct frame f = raw ? *raw : (struct frame){0};
    f.type = type;
    f.message = (const uint8_t *)message;
    f.message_len = (uint32_t)n;
    assert_int_equal(frame_append(&b, &f, NULL), 0);
    int r = to_recv ? uplink_recv_feed(x->recv, b.data, b.len, err) : uplink_send_feed(x->send, b.data, b.len, err);
    kymo_buf_done(&b);
    return r;
}

#define TO_RECV(type, text, err) put(x, true, type, text, sizeof(text) - 1, NULL, err)
#define TO_SEND(type, text, err) put(x, false, type, text, sizeof(text) - 1, NULL, err)
#define HELLO "\x08\x01\x10\x01\x18\x01"

static void put_data(struct fixture *x, uint32_t ticket, uint32_t item, uint64_t offset, uint32_t n, int code,
                     const char *text)
{
    static uint8_t bytes[FRAME_RAW_MAX];
    Kymo__Uplink__Data data = KYMO__UPLINK__DATA__INIT;
    data.has_ticket = data.has_item = data.has_offset = 1;
    data.ticket = ticket;
    data.item = item;
    data.offset = offset;
    char message[64];
    size_t len = kymo__uplink__data__pack(&data, (uint8_t *)message);
    const struct frame raw = {.raw = bytes, .raw_len = n, .plain_len = n};
    struct kymo_err err = {0};
    int r = put(x, true, UPLINK_DATA, message, len, &raw, &err);
    if (r != code || (code && !strstr(err.text, text)))
        fail_msg("%d: %s; expected %d: %s", r, err.text, code, text);
}

/* The last frame that waits at the receiving end is a refusal that names the reason. */
static void assert_told(const struct fixture *x, const char *text)
{
    const uint8_t *out;
    size_t n;
    uplink_recv_out(x->recv, &out, &n);
    assert_non_null(memmem(out, n, text, strlen(text)));
}

/* hello, and an offer with ticket 5: one item "a" of 2,000 bytes. */
static void offer(struct fixture *x, uint32_t ticket)
{
    uint8_t sha256[UPLINK_SHA256_SIZE] = {0};
    char name[] = "a", id[WIRE_ID_MAX + 1];
    (void)snprintf(id, sizeof id, "c%u", ticket);
    Kymo__Uplink__Item item = KYMO__UPLINK__ITEM__INIT;
    Kymo__Uplink__Item *list[] = {&item};
    item.name = name;
    item.has_size = item.has_sha256 = 1;
    item.size = 2000;
    item.sha256 = (ProtobufCBinaryData){sizeof sha256, sha256};
    Kymo__Uplink__Offer m = KYMO__UPLINK__OFFER__INIT;
    m.has_ticket = m.has_manifest = 1;
    m.ticket = ticket;
    m.capture_id = id;
    m.manifest = (ProtobufCBinaryData){1, sha256};
    m.items = list;
    m.n_items = 1;
    char message[200];
    size_t n = kymo__uplink__offer__pack(&m, (uint8_t *)message);
    assert_int_equal(put(x, true, UPLINK_OFFER, message, n, NULL, NULL), 0);
}

static void greet(struct fixture *x)
{
    assert_int_equal(TO_RECV(WIRE_HELLO, HELLO, NULL), 0);
}

static void test_order_at_the_collector(void **state)
{
    struct fixture *x = *state;
    struct kymo_err err = {0};
    assert_int_equal(TO_RECV(UPLINK_DONE, "\x08\x01", &err), -EPROTO);
    assert_non_null(strstr(err.text, "before hello"));
    assert_told(x, "before hello");
    /* It stays so. */
    assert_int_equal(TO_RECV(WIRE_HELLO, HELLO, &err), -EPROTO);
}

static void test_second_hello(void **state)
{
    struct fixture *x = *state;
    struct kymo_err err = {0};
    greet(x);
    assert_int_equal(TO_RECV(WIRE_HELLO, HELLO, &err), -EPROTO);
    assert_non_null(strstr(err.text, "second hello"));
}

static void test_no_common_version(void **state)
{
    struct fixture *x = *state;
    struct kymo_err err = {0};
    assert_int_equal(TO_RECV(WIRE_HELLO, "\x08\x02\x10\x09", &err), -EPROTONOSUPPORT);
    assert_told(x, "no common version: here 1 to 1, there 2 to 9");
}

static void test_before_hello_frames_are_small(void **state)
{
    struct fixture *x = *state;
    static char long_name[5000];
    struct kymo_err err = {0};
    assert_int_equal(put(x, true, WIRE_HELLO, long_name, sizeof long_name, NULL, &err), -EMSGSIZE);
    assert_non_null(strstr(err.text, "more than 4096"));
}

static void test_huge_lengths(void **state)
{
    struct fixture *x = *state;
    greet(x);
    uint8_t h[FRAME_HEADER_SIZE] = {0xff, 0xff, 0xff, 0xff, 4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, UPLINK_DATA, 0, 0, 1};
    kymo_put_le32(h + 16, kymo_crc32c(0, h, 16));
    struct kymo_err err = {0};
    assert_int_equal(uplink_recv_feed(x->recv, h, sizeof h, &err), -EMSGSIZE);
}

static void test_tickets(void **state)
{
    struct fixture *x = *state;
    greet(x);
    offer(x, 5);
    put_data(x, 6, 0, 0, 10, -EPROTO, "ticket 6 was never offered");
    /* What was under way is given back to the store once. */
    assert_int_equal(x->drops, 1);
    assert_int_equal(uplink_recv_captures(x->recv), 0);
}

static void test_ticket_goes_back(void **state)
{
    struct fixture *x = *state;
    greet(x);
    offer(x, 5);
    struct kymo_err err = {0};
    assert_int_equal(TO_RECV(UPLINK_OFFER, "\x08\x05\x12\x01x\x1a\x01m", &err), -EPROTO);
    assert_non_null(strstr(err.text, "ticket 5 behind 5"));
}

static void test_gap(void **state)
{
    struct fixture *x = *state;
    greet(x);
    offer(x, 5);
    put_data(x, 5, 0, 0, 10, 0, NULL);
    put_data(x, 5, 0, 11, 10, -EPROTO, "10 bytes at 11, expected at 10 of 2000");
}

static void test_wrong_item(void **state)
{
    struct fixture *x = *state;
    greet(x);
    offer(x, 5);
    put_data(x, 5, 1, 0, 10, -EPROTO, "item 1 of 1");
}

static void test_credit_is_a_limit(void **state)
{
    struct fixture *x = *state;
    greet(x);
    offer(x, 5);
    put_data(x, 5, 0, 0, WINDOW, 0, NULL);
    assert_int_equal(x->taken_bytes, WINDOW);
    put_data(x, 5, 0, WINDOW, 1, -EPROTO, "credit for 0");
}

static void test_credit_comes_back(void **state)
{
    struct fixture *x = *state;
    greet(x);
    offer(x, 5);
    put_data(x, 5, 0, 0, WINDOW, 0, NULL);
    assert_int_equal(uplink_recv_taken(x->recv, WINDOW + 1, NULL), -EINVAL);
    assert_int_equal(uplink_recv_taken(x->recv, WINDOW, NULL), 0);
    put_data(x, 5, 0, WINDOW, WINDOW, 0, NULL);
    put_data(x, 5, 0, 2 * WINDOW, 1, -EPROTO, "credit for 0");
}

static void test_done_too_early(void **state)
{
    struct fixture *x = *state;
    greet(x);
    offer(x, 5);
    put_data(x, 5, 0, 0, 10, 0, NULL);
    struct kymo_err err = {0};
    assert_int_equal(TO_RECV(UPLINK_DONE, "\x08\x05", &err), -EPROTO);
    assert_non_null(strstr(err.text, "item 0 has 10 of 2000 bytes"));
    assert_int_equal(x->dones, 0);
}

static void test_data_after_done(void **state)
{
    struct fixture *x = *state;
    greet(x);
    offer(x, 5);
    put_data(x, 5, 0, 0, WINDOW, 0, NULL);
    assert_int_equal(uplink_recv_taken(x->recv, WINDOW, NULL), 0);
    put_data(x, 5, 0, WINDOW, WINDOW, 0, NULL);
    assert_int_equal(TO_RECV(UPLINK_DONE, "\x08\x05", NULL), 0);
    assert_int_equal(x->dones, 1);
    assert_int_equal(uplink_recv_taken(x->recv, WINDOW, NULL), 0);
    put_data(x, 5, 0, 2 * WINDOW, 1, -EPROTO, "after done");
}

/* A capture that was refused may still have data under way; it counts, and is dropped. */
static void test_data_of_a_refused_capture(void **state)
{
    struct fixture *x = *state;
    greet(x);
    offer(x, 5);
    assert_int_equal(uplink_recv_refuse(x->recv, (char *)x + 1, -ENOSPC, "disk full", NULL), 0);
    assert_int_equal(x->drops, 1);
    for (int i = 0; i < 50; i++)
        put_data(x, 5, 0, (uint64_t)i * WINDOW, WINDOW, 0, NULL);
    assert_int_equal(x->taken_bytes, 0);
    assert_int_equal(TO_RECV(UPLINK_DONE, "\x08\x05", NULL), 0);
    put_data(x, 5, 0, 0, WINDOW + 1, -EPROTO, "credit");
}

static void test_seventeenth_capture(void **state)
{
    struct fixture *x = *state;
    greet(x);
    for (uint32_t i = 1; i <= UPLINK_CAPTURES_MAX; i++)
        offer(x, i);
    offer(x, 99);
    assert_int_equal(x->offers, UPLINK_CAPTURES_MAX);
    assert_told(x, "16 captures are under way");
}

static void test_bad_names(void **state)
{
    struct fixture *x = *state;
    greet(x);
    assert_int_equal(TO_RECV(UPLINK_OFFER, "\x08\x05\x12\x03../\x1a\x01m", NULL), 0);
    assert_told(x, "not a capture id");
#define SHA                                                                                                            \
    "\x1a\x20"                                                                                                         \
    "12345678901234567890123456789012"
    assert_int_equal(TO_RECV(UPLINK_OFFER, "\x08\x06\x12\x01x\x1a\x01m\x22\x29\x0a\x03../\x10\x01" SHA, NULL), 0);
    assert_told(x, "no relative path");
    assert_int_equal(TO_RECV(UPLINK_OFFER,
                             "\x08\x07\x12\x01x\x1a\x01m\x22\x27\x0a\x01q\x10\x01" SHA "\x22\x27\x0a\x01q\x10\x01" SHA,
                             NULL),
                     0);
    assert_told(x, "two items are named q");
    assert_int_equal(x->offers, 0);
}

static void test_bad_zstd(void **state)
{
    struct fixture *x = *state;
    greet(x);
    offer(x, 5);
    uint8_t junk[50];
    memset(junk, 0x5a, sizeof junk);
    const struct frame raw = {.flags = FRAME_ZSTD, .raw = junk, .raw_len = sizeof junk, .plain_len = 500};
    struct kymo_err err = {0};
    int r = put(x, true, UPLINK_DATA, "\x08\x05\x10\x00\x18\x00", 6, &raw, &err);
    assert_int_equal(r, -EBADMSG);
    assert_non_null(strstr(err.text, "zstd"));
    assert_int_equal(x->taken_bytes, 0);
}

/* A small frame that unfolds to more than it says is stopped at what it says. */
static void test_zstd_bomb(void **state)
{
    struct fixture *x = *state;
    greet(x);
    offer(x, 5);
    size_t n = 1u << 20;
    uint8_t *zeros KYMO_FREE = kymo_calloc(1, n);
    uint8_t packed[2000];
    size_t len = ZSTD_compress(packed, sizeof packed, zeros, n, 3);
    assert_false(ZSTD_isError(len));
    const struct frame raw = {.flags = FRAME_ZSTD, .raw = packed, .raw_len = (uint32_t)len, .plain_len = 900};
    struct kymo_err err = {0};
    assert_int_equal(put(x, true, UPLINK_DATA, "\x08\x05\x10\x00\x18\x00", 6, &raw, &err), -EBADMSG);
}

static void test_zstd_that_was_not_agreed(void **state)
{
    struct fixture *x = *state;
    assert_int_equal(TO_RECV(WIRE_HELLO, "\x08\x01\x10\x01", NULL), 0);
    offer(x, 5);
    uint8_t packed[100];
    size_t len = ZSTD_compress(packed, sizeof packed, "aaaaaaaa", 8, 3);
    const struct frame raw = {.flags = FRAME_ZSTD, .raw = packed, .raw_len = (uint32_t)len, .plain_len = 8};
    struct kymo_err err = {0};
    assert_int_equal(put(x, true, UPLINK_DATA, "\x08\x05\x10\x00\x18\x00", 6, &raw, &err), -EPROTO);
    assert_non_null(strstr(err.text, "not agreed"));
}

/* Pings without ever reading the answers: the queue has an end. */
static void test_peer_that_does_not_read(void **state)
{
    struct fixture *x = *state;
    greet(x);
    int r = 0;
    for (int i = 0; i < 1000000 && r == 0; i++)
        r = TO_RECV(WIRE_PING, "\x08\x07", NULL);
    assert_int_equal(r, -ENOBUFS);
    const uint8_t *out;
    size_t n;
    uplink_recv_out(x->recv, &out, &n);
    assert_true(n <= SESSION_OUT_MAX);
}

static void connect_sender(struct fixture *x)
{
    assert_int_equal(TO_SEND(WIRE_HELLO, HELLO, NULL), 0);
    const struct uplink_send_item item = {.name = "a", .size = 250};
    assert_int_equal(uplink_send_offer(x->send, "c1", "m", 1, &item, 1, x, NULL), 0);
}

static void assert_sender_refuses(struct fixture *x, uint16_t type, const char *message, size_t n, const char *text)
{
    struct kymo_err err = {0};
    assert_int_equal(put(x, false, type, message, n, NULL, &err), -EPROTO);
    if (!strstr(err.text, text))
        fail_msg("\"%s\" lacks \"%s\"", err.text, text);
}

#define SENDER_REFUSES(type, message, text) assert_sender_refuses(x, type, message, sizeof(message) - 1, text)

/* Everything the sender has is sent: 250 bytes, and done. */
static void send_all(struct fixture *x)
{
    assert_int_equal(TO_SEND(UPLINK_CREDIT, "\x08\xe8\x07", NULL), 0);
    assert_int_equal(TO_SEND(UPLINK_NEED, "\x08\x01\x1a\x04\x08\x00\x10\x00", NULL), 0);
    for (int i = 0; i < 10; i++) {
        const uint8_t *out;
        size_t n;
        assert_int_equal(uplink_send_out(x->send, &out, &n, NULL), 0);
        uplink_send_consume(x->send, n);
    }
}

static void test_collector_wants_twice(void **state)
{
    struct fixture *x = *state;
    connect_sender(x);
    send_all(x);
    SENDER_REFUSES(UPLINK_NEED, "\x08\x01", "second or contradicting");
}

static void test_collector_wants_what_is_not(void **state)
{
    struct fixture *x = *state;
    connect_sender(x);
    SENDER_REFUSES(UPLINK_NEED, "\x08\x01\x1a\x04\x08\x01\x10\x00", "item 1 is wanted, of 1");
}

static void test_collector_wants_beyond_the_end(void **state)
{
    struct fixture *x = *state;
    connect_sender(x);
    SENDER_REFUSES(UPLINK_NEED, "\x08\x01\x1a\x05\x08\x00\x10\xfa\x01", "from 250 of 250");
}

static void test_collector_wants_and_has(void **state)
{
    struct fixture *x = *state;
    connect_sender(x);
    SENDER_REFUSES(UPLINK_NEED, "\x08\x01\x10\x01\x1a\x04\x08\x00\x10\x00", "contradicting");
}

static void test_collector_acknowledges_too_much(void **state)
{
    struct fixture *x = *state;
    connect_sender(x);
    send_all(x);
    SENDER_REFUSES(UPLINK_ACK, "\x08\x01\x10\x00\x18\xfb\x01", "to 251, was to 0, sent are 250");
}

static void test_collector_acknowledges_twice(void **state)
{
    struct fixture *x = *state;
    connect_sender(x);
    send_all(x);
    assert_int_equal(TO_SEND(UPLINK_ACK, "\x08\x01\x10\x00\x18\x0a", NULL), 0);
    SENDER_REFUSES(UPLINK_ACK, "\x08\x01\x10\x00\x18\x0a", "to 10, was to 10");
}

static void test_collector_stores_too_early(void **state)
{
    struct fixture *x = *state;
    connect_sender(x);
    SENDER_REFUSES(UPLINK_STORED, "\x08\x01", "stored before all was sent");
    assert_int_equal(x->stored, 0);
}

static void test_collector_stores_and_repeats(void **state)
{
    struct fixture *x = *state;
    connect_sender(x);
    send_all(x);
    assert_int_equal(TO_SEND(UPLINK_STORED, "\x08\x01", NULL), 0);
    assert_int_equal(TO_SEND(UPLINK_STORED, "\x08\x01", NULL), 0);
    assert_int_equal(x->stored, 1);
    SENDER_REFUSES(UPLINK_STORED, "\x08\x02", "ticket 2 was never offered");
}

static void test_credit_goes_back(void **state)
{
    struct fixture *x = *state;
    connect_sender(x);
    assert_int_equal(TO_SEND(UPLINK_CREDIT, "\x08\x05", NULL), 0);
    SENDER_REFUSES(UPLINK_CREDIT, "\x08\x04", "credit of 4, was 5");
}

static void test_credit_without_end(void **state)
{
    struct fixture *x = *state;
    connect_sender(x);
    SENDER_REFUSES(UPLINK_CREDIT, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "credit of 18446744073709551615");
}

static void test_sender_keeps_to_its_credit(void **state)
{
    struct fixture *x = *state;
    connect_sender(x);
    assert_int_equal(TO_SEND(UPLINK_NEED, "\x08\x01\x1a\x04\x08\x00\x10\x00", NULL), 0);
    const uint8_t *out;
    size_t before, after;
    assert_int_equal(uplink_send_out(x->send, &out, &before, NULL), 0);
    assert_int_equal(TO_SEND(UPLINK_CREDIT, "\x08\x05", NULL), 0);
    uplink_send_consume(x->send, before);
    assert_int_equal(uplink_send_out(x->send, &out, &after, NULL), 0);
    assert_int_equal(after, FRAME_HEADER_SIZE + 6 + 5);
}

static void test_refusals_reach_the_daemon(void **state)
{
    struct fixture *x = *state;
    connect_sender(x);
    assert_int_equal(TO_SEND(WIRE_REFUSAL,
                             "\x08\x04\x12\x04"
                             "full\x18\x01",
                             NULL),
                     0);
    assert_int_equal(x->refused, 1);
    assert_int_equal(x->why, KYMO__WIRE__REFUSAL__REASON__FULL);
    struct kymo_err err = {0};
    assert_int_equal(TO_SEND(WIRE_REFUSAL, "\x08\x08\x12\x06go off", &err), -ECONNREFUSED);
    assert_non_null(strstr(err.text, "FORBIDDEN): go off"));
}

/* Whichever allocation fails while a daemon says hello: an error, and nothing lost. */
static void test_no_memory(void **state)
{
    (void)state;
    struct kymo_buf hello;
    kymo_buf_init(&hello, 100);
    const struct frame f = {.type = WIRE_HELLO, .message = (const uint8_t *)HELLO, .message_len = sizeof(HELLO) - 1};
    assert_int_equal(frame_append(&hello, &f, NULL), 0);
    int failures = 0, r = -ENOMEM;
    for (long i = 0; r < 0; i++) {
        struct fixture y = {0};
        const struct uplink_recv_config rc = {.window = WINDOW, .ops = &store, .ctx = &y};
        kymo_alloc_fail_after(i);
        r = uplink_recv_new(&rc, &y.recv, NULL);
        for (size_t k = 0; k < hello.len && r == 0; k++)
            r = uplink_recv_feed(y.recv, hello.data + k, 1, NULL);
        kymo_alloc_fail_after(-1);
        assert_true(r == 0 || r == -ENOMEM);
        failures += r < 0;
        uplink_recv_free(y.recv);
    }
    assert_true(failures >= 5);
    kymo_buf_done(&hello);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_order_at_the_collector),
        T(test_second_hello),
        T(test_no_common_version),
        T(test_before_hello_frames_are_small),
        T(test_huge_lengths),
        T(test_tickets),
        T(test_ticket_goes_back),
        T(test_gap),
        T(test_wrong_item),
        T(test_credit_is_a_limit),
        T(test_credit_comes_back),
        T(test_done_too_early),
        T(test_data_after_done),
        T(test_data_of_a_refused_capture),
        T(test_seventeenth_capture),
        T(test_bad_names),
        T(test_bad_zstd),
        T(test_zstd_bomb),
        T(test_zstd_that_was_not_agreed),
        T(test_peer_that_does_not_read),
        T(test_collector_wants_twice),
        T(test_collector_wants_what_is_not),
        T(test_collector_wants_beyond_the_end),
        T(test_collector_wants_and_has),
        T(test_collector_acknowledges_too_much),
        T(test_collector_acknowledges_twice),
        T(test_collector_stores_too_early),
        T(test_collector_stores_and_repeats),
        T(test_credit_goes_back),
        T(test_credit_without_end),
        T(test_sender_keeps_to_its_credit),
        T(test_refusals_reach_the_daemon),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
