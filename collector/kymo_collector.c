/*
 * kymo-collector: receives captures of daemons over the uplink, keeps them, makes profiles of them. The loop's thread
 * talks to the network, the store's thread (store_thread.h) to the disk and to children.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/service.h"
#include "base/sibling.h"
#include "collector/collector_config.h"
#include "collector/entering.h"
#include "collector/receiver.h"
#include "collector/view.h"
#include "collector/web.h"

#define STOP_MS 20000 /* a disk that hangs does not keep the program from ending; it may be killed at any point */
#define STORE_STILL_MS                                                                                                 \
    300000 /* a disk may be slow; behind a thread that stands still for longer, watchdogs are not fed */

struct collector {
    uv_loop_t loop;
    struct net *net;
    int argc;
    char **argv;
    struct collector_settings *settings;
    struct service *service;
    char host[256];
    char process_program[PATH_MAX], gather_program[PATH_MAX];
    struct tls_context *tls;
    struct intakes *intakes;
    struct store_thread *store;
    struct receiver *receiver;
    struct web *web; /* NULL: none */
    uv_signal_t signals[3];
    uv_timer_t deadline;
    bool stopping;
};

static void say(void *ctx, int level, const char *text)
{
    (void)ctx;
    kymo_log((enum kymo_log_level)level, "%s", text);
}

static void on_tick(void *ctx, struct store_thread *t)
{
    struct collector *c = ctx;
    intakes_tick(c->intakes, t);
}

static void on_changed(void *ctx, const struct catalog_profile *p)
{
    struct collector *c = ctx;
    if (p->state == CATALOG_PROCESSING)
        return;
    if (c->web)
        web_profile_changed(c->web, p);
    if (p->state == CATALOG_READY && c->receiver)
        receiver_profile_ready(c->receiver, p->name);
    kymo_log(p->state == CATALOG_FAILED ? KYMO_LOG_WARNING : KYMO_LOG_INFO, "profile %s is %s%s%s", p->name,
             catalog_state_name(p->state), *p->reason ? ": " : "", p->reason);
}

static void on_trouble(void *ctx, const char *text)
{
    struct collector *c = ctx;
    if (c->web)
        web_trouble(c->web, text);
    kymo_log(text ? KYMO_LOG_ERROR : KYMO_LOG_INFO, "work queue: %s", text ? text : "goes on");
}

static void close_handle(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (!uv_is_closing(h))
        uv_close(h, NULL);
}

/* Everything is quiet: what is left are our own handles. */
static void on_store_ended(void *ctx)
{
    struct collector *c = ctx;
    if (c->stopping)
        uv_stop(&c->loop);
}

static void on_receiver_idle(void *ctx)
{
    struct collector *c = ctx;
    store_thread_stop(c->store);
}

static void on_deadline(uv_timer_t *timer)
{
    (void)timer;
    kymo_log(KYMO_LOG_ERROR, "the disk does not answer; leaving, and what was under way is taken up at the next start");
    _exit(1);
}

static void begin_stop(struct collector *c)
{
    if (c->stopping)
        return;
    c->stopping = true;
    kymo_log(KYMO_LOG_INFO, "stopping");
    service_stopping(c->service);
    (void)uv_timer_start(&c->deadline, on_deadline, STOP_MS, 0);
    if (c->web)
        web_close(c->web);
    receiver_stop(c->receiver);
}

static int open_tls(const struct collector_config *v, struct tls_context **ret, struct kymo_err *err)
{
    const struct tls_files files = {.cert = v->tls_cert, .key = v->tls_key, .ca = v->tls_ca};
    return v->tls_cert ? tls_context_new(TLS_SERVER, &files, ret, err) : 0;
}

/* New settings on their way to the work queue; the old ones go when it has let go of them. */
struct reload_job {
    struct store_job job; /* first */
    struct collector *collector;
    struct collector_settings *settings, *old;
};

/* A build without DuckDB has none: then nothing is put together. */
static const char *gather_program(const struct collector *c)
{
    return access(c->gather_program, X_OK) == 0 ? c->gather_program : NULL;
}

static bool reload_run(struct store_job *job, struct store_thread *t)
{
    const struct reload_job *j = (const struct reload_job *)job;
    struct kymo_err err = {0};
    const struct work_queue_config w =
        collector_settings_work(j->settings, j->collector->process_program, gather_program(j->collector));
    if (store_thread_work(t) && work_queue_configure(store_thread_work(t), &w, &err) < 0)
        kymo_log(KYMO_LOG_ERROR, "reload: %s", err.text);
    const struct incoming_limits limits = collector_settings_incoming(j->settings);
    intakes_limit(j->collector->intakes, &limits, t);
    store_thread_wake_work(t);
    return true;
}

static void reload_done(struct store_job *job)
{
    struct reload_job *j = (struct reload_job *)job;
    struct collector *c = j->collector;
    collector_settings_free(j->old);
    kymo_free(j);
    if (!c->stopping)
        service_ready(c->service, "receiving");
    kymo_log(KYMO_LOG_INFO, "settings are read again");
}

