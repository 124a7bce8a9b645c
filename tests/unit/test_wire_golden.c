/* The transcripts under tests/golden/wire, replayed against each side. --write DIR makes them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "proto/control.h"
#include "proto/uplink_recv.h"
#include "proto/uplink_send.h"

#define DIR "tests/golden/wire"
#define STREAM_MAX (1u << 20)

/* A side of a conversation: whatever it is, bytes go in and come out. */
struct party {
    struct uplink_send *send;
    struct uplink_recv *recv;
    struct session *control;
    unsigned told;
    struct kymo_buf said; /* all it ever said */
    struct kymo_err err;
    int r;
};

/* Who talks to whom: the ranges of both sides. Those that end at 1 stand for programs of the first version. */
static const struct conversation {
    const char *name;
    struct wire_range client, server;
} conversations[] = {
    {"uplink-v1", {1, 1}, {1, 1}},
    {"uplink-v1-v2", {1, 1}, {1, 2}},
    {"uplink-v2-v1", {1, 2}, {1, 1}},
    {"uplink-v2", {1, 2}, {1, 2}},
    {"uplink-newer", {1, 2}, {1, 1}},
    {"uplink-newer-2", {1, 3}, {1, 2}},
    {"uplink-too-new", {2, 2}, {1, 1}},
    {"uplink-too-new-2", {3, 3}, {1, 2}},
    {"control-v1", {1, 1}, {1, 1}},
    {"control-v1-v2", {1, 1}, {1, 2}},
    {"control-v2-v1", {1, 2}, {1, 1}},
    {"control-v2", {1, 2}, {1, 2}},
    {"control-newer-client", {1, 3}, {1, 2}},
    {"control-newer-daemon", {1, 2}, {1, 3}},
};

static const struct conversation *find_conversation(const char *name)
{
    for (size_t i = 0; i < sizeof conversations / sizeof conversations[0]; i++)
        if (strcmp(conversations[i].name, name) == 0)
            return &conversations[i];
    fail_msg("%s is no conversation", name);
    return NULL;
}

static const char NTFF[] = "ntff bytes of the capture";
static const char NEFF[] = "neff bytes";

/* The daemon. */

static int spool_read(void *ctx, void *handle, uint32_t item, uint64_t offset, void *buf, size_t n,
                      struct kymo_err *err)
{
    (void)ctx;
    (void)handle;
    (void)err;
    memcpy(buf, (item == 0 ? NTFF : NEFF) + offset, n);
    return 0;
}

/* What the first version does not have is not said to it. */
static void say_losses(struct party *p)
{
    char evicted[] = "evicted", full[] = "full";
    Kymo__Uplink__HostLoss rows[2] = {KYMO__UPLINK__HOST_LOSS__INIT, KYMO__UPLINK__HOST_LOSS__INIT};
    for (size_t i = 0; i < 2; i++) {
        Kymo__Uplink__HostLoss *row = &rows[i];
        row->has_row = row->has_first_seq = row->has_last_seq = row->has_captures = row->has_bytes = 1;
        row->has_first_unix_ns = row->has_last_unix_ns = 1;
        row->row = i + 1;
        row->first_seq = 10 * i;
        row->last_seq = 10 * i + 3;
        row->captures = 4;
        row->bytes = 1000000;
        row->first_unix_ns = 1700000000000000000u;
        row->last_unix_ns = row->first_unix_ns + i;
        row->cause = i ? full : evicted;
    }
    uint64_t batch = 0;
    int r = uplink_send_losses(p->send, rows, 2, &batch, NULL);
    assert_int_equal(r, session_version(uplink_send_session(p->send)) < 2 ? -EOPNOTSUPP : 0);
    assert_int_equal(batch, r == 0);
}

