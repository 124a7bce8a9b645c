/*
 * The socket to the daemon. nrt_init asks its one question on the application's thread; from then on the helper thread
 * alone touches the socket, and others hand it packets over a queue of fixed size. It ends when it is the last thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "driver-iface/hook/hook_internal.h"
#include "driver-iface/hook/hook_msg.h"

#define QUEUE_MAX 64u
#define PACKET_BYTES 192u
#define NS_PER_MS 1000000ull
#define TICK_MS 1000
#define RETRY_FIRST_NS (500 * NS_PER_MS)
#define RETRY_MAX_NS (30000 * NS_PER_MS)
#define PACKETS_PER_TICK 64u /* more than that in a second is a flood, and waits in the socket */
#define FDS_MAX 4u
#define STACK_BYTES (256u << 10)

struct entry {
    uint8_t packet[PACKET_BYTES];
    uint32_t size;
    int fd;
};

static struct {
    pthread_mutex_t lock; /* of what follows up to intake */
    struct entry queue[QUEUE_MAX];
    uint32_t first, count;
    struct kymo_hook_policy policy;
    bool policy_is_new;
    struct kymo_hook_state_msg state; /* the last one said; size 0: none */
    int intake;                       /* came with the policy, not fetched yet; -1 */

    struct hook_fd wake, socket;
    struct sockaddr_un address;
    uint32_t connected; /* atomic */
    uint64_t start_unix_ns, start_mono_ns, seq;
    uint64_t retry_at, retry_ns;
    uint64_t tick_ns;
    uint32_t tick_packets;
    bool asked, started, again;
} talk = {.lock = PTHREAD_MUTEX_INITIALIZER, .intake = -1, .wake = {.fd = -1}, .socket = {.fd = -1}};

static void disconnect(uint64_t retry_ns)
{
    hook_fd_close(&talk.socket);
    __atomic_store_n(&talk.connected, 0, __ATOMIC_RELEASE);
    talk.retry_ns = retry_ns;
    talk.retry_at = hook_now() + retry_ns;
}

static uint64_t next_retry(void)
{
    uint64_t doubled = talk.retry_ns ? talk.retry_ns * 2 : RETRY_FIRST_NS;

    return doubled < RETRY_MAX_NS ? doubled : RETRY_MAX_NS;
}

