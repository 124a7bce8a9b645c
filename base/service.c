#include "base/service.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "base/alloc.h"
#include "base/clock.h"

#define SOCKET_NAME_MAX 255 /* sd_listen_fds_with_names(3) */

struct watch {
    const char *name;
    service_beats *beats;
    void *ctx;
    uint64_t limit_ns, last, moved_ns;
};

struct inherited {
    int fd; /* -1: taken */
    char name[SOCKET_NAME_MAX + 1];
};

struct service {
    uv_timer_t timer;
    bool watchdog;
    size_t nwatches, nsockets;
    struct watch watches[SERVICE_WATCHES_MAX];
    const char *hung;
    struct inherited sockets[SERVICE_SOCKETS_MAX];
};

/* The first thread that has stood still for too long. */
static const char *find_hung(struct service *s)
{
    const char *hung = NULL;
    uint64_t now = kymo_clock_mono_ns();
    for (size_t i = 0; i < s->nwatches; i++) {
        struct watch *w = &s->watches[i];
        uint64_t beats = w->beats(w->ctx);
        if (beats != w->last) {
            w->last = beats;
            w->moved_ns = now;
        } else if (now - w->moved_ns >= w->limit_ns && !hung) {
            hung = w->name;
        }
    }
    return hung;
}

static void on_timer(uv_timer_t *timer)
{
    struct service *s = timer->data;
    const char *hung = find_hung(s);
    if (hung && hung != s->hung)
        service_status(s, "the thread \"%s\" does not answer; the watchdog is left to bark", hung);
    s->hung = hung;
    if (!hung)
        (void)sd_notify(0, "WATCHDOG=1");
}

static void free_names(char ***names)
{
    for (size_t i = 0; *names && (*names)[i]; i++)
        /* libsystemd allocated them with the C library's own functions, which kymo_free ends in. */
        kymo_free((*names)[i]);
    kymo_free(*names);
}

static int inherit(struct service *s, struct kymo_err *err)
{
    char **names KYMO_CLEANUP(free_names) = NULL;
    int n = sd_listen_fds_with_names(1, &names);
    if (n < 0)
        return kymo_err_set(err, n, "inherited sockets: %s", strerror(-n));
    for (int i = 0; i < n; i++) {
        if (s->nsockets == SERVICE_SOCKETS_MAX)
            return kymo_err_set(err, -ENOBUFS, "%d sockets were inherited, more than %d", n, SERVICE_SOCKETS_MAX);
        struct inherited *socket = &s->sockets[s->nsockets++];
        socket->fd = SD_LISTEN_FDS_START + i;
        (void)snprintf(socket->name, sizeof socket->name, "%s", names[i]);
    }
    return 0;
}

static int start_watchdog(struct service *s, struct kymo_err *err)
{
    uint64_t usec = 0;
    int r = sd_watchdog_enabled(1, &usec);
    if (r < 0)
        return kymo_err_set(err, r, "WATCHDOG_USEC: %s", strerror(-r));
    if (r == 0)
        return 0;
    uint64_t half_ms = usec / 2000 > 0 ? usec / 2000 : 1;
    s->watchdog = true;
    r = uv_timer_start(&s->timer, on_timer, half_ms, half_ms);
    uv_unref((uv_handle_t *)&s->timer);
    return r < 0 ? kymo_err_set(err, r, "watchdog: %s", uv_strerror(r)) : 0;
}

int service_new(uv_loop_t *loop, struct service **ret, struct kymo_err *err)
{
    struct service *s = KYMO_NEW(struct service);
    if (!s)
        return kymo_err_set(err, -ENOMEM, "service: out of memory");
    (void)uv_timer_init(loop, &s->timer);
    s->timer.data = s;
    int r = inherit(s, err);
    if (r == 0)
        r = start_watchdog(s, err);
    if (r < 0) {
        service_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    kymo_free(handle->data);
}

struct service *service_free(struct service *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < s->nsockets; i++)
        if (s->sockets[i].fd >= 0)
            (void)close(s->sockets[i].fd);
    uv_close((uv_handle_t *)&s->timer, on_closed);
    return NULL;
}

void service_ready(struct service *s, const char *status)
{
    (void)sd_notify(0, "READY=1");
    if (status)
        service_status(s, "%s", status);
}

void service_reloading(struct service *s)
{
    (void)s;
    /* Managers from 253 on want to know since when. */
    (void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, kymo_clock_mono_ns() / 1000);
}

void service_stopping(struct service *s)
{
    (void)s;
    (void)sd_notify(0, "STOPPING=1");
}

void service_status(struct service *s, const char *fmt, ...)
{
    (void)s;
    char text[SERVICE_STATUS_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    /* A line end would begin another assignment. */
    text[strcspn(text, "\n")] = '\0';
    (void)sd_notifyf(0, "STATUS=%s", text);
}

int service_watch(struct service *s, const char *name, uint64_t limit_ms, service_beats *beats, void *ctx,
                  struct kymo_err *err)
{
    if (s->nwatches == SERVICE_WATCHES_MAX)
        return kymo_err_set(err, -ENOBUFS, "%s: %d threads are watched already", name, SERVICE_WATCHES_MAX);
    s->watches[s->nwatches++] = (struct watch){.name = name,
                                               .beats = beats,
                                               .ctx = ctx,
                                               .limit_ns = limit_ms * 1000000,
                                               .last = beats(ctx),
                                               .moved_ns = kymo_clock_mono_ns()};
    return 0;
}

void service_unwatch(struct service *s, const void *ctx)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->nwatches; i++)
        if (s->watches[i].ctx != ctx)
            s->watches[kept++] = s->watches[i];
    s->nwatches = kept;
    s->hung = NULL;
}

bool service_has_watchdog(const struct service *s)
{
    return s->watchdog;
}

const char *service_hung(const struct service *s)
{
    return s->hung;
}

int service_take_socket(struct service *s, const char *name, int family, int type, int *ret_fd, struct kymo_err *err)
{
    for (size_t i = 0; i < s->nsockets; i++) {
        struct inherited *socket = &s->sockets[i];
        if (socket->fd < 0 || strcmp(socket->name, name) != 0)
            continue;
        int r = sd_is_socket(socket->fd, family, type, 1);
        if (r < 0)
            return kymo_err_set(err, r, "inherited socket \"%s\": %s", name, strerror(-r));
        if (r == 0)
            return kymo_err_set(err, -EPROTOTYPE, "inherited socket \"%s\" is not a listening one of the kind wanted",
                                name);
        *ret_fd = socket->fd;
        socket->fd = -1;
        return 0;
    }
    return kymo_err_set(err, -ENOENT, "no socket \"%s\" was inherited", name);
}

const char *service_untaken(const struct service *s)
{
    for (size_t i = 0; i < s->nsockets; i++)
        if (s->sockets[i].fd >= 0)
            return s->sockets[i].name;
    return NULL;
}
