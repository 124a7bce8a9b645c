#include "base/net_dialer.h"

#include <netdb.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/net_internal.h"

#define ADDRESSES_MAX 8
#define TIMEOUT_MS 10000
#define WAIT_MIN_MS 250
#define WAIT_MAX_MS 60000

struct net_dialer {
    struct net *net;
    struct net_dialer_config config;
    struct net_address address;
    char tls_name[NET_HOST_MAX + 1];
    uv_timer_t timer;
    uv_getaddrinfo_t resolve;
    uv_connect_t connect;
    struct sockaddr_storage found[ADDRESSES_MAX];
    size_t n_found, at;
    struct net_conn *conn; /* from connecting until it is gone */
    uint64_t wait_ms, random;
    bool resolving, closing, timer_closed;
    struct kymo_err why; /* of the last failure */
};

static void try_next(struct net_dialer *d);
static void start_attempt(uv_timer_t *timer);

static void let_go(struct net_dialer *d)
{
    if (d->closing && d->timer_closed && !d->resolving && !d->conn)
        kymo_free(d);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct net_dialer *d = handle->data;
    d->timer_closed = true;
    let_go(d);
}

/* xorshift64*: jitter needs to be spread, not secret. */
static uint64_t next_random(struct net_dialer *d)
{
    d->random ^= d->random >> 12;
    d->random ^= d->random << 25;
    d->random ^= d->random >> 27;
    return d->random * 0x2545f4914f6cdd1dull;
}

static void wait_for_next(struct net_dialer *d)
{
    uint64_t half = d->wait_ms / 2;
    uint64_t wait = half + (next_random(d) >> 11) % (d->wait_ms - half + 1);
    d->wait_ms = d->wait_ms > d->config.wait_max_ms / 2 ? d->config.wait_max_ms : d->wait_ms * 2;
    (void)uv_timer_start(&d->timer, start_attempt, wait, 0);
    if (d->config.waiting)
        d->config.waiting(d->config.ctx, &d->why, wait);
}

static void *on_ready(void *owner, struct net_conn *c)
{
    struct net_dialer *d = owner;
    if (d->closing)
        return NULL;
    d->config.opened(d->config.ctx, c);
    return d->config.ctx;
}

static void on_gone(void *owner, struct net_conn *c, bool was_ready, const struct kymo_err *why)
{
    struct net_dialer *d = owner;
    (void)c;
    d->conn = NULL;
    d->why = *why;
    if (d->closing)
        let_go(d);
    else if (was_ready)
        wait_for_next(d);
    else
        try_next(d);
}

static const struct net_conn_owner owner_ops = {.ready = on_ready, .gone = on_gone};

static void on_connected(uv_connect_t *request, int status)
{
    struct net_dialer *d = request->data;
    if (status == UV_ECANCELED) /* the connection is being closed and knows why */
        return;
    struct net_conn *c = d->conn;
    if (status < 0)
        net_conn_abort(c, status, uv_strerror(status));
    else
        net_conn_start(c, d->config.timeout_ms);
}

static int connect_to(struct net_dialer *d, const struct sockaddr *addr, struct kymo_err *err)
{
    if (!d->config.tls && !d->config.plain_anywhere && !net_is_loopback(addr)) {
        char text[NET_PEER_MAX];
        net_format(addr, text);
        return kymo_err_set(err, -EPERM, "%s: %s is not a loopback address, and there is no TLS", d->config.address,
                            text);
    }
    int r = net_conn_new(d->net, d->config.tls, d->config.tls ? d->tls_name : NULL, d->config.ops, &owner_ops, d,
                         &d->conn, err);
    if (r < 0)
        return r;
    net_conn_aim(d->conn, addr);
    d->connect.data = d;
    net_conn_limit(d->conn, d->config.timeout_ms);
    r = uv_tcp_connect(&d->connect, net_conn_tcp(d->conn), addr, on_connected);
    if (r < 0)
        net_conn_abort(d->conn, r, uv_strerror(r));
    return 0;
}

static void try_next(struct net_dialer *d)
{
    while (!d->conn && d->at < d->n_found)
        (void)connect_to(d, (const struct sockaddr *)&d->found[d->at++], &d->why);
    if (!d->conn)
        wait_for_next(d);
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct net_dialer *d = request->data;
    d->resolving = false;
    d->n_found = d->at = 0;
    for (const struct addrinfo *a = list; a && d->n_found < ADDRESSES_MAX; a = a->ai_next)
        if (a->ai_addrlen <= sizeof d->found[0])
            memcpy(&d->found[d->n_found++], a->ai_addr, a->ai_addrlen);
    uv_freeaddrinfo(list);
    if (status < 0)
        (void)net_fail(&d->why, status, "cannot resolve", d->config.address);
    if (d->closing)
        let_go(d);
    else
        try_next(d);
}

static void start_attempt(uv_timer_t *timer)
{
    struct net_dialer *d = timer->data;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    d->resolve.data = d;
    d->n_found = d->at = 0;
    int r = uv_getaddrinfo(d->net->loop, &d->resolve, on_resolved, d->address.host, d->address.port, &hints);
    d->resolving = r == 0;
    if (r < 0) {
        (void)net_fail(&d->why, r, "cannot resolve", d->config.address);
        wait_for_next(d);
    }
}

int net_dialer_new(struct net *n, const struct net_dialer_config *config, struct net_dialer **ret, struct kymo_err *err)
{
    struct net_dialer *d KYMO_FREE = KYMO_NEW(struct net_dialer);
    if (!d)
        return kymo_err_set(err, -ENOMEM, "net: out of memory");
    int r = net_address_parse(config->address, &d->address, err);
    if (r < 0)
        return r;
    const char *name = config->tls_name ? config->tls_name : d->address.host;
    if (strlen(name) > NET_HOST_MAX)
        return kymo_err_set(err, -EINVAL, "net: a name of more than %d bytes", NET_HOST_MAX);
    memcpy(d->tls_name, name, strlen(name) + 1);
    d->net = n;
    d->config = *config;
    struct net_dialer_config *c = &d->config;
    c->timeout_ms = c->timeout_ms ? c->timeout_ms : TIMEOUT_MS;
    c->wait_min_ms = c->wait_min_ms ? c->wait_min_ms : WAIT_MIN_MS;
    c->wait_max_ms = c->wait_max_ms ? c->wait_max_ms : WAIT_MAX_MS;
    c->wait_max_ms = c->wait_max_ms > c->wait_min_ms ? c->wait_max_ms : c->wait_min_ms;
    d->wait_ms = c->wait_min_ms;
    d->random = c->seed ? c->seed : kymo_clock_real_ns() ^ kymo_clock_mono_ns() << 20;
    d->random = d->random ? d->random : 1;
    (void)uv_timer_init(n->loop, &d->timer);
    d->timer.data = d;
    (void)uv_timer_start(&d->timer, start_attempt, 0, 0);
    *ret = KYMO_TAKE(d);
    return 0;
}

struct net_dialer *net_dialer_close(struct net_dialer *d)
{
    if (!d || d->closing)
        return NULL;
    d->closing = true;
    if (d->resolving)
        (void)uv_cancel((uv_req_t *)&d->resolve);
    if (d->conn)
        net_conn_end(d->conn);
    uv_close((uv_handle_t *)&d->timer, on_timer_closed);
    return NULL;
}

void net_dialer_good(struct net_dialer *d)
{
    d->wait_ms = d->config.wait_min_ms;
}