static void spool_ready(void *ctx, const Kymo__Wire__Hello *peer)
{
    struct party *p = ctx;
    assert_string_equal(peer->writer, "kymo-collector test");
    struct uplink_send_item items[3] = {
        {.name = "p/a.ntff", .size = sizeof NTFF - 1}, {.size = sizeof NEFF - 1, .neff = true}, {.name = "empty"}};
    memset(items[0].sha256, 1, UPLINK_SHA256_SIZE);
    memset(items[1].sha256, 2, UPLINK_SHA256_SIZE);
    memset(items[2].sha256, 3, UPLINK_SHA256_SIZE);
    assert_int_equal(uplink_send_offer(p->send, "resumes", "m1", 2, items, 3, p, NULL), 0);
    assert_int_equal(uplink_send_offer(p->send, "there", "m2", 2, items, 1, p, NULL), 0);
    assert_int_equal(uplink_send_offer(p->send, "refused", "m3", 2, items, 1, p, NULL), 0);
    assert_int_equal(uplink_send_ping(p->send, 7, NULL), 0);
    say_losses(p);
}

static void spool_stored(void *ctx, void *handle)
{
    (void)ctx;
    ((struct party *)handle)->told += 1;
}

static void spool_refused(void *ctx, void *handle, int why, const char *text)
{
    (void)ctx;
    assert_int_equal(why, KYMO__WIRE__REFUSAL__REASON__FULL);
    assert_string_equal(text, "no room");
    ((struct party *)handle)->told += 10;
}

static int spool_request(void *ctx, const Kymo__Uplink__CaptureRequest *request, struct kymo_err *err)
{
    struct party *p = ctx;
    const char *ids[] = {"on-demand-1"};
    assert_string_equal(request->job, "train");
    return uplink_send_reply(p->send, request->request_id, ids, 1, err);
}

static void spool_losses(void *ctx, const Kymo__Uplink__RingLosses *losses)
{
    struct party *p = ctx;
    assert_int_equal(losses->losses[0]->records, 12);
    p->told += 100;
}

static void spool_losses_kept(void *ctx, uint64_t batch)
{
    assert_int_equal(batch, 1);
    ((struct party *)ctx)->told += 10000;
}

static const struct uplink_send_ops spool = {.read = spool_read,
                                             .on_ready = spool_ready,
                                             .on_stored = spool_stored,
                                             .on_refused = spool_refused,
                                             .on_request = spool_request,
                                             .on_losses = spool_losses,
                                             .on_losses_kept = spool_losses_kept};

/* The collector. */

static int store_offer(void *ctx, const Kymo__Uplink__Offer *offer, uint64_t *offsets, void **ret_handle,
                       struct kymo_err *err)
{
    if (strcmp(offer->capture_id, "there") == 0)
        return UPLINK_RECV_HAVE;
    if (strcmp(offer->capture_id, "refused") == 0)
        return kymo_err_set(err, -ENOSPC, "no room");
    assert_string_equal(offer->capture_id, "resumes");
    offsets[0] = 5;
    offsets[1] = offer->items[1]->size;
    *ret_handle = ctx;
    return UPLINK_RECV_NOW;
}

static int store_write(void *ctx, void *handle, uint32_t item, uint64_t offset, const void *data, size_t n,
                       struct kymo_err *err)
{
    struct party *p = ctx;
    assert_int_equal(item, 0);
    assert_memory_equal(data, NTFF + offset, n);
    /* At the ends of the frames, however their bytes are split on the way. */
    uint64_t end = offset + n;
    int r = end == 21 || end == sizeof NTFF - 1 ? uplink_recv_durable(p->recv, handle, item, end, err) : 0;
    return r < 0 ? r : UPLINK_RECV_NOW;
}

static int store_done(void *ctx, void *handle, struct kymo_err *err)
{
    struct party *p = ctx;
    (void)handle;
    char job[] = "train", ring[] = "nc0 DMA 3", cause[] = "ring_full", id[] = "resumes", profile[] = "p-nc0";
    uint32_t cores[] = {0, 3};
    Kymo__Uplink__CaptureRequest request = KYMO__UPLINK__CAPTURE_REQUEST__INIT;
    request.has_request_id = request.has_step = 1;
    request.request_id = 44;
    request.step = 1000;
    request.job = job;
    request.cores = cores;
    request.n_cores = 2;
    assert_int_equal(uplink_recv_request(p->recv, &request, err), 0);
    Kymo__Uplink__RingLoss loss = KYMO__UPLINK__RING_LOSS__INIT;
    Kymo__Uplink__RingLoss *list[] = {&loss};
    loss.ring = ring;
    loss.cause = cause;
    loss.has_records = 1;
    loss.records = 12;
    Kymo__Uplink__RingLosses losses = KYMO__UPLINK__RING_LOSSES__INIT;
    losses.capture_id = id;
    losses.profile = profile;
    losses.losses = list;
    losses.n_losses = 1;
    assert_int_equal(uplink_recv_losses(p->recv, &losses, err), 0);
    return UPLINK_RECV_NOW;
}

