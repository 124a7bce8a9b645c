#include "tests/unit/daemon_world.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "proto/manifest_check.h"

#define NS_PER_MS 1000000ull

static void must(int r, const struct kymo_err *err)
{
    if (r < 0)
        fail_msg("%s", err->text);
}

static void load(struct world *w, const char *settings)
{
    struct kymo_err err = {0};
    char option[128];
    (void)snprintf(option, sizeof option, "--config=%s", w->config_path);
    char *argv[] = {"kymod", option, "--metrics=0", NULL};
    if (settings)
        must(kymo_file_write_atomic(w->config_path, settings, strlen(settings), &err), &err);
    must(config_load(3, argv, &w->config, &err), &err);
}

struct world *world_new(const char *settings)
{
    struct world *w = KYMO_NEW(struct world);
    (void)snprintf(w->dir, sizeof w->dir, "/tmp/kymo-test-daemon.XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(w->socket, sizeof w->socket, "%s/hook.sock", w->dir);
    (void)snprintf(w->intake, sizeof w->intake, "%s/intake", w->dir);
    (void)snprintf(w->spool, sizeof w->spool, "%s/spool", w->dir);
    (void)snprintf(w->learned_path, sizeof w->learned_path, "%s/learned.tsv", w->dir);
    (void)snprintf(w->config_path, sizeof w->config_path, "%s/conf", w->dir);
    load(w, settings);
    world_up(w);
    return w;
}

void world_up(struct world *w)
{
    struct kymo_err err = {0};
    if (!w->config)
        load(w, NULL);
    assert_int_equal(uv_loop_init(&w->loop), 0);
    must(host_read(w->config, &w->host, &err), &err);
    must(learned_open(w->learned_path, &w->learned, &err), &err);
    const struct captures_config captures = {.loop = &w->loop,
                                             .config = w->config,
                                             .host = &w->host,
                                             .learned = w->learned,
                                             .learned_path = w->learned_path,
                                             .intake = w->intake};
    must(captures_new(&captures, &w->captures, &err), &err);
    const struct jobs_config jobs = {.loop = &w->loop,
                                     .config = w->config,
                                     .host = &w->host,
                                     .learned = w->learned,
                                     .intake = w->intake,
                                     .ops = &captures_rank_ops,
                                     .ctx = w->captures};
    must(jobs_new(&jobs, &w->jobs, &err), &err);
    const struct outbox_config outbox = {.spool_dir = w->spool,
                                         .limits = config_spool_limits(w->config),
                                         .host = w->host.name,
                                         .boot_id = w->host.boot_id,
                                         .writer = "test",
                                         .ops = &captures_outbox_ops,
                                         .ctx = w->captures};
    must(outbox_start(&w->loop, &outbox, &w->outbox, &err), &err);
    must(captures_start(w->captures, w->jobs, w->outbox, &err), &err);
    const struct hook_server_config hooks = {.path = w->socket,
                                             .listen_fd = -1,
                                             .sessions_max = w->config->sessions_max,
                                             .sessions_per_uid = w->config->sessions_per_uid,
                                             .ops = &jobs_session_ops,
                                             .ctx = w->jobs};
    must(hook_server_start(&w->loop, &hooks, &w->hooks, &err), &err);
    w->is_up = true;
}

void world_down(struct world *w)
{
    if (!w->is_up)
        return;
    w->is_up = false;
    captures_stop(w->captures);
    w->hooks = hook_server_stop(w->hooks);
    jobs_set_outbox(w->jobs, NULL);
    w->outbox = outbox_stop(w->outbox);
    w->jobs = jobs_free(w->jobs);
    w->captures = captures_free(w->captures);
    for (int i = 0; i < 200 && uv_loop_alive(&w->loop); i++)
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    w->learned = learned_free(w->learned);
    w->config = config_free(w->config);
    w->ntold = 0;
}

struct world *world_free(struct world *w)
{
    struct kymo_err err = {0};
    world_down(w);
    must(kymo_file_remove_tree(w->dir, &err), &err);
    kymo_free(w);
    return NULL;
}

void world_reload(struct world *w, const char *settings)
{
    struct config *before = w->config;
    load(w, settings);
    captures_reconfigure(w->captures, w->config);
    jobs_reconfigure(w->jobs, w->config);
    (void)config_free(before);
}

static void on_timer(uv_timer_t *t)
{
    (void)t;
}

bool world_until(struct world *w, struct hook_client *c, world_holds *holds, unsigned ms)
{
    uint64_t deadline = kymo_clock_mono_ns() + ms * NS_PER_MS;
    uv_timer_t beat;
    bool yes = false;
    assert_int_equal(uv_timer_init(&w->loop, &beat), 0);
    assert_int_equal(uv_timer_start(&beat, on_timer, 2, 2), 0);
    do {
        (void)uv_run(&w->loop, UV_RUN_ONCE);
        if (c)
            hook_client_poll(c);
        yes = holds && holds(w, c);
    } while (!yes && kymo_clock_mono_ns() < deadline);
    uv_close((uv_handle_t *)&beat, NULL);
    (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    return yes;
}

void world_turn(struct world *w, struct hook_client *c, unsigned ms)
{
    (void)world_until(w, c, NULL, ms);
}

void world_watch(void *ctx, const char *capture_id, enum captures_state now, const char *text, bool last)
{
    struct world *w = ctx;
    assert_true(w->ntold < WORLD_TOLD);
    (void)snprintf(w->told[w->ntold].id, KYMO_HOOK_ID_MAX, "%s", capture_id);
    (void)snprintf(w->told[w->ntold].text, sizeof w->told[0].text, "%s", text);
    w->told[w->ntold].state = now;
    w->told[w->ntold++].last = last;
}

const char *world_text(const struct world *w, enum captures_state state)
{
    for (size_t i = w->ntold; i > 0; i--)
        if (w->told[i - 1].state == state)
            return w->told[i - 1].text;
    return NULL;
}

Kymo__Manifest__Capture *world_manifest(const struct world *w, const char *id)
{
    char path[512];
    uint8_t *data = NULL;
    size_t n;
    Kymo__Manifest__Capture *m = NULL;
    struct kymo_err err = {0};
    (void)snprintf(path, sizeof path, "%s/captures/%s/manifest.pb", w->spool, id);
    if (kymo_file_read_all(path, MANIFEST_BYTES_MAX, &data, &n, &err) < 0)
        return NULL;
    must(manifest_parse(data, n, &m, &err), &err);
    kymo_free(data);
    return m;
}

struct spool_status world_spool(const struct world *w)
{
    struct outbox_status *s = KYMO_NEW(struct outbox_status);
    outbox_get_status(w->outbox, s);
    struct spool_status spool = s->spool;
    kymo_free(s);
    return spool;
}

bool world_intake_is_empty(const struct world *w)
{
    DIR *dir = opendir(w->intake);
    const struct dirent *e;
    bool empty = true;
    while (dir && (e = readdir(dir)))
        empty = empty && e->d_name[0] == '.';
    if (dir)
        (void)closedir(dir);
    return empty;
}

static bool has_intake(const struct world *w, const struct hook_client *c)
{
    (void)w;
    return c->intake >= 0;
}

void world_join(struct world *w, struct hook_client *c)
{
    assert_true(hook_client_open(c, w->socket));
    hook_client_hello(c, 0);
    assert_true(world_until(w, c, has_intake, 2000));
    hook_client_state(c, KYMO_HOOK_RUN_READY);
    world_turn(w, c, 10);
}
