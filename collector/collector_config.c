#include "collector/collector_config.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/net.h"
#include "collector/fleet_store.h"

#define FILE_SIZE_MAX ((uint64_t)1 << 40)
#define DESCRIPTORS 1024

#define AT(field) .offset = offsetof(struct collector_config, field)

static int check_address(const char *text, struct kymo_err *err)
{
    struct net_address a;
    return net_address_parse(text, &a, err);
}

static int check_http(const char *text, struct kymo_err *err)
{
    return strcmp(text, "off") != 0 ? check_address(text, err) : 0;
}

static int check_processor(const char *text, struct kymo_err *err)
{
    return external_check(&(struct external){.command = text}, err);
}

static const struct kymo_option rows[] = {
    {.name = "config",
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     AT(config),
     .help = "configuration file; see collector/CONFIG.md"},
    {.name = "data-path",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     AT(data_path),
     .help = "the store: captures, catalogue, profiles"},
    {.name = "listen",
     .type = KYMO_OPTION_TEXT,
     .arg = "ADDR",
     .def = "127.0.0.1:3002",
     .check = check_address,
     AT(listen),
     .help = "numeric address and port for daemons; port 0: any free one"},
    {.name = "tls-cert",
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     AT(tls_cert),
     .help = "our certificate with its chain"},
    {.name = "tls-key", .type = KYMO_OPTION_TEXT, .arg = "FILE", AT(tls_key), .help = "its key"},
    {.name = "tls-ca",
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     AT(tls_ca),
     .help = "who signs the certificates of daemons"},
    {.name = "plain",
     .type = KYMO_OPTION_FLAG,
     AT(plain),
     .help = "without TLS on addresses other than loopback too: anybody who reaches it may send"},
    {.name = "http",
     .type = KYMO_OPTION_TEXT,
     .arg = "ADDR",
     .def = "127.0.0.1:3001",
     .check = check_http,
     AT(http),
     .help = "numeric address and port for the HTTP API; \"off\": none"},
    {.name = "http-cert",
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     AT(http_cert),
     .help = "certificate with its chain, for HTTPS"},
    {.name = "http-key", .type = KYMO_OPTION_TEXT, .arg = "FILE", AT(http_key), .help = "its key"},
    {.name = "http-token-file",
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     AT(http_token_file),
     .help = "the token that clients must bring; needed on addresses other than loopback"},
    {.name = "http-plain",
     .type = KYMO_OPTION_FLAG,
     AT(http_plain),
     .help = "HTTP without TLS on addresses other than loopback too: tokens can be overheard"},
    {.name = "http-name",
     .type = KYMO_OPTION_LIST,
     .arg = "HOST",
     AT(http_names),
     .help = "a name by which browsers may reach it"},
    {.name = "framework-source-root",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     AT(framework_root),
     .help = "source files of models, which whoever may see profiles may read"},
    {.name = "nki-source-root",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     AT(nki_root),
     .help = "source files of NKI kernels, likewise"},
    {.name = "upload-max",
     .type = KYMO_OPTION_SIZE,
     .arg = "BYTES",
     .def = "64G",
     AT(upload_max),
     .help = "of files that users of the page upload at a time; 0: none are taken"},
    {.name = "upload-idle",
     .type = KYMO_OPTION_U64,
     .arg = "SECONDS",
     .def = "120",
     .min = 1,
     .max = 86400,
     AT(upload_idle_s),
     .help = "until an upload is removed that nobody goes on with"},
    {.name = "max-connections",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .def = "4096",
     .min = 1,
     .max = 65536,
     AT(max_connections),
     .help = "daemons at a time"},
    {.name = "max-per-host",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .def = "16",
     .min = 1,
     .max = 65536,
     AT(max_per_host),
     .help = "connections with one certificate's name"},
    {.name = "window",
     .type = KYMO_OPTION_SIZE,
     .arg = "BYTES",
     .def = "4M",
     .min = 65536,
     .max = 1u << 30,
     AT(window),
     .help = "that one daemon may send ahead of the disk"},
    {.name = "max-waiting",
     .type = KYMO_OPTION_SIZE,
     .arg = "BYTES",
     .def = "256M",
     .min = 1u << 20,
     AT(max_waiting),
     .help = "that wait in memory for the disk, of all daemons; beyond it nothing is read"},
    {.name = "reserve",
     .type = KYMO_OPTION_SIZE,
     .arg = "BYTES",
     .def = "64M",
     AT(reserve),
     .help = "of the disk, kept from received data"},
    {.name = "incoming-max-age",
     .type = KYMO_OPTION_U64,
     .arg = "SECONDS",
     .def = "604800",
     .max = 1u << 30,
     AT(incoming_max_age_s),
     .help = "until a capture is forgotten that came in part and that nobody goes on with; 0: never"},
    {.name = "incoming-max",
     .type = KYMO_OPTION_SIZE,
     .arg = "BYTES",
     .def = "256G",
     AT(incoming_max),
     .help = "of captures that are not complete; 0: no limit"},
    {.name = "incoming-max-per-host",
     .type = KYMO_OPTION_SIZE,
     .arg = "BYTES",
     .def = "128G",
     AT(incoming_max_per_host),
     .help = "the same, of one host; 0: no limit"},
    {.name = "jobs",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .def = "1",
     .min = 1,
     .max = WORK_QUEUE_CHILDREN_MAX,
     AT(jobs),
     .help = "profiles that are made at a time"},
    {.name = "memory",
     .type = KYMO_OPTION_SIZE,
     .arg = "BYTES",
     .def = "4G",
     AT(memory),
     .help = "of address space for one kymo-process; 0: no limit"},
    {.name = "time-limit",
     .type = KYMO_OPTION_U64,
     .arg = "SECONDS",
     .def = "3600",
     .max = 1u << 30,
     AT(time_limit_s),
     .help = "for one kymo-process; 0: none"},
    {.name = "retry",
     .type = KYMO_OPTION_U64,
     .arg = "SECONDS",
     .def = "30",
     .min = 1,
     .max = 86400,
     AT(retry_s),
     .help = "until a profile that found no room, or was killed, is tried again"},
    {.name = "cluster",
     .type = KYMO_OPTION_TEXT,
     .arg = "NAME",
     .def = "default",
     .check = fleet_store_check_cluster,
     AT(cluster),
     .help = "what this collector's rows are under in the fleet's tables"},
    {.name = "gather-settle",
     .type = KYMO_OPTION_U64,
     .arg = "SECONDS",
     .def = "30",
     .max = 86400,
     AT(gather_settle_s),
     .help = "nothing has come of a request for so long: its profiles are put together"},
    {.name = "gather-limit",
     .type = KYMO_OPTION_U64,
     .arg = "SECONDS",
     .def = "900",
     .min = 1,
     .max = 1u << 30,
     AT(gather_limit_s),
     .help = "after so long they are even though some are missing"},
    {.name = "no-work", .type = KYMO_OPTION_FLAG, AT(no_work), .help = "receives only: profiles wait"},
    {.name = "processor",
     .type = KYMO_OPTION_TEXT,
     .arg = "COMMAND",
     .check = check_processor,
     AT(processor),
     .help = "for captures that kymo cannot decode; see collector/EXTERNAL.md"},
    {.name = "processor-schema",
     .type = KYMO_OPTION_TEXT,
     .arg = "VERSION",
     AT(processor_schema),
     .help = "schema version of its tables, unless it says its own"},
    {.name = "processor-memory",
     .type = KYMO_OPTION_SIZE,
     .arg = "BYTES",
     .def = "16G",
     AT(processor_memory),
     .help = "of address space for it; 0: no limit"},
    {.name = "processor-time",
     .type = KYMO_OPTION_U64,
     .arg = "SECONDS",
     .def = "3600",
     .max = 1u << 30,
     AT(processor_time_s),
     .help = "for it; 0: none"},
    {.name = "log",
     .type = KYMO_OPTION_CHOICE,
     .choices = "error|warning|info|debug",
     .def = "info",
     AT(log_level),
     .help = "what is said on stderr"},
    {.name = "ports-file",
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     AT(ports_file),
     .help = "write the ports there once all is ready, as NAME=PORT lines"},
    {0},
};

