#include "base/sock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

#define BACKLOG 128
#define NS_PER_MS 1000000u

static int system_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    return connect(fd, addr, len);
}

static const struct kymo_sock_ops system_ops = {
    .socket = socket,
    .connect = system_connect,
    .sendmsg = sendmsg,
    .recvmsg = recvmsg,
};

static const struct kymo_sock_ops *ops = &system_ops;

void kymo_sock_set_ops(const struct kymo_sock_ops *table)
{
    ops = table ? table : &system_ops;
}

static int fail(struct kymo_err *err, const char *name, const char *what)
{
    int cause = errno;
    return kymo_err_set(err, -cause, "%s: %s: %s", name, what, strerror(cause));
}

static int make_address(const char *path, struct sockaddr_un *addr, struct kymo_err *err)
{
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof addr->sun_path)
        return kymo_err_set(err, -ENAMETOOLONG, "%s: a socket's path has 1 to %zu bytes", path,
                            sizeof addr->sun_path - 1);
    *addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(addr->sun_path, path, n);
    return 0;
}

static int make_socket(const char *path, int type, struct kymo_err *err)
{
    int fd = ops->socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    return fd >= 0 ? fd : fail(err, path, "cannot make a socket");
}

static int connect_to(int fd, const struct sockaddr_un *addr)
{
    int r;
    do
        r = ops->connect(fd, (const struct sockaddr *)addr, sizeof *addr);
    while (r < 0 && errno == EINTR);
    return r;
}

/* Removes the file only when it is a socket that refuses connections: its owner has died. */
static int remove_stale(const struct sockaddr_un *addr, int type, struct kymo_err *err)
{
    const char *path = addr->sun_path;
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : fail(err, path, "cannot stat");
    if (!S_ISSOCK(st.st_mode))
        return kymo_err_set(err, -EEXIST, "%s: exists and is no socket", path);
    int probe KYMO_CLOSE = make_socket(path, type, err);
    if (probe < 0)
        return probe;
    if (connect_to(probe, addr) == 0 || errno != ECONNREFUSED)
        return kymo_err_set(err, -EADDRINUSE, "%s: another process listens here", path);
    return kymo_file_ops()->unlink(path) < 0 ? fail(err, path, "cannot remove the stale socket") : 0;
}

static int listen_at(const char *path, int type, struct kymo_err *err)
{
    struct sockaddr_un addr;
    int r = make_address(path, &addr, err);
    if (r < 0)
        return r;
    int fd KYMO_CLOSE = make_socket(path, type, err);
    if (fd < 0)
        return fd;
    r = bind(fd, (const struct sockaddr *)&addr, sizeof addr);
    if (r < 0 && errno == EADDRINUSE) {
        r = remove_stale(&addr, type, err);
        if (r < 0)
            return r;
        r = bind(fd, (const struct sockaddr *)&addr, sizeof addr);
    }
    if (r < 0)
        return fail(err, path, "cannot bind");
    if (listen(fd, BACKLOG) < 0)
        return fail(err, path, "cannot listen");
    int taken = fd;
    fd = -1;
    return taken;
}

static int connect_at(const char *path, int type, struct kymo_err *err)
{
    struct sockaddr_un addr;
    int r = make_address(path, &addr, err);
    if (r < 0)
        return r;
    int fd KYMO_CLOSE = make_socket(path, type, err);
    if (fd < 0)
        return fd;
    if (connect_to(fd, &addr) < 0)
        return fail(err, path, "cannot connect");
    int taken = fd;
    fd = -1;
    return taken;
}

int kymo_sock_listen(const char *path, struct kymo_err *err)
{
    return listen_at(path, SOCK_SEQPACKET, err);
}

int kymo_sock_listen_stream(const char *path, struct kymo_err *err)
{
    return listen_at(path, SOCK_STREAM, err);
}

int kymo_sock_connect(const char *path, struct kymo_err *err)
{
    return connect_at(path, SOCK_SEQPACKET, err);
}

int kymo_sock_connect_stream(const char *path, struct kymo_err *err)
{
    return connect_at(path, SOCK_STREAM, err);
}

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(KYMO_SOCK_FDS_MAX * sizeof(int))];
};

