#include "collector/http.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/rand.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/net_listener.h"
#include "collector/http_guard.h"
#include "collector/http_impl.h"

#define BACKLOG 512
#define SWEEP_MS 250
#define STALL_S 20
/* Connections beyond the maximum that libmicrohttpd takes, so that the oldest idle one can be ended for a new one. */
#define SLACK 64

const char *http_refusal_name(enum http_refusal r)
{
    static const char *const names[] = {
#define X(name, text) text,
        HTTP_REFUSALS(X)
#undef X
    };
    return names[r];
}

void http_refuse(struct http *h, enum http_refusal why)
{
    h->figures.refused[why]++;
}

void http_figures(const struct http *h, struct http_figures *ret)
{
    *ret = h->figures;
}

int http_port(const struct http *h)
{
    return h->port;
}

void http_set_tls(struct http *h, struct tls_context *tls)
{
    if (h->listener)
        net_listener_set_tls(h->listener, tls);
}

static void on_timer(uv_timer_t *timer);

/* Lets libmicrohttpd do what is to be done now, and asks when it wants to be woken. */
static void turn(struct http *h)
{
    MHD_UNSIGNED_LONG_LONG ms;
    if (h->closing)
        return;
    (void)MHD_run(h->daemon);
    if (MHD_get_timeout(h->daemon, &ms) == MHD_YES)
        (void)uv_timer_start(&h->timer, on_timer, ms, 0);
    else
        (void)uv_timer_stop(&h->timer);
}

static void on_timer(uv_timer_t *timer)
{
    turn(timer->data);
}

void http_wake(struct http *h)
{
    if (!h->closing)
        (void)uv_timer_start(&h->timer, on_timer, 0, 0);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    turn(poll->data);
}

void http_conn_phase(struct http *h, struct http_conn *c, enum http_phase phase)
{
    if (!c)
        return;
    c->phase = phase;
    c->since_ms = uv_now(h->loop);
}

/* libmicrohttpd closes a connection only by itself; it does when its socket is at an end. */
static void end_connection(struct http_conn *c)
{
    c->ended = true;
    (void)shutdown(c->fd, SHUT_RDWR);
}

/*
 * libmicrohttpd does not see that a client is gone when that came together with its last bytes: one edge tells of both,
 * and a read that takes the bytes takes the edge with it.
 */
bool http_has_left(const struct http_conn *c)
{
    char byte;
    return recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* An inactive client falls to libmicrohttpd's own limit; this is for those that keep sending, or taking, a little. */
static void sweep_connection(struct http *h, struct http_conn *c, uint64_t now)
{
    uint64_t limit = c->phase == HTTP_READING ? h->config.request_ms : h->config.send_ms, age = now - c->since_ms;
    if (c->ended || c->phase == HTTP_KEPT)
        return;
    if (age > limit) {
        if (c->phase != HTTP_READING || !c->served)
            http_refuse(h, HTTP_REFUSED_SLOW);
        end_connection(c);
    } else if (c->phase == HTTP_READING && age > SWEEP_MS && http_has_left(c)) {
        end_connection(c);
    }
}

static void make_room(struct http *h, struct http_conn *newest)
{
    struct http_conn *oldest = newest;
    for (struct http_conn *c = h->conns; c; c = c->next)
        if (c->phase == HTTP_READING && !c->ended && c->since_ms <= oldest->since_ms)
            oldest = c;
    http_refuse(h, HTTP_REFUSED_CROWDED);
    end_connection(oldest);
}

static void begin_connection(struct http *h, struct MHD_Connection *mhd, void **context)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct http_conn *c = KYMO_NEW(struct http_conn);
    *context = c;
    if (!c) {
        (void)shutdown(info->connect_fd, SHUT_RDWR);
        return;
    }
    c->fd = info->connect_fd;
    http_conn_phase(h, c, HTTP_READING);
    HTTP_LIST_ADD(h->conns, c);
    h->figures.accepted++;
    h->figures.connections++;
    if (h->figures.connections > h->config.max_connections)
        make_room(h, c);
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http *h = cls;
    struct http_conn *c = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        begin_connection(h, mhd, context);
    } else if (c) {
        HTTP_LIST_REMOVE(h->conns, c);
        h->figures.connections--;
        kymo_free(c);
        *context = NULL;
    }
}

