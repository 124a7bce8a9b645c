/*
 * kymod: the daemon of a host that trains. Puts the parts together, reloads them on SIGHUP, ends them in order on
 * SIGTERM and SIGINT. What is under way then stays on disk for the next kymod.
 */
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <uv.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/service.h"
#include "daemon/bus.h"
#include "daemon/captures.h"
#include "daemon/config.h"
#include "daemon/control.h"
#include "daemon/hook_server.h"
#include "daemon/host.h"
#include "daemon/intake.h"
#include "daemon/jobs.h"
#include "daemon/learned.h"
#include "daemon/metrics.h"
#include "daemon/metrics_http.h"
#include "daemon/outbox.h"
#include "daemon/own_cost.h"
#include "daemon/say.h"

#define SIGNALS 3
#define OUTBOX_STILL_MS (5u * 60 * 1000) /* it syncs captures of gigabytes to a disk that others use too */
#define TURNS_AT_END 200
#define WORKERS "16" /* some may hang in another process's memory (JOBS_READERS_MAX), others must go on */

struct kymod {
    uv_loop_t loop;
    int argc;
    char *const *argv;
    struct config *config;
    struct host host;
    char data[CONFIG_PATH_MAX + 1], spool[CONFIG_PATH_MAX + 16], intake[CONFIG_PATH_MAX + 16],
        learned_path[CONFIG_PATH_MAX + 16], socket_dir[CONFIG_PATH_MAX + 1];
    struct service *service;
    struct own_cost *cost;
    struct learned *learned;
    struct captures *captures;
    struct jobs *jobs;
    struct outbox *outbox;
    struct hook_server *hooks;
    struct control *control;
    struct bus *bus;
    struct metrics *metrics;
    struct metrics_http *metrics_http;
    struct say_limit say;
    uint64_t since_ns;
    uv_signal_t signals[SIGNALS];
    size_t nsignals;
};

/* What it costs */

static void count_cost(void *ctx, struct own_cost_sample *s)
{
    const struct kymod *k = ctx;
    struct captures_counts counts = {0};
    struct outbox_status *status KYMO_FREE = k->outbox ? KYMO_NEW(struct outbox_status) : NULL;
    if (k->captures)
        captures_get_counts(k->captures, &counts);
    s->taken_bytes = counts.bytes;
    if (!status)
        return;
    outbox_get_status(k->outbox, status);
    for (size_t i = 0; i < status->nlinks; i++)
        s->sent_bytes += status->links[i].sent_bytes;
}

static void say_rung(void *ctx, enum own_cost_rung now, const char *text)
{
    (void)ctx;
    kymo_log(now == OWN_COST_ALL ? KYMO_LOG_INFO : KYMO_LOG_WARNING, "%s: %s", own_cost_rung_name(now), text);
}

static const struct own_cost_ops cost_ops = {.count = count_cost, .changed = say_rung};

static struct own_cost_limits cost_limits(const struct config *c)
{
    return (struct own_cost_limits){
        .cpu_percent = c->cpu_percent, .disk_bytes_s = c->disk_bytes_s, .net_bytes_s = c->net_bytes_s};
}

/* Configuration */

static struct outbox_config outbox_config_of(struct kymod *k, const struct config *c)
{
    struct outbox_config o = {
        .spool_dir = k->spool,
        .limits = config_spool_limits(c),
        .tls = {.cert = c->tls_cert, .key = c->tls_key, .ca = c->tls_ca},
        .plain_anywhere = c->plain_anywhere,
        .zstd_level = (int)c->zstd_level,
        .rate_bytes_s = c->rate_bytes_s,
        .host = k->host.name,
        .boot_id = k->host.boot_id,
        .writer = "kymod " KYMO_VERSION,
        .ops = &captures_outbox_ops,
        .ctx = k->captures,
    };
    for (size_t i = 0; i < c->collectors.n && i < OUTBOX_COLLECTORS_MAX; i++)
        o.collectors[i] = c->collectors.items[i];
    return o;
}

