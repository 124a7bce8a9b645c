/* Accepts ranks and gives each a thread. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "driver-iface/sim/sim_rank.h"

struct slot {
    pthread_t thread;
    int fd;
    bool used;
    atomic_bool done;
    struct sim_device *device;
};

static void *serve_rank(void *arg)
{
    struct slot *s = arg;

    sim_rank_serve(s->device, s->fd);
    /* The descriptor is closed by the accepting thread, which may still want to shut it down. The peer sees the end
     * now. */
    (void)shutdown(s->fd, SHUT_RDWR);
    atomic_store(&s->done, true);
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

static void accept_rank(struct sim_device *d, int listen_fd, struct slot *slots)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
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
    atomic_store(&s->done, false);
    if (pthread_create(&s->thread, NULL, serve_rank, s) != 0)
        (void)kymo_file_close(fd);
    else
        s->used = true;
}

int sim_device_serve(struct sim_device *d, int listen_fd, int stop_fd, struct kymo_err *err)
{
    struct slot *slots KYMO_FREE = KYMO_NEW_ARRAY(struct slot, SIM_WIRE_RANKS_MAX);
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
            accept_rank(d, listen_fd, slots);
    }
    for (size_t i = 0; i < SIM_WIRE_RANKS_MAX; i++)
        if (slots[i].used)
            (void)shutdown(slots[i].fd, SHUT_RDWR);
    for (size_t i = 0; i < SIM_WIRE_RANKS_MAX; i++)
        reap(&slots[i]);
    return r;
}