/* One packet with at most one descriptor. -EAGAIN: no room now. */
static int send_packet(const void *packet, uint32_t size, int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)packet, .iov_len = size};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

    if (!hook_fd_is_ours(&talk.socket))
        return -EBADF;
    if (fd >= 0) {
        m.msg_control = &control;
        m.msg_controllen = sizeof control;
        control.header =
            (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    }
    return sendmsg(talk.socket.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size ? 0 : errno ? -errno : -EIO;
}

static void fill_header(void *packet, uint16_t type, uint32_t size)
{
    const struct kymo_hook_header h = {.size = size,
                                       .type = type,
                                       .version = (uint16_t)(type == KYMO_HOOK_HELLO ? 0 : KYMO_HOOK_VERSION_MAX),
                                       .seq = ++talk.seq};

    memcpy(packet, &h, sizeof h);
}

static int send_hello(void)
{
    struct kymo_hook_hello h = {.version_min = KYMO_HOOK_VERSION_MIN,
                                .version_max = KYMO_HOOK_VERSION_MAX,
                                .pid = (uint32_t)getpid(),
                                .page_size = sizeof(struct kymo_hook_page),
                                .start_unix_ns = talk.start_unix_ns,
                                .start_mono_ns = talk.start_mono_ns};

    talk.seq = 0;
    fill_header(&h, KYMO_HOOK_HELLO, sizeof h);
    if (__atomic_load_n(&hook_is_async, __ATOMIC_RELAXED))
        h.flags |= KYMO_HOOK_HELLO_ASYNC;
    if (__atomic_load_n(&hook_page->reason, __ATOMIC_RELAXED) == KYMO_HOOK_REASON_INSPECT)
        h.flags |= KYMO_HOOK_HELLO_INSPECT;
    if (talk.again)
        h.flags |= KYMO_HOOK_HELLO_AGAIN;
    (void)snprintf(h.hook_version, sizeof h.hook_version, "%s", KYMO_VERSION);
    (void)snprintf(h.program, sizeof h.program, "%s", program_invocation_short_name);
    talk.again = true;
    return send_packet(&h, sizeof h, hook_page_fd.fd);
}

/* Root, this user, or whoever owns the directory of the socket: nobody else tells a job what to do. */
static bool is_trusted(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    char dir[sizeof talk.address.sun_path];
    struct stat st;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
        return false;
    if (peer.uid == 0 || peer.uid == geteuid())
        return true;
    (void)snprintf(dir, sizeof dir, "%s", talk.address.sun_path);
    *strrchr(dir, '/') = 0;
    return stat(dir, &st) == 0 && st.st_uid == peer.uid;
}

/* A connection to a listener whose queue is full would wait; a non-blocking one fails and is tried again later. */
static bool connect_now(void)
{
    int fd;

    if (talk.address.sun_path[0] == 0)
        return false;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    if (connect(fd, (const struct sockaddr *)&talk.address, sizeof talk.address) < 0 || !is_trusted(fd)) {
        (void)close(fd);
        return false;
    }
    talk.socket = hook_fd_take(fd);
    __atomic_store_n(&talk.connected, 1, __ATOMIC_RELEASE);
    if (send_hello() == 0)
        return true;
    disconnect(next_retry());
    return false;
}

static void take_policy(const struct kymo_hook_policy *p, int *intake)
{
    if (p->version == 0) {
        hook_state_set(&hook_page->reason, KYMO_HOOK_REASON_VERSION);
        disconnect(RETRY_MAX_NS);
        return;
    }
    talk.retry_ns = 0;
    if (!(p->flags & KYMO_HOOK_POLICY_NEFF_DONE))
        hook_model_neff_done(0); /* An older daemon says nothing about them. */
    (void)pthread_mutex_lock(&talk.lock);
    talk.policy = *p;
    talk.policy_is_new = true;
    if (*intake >= 0) {
        if (talk.intake >= 0)
            (void)close(talk.intake);
        talk.intake = *intake;
        *intake = -1;
    }
    (void)pthread_mutex_unlock(&talk.lock);
    hook_capture_policy_changed();
}

/* The first descriptor of a packet; what a peer sends beyond it is closed. */
static int take_fd(struct msghdr *m)
{
    int first = -1;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        size_t n;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (first < 0)
                first = fd;
            else
                (void)close(fd);
        }
    }
    return first;
}

enum received { RECEIVED_NOTHING, RECEIVED_OTHER, RECEIVED_POLICY };

/* One packet. A peer that breaks the rules, or has closed, is left; it may be better after a restart. */
static enum received receive(void)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(FDS_MAX * sizeof(int))];
    uint8_t packet[KYMO_HOOK_PACKET_MAX];
    struct iovec iov = {.iov_base = packet, .iov_len = sizeof packet};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    union hook_msg msg;
    enum hook_msg_kind kind;
    ssize_t n = recvmsg(talk.socket.fd, &m, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
    int fd;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return RECEIVED_NOTHING;
    if (n <= 0) {
        disconnect(next_retry());
        return RECEIVED_NOTHING;
    }
    fd = take_fd(&m);
    kind = hook_msg_parse(packet, (size_t)n < sizeof packet ? (size_t)n : sizeof packet, (size_t)n, &msg);
    if (kind == HOOK_MSG_BAD)
        disconnect(RETRY_MAX_NS);
    else if (kind == HOOK_MSG_POLICY)
        take_policy(&msg.policy, &fd);
    else if (kind == HOOK_MSG_NEFF_DONE && msg.neff_done.model != 0)
        hook_model_neff_done(msg.neff_done.model);
    if (fd >= 0)
        (void)close(fd);
    return kind == HOOK_MSG_POLICY ? RECEIVED_POLICY : kind == HOOK_MSG_UNKNOWN ? RECEIVED_OTHER : RECEIVED_NOTHING;
}

