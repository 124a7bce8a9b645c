#include "base/net_conn.h"

#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/net_internal.h"

/* Bytes that one connection may send before others have their turn. */
#define TURN (1u << 20)
/* What is left over by a full socket is copied in pieces of this size; its departure tells that there is room again. */
#define PIECE (64u << 10)

enum state { MADE, STARTED, READY, DRAINING, CLOSING };

struct net_conn {
    struct net *net;
    struct net_conn *next; /* in net->kicked */
    uv_tcp_t tcp;
    uv_timer_t timer; /* until ready; then for the linger */
    uv_write_t write;
    uv_shutdown_t shutdown;
    int handles; /* that are not closed yet */
    enum state state;
    bool was_ready, flight, wants_room, paused, told_end;
    size_t turn; /* bytes left of it */
    struct kymo_buf filling, flying;
    struct tls_stream *tls;
    const struct net_conn_ops *ops;
    void *ctx;
    const struct net_conn_owner *owner;
    void *owner_ctx;
    struct kymo_err why;
    char peer[NET_PEER_MAX];
};

static void on_handle_closed(uv_handle_t *handle)
{
    struct net_conn *c = handle->data;
    if (--c->handles > 0)
        return;
    if (c->was_ready && c->ctx)
        c->ops->closed(c, c->ctx, &c->why);
    c->owner->gone(c->owner_ctx, c, c->was_ready, &c->why);
    tls_stream_free(c->tls);
    kymo_buf_done(&c->filling);
    kymo_buf_done(&c->flying);
    kymo_free(c);
}

static void close_now(struct net_conn *c)
{
    if (c->state == CLOSING)
        return;
    c->state = CLOSING;
    net_unkick(c->net, c);
    uv_close((uv_handle_t *)&c->tcp, on_handle_closed);
    uv_close((uv_handle_t *)&c->timer, on_handle_closed);
}

static void set_why(struct net_conn *c, int code, const char *text)
{
    if (!c->why.code && c->state < DRAINING)
        (void)kymo_err_set(&c->why, code, "%s: %s", c->peer, text);
}

void net_conn_abort(struct net_conn *c, int code, const char *text)
{
    set_why(c, code, text);
    close_now(c);
}

int net_conn_new(struct net *n, struct tls_context *tls, const char *tls_name, const struct net_conn_ops *ops,
                 const struct net_conn_owner *owner, void *owner_ctx, struct net_conn **ret, struct kymo_err *err)
{
    struct net_conn *c = KYMO_NEW(struct net_conn);
    if (!c)
        return kymo_err_set(err, -ENOMEM, "net: out of memory");
    int r = tls ? tls_stream_new(tls, tls_name, &c->tls, err) : 0;
    if (r < 0) {
        kymo_free(c);
        return r;
    }
    c->net = n;
    c->ops = ops;
    c->owner = owner;
    c->owner_ctx = owner_ctx;
    memcpy(c->peer, "?", 2);
    /* TLS may hold its own maximum, which then moves here in one go. */
    kymo_buf_init(&c->filling, TLS_OUT_MAX + NET_CONN_QUEUE);
    kymo_buf_init(&c->flying, TLS_OUT_MAX + NET_CONN_QUEUE);
    (void)uv_tcp_init(n->loop, &c->tcp);
    (void)uv_timer_init(n->loop, &c->timer);
    c->tcp.data = c->timer.data = c->write.data = c->shutdown.data = c;
    c->handles = 2;
    *ret = c;
    return 0;
}

uv_tcp_t *net_conn_tcp(struct net_conn *c)
{
    return &c->tcp;
}

struct net_conn **net_conn_next(struct net_conn *c)
{
    return &c->next;
}

static void on_timeout(uv_timer_t *timer)
{
    struct net_conn *c = timer->data;
    net_conn_abort(c, -ETIMEDOUT, "no connection in time");
}

void net_conn_limit(struct net_conn *c, uint64_t timeout_ms)
{
    (void)uv_timer_start(&c->timer, on_timeout, timeout_ms, 0);
}

static void on_shutdown(uv_shutdown_t *request, int status)
{
    struct net_conn *c = request->data;
    /* The peer's end, or the timer, closes: closing while its bytes are unread would destroy ours on their way. */
    if (status < 0)
        close_now(c);
}

static void end_output(struct net_conn *c)
{
    if (c->state != DRAINING || c->flight || c->filling.len > 0 || c->told_end)
        return;
    c->told_end = true;
    if (uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, on_shutdown) < 0)
        close_now(c);
}

