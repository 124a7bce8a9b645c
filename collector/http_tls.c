/*
 * TLS before libmicrohttpd, whose own is another library's: a connection of base/net is joined to it by a socket pair,
 * with at most a buffer of bytes waiting each way.
 */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/net_internal.h"
#include "base/net_listener.h"
#include "collector/http_impl.h"

#define IN_MAX (2 * NET_READ_SIZE) /* one read may come on top of what waits */
#define OUT_MAX (64u << 10)

struct tunnel {
    struct net_conn *conn;
    int fd; /* our end */
    uv_poll_t poll;
    struct kymo_buf in; /* towards libmicrohttpd */
    size_t out_n, out_at;
    uint8_t out[OUT_MAX];
    bool ended; /* libmicrohttpd has closed its end */
};

static void on_poll(uv_poll_t *poll, int status, int events);

static void watch(struct tunnel *t)
{
    int events = (t->in.len > 0 ? UV_WRITABLE : 0) | (t->out_n == 0 && !t->ended ? UV_READABLE : 0);
    if (events)
        (void)uv_poll_start(&t->poll, events, on_poll);
    else
        (void)uv_poll_stop(&t->poll);
}

/* What our end takes of n bytes; 0 when it is full. */
static int push(struct tunnel *t, const uint8_t *data, size_t n, size_t *ret, struct kymo_err *err)
{
    ssize_t sent = send(t->fd, data, n, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        return kymo_err_set(err, -EPIPE, "the HTTP server has closed this connection");
    *ret = sent < 0 ? 0 : (size_t)sent;
    return 0;
}

static int on_data(struct net_conn *conn, void *ctx, const uint8_t *data, size_t n, struct kymo_err *err)
{
    struct tunnel *t = ctx;
    size_t sent = 0;
    int r = t->in.len == 0 ? push(t, data, n, &sent, err) : 0;
    if (r == 0 && sent < n)
        r = kymo_buf_append(&t->in, data + sent, n - sent);
    if (r < 0)
        return r;
    net_conn_pause(conn, t->in.len > 0);
    watch(t);
    return 0;
}

static void push_waiting(struct tunnel *t)
{
    size_t sent = 0;
    if (push(t, t->in.data, t->in.len, &sent, NULL) < 0)
        sent = t->in.len;
    memmove(t->in.data, t->in.data + sent, t->in.len - sent);
    t->in.len -= sent;
    if (t->in.len == 0)
        net_conn_pause(t->conn, false);
}

static void send_out(struct tunnel *t)
{
    size_t taken = 0;
    if (t->out_n > 0 && net_conn_send(t->conn, t->out + t->out_at, t->out_n, &taken, NULL) < 0)
        return;
    t->out_at += taken;
    t->out_n -= taken;
}

static void pull(struct tunnel *t)
{
    ssize_t n = recv(t->fd, t->out, sizeof t->out, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        t->ended = true;
        net_conn_close(t->conn);
        return;
    }
    t->out_at = 0;
    t->out_n = (size_t)n;
    send_out(t);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct tunnel *t = poll->data;
    if (status < 0)
        events = UV_READABLE | UV_WRITABLE;
    if ((events & UV_WRITABLE) && t->in.len > 0)
        push_waiting(t);
    if ((events & UV_READABLE) && t->out_n == 0 && !t->ended)
        pull(t);
    watch(t);
}

static void on_writable(struct net_conn *conn, void *ctx)
{
    struct tunnel *t = ctx;
    (void)conn;
    send_out(t);
    watch(t);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct tunnel *t = handle->data;
    kymo_file_close(t->fd);
    kymo_buf_done(&t->in);
    kymo_free(t);
}

static void on_closed(struct net_conn *conn, void *ctx, const struct kymo_err *why)
{
    struct tunnel *t = ctx;
    (void)conn;
    (void)why;
    uv_close((uv_handle_t *)&t->poll, on_poll_closed);
}

/* With the address of who is at the other end of it all. */
static int give_end(struct http *h, int fd, const struct net_conn *conn)
{
    struct sockaddr_storage addr;
    struct kymo_err ignored = {0};
    socklen_t n = sizeof(struct sockaddr_in6);
    if (net_numeric(net_conn_peer(conn), &addr, &ignored) < 0) {
        const struct sockaddr_in nowhere = {.sin_family = AF_INET};
        memcpy(&addr, &nowhere, sizeof nowhere);
    }
    if (addr.ss_family == AF_INET)
        n = sizeof(struct sockaddr_in);
    return MHD_add_connection(h->daemon, fd, (const struct sockaddr *)&addr, n) == MHD_YES ? 0 : -1;
}

static void *on_accepted(void *ctx, struct net_conn *conn)
{
    struct http *h = ctx;
    int ends[2];
    struct tunnel *t = KYMO_NEW(struct tunnel);
    if (!t || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0) {
        kymo_free(t);
        return NULL;
    }
    /* It closes its end also when it refuses it. */
    if (give_end(h, ends[1], conn) < 0 || uv_poll_init(h->loop, &t->poll, ends[0]) < 0) {
        kymo_file_close(ends[0]);
        kymo_free(t);
        return NULL;
    }
    t->conn = conn;
    t->fd = ends[0];
    t->poll.data = t;
    kymo_buf_init(&t->in, IN_MAX);
    watch(t);
    return t;
}

int http_tls_listen(struct http *h, struct net *net, struct kymo_err *err)
{
    static const struct net_conn_ops ops = {.data = on_data, .writable = on_writable, .closed = on_closed};
    const struct net_listener_config config = {
        .address = h->config.address,
        .adopt = h->config.adopt,
        .socket = h->config.socket,
        .tls = h->config.tls,
        .max_connections = h->config.max_connections + 32,
        .accepted = on_accepted,
        .ops = &ops,
        .ctx = h,
    };
    int r = net_listener_new(net, &config, &h->listener, err);
    if (r == 0)
        h->port = net_listener_port(h->listener);
    return r;
}