/* The socket's path is read once, by the thread that calls nrt_init: others must not read an environment in motion. */
static void find_address(void)
{
    const char *dir = getenv("KYMO_SOCKET");
    int n;

    if (!dir || !*dir)
        dir = KYMO_HOOK_SOCKET_DIR;
    talk.address.sun_family = AF_UNIX;
    n = snprintf(talk.address.sun_path, sizeof talk.address.sun_path, "%s/%s", dir, KYMO_HOOK_SOCKET_NAME);
    if (n < 0 || (size_t)n >= sizeof talk.address.sun_path)
        talk.address.sun_path[0] = 0;
}

bool hook_talk_ask(uint32_t *ret_us)
{
    uint64_t start = hook_now(), deadline = start + KYMO_HOOK_QUESTION_MS * NS_PER_MS, now = start;
    bool answered = false;

    *ret_us = 0;
    if (talk.asked)
        return false;
    talk.asked = true;
    talk.start_mono_ns = start;
    talk.start_unix_ns = hook_clock_ns(CLOCK_REALTIME);
    find_address();
    if (hook_page_fd.fd >= 0 && connect_now())
        for (unsigned i = 0; i < PACKETS_PER_TICK && !answered && talk.socket.fd >= 0 && now < deadline; i++) {
            struct pollfd p = {.fd = talk.socket.fd, .events = POLLIN};
            uint64_t left = deadline - now;

            if (ppoll(&p, 1,
                      &(struct timespec){.tv_sec = (time_t)(left / 1000000000u), .tv_nsec = (long)(left % 1000000000u)},
                      NULL) > 0)
                answered = receive() == RECEIVED_POLICY && talk.socket.fd >= 0;
            now = hook_now();
        }
    *ret_us = (uint32_t)((hook_now() - start) / 1000);
    return answered;
}

bool hook_talk_policy(struct kymo_hook_policy *ret, int *ret_intake)
{
    bool is_new;

    (void)pthread_mutex_lock(&talk.lock);
    is_new = talk.policy_is_new;
    if (is_new) {
        *ret = talk.policy;
        *ret_intake = talk.intake;
        talk.intake = -1;
        talk.policy_is_new = false;
    }
    (void)pthread_mutex_unlock(&talk.lock);
    return is_new;
}

bool hook_talk_look_at_policy(struct kymo_hook_policy *ret)
{
    bool any;

    (void)pthread_mutex_lock(&talk.lock);
    any = talk.policy.version != 0;
    *ret = talk.policy;
    (void)pthread_mutex_unlock(&talk.lock);
    return any;
}

bool hook_talk_has_peer(void)
{
    return __atomic_load_n(&talk.connected, __ATOMIC_ACQUIRE) != 0;
}

bool hook_talk_may_come(void)
{
    return hook_talk_has_peer() || (talk.address.sun_path[0] && access(talk.address.sun_path, F_OK) == 0);
}

static bool is_announced(uint16_t type, int fd)
{
    return fd < 0 && (type == KYMO_HOOK_STATE || type == KYMO_HOOK_LOADED || type == KYMO_HOOK_UNLOADED);
}