static void use_config(struct kymod *k, struct config *c)
{
    struct config *before = k->config;
    struct own_cost_limits limits = cost_limits(c);
    char fixed[256];
    config_fixed_changes(before, c, fixed, sizeof fixed);
    if (*fixed)
        kymo_log(KYMO_LOG_WARNING, "reload: %s count only at start", fixed);
    k->config = c;
    own_cost_set_limits(k->cost, &limits);
    hook_server_set_limits(k->hooks, c->sessions_max, c->sessions_per_uid);
    captures_reconfigure(k->captures, c);
    jobs_reconfigure(k->jobs, c);
    (void)config_free(before);
}

static void reload(struct kymod *k)
{
    struct config *c = NULL;
    struct kymo_err err = {0};
    service_reloading(k->service);
    int r = config_load(k->argc, k->argv, &c, &err);
    if (r == KYMO_OPTIONS_PARSED) {
        struct outbox_config o = outbox_config_of(k, c);
        r = outbox_reconfigure(k->outbox, &o, &err);
    }
    if (r == KYMO_OPTIONS_PARSED) {
        use_config(k, c);
        kymo_log(KYMO_LOG_INFO, "configuration read again");
    } else {
        (void)config_free(c);
        kymo_log(KYMO_LOG_ERROR, "reload: %s; the old configuration stays in force", err.text);
    }
    service_ready(k->service, r == KYMO_OPTIONS_PARSED ? "running" : "running; the last reload failed");
}

static int choose_paths(struct kymod *k, struct kymo_err *err)
{
    const struct config *c = k->config;
    const char *dir = c->socket_dir ? c->socket_dir : getenv("KYMO_SOCKET");
    (void)snprintf(k->data, sizeof k->data, "%s", c->data_dir);
    (void)snprintf(k->spool, sizeof k->spool, "%s/spool", k->data);
    (void)snprintf(k->learned_path, sizeof k->learned_path, "%s/learned.tsv", k->data);
    if (c->intake_dir)
        (void)snprintf(k->intake, sizeof k->intake, "%s", c->intake_dir);
    else
        (void)snprintf(k->intake, sizeof k->intake, "%s/intake", k->data);
    dir = dir && *dir ? dir : KYMO_HOOK_SOCKET_DIR;
    if (strlen(dir) >= sizeof k->socket_dir)
        return kymo_err_set(err, -ENAMETOOLONG, "%.60s...: a socket's directory cannot be so long", dir);
    (void)snprintf(k->socket_dir, sizeof k->socket_dir, "%s", dir);
    int r = kymo_file_mkdirs(k->spool, err);
    if (r < 0)
        return r;
    /* Files in there keep the jobs' users and modes, and are nobody else's to read, nor any more theirs to write. */
    if (chmod(k->spool, 0700) < 0)
        return kymo_err_set(err, -errno, "%s: %s", k->spool, strerror(errno));
    return kymo_file_mkdirs(k->socket_dir, err);
}

/* Signals */

static void on_signal(uv_signal_t *h, int number)
{
    struct kymod *k = h->data;
    if (number == SIGHUP) {
        reload(k);
        return;
    }
    kymo_log(KYMO_LOG_INFO, "ending");
    uv_stop(&k->loop);
}

static int start_signals(struct kymod *k, struct kymo_err *err)
{
    static const int numbers[SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
    /* What kymod has no meaning for must not end it. */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGUSR1, SIG_IGN);
    (void)signal(SIGUSR2, SIG_IGN);
    for (size_t i = 0; i < SIGNALS; i++) {
        uv_signal_t *h = &k->signals[i];
        int r = uv_signal_init(&k->loop, h);
        if (r == 0) {
            k->nsignals++;
            h->data = k;
            r = uv_signal_start(h, on_signal, numbers[i]);
        }
        if (r < 0)
            return kymo_err_set(err, r, "signals: %s", uv_strerror(r));
    }
    return 0;
}

/* Start */

/* A descriptor or two for each process with a hook. */
static void raise_files(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
        l.rlim_cur = l.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &l);
    }
}

static int start_hooks(struct kymod *k, struct kymo_err *err)
{
    char path[CONFIG_PATH_MAX + 32];
    struct hook_server_config h = {.path = path,
                                   .listen_fd = -1,
                                   .sessions_max = k->config->sessions_max,
                                   .sessions_per_uid = k->config->sessions_per_uid,
                                   .ops = &jobs_session_ops,
                                   .ctx = k->jobs};
    (void)snprintf(path, sizeof path, "%s/%s", k->socket_dir, KYMO_HOOK_SOCKET_NAME);
    int r = service_take_socket(k->service, "hook", AF_UNIX, SOCK_SEQPACKET, &h.listen_fd, err);
    if (r == -ENOENT)
        h.listen_fd = -1;
    else if (r < 0)
        return r;
    return hook_server_start(&k->loop, &h, &k->hooks, err);
}

