#include "tests/scale/hosts.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "tests/scale/hosts_host.h"

#define CLOSE_TURNS 200
#define MS_PER_S 1000u

/* The first host is a plain one. Kinds are spread over the numbers, and all hostile kinds take turns. */
static enum hosts_kind kind_of(const struct hosts_config *k, size_t number)
{
    size_t place = number * 619 % 1000, turn = number % (HOSTS_KINDS - HOSTS_HOSTILE);
    if (number == 0)
        return HOSTS_PLAIN;
    if (place < k->hostile)
        return (enum hosts_kind)(HOSTS_HOSTILE + turn);
    if (place < k->hostile + k->breaking)
        return HOSTS_BREAKING;
    return place < k->hostile + k->breaking + k->slow ? HOSTS_SLOW : HOSTS_PLAIN;
}

static void on_tick(uv_timer_t *timer)
{
    struct hosts *h = timer->data;
    for (size_t i = 0; i < h->config.hosts; i++)
        hosts_host_tick(&h->hosts[i]);
}

void hosts_open(struct hosts *h, const struct hosts_config *config)
{
    *h = (struct hosts){.config = *config};
    h->hosts = KYMO_NEW_ARRAY(struct hosts_host, config->hosts + 1);
    hosts_must(h->hosts && uv_loop_init(&h->loop) == 0 && net_new(&h->loop, &h->net, NULL) == 0, "no loop");
    hosts_must(uv_timer_init(&h->loop, &h->timer) == 0, "no timer");
    h->timer.data = h;
    hosts_must(uv_timer_start(&h->timer, on_tick, HOSTS_TICK_MS, HOSTS_TICK_MS) == 0, "no timer");
    for (size_t i = 0; i < config->hosts; i++) {
        enum hosts_kind kind = kind_of(config, i);
        h->counts.nhosts[kind]++;
        h->counts.honest += kind < HOSTS_HOSTILE;
        hosts_host_open(&h->hosts[i], h, i, kind);
    }
    h->counts.wanted = h->counts.honest * config->captures;
}

void hosts_connect(struct hosts *h, unsigned seconds)
{
    uint64_t end = uv_now(&h->loop) + seconds * MS_PER_S;
    while (h->counts.connected < h->counts.honest && uv_now(&h->loop) < end)
        (void)uv_run(&h->loop, UV_RUN_ONCE);
}

static void on_byte(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    (void)uv_poll_stop(poll);
    *(bool *)poll->data = true;
}

void hosts_idle(struct hosts *h, int fd)
{
    static uv_poll_t poll;
    bool come = false;
    hosts_must(uv_poll_init(&h->loop, &poll, fd) == 0, "cannot wait for a byte");
    poll.data = &come;
    hosts_must(uv_poll_start(&poll, UV_READABLE, on_byte) == 0, "cannot wait for a byte");
    while (!come)
        (void)uv_run(&h->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&poll, NULL);
    (void)uv_run(&h->loop, UV_RUN_NOWAIT);
}

void hosts_send(struct hosts *h, unsigned seconds)
{
    uint64_t end = uv_now(&h->loop) + seconds * MS_PER_S;
    h->sending = true;
    while (h->counts.stored < h->counts.wanted && uv_now(&h->loop) < end)
        (void)uv_run(&h->loop, UV_RUN_ONCE);
}

void hosts_close(struct hosts *h)
{
    for (size_t i = 0; i < h->config.hosts; i++)
        hosts_host_close(&h->hosts[i]);
    uv_close((uv_handle_t *)&h->timer, NULL);
    for (unsigned i = 0; i < CLOSE_TURNS && uv_loop_alive(&h->loop); i++)
        (void)uv_run(&h->loop, UV_RUN_ONCE);
    h->net = net_free(h->net);
    (void)uv_run(&h->loop, UV_RUN_NOWAIT);
    for (size_t i = 0; i < h->config.hosts; i++)
        hosts_host_free(&h->hosts[i]);
    kymo_free(h->hosts);
    (void)uv_loop_close(&h->loop);
}