void net_conn_turn(struct net_conn *c)
{
    c->turn = TURN;
    if (c->state != READY || !c->wants_room || c->filling.len > 0)
        return;
    c->wants_room = false;
    c->ops->writable(c, c->ctx);
}

static void start_flight(struct net_conn *c);

static void on_written(uv_write_t *request, int status)
{
    struct net_conn *c = request->data;
    c->flight = false;
    kymo_buf_reset(&c->flying);
    if (c->state == CLOSING)
        return;
    if (status < 0) {
        net_conn_abort(c, status, uv_strerror(status));
        return;
    }
    start_flight(c);
    end_output(c);
    net_conn_turn(c);
}

static void start_flight(struct net_conn *c)
{
    if (c->flight || c->filling.len == 0)
        return;
    struct kymo_buf full = c->filling;
    c->filling = c->flying;
    c->flying = full;
    uv_buf_t buf = uv_buf_init((char *)c->flying.data, (unsigned)c->flying.len);
    int r = uv_write(&c->write, (uv_stream_t *)&c->tcp, &buf, 1, on_written);
    if (r < 0)
        net_conn_abort(c, r, uv_strerror(r));
    else
        c->flight = true;
}

/* As much as the socket takes right now. */
static size_t try_write(struct net_conn *c, const uint8_t *data, size_t n)
{
    if (c->flight || c->filling.len > 0 || n == 0)
        return 0;
    union {
        const uint8_t *in;
        char *out;
    } bytes = {.in = data};
    uv_buf_t buf = uv_buf_init(bytes.out, (unsigned)n);
    int r = uv_try_write((uv_stream_t *)&c->tcp, &buf, 1);
    return r > 0 ? (size_t)r : 0;
}

static int queue(struct net_conn *c, const uint8_t *data, size_t n, struct kymo_err *err)
{
    int r = kymo_buf_append(&c->filling, data, n);
    if (r < 0) {
        net_conn_abort(c, r, "no memory for what waits to be sent");
        return kymo_err_set(err, r, "%s", c->why.text);
    }
    start_flight(c);
    return 0;
}

/* Moves what TLS has to send to the socket or the queue. */
static int flush_tls(struct net_conn *c, struct kymo_err *err)
{
    const uint8_t *data;
    size_t n;
    tls_stream_out(c->tls, &data, &n);
    size_t sent = try_write(c, data, n);
    int r = n > sent ? queue(c, data + sent, n - sent, err) : 0;
    tls_stream_consume(c->tls, n);
    return r;
}

static int send_tls(struct net_conn *c, const uint8_t *data, size_t n, size_t *ret_taken, struct kymo_err *err)
{
    n = n < PIECE ? n : PIECE;
    int r = tls_stream_write(c->tls, data, n, err);
    if (r == -ENOBUFS)
        return 0;
    if (r < 0) {
        net_conn_abort(c, r, err ? err->text : "TLS does not write");
        return r;
    }
    *ret_taken = n;
    return flush_tls(c, err);
}

static int send_plain(struct net_conn *c, const uint8_t *data, size_t n, size_t *ret_taken, struct kymo_err *err)
{
    size_t sent = try_write(c, data, n);
    size_t rest = n - sent < PIECE ? n - sent : PIECE;
    *ret_taken = sent + rest;
    return rest > 0 ? queue(c, data + sent, rest, err) : 0;
}

int net_conn_send(struct net_conn *c, const void *data, size_t n, size_t *ret_taken, struct kymo_err *err)
{
    *ret_taken = 0;
    if (c->state != READY)
        return kymo_err_set(err, -EPIPE, "%s: the connection is not open", c->peer);
    const uint8_t *at = data;
    int r = 0;
    /* Plain bytes are copied only where a full socket leaves a piece over, which then is on its way. */
    while (r == 0 && *ret_taken < n && c->filling.len < NET_CONN_QUEUE && c->turn > 0 && (c->tls || !c->flight)) {
        size_t taken = 0;
        size_t part = n - *ret_taken < TURN ? n - *ret_taken : TURN;
        r = c->tls ? send_tls(c, at + *ret_taken, part, &taken, err)
                   : send_plain(c, at + *ret_taken, part, &taken, err);
        *ret_taken += taken;
        c->turn -= taken < c->turn ? taken : c->turn;
        if (taken == 0)
            break;
    }
    if (r == 0 && *ret_taken < n) {
        c->wants_room = true;
        if (!c->flight)
            net_kick(c->net, c);
    }
    return r;
}

