#include "daemon/hook_server.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "daemon/acceptor.h"
#include "daemon/say.h"

#define SESSIONS_MAX 1024
#define TICK_MS 1000

struct hook_server {
    uv_loop_t *loop;
    struct acceptor *acceptor;
    uv_timer_t timer; /* runs while somebody owes HELLO */
    struct hook_server_config config;
    struct hook_session_ops ops;
    struct hook_session *sessions[SESSIONS_MAX];
    size_t n;
    bool stopped;
    struct hook_server_counts counts;
    struct say_limit say;
};

static void forget(struct hook_server *s, const struct hook_session *session)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->sessions[i] == session) {
            s->sessions[i] = s->sessions[--s->n];
            return;
        }
}

static void on_gone(void *ctx, struct hook_session *session, const char *why)
{
    struct hook_server *s = ctx;
    const struct hook_peer_id *peer = hook_session_peer(session);
    forget(s, session);
    if (!*why)
        return;
    s->counts.hostile++;
    say_limited(&s->say, KYMO_LOG_WARNING, "hook of process %d (uid %u) left alone: %s", (int)peer->pid,
                (unsigned)peer->uid, why);
}

static void on_hello(void *ctx, struct hook_session *session, const struct kymo_hook_hello *hello)
{
    const struct hook_server *s = ctx;
    s->config.ops->hello(s->config.ctx, session, hello);
}

static void on_packet(void *ctx, struct hook_session *session, const union hook_packet *p, int fd)
{
    const struct hook_server *s = ctx;
    s->config.ops->packet(s->config.ctx, session, p, fd);
}

static void on_closed(void *ctx, struct hook_session *session, const char *why)
{
    const struct hook_server *s = ctx;
    s->config.ops->closed(s->config.ctx, session, why);
}

static bool somebody_is_silent(const struct hook_server *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (!hook_session_page(s->sessions[i]))
            return true;
    return false;
}

static void on_tick(uv_timer_t *t)
{
    struct hook_server *s = t->data;
    for (size_t i = s->n; i > 0; i--)
        if (hook_session_is_late(s->sessions[i - 1], uv_now(s->loop)))
            hook_session_close(s->sessions[i - 1], "no HELLO");
    if (!somebody_is_silent(s))
        (void)uv_timer_stop(t);
}

static size_t of_uid(const struct hook_server *s, uid_t uid)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += hook_session_peer(s->sessions[i])->uid == uid;
    return n;
}

static void greet(struct hook_server *s, int fd)
{
    struct hook_session *session;
    struct kymo_err err = {0};
    s->counts.accepted++;
    if (s->n >= s->config.sessions_max || s->n == SESSIONS_MAX) {
        s->counts.refused++;
        (void)kymo_file_close(fd);
        say_limited(&s->say, KYMO_LOG_WARNING, "more than %zu hooks: another one was sent away", s->n);
        return;
    }
    if (hook_session_new(s->loop, fd, &s->ops, s, &session, &err) < 0) {
        say_limited(&s->say, KYMO_LOG_WARNING, "%s", err.text);
        return;
    }
    uid_t uid = hook_session_peer(session)->uid;
    if (of_uid(s, uid) >= s->config.sessions_per_uid) {
        s->counts.refused++;
        hook_session_close(session, "its user has too many");
        return;
    }
    s->sessions[s->n++] = session;
    if (!uv_is_active((uv_handle_t *)&s->timer))
        (void)uv_timer_start(&s->timer, on_tick, TICK_MS, TICK_MS);
}

static void on_taken(void *ctx, int fd)
{
    greet(ctx, fd);
}

static void on_full(void *ctx, int error)
{
    struct hook_server *s = ctx;
    say_limited(&s->say, KYMO_LOG_WARNING, "cannot accept a hook: %s", strerror(error));
}

int hook_server_start(uv_loop_t *loop, const struct hook_server_config *config, struct hook_server **ret,
                      struct kymo_err *err)
{
    struct hook_server *s = KYMO_NEW(struct hook_server);
    if (!s) {
        if (config->listen_fd >= 0)
            (void)kymo_file_close(config->listen_fd);
        return kymo_err_set(err, -ENOMEM, "hook socket: out of memory");
    }
    s->loop = loop;
    s->config = *config;
    s->ops = (struct hook_session_ops){.hello = on_hello, .packet = on_packet, .closed = on_closed, .gone = on_gone};
    /* Any job may be captured; who is there is asked of the kernel. */
    const struct acceptor_config a = {
        .path = config->path,
        .listen_fd = config->listen_fd,
        .mode = 0666,
        .keep_file = true, /* A hook takes it as word that a daemon comes back, and keeps what it has for it. */
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
    *ret = s;
    return 0;
}

static void on_timer_closed(uv_handle_t *h)
{
    kymo_free(h->data);
}

struct hook_server *hook_server_stop(struct hook_server *s)
{
    if (!s || s->stopped)
        return NULL;
    s->stopped = true;
    while (s->n > 0)
        hook_session_close(s->sessions[s->n - 1], "");
    s->acceptor = acceptor_stop(s->acceptor);
    uv_close((uv_handle_t *)&s->timer, on_timer_closed);
    return NULL;
}

void hook_server_set_limits(struct hook_server *s, size_t sessions_max, size_t sessions_per_uid)
{
    s->config.sessions_max = sessions_max;
    s->config.sessions_per_uid = sessions_per_uid;
}

struct hook_server_counts hook_server_get_counts(const struct hook_server *s)
{
    struct hook_server_counts c = s->counts;
    c.sessions = s->n;
    return c;
}
