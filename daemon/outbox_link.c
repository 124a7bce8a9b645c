#include "daemon/outbox_link.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

struct outbox_link_peer {
    struct outbox_link_config config;
    struct net_dialer *dialer;
    struct net_conn *conn;
    struct uplink_send *send;
    uv_loop_t *loop;
    bool up, was_up, closing, pumping, paused;
    struct kymo_err why;
    uint64_t retry_at_ms; /* 0: not waiting */
    uint64_t sent_bytes, connections;
    uint64_t nonce, silent, since_ping; /* the two latter in ms, counted by ticks: a stalled thread is no silent peer */
};

static void end_session(struct outbox_link_peer *l, const struct kymo_err *why)
{
    struct uplink_send *send = KYMO_TAKE(l->send);
    bool was_up = l->up;
    l->up = false;
    uplink_send_free(send);
    if (was_up)
        l->config.ops->down(l->config.owner, l, why);
}

static void pump(struct outbox_link_peer *l)
{
    while (l->conn && l->send) {
        const uint8_t *data;
        size_t n, taken;
        struct kymo_err err = {0};
        if (uplink_send_out(l->send, &data, &n, &err) < 0) {
            l->why = err;
            net_conn_close(l->conn);
            return;
        }
        n = n > 0 ? l->config.ops->allow(l->config.owner, n) : 0;
        if (n == 0 || net_conn_send(l->conn, data, n, &taken, &err) < 0)
            return;
        uplink_send_consume(l->send, taken);
        l->sent_bytes += taken;
        l->config.ops->spent(l->config.owner, taken);
        if (taken < n)
            return;
    }
}

void outbox_link_pump(struct outbox_link_peer *l)
{
    /* A read that fails tells its owner, who may come back here. */
    if (l->pumping)
        return;
    l->pumping = true;
    pump(l);
    l->pumping = false;
}

static int on_data(struct net_conn *c, void *ctx, const uint8_t *data, size_t n, struct kymo_err *err)
{
    struct outbox_link_peer *l = ctx;
    (void)c;
    l->silent = 0;
    if (!l->send)
        return 0;
    int r = uplink_send_feed(l->send, data, n, err);
    if (r == 0)
        l->config.ops->heard(l->config.owner, l);
    outbox_link_pump(l);
    return r;
}

static void on_writable(struct net_conn *c, void *ctx)
{
    (void)c;
    outbox_link_pump(ctx);
}

static void on_closed(struct net_conn *c, void *ctx, const struct kymo_err *why)
{
    struct outbox_link_peer *l = ctx;
    (void)c;
    l->conn = NULL;
    end_session(l, why);
    if (l->closing)
        kymo_free(l);
}

static const struct net_conn_ops conn_ops = {.data = on_data, .writable = on_writable, .closed = on_closed};

static void on_opened(void *ctx, struct net_conn *c)
{
    struct outbox_link_peer *l = ctx;
    const struct outbox_link_config *k = &l->config;
    const struct uplink_send_config sc = {.versions = k->versions,
                                          .writer = k->writer,
                                          .host = k->host,
                                          .boot_id = k->boot_id,
                                          .chunk = k->chunk,
                                          .zstd_level = k->zstd_level,
                                          .ops = k->ops->send,
                                          .ctx = l};
    l->conn = c;
    l->retry_at_ms = l->silent = l->since_ping = 0;
    l->paused = l->was_up = false;
    l->connections++;
    if (uplink_send_new(&sc, &l->send, &l->why) < 0)
        net_conn_close(c);
    else
        outbox_link_pump(l);
}

static void on_waiting(void *ctx, const struct kymo_err *why, uint64_t retry_ms)
{
    struct outbox_link_peer *l = ctx;
    /* What we closed for has its own reason. */
    if (why->code == -EPIPE && l->connections > 0 && !l->was_up && !l->config.tls)
        (void)kymo_err_set(&l->why, -EPIPE,
                           "%s: closed before it answered; if it wants TLS, set tls-ca, tls-cert and "
                           "tls-key",
                           l->config.address);
    else if (why->code)
        l->why = *why;
    else if (!l->why.code)
        (void)kymo_err_set(&l->why, -EPIPE, "%s: closed", l->config.address);
    l->retry_at_ms = uv_now(l->loop) + retry_ms;
}