static void become_ready(struct net_conn *c)
{
    c->state = READY;
    c->was_ready = true;
    c->turn = TURN;
    (void)uv_timer_stop(&c->timer);
    c->ctx = c->owner->ready(c->owner_ctx, c);
    if (!c->ctx)
        net_conn_abort(c, -ECONNABORTED, "not wanted");
}

static int deliver(void *ctx, const uint8_t *data, size_t n, struct kymo_err *err)
{
    struct net_conn *c = ctx;
    /* The last bytes of the handshake and the first of the peer's data may come together. */
    if (c->state == STARTED)
        become_ready(c);
    if (c->state != READY)
        return 0;
    return c->ops->data(c, c->ctx, data, n, err);
}

static void drain(struct net_conn *c, const struct kymo_err *why)
{
    set_why(c, why->code, why->text);
    net_conn_close(c);
}

static void on_bytes(struct net_conn *c, const uint8_t *data, size_t n)
{
    c->turn = TURN;
    struct kymo_err err = {0};
    if (!c->tls) {
        if (deliver(c, data, n, &err) < 0)
            drain(c, &err);
        return;
    }
    int r = tls_stream_feed(c->tls, data, n, deliver, c, &err);
    if (c->state == CLOSING || flush_tls(c, NULL) < 0)
        return;
    if (r < 0)
        drain(c, &err);
    else if (c->state == STARTED && tls_stream_is_ready(c->tls))
        become_ready(c);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct net_conn *c = handle->data;
    (void)suggested;
    *buf = uv_buf_init((char *)c->net->read, sizeof c->net->read);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct net_conn *c = stream->data;
    if (c->state == CLOSING)
        return;
    if (n == UV_EOF)
        net_conn_abort(c, -EPIPE, "the peer has closed");
    else if (n < 0)
        net_conn_abort(c, (int)n, uv_strerror((int)n));
    else if (n > 0 && c->state != DRAINING)
        on_bytes(c, (const uint8_t *)buf->base, (size_t)n);
}

void net_conn_aim(struct net_conn *c, const struct sockaddr *addr)
{
    net_format(addr, c->peer);
}

void net_conn_start(struct net_conn *c, uint64_t timeout_ms)
{
    struct sockaddr_storage addr;
    int len = sizeof addr;
    if (uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&addr, &len) == 0)
        net_format((const struct sockaddr *)&addr, c->peer);
    (void)uv_tcp_nodelay(&c->tcp, 1);
    c->state = STARTED;
    net_conn_limit(c, timeout_ms);
    int r = uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
    if (r < 0) {
        net_conn_abort(c, r, uv_strerror(r));
    } else if (!c->tls) {
        become_ready(c);
    } else {
        /* A client speaks first. */
        on_bytes(c, NULL, 0);
    }
}

void net_conn_pause(struct net_conn *c, bool paused)
{
    if (c->state != READY || c->paused == paused)
        return;
    c->paused = paused;
    if (paused)
        (void)uv_read_stop((uv_stream_t *)&c->tcp);
    else if (uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) < 0)
        net_conn_abort(c, -EIO, "cannot read on");
}

void net_conn_close(struct net_conn *c)
{
    if (c->state >= DRAINING)
        return;
    if (c->tls) {
        tls_stream_close(c->tls);
        if (flush_tls(c, NULL) < 0)
            return;
    }
    net_unkick(c->net, c);
    bool paused = c->paused;
    c->state = DRAINING;
    /* What the peer still sends is read and dropped until it has seen our end. */
    if (paused && uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) < 0)
        close_now(c);
    if (c->state == DRAINING) {
        net_conn_limit(c, NET_CONN_LINGER_MS);
        end_output(c);
    }
}

void net_conn_end(struct net_conn *c)
{
    if (c->state == READY)
        net_conn_close(c);
    else if (c->state < READY)
        net_conn_abort(c, -ECANCELED, "not wanted any more");
}

const char *net_conn_peer(const struct net_conn *c)
{
    return c->peer;
}

void net_conn_peer_name(const struct net_conn *c, char ret[static TLS_NAME_MAX + 1])
{
    ret[0] = '\0';
    if (c->tls)
        tls_stream_peer_name(c->tls, ret);
}
