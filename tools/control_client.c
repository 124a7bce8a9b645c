#include "tools/control_client.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/sock.h"
#include "proto/hook.h"
#include "proto/session.h"

#define GREETING_MS 10000
#define READ_SIZE 65536

struct control_client {
    int fd;
    bool ready;
    char *path;
    struct session *session;
    control_client_heard *heard;
    void *ctx;
};

static int on_ready(void *ctx, const Kymo__Wire__Hello *peer, struct kymo_err *err)
{
    struct control_client *c = ctx;
    (void)peer;
    (void)err;
    c->ready = true;
    return 0;
}

static int on_message(void *ctx, const struct wire_message *m, const struct frame *f, struct kymo_err *err)
{
    struct control_client *c = ctx;
    (void)f;
    return c->heard(c->ctx, m, err);
}

static int explain(const char *path, struct kymo_err *err)
{
    int code = err ? err->code : -EIO;
    if (code == -ENOENT || code == -ECONNREFUSED)
        return kymo_err_set(err, code, "no kymod listens at %s; is it running? --socket names another directory", path);
    if (code == -EACCES)
        return kymo_err_set(err, code, "%s: no permission; root, kymod's own user and the group of the socket may",
                            path);
    return code;
}

static int greet(struct control_client *c, struct kymo_err *err)
{
    const struct session_config config = {.protocol = &control_protocol,
                                          .side = WIRE_CLIENT,
                                          .versions = {CONTROL_VERSION_MIN, CONTROL_VERSION_MAX},
                                          .writer = "kymo " KYMO_VERSION,
                                          .on_ready = on_ready,
                                          .on_message = on_message,
                                          .ctx = c};
    int r = session_new(&config, &c->session, err);
    return r < 0 ? r : control_client_wait(c, &c->ready, GREETING_MS, err);
}

int control_client_open(const char *dir, control_client_heard *heard, void *ctx, struct control_client **ret,
                        struct kymo_err *err)
{
    const char *set = getenv("KYMO_SOCKET");
    if (!dir)
        dir = set && *set ? set : KYMO_HOOK_SOCKET_DIR;
    struct control_client *c = KYMO_NEW(struct control_client);
    if (!c)
        return kymo_err_set(err, -ENOMEM, "control: out of memory");
    c->fd = -1;
    c->heard = heard;
    c->ctx = ctx;
    c->path = kymo_asprintf("%s/%s", dir, CONTROL_SOCKET_NAME);
    struct kymo_err cause = {0};
    int r = c->path ? 0 : kymo_err_set(&cause, -ENOMEM, "control: out of memory");
    if (r == 0) {
        c->fd = kymo_sock_connect_stream(c->path, &cause);
        r = c->fd < 0 ? explain(c->path, &cause) : greet(c, &cause);
    }
    if (r < 0) {
        control_client_close(c);
        return kymo_err_set(err, r, "%s", cause.text);
    }
    *ret = c;
    return 0;
}

struct control_client *control_client_close(struct control_client *c)
{
    if (!c)
        return NULL;
    kymo_file_close(c->fd);
    session_free(c->session);
    kymo_free(c->path);
    kymo_free(c);
    return NULL;
}

uint32_t control_client_version(const struct control_client *c)
{
    return session_version(c->session);
}

int control_client_send(struct control_client *c, uint16_t type, const ProtobufCMessage *m, struct kymo_err *err)
{
    return session_send(c->session, type, m, err);
}

static int broken(const struct control_client *c, struct kymo_err *err)
{
    if (errno == EPIPE || errno == ECONNRESET)
        return kymo_err_set(err, -EPIPE, "%s: kymod has closed the connection", c->path);
    return kymo_err_set(err, -errno, "%s: %s", c->path, strerror(errno));
}

static int send_some(struct control_client *c, struct kymo_err *err)
{
    const uint8_t *data;
    size_t n;
    session_out(c->session, &data, &n);
    ssize_t put = n ? send(c->fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
    if (put < 0)
        /* What the daemon said before it closed is still to be read. */
        return errno == EAGAIN || errno == EINTR || errno == EPIPE ? 0 : broken(c, err);
    session_consume(c->session, (size_t)put);
    return 0;
}

static int receive_some(struct control_client *c, struct kymo_err *err)
{
    uint8_t bytes[READ_SIZE];
    ssize_t n = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : broken(c, err);
    if (n == 0)
        return kymo_err_set(err, -EPIPE, "%s: kymod has closed the connection", c->path);
    int r = session_feed(c->session, bytes, (size_t)n, err);
    if (r == -ECONNREFUSED)
        kymo_err_prefix(err, "%s: refused", c->path);
    return r;
}

int control_client_wait(struct control_client *c, const bool *done, uint64_t ms, struct kymo_err *err)
{
    uint64_t now = kymo_clock_mono_ns(), deadline = now + ms * 1000000;
    int r = send_some(c, err);
    for (; r == 0 && !*done && now < deadline; now = kymo_clock_mono_ns()) {
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        if (session_waiting(c->session) > 0)
            p.events |= POLLOUT;
        uint64_t left = (deadline - now) / 1000000 + 1;
        int ready = poll(&p, 1, left < 60000 ? (int)left : 60000);
        if (ready < 0 && errno != EINTR)
            return broken(c, err);
        if (ready > 0)
            r = p.revents & POLLIN ? receive_some(c, err) : p.revents & POLLOUT ? 0 : broken(c, err);
        if (r == 0)
            r = send_some(c, err);
    }
    if (r < 0 || *done)
        return r;
    return kymo_err_set(err, -ETIMEDOUT, "%s: no answer from kymod in time", c->path);
}

int control_client_exit(int code)
{
    switch (code) {
    case -ETIMEDOUT:
        return CONTROL_EXIT_TIMEOUT;
    case -ENOENT:
        return CONTROL_EXIT_NOT_FOUND;
    default:
        return code < 0;
    }
}

int control_client_refused(const Kymo__Wire__Refusal *r, struct kymo_err *err)
{
    static const struct {
        Kymo__Wire__Refusal__Reason why;
        int code;
    } rows[] = {{KYMO__WIRE__REFUSAL__REASON__NOT_FOUND, -ENOENT},
                {KYMO__WIRE__REFUSAL__REASON__TIMEOUT, -ETIMEDOUT},
                {KYMO__WIRE__REFUSAL__REASON__BUSY, -EBUSY},
                {KYMO__WIRE__REFUSAL__REASON__INVALID, -EINVAL},
                {KYMO__WIRE__REFUSAL__REASON__FORBIDDEN, -EACCES}};
    int code = -ECONNREFUSED;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].why == r->why)
            code = rows[i].code;
    return kymo_err_set(err, code, "%s", r->text && *r->text ? r->text : "kymod refused and gave no reason");
}