static void say_unchanged(void *ctx, const char *key)
{
    (void)ctx;
    kymo_log(KYMO_LOG_WARNING, "reload: %s changes at the next start", key);
}

struct loaded {
    struct collector_settings *settings;
    struct tls_context *tls;
    struct web_secrets *secrets;
    struct reload_job *job;
};

/* All that can fail comes first: either the new settings hold, or the old ones. */
static int load_again(struct collector *c, struct loaded *l, struct kymo_err *err)
{
    int r = collector_settings_load(c->argc, c->argv, &l->settings, err);
    if (r < 0)
        return r;
    if (c->tls && !l->settings->values.tls_cert)
        return kymo_err_set(err, -EINVAL, "TLS cannot be given up while running");
    r = c->tls ? open_tls(&l->settings->values, &l->tls, err) : 0;
    if (r == 0 && c->web)
        r = web_secrets_read(c->web, l->settings, &l->secrets, err);
    if (r < 0)
        return r;
    l->job = KYMO_NEW(struct reload_job);
    return l->job ? 0 : kymo_err_set(err, -ENOMEM, "no memory for new settings");
}

static void reload(struct collector *c)
{
    struct loaded l = {0};
    struct kymo_err err = {0};
    service_reloading(c->service);
    if (load_again(c, &l, &err) < 0) {
        kymo_log(KYMO_LOG_ERROR, "reload: %s; the former settings stay", err.text);
        collector_settings_free(l.settings);
        tls_context_free(l.tls);
        web_secrets_free(l.secrets);
        service_ready(c->service, "receiving; the last reload has failed");
        return;
    }
    collector_settings_compare(c->settings, l.settings, say_unchanged, c);
    kymo_log_init("kymo-collector", (enum kymo_log_level)l.settings->values.log_level);
    if (l.tls) {
        receiver_set_tls(c->receiver, l.tls);
        tls_context_free(c->tls);
        c->tls = l.tls;
    }
    if (l.secrets)
        web_secrets_take(c->web, l.secrets);
    *l.job = (struct reload_job){
        .job = {.run = reload_run, .done = reload_done}, .collector = c, .settings = l.settings, .old = c->settings};
    c->settings = l.settings;
    store_thread_post(c->store, &l.job->job);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct collector *c = handle->data;
    if (number == SIGHUP && !c->stopping)
        reload(c);
    else if (number != SIGHUP)
        begin_stop(c);
}

static int open_store(struct collector *c, struct kymo_err *err)
{
    const struct intakes_config ic = {
        .ops = &receiver_intake_ops,
        .limits = collector_settings_incoming(c->settings),
        .say = say,
    };
    int r = sibling_path("kymo-process", c->process_program, err);
    if (r == 0)
        r = sibling_path("kymo-gather", c->gather_program, err);
    if (r == 0)
        r = intakes_new(&ic, &c->intakes, err);
    const struct store_thread_config sc = {
        .loop = &c->loop,
        .data_path = c->settings->values.data_path,
        .reserve = c->settings->values.reserve,
        .work = collector_settings_work(c->settings, c->process_program, gather_program(c)),
        .no_work = c->settings->values.no_work,
        .tick = on_tick,
        .changed = on_changed,
        .trouble = on_trouble,
        .ended = on_store_ended,
        .ctx = c,
    };
    if (r == 0)
        r = store_thread_new(&sc, &c->store, err);
    if (r < 0)
        return r;
    intakes_set_thread(c->intakes, c->store);
    unsigned damaged = store_thread_store(c->store)->set_aside; /* does not change any more */
    if (damaged)
        kymo_log(KYMO_LOG_ERROR, "%u uploads were damaged before they were in the store; what there is lies in %s/%s",
                 damaged, sc.data_path, ENTERING_DAMAGED);
    return 0;
}

static int open_receiver(struct collector *c, struct kymo_err *err)
{
    int socket = -1;
    int r = service_take_socket(c->service, "uplink", AF_UNSPEC, SOCK_STREAM, &socket, err);
    if (r < 0 && r != -ENOENT)
        return r;
    const struct receiver_config rc = {
        .net = c->net,
        .loop = &c->loop,
        .adopt = socket >= 0,
        .socket = socket,
        .address = c->settings->values.listen,
        .tls = c->tls,
        .plain_anywhere = c->settings->values.plain,
        .max_connections = (unsigned)c->settings->values.max_connections,
        .max_per_host = (unsigned)c->settings->values.max_per_host,
        .window = (uint32_t)c->settings->values.window,
        .max_bytes = c->settings->values.max_waiting,
        .host = c->host,
        .store = c->store,
        .intakes = c->intakes,
        .say = say,
        .idle = on_receiver_idle,
        .ctx = c,
    };
    r = receiver_new(&rc, &c->receiver, err);
    if (r < 0 && (r == -EPERM || r == -EINVAL))
        kymo_file_close(socket);
    return r;
}

