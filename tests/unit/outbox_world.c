#include "tests/unit/outbox_world.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "proto/manifest_check.h"

/* ---- the collector's store ---- */

static struct world_stored *find(struct world_collector *c, const char *id)
{
    for (size_t i = 0; i < c->n_stored; i++)
        if (strcmp(c->stored[i]->id, id) == 0)
            return c->stored[i];
    return NULL;
}

const struct world_stored *world_find(const struct world_collector *c, const char *id)
{
    for (size_t i = 0; i < c->n_stored; i++)
        if (strcmp(c->stored[i]->id, id) == 0)
            return c->stored[i];
    return NULL;
}

static bool has_neff(const struct world_collector *c, const uint8_t *sha256)
{
    for (size_t i = 0; i < c->n_neffs; i++)
        if (memcmp(c->neffs[i].sha256, sha256, KYMO_SHA256_SIZE) == 0 && c->neffs[i].received)
            return true;
    return false;
}

static bool refuses(struct world_collector *c, int code)
{
    if (code == 0 || c->refusals == 0)
        return false;
    c->refusals -= c->refusals != UINT32_MAX;
    c->refused++;
    return true;
}

static struct world_stored *new_stored(struct world_collector *c, const Kymo__Uplink__Offer *offer)
{
    struct world_stored *s = KYMO_NEW(struct world_stored);
    assert_true(s && c->n_stored < WORLD_CAPTURES);
    (void)snprintf(s->id, sizeof s->id, "%s", offer->capture_id);
    s->manifest_len = offer->manifest.len;
    s->manifest = kymo_malloc(s->manifest_len);
    memcpy(s->manifest, offer->manifest.data, s->manifest_len);
    s->n_items = offer->n_items;
    s->sizes = KYMO_NEW_ARRAY(uint64_t, s->n_items + 1);
    s->have = KYMO_NEW_ARRAY(uint64_t, s->n_items + 1);
    s->sha256 = kymo_calloc(s->n_items + 1, KYMO_SHA256_SIZE);
    s->neff = KYMO_NEW_ARRAY(bool, s->n_items + 1);
    s->bytes = KYMO_NEW_ARRAY(uint8_t *, s->n_items + 1);
    for (size_t i = 0; i < s->n_items; i++) {
        s->sizes[i] = offer->items[i]->size;
        s->neff[i] = offer->items[i]->neff;
        memcpy(s->sha256[i], offer->items[i]->sha256.data, KYMO_SHA256_SIZE);
        s->bytes[i] = kymo_malloc(s->sizes[i] + 1);
        assert_non_null(s->bytes[i]);
    }
    c->stored[c->n_stored++] = s;
    return s;
}

static int store_hello(void *ctx, const Kymo__Wire__Hello *peer, struct kymo_err *err)
{
    struct world_peer *p = ctx;
    (void)err;
    (void)snprintf(p->host, sizeof p->host, "%s", peer->host ? peer->host : "");
    return 0;
}

static int store_offer(void *ctx, const Kymo__Uplink__Offer *offer, uint64_t *offsets, void **ret_handle,
                       struct kymo_err *err)
{
    struct world_peer *p = ctx;
    struct world_collector *c = p->collector;
    c->offers++;
    if (refuses(c, c->refuse_offers))
        return kymo_err_set(err, c->refuse_offers, "refused by the test");
    struct world_stored *s = find(c, offer->capture_id);
    if (s && (s->manifest_len != offer->manifest.len || memcmp(s->manifest, offer->manifest.data, s->manifest_len)))
        return kymo_err_set(err, -EEXIST, "known with another manifest");
    if (s && s->published)
        return UPLINK_RECV_HAVE;
    if (s && s->open)
        return kymo_err_set(err, -EBUSY, "is under way");
    if (!s)
        s = new_stored(c, offer);
    for (size_t i = 0; i < s->n_items; i++)
        offsets[i] = s->neff[i] && has_neff(c, s->sha256[i]) ? s->sizes[i] : s->have[i];
    s->open = true;
    *ret_handle = s;
    return UPLINK_RECV_NOW;
}