static void note_control(void *ctx, const char *text)
{
    struct kymod *k = ctx;
    say_limited(&k->say, KYMO_LOG_INFO, "%s", text);
}

/* An inherited socket has the group that its unit says. */
static int give_to_group(const char *path, const char *name, struct kymo_err *err)
{
    char buffer[4096];
    struct group g, *found = NULL;
    if (!name)
        return 0;
    if (getgrnam_r(name, &g, buffer, sizeof buffer, &found) != 0 || !found)
        return kymo_err_set(err, -ENOENT, "group %s: there is none", name);
    if (chown(path, (uid_t)-1, g.gr_gid) < 0)
        return kymo_err_set(err, -errno, "%s: group %s: %s", path, name, strerror(errno));
    return 0;
}

static uint64_t outbox_moves(void *ctx)
{
    return outbox_beats(ctx);
}

static struct status_sources sources_of(struct kymod *k)
{
    return (struct status_sources){.loop = &k->loop,
                                   .jobs = k->jobs,
                                   .captures = k->captures,
                                   .outbox = k->outbox,
                                   .cost = k->cost,
                                   .since_ns = k->since_ns};
}

static int write_metrics(void *ctx, struct kymo_buf *text, struct kymo_err *err)
{
    return metrics_write(((struct kymod *)ctx)->metrics, text, err);
}

static int start_metrics(struct kymod *k, struct kymo_err *err)
{
    const struct metrics_sources sources = {.status = sources_of(k), .hooks = k->hooks, .control = k->control};
    const struct metrics_http_config http = {.address = k->config->metrics, .write = write_metrics, .ctx = k};
    if (!strcmp(http.address, "0"))
        return 0;
    int r = metrics_new(&sources, &k->metrics, err);
    if (r == 0)
        r = metrics_http_start(&k->loop, &http, &k->metrics_http, err);
    if (r == 0)
        kymo_log(KYMO_LOG_INFO, "metrics at %s, port %d", http.address, metrics_http_port(k->metrics_http));
    if (r == 0 && !metrics_http_is_local(http.address))
        kymo_log(KYMO_LOG_WARNING, "metrics: whoever reaches %s reads them: there is no token", http.address);
    return r;
}

static int start_control(struct kymod *k, struct kymo_err *err)
{
    char path[CONFIG_PATH_MAX + 32];
    struct control_config c = {.path = path, .listen_fd = -1, .sources = sources_of(k), .note = note_control, .ctx = k};
    (void)snprintf(path, sizeof path, "%s/%s", k->socket_dir, CONTROL_SOCKET_NAME);
    int r = service_take_socket(k->service, "control", AF_UNIX, SOCK_STREAM, &c.listen_fd, err);
    if (r == -ENOENT)
        c.listen_fd = -1;
    else if (r < 0)
        return r;
    const bool made = c.listen_fd < 0;
    r = control_start(&k->loop, &c, &k->control, err);
    return r == 0 && made ? give_to_group(path, k->config->group, err) : r;
}

static void say_bus(void *ctx, const char *why)
{
    (void)ctx;
    kymo_log(KYMO_LOG_INFO, "D-Bus: %s", why ? why : "connected");
}

static int start_bus(struct kymod *k, struct kymo_err *err)
{
    const struct bus_config c = {.loop = &k->loop,
                                 .which = k->config->bus == CONFIG_BUS_SESSION ? BUS_SESSION : BUS_SYSTEM,
                                 .group = k->config->group,
                                 .jobs = k->jobs,
                                 .captures = k->captures,
                                 .outbox = k->outbox,
                                 .changed = say_bus,
                                 .ctx = k};
    return k->config->bus == CONFIG_BUS_OFF ? 0 : bus_new(&c, &k->bus, err);
}

