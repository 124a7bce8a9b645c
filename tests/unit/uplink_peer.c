#include "tests/unit/uplink_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "proto/manifest_check.h"

#define RETRY_MS 100
#define TICK_MS 20

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "uplink peer: %s\n", what);
    abort();
}

static void pump(struct uplink_peer *p)
{
    struct kymo_err err = {0};
    while (p->conn && p->send && (!p->stall_after || p->read < p->stall_after)) {
        const uint8_t *data;
        size_t n, taken;
        if (uplink_send_out(p->send, &data, &n, &err) < 0 || n == 0 ||
            net_conn_send(p->conn, data, n, &taken, &err) < 0)
            return;
        uplink_send_consume(p->send, taken);
        if (taken < n)
            return;
    }
}

static void offer_all(struct uplink_peer *p)
{
    uint64_t now = uv_now(p->loop);
    for (size_t i = 0; p->conn && i < p->n; i++) {
        struct uplink_peer_capture *c = &p->captures[i];
        if (c->offered || c->stored || now < c->retry_ms || (c->refused && p->give_up))
            continue;
        c->offered = uplink_send_offer(p->send, c->id, c->manifest, c->manifest_n, c->items, c->n_items, c, NULL) == 0;
        if (!c->offered)
            break;
    }
    pump(p);
}

static int on_read(void *ctx, void *handle, uint32_t item, uint64_t offset, void *buf, size_t n, struct kymo_err *err)
{
    struct uplink_peer *p = ctx;
    struct uplink_peer_capture *c = handle;
    (void)err;
    memcpy(buf, c->data[item] + offset, n);
    c->read += n;
    p->read += n;
    return 0;
}

static void on_ready(void *ctx, const Kymo__Wire__Hello *peer)
{
    struct uplink_peer *p = ctx;
    (void)peer;
    net_dialer_good(p->dialer);
    p->hellos++;
    for (size_t i = 0; i < p->n; i++)
        p->captures[i].offered = false;
}

static void on_ack(void *ctx, void *handle, uint32_t item, uint64_t offset)
{
    struct uplink_peer_capture *c = handle;
    (void)ctx;
    (void)item;
    c->acked = offset;
}

static void on_stored(void *ctx, void *handle)
{
    struct uplink_peer *p = ctx;
    struct uplink_peer_capture *c = handle;
    must(!c->stored, "stored twice");
    c->stored = true;
    p->stored++;
}

static void on_refused(void *ctx, void *handle, int why, const char *text)
{
    struct uplink_peer *p = ctx;
    struct uplink_peer_capture *c = handle;
    c->offered = false;
    c->refused++;
    c->why = why;
    c->retry_ms = uv_now(p->loop) + RETRY_MS;
    (void)snprintf(c->text, sizeof c->text, "%s", text);
    p->refusals++;
}

static int on_request(void *ctx, const Kymo__Uplink__CaptureRequest *request, struct kymo_err *err)
{
    struct uplink_peer *p = ctx;
    const char *id = "wanted-1";
    p->requests++;
    if (p->refuse)
        return kymo_err_set(err, -ENOENT, "%s", p->refuse);
    return p->silent ? 0 : uplink_send_reply(p->send, request->request_id, &id, 1, err);
}

static void on_losses(void *ctx, const Kymo__Uplink__RingLosses *m)
{
    struct uplink_peer *p = ctx;
    p->loss_messages++;
    p->losses += m->n_losses;
    for (size_t i = 0; i < m->n_losses; i++)
        (void)snprintf(p->last_losses, sizeof p->last_losses, "%.120s %.40s %.40s %llu", m->profile, m->losses[i]->ring,
                       m->losses[i]->cause, (unsigned long long)m->losses[i]->records);
}

static void on_losses_kept(void *ctx, uint64_t batch)
{
    struct uplink_peer *p = ctx;
    (void)batch;
    p->losses_kept++;
}

static const struct uplink_send_ops send_ops = {
    .read = on_read,
    .on_ready = on_ready,
    .on_ack = on_ack,
    .on_stored = on_stored,
    .on_refused = on_refused,
    .on_request = on_request,
    .on_losses = on_losses,
    .on_losses_kept = on_losses_kept,
};

static int on_data(struct net_conn *conn, void *ctx, const uint8_t *data, size_t n, struct kymo_err *err)
{
    struct uplink_peer *p = ctx;
    (void)conn;
    int r = uplink_send_feed(p->send, data, n, err);
    if (r < 0)
        (void)snprintf(p->last_text, sizeof p->last_text, "%s", err->text);
    else
        offer_all(p);
    return r;
}

static void on_writable(struct net_conn *conn, void *ctx)
{
    (void)conn;
    pump(ctx);
}

