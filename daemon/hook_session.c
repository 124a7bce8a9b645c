#include "daemon/hook_session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

#define FDS_MAX 4
#define PACKETS_PER_TURN 32 /* then the others have their turn */
#define MS_PER_S 1000u

struct hook_session {
    uv_loop_t *loop;
    uv_poll_t poll;
    int fd;
    const struct hook_session_ops *ops;
    void *ctx, *data;
    struct hook_peer_id peer;
    struct kymo_hook_page *page;
    bool greeted, closed;
    uint16_t version;
    uint64_t since_ms, tokens, filled_ms, seq;
};

/* Identity */

static int peer_pidfd(int fd, pid_t pid)
{
    int pidfd = -1;
    socklen_t n = sizeof pidfd;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &n) == 0)
        return pidfd;
    return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

static int identify(int fd, struct hook_peer_id *ret, struct kymo_err *err)
{
    struct ucred cred;
    socklen_t n = sizeof cred;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
        return kymo_err_set(err, -errno, "hook: peer's credentials: %s", strerror(errno));
    *ret = (struct hook_peer_id){.pid = cred.pid, .uid = cred.uid, .gid = cred.gid, .pidfd = peer_pidfd(fd, cred.pid)};
    return 0;
}

const struct hook_peer_id *hook_session_peer(const struct hook_session *s)
{
    return &s->peer;
}

struct kymo_hook_page *hook_session_page(const struct hook_session *s)
{
    return s->page;
}

void hook_session_set_data(struct hook_session *s, void *data)
{
    s->data = data;
}

void *hook_session_data(const struct hook_session *s)
{
    return s->data;
}

bool hook_session_is_late(const struct hook_session *s, uint64_t now_ms)
{
    return !s->greeted && now_ms - s->since_ms >= HOOK_SESSION_HELLO_MS;
}

/* The end */

static void free_session(uv_handle_t *h)
{
    struct hook_session *s = h->data;
    (void)kymo_file_close(s->fd);
    (void)kymo_file_close(s->peer.pidfd);
    kymo_free(s);
}

void hook_session_close(struct hook_session *s, const char *why)
{
    if (s->closed)
        return;
    s->closed = true;
    if (s->greeted)
        s->ops->closed(s->ctx, s, why);
    if (s->page)
        (void)munmap(s->page, sizeof *s->page);
    s->page = NULL;
    s->ops->gone(s->ctx, s, why);
    uv_close((uv_handle_t *)&s->poll, free_session);
}

/* Packets in */

/* Sealed, so that its end cannot move under us, and of the size that we map. */
static struct kymo_hook_page *map_page(int fd, struct kymo_err *err)
{
    const int needed = F_SEAL_SHRINK | F_SEAL_GROW;
    struct stat st;
    int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & needed) != needed) {
        (void)kymo_err_set(err, -EPROTO, "HELLO without a sealed page");
        return NULL;
    }
    if (fstat(fd, &st) < 0 || st.st_size != (off_t)sizeof(struct kymo_hook_page)) {
        (void)kymo_err_set(err, -EPROTO, "HELLO with a page of another size");
        return NULL;
    }
    struct kymo_hook_page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        (void)kymo_err_set(err, -errno, "HELLO with a page that cannot be mapped: %s", strerror(errno));
        return NULL;
    }
    if (page->magic == KYMO_HOOK_PAGE_MAGIC && page->layout == KYMO_HOOK_PAGE_LAYOUT)
        return page;
    (void)munmap(page, sizeof *page);
    (void)kymo_err_set(err, -EPROTO, "HELLO with a page of another layout");
    return NULL;
}

/* A hook of no common version gets told ours, and leaves by itself. */
static int take_hello(struct hook_session *s, const struct kymo_hook_hello *h, int fd, struct kymo_err *err)
{
    if (s->greeted)
        return kymo_err_set(err, -EPROTO, "HELLO a second time");
    s->version = kymo_hook_common_version(h->version_min, h->version_max, KYMO_HOOK_VERSION_MIN, KYMO_HOOK_VERSION_MAX);
    if (s->version == 0) {
        const struct kymo_hook_policy none = {.flags = KYMO_HOOK_POLICY_OFF};
        (void)kymo_err_set(err, -EPROTO, "a hook of versions %u to %u", h->version_min, h->version_max);
        return hook_session_send_policy(s, &none, -1) < 0 ? -EPIPE : -EPROTO;
    }
    s->page = map_page(fd, err);
    if (!s->page)
        return -EPROTO;
    s->greeted = true;
    s->ops->hello(s->ctx, s, h);
    return 0;
}

static void take_packet(struct hook_session *s, const void *data, size_t n, size_t length, int fd)
{
    union hook_packet p;
    struct kymo_err err = {0};
    int r = hook_packet_parse(data, n, length, &p, &err);
    if (r == 1 && p.header.type == KYMO_HOOK_HELLO) {
        r = take_hello(s, &p.hello, fd, &err);
    } else if (r == 1 && !s->greeted) {
        r = kymo_err_set(&err, -EPROTO, "type %u before HELLO", p.header.type);
    } else if (r == 1) {
        s->ops->packet(s->ctx, s, &p, fd);
        fd = -1;
    }
    (void)kymo_file_close(fd);
    if (r < 0)
        hook_session_close(s, err.text);
}

