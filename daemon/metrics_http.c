#include "daemon/metrics_http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/net_listener.h"
#include "base/prom.h"
#include "daemon/metrics.h"

#define TICK_MS 1000
#define PATH "/metrics"

struct client {
    struct metrics_http *server;
    struct client *next;
    struct net_conn *conn;
    char head[METRICS_HTTP_HEAD_MAX];
    size_t nhead, sent;
    struct kymo_buf answer;
    uint64_t deadline_ms;
    bool answering, closing;
};

struct metrics_http {
    uv_loop_t *loop;
    struct net *net;
    struct net_listener *listener;
    uv_timer_t timer; /* runs while there are clients */
    struct metrics_http_config config;
    struct client *clients;
    size_t nclients;
    bool stopping, timer_closed;
};

/* The request */

static bool is_numeric_host(const char *host, size_t n)
{
    /* An address, with or without a port, or this machine's own name for itself. */
    static const char local[] = "localhost";
    const size_t nlocal = sizeof local - 1;
    if (n >= nlocal && !strncasecmp(host, local, nlocal) && (n == nlocal || host[nlocal] == ':'))
        return true;
    bool six = n > 0 && host[0] == '[';
    for (size_t i = 0; i < n; i++)
        if (!strchr(six ? "0123456789abcdefABCDEF:.[]%" : "0123456789.:", host[i]))
            return false;
    return n > 0;
}

static bool judge_fields(const char *at, const char *end, int *ret_status)
{
    static const char name[] = "host:";
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((stop ? stop : end) - at);
        while (n > 0 && (at[n - 1] == '\r' || at[n - 1] == ' ' || at[n - 1] == '\t'))
            n--;
        if (n >= sizeof name - 1 && !strncasecmp(at, name, sizeof name - 1)) {
            const char *host = at + sizeof name - 1;
            while (host < at + n && (*host == ' ' || *host == '\t'))
                host++;
            if (!is_numeric_host(host, (size_t)(at + n - host))) {
                *ret_status = 403;
                return false;
            }
        }
        at = stop ? stop + 1 : end;
    }
    return true;
}

static int judge_line(const char *line, size_t n, bool *ret_head_only)
{
    const char *space = memchr(line, ' ', n);
    const char *target = space ? space + 1 : line + n;
    const char *behind = memchr(target, ' ', (size_t)(line + n - target));
    if (!space || !behind || (size_t)(line + n - behind) < sizeof " HTTP/1.x" - 1 || memcmp(behind, " HTTP/1.", 8) != 0)
        return 400;
    *ret_head_only = space - line == 4 && !memcmp(line, "HEAD", 4);
    if (!*ret_head_only && !(space - line == 3 && !memcmp(line, "GET", 3)))
        return 405;
    size_t len = (size_t)(behind - target);
    const char *query = memchr(target, '?', len);
    len = query ? (size_t)(query - target) : len;
    return len == sizeof PATH - 1 && !memcmp(target, PATH, len) ? 200 : 404;
}

int metrics_http_judge(const char *head, size_t n, bool *ret_head_only)
{
    *ret_head_only = false;
    const char *end = memmem(head, n, "\r\n\r\n", 4);
    const char *bare = memmem(head, n, "\n\n", 2);
    if (bare && (!end || bare < end))
        end = bare;
    if (!end)
        return 0;
    if (memchr(head, '\0', (size_t)(end - head)))
        return 400;
    const char *stop = memchr(head, '\n', (size_t)(end - head));
    size_t line = (size_t)((stop ? stop : end) - head);
    while (line > 0 && head[line - 1] == '\r')
        line--;
    int status = judge_line(head, line, ret_head_only);
    if (stop)
        (void)judge_fields(stop + 1, end, &status);
    return status;
}

/* The answer */

static const char *phrase(int status)
{
    return status == 200   ? "OK"
           : status == 403 ? "Forbidden"
           : status == 404 ? "Not Found"
           : status == 405 ? "Method Not Allowed"
           : status == 431 ? "Request Header Fields Too Large"
           : status == 500 ? "Internal Server Error"
                           : "Bad Request";
}

static int make_answer(struct client *c, int status, bool head_only, struct kymo_err *err)
{
    struct kymo_buf body;
    struct kymo_err why = {0};
    kymo_buf_init(&body, METRICS_TEXT_MAX);
    if (status == 200 && c->server->config.write(c->server->config.ctx, &body, &why) < 0) {
        kymo_buf_reset(&body);
        status = 500;
    }
    int r = 0;
    if (status != 200)
        r = kymo_buf_printf(&body, "%s%s%s\n", phrase(status),
                            *why.text       ? ": "
                            : status == 404 ? ": try " PATH
                                            : "",
                            why.text);
    if (r == 0)
        r = kymo_buf_printf(&c->answer,
                            "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n"
                            "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%s\r\n",
                            status, phrase(status), status == 200 ? PROM_CONTENT_TYPE : "text/plain; charset=utf-8",
                            body.len, status == 405 ? "Allow: GET, HEAD\r\n" : "");
    if (r == 0 && !head_only)
        r = kymo_buf_append(&c->answer, body.data, body.len);
    kymo_buf_done(&body);
    return r < 0 ? kymo_err_set(err, r, "metrics: out of memory") : 0;
}

