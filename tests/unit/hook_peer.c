#include "tests/unit/hook_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

#define FLOOD_PACKETS 200000u
#define NS_PER_MS 1000000ull

struct connection {
    int fd; /* -1: closed */
    uint64_t answer_at;
    bool greeted, answered;
};

struct hook_peer {
    struct hook_peer_config config;
    char path[108], dir[108], intake[108];
    pthread_t thread;
    pthread_mutex_t lock;
    int listener, stop[2];
    struct connection connections[HOOK_PEER_CONNECTIONS];
    size_t n_connections, n_closed, n_events;
    struct kymo_hook_page *page;
    struct hook_peer_event events[HOOK_PEER_EVENTS];
};

struct kymo_hook_policy hook_peer_policy(void)
{
    struct kymo_hook_policy p = {.version_min = KYMO_HOOK_VERSION_MIN,
                                 .version_max = KYMO_HOOK_VERSION_MAX,
                                 .version = KYMO_HOOK_VERSION_MAX,
                                 .stall_limit_ns = 30000000000ull,
                                 .neff_max_bytes = 1u << 30,
                                 .neff_total_bytes = 1u << 30};

    for (size_t i = 0; i < KYMO_HOOK_BUFFERS; i++)
        p.buffer_mb[i] = KYMO_HOOK_BUFFER_LEAVE;
    return p;
}

static bool send_packet(int fd, const void *packet, size_t size, int passed)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)packet, .iov_len = size};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

    if (passed >= 0) {
        m.msg_control = &control;
        m.msg_controllen = sizeof control;
        control.header =
            (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(&control.header), &passed, sizeof passed);
    }
    return sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

