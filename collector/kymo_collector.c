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
#include "base/ini.h"
#include "base/log.h"
#include "base/sibling.h"
#include "collector/collector_config.h"
#include "collector/receiver.h"

#define STOP_MS 10000 /* a disk that hangs does not keep the program from ending; it may be killed at any point */
#define FILE_SIZE_MAX ((uint64_t)1 << 40)
#define DESCRIPTORS 1024

struct collector {
    uv_loop_t loop;
    struct net *net;
    int argc;
    char **argv;
    struct collector_config config;
    struct kymo_ini *ini; /* texts of config */
    char host[256];
    char process_program[PATH_MAX];
    struct external external;
    struct tls_context *tls;
    struct intakes *intakes;
    struct store_thread *store;
    struct receiver *receiver;
    uv_signal_t signals[3];
    uv_timer_t deadline;
    bool stopping;
};

static const struct kymo_ini_spec ini_spec = {.options = &collector_options};

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
    if (p->state == CATALOG_READY && c->receiver)
        receiver_profile_ready(c->receiver, p->name);
    kymo_log(p->state == CATALOG_FAILED ? KYMO_LOG_WARNING : KYMO_LOG_INFO, "profile %s is %s%s%s", p->name,
             catalog_state_name(p->state), *p->reason ? ": " : "", p->reason);
}

static void on_trouble(void *ctx, const char *text)
{
    (void)ctx;
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
    (void)uv_timer_start(&c->deadline, on_deadline, STOP_MS, 0);
    receiver_stop(c->receiver);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct collector *c = handle->data;
    if (number == SIGTERM || number == SIGINT)
        begin_stop(c);
}

static int open_tls(const struct collector_config *config, struct tls_context **ret, struct kymo_err *err)
{
    const struct tls_files files = {.cert = config->tls_cert, .key = config->tls_key, .ca = config->tls_ca};
    return config->tls_cert ? tls_context_new(TLS_SERVER, &files, ret, err) : 0;
}

static struct work_queue_config work_config(struct collector *c)
{
    const struct collector_config *o = &c->config;
    c->external = (struct external){
        .command = o->processor,
        .schema_version = o->processor_schema,
        .limits = {.memory = o->processor_memory,
                   .file_size = FILE_SIZE_MAX,
                   .wall_ms = 1000 * o->processor_time_s,
                   .descriptors = DESCRIPTORS},
    };
    return (struct work_queue_config){
        .process_program = c->process_program,
        .limits = {.memory = o->memory,
                   .file_size = FILE_SIZE_MAX,
                   .cpu_s = o->time_limit_s,
                   .wall_ms = 1000 * o->time_limit_s,
                   .descriptors = DESCRIPTORS},
        .external = o->processor ? &c->external : NULL,
        .children = (unsigned)o->jobs,
        .retry_ms = 1000 * o->retry_s,
    };
}

static int open_store(struct collector *c, struct kymo_err *err)
{
    const struct intakes_config ic = {.ops = &receiver_intake_ops};
    int r = sibling_path("kymo-process", c->process_program, err);
    if (r == 0)
        r = intakes_new(&ic, &c->intakes, err);
    const struct store_thread_config sc = {
        .loop = &c->loop,
        .data_path = c->config.data_path,
        .reserve = c->config.reserve,
        .work = work_config(c),
        .no_work = c->config.no_work,
        .tick = on_tick,
        .changed = on_changed,
        .trouble = on_trouble,
        .ended = on_store_ended,
        .ctx = c,
    };
    if (r == 0)
        r = store_thread_new(&sc, &c->store, err);
    if (r == 0)
        intakes_set_thread(c->intakes, c->store);
    return r;
}

static int open_receiver(struct collector *c, struct kymo_err *err)
{
    const struct receiver_config rc = {
        .net = c->net,
        .loop = &c->loop,
        .address = c->config.listen,
        .tls = c->tls,
        .plain_anywhere = c->config.plain,
        .max_connections = (unsigned)c->config.max_connections,
        .max_per_host = (unsigned)c->config.max_per_host,
        .window = (uint32_t)c->config.window,
        .max_bytes = c->config.max_waiting,
        .host = c->host,
        .store = c->store,
        .intakes = c->intakes,
        .say = say,
        .idle = on_receiver_idle,
        .ctx = c,
    };
    return receiver_new(&rc, &c->receiver, err);
}

/* Scripts that asked for any free port learn here which it became. */
static int tell_ports(const struct collector *c, struct kymo_err *err)
{
    char text[64];
    int n = snprintf(text, sizeof text, "uplink=%d\n", receiver_port(c->receiver));
    printf("kymo-collector: ready, uplink port %d\n", receiver_port(c->receiver));
    if (fflush(stdout) != 0)
        kymo_log(KYMO_LOG_WARNING, "cannot write to stdout: %s", strerror(errno));
    return c->config.ports_file ? kymo_file_write_atomic(c->config.ports_file, text, (size_t)n, err) : 0;
}

static int watch_signals(struct collector *c, struct kymo_err *err)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    (void)uv_timer_init(&c->loop, &c->deadline);
    (void)signal(SIGPIPE, SIG_IGN);
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
    int r = open_tls(&c->config, &c->tls, err);
    if (r == 0)
        r = net_new(&c->loop, &c->net, err);
    if (r == 0)
        r = watch_signals(c, err);
    if (r == 0)
        r = open_store(c, err);
    if (r == 0)
        r = open_receiver(c, err);
    return r < 0 ? r : tell_ports(c, err);
}

static void close_all(struct collector *c)
{
    store_thread_free(c->store);
    receiver_free(c->receiver);
    net_free(c->net);
    (void)uv_run(&c->loop, UV_RUN_NOWAIT);
    uv_walk(&c->loop, close_handle, NULL);
    (void)uv_run(&c->loop, UV_RUN_DEFAULT);
    intakes_free(c->intakes);
    tls_context_free(c->tls);
    kymo_ini_free(c->ini);
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
    struct kymo_err err = {0};
    c.argc = argc;
    c.argv = argv;
    int code = kymo_ini_main(&ini_spec, argc, argv, &c.config, &c.ini);
    if (code >= 0)
        return code;
    kymo_log_init("kymo-collector", (enum kymo_log_level)c.config.log_level);
    if (collector_config_check(&c.config, &err) < 0) {
        kymo_log(KYMO_LOG_ERROR, "%s; see kymo-collector --help", err.text);
        kymo_ini_free(c.ini);
        return 2;
    }
    return run(&c);
}