bool hook_talk_send(uint16_t type, void *packet, uint32_t size, int fd)
{
    bool full;

    memcpy(packet, &(struct kymo_hook_header){.size = size, .type = type}, sizeof(struct kymo_hook_header));
    (void)pthread_mutex_lock(&talk.lock);
    if (type == KYMO_HOOK_STATE)
        memcpy(&talk.state, packet, sizeof talk.state);
    if (!hook_talk_has_peer() && is_announced(type, fd)) {
        (void)pthread_mutex_unlock(&talk.lock);
        return true;
    }
    full = !talk.started || talk.count == QUEUE_MAX || size > PACKET_BYTES;
    if (!full) {
        struct entry *e = &talk.queue[(talk.first + talk.count++) % QUEUE_MAX];

        memcpy(e->packet, packet, size);
        e->size = size;
        e->fd = fd;
    }
    (void)pthread_mutex_unlock(&talk.lock);
    if (!full) {
        uint64_t one = 1;

        if (hook_fd_is_ours(&talk.wake) && write(talk.wake.fd, &one, sizeof one) < 0) {
            /* It has been woken often enough already. */
        }
        return true;
    }
    if (fd >= 0)
        (void)close(fd);
    (void)__atomic_fetch_add(&hook_page->messages_lost, 1, __ATOMIC_RELAXED);
    return false;
}

void hook_talk_flush(void)
{
    for (unsigned i = 0; i < KYMO_HOOK_QUESTION_MS && hook_talk_has_peer(); i++) {
        uint32_t left;

        (void)pthread_mutex_lock(&talk.lock);
        left = talk.count;
        (void)pthread_mutex_unlock(&talk.lock);
        if (left == 0)
            return;
        (void)nanosleep(&(struct timespec){.tv_nsec = (long)NS_PER_MS}, NULL);
    }
}

static bool peek(struct entry *ret)
{
    bool any;

    (void)pthread_mutex_lock(&talk.lock);
    any = talk.count > 0;
    if (any)
        *ret = talk.queue[talk.first];
    (void)pthread_mutex_unlock(&talk.lock);
    return any;
}

static void pop(const struct entry *e)
{
    struct kymo_hook_loaded loaded;
    bool keep;

    (void)pthread_mutex_lock(&talk.lock);
    talk.first = (talk.first + 1) % QUEUE_MAX;
    talk.count--;
    keep = talk.policy.version == 0 || (talk.policy.flags & KYMO_HOOK_POLICY_NEFF_DONE);
    (void)pthread_mutex_unlock(&talk.lock);
    if (e->fd < 0)
        return;
    memcpy(&loaded, e->packet, sizeof loaded);
    hook_model_neff_passed(loaded.model, loaded.neff_bytes, e->fd, keep);
}

/* Packets stay in the queue while there is nobody to send them to. */
static void send_queue(void)
{
    struct entry e;

    for (unsigned i = 0; i < QUEUE_MAX && talk.socket.fd >= 0 && peek(&e); i++) {
        struct kymo_hook_header h;
        int r;

        memcpy(&h, e.packet, sizeof h);
        fill_header(e.packet, h.type, h.size);
        r = send_packet(e.packet, e.size, e.fd);
        if (r == -EAGAIN)
            return;
        if (r < 0) {
            disconnect(next_retry());
            return;
        }
        pop(&e);
    }
}

static void announce(const struct kymo_hook_loaded *m, int fd)
{
    struct kymo_hook_loaded copy = *m;

    if (fd >= 0)
        copy.flags = KYMO_HOOK_NEFF_ATTACHED;
    fill_header(&copy, KYMO_HOOK_LOADED, sizeof copy);
    if (talk.socket.fd >= 0 && send_packet(&copy, sizeof copy, fd) < 0)
        disconnect(next_retry());
}

static void announce_state(void)
{
    struct kymo_hook_state_msg m;

    (void)pthread_mutex_lock(&talk.lock);
    m = talk.state;
    (void)pthread_mutex_unlock(&talk.lock);
    if (m.header.size == 0)
        return;
    fill_header(&m, KYMO_HOOK_STATE, sizeof m);
    if (talk.socket.fd >= 0 && send_packet(&m, sizeof m, -1) < 0)
        disconnect(next_retry());
}