static void store_drop(void *ctx, void *handle)
{
    (void)handle;
    ((struct party *)ctx)->told += 1000;
}

static int store_host_losses(void *ctx, const Kymo__Uplink__HostLosses *losses, struct kymo_err *err)
{
    (void)err;
    assert_int_equal(losses->n_rows, 2);
    assert_string_equal(losses->rows[1]->cause, "full");
    ((struct party *)ctx)->told += 10000;
    return UPLINK_RECV_NOW;
}

static void store_reply(void *ctx, const Kymo__Uplink__CaptureReply *reply)
{
    assert_string_equal(reply->capture_ids[0], "on-demand-1");
    ((struct party *)ctx)->told += 1;
}

static const struct uplink_recv_ops store = {.offer = store_offer,
                                             .write = store_write,
                                             .done = store_done,
                                             .drop = store_drop,
                                             .host_losses = store_host_losses,
                                             .reply = store_reply};

/* Both ends of the control socket. */

static void ask(struct session *s)
{
    char job[] = "train";
    Kymo__Control__StatusRequest status = KYMO__CONTROL__STATUS_REQUEST__INIT;
    status.has_request_id = 1;
    status.request_id = 1;
    assert_int_equal(session_send(s, CONTROL_STATUS_REQUEST, &status.base, NULL), 0);
    Kymo__Control__CaptureRequest capture = KYMO__CONTROL__CAPTURE_REQUEST__INIT;
    capture.has_request_id = capture.has_step = capture.has_wait_ms = 1;
    capture.request_id = 2;
    capture.job = job;
    capture.step = 50;
    capture.wait_ms = 30000;
    assert_int_equal(session_send(s, CONTROL_CAPTURE_REQUEST, &capture.base, NULL), 0);
    job[0] = 'T';
    capture.request_id = 3;
    if (session_version(s) > 1) {
        capture.has_count = capture.has_duration_ms = capture.has_ranks_one_in = capture.has_until = 1;
        capture.count = 3;
        capture.duration_ms = 2000;
        capture.ranks_one_in = 4;
        capture.until = KYMO__CONTROL__CAPTURE_PROGRESS__STATE__SPOOLED;
    }
    assert_int_equal(session_send(s, CONTROL_CAPTURE_REQUEST, &capture.base, NULL), 0);
}

static int cli_ready(void *ctx, const Kymo__Wire__Hello *peer, struct kymo_err *err)
{
    (void)peer;
    (void)err;
    ask(((struct party *)ctx)->control);
    return 0;
}

static int cli_message(void *ctx, const struct wire_message *m, const struct frame *f, struct kymo_err *err)
{
    struct party *p = ctx;
    (void)f;
    (void)err;
    if (m->type == CONTROL_STATUS_REPLY) {
        const Kymo__Control__StatusReply *reply = (const Kymo__Control__StatusReply *)m->pb;
        assert_string_equal(reply->jobs[0]->ranks[0]->reason, "the vendor's inspect mode is on");
        p->told += 1;
    } else if (m->type == CONTROL_CAPTURE_PROGRESS) {
        p->told += ((const Kymo__Control__CaptureProgress *)m->pb)->last ? 100 : 10;
    } else {
        assert_int_equal(m->type, WIRE_REFUSAL);
        assert_int_equal(((const Kymo__Wire__Refusal *)m->pb)->request_id, 3);
        p->told += 1000;
    }
    return 0;
}