static void on_closed(struct net_conn *conn, void *ctx, const struct kymo_err *why)
{
    struct uplink_peer *p = ctx;
    (void)conn;
    p->conn = NULL;
    p->breaks++;
    p->last_code = why->code;
    if (why->code && !*p->last_text)
        (void)snprintf(p->last_text, sizeof p->last_text, "%s", why->text);
    p->send = uplink_send_free(p->send);
    for (size_t i = 0; i < p->n; i++)
        p->captures[i].offered = false;
}

static const struct net_conn_ops conn_ops = {.data = on_data, .writable = on_writable, .closed = on_closed};

static void on_opened(void *ctx, struct net_conn *conn)
{
    struct uplink_peer *p = ctx;
    const struct uplink_send_config config = {
        .writer = "uplink-peer", .host = p->host, .boot_id = "boot", .ops = &send_ops, .ctx = p};
    p->conn = conn;
    p->connections++;
    p->last_text[0] = '\0';
    must(uplink_send_new(&config, &p->send, NULL) == 0, "no memory");
    pump(p);
}

static void on_waiting(void *ctx, const struct kymo_err *why, uint64_t retry_ms)
{
    struct uplink_peer *p = ctx;
    (void)retry_ms;
    p->last_code = why->code;
    if (!*p->last_text)
        (void)snprintf(p->last_text, sizeof p->last_text, "%s", why->text);
}

static void on_timer(uv_timer_t *timer)
{
    offer_all(timer->data);
}

void uplink_peer_init(struct uplink_peer *p, uv_loop_t *loop, struct net *net, const char *host,
                      struct tls_context *tls)
{
    memset(p, 0, sizeof *p);
    p->loop = loop;
    p->net = net;
    (void)snprintf(p->host, sizeof p->host, "%s", host);
    p->tls = tls;
    must(uv_timer_init(loop, &p->timer) == 0, "no timer");
    p->timer.data = p;
    must(uv_timer_start(&p->timer, on_timer, TICK_MS, TICK_MS) == 0, "no timer");
}

void uplink_peer_add(struct uplink_peer *p, const void *manifest, size_t n, const void *const *data)
{
    Kymo__Manifest__Capture *m KYMO_CLEANUP(manifest_freep) = NULL;
    must(p->n < UPLINK_PEER_CAPTURES && manifest_parse(manifest, n, &m, NULL) == 0, "not a manifest");
    struct uplink_peer_capture *c = &p->captures[p->n++];
    (void)snprintf(c->id, sizeof c->id, "%s", m->capture_id);
    c->manifest = kymo_malloc(n + 1);
    c->items = KYMO_NEW_ARRAY(struct uplink_send_item, m->n_files + 1);
    c->data = KYMO_NEW_ARRAY(uint8_t *, m->n_files + 1);
    must(c->manifest && c->items && c->data, "no memory");
    memcpy(c->manifest, manifest, n);
    c->manifest_n = n;
    for (c->n_items = 0; c->n_items < m->n_files; c->n_items++) {
        const Kymo__Manifest__File *f = m->files[c->n_items];
        struct uplink_send_item *item = &c->items[c->n_items];
        char *name = kymo_strdup(f->name);
        c->data[c->n_items] = kymo_malloc(f->size + 1);
        must(name && c->data[c->n_items], "no memory");
        memcpy(c->data[c->n_items], data[c->n_items], f->size);
        item->name = name;
        item->size = f->size;
        item->neff = f->type == KYMO__MANIFEST__FILE__KIND__NEFF;
        memcpy(item->sha256, f->sha256.data, sizeof item->sha256);
    }
}

void uplink_peer_connect(struct uplink_peer *p, int port)
{
    (void)snprintf(p->address, sizeof p->address, "127.0.0.1:%d", port);
    const struct net_dialer_config config = {
        .address = p->address,
        .tls = p->tls,
        .wait_min_ms = 50,
        .wait_max_ms = 200,
        .opened = on_opened,
        .waiting = on_waiting,
        .ops = &conn_ops,
        .ctx = p,
    };
    must(net_dialer_new(p->net, &config, &p->dialer, NULL) == 0, "no dialer");
}

void uplink_peer_disconnect(struct uplink_peer *p)
{
    p->dialer = net_dialer_close(p->dialer);
}

static void free_capture(struct uplink_peer_capture *c)
{
    for (size_t i = 0; i < c->n_items; i++) {
        union {
            const char *in;
            char *out;
        } name = {c->items[i].name};
        kymo_free(name.out);
        kymo_free(c->data[i]);
    }
    kymo_free(c->data);
    kymo_free(c->items);
    kymo_free(c->manifest);
}

void uplink_peer_done(struct uplink_peer *p)
{
    uplink_peer_disconnect(p);
    for (size_t i = 0; i < p->n; i++)
        free_capture(&p->captures[i]);
    p->n = 0;
    uv_close((uv_handle_t *)&p->timer, NULL);
}