static int store_write(void *ctx, void *handle, uint32_t item, uint64_t offset, const void *data, size_t n,
                       struct kymo_err *err)
{
    struct world_peer *p = ctx;
    struct world_stored *s = handle;
    if (refuses(p->collector, p->collector->refuse_writes))
        return kymo_err_set(err, p->collector->refuse_writes, "refused by the test");
    assert_true(s->open && item < s->n_items && offset == s->have[item] && offset + n <= s->sizes[item]);
    memcpy(s->bytes[item] + offset, data, n);
    s->have[item] += n;
    p->collector->data_bytes += n;
    return uplink_recv_durable(p->recv, handle, item, s->have[item], err) < 0 ? -EIO : UPLINK_RECV_NOW;
}

static int store_done(void *ctx, void *handle, struct kymo_err *err)
{
    struct world_peer *p = ctx;
    struct world_collector *c = p->collector;
    struct world_stored *s = handle;
    if (refuses(c, c->refuse_dones)) {
        memset(s->have, 0, s->n_items * sizeof *s->have);
        return kymo_err_set(err, c->refuse_dones, "refused by the test");
    }
    if (c->never_done)
        return UPLINK_RECV_LATER;
    for (size_t i = 0; i < s->n_items; i++) {
        uint8_t sha256[KYMO_SHA256_SIZE];
        if (s->neff[i] && s->have[i] < s->sizes[i]) {
            assert_true(has_neff(c, s->sha256[i]));
            continue;
        }
        assert_int_equal(s->have[i], s->sizes[i]);
        assert_int_equal(kymo_hash_sha256(s->bytes[i], s->sizes[i], sha256), 0);
        if (memcmp(sha256, s->sha256[i], sizeof sha256) != 0) {
            s->have[i] = 0;
            return kymo_err_set(err, -EBADMSG, "wrong hash");
        }
        if (s->neff[i]) {
            assert_true(c->n_neffs < WORLD_NEFFS);
            memcpy(c->neffs[c->n_neffs].sha256, sha256, sizeof sha256);
            c->neffs[c->n_neffs++].received++;
        }
    }
    s->published++;
    s->open = false;
    return UPLINK_RECV_NOW;
}

static void store_drop(void *ctx, void *handle)
{
    (void)ctx;
    ((struct world_stored *)handle)->open = false;
}

static void store_reply(void *ctx, const Kymo__Uplink__CaptureReply *reply)
{
    struct world_peer *p = ctx;
    p->collector->replies++;
    if (reply->n_capture_ids)
        (void)snprintf(p->collector->reply_id, sizeof p->collector->reply_id, "%s", reply->capture_ids[0]);
}

static void store_refused(void *ctx, uint64_t request_id, int why, const char *text)
{
    struct world_peer *p = ctx;
    (void)request_id;
    (void)why;
    (void)text;
    p->collector->request_refusals++;
}

static void add_loss(struct world_collector *c, const Kymo__Uplink__HostLoss *row)
{
    size_t i = 0;
    while (i < c->n_losses && (c->losses[i].row != row->row || c->losses[i].first_seq != row->first_seq))
        i++;
    assert_true(i < sizeof c->losses / sizeof c->losses[0]);
    c->n_losses += i == c->n_losses;
    c->losses[i].row = row->row;
    c->losses[i].first_seq = row->first_seq;
    c->losses[i].captures = row->captures;
    (void)snprintf(c->losses[i].cause, sizeof c->losses[i].cause, "%s", row->cause);
}

