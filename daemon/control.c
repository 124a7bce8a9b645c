#include "daemon/control.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "daemon/acceptor.h"
#include "daemon/control_internal.h"

#define TICK_MS 500
#define READ_SIZE 4096
#define NOTE_MAX 512

struct control {
    uv_loop_t *loop;
    struct acceptor *acceptor;
    uv_timer_t timer; /* runs while there are clients */
    int nhandles;
    struct control_config config;
    struct client *clients;
    struct control_counts counts;
    bool stopped;
};

static void on_ready(uv_poll_t *h, int status, int events);

const struct control_config *control_config_of(const struct control *s)
{
    return &s->config;
}

uint64_t control_now_ms(void)
{
    return kymo_clock_mono_ns() / 1000000;
}

struct control_counts *control_counts_of(struct control *s)
{
    return &s->counts;
}

void control_get_counts(const struct control *s, struct control_counts *ret)
{
    *ret = s->counts;
}

void control_note(const struct control *s, const char *fmt, ...)
{
    char text[NOTE_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (s->config.note)
        s->config.note(s->config.ctx, text);
}

/* Clients */

static void on_client_closed(uv_handle_t *h)
{
    struct client *c = h->data;
    struct control *s = c->server;
    /* Not earlier: closing may have begun inside a call of the captures. Once stopped, all is forgotten already. */
    control_forget(c);
    if (c->next)
        c->next->prev = c->prev;
    if (c->prev)
        c->prev->next = c->next;
    else
        s->clients = c->next;
    s->counts.clients--;
    (void)close(c->fd);
    session_free(c->session);
    kymo_free(c);
    if (--s->nhandles == 0 && s->stopped)
        kymo_free(s);
}

static void close_client(struct client *c)
{
    if (c->state == CLIENT_CLOSED)
        return;
    c->state = CLIENT_CLOSED;
    uv_close((uv_handle_t *)&c->poll, on_client_closed);
}

static void poll_for(struct client *c, int events)
{
    if (c->state == CLIENT_CLOSED || events == c->events)
        return;
    c->events = events;
    if (uv_poll_start(&c->poll, events, on_ready) < 0)
        close_client(c);
}

void control_flush(struct client *c)
{
    const uint8_t *data;
    size_t n;
    while (c->state != CLIENT_CLOSED && session_waiting(c->session) > 0) {
        session_out(c->session, &data, &n);
        ssize_t put = send(c->fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno != EAGAIN) {
            close_client(c);
            return;
        }
        if (put < 0)
            break;
        session_consume(c->session, (size_t)put);
        c->taken_ms = control_now_ms();
    }
    if (c->state == CLIENT_CLOSED)
        return;
    size_t waiting = session_waiting(c->session);
    if (waiting == 0)
        c->taken_ms = control_now_ms();
    if (session_has_failed(c->session) && c->state == CLIENT_OPEN) {
        c->server->counts.broken++;
        c->state = CLIENT_ENDING;
    }
    if (waiting == 0 && c->state == CLIENT_ENDING)
        close_client(c);
    else if (waiting > 0)
        /* Who does not take answers is not read from either: it cannot make more of them wait. */
        poll_for(c, UV_WRITABLE);
    else
        poll_for(c, UV_READABLE);
}

static void read_some(struct client *c)
{
    uint8_t bytes[READ_SIZE];
    struct kymo_err err = {0};
    ssize_t n = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close_client(c);
        return;
    }
    int r = session_feed(c->session, bytes, (size_t)n, &err);
    if (r < 0)
        control_note(c->server, "user %u (process %d) on the control socket: %s", (unsigned)c->uid, (int)c->pid,
                     err.text);
    control_flush(c);
}

static void on_ready(uv_poll_t *h, int status, int events)
{
    struct client *c = h->data;
    if (c->state == CLIENT_CLOSED)
        return;
    if (status < 0)
        close_client(c);
    else if (events & UV_WRITABLE)
        control_flush(c);
    else if (events & UV_READABLE)
        read_some(c);
}

static int on_message(void *ctx, const struct wire_message *m, const struct frame *f, struct kymo_err *err)
{
    (void)f;
    return control_serve(ctx, m, err);
}

static bool is_trusted(uid_t uid)
{
    return uid == 0 || uid == geteuid();
}

/* NULL, or why there is no room for another one of this user. */
static const char *why_no_room(const struct control *s, uid_t uid)
{
    size_t of_uid = 0;
    for (const struct client *c = s->clients; c; c = c->next)
        of_uid += c->uid == uid;
    if (s->counts.clients >= CONTROL_CLIENTS_MAX)
        return "too many clients";
    if (is_trusted(uid))
        return NULL;
    if (s->counts.clients >= CONTROL_CLIENTS_MAX - CONTROL_CLIENTS_RESERVED)
        return "too many clients";
    return of_uid >= CONTROL_CLIENTS_PER_UID ? "too many clients of this user" : NULL;
}