static int start(struct kymod *k, struct kymo_err *err)
{
    const struct own_cost_limits limits = cost_limits(k->config);
    int r = choose_paths(k, err);
    if (r < 0 || (r = service_new(&k->loop, &k->service, err)) < 0 || (r = host_read(k->config, &k->host, err)) < 0 ||
        (r = learned_open(k->learned_path, &k->learned, err)) < 0 ||
        (r = own_cost_new(&k->loop, &limits, &cost_ops, k, &k->cost, err)) < 0)
        return r;
    const struct captures_config captures = {.loop = &k->loop,
                                             .config = k->config,
                                             .host = &k->host,
                                             .learned = k->learned,
                                             .learned_path = k->learned_path,
                                             .intake = k->intake,
                                             .cost = k->cost};
    r = captures_new(&captures, &k->captures, err);
    if (r < 0)
        return r;
    const struct jobs_config jobs = {.loop = &k->loop,
                                     .config = k->config,
                                     .host = &k->host,
                                     .learned = k->learned,
                                     .intake = k->intake,
                                     .ops = &captures_rank_ops,
                                     .ctx = k->captures};
    r = jobs_new(&jobs, &k->jobs, err);
    if (r < 0)
        return r;
    const struct outbox_config o = outbox_config_of(k, k->config);
    if ((r = outbox_start(&k->loop, &o, &k->outbox, err)) < 0 ||
        (r = service_watch(k->service, "outbox", OUTBOX_STILL_MS, outbox_moves, k->outbox, err)) < 0 ||
        (r = captures_start(k->captures, k->jobs, k->outbox, err)) < 0 || (r = start_hooks(k, err)) < 0 ||
        (r = start_control(k, err)) < 0 || (r = start_bus(k, err)) < 0 || (r = start_metrics(k, err)) < 0)
        return r;
    return start_signals(k, err);
}

/* End */

/* False: a worker hangs in another process or on a disk. */
static bool stop(struct kymod *k)
{
    service_stopping(k->service);
    k->bus = bus_close(k->bus);
    k->metrics_http = metrics_http_stop(k->metrics_http);
    k->control = control_stop(k->control);
    if (k->captures)
        captures_stop(k->captures);
    k->hooks = hook_server_stop(k->hooks);
    if (k->jobs)
        jobs_set_outbox(k->jobs, NULL);
    if (k->outbox)
        service_unwatch(k->service, k->outbox);
    k->outbox = outbox_stop(k->outbox);
    k->jobs = jobs_free(k->jobs);
    k->captures = captures_free(k->captures);
    k->metrics = metrics_free(k->metrics);
    k->cost = own_cost_free(k->cost);
    k->service = service_free(k->service);
    for (size_t i = 0; i < k->nsignals; i++)
        uv_close((uv_handle_t *)&k->signals[i], NULL);
    for (int i = 0; i < TURNS_AT_END && uv_loop_alive(&k->loop); i++)
        (void)uv_run(&k->loop, UV_RUN_NOWAIT);
    (void)uv_run(&k->loop, UV_RUN_NOWAIT);
    k->learned = learned_free(k->learned);
    k->config = config_free(k->config);
    return uv_loop_close(&k->loop) == 0;
}

int main(int argc, char **argv)
{
    static struct kymod k;
    struct kymo_err err = {0};
    int code = kymo_options_outcome(config_spec.options, config_load(argc, argv, &k.config, &err), &err);
    if (code >= 0)
        return code;
    kymo_log_init("kymod", k.config->verbose ? KYMO_LOG_DEBUG : KYMO_LOG_INFO);
    (void)setenv("UV_THREADPOOL_SIZE", WORKERS, 0);
    raise_files();
    k.since_ns = kymo_clock_mono_ns();
    k.argc = argc;
    k.argv = argv;
    if (uv_loop_init(&k.loop) < 0) {
        kymo_log(KYMO_LOG_ERROR, "no event loop");
        return 1;
    }
    code = start(&k, &err) < 0;
    if (code == 0) {
        kymo_log(KYMO_LOG_INFO, "%s on %s: hooks at %s, spool %s", KYMO_VERSION, k.host.name, k.socket_dir, k.spool);
        service_ready(k.service, "running");
        (void)uv_run(&k.loop, UV_RUN_DEFAULT);
    } else {
        kymo_log(KYMO_LOG_ERROR, "%s", err.text);
    }
    if (!stop(&k))
        _exit(code); /* at an ordinary end libuv would wait for the worker */
    return code;
}