static int store_host_losses(void *ctx, const Kymo__Uplink__HostLosses *losses, struct kymo_err *err)
{
    struct world_peer *p = ctx;
    struct world_collector *c = p->collector;
    assert_string_equal(p->host, "host7");
    if (c->keeps_never)
        return kymo_err_set(err, -EIO, "not now");
    for (size_t i = 0; i < losses->n_rows; i++)
        add_loss(c, losses->rows[i]);
    c->late_batch = losses->batch;
    return c->keeps_late ? UPLINK_RECV_LATER : UPLINK_RECV_NOW;
}

static const struct uplink_recv_ops store = {.hello = store_hello,
                                             .offer = store_offer,
                                             .write = store_write,
                                             .done = store_done,
                                             .drop = store_drop,
                                             .host_losses = store_host_losses,
                                             .reply = store_reply,
                                             .refused = store_refused};

/* ---- its connections ---- */

static void pump(struct world_peer *p)
{
    const uint8_t *data;
    size_t n, taken = 0;
    do {
        uplink_recv_out(p->recv, &data, &n);
        if (n == 0 || net_conn_send(p->conn, data, n, &taken, NULL) < 0)
            return;
        uplink_recv_consume(p->recv, taken);
    } while (taken == n);
}

static int on_data(struct net_conn *conn, void *ctx, const uint8_t *data, size_t n, struct kymo_err *err)
{
    struct world_peer *p = ctx;
    struct world_collector *c = p->collector;
    (void)conn;
    if (c->cut_at && p->heard + n >= c->cut_at) {
        n = (size_t)(c->cut_at - p->heard);
        c->cut_at = c->cut_only_once ? 0 : c->cut_at;
        if (uplink_recv_feed(p->recv, data, n, err) == 0)
            pump(p);
        return kymo_err_set(err, -ECONNRESET, "cut by the test");
    }
    p->heard += n;
    int r = uplink_recv_feed(p->recv, data, n, err);
    pump(p);
    return r;
}

static void on_writable(struct net_conn *conn, void *ctx)
{
    (void)conn;
    pump(ctx);
}

static void on_closed(struct net_conn *conn, void *ctx, const struct kymo_err *why)
{
    struct world_peer *p = ctx;
    (void)conn;
    (void)why;
    for (size_t i = 0; i < WORLD_CONNECTIONS; i++)
        if (p->collector->peers[i] == p)
            p->collector->peers[i] = NULL;
    uplink_recv_free(p->recv);
    kymo_free(p);
}

static const struct net_conn_ops conn_ops = {.data = on_data, .writable = on_writable, .closed = on_closed};

static void *on_accepted(void *ctx, struct net_conn *conn)
{
    struct world_collector *c = ctx;
    size_t i = 0;
    while (i < WORLD_CONNECTIONS && c->peers[i])
        i++;
    if (i == WORLD_CONNECTIONS)
        return NULL;
    struct world_peer *p = KYMO_NEW(struct world_peer);
    assert_non_null(p);
    p->collector = c;
    p->conn = conn;
    const struct uplink_recv_config rc = {
        .versions = c->versions, .writer = "kymo-collector test", .zstd = true, .ops = &store, .ctx = p};
    assert_int_equal(uplink_recv_new(&rc, &p->recv, NULL), 0);
    c->peers[i] = p;
    c->connections++;
    net_conn_pause(conn, c->deaf);
    return p;
}

void world_listen(struct world *w, int i)
{
    struct world_collector *c = &w->collectors[i];
    char address[32];
    struct kymo_err err = {0};
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", c->port);
    const struct net_listener_config lc = {
        .address = address, .tls = c->tls, .accepted = on_accepted, .ops = &conn_ops, .ctx = c};
    if (net_listener_new(w->net, &lc, &c->listener, &err) < 0)
        fail_msg("%s", err.text);
    c->port = net_listener_port(c->listener);
}

void world_unlisten(struct world *w, int i)
{
    struct world_collector *c = &w->collectors[i];
    (void)w;
    c->listener = net_listener_close(c->listener);
    for (size_t k = 0; k < WORLD_CONNECTIONS; k++)
        if (c->peers[k])
            net_conn_close(c->peers[k]->conn);
}

