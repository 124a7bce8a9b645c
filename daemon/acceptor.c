#include "daemon/acceptor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/sock.h"

#define PER_TURN 16
#define PAUSE_MS 1000

struct acceptor {
    uv_poll_t poll;
    uv_timer_t timer; /* runs while paused */
    int fd, handles;
    struct acceptor_config config;
    char *path;       /* NULL: not ours to remove */
    struct stat made; /* the file as it was made */
};

static void on_ready(uv_poll_t *h, int status, int events);

static void on_pause_over(uv_timer_t *t)
{
    struct acceptor *a = t->data;
    if (uv_poll_start(&a->poll, UV_READABLE, on_ready) < 0)
        (void)uv_timer_start(t, on_pause_over, PAUSE_MS, 0);
}

static bool exhausted(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

static void on_ready(uv_poll_t *h, int status, int events)
{
    struct acceptor *a = h->data;
    (void)events;
    for (int i = 0; status == 0 && i < PER_TURN && !uv_is_closing((uv_handle_t *)h); i++) {
        struct sockaddr_storage from;
        socklen_t n = sizeof from;
        int fd = accept4(a->fd, (struct sockaddr *)&from, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            a->config.taken(a->config.ctx, fd);
            continue;
        }
        int error = errno;
        if (exhausted(error)) {
            (void)uv_poll_stop(h);
            (void)uv_timer_start(&a->timer, on_pause_over, PAUSE_MS, 0);
            a->config.full(a->config.ctx, error);
        }
        return;
    }
}

/* Makes the socket file; its permission bits are set before anybody can be told of it. */
static int listen_at(struct acceptor *a, struct kymo_err *err)
{
    const char *path = a->config.path;
    int fd KYMO_CLOSE = a->config.stream ? kymo_sock_listen_stream(path, err) : kymo_sock_listen(path, err);
    if (fd < 0)
        return fd;
    if (chmod(path, a->config.mode) < 0 || stat(path, &a->made) < 0)
        return kymo_err_set(err, -errno, "%s: %s", path, strerror(errno));
    a->path = kymo_strdup(path);
    if (!a->path)
        return kymo_err_set(err, -ENOMEM, "%s: out of memory", path);
    int taken = fd;
    fd = -1;
    return taken;
}

static void remove_file(const struct acceptor *a)
{
    struct stat now;
    if (a->path && !a->config.keep_file && stat(a->path, &now) == 0 && now.st_dev == a->made.st_dev &&
        now.st_ino == a->made.st_ino)
        (void)kymo_file_ops()->unlink(a->path);
}

static void release(struct acceptor *a)
{
    kymo_free(a->path);
    kymo_free(a);
}

static void on_closed(uv_handle_t *h)
{
    struct acceptor *a = h->data;
    if (--a->handles == 0)
        release(a);
}

/* From here on the descriptor is the acceptor's. */
static int begin(struct acceptor *a, uv_loop_t *loop, struct kymo_err *err)
{
    int flags = fcntl(a->fd, F_GETFL);
    int r = flags < 0 || fcntl(a->fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : uv_poll_init(loop, &a->poll, a->fd);
    if (r < 0)
        return kymo_err_set(err, r, "%s: %s", a->path ? a->path : "the socket given", uv_strerror(r));
    (void)uv_timer_init(loop, &a->timer);
    a->poll.data = a->timer.data = a;
    a->handles = 2;
    on_pause_over(&a->timer);
    return 0;
}

int acceptor_start(uv_loop_t *loop, const struct acceptor_config *config, struct acceptor **ret, struct kymo_err *err)
{
    int given KYMO_CLOSE = config->listen_fd;
    struct acceptor *a = KYMO_NEW(struct acceptor);
    if (!a)
        return kymo_err_set(err, -ENOMEM, "a socket for clients: out of memory");
    a->config = *config;
    a->fd = given >= 0 ? given : listen_at(a, err);
    given = -1;
    int r = a->fd < 0 ? a->fd : begin(a, loop, err);
    if (r < 0) {
        remove_file(a);
        if (a->fd >= 0)
            (void)kymo_file_close(a->fd);
        release(a);
        return r;
    }
    *ret = a;
    return 0;
}

struct acceptor *acceptor_stop(struct acceptor *a)
{
    if (!a)
        return NULL;
    remove_file(a);
    (void)uv_poll_stop(&a->poll);
    (void)kymo_file_close(a->fd);
    uv_close((uv_handle_t *)&a->poll, on_closed);
    uv_close((uv_handle_t *)&a->timer, on_closed);
    return NULL;
}

int acceptor_fd(const struct acceptor *a)
{
    return a->fd;
}