int outbox_link_new(const struct outbox_link_config *config, struct outbox_link_peer **ret, struct kymo_err *err)
{
    struct outbox_link_peer *l KYMO_FREE = KYMO_NEW(struct outbox_link_peer);
    if (!l)
        return kymo_err_set(err, -ENOMEM, "outbox: out of memory");
    l->config = *config;
    l->loop = config->loop;
    const struct net_dialer_config dc = {.address = config->address,
                                         .tls = config->tls,
                                         .plain_anywhere = config->plain_anywhere,
                                         .wait_min_ms = config->times.dial_min,
                                         .wait_max_ms = config->times.dial_max,
                                         .opened = on_opened,
                                         .waiting = on_waiting,
                                         .ops = &conn_ops,
                                         .ctx = l};
    int r = net_dialer_new(config->net, &dc, &l->dialer, err);
    if (r < 0)
        return r;
    *ret = KYMO_TAKE(l);
    return 0;
}

struct outbox_link_peer *outbox_link_close(struct outbox_link_peer *l)
{
    if (!l || l->closing)
        return NULL;
    struct kymo_err why = {0};
    (void)kymo_err_set(&why, -ECANCELED, "%s: let go", l->config.address);
    l->closing = true;
    end_session(l, &why);
    bool open = l->conn != NULL;
    l->dialer = net_dialer_close(l->dialer);
    if (!open)
        kymo_free(l);
    return NULL;
}

void *outbox_link_owner(const struct outbox_link_peer *l)
{
    return l->config.owner;
}

struct uplink_send *outbox_link_send(const struct outbox_link_peer *l)
{
    return l->up ? l->send : NULL;
}

void outbox_link_ready(struct outbox_link_peer *l)
{
    l->up = l->was_up = true;
    l->why = (struct kymo_err){0};
    l->config.ops->up(l->config.owner, l);
}

void outbox_link_good(struct outbox_link_peer *l)
{
    net_dialer_good(l->dialer);
}

void outbox_link_pause(struct outbox_link_peer *l, bool paused)
{
    if (!l->conn || l->paused == paused)
        return;
    l->paused = paused;
    net_conn_pause(l->conn, paused);
}

void outbox_link_tick(struct outbox_link_peer *l)
{
    const struct outbox_times *t = &l->config.times;
    if (!l->conn || !l->send || l->paused)
        return;
    l->silent += t->tick;
    l->since_ping += t->tick;
    if (l->silent > t->idle) {
        (void)kymo_err_set(&l->why, -ETIMEDOUT, "%s: has said nothing for %llu ms", l->config.address,
                           (unsigned long long)l->silent);
        net_conn_close(l->conn);
        return;
    }
    if (!l->up || l->since_ping < t->ping)
        return;
    l->since_ping = 0;
    /* One that does not fit is not needed: the peer has much to read. */
    if (uplink_send_ping(l->send, ++l->nonce, NULL) == 0)
        outbox_link_pump(l);
}

void outbox_link_get_status(const struct outbox_link_peer *l, struct outbox_link_status *ret)
{
    bool waits = l->retry_at_ms > uv_now(l->loop);
    *ret = (struct outbox_link_status){.state = l->up   ? OUTBOX_LINK_UP
                                                : waits ? OUTBOX_LINK_WAITING
                                                        : OUTBOX_LINK_CONNECTING,
                                       .retry_at_ms = waits ? l->retry_at_ms : 0,
                                       .sent_bytes = l->sent_bytes,
                                       .connections = l->connections};
    (void)snprintf(ret->address, sizeof ret->address, "%s", l->config.address);
    memcpy(ret->reason, l->why.text, sizeof ret->reason);
}