void world_cut_in(struct world_collector *c, uint64_t bytes)
{
    uint64_t heard = 0;
    for (size_t i = 0; i < WORLD_CONNECTIONS; i++)
        if (c->peers[i])
            heard = c->peers[i]->heard;
    c->cut_at = heard + bytes;
    c->cut_only_once = true;
}

uint64_t world_lost(const struct world_collector *c, const char *cause)
{
    uint64_t n = 0;
    for (size_t i = 0; i < c->n_losses; i++)
        n += strcmp(c->losses[i].cause, cause) == 0 ? c->losses[i].captures : 0;
    return n;
}

void world_keep_late(struct world_collector *c)
{
    for (size_t i = 0; i < WORLD_CONNECTIONS; i++)
        if (c->peers[i]) {
            assert_int_equal(uplink_recv_losses_kept(c->peers[i]->recv, c->late_batch, NULL), 0);
            pump(c->peers[i]);
        }
}

void world_request(struct world_collector *c, uint64_t request_id, const char *job)
{
    char text[32];
    Kymo__Uplink__CaptureRequest request = KYMO__UPLINK__CAPTURE_REQUEST__INIT;
    (void)snprintf(text, sizeof text, "%s", job);
    request.has_request_id = 1;
    request.request_id = request_id;
    request.job = text;
    for (size_t i = 0; i < WORLD_CONNECTIONS; i++)
        if (c->peers[i]) {
            assert_int_equal(uplink_recv_request(c->peers[i]->recv, &request, NULL), 0);
            pump(c->peers[i]);
        }
}

/* ---- the owner ---- */

static void on_taken(void *ctx, uint64_t ticket, int code, uint32_t cause, const struct kymo_err *err)
{
    struct world *w = ctx;
    w->last_ticket = ticket;
    w->last_code = code;
    w->last_cause = cause;
    w->last_err = *err;
    if (code == 0)
        w->taken++;
    else if (code == -ECANCELED)
        w->canceled++;
    else
        w->failed++;
}

static void on_neff(void *ctx, uint64_t ticket, int code, const uint8_t sha256[KYMO_SHA256_SIZE], uint64_t size,
                    const struct kymo_err *err)
{
    struct world *w = ctx;
    w->last_ticket = ticket;
    w->last_code = code;
    w->last_err = *err;
    memcpy(w->neff, sha256, sizeof w->neff);
    w->neff_size = size;
    w->neffs++;
}

static void on_sent(void *ctx, const char *capture_id, const struct kymo_err *why)
{
    struct world *w = ctx;
    if (why) {
        w->last_why = *why;
        w->given_up++;
        return;
    }
    assert_true(w->sent < WORLD_CAPTURES);
    for (unsigned i = 0; i < w->sent; i++)
        assert_string_not_equal(w->sent_ids[i], capture_id);
    (void)snprintf(w->sent_ids[w->sent++], sizeof w->sent_ids[0], "%s", capture_id);
}

static void on_request(void *ctx, uint64_t request, const Kymo__Uplink__CaptureRequest *wanted)
{
    struct world *w = ctx;
    w->requests++;
    if (strcmp(wanted->job, "train") == 0) {
        const char *ids[] = {"wanted-1", "wanted-2"};
        outbox_reply(w->outbox, request, ids, 2);
    } else {
        outbox_refuse(w->outbox, request, -ENOENT, "no such job");
    }
}

static void on_losses(void *ctx, const Kymo__Uplink__RingLosses *losses)
{
    struct world *w = ctx;
    w->ring_losses += (unsigned)losses->n_losses;
}

static void on_changed(void *ctx)
{
    ((struct world *)ctx)->changes++;
}