static void send_some(struct client *c)
{
    size_t taken = 0;
    if (net_conn_send(c->conn, c->answer.data + c->sent, c->answer.len - c->sent, &taken, NULL) < 0)
        return;
    c->sent += taken;
    if (c->sent == c->answer.len)
        net_conn_close(c->conn);
}

static int on_data(struct net_conn *conn, void *ctx, const uint8_t *data, size_t n, struct kymo_err *err)
{
    struct client *c = ctx;
    (void)conn;
    if (c->answering)
        return 0;
    size_t room = sizeof c->head - c->nhead, take = n < room ? n : room;
    memcpy(c->head + c->nhead, data, take);
    c->nhead += take;
    bool head_only;
    int status = metrics_http_judge(c->head, c->nhead, &head_only);
    if (status == 0 && c->nhead == sizeof c->head)
        status = 431;
    if (status == 0)
        return 0;
    c->answering = true;
    c->deadline_ms = uv_now(c->server->loop) + METRICS_HTTP_SEND_MS;
    int r = make_answer(c, status, head_only, err);
    if (r == 0)
        send_some(c);
    return r;
}

static void on_writable(struct net_conn *conn, void *ctx)
{
    (void)conn;
    send_some(ctx);
}

/* Connections read into what the net owns: it goes after the last of them. */
static void let_go(struct metrics_http *s)
{
    if (!s->stopping || !s->timer_closed || s->clients)
        return;
    net_free(s->net);
    kymo_free(s);
}

static void on_closed(struct net_conn *conn, void *ctx, const struct kymo_err *why)
{
    struct client *c = ctx, **at = &c->server->clients;
    struct metrics_http *s = c->server;
    (void)conn;
    (void)why;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    kymo_buf_done(&c->answer);
    kymo_free(c);
    if (!s->clients && !s->stopping)
        (void)uv_timer_stop(&s->timer);
    let_go(s);
}

static const struct net_conn_ops conn_ops = {.data = on_data, .writable = on_writable, .closed = on_closed};

static void on_tick(uv_timer_t *timer)
{
    struct metrics_http *s = timer->data;
    for (struct client *c = s->clients; c; c = c->next)
        if (uv_now(s->loop) >= c->deadline_ms)
            net_conn_close(c->conn);
}

/* They come newest first. One that is closing has given its place up already. */
static void make_room(struct metrics_http *s)
{
    struct client *oldest = NULL;
    size_t n = 0;
    for (struct client *c = s->clients; c; c = c->next) {
        n += !c->closing;
        if (!c->answering && !c->closing)
            oldest = c;
    }
    if (n < METRICS_HTTP_CLIENTS_MAX || !oldest)
        return;
    oldest->closing = true;
    net_conn_close(oldest->conn);
}

static void *on_accepted(void *ctx, struct net_conn *conn)
{
    struct metrics_http *s = ctx;
    make_room(s);
    struct client *c = KYMO_NEW(struct client);
    if (!c)
        return NULL;
    c->server = s;
    c->conn = conn;
    c->deadline_ms = uv_now(s->loop) + METRICS_HTTP_HEAD_MS;
    kymo_buf_init(&c->answer, METRICS_TEXT_MAX + 1024);
    c->next = s->clients;
    s->clients = c;
    if (!uv_is_active((uv_handle_t *)&s->timer))
        (void)uv_timer_start(&s->timer, on_tick, TICK_MS, TICK_MS);
    return c;
}

int metrics_http_start(uv_loop_t *loop, const struct metrics_http_config *config, struct metrics_http **ret,
                       struct kymo_err *err)
{
    struct metrics_http *s = KYMO_NEW(struct metrics_http);
    if (!s)
        return kymo_err_set(err, -ENOMEM, "metrics: out of memory");
    s->loop = loop;
    s->config = *config;
    int r = net_new(loop, &s->net, err);
    if (r < 0) {
        kymo_free(s);
        return r;
    }
    (void)uv_timer_init(loop, &s->timer);
    s->timer.data = s;
    const struct net_listener_config l = {.address = config->address,
                                          .plain_anywhere = true,
                                          .max_connections = 2 * METRICS_HTTP_CLIENTS_MAX,
                                          .accepted = on_accepted,
                                          .ops = &conn_ops,
                                          .ctx = s};
    r = net_listener_new(s->net, &l, &s->listener, err);
    if (r < 0) {
        metrics_http_stop(s);
        return r;
    }
    *ret = s;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct metrics_http *s = handle->data;
    s->timer_closed = true;
    let_go(s);
}

struct metrics_http *metrics_http_stop(struct metrics_http *s)
{
    if (!s || s->stopping)
        return NULL;
    s->stopping = true;
    net_listener_close(s->listener);
    for (struct client *c = s->clients; c; c = c->next)
        net_conn_close(c->conn);
    uv_close((uv_handle_t *)&s->timer, on_timer_closed);
    return NULL;
}

bool metrics_http_is_local(const char *address)
{
    struct net_address a;
    struct sockaddr_storage to = {0};
    if (net_address_parse(address, &a, NULL) < 0)
        return false;
    return (uv_ip4_addr(a.host, 0, (struct sockaddr_in *)&to) == 0 ||
            uv_ip6_addr(a.host, 0, (struct sockaddr_in6 *)&to) == 0) &&
           net_is_loopback((const struct sockaddr *)&to);
}

int metrics_http_port(const struct metrics_http *s)
{
    return net_listener_port(s->listener);
}