static void attach_descriptors(struct msghdr *msg, union control *control, const int *fds, size_t nfds)
{
    memset(control, 0, sizeof *control);
    msg->msg_control = control->bytes;
    msg->msg_controllen = CMSG_SPACE(nfds * sizeof *fds);
    struct cmsghdr *c = CMSG_FIRSTHDR(msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(nfds * sizeof *fds);
    memcpy(CMSG_DATA(c), fds, nfds * sizeof *fds);
}

int kymo_sock_send(int fd, const void *data, size_t n, const int *fds, size_t nfds, struct kymo_err *err)
{
    /* An empty message would look like the end of the connection to the peer. */
    if (n == 0 || nfds > KYMO_SOCK_FDS_MAX)
        return kymo_err_set(err, -EINVAL, "socket: cannot send %zu bytes with %zu descriptors", n, nfds);
    union {
        const void *in;
        void *out;
    } bytes = {.in = data};
    struct iovec iov = {.iov_base = bytes.out, .iov_len = n};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    union control control;
    if (nfds > 0)
        attach_descriptors(&msg, &control, fds, nfds);
    ssize_t put;
    do
        put = ops->sendmsg(fd, &msg, MSG_NOSIGNAL);
    while (put < 0 && errno == EINTR);
    if (put < 0)
        return fail(err, "socket", "cannot send");
    if ((size_t)put != n)
        return kymo_err_set(err, -EIO, "socket: %zd of %zu bytes of a message were sent", put, n);
    return 0;
}

/* Waits until fd is readable; 0 or a negative errno. deadline is in kymo_clock_mono_ns. */
static int wait_readable(int fd, int timeout_ms, uint64_t deadline)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    for (;;) {
        int left = -1;
        if (timeout_ms >= 0) {
            uint64_t now = kymo_clock_mono_ns();
            left = now >= deadline ? 0 : (int)((deadline - now + NS_PER_MS - 1) / NS_PER_MS);
        }
        int r = poll(&p, 1, left);
        if (r > 0)
            return 0;
        if (r == 0)
            return -ETIMEDOUT;
        if (errno != EINTR)
            return -errno;
    }
}

static ssize_t receive_before(int fd, struct msghdr *msg, int timeout_ms)
{
    uint64_t deadline = kymo_clock_mono_ns() + (timeout_ms > 0 ? (uint64_t)timeout_ms * NS_PER_MS : 0);
    struct msghdr fresh = *msg;
    for (;;) {
        int r = wait_readable(fd, timeout_ms, deadline);
        if (r < 0)
            return r;
        *msg = fresh;
        /* Another reader of the same descriptor may have been quicker, hence no blocking here. */
        ssize_t got = ops->recvmsg(fd, msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (got >= 0)
            return got;
        if (errno != EINTR && errno != EAGAIN)
            return errno > 0 ? -errno : -EIO;
        if (timeout_ms >= 0 && kymo_clock_mono_ns() >= deadline)
            return -ETIMEDOUT;
    }
}

/* Takes the descriptors of a message out into got; returns their count. */
static size_t collect_descriptors(struct msghdr *msg, int got[static KYMO_SOCK_FDS_MAX])
{
    size_t count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n && count < KYMO_SOCK_FDS_MAX; i++)
            memcpy(&got[count++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
    }
    return count;
}

static int check_received(const struct msghdr *msg, ssize_t got, size_t count, size_t room, struct kymo_err *err)
{
    if (got == 0)
        return kymo_err_set(err, -EPIPE, "socket: the peer is gone");
    if (msg->msg_flags & MSG_TRUNC)
        return kymo_err_set(err, -EMSGSIZE, "socket: a message longer than the limit arrived");
    if ((msg->msg_flags & MSG_CTRUNC) || count > room)
        return kymo_err_set(err, -EMSGSIZE, "socket: a message with more than %zu descriptors arrived", room);
    return 0;
}

int kymo_sock_recv(int fd, void *data, size_t *n, int *fds, size_t *nfds, int timeout_ms, struct kymo_err *err)
{
    struct iovec iov = {.iov_base = data, .iov_len = *n};
    union control control;
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t got = receive_before(fd, &msg, timeout_ms);
    if (got < 0)
        return kymo_err_set(err, (int)got, "socket: cannot receive: %s", strerror((int)-got));
    int arrived[KYMO_SOCK_FDS_MAX];
    size_t count = collect_descriptors(&msg, arrived);
    int r = check_received(&msg, got, count, nfds ? *nfds : 0, err);
    if (r < 0) {
        for (size_t i = 0; i < count; i++)
            (void)close(arrived[i]);
        return r;
    }
    if (count > 0)
        memcpy(fds, arrived, count * sizeof *fds);
    if (nfds)
        *nfds = count;
    *n = (size_t)got;
    return 0;
}