void world_init(struct world *w)
{
    memset(w, 0, sizeof *w);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)snprintf(w->dir, sizeof w->dir, "%s/kymo-outbox-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(w->spool, sizeof w->spool, "%s/spool", w->dir);
    (void)snprintf(w->intake, sizeof w->intake, "%s/intake", w->dir);
    assert_int_equal(mkdir(w->intake, 0700), 0);
    assert_int_equal(uv_loop_init(&w->loop), 0);
    assert_int_equal(net_new(&w->loop, &w->net, NULL), 0);
    for (int i = 0; i < 2; i++)
        w->collectors[i].world = w;
    w->ops = (struct outbox_ops){.taken = on_taken,
                                 .neff = on_neff,
                                 .sent = on_sent,
                                 .request = on_request,
                                 .ring_losses = on_losses,
                                 .changed = on_changed};
    w->config = (struct outbox_config){.spool_dir = w->spool,
                                       .limits = spool_limits_default,
                                       .times = {.tick = 10,
                                                 .ping = 50,
                                                 .idle = 2000,
                                                 .standby = 100,
                                                 .back = 100,
                                                 .dial_min = 10,
                                                 .dial_max = 50,
                                                 .wait_min = 10,
                                                 .wait_max = 50},
                                       .host = "host7",
                                       .boot_id = "boot",
                                       .writer = "kymod test",
                                       .ops = &w->ops,
                                       .ctx = w};
    w->config.limits.floor_bytes = 0;
    w->config.limits.reserve_bytes = 64u << 10;
}

static void free_stored(struct world_stored *s)
{
    for (size_t i = 0; i < s->n_items; i++)
        kymo_free(s->bytes[i]);
    kymo_free(s->manifest);
    kymo_free(s->sizes);
    kymo_free(s->have);
    kymo_free(s->sha256);
    kymo_free(s->neff);
    kymo_free(s->bytes);
    kymo_free(s);
}

static bool is_connected(const struct world *w)
{
    bool any = false;
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < WORLD_CONNECTIONS; k++)
            any |= w->collectors[i].peers[k] != NULL;
    return any;
}

void world_done(struct world *w)
{
    /* While the loop runs, so that nobody has to linger. */
    for (int i = 0; i < 2; i++)
        world_unlisten(w, i);
    world_until(w, !is_connected(w));
    world_stop(w);
    w->net = net_free(w->net);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < w->collectors[i].n_stored; k++)
            free_stored(w->collectors[i].stored[k]);
        tls_context_free(w->collectors[i].tls);
    }
    assert_int_equal(kymo_file_remove_tree(w->dir, NULL), 0);
}

void world_start(struct world *w)
{
    static char addresses[2][32];
    struct kymo_err err = {0};
    for (int i = 0; i < 2; i++) {
        w->config.collectors[i] = w->collectors[i].port ? addresses[i] : NULL;
        (void)snprintf(addresses[i], sizeof addresses[i], "127.0.0.1:%d", w->collectors[i].port);
    }
    if (outbox_start(&w->loop, &w->config, &w->outbox, &err) < 0 || outbox_go(w->outbox, &err) < 0)
        fail_msg("%s", err.text);
}

void world_stop(struct world *w)
{
    w->outbox = outbox_stop(w->outbox);
}

static void on_turn(uv_timer_t *timer)
{
    (void)timer;
}

void world_turn(struct world *w)
{
    uv_timer_t timer;
    assert_int_equal(uv_timer_init(&w->loop, &timer), 0);
    assert_int_equal(uv_timer_start(&timer, on_turn, 5, 0), 0);
    (void)uv_run(&w->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    (void)uv_run(&w->loop, UV_RUN_NOWAIT);
}

void world_run_ms(struct world *w, uint64_t ms)
{
    for (uint64_t until = uv_hrtime() + ms * 1000000u; uv_hrtime() < until;)
        world_turn(w);
}

/* ---- captures ---- */

static void fill(uint8_t *data, size_t n, const char *id, unsigned file)
{
    unsigned x = file * 7919u + 17u;
    for (const char *p = id; *p; p++)
        x = x * 31u + (unsigned char)*p;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        data[i] = (uint8_t)(x >> 24);
    }
}