/* The first descriptor of a packet; others are closed. */
static int take_fd(struct msghdr *m)
{
    int first = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (first < 0)
                first = fd;
            else
                (void)kymo_file_close(fd);
        }
    }
    return first;
}

static bool may_speak(struct hook_session *s)
{
    uint64_t now = uv_now(s->loop), gained = (now - s->filled_ms) * HOOK_SESSION_PACKETS_S / MS_PER_S;
    if (gained > 0) {
        s->tokens = s->tokens + gained < HOOK_SESSION_BURST ? s->tokens + gained : HOOK_SESSION_BURST;
        s->filled_ms = now;
    }
    if (s->tokens == 0)
        return false;
    s->tokens--;
    return true;
}

/* False: nothing more can be read now. */
static bool receive(struct hook_session *s)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(FDS_MAX * sizeof(int))];
    _Alignas(8) uint8_t data[KYMO_HOOK_PACKET_MAX];
    struct iovec iov = {.iov_base = data, .iov_len = sizeof data};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(s->fd, &m, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        hook_session_close(s, "");
        return false;
    }
    int fd = take_fd(&m);
    if (!may_speak(s)) {
        (void)kymo_file_close(fd);
        hook_session_close(s, "too many packets");
        return false;
    }
    size_t length = (size_t)n;
    take_packet(s, data, length < sizeof data ? length : sizeof data, length, fd);
    return !s->closed;
}

static void on_readable(uv_poll_t *h, int status, int events)
{
    struct hook_session *s = h->data;
    (void)events;
    if (status < 0) {
        hook_session_close(s, "");
        return;
    }
    for (int i = 0; i < PACKETS_PER_TURN && receive(s); i++) {
    }
}

int hook_session_new(uv_loop_t *loop, int fd, const struct hook_session_ops *ops, void *ctx, struct hook_session **ret,
                     struct kymo_err *err)
{
    struct hook_session *s = KYMO_NEW(struct hook_session);
    int r = s ? 0 : kymo_err_set(err, -ENOMEM, "hook: no memory for a session");
    if (r == 0)
        r = identify(fd, &s->peer, err);
    if (r == 0) {
        r = uv_poll_init(loop, &s->poll, fd);
        if (r < 0)
            (void)kymo_err_set(err, r, "hook: %s", uv_strerror(r));
    }
    if (r < 0) {
        if (s)
            (void)kymo_file_close(s->peer.pidfd);
        kymo_free(s);
        (void)kymo_file_close(fd);
        return r;
    }
    s->loop = loop;
    s->fd = fd;
    s->ops = ops;
    s->ctx = ctx;
    s->since_ms = s->filled_ms = uv_now(loop);
    s->tokens = HOOK_SESSION_BURST;
    s->poll.data = s;
    *ret = s;
    (void)uv_poll_start(&s->poll, UV_READABLE, on_readable);
    return 0;
}

/* Packets out */

static int send_packet(struct hook_session *s, struct msghdr *m, size_t n)
{
    if (s->closed)
        return -EPIPE;
    if (sendmsg(s->fd, m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)n)
        return 0;
    hook_session_close(s, errno == EAGAIN ? "it does not read" : "");
    return -EPIPE;
}

int hook_session_send_policy(struct hook_session *s, const struct kymo_hook_policy *policy, int intake)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct kymo_hook_policy p = *policy;
    struct iovec iov = {.iov_base = &p, .iov_len = sizeof p};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    p.header =
        (struct kymo_hook_header){.size = sizeof p, .type = KYMO_HOOK_POLICY, .version = s->version, .seq = ++s->seq};
    p.version_min = KYMO_HOOK_VERSION_MIN;
    p.version_max = KYMO_HOOK_VERSION_MAX;
    p.version = s->version;
    if (intake >= 0) {
        m.msg_control = &control;
        m.msg_controllen = sizeof control;
        control.header =
            (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(&control.header), &intake, sizeof intake);
    }
    return send_packet(s, &m, sizeof p);
}

int hook_session_send_neff_done(struct hook_session *s, uint32_t model)
{
    struct kymo_hook_neff_done p = {
        .header = {.size = sizeof p, .type = KYMO_HOOK_NEFF_DONE, .version = s->version, .seq = ++s->seq},
        .model = model};
    struct iovec iov = {.iov_base = &p, .iov_len = sizeof p};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    return send_packet(s, &m, sizeof p);
}

uint32_t hook_session_trigger(struct hook_session *s, const struct kymo_hook_trigger *trigger)
{
    struct kymo_hook_trigger *words = &s->page->trigger;
    uint32_t seq = __atomic_load_n(&words->seq, __ATOMIC_RELAXED) + 1;
    if (seq == 0)
        seq = 1;
    memcpy((char *)words + sizeof words->seq, (const char *)trigger + sizeof words->seq,
           sizeof *words - sizeof words->seq);
    __atomic_store_n(&words->seq, seq, __ATOMIC_RELEASE);
    return seq;
}
