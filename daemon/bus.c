#include "daemon/bus.h"

#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "daemon/bus_internal.h"

#define TURNS_MAX 64 /* messages of one turn of the loop */
#define GROUP_BYTES 16384

static void tell(struct bus *b, bool up)
{
    if (b->told && b->was_up == up)
        return;
    b->told = true;
    b->was_up = up;
    if (b->config.changed)
        b->config.changed(b->config.ctx, up ? NULL : b->why);
}

/* ---- handles ---- */

static void on_closed(uv_handle_t *h)
{
    struct bus *b = h->data;
    if (h == (uv_handle_t *)&b->poll)
        b->has_poll = false;
    if (--b->handles == 0)
        kymo_free(b);
}

static void on_timer(uv_timer_t *timer);

static void disconnect(struct bus *b)
{
    bus_api_drop(b);
    if (b->has_poll && !uv_is_closing((uv_handle_t *)&b->poll))
        uv_close((uv_handle_t *)&b->poll, on_closed);
    b->bus = sd_bus_close_unref(b->bus);
    b->broken = false;
    if (b->closing)
        return;
    (void)uv_timer_start(&b->timer, on_timer, b->retry_ms, 0);
    b->retry_ms = b->retry_ms < BUS_RETRY_MAX_MS / 2 ? b->retry_ms * 2 : BUS_RETRY_MAX_MS;
    tell(b, false);
}

/* ---- sd-bus under the loop ---- */

static void process(struct bus *b)
{
    int r = 1;
    for (unsigned i = 0; r > 0 && i < TURNS_MAX && !b->broken; i++)
        r = sd_bus_process(b->bus, NULL);
    if (!b->broken && (r < 0 || sd_bus_is_open(b->bus) <= 0)) {
        (void)snprintf(b->why, sizeof b->why, "the bus has gone: %s", strerror(r < 0 ? -r : ECONNRESET));
        b->broken = true;
    }
    if (b->broken)
        disconnect(b);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct bus *b = poll->data;
    (void)status; /* sd-bus finds out by itself */
    (void)events;
    if (b->bus)
        process(b);
}

static uint64_t now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* What sd-bus waits for changes with every message, also with those that others send: it is asked before each wait. */
static void on_prepare(uv_prepare_t *prepare)
{
    struct bus *b = prepare->data;
    uint64_t at;
    if (!b->bus || !b->has_poll)
        return;
    int wanted = sd_bus_get_events(b->bus), events = UV_DISCONNECT;
    if (wanted > 0)
        events |= (wanted & POLLIN ? UV_READABLE : 0) | (wanted & POLLOUT ? UV_WRITABLE : 0);
    if (events != b->polled && uv_poll_start(&b->poll, events, on_poll) == 0)
        b->polled = events;
    if (sd_bus_get_timeout(b->bus, &at) < 0 || at == UINT64_MAX) {
        (void)uv_timer_stop(&b->timer);
        return;
    }
    uint64_t now = now_us();
    (void)uv_timer_start(&b->timer, on_timer, at > now ? (at - now + 999) / 1000 : 0, 0);
}

static int on_name(sd_bus_message *m, void *ctx, sd_bus_error *error)
{
    (void)error;
    struct bus *b = ctx;
    const sd_bus_error *e = sd_bus_message_get_error(m);
    uint32_t result = 0;
    if (!e && sd_bus_message_read(m, "u", &result) >= 0 && (result == 1 || result == 4)) {
        b->retry_ms = BUS_RETRY_MIN_MS;
        tell(b, true);
        return 0;
    }
    (void)snprintf(b->why, sizeof b->why, "the name %s is not to be had: %s", BUS_NAME,
                   e && e->message ? e->message : "another process has it");
    b->broken = true;
    return 0;
}

static int watch(struct bus *b)
{
    int fd = sd_bus_get_fd(b->bus);
    int r = fd < 0 ? fd : uv_poll_init(b->config.loop, &b->poll, fd);
    if (r < 0)
        return r;
    uv_unref((uv_handle_t *)&b->poll);
    b->has_poll = true;
    b->handles++;
    b->poll.data = b;
    b->polled = 0;
    return 0;
}

static void connect_bus(struct bus *b)
{
    int r = b->config.which == BUS_SYSTEM ? sd_bus_open_system(&b->bus) : sd_bus_open_user(&b->bus);
    if (r >= 0)
        r = bus_api_add(b);
    if (r >= 0)
        r = sd_bus_request_name_async(b->bus, NULL, BUS_NAME, 0, on_name, b);
    if (r >= 0)
        r = watch(b);
    if (r >= 0)
        return;
    (void)snprintf(b->why, sizeof b->why, "the bus cannot be reached: %s", strerror(-r));
    disconnect(b);
}

static void on_timer(uv_timer_t *timer)
{
    struct bus *b = timer->data;
    if (b->bus)
        process(b);
    else if (!b->has_poll) /* else its handle of the last connection is not closed yet */
        connect_bus(b);
    else
        (void)uv_timer_start(&b->timer, on_timer, BUS_RETRY_MIN_MS, 0);
}

/* ---- life ---- */

static void find_group(struct bus *b)
{
    struct group group, *found = NULL;
    char *text KYMO_FREE = kymo_malloc(GROUP_BYTES);
    if (text && b->config.group && getgrnam_r(b->config.group, &group, text, GROUP_BYTES, &found) == 0 && found) {
        b->has_group = true;
        b->group = group.gr_gid;
    }
}

int bus_new(const struct bus_config *config, struct bus **ret, struct kymo_err *err)
{
    struct bus *b = KYMO_NEW(struct bus);
    if (!b)
        return kymo_err_set(err, -ENOMEM, "bus: out of memory");
    b->config = *config;
    b->started_ms = uv_now(config->loop);
    b->retry_ms = BUS_RETRY_MIN_MS;
    find_group(b);
    (void)uv_prepare_init(config->loop, &b->prepare);
    (void)uv_timer_init(config->loop, &b->timer);
    b->prepare.data = b->timer.data = b;
    b->handles = 2;
    (void)uv_prepare_start(&b->prepare, on_prepare);
    uv_unref((uv_handle_t *)&b->prepare);
    uv_unref((uv_handle_t *)&b->timer);
    connect_bus(b);
    *ret = b;
    return 0;
}

struct bus *bus_close(struct bus *b)
{
    if (!b)
        return NULL;
    b->closing = true;
    /* Answers that are not sent yet are lost: waiting for the bus could take for ever. */
    disconnect(b);
    uv_close((uv_handle_t *)&b->prepare, on_closed);
    uv_close((uv_handle_t *)&b->timer, on_closed);
    return NULL;
}