void world_make(struct world *w, const char *id, size_t size)
{
    char path[256];
    uint8_t *data KYMO_FREE = kymo_malloc(size + 1);
    assert_non_null(data);
    (void)snprintf(path, sizeof path, "%s/%s", w->intake, id);
    assert_int_equal(mkdir(path, 0700), 0);
    for (unsigned i = 0; i < 2; i++) {
        fill(data, size, id, i);
        (void)snprintf(path, sizeof path, "%s/%s/f%u.ntff", w->intake, id, i);
        FILE *f = fopen(path, "w");
        assert_true(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
    }
    w->made++;
}

int world_take(struct world *w, const char *id, enum spool_how how, const uint8_t *neff, uint64_t *ret_ticket)
{
    char paths[2][256], directory[256], capture_id[SPOOL_ID_MAX + 1], job[] = "train", host[] = "host7";
    uint8_t neffs[1][KYMO_SHA256_SIZE];
    struct outbox_file files[2] = {{.name = "f0.ntff"}, {.name = "f1.ntff"}};
    struct kymo_err err = {0};
    for (unsigned i = 0; i < 2; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%s/%s/f%u.ntff", w->intake, id, i);
        files[i].path = paths[i];
        files[i].type = KYMO__MANIFEST__FILE__KIND__NTFF;
        files[i].vnc = i;
        if (neff) {
            memcpy(neffs[0], neff, sizeof neffs[0]);
            files[i].nneffs = 1;
            files[i].neffs = (const uint8_t(*)[KYMO_SHA256_SIZE])neffs;
        }
    }
    (void)snprintf(directory, sizeof directory, "%s/%s", w->intake, id);
    (void)snprintf(capture_id, sizeof capture_id, "%s", id);
    Kymo__Manifest__Capture meta = KYMO__MANIFEST__CAPTURE__INIT;
    meta.capture_id = capture_id;
    meta.job = job;
    meta.host = host;
    int r = outbox_take(w->outbox, &meta, files, 2, how, directory, ret_ticket, &err);
    /* All was copied. */
    memset(paths, 0, sizeof paths);
    memset(neffs, 0, sizeof neffs);
    memset(directory, 0, sizeof directory);
    return r;
}

bool world_intake_exists(const struct world *w, const char *id)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", w->intake, id);
    return access(path, F_OK) == 0;
}

void world_add_neff(struct world *w, size_t size, unsigned seed)
{
    uint8_t *data KYMO_FREE = kymo_malloc(size + 1);
    int fd = memfd_create("neff", MFD_CLOEXEC);
    unsigned before = w->neffs;
    assert_true(data && fd >= 0);
    fill(data, size, "neff", seed);
    assert_true(write(fd, data, size) == (ssize_t)size);
    assert_int_equal(outbox_add_neff(w->outbox, fd, "a.neff", NULL, NULL), 0);
    world_until(w, w->neffs == before + 1);
}

void world_verify(const struct world *w, const struct world_collector *c, const char *id, size_t size)
{
    const struct world_stored *s = world_find(c, id);
    uint8_t *data KYMO_FREE = kymo_malloc(size + 1);
    (void)w;
    if (!s || s->published != 1)
        fail_msg("%s: published %u times", id, s ? s->published : 0);
    for (unsigned i = 0; i < 2; i++) {
        fill(data, size, id, i);
        assert_int_equal(s->sizes[i], size);
        assert_memory_equal(s->bytes[i], data, size);
    }
    Kymo__Manifest__Capture *m KYMO_CLEANUP(manifest_freep) = NULL;
    assert_int_equal(manifest_parse(s->manifest, s->manifest_len, &m, NULL), 0);
    assert_string_equal(m->capture_id, id);
    assert_int_equal(m->n_files, s->n_items);
}