/* What version 2 tells beyond version 1. */
static int tell_more(struct session *s, const Kymo__Control__StatusReply *reply, struct kymo_err *err)
{
    Kymo__Control__StatusReply more = *reply;
    char name[] = "evicted", shedding[] = "longer periods", mode[] = "continuous", address[] = "[::1]:3002";
    Kymo__Control__Counted lost = KYMO__CONTROL__COUNTED__INIT;
    Kymo__Control__Counted *losses[] = {&lost};
    lost.name = name;
    lost.has_count = lost.has_bytes = 1;
    lost.count = 2;
    lost.bytes = 1u << 30;
    Kymo__Control__OwnCost cost = KYMO__CONTROL__OWN_COST__INIT;
    cost.has_cpu_ppm = 1;
    cost.cpu_ppm = 1500;
    cost.shedding = shedding;
    Kymo__Control__CollectorStatus link = KYMO__CONTROL__COLLECTOR_STATUS__INIT;
    Kymo__Control__CollectorStatus *links[] = {&link};
    link.address = address;
    link.has_sent_bytes = 1;
    link.sent_bytes = 77;
    more.losses = losses;
    more.n_losses = 1;
    more.cost = &cost;
    more.collectors = links;
    more.n_collectors = 1;
    Kymo__Control__RankStatus *rank = more.jobs[0]->ranks[0];
    rank->mode = mode;
    rank->has_latency_p99_ns = 1;
    rank->latency_p99_ns = 12345678;
    return session_send(s, CONTROL_STATUS_REPLY, &more.base, err);
}

static int tell_status(struct session *s, uint64_t request_id, struct kymo_err *err)
{
    char job[] = "train", state[] = "off", reason[] = "the vendor's inspect mode is on", version[] = "0.1.0";
    Kymo__Control__RankStatus rank = KYMO__CONTROL__RANK_STATUS__INIT;
    Kymo__Control__RankStatus *ranks[] = {&rank};
    rank.has_pid = 1;
    rank.pid = 4711;
    rank.state = state;
    rank.reason = reason;
    Kymo__Control__JobStatus status = KYMO__CONTROL__JOB_STATUS__INIT;
    Kymo__Control__JobStatus *jobs[] = {&status};
    status.job = job;
    status.ranks = ranks;
    status.n_ranks = 1;
    Kymo__Control__StatusReply reply = KYMO__CONTROL__STATUS_REPLY__INIT;
    reply.has_request_id = 1;
    reply.request_id = request_id;
    reply.version = version;
    reply.jobs = jobs;
    reply.n_jobs = 1;
    if (session_version(s) > 1)
        return tell_more(s, &reply, err);
    return session_send(s, CONTROL_STATUS_REPLY, &reply.base, err);
}

static int daemon_message(void *ctx, const struct wire_message *m, const struct frame *f, struct kymo_err *err)
{
    struct party *p = ctx;
    (void)f;
    if (m->type == CONTROL_STATUS_REQUEST)
        return tell_status(p->control, ((const Kymo__Control__StatusRequest *)m->pb)->request_id, err);
    assert_int_equal(m->type, CONTROL_CAPTURE_REQUEST);
    const Kymo__Control__CaptureRequest *request = (const Kymo__Control__CaptureRequest *)m->pb;
    if (strcmp(request->job, "train") != 0)
        return session_refuse(p->control, KYMO__WIRE__REFUSAL__REASON__NOT_FOUND, "no job Train", 0,
                              request->request_id, err);
    char id[] = "c1";
    Kymo__Control__CaptureProgress progress = KYMO__CONTROL__CAPTURE_PROGRESS__INIT;
    progress.has_request_id = progress.has_now = 1;
    progress.request_id = request->request_id;
    progress.capture_id = id;
    progress.now = KYMO__CONTROL__CAPTURE_PROGRESS__STATE__ARMED;
    int r = session_send(p->control, CONTROL_CAPTURE_PROGRESS, &progress.base, err);
    progress.now = session_version(p->control) > 1 ? KYMO__CONTROL__CAPTURE_PROGRESS__STATE__FAILED
                                                   : KYMO__CONTROL__CAPTURE_PROGRESS__STATE__SPOOLED;
    progress.has_last = progress.last = 1;
    return r < 0 ? r : session_send(p->control, CONTROL_CAPTURE_PROGRESS, &progress.base, err);
}

/* Conversations. */