static const struct kymo_options options = {
    .program = "kymo-collector",
    .about = "Receives captures of daemons, keeps them, and makes profiles of them. Every option is a key of the\n"
             "configuration file too. One line on stdout names the ports once all is ready.\n"
             "SIGTERM and SIGINT stop it, SIGHUP reads the file and the certificates again.",
    .rows = rows,
};

const struct kymo_ini_spec collector_ini = {.options = &options};

/* What one value alone cannot say. */
static int check(const struct collector_config *c, struct kymo_err *err)
{
    if (!c->data_path || !*c->data_path)
        return kymo_err_set(err, -EINVAL, "data-path is needed: where the store is or will be");
    int tls = !!c->tls_cert + !!c->tls_key + !!c->tls_ca;
    if (tls != 0 && tls != 3)
        return kymo_err_set(err, -EINVAL, "tls-cert, tls-key and tls-ca go together: %s is missing",
                            !c->tls_cert  ? "tls-cert"
                            : !c->tls_key ? "tls-key"
                                          : "tls-ca");
    if (!c->http_cert != !c->http_key)
        return kymo_err_set(err, -EINVAL, "http-cert and http-key go together");
    if (c->http_cert && c->http_plain)
        return kymo_err_set(err, -EINVAL, "http-plain contradicts http-cert");
    if (tls && c->plain)
        return kymo_err_set(err, -EINVAL, "plain contradicts tls-cert");
    return 0;
}