static void reconnect(void)
{
    if (!connect_now()) {
        disconnect(next_retry());
        return;
    }
    hook_model_announce(announce);
    announce_state();
}

/*
 * A process whose main thread has called pthread_exit ends with its last thread. If that is this one, it must go; the
 * state of the main thread and the number of threads stand in /proc.
 */
static bool is_alone(void)
{
    char text[512];
    const char *p;
    char leader;
    int threads = 0, fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return false;
    n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    text[n > 0 ? n : 0] = 0;
    p = strrchr(text, ')');
    if (!p ||
        sscanf(p + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %d", &leader, &threads) != 2)
        return false;
    return leader == 'Z' && threads == 2;
}

static void wait_for_something(void)
{
    struct pollfd p[2] = {{.fd = talk.wake.fd, .events = POLLIN}, {.fd = -1}};
    uint64_t now = hook_now(), count;
    int timeout = TICK_MS;
    struct entry e;

    if (now - talk.tick_ns >= TICK_MS * NS_PER_MS) {
        talk.tick_ns = now;
        talk.tick_packets = 0;
    }
    if (!hook_fd_is_ours(&talk.socket))
        hook_fd_close(&talk.socket);
    if (talk.socket.fd < 0 && talk.retry_at > now && talk.retry_at - now < TICK_MS * NS_PER_MS)
        timeout = (int)((talk.retry_at - now) / NS_PER_MS) + 1;
    p[1].fd = talk.socket.fd;
    p[1].events = (short)((talk.tick_packets < PACKETS_PER_TICK ? POLLIN : 0) | (peek(&e) ? POLLOUT : 0));
    if (talk.tick_packets >= PACKETS_PER_TICK)
        p[1].fd = -1; /* a closed peer would wake us for ever */
    if (poll(p, 2, timeout) < 0)
        return;
    if (p[0].revents & POLLIN && read(talk.wake.fd, &count, sizeof count) < 0) {
        /* Somebody else was faster, which cannot be: nothing is lost. */
    }
    if (p[1].revents & (POLLIN | POLLHUP | POLLERR)) {
        talk.tick_packets++;
        (void)receive();
    }
}

static void *help(void *arg)
{
    uint64_t checked = hook_now();

    for (;;) {
        if (!hook_fd_is_ours(&talk.wake))
            return arg; /* the application has closed what it did not open: we are not wanted */
        if (talk.socket.fd < 0 && hook_now() >= talk.retry_at)
            reconnect();
        send_queue();
        wait_for_something();
        if (hook_now() - checked >= TICK_MS * NS_PER_MS) {
            checked = hook_now();
            if (is_alone())
                return arg;
        }
    }
}

static bool start_thread(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    bool ok;

    if (pthread_attr_init(&attr) != 0)
        return false;
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    ok = pthread_create(&thread, &attr, help, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    if (ok)
        (void)pthread_setname_np(thread, "kymo-hook");
    return ok;
}

void hook_talk_start(void)
{
    int fd;

    if (talk.started || hook_page_fd.fd < 0 || !talk.address.sun_path[0])
        return;
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return;
    talk.wake = hook_fd_take(fd);
    talk.started = start_thread();
    if (!talk.started) {
        hook_fd_close(&talk.wake);
        disconnect(0);
    }
}

void hook_talk_forked(void)
{
    for (uint32_t i = 0; i < talk.count && i < QUEUE_MAX; i++) {
        int fd = talk.queue[(talk.first + i) % QUEUE_MAX].fd;

        if (fd >= 0)
            (void)close(fd);
    }
    if (talk.intake >= 0)
        (void)close(talk.intake);
    hook_fd_close(&talk.socket);
    hook_fd_close(&talk.wake);
    memset(&talk, 0, sizeof talk);
    (void)pthread_mutex_init(&talk.lock, NULL);
    talk.intake = -1;
    talk.wake = HOOK_NO_FD;
    talk.socket = HOOK_NO_FD;
}
