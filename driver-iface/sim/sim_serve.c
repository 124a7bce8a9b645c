/* Accepts ranks and gives each a thread. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "driver-iface/sim/sim_rank.h"

#define GRACE_S 10

/* Ranks that are being served. */
struct crowd {
    pthread_mutex_t lock;
    pthread_cond_t fewer;
    unsigned running;
};

struct slot {
    pthread_t thread;
    int fd;
    bool used;
    atomic_bool done;
    struct sim_device *device;
    struct crowd *crowd;
};

static void count(struct crowd *c, bool more)
{
    (void)pthread_mutex_lock(&c->lock);
    c->running = more ? c->running + 1 : c->running - 1;
    (void)pthread_cond_signal(&c->fewer);
    (void)pthread_mutex_unlock(&c->lock);
}

/* Ranks that were told to end at the same time still have their profiles to write. */
static void wait_for_ranks(struct crowd *c)
{
    struct timespec until;
    int r = 0;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += GRACE_S;
    (void)pthread_mutex_lock(&c->lock);
    while (c->running > 0 && r == 0)
        r = pthread_cond_timedwait(&c->fewer, &c->lock, &until);
    (void)pthread_mutex_unlock(&c->lock);
}

static void *serve_rank(void *arg)
{
    struct slot *s = arg;

    sim_rank_serve(s->device, s->fd);
    /* The descriptor is closed by the accepting thread, which may still want to shut it down. The peer sees the end
     * now. */
    (void)shutdown(s->fd, SHUT_RDWR);
    atomic_store(&s->done, true);
    count(s->crowd, false);
    return NULL;
}

static void reap(struct slot *s)
{
    if (!s->used)
        return;
    (void)pthread_join(s->thread, NULL);
    s->fd = kymo_file_close(s->fd);
    s->used = false;
}

static struct slot *free_slot(struct slot *slots)
{
    struct slot *found = NULL;

    for (size_t i = 0; i < SIM_WIRE_RANKS_MAX; i++) {
        if (slots[i].used && atomic_load(&slots[i].done))
            reap(&slots[i]);
        if (!slots[i].used && !found)
            found = &slots[i];
    }
    return found;
}

static void accept_rank(struct sim_device *d, int listen_fd, struct slot *slots, struct crowd *crowd)
{
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    int fd = accept4(listen_fd, (struct sockaddr *)&peer, &length, SOCK_CLOEXEC);
    struct slot *s;

    if (fd < 0)
        return;
    s = free_slot(slots);
    if (!s) {
        (void)kymo_file_close(fd); /* the rank sees a connection that ends: no room */
        return;
    }
    s->fd = fd;
    s->device = d;
    s->crowd = crowd;
    atomic_store(&s->done, false);
    count(crowd, true);
    s->used = pthread_create(&s->thread, NULL, serve_rank, s) == 0;
    if (s->used)
        return;
    count(crowd, false);
    (void)kymo_file_close(fd);
}

int sim_device_serve(struct sim_device *d, int listen_fd, int stop_fd, struct kymo_err *err)
{
    struct slot *slots KYMO_FREE = KYMO_NEW_ARRAY(struct slot, SIM_WIRE_RANKS_MAX);
    struct crowd crowd = {.lock = PTHREAD_MUTEX_INITIALIZER, .fewer = PTHREAD_COND_INITIALIZER};
    struct pollfd fds[2] = {{.fd = listen_fd, .events = POLLIN}, {.fd = stop_fd, .events = POLLIN}};
    int r = 0;

    if (!slots)
        return kymo_err_set(err, -ENOMEM, "no memory for %u ranks", SIM_WIRE_RANKS_MAX);
    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR) {
            r = kymo_err_set(err, -errno, "cannot wait for ranks: %s", strerror(errno));
            break;
        }
        if (fds[1].revents)
            break;
        if (fds[0].revents)
            accept_rank(d, listen_fd, slots, &crowd);
    }
    wait_for_ranks(&crowd);
    for (size_t i = 0; i < SIM_WIRE_RANKS_MAX; i++)
        if (slots[i].used)
            (void)shutdown(slots[i].fd, SHUT_RDWR);
    for (size_t i = 0; i < SIM_WIRE_RANKS_MAX; i++)
        reap(&slots[i]);
    return r;
}