static void make_party(struct party *p, const char *conversation, bool client)
{
    const struct conversation *c = find_conversation(conversation);
    memset(p, 0, sizeof *p);
    kymo_buf_init(&p->said, STREAM_MAX);
    const struct uplink_send_config sc = {.versions = c->client,
                                          .writer = "kymod test",
                                          .host = "h7",
                                          .boot_id = "b",
                                          .chunk = 16,
                                          .ops = &spool,
                                          .ctx = p};
    const struct uplink_recv_config rc = {
        .versions = c->server, .writer = "kymo-collector test", .zstd = true, .ops = &store, .ctx = p};
    const struct session_config cc = {.protocol = &control_protocol,
                                      .side = client ? WIRE_CLIENT : WIRE_SERVER,
                                      .versions = client ? c->client : c->server,
                                      .writer = client ? "kymo test" : "kymod test",
                                      .on_ready = client ? cli_ready : NULL,
                                      .on_message = client ? cli_message : daemon_message,
                                      .ctx = p};
    if (strncmp(conversation, "control", 7) == 0)
        assert_int_equal(session_new(&cc, &p->control, NULL), 0);
    else if (client)
        assert_int_equal(uplink_send_new(&sc, &p->send, NULL), 0);
    else
        assert_int_equal(uplink_recv_new(&rc, &p->recv, NULL), 0);
}

static void party_done(struct party *p)
{
    uplink_send_free(p->send);
    uplink_recv_free(p->recv);
    session_free(p->control);
    kymo_buf_done(&p->said);
}

/* Adds what it has to say to what it said. */
static void listen_to(struct party *p)
{
    for (;;) {
        const uint8_t *data = NULL;
        size_t n = 0;
        if (p->send)
            assert_int_equal(uplink_send_out(p->send, &data, &n, NULL), 0);
        else if (p->recv)
            uplink_recv_out(p->recv, &data, &n);
        else
            session_out(p->control, &data, &n);
        if (n == 0)
            return;
        assert_int_equal(kymo_buf_append(&p->said, data, n), 0);
        if (p->send)
            uplink_send_consume(p->send, n);
        else if (p->recv)
            uplink_recv_consume(p->recv, n);
        else
            session_consume(p->control, n);
    }
}

static void tell(struct party *p, const uint8_t *data, size_t n)
{
    if (p->r < 0)
        return;
    p->r = p->send   ? uplink_send_feed(p->send, data, n, &p->err)
           : p->recv ? uplink_recv_feed(p->recv, data, n, &p->err)
                     : session_feed(p->control, data, n, &p->err);
}

static void replay(struct party *p, const uint8_t *heard, size_t n, size_t piece)
{
    listen_to(p);
    for (size_t at = 0; at < n; at += piece) {
        tell(p, heard + at, n - at < piece ? n - at : piece);
        listen_to(p);
    }
}

static uint8_t *golden(const char *conversation, const char *side, size_t *ret_n)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s.%s", DIR, conversation, side);
    uint8_t *data;
    struct kymo_err err = {0};
    if (kymo_file_read_all(path, STREAM_MAX, &data, ret_n, &err) < 0)
        fail_msg("%s", err.text);
    return data;
}

static void add(struct kymo_buf *b, uint16_t type, const char *message, size_t n, const struct frame *raw)
{
    struct frame f = raw ? *raw : (struct frame){0};
    f.type = type;
    f.message = (const uint8_t *)message;
    f.message_len = (uint32_t)n;
    assert_int_equal(frame_append(b, &f, NULL), 0);
}

#define ADD(b, type, text) add(b, type, text, sizeof(text) - 1, NULL)
#define SHA                                                                                                            \
    "\x1a\x20"                                                                                                         \
    "12345678901234567890123456789012"
#define NEW "\xfa\x3e\x03new" /* field 1007 */

/* Our side hears what the other said then, in pieces of all sizes, and must say what ours said then. */
static void check(const char *conversation, bool client, int r, unsigned told)
{
    size_t n_heard, n_said;
    uint8_t *heard KYMO_FREE = golden(conversation, client ? "server" : "client", &n_heard);
    uint8_t *said KYMO_FREE = golden(conversation, client ? "client" : "server", &n_said);
    static const size_t pieces[] = {1, 2, 19, 20, 21, 64, STREAM_MAX};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        /* The sender may speak earlier in the same piece when it hears more at once: one by one alone is exact. */
        if (client && pieces[i] > 1 && strncmp(conversation, "uplink", 6) == 0)
            break;
        struct party p;
        make_party(&p, conversation, client);
        replay(&p, heard, n_heard, pieces[i]);
        assert_int_equal(p.r, r);
        assert_int_equal(p.told, told);
        assert_int_equal(p.said.len, n_said);
        assert_memory_equal(p.said.data, said, n_said);
        party_done(&p);
    }
}