static void on_sweep(uv_timer_t *timer)
{
    struct http *h = timer->data;
    uint64_t now = uv_now(h->loop);
    for (struct http_conn *c = h->conns; c; c = c->next)
        sweep_connection(h, c, now);
    http_request_sweep(h);
    if (now > h->config.answer_ms)
        http_request_expire(h, now - h->config.answer_ms, 504, "timeout", "no answer in time; it may still come about");
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct http *h = handle->data;
    if (--h->handles == 0)
        kymo_free(h);
}

static void close_handle(uv_handle_t *handle)
{
    uv_close(handle, on_handle_closed);
}

struct http *http_close(struct http *h)
{
    if (!h || h->closing)
        return NULL;
    net_listener_close(h->listener);
    /* What a handler kept from here on would stay suspended, which libmicrohttpd does not survive. */
    h->ending = true;
    http_request_expire(h, UINT64_MAX, 503, "stopping", "the collector is stopping");
    http_request_cut(h);
    /* Once more, so that those who just got an answer may have it. */
    if (h->daemon)
        (void)MHD_run(h->daemon);
    h->closing = true;
    if (h->daemon)
        MHD_stop_daemon(h->daemon);
    h->daemon = NULL;
    http_request_orphan(h);
    if (h->handles == 0) {
        kymo_free(h);
        return NULL;
    }
    close_handle((uv_handle_t *)&h->poll);
    close_handle((uv_handle_t *)&h->timer);
    close_handle((uv_handle_t *)&h->sweep);
    return NULL;
}

static int check_token(const struct http_config *config, bool loopback, const char *token, struct kymo_err *err)
{
    if (token && !http_guard_are_tokens(token))
        return kymo_err_set(err, -EINVAL,
                            "a token has %d to %d characters of A-Z a-z 0-9 - . _ ~ + / =, maybe with a name of A-Z a-z"
                            " 0-9 . _ - before it; one on a line, at most %d",
                            HTTP_TOKEN_MIN, HTTP_TOKEN_MAX, HTTP_TOKENS_MAX);
    if (!loopback && !token)
        return kymo_err_set(err, -EPERM, "%s: not a loopback address, and there is no token", config->address);
    return 0;
}

int http_check_token(const struct http *h, const char *token, struct kymo_err *err)
{
    return check_token(&h->config, h->loopback, token, err);
}

void http_set_token(struct http *h, const char *token)
{
    h->config.token = token;
}

static int check(const struct http_config *config, const struct sockaddr *addr, struct kymo_err *err)
{
    bool loopback = net_is_loopback(addr);
    int r = check_token(config, loopback, config->token, err);
    if (r < 0)
        return r;
    if (!loopback && !config->tls && !config->plain_anywhere)
        return kymo_err_set(err, -EPERM, "%s: not a loopback address, and there is no TLS", config->address);
    return 0;
}

static int listen_on(const struct sockaddr_storage *addr, const char *name, int *ret, struct kymo_err *err)
{
    int one = 1;
    int fd KYMO_CLOSE = socket(addr->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t len = addr->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        bind(fd, (const struct sockaddr *)addr, len) < 0 || listen(fd, BACKLOG) < 0)
        return kymo_err_set(err, -errno, "%s: cannot listen: %s", name, strerror(errno));
    *ret = fd;
    fd = -1;
    return 0;
}

/* *ret: what listens; -1 with TLS, where a net_listener does. */
static int find_socket(struct http *h, int *ret, struct kymo_err *err)
{
    struct sockaddr_storage addr;
    const struct http_config *config = &h->config;
    int r = config->adopt ? net_listening(config->socket, config->address, &addr, err)
                          : net_numeric(config->address, &addr, err);
    if (r == 0)
        r = check(config, (const struct sockaddr *)&addr, err);
    if (r < 0)
        return r;
    h->loopback = net_is_loopback((const struct sockaddr *)&addr);
    *ret = -1;
    if (config->tls)
        return 0;
    if (!config->adopt)
        return listen_on(&addr, config->address, ret, err);
    int flags = fcntl(config->socket, F_GETFL);
    if (flags < 0 || fcntl(config->socket, F_SETFL, flags | O_NONBLOCK) < 0)
        return kymo_err_set(err, -EINVAL, "%s: %s", config->address, strerror(errno));
    *ret = config->socket;
    return 0;
}