static uint64_t store_beats(void *ctx)
{
    return store_thread_beats(ctx);
}

static void say_ready(struct collector *c)
{
    const char *name = service_untaken(c->service);
    if (name)
        kymo_log(KYMO_LOG_WARNING, "there is no use for the inherited socket %s", name);
    service_ready(c->service, "receiving");
}

static int open_web(struct collector *c, struct kymo_err *err)
{
    if (strcmp(c->settings->values.http, "off") == 0)
        return 0;
    return web_new(&c->loop, c->net, c->settings, c->receiver, c->store, &c->web, err);
}

/* Scripts that asked for any free port learn here which it became. */
static int tell_ports(const struct collector *c, struct kymo_err *err)
{
    char text[64];
    const char *path = c->settings->values.ports_file;
    int uplink = receiver_port(c->receiver), http = c->web ? web_port(c->web) : 0;
    int n = snprintf(text, sizeof text, "uplink=%d\nhttp=%d\n", uplink, http);
    /* Who has read the line finds the file. */
    int r = path ? kymo_file_write_atomic(path, text, (size_t)n, err) : 0;
    if (r < 0)
        return r;
    printf("kymo-collector: ready, uplink port %d, HTTP port %d\n", uplink, http);
    if (fflush(stdout) != 0)
        kymo_log(KYMO_LOG_WARNING, "cannot write to stdout: %s", strerror(errno));
    return 0;
}

static int watch_signals(struct collector *c, struct kymo_err *err)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    (void)uv_timer_init(&c->loop, &c->deadline);
    /* What the collector has no meaning for must not end it. */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGUSR1, SIG_IGN);
    (void)signal(SIGUSR2, SIG_IGN);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        (void)uv_signal_init(&c->loop, &c->signals[i]);
        c->signals[i].data = c;
        int r = uv_signal_start(&c->signals[i], on_signal, numbers[i]);
        if (r < 0)
            return kymo_err_set(err, r, "cannot handle signals: %s", uv_strerror(r));
    }
    return 0;
}

/* Each daemon takes a descriptor, and each of its captures some. */
static void raise_descriptors(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur == l.rlim_max)
        return;
    l.rlim_cur = l.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &l) < 0)
        kymo_log(KYMO_LOG_WARNING, "cannot raise the limit on descriptors: %s", strerror(errno));
}

static int open_all(struct collector *c, struct kymo_err *err)
{
    raise_descriptors();
    if (gethostname(c->host, sizeof c->host - 1) < 0)
        c->host[0] = '\0';
    int r = open_tls(&c->settings->values, &c->tls, err);
    if (r == 0)
        r = net_new(&c->loop, &c->net, err);
    if (r == 0)
        r = watch_signals(c, err);
    /* Before there are threads: it changes the environment. */
    if (r == 0)
        r = service_new(&c->loop, &c->service, err);
    if (r == 0)
        r = open_store(c, err);
    if (r == 0)
        r = service_watch(c->service, "store", STORE_STILL_MS, store_beats, c->store, err);
    if (r == 0)
        r = open_receiver(c, err);
    if (r == 0)
        r = open_web(c, err);
    if (r == 0)
        r = tell_ports(c, err);
    if (r == 0)
        say_ready(c);
    return r;
}

static void close_all(struct collector *c)
{
    if (c->store)
        service_unwatch(c->service, c->store);
    if (c->web && !c->stopping)
        web_close(c->web);
    if (c->receiver && !c->stopping)
        receiver_stop(c->receiver);
    store_thread_free(c->store);
    web_free(c->web);
    receiver_free(c->receiver);
    service_free(c->service);
    net_free(c->net);
    (void)uv_run(&c->loop, UV_RUN_NOWAIT);
    uv_walk(&c->loop, close_handle, NULL);
    (void)uv_run(&c->loop, UV_RUN_DEFAULT);
    intakes_free(c->intakes);
    tls_context_free(c->tls);
    collector_settings_free(c->settings);
}

static int run(struct collector *c)
{
    struct kymo_err err = {0};
    int r = uv_loop_init(&c->loop);
    if (r < 0) {
        kymo_log(KYMO_LOG_ERROR, "no event loop: %s", uv_strerror(r));
        return 1;
    }
    r = open_all(c, &err);
    if (r < 0)
        kymo_log(KYMO_LOG_ERROR, "%s", err.text);
    else
        (void)uv_run(&c->loop, UV_RUN_DEFAULT);
    close_all(c);
    (void)uv_loop_close(&c->loop);
    return r < 0;
}

int main(int argc, char **argv)
{
    static struct collector c;
    if (argc > 1 && !strcmp(argv[1], "view"))
        return view_main(argc - 1, argv + 1);
    c.argc = argc;
    c.argv = argv;
    int code = collector_settings_main(argc, argv, &c.settings);
    if (code >= 0)
        return code;
    kymo_log_init("kymo-collector", (enum kymo_log_level)c.settings->values.log_level);
    return run(&c);
}