static void test_uplink_v1(void **state)
{
    (void)state;
    check("uplink-v1", true, 0, 1 + 1 + 10 + 100);
    check("uplink-v1", false, 0, 1);
}

static void same_file(const char *one, const char *other, const char *side)
{
    size_t n, m;
    uint8_t *a KYMO_FREE = golden(one, side, &n);
    uint8_t *b KYMO_FREE = golden(other, side, &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
}

static void test_uplink_v2(void **state)
{
    (void)state;
    check("uplink-v2", true, 0, 1 + 1 + 10 + 100 + 10000);
    check("uplink-v2", false, 0, 1 + 10000);
}

/* What the first version said then is heard by today's other side, which then keeps to the first version. */
static void test_old_and_new(void **state)
{
    (void)state;
    same_file("uplink-v1-v2", "uplink-v1", "client");
    same_file("uplink-v2-v1", "uplink-v1", "server");
    check("uplink-v1-v2", false, 0, 1);
    check("uplink-v2-v1", true, 0, 1 + 1 + 10 + 100);
    same_file("control-v1-v2", "control-v1", "client");
    same_file("control-v2-v1", "control-v1", "server");
    check("control-v1-v2", false, 0, 0);
    check("control-v2-v1", true, 0, 1 + 10 + 100 + 1000);
}

static void test_newer_daemon(void **state)
{
    (void)state;
    check("uplink-newer", false, 0, 0);
    check("uplink-newer-2", false, 0, 10000);
}

static void test_too_new_daemon(void **state)
{
    (void)state;
    check("uplink-too-new", false, -EPROTONOSUPPORT, 0);
    check("uplink-too-new-2", false, -EPROTONOSUPPORT, 0);
}

static void test_newer_control(void **state)
{
    (void)state;
    check("control-newer-client", false, 0, 0);
    check("control-newer-daemon", true, 0, 1 + 10 + 100 + 1000);
}

/* A type of the second version, said where the first was agreed: the connection ends, whichever side says it. */
static void test_type_of_later_version(void **state)
{
    (void)state;
    for (int to_client = 0; to_client < 2; to_client++) {
        struct party p;
        struct kymo_buf b;
        kymo_buf_init(&b, STREAM_MAX);
        make_party(&p, to_client ? "uplink-v2-v1" : "uplink-v1-v2", to_client);
        /* hello of 1 to 1 with the writer that the party expects; then losses_kept of batch 1, or no losses at all */
        ADD(&b, WIRE_HELLO, "\x08\x01\x10\x01\x22\x13kymo-collector test");
        ADD(&b, to_client ? UPLINK_LOSSES_KEPT : UPLINK_HOST_LOSSES, "\x08\x01");
        replay(&p, b.data, b.len, 7);
        assert_int_equal(p.r, -EPROTO);
        assert_non_null(strstr(p.err.text, "is of version 2, agreed was 1"));
        party_done(&p);
        kymo_buf_done(&b);
    }
}

static void test_control_v1(void **state)
{
    (void)state;
    check("control-v1", true, 0, 1 + 10 + 100 + 1000);
    check("control-v1", false, 0, 0);
}

static void test_control_v2(void **state)
{
    (void)state;
    check("control-v2", true, 0, 1 + 10 + 100 + 1000);
    check("control-v2", false, 0, 0);
}

/* Any two ranges side by side: both ends agree on the version, or both learn that there is none. */
static void test_all_ranges(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4 * 4 * 4 * 4; i++) {
        const struct wire_range a = {1 + i % 4, 1 + i / 4 % 4}, b = {1 + i / 16 % 4, 1 + i / 64};
        struct party p[2] = {0};
        for (int side = 0; side < 2; side++) {
            const struct session_config c = {.protocol = i % 2 ? &control_protocol : &uplink_protocol,
                                             .side = side ? WIRE_SERVER : WIRE_CLIENT,
                                             .versions = side ? b : a,
                                             .features = side ? 6 : 3,
                                             .ctx = &p[side]};
            kymo_buf_init(&p[side].said, STREAM_MAX);
            assert_int_equal(session_new(&c, &p[side].control, NULL), 0);
        }
        listen_to(&p[0]);
        tell(&p[1], p[0].said.data, p[0].said.len);
        listen_to(&p[1]);
        tell(&p[0], p[1].said.data, p[1].said.len);
        uint32_t low = a.min > b.min ? a.min : b.min, high = a.max < b.max ? a.max : b.max;
        assert_int_equal(session_version(p[0].control), low <= high ? high : 0);
        assert_int_equal(session_version(p[1].control), low <= high ? high : 0);
        assert_int_equal(session_features(p[0].control), low <= high ? 2 : 0);
        assert_int_equal(p[1].r, low <= high ? 0 : -EPROTONOSUPPORT);
        assert_int_equal(p[0].r, low <= high ? 0 : -ECONNREFUSED);
        assert_true(low <= high || strstr(p[0].err.text, "no common version"));
        party_done(&p[0]);
        party_done(&p[1]);
    }
}