static struct client *add_client(struct control *s, int fd)
{
    struct client *c = KYMO_NEW(struct client);
    if (!c)
        return NULL;
    const struct session_config config = {.protocol = &control_protocol,
                                          .side = WIRE_SERVER,
                                          .versions = {CONTROL_VERSION_MIN, CONTROL_VERSION_MAX},
                                          .writer = "kymod " KYMO_VERSION,
                                          .on_message = on_message,
                                          .ctx = c};
    if (session_new(&config, &c->session, NULL) < 0 || uv_poll_init(s->loop, &c->poll, fd) < 0) {
        session_free(c->session);
        kymo_free(c);
        return NULL;
    }
    c->poll.data = c;
    c->server = s;
    c->fd = fd;
    c->since_ms = c->taken_ms = control_now_ms();
    c->next = s->clients;
    if (c->next)
        c->next->prev = c;
    s->clients = c;
    s->nhandles++;
    s->counts.clients++;
    return c;
}

static void on_tick(uv_timer_t *timer);

static void start_ticking(struct control *s)
{
    if (!uv_is_active((uv_handle_t *)&s->timer))
        (void)uv_timer_start(&s->timer, on_tick, TICK_MS, TICK_MS);
}

/* fd becomes ours. */
static void greet(struct control *s, int fd)
{
    uid_t uid = (uid_t)-1;
    pid_t pid = 0;
    const char *why = NULL;
    bool may = control_may(fd, acceptor_fd(s->acceptor), &uid, &pid, &why);
    const char *no_room = why_no_room(s, may ? uid : (uid_t)-1);
    struct client *c = s->counts.clients < CONTROL_CLIENTS_MAX ? add_client(s, fd) : NULL;
    s->counts.accepted++;
    if (!c) {
        s->counts.refused++;
        (void)close(fd);
        control_note(s, "user %u (process %d) found no room at the control socket", (unsigned)uid, (int)pid);
        return;
    }
    c->uid = may ? uid : (uid_t)-1; /* Strangers share the room of one. */
    c->pid = pid;
    if (!may || no_room) {
        s->counts.refused++;
        c->state = CLIENT_ENDING;
        control_note(s, "user %u (process %d) sent away from the control socket: %s", (unsigned)uid, (int)pid,
                     may ? no_room : why);
        session_fail(c->session, may ? KYMO__WIRE__REFUSAL__REASON__BUSY : KYMO__WIRE__REFUSAL__REASON__FORBIDDEN,
                     may ? -EBUSY : -EACCES, may ? no_room : why);
    }
    control_flush(c);
    start_ticking(s);
}

/* Limits in time */

static void check_time(struct client *c, uint64_t now)
{
    if (c->state == CLIENT_CLOSED)
        return;
    control_expire(c, now);
    bool stalls = session_waiting(c->session) > 0 && now - c->taken_ms > CONTROL_STALL_MS;
    bool too_much = session_waiting(c->session) > CONTROL_OUT_MAX;
    bool silent = !session_is_ready(c->session) && now - c->since_ms > CONTROL_HELLO_MS;
    bool idle = !control_waits(c) && now - c->since_ms > CONTROL_IDLE_MS;
    if (stalls || too_much || silent) {
        c->server->counts.broken++;
        control_note(c->server, "user %u (process %d) on the control socket: %s", (unsigned)c->uid, (int)c->pid,
                     silent ? "says nothing" : "takes no answers");
    }
    if (stalls || too_much || silent || idle)
        close_client(c);
}

static void on_tick(uv_timer_t *timer)
{
    struct control *s = timer->data;
    uint64_t now = control_now_ms();
    for (struct client *c = s->clients; c; c = c->next)
        check_time(c, now);
    if (!s->clients)
        (void)uv_timer_stop(timer);
}

/* Listening */

static void on_taken(void *ctx, int fd)
{
    greet(ctx, fd);
}

static void on_full(void *ctx, int error)
{
    control_note(ctx, "no client can be accepted on the control socket: %s", strerror(error));
}

int control_start(uv_loop_t *loop, const struct control_config *config, struct control **ret, struct kymo_err *err)
{
    struct control *s = KYMO_NEW(struct control);
    if (!s) {
        if (config->listen_fd >= 0)
            (void)close(config->listen_fd);
        return kymo_err_set(err, -ENOMEM, "control socket: out of memory");
    }
    s->loop = loop;
    s->config = *config;
    const struct acceptor_config a = {
        .path = config->path,
        .listen_fd = config->listen_fd,
        .stream = true,
        .mode = 0660,
        .taken = on_taken,
        .full = on_full,
        .ctx = s,
    };
    int r = acceptor_start(loop, &a, &s->acceptor, err);
    if (r < 0) {
        kymo_free(s);
        return r;
    }
    (void)uv_timer_init(loop, &s->timer);
    s->timer.data = s;
    s->nhandles = 1;
    *ret = s;
    return 0;
}

static void on_handle_closed(uv_handle_t *h)
{
    struct control *s = h->data;
    if (--s->nhandles == 0)
        kymo_free(s);
}

struct control *control_stop(struct control *s)
{
    if (!s || s->stopped)
        return NULL;
    s->stopped = true;
    for (struct client *c = s->clients; c; c = c->next) {
        control_forget(c);
        close_client(c);
    }
    s->acceptor = acceptor_stop(s->acceptor);
    uv_close((uv_handle_t *)&s->timer, on_handle_closed);
    return NULL;
}
