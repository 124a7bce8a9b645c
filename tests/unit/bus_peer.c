/*
 * The daemon's D-Bus side alone, over jobs and captures that do as the test says. usage: bus-peer GROUP|-
 * Commands on stdin: "done ID STATE" tells of a capture, "quit" ends. What happens is told on stdout.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/bus.h"

static struct ask {
    captures_watch *watch;
    void *ctx;
    bool used;
} asks[BUS_ASKS_MAX];

static uv_loop_t loop;
static struct bus *bus;

struct captures_ask {
    struct ask *ask;
};
static struct captures_ask handles[BUS_ASKS_MAX];

int jobs_each(const struct jobs *j, int (*each)(void *ctx, const struct jobs_rank *r), void *ctx)
{
    (void)j;
    static const uint32_t cores[] = {4, 5};
    const struct jobs_rank ranks[] = {{.job = "llama",
                                       .pid = 42,
                                       .rank = 3,
                                       .rank_known = true,
                                       .uid = 1000,
                                       .ncores = 2,
                                       .cores = cores,
                                       .state = "ready",
                                       .unit = "train.service",
                                       .slice = "training.slice",
                                       .program = "python3",
                                       .step = UINT64_MAX,
                                       .capturing = true},
                                      {.job = "other", .pid = 43}};
    int r = 0;
    for (size_t i = 0; r == 0 && i < 2; i++)
        r = each(ctx, &ranks[i]);
    return r;
}

const char *captures_state_name(enum captures_state s)
{
    static const char *const names[] = {
#define X(symbol, text) text,
        CAPTURES_STATES(X)
#undef X
    };
    return names[s];
}

int captures_ask(struct captures *c, const struct captures_wish *w, captures_watch *watch, void *ctx,
                 char ids[][KYMO_HOOK_ID_MAX], size_t *ret_n, struct captures_ask **ret_ask, struct kymo_err *err)
{
    (void)c;
    const char *job = w->job ? w->job : "";
    printf("ask %s job=%s pid=%u cores=%zu mode=%s step=%llu count=%u duration=%llu one_in=%u wait=%d\n", w->trigger,
           job, w->pid, w->ncores, w->mode ? w->mode : "", (unsigned long long)w->step, w->count,
           (unsigned long long)w->duration_ms, w->ranks_one_in, w->wait);
    if (strcmp(job, "none") == 0)
        return kymo_err_set(err, -ENOENT, "no rank is meant");
    if (strcmp(job, "busy") == 0)
        return kymo_err_set(err, -EBUSY, "all are busy");
    if (strcmp(job, "some") == 0)
        (void)kymo_err_set(err, -EBUSY, "rank 1 is busy");
    for (size_t i = 0; i < BUS_ASKS_MAX; i++)
        if (!asks[i].used) {
            asks[i] = (struct ask){watch, ctx, true};
            handles[i].ask = &asks[i];
            *ret_ask = &handles[i];
            break;
        }
    (void)snprintf(ids[0], KYMO_HOOK_ID_MAX, "cap-1");
    (void)snprintf(ids[1], KYMO_HOOK_ID_MAX, "cap-2");
    *ret_n = 2;
    return 0;
}

void captures_unwatch(struct captures *c, struct captures_ask *ask)
{
    (void)c;
    ask->ask->used = false;
    printf("unwatch\n");
}

void captures_get_counts(const struct captures *c, struct captures_counts *ret)
{
    (void)c;
    *ret = (struct captures_counts){.saved = 7, .failed = 1};
}

void outbox_get_status(struct outbox *o, struct outbox_status *ret)
{
    (void)o;
    *ret = (struct outbox_status){.spool.used_bytes = 1000, .spool_bytes_max = 5000, .nlinks = 1};
    (void)snprintf(ret->links[0].address, sizeof ret->links[0].address, "127.0.0.1:3002");
    ret->links[0].state = OUTBOX_LINK_UP;
}

static void tell_all(const char *id, const char *name, bool last)
{
    for (int s = 0; s < CAPTURES_STATE_COUNT; s++)
        for (size_t i = 0; i < BUS_ASKS_MAX; i++)
            if (asks[i].used && strcmp(captures_state_name((enum captures_state)s), name) == 0) {
                asks[i].used = !last;
                asks[i].watch(asks[i].ctx, id, (enum captures_state)s, "why", last);
            }
}

static void on_line(char *line)
{
    char id[64], state[64], last[8] = "";
    if (sscanf(line, "done %63s %63s %7s", id, state, last) >= 2)
        tell_all(id, state, strcmp(last, "last") == 0);
    else
        uv_stop(&loop);
}

static void on_alloc(uv_handle_t *h, size_t n, uv_buf_t *buf)
{
    static char bytes[4096];
    (void)h, (void)n;
    *buf = uv_buf_init(bytes, sizeof bytes - 1);
}

static void on_stdin(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    char *rest, *at = buf->base;
    if (n < 0) {
        uv_stop(s->loop);
        return;
    }
    buf->base[n] = '\0';
    for (char *line = strtok_r(at, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        on_line(line);
}

static void on_changed(void *ctx, const char *why)
{
    (void)ctx;
    printf("%s%s\n", why ? "waiting: " : "connected", why ? why : "");
}

static void close_one(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (!uv_is_closing(h))
        uv_close(h, NULL);
}

int main(int argc, char **argv)
{
    uv_pipe_t in;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)alarm(120); /* a test that forgot it */
    (void)uv_loop_init(&loop);
    (void)uv_pipe_init(&loop, &in, 0);
    (void)uv_pipe_open(&in, STDIN_FILENO);
    (void)uv_read_start((uv_stream_t *)&in, on_alloc, on_stdin);
    const struct bus_config config = {.loop = &loop,
                                      .which = BUS_SYSTEM,
                                      .group = argc > 1 && strcmp(argv[1], "-") != 0 ? argv[1] : NULL,
                                      .changed = on_changed};
    if (bus_new(&config, &bus, NULL) < 0)
        return 1;
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    bus_close(bus);
    uv_close((uv_handle_t *)&in, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    uv_walk(&loop, close_one, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    int r = uv_loop_close(&loop);
    printf("closed %d\n", r);
    return r < 0;
}