/* Writing. */

static void save(const char *dir, const char *conversation, const char *side, const struct kymo_buf *b)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s.%s", dir, conversation, side);
    assert_int_equal(kymo_file_write_atomic(path, b->data, b->len, NULL), 0);
}

/* Both ends live, a byte at a time. */
static void write_live(const char *dir, const char *conversation)
{
    struct party client, server;
    make_party(&client, conversation, true);
    make_party(&server, conversation, false);
    size_t to_server = 0, to_client = 0;
    listen_to(&client);
    while (to_server < client.said.len || to_client < server.said.len) {
        if (to_server < client.said.len)
            tell(&server, client.said.data + to_server++, 1);
        listen_to(&server);
        if (to_client < server.said.len)
            tell(&client, server.said.data + to_client++, 1);
        listen_to(&client);
    }
    save(dir, conversation, "client", &client.said);
    save(dir, conversation, "server", &server.said);
    party_done(&client);
    party_done(&server);
}

/* Ours hears what the other says. */
static void write_heard(const char *dir, const char *conversation, bool client, const struct kymo_buf *b)
{
    struct party ours;
    make_party(&ours, conversation, client);
    replay(&ours, b->data, b->len, 1);
    save(dir, conversation, client ? "server" : "client", b);
    save(dir, conversation, client ? "client" : "server", &ours.said);
    party_done(&ours);
}

/* What no code of ours says yet: a daemon of tomorrow. */
static void write_newer(const char *dir)
{
    struct kymo_buf b;
    kymo_buf_init(&b, STREAM_MAX);
    ADD(&b, WIRE_HELLO, "\x08\x01\x10\x02\x18\xff\x01\x22\x0akymod 9000" NEW);
    ADD(&b, 0x100 | FRAME_MAY_SKIP, "whatever this may mean");
    ADD(&b, UPLINK_OFFER,
        "\x08\x01\x12\x07resumes\x1a\x01m"
        "\x22\x2d\x0a\x01q\x10\x19" SHA NEW "\x22\x26\x10\x0a" SHA "\x20\x01" NEW);
    uint8_t packed[200];
    size_t n = ZSTD_compress(packed, sizeof packed, NTFF + 5, sizeof NTFF - 1 - 5, 3);
    const struct frame raw = {
        .flags = FRAME_ZSTD, .raw = packed, .raw_len = (uint32_t)n, .plain_len = (uint32_t)sizeof NTFF - 1 - 5};
    add(&b, UPLINK_DATA, "\x08\x01\x10\x00\x18\x05" NEW, 6 + sizeof(NEW) - 1, &raw);
    ADD(&b, WIRE_PING, "\x08\x2a" NEW);
    ADD(&b, UPLINK_DONE, "\x08\x01" NEW);
    write_heard(dir, "uplink-newer", false, &b);
    kymo_buf_reset(&b);
    ADD(&b, WIRE_HELLO, "\x08\x02\x10\x02" NEW);
    write_heard(dir, "uplink-too-new", false, &b);
    kymo_buf_done(&b);
}