struct collector_settings *collector_settings_free(struct collector_settings *s)
{
    if (s)
        kymo_ini_free(s->ini);
    kymo_free(s);
    return NULL;
}

static void settings_freep(struct collector_settings **s)
{
    collector_settings_free(*s);
}

static int finish(struct collector_settings *s, struct kymo_err *err)
{
    const struct collector_config *v = &s->values;
    s->external = (struct external){
        .command = v->processor,
        .schema_version = v->processor_schema,
        .limits = {.memory = v->processor_memory,
                   .file_size = FILE_SIZE_MAX,
                   .wall_ms = 1000 * v->processor_time_s,
                   .descriptors = DESCRIPTORS},
    };
    return check(v, err);
}

int collector_settings_load(int argc, char *const *argv, struct collector_settings **ret, struct kymo_err *err)
{
    struct collector_settings *s KYMO_CLEANUP(settings_freep) = KYMO_NEW(struct collector_settings);
    if (!s)
        return kymo_err_set(err, -ENOMEM, "no memory for settings");
    int r = kymo_ini_load(&collector_ini, argc, argv, &s->values, &s->ini, err);
    if (r != KYMO_OPTIONS_PARSED)
        return r;
    r = finish(s, err);
    if (r == 0)
        *ret = KYMO_TAKE(s);
    return r < 0 ? r : KYMO_OPTIONS_PARSED;
}

int collector_settings_main(int argc, char *const *argv, struct collector_settings **ret)
{
    struct kymo_err err = {0};
    struct collector_settings *s KYMO_CLEANUP(settings_freep) = KYMO_NEW(struct collector_settings);
    if (!s)
        return 1;
    int code = kymo_ini_main(&collector_ini, argc, argv, &s->values, &s->ini);
    if (code >= 0)
        return code;
    if (finish(s, &err) < 0) {
        (void)fprintf(stderr, "kymo-collector: %s; see kymo-collector --help\n", err.text);
        return 2;
    }
    *ret = KYMO_TAKE(s);
    return -1;
}

struct work_queue_config collector_settings_work(const struct collector_settings *s, const char *process,
                                                 const char *gather)
{
    const struct collector_config *v = &s->values;
    return (struct work_queue_config){
        .process_program = process,
        .gather_program = gather,
        .cluster = v->cluster,
        .gather_settle_ms = 1000 * v->gather_settle_s,
        .gather_limit_ms = 1000 * v->gather_limit_s,
        .limits = {.memory = v->memory,
                   .file_size = FILE_SIZE_MAX,
                   .cpu_s = v->time_limit_s,
                   .wall_ms = 1000 * v->time_limit_s,
                   .descriptors = DESCRIPTORS},
        .external = v->processor ? &s->external : NULL,
        .children = (unsigned)v->jobs,
        .retry_ms = 1000 * v->retry_s,
    };
}

struct incoming_limits collector_settings_incoming(const struct collector_settings *s)
{
    const struct collector_config *v = &s->values;
    return (struct incoming_limits){.max_age_ms = 1000 * v->incoming_max_age_s,
                                    .max_bytes = v->incoming_max,
                                    .max_host_bytes = v->incoming_max_per_host};
}

bool collector_reloads(const char *key)
{
    static const char *const keys[] = {
        "tls-cert",
        "tls-key",
        "tls-ca",
        "jobs",
        "memory",
        "time-limit",
        "retry",
        "cluster",
        "gather-settle",
        "gather-limit",
        "processor",
        "processor-schema",
        "processor-memory",
        "processor-time",
        "log",
        "incoming-max-age",
        "incoming-max",
        "incoming-max-per-host",
        "http-cert",
        "http-key",
        "http-token-file",
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_list(const struct kymo_option_list *a, const struct kymo_option_list *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!same_text(a->items[i], b->items[i]))
            return false;
    return true;
}

static bool same(const struct kymo_option *row, const void *a, const void *b)
{
    const char *x = (const char *)a + row->offset, *y = (const char *)b + row->offset;
    switch (row->type) {
    case KYMO_OPTION_FLAG:
        return *(const bool *)x == *(const bool *)y;
    case KYMO_OPTION_TEXT:
        return same_text(*(const char *const *)(const void *)x, *(const char *const *)(const void *)y);
    case KYMO_OPTION_LIST:
        return same_list((const void *)x, (const void *)y);
    case KYMO_OPTION_CHOICE:
        return *(const int *)(const void *)x == *(const int *)(const void *)y;
    default:
        return *(const uint64_t *)(const void *)x == *(const uint64_t *)(const void *)y;
    }
}

void collector_settings_compare(const struct collector_settings *a, const struct collector_settings *b,
                                void (*each)(void *ctx, const char *key), void *ctx)
{
    for (const struct kymo_option *row = rows; row->name; row++)
        if (!collector_reloads(row->name) && !same(row, &a->values, &b->values))
            each(ctx, row->name);
}