static int port_of(int fd)
{
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof addr;
    if (getsockname(fd, (struct sockaddr *)&addr, &len) < 0)
        return 0;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    memcpy(&in, &addr, sizeof in);
    memcpy(&in6, &addr, sizeof in6);
    return ntohs(addr.ss_family == AF_INET ? in.sin_port : in6.sin6_port);
}

/* fd: what listens, -1 with TLS. It becomes the daemon's. */
static int start_daemon(struct http *h, int fd, struct kymo_err *err)
{
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (fd < 0 ? MHD_USE_NO_LISTEN_SOCKET : 0);
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_LISTEN_SOCKET, fd, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    if (fd < 0)
        options[0].option = MHD_OPTION_END;
    h->daemon = MHD_start_daemon(flags, 0, NULL, NULL, http_request_turn, h, MHD_OPTION_ARRAY, options,
                                 MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_HEAD_MAX, MHD_OPTION_CONNECTION_LIMIT,
                                 h->config.max_connections + SLACK, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)STALL_S,
                                 MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK, http_request_begin, h,
                                 MHD_OPTION_NOTIFY_COMPLETED, http_request_end, h, MHD_OPTION_NOTIFY_CONNECTION,
                                 on_connection, h, MHD_OPTION_END);
    if (!h->daemon) {
        kymo_file_close(fd);
        return kymo_err_set(err, -ENOMEM, "%s: the HTTP server does not start", h->config.address);
    }
    return 0;
}

static int watch(struct http *h, struct kymo_err *err)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    int r = uv_poll_init(h->loop, &h->poll, info->epoll_fd);
    if (r < 0)
        return kymo_err_set(err, r, "the HTTP server cannot be watched: %s", uv_strerror(r));
    (void)uv_timer_init(h->loop, &h->timer);
    (void)uv_timer_init(h->loop, &h->sweep);
    h->poll.data = h->timer.data = h->sweep.data = h;
    h->handles = 3;
    (void)uv_timer_start(&h->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    r = uv_poll_start(&h->poll, UV_READABLE, on_poll);
    return r < 0 ? kymo_err_set(err, r, "the HTTP server cannot be watched: %s", uv_strerror(r)) : 0;
}

static int start(struct http *h, struct net *net, struct kymo_err *err)
{
    int fd;
    int r = find_socket(h, &fd, err);
    if (r < 0)
        return r;
    h->port = fd < 0 ? 0 : port_of(fd);
    r = start_daemon(h, fd, err);
    if (r == 0)
        r = watch(h, err);
    return r == 0 && h->config.tls ? http_tls_listen(h, net, err) : r;
}

int http_new(uv_loop_t *loop, struct net *net, const struct http_config *config, struct http **ret,
             struct kymo_err *err)
{
    struct http *h = KYMO_NEW(struct http);
    if (!h)
        return kymo_err_set(err, -ENOMEM, "no memory for the HTTP server");
    h->loop = loop;
    h->config = *config;
    h->config.max_connections = config->max_connections ? config->max_connections : HTTP_CONNECTIONS_MAX;
    h->config.request_ms = config->request_ms ? config->request_ms : HTTP_REQUEST_MS;
    h->config.answer_ms = config->answer_ms ? config->answer_ms : HTTP_ANSWER_MS;
    h->config.send_ms = config->send_ms ? config->send_ms : HTTP_SEND_MS;
    int r = RAND_bytes(h->login_key, sizeof h->login_key) == 1 ? 0 : -EIO;
    r = r < 0 ? kymo_err_set(err, r, "there is no randomness for logins") : start(h, net, err);
    if (r < 0)
        http_close(h);
    else
        *ret = h;
    return r;
}