#define ROW                                                                                                            \
    "\x08\x01\x10\x01\x18\x02\x20\x02\x28\x00\x30\x05\x38\x06\x42\x04"                                                 \
    "full" NEW /* 26 bytes */

/* A daemon after version 2, with losses that have more to them. */
static void write_newer_2(const char *dir)
{
    struct kymo_buf b;
    kymo_buf_init(&b, STREAM_MAX);
    ADD(&b, WIRE_HELLO, "\x08\x01\x10\x03\x18\xff\x01\x22\x0akymod 9000" NEW);
    ADD(&b, 0x101 | FRAME_MAY_SKIP, "");
    ADD(&b, UPLINK_HOST_LOSSES, "\x08\x01\x12\x1a" ROW "\x12\x1a" ROW NEW);
    ADD(&b, WIRE_PING, "\x08\x2a" NEW);
    write_heard(dir, "uplink-newer-2", false, &b);
    kymo_buf_reset(&b);
    ADD(&b, WIRE_HELLO, "\x08\x03\x10\x03" NEW);
    write_heard(dir, "uplink-too-new-2", false, &b);
    kymo_buf_done(&b);
}

/* Both ends of the control socket as they may be once: more in every message, and messages that may be skipped. */
static void write_newer_control(const char *dir)
{
    struct kymo_buf b;
    kymo_buf_init(&b, STREAM_MAX);
    ADD(&b, WIRE_HELLO, "\x08\x01\x10\x03\x22\x09kymo 9000" NEW);
    ADD(&b, 0x100 | FRAME_MAY_SKIP, "whatever this may mean");
    ADD(&b, CONTROL_STATUS_REQUEST, "\x08\x01" NEW);
    ADD(&b, CONTROL_CAPTURE_REQUEST, "\x08\x02\x12\x05train" NEW);
    ADD(&b, CONTROL_CAPTURE_REQUEST, "\x08\x03\x12\x05Train" NEW);
    write_heard(dir, "control-newer-client", false, &b);
    kymo_buf_reset(&b);
    ADD(&b, WIRE_HELLO, "\x08\x01\x10\x03\x22\x0akymod 9000" NEW);
    ADD(&b, 0x101 | FRAME_MAY_SKIP, "");
    /* job_status with rank_status: pid 4711, state, reason */
    ADD(&b, CONTROL_STATUS_REPLY,
        "\x08\x01\x12\x04"
        "9000"
        "\x42\x38"
        "\x0a\x05train"
        "\x1a\x2f"
        "\x08\xe7\x24"
        "\x22\x03off"
        "\x2a\x1fthe vendor's inspect mode is on" NEW NEW);
    ADD(&b, CONTROL_CAPTURE_PROGRESS,
        "\x08\x02\x12\x02"
        "c1"
        "\x18\x02" NEW);
    ADD(&b, CONTROL_CAPTURE_PROGRESS,
        "\x08\x02\x12\x02"
        "c1"
        "\x18\x05\x28\x01" NEW);
    ADD(&b, WIRE_REFUSAL, "\x08\x0a\x12\x02no\x20\x03" NEW);
    write_heard(dir, "control-newer-daemon", true, &b);
    kymo_buf_done(&b);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        write_live(argv[2], "uplink-v1");
        write_live(argv[2], "uplink-v1-v2");
        write_live(argv[2], "uplink-v2-v1");
        write_live(argv[2], "uplink-v2");
        write_live(argv[2], "control-v1");
        write_live(argv[2], "control-v1-v2");
        write_live(argv[2], "control-v2-v1");
        write_live(argv[2], "control-v2");
        write_newer(argv[2]);
        write_newer_2(argv[2]);
        write_newer_control(argv[2]);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uplink_v1),      cmocka_unit_test(test_uplink_v2),
        cmocka_unit_test(test_old_and_new),    cmocka_unit_test(test_newer_daemon),
        cmocka_unit_test(test_too_new_daemon), cmocka_unit_test(test_type_of_later_version),
        cmocka_unit_test(test_control_v1),     cmocka_unit_test(test_control_v2),
        cmocka_unit_test(test_newer_control),  cmocka_unit_test(test_all_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