static void send_policy(const struct hook_peer *p, int fd, const struct kymo_hook_policy *policy)
{
    struct kymo_hook_policy copy = *policy;
    int intake = p->intake[0] ? open(p->intake, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    copy.header = (struct kymo_hook_header){.size = sizeof copy, .type = KYMO_HOOK_POLICY, .version = copy.version};
    (void)send_packet(fd, &copy, sizeof copy, intake);
    if (intake >= 0)
        (void)close(intake);
}

static void send_future(const struct hook_peer *p, int fd)
{
    struct {
        struct kymo_hook_policy policy;
        uint8_t more[200];
    } longer = {.policy = p->config.policy};
    struct kymo_hook_header unknown = {.size = sizeof unknown, .type = 999};
    int intake = open(p->intake, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    memset(longer.more, 0xaa, sizeof longer.more);
    longer.policy.version_max = 7;
    longer.policy.header = (struct kymo_hook_header){.size = sizeof longer, .type = KYMO_HOOK_POLICY, .version = 1};
    (void)send_packet(fd, &unknown, sizeof unknown, -1);
    (void)send_packet(fd, &longer, sizeof longer, intake);
    if (intake >= 0)
        (void)close(intake);
}

static void send_garbage(int fd)
{
    uint8_t bytes[8192];
    unsigned seed = 1;

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)rand_r(&seed);
    for (size_t size = 1; size <= sizeof bytes; size *= 2)
        if (!send_packet(fd, bytes, size, size & 2 ? fd : -1))
            return;
}

static void flood(struct hook_peer *p, int fd)
{
    const struct kymo_hook_header unknown = {.size = sizeof unknown, .type = 700};

    for (unsigned i = 0; i < FLOOD_PACKETS; i++) {
        struct pollfd full = {.fd = fd, .events = POLLOUT};

        if (p->page)
            __atomic_store_n(&p->page->trigger.seq, i, __ATOMIC_RELAXED);
        if (i % 2)
            send_policy(p, fd, &p->config.policy);
        else
            (void)send_packet(fd, &unknown, sizeof unknown, p->listener);
        if (!(i & 63) && poll(&full, 1, 1) < 0)
            return;
        if (i % 256 == 0 && poll(&(struct pollfd){.fd = p->stop[0], .events = POLLIN}, 1, 0) > 0)
            return;
    }
}

static void leave(struct hook_peer *p, struct connection *c)
{
    (void)close(c->fd);
    c->fd = -1;
    p->n_closed++;
}

static void answer(struct hook_peer *p, struct connection *c)
{
    struct kymo_hook_policy strange = p->config.policy;

    c->answered = true;
    switch (p->config.answer) {
    case HOOK_PEER_POLICY:
    case HOOK_PEER_LATE:
        send_policy(p, c->fd, &p->config.policy);
        break;
    case HOOK_PEER_NEVER:
        break;
    case HOOK_PEER_CLOSE:
        leave(p, c);
        break;
    case HOOK_PEER_GARBAGE:
        send_garbage(c->fd);
        break;
    case HOOK_PEER_FLOOD:
        (void)pthread_mutex_unlock(&p->lock);
        flood(p, c->fd);
        (void)pthread_mutex_lock(&p->lock);
        break;
    case HOOK_PEER_STRANGER:
        strange.version_min = 40;
        strange.version_max = 41;
        strange.version = 0;
        send_policy(p, c->fd, &strange);
        break;
    case HOOK_PEER_FUTURE:
        send_future(p, c->fd);
        break;
    }
}

static void write_trigger(struct kymo_hook_page *page, const struct kymo_hook_trigger *t)
{
    struct kymo_hook_trigger *words = &page->trigger;

    memcpy((char *)words + sizeof words->seq, (const char *)t + sizeof t->seq, sizeof *words - sizeof words->seq);
    __atomic_store_n(&words->seq, t->seq, __ATOMIC_RELEASE);
}

static void take_hello(struct hook_peer *p, int fd)
{
    void *page = mmap(NULL, sizeof *p->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (page == MAP_FAILED)
        return;
    if (p->page)
        (void)munmap(p->page, sizeof *p->page);
    p->page = page;
    if (p->config.trigger.seq)
        write_trigger(page, &p->config.trigger);
}

/* The bytes must be sealed: nobody may change them after they were hashed. */
static void take_neff(const struct hook_peer *p, const struct kymo_hook_loaded *m, int fd)
{
    const int all = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    char path[160];
    struct stat st;
    void *bytes;
    int out;

    if ((fcntl(fd, F_GET_SEALS) & all) != all || fstat(fd, &st) < 0 || (uint64_t)st.st_size != m->neff_bytes ||
        !p->intake[0])
        return;
    bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return;
    (void)snprintf(path, sizeof path, "%s/neff_%u.neff", p->intake, m->model);
    out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (out >= 0) {
        if (write(out, bytes, (size_t)st.st_size) != st.st_size)
            (void)unlink(path);
        (void)close(out);
    }
    (void)munmap(bytes, (size_t)st.st_size);
}

static void receive(struct hook_peer *p, struct connection *c)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct hook_peer_event *e = &p->events[p->n_events < HOOK_PEER_EVENTS ? p->n_events : HOOK_PEER_EVENTS - 1];
    struct iovec iov = {.iov_base = e->u.bytes, .iov_len = sizeof e->u.bytes};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(c->fd, &m, MSG_CMSG_CLOEXEC);
    int fd = -1;

    if (n <= 0) {
        leave(p, c);
        return;
    }
    if (CMSG_FIRSTHDR(&m))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    e->connection = (unsigned)(c - p->connections);
    e->has_fd = fd >= 0;
    if (e->u.header.type == KYMO_HOOK_HELLO && fd >= 0) {
        take_hello(p, fd);
        c->greeted = true;
        c->answer_at = kymo_clock_mono_ns() + (p->config.answer == HOOK_PEER_LATE ? 200 * NS_PER_MS : 0);
    }
    if (e->u.header.type == KYMO_HOOK_LOADED && fd >= 0)
        take_neff(p, &e->u.loaded, fd);
    if (p->n_events < HOOK_PEER_EVENTS && e->u.header.size == (size_t)n)
        p->n_events++;
    if (fd >= 0)
        (void)close(fd);
}

static void accept_one(struct hook_peer *p)
{
    struct sockaddr_un from;
    socklen_t n = sizeof from;
    int fd = accept4(p->listener, (struct sockaddr *)&from, &n, SOCK_CLOEXEC);

    if (fd >= 0 && p->n_connections < HOOK_PEER_CONNECTIONS)
        p->connections[p->n_connections++] = (struct connection){.fd = fd};
    else if (fd >= 0)
        (void)close(fd);
}

static void *serve(void *arg)
{
    struct hook_peer *p = arg;

    for (;;) {
        struct pollfd f[HOOK_PEER_CONNECTIONS + 2] = {{.fd = p->stop[0], .events = POLLIN},
                                                      {.fd = p->listener, .events = POLLIN}};
        size_t n = p->n_connections;

        for (size_t i = 0; i < n; i++)
            f[i + 2] = (struct pollfd){.fd = p->connections[i].fd, .events = POLLIN};
        if (poll(f, n + 2, 20) < 0 || f[0].revents)
            return NULL;
        (void)pthread_mutex_lock(&p->lock);
        if (f[1].revents)
            accept_one(p);
        for (size_t i = 0; i < n; i++) {
            struct connection *c = &p->connections[i];

            if (c->fd >= 0 && f[i + 2].revents)
                receive(p, c);
            if (c->fd >= 0 && c->greeted && !c->answered && kymo_clock_mono_ns() >= c->answer_at)
                answer(p, c);
        }
        (void)pthread_mutex_unlock(&p->lock);
    }
}

static int listen_at(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    (void)unlink(path);
    if (fd >= 0 && (bind(fd, (const struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 16) < 0)) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

struct hook_peer *hook_peer_start(const struct hook_peer_config *config)
{
    struct hook_peer *p = KYMO_NEW(struct hook_peer);

    if (!p)
        return NULL;
    p->config = *config;
    (void)snprintf(p->path, sizeof p->path, "%.90s/%s", config->dir, KYMO_HOOK_SOCKET_NAME);
    (void)snprintf(p->intake, sizeof p->intake, "%.100s", config->intake ? config->intake : "");
    (void)pthread_mutex_init(&p->lock, NULL);
    p->listener = listen_at(p->path);
    if (p->listener < 0 || pipe2(p->stop, O_CLOEXEC) < 0 || pthread_create(&p->thread, NULL, serve, p) != 0) {
        kymo_free(p);
        return NULL;
    }
    return p;
}

void hook_peer_stop(struct hook_peer *p)
{
    if (!p)
        return;
    (void)close(p->stop[1]);
    (void)pthread_join(p->thread, NULL);
    (void)close(p->stop[0]);
    (void)close(p->listener);
    (void)unlink(p->path);
    for (size_t i = 0; i < p->n_connections; i++)
        if (p->connections[i].fd >= 0)
            (void)close(p->connections[i].fd);
    if (p->page)
        (void)munmap(p->page, sizeof *p->page);
    kymo_free(p);
}

bool hook_peer_wait(struct hook_peer *p, uint16_t type, size_t n, unsigned ms, struct hook_peer_event *ret)
{
    uint64_t deadline = kymo_clock_mono_ns() + ms * NS_PER_MS;
    bool found = false;

    for (;;) {
        size_t seen = 0;

        (void)pthread_mutex_lock(&p->lock);
        for (size_t i = 0; i < p->n_events && !found; i++)
            if (p->events[i].u.header.type == type && seen++ == n) {
                *ret = p->events[i];
                found = true;
            }
        (void)pthread_mutex_unlock(&p->lock);
        if (found || kymo_clock_mono_ns() >= deadline)
            return found;
        (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

size_t hook_peer_count(struct hook_peer *p, uint16_t type)
{
    size_t n = 0;

    (void)pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->n_events; i++)
        n += p->events[i].u.header.type == type;
    (void)pthread_mutex_unlock(&p->lock);
    return n;
}

size_t hook_peer_closed(struct hook_peer *p)
{
    size_t n;

    (void)pthread_mutex_lock(&p->lock);
    n = p->n_closed;
    (void)pthread_mutex_unlock(&p->lock);
    return n;
}

const struct kymo_hook_page *hook_peer_page(struct hook_peer *p)
{
    const struct kymo_hook_page *page;

    (void)pthread_mutex_lock(&p->lock);
    page = p->page;
    (void)pthread_mutex_unlock(&p->lock);
    return page;
}

void hook_peer_trigger(struct hook_peer *p, const struct kymo_hook_trigger *t)
{
    (void)pthread_mutex_lock(&p->lock);
    if (p->page)
        write_trigger(p->page, t);
    (void)pthread_mutex_unlock(&p->lock);
}

void hook_peer_send_neff_done(struct hook_peer *p, uint32_t model)
{
    const struct kymo_hook_neff_done m = {
        .header = {.size = sizeof m, .type = KYMO_HOOK_NEFF_DONE, .version = 1, .seq = 9}, .model = model};
    (void)pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->n_connections; i++)
        if (p->connections[i].fd >= 0)
            (void)send(p->connections[i].fd, &m, sizeof m, MSG_NOSIGNAL);
    (void)pthread_mutex_unlock(&p->lock);
}

void hook_peer_send_policy(struct hook_peer *p, const struct kymo_hook_policy *policy)
{
    (void)pthread_mutex_lock(&p->lock);
    p->config.policy = *policy;
    for (size_t i = 0; i < p->n_connections; i++)
        if (p->connections[i].fd >= 0)
            send_policy(p, p->connections[i].fd, policy);
    (void)pthread_mutex_unlock(&p->lock);
}
