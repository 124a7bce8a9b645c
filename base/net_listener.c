#include "base/net_listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/alloc.h"
#include "base/net_internal.h"

#define BACKLOG 1024
#define CONNECTIONS_MAX 1024

struct net_listener {
    struct net *net;
    uv_tcp_t tcp;
    struct net_listener_config config;
    unsigned connections;
    bool closing, closed; /* closed: the handle is */
};

static void let_go(struct net_listener *l)
{
    if (l->closed && l->connections == 0)
        kymo_free(l);
}

static void on_closed(uv_handle_t *handle)
{
    struct net_listener *l = handle->data;
    l->closed = true;
    let_go(l);
}

static void *on_ready(void *owner, struct net_conn *c)
{
    struct net_listener *l = owner;
    return l->closing ? NULL : l->config.accepted(l->config.ctx, c);
}

static void on_gone(void *owner, struct net_conn *c, bool was_ready, const struct kymo_err *why)
{
    struct net_listener *l = owner;
    l->connections--;
    if (!was_ready && !l->closing && l->config.refused)
        l->config.refused(l->config.ctx, net_conn_peer(c), why);
    let_go(l);
}

static const struct net_conn_owner owner_ops = {.ready = on_ready, .gone = on_gone};

static void on_connection(uv_stream_t *stream, int status)
{
    struct net_listener *l = stream->data;
    if (status < 0 || l->closing)
        return;
    struct kymo_err err = {0};
    struct net_conn *c;
    if (net_conn_new(l->net, l->config.tls, NULL, l->config.ops, &owner_ops, l, &c, &err) < 0) {
        /* The kernel keeps the connection; it is accepted with the next one. */
        if (l->config.refused)
            l->config.refused(l->config.ctx, "?", &err);
        return;
    }
    l->connections++;
    int r = uv_accept(stream, (uv_stream_t *)net_conn_tcp(c));
    if (r < 0)
        net_conn_abort(c, r, uv_strerror(r));
    else if (l->connections > l->config.max_connections)
        net_conn_abort(c, -EMFILE, "too many connections");
    else
        net_conn_start(c, NET_HANDSHAKE_MS);
}

static int start_listening(struct net_listener *l, struct kymo_err *err)
{
    const char *text = l->config.address;
    struct sockaddr_storage addr;
    int r = l->config.adopt ? net_listening(l->config.socket, text, &addr, err) : net_numeric(text, &addr, err);
    if (r < 0)
        return r;
    if (!l->config.tls && !l->config.plain_anywhere && !net_is_loopback((const struct sockaddr *)&addr))
        return kymo_err_set(err, -EPERM, "%s: not a loopback address, and there is no TLS", text);
    r = l->config.adopt ? uv_tcp_open(&l->tcp, l->config.socket)
                        : uv_tcp_bind(&l->tcp, (const struct sockaddr *)&addr, 0);
    if (r == 0)
        r = uv_listen((uv_stream_t *)&l->tcp, BACKLOG, on_connection);
    return r < 0 ? net_fail(err, r, "cannot listen", text) : 0;
}

int net_listener_new(struct net *n, const struct net_listener_config *config, struct net_listener **ret,
                     struct kymo_err *err)
{
    struct net_listener *l = KYMO_NEW(struct net_listener);
    if (!l)
        return kymo_err_set(err, -ENOMEM, "net: out of memory");
    l->net = n;
    l->config = *config;
    if (l->config.max_connections == 0)
        l->config.max_connections = CONNECTIONS_MAX;
    (void)uv_tcp_init(n->loop, &l->tcp);
    l->tcp.data = l;
    int r = start_listening(l, err);
    if (r < 0) {
        net_listener_close(l);
        return r;
    }
    *ret = l;
    return 0;
}

struct net_listener *net_listener_close(struct net_listener *l)
{
    if (l && !l->closing) {
        l->closing = true;
        uv_close((uv_handle_t *)&l->tcp, on_closed);
    }
    return NULL;
}

void net_listener_set_tls(struct net_listener *l, struct tls_context *tls)
{
    if (l->config.tls && tls)
        l->config.tls = tls;
}

int net_listener_port(const struct net_listener *l)
{
    struct sockaddr_storage addr;
    int len = sizeof addr;
    if (uv_tcp_getsockname(&l->tcp, (struct sockaddr *)&addr, &len) < 0)
        return 0;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    memcpy(&in, &addr, sizeof in);
    memcpy(&in6, &addr, sizeof in6);
    return ntohs(addr.ss_family == AF_INET ? in.sin_port : in6.sin6_port);
}

unsigned net_listener_connections(const struct net_listener *l)
{
    return l->connections;
}
