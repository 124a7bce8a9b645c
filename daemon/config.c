#include "daemon/config.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/net.h"
#include "daemon/outbox.h"

#define GIB "G"
#define PATTERN_MAX KYMO_INI_NAME_MAX

static int check_number(const char *text, double max, const char *what, struct kymo_err *err)
{
    char *end;
    double v = strtod(text, &end);
    /* What is no number at all is the table's to say. */
    return end != text && !*end && (v < 0 || v > max) ? kymo_err_set(err, -EINVAL, "%g is %s", v, what) : 0;
}

static int check_jitter(const char *text, struct kymo_err *err)
{
    return check_number(text, 1, "outside 0 to 1", err);
}

static int check_percent(const char *text, struct kymo_err *err)
{
    return check_number(text, 100000, "no percentage", err);
}

static int check_address(const char *text, struct kymo_err *err)
{
    struct net_address a;
    return net_address_parse(text, &a, err);
}

static int check_metrics(const char *text, struct kymo_err *err)
{
    return strcmp(text, "0") != 0 ? check_address(text, err) : 0;
}

static int check_path(const char *text, struct kymo_err *err)
{
    if (!*text || strlen(text) > CONFIG_PATH_MAX)
        return kymo_err_set(err, -EINVAL, "\"%.80s\": no path of 1 to %d bytes", text, CONFIG_PATH_MAX);
    return 0;
}

/* Keys of a policy; base is the structure that holds a struct config_policy at member m. */
#define POLICY_ROWS(base)                                                                                              \
    {.name = "policy-off",                                                                                             \
     .type = KYMO_OPTION_FLAG,                                                                                         \
     .offset = (base) + offsetof(struct config_policy, off),                                                           \
     .help = "the hook captures and counts nothing in these jobs"},                                                    \
        {.name = "period",                                                                                             \
         .type = KYMO_OPTION_U64,                                                                                      \
         .arg = "SECONDS",                                                                                             \
         .def = "600",                                                                                                 \
         .max = 30 * 86400,                                                                                            \
         .offset = (base) + offsetof(struct config_policy, period_s),                                                  \
         .help = "a periodic capture of each job so often; 0: none"},                                                  \
        {.name = "jitter",                                                                                             \
         .type = KYMO_OPTION_DOUBLE,                                                                                   \
         .arg = "PART",                                                                                                \
         .def = "0.1",                                                                                                 \
         .check = check_jitter,                                                                                        \
         .offset = (base) + offsetof(struct config_policy, jitter),                                                    \
         .help = "periods vary by so much of themselves, 0 to 1"},                                                     \
        {.name = "ranks-one-in",                                                                                       \
         .type = KYMO_OPTION_U64,                                                                                      \
         .arg = "K",                                                                                                   \
         .def = "1",                                                                                                   \
         .min = 1,                                                                                                     \
         .max = 65536,                                                                                                 \
         .offset = (base) + offsetof(struct config_policy, ranks_one_in),                                              \
         .help = "periodic captures take one rank in K, in turn"},                                                     \
        {.name = "step-model",                                                                                         \
         .type = KYMO_OPTION_TEXT,                                                                                     \
         .arg = "MODEL",                                                                                               \
         .offset = (base) + offsetof(struct config_policy, step_model),                                                \
         .help = "whose executions are steps: a NEFF's SHA-256 (8 digits or more), its name, or a number"},            \
        {.name = "mode",                                                                                               \
         .type = KYMO_OPTION_CHOICE,                                                                                   \
         .choices = "model|continuous|session",                                                                        \
         .def = "model",                                                                                               \
         .offset = (base) + offsetof(struct config_policy, mode),                                                      \
         .help = "kind of capture; asynchronous jobs and steps of several programs get session"},                      \
        {.name = "armed",                                                                                              \
         .type = KYMO_OPTION_CHOICE,                                                                                   \
         .choices = "none|continuous|on-failure",                                                                      \
         .def = "none",                                                                                                \
         .offset = (base) + offsetof(struct config_policy, armed),                                                     \
         .help = "what is on between captures"},                                                                       \
        {.name = "count",                                                                                              \
         .type = KYMO_OPTION_U64,                                                                                      \
         .arg = "STEPS",                                                                                               \
         .def = "1",                                                                                                   \
         .min = 1,                                                                                                     \
         .max = 1000000,                                                                                               \
         .offset = (base) + offsetof(struct config_policy, count),                                                     \
         .help = "steps of a session"},                                                                                \
        {.name = "stall-limit",                                                                                        \
         .type = KYMO_OPTION_U64,                                                                                      \
         .arg = "MS",                                                                                                  \
         .def = "5000",                                                                                                \
         .max = 60000,                                                                                                 \
         .offset = (base) + offsetof(struct config_policy, stall_ms),                                                  \
         .help = "a capture may hold the job up for so long at one execution; 0: no captures"},                        \
        {.name = "neff-bytes",                                                                                         \
         .type = KYMO_OPTION_SIZE,                                                                                     \
         .def = "1" GIB,                                                                                               \
         .max = 4ull << 30,                                                                                            \
         .offset = (base) + offsetof(struct config_policy, neff_bytes),                                                \
         .help = "larger programs are not copied in the job"},                                                         \
        {.name = "neff-total-bytes",                                                                                   \
         .type = KYMO_OPTION_SIZE,                                                                                     \
         .def = "2" GIB,                                                                                               \
         .max = 4ull << 30,                                                                                            \
         .offset = (base) + offsetof(struct config_policy, neff_total_bytes),                                          \
         .help = "nor are more than this of programs that wait to be passed on"},                                      \
        BUFFER_ROW(base, "event", 0), BUFFER_ROW(base, "instruction", 1), BUFFER_ROW(base, "dma", 2),                  \
        BUFFER_ROW(base, "throttle", 3), BUFFER_ROW(base, "cc-core-instruction", 4),                                   \
        BUFFER_ROW(base, "cc-core-event", 5), BUFFER_ROW(base, "h2d-dma", 6),                                          \
        {.name = "h2d-dma-off",                                                                                        \
         .type = KYMO_OPTION_FLAG,                                                                                     \
         .offset = (base) + offsetof(struct config_policy, h2d_dma_off),                                               \
         .help = "no trace of host-device DMA"},                                                                       \
        {.name = "system-trace",                                                                                       \
         .type = KYMO_OPTION_FLAG,                                                                                     \
         .offset = (base) + offsetof(struct config_policy, system_trace),                                              \
         .help = "sessions trace the system too: calls, copies, memory, hardware events, the host"},                   \
        {.name = "learn",                                                                                              \
         .type = KYMO_OPTION_CHOICE,                                                                                   \
         .choices = "off|on",                                                                                          \
         .def = "on",                                                                                                  \
         .offset = (base) + offsetof(struct config_policy, learn),                                                     \
         .help = "buffers that lost records grow at the job's next start"},                                            \
    {                                                                                                                  \
        .name = "hbm-budget", .type = KYMO_OPTION_SIZE, .arg = "BYTES", .def = "4" GIB,                                \
        .offset = (base) + offsetof(struct config_policy, hbm_budget),                                                 \
        .help = "device memory for the buffers of one logical core; they shrink to fit; 0: no limit"                   \
    }
#define BUFFER_ROW(base, buffer, index)                                                                                \
    {                                                                                                                  \
        .name = "buffer-" buffer "-mb", .type = KYMO_OPTION_U64, .arg = "MB", .def = "0",                              \
        .max = KYMO_HOOK_BUFFER_MAX_MB,                                                                                \
        .offset = (base) + offsetof(struct config_policy, buffer_mb) + (index) * sizeof(uint64_t),                     \
        .help = "size of each such ring; 0: what the runtime does by itself"                                           \
    }

static const struct kymo_option policy_rows[] = {POLICY_ROWS(0), {0}};

static const struct kymo_option rows[] = {
    {.name = "config",
     .letter = 'c',
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     .offset = offsetof(struct config, file),
     .help = "configuration file; the command line goes over it"},
    {.name = "data-dir",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .def = "/var/lib/kymo",
     .check = check_path,
     .offset = offsetof(struct config, data_dir),
     .help = "spool, intake and what was learned"},
    {.name = "intake-dir",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .check = check_path,
     .offset = offsetof(struct config, intake_dir),
     .help = "where jobs write captures; best on the spool's file system (default DATA-DIR/intake)"},
    {.name = "socket-dir",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .check = check_path,
     .offset = offsetof(struct config, socket_dir),
     .help = "of hook.sock and control.sock (default $KYMO_SOCKET, else /run/kymo)"},
    {.name = "off",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct config, off),
     .help = "kill switch: hooks capture and count nothing, in any job"},
    POLICY_ROWS(offsetof(struct config, policy)),
    {.name = "collector",
     .type = KYMO_OPTION_LIST,
     .arg = "HOST:PORT",
     .check = check_address,
     .max = OUTBOX_COLLECTORS_MAX,
     .offset = offsetof(struct config, collectors),
     .help = "where captures go; two may be named, the first that answers is used"},
    {.name = "tls-ca",
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     .offset = offsetof(struct config, tls_ca),
     .help = "certificates that vouch for the collector"},
    {.name = "tls-cert",
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     .offset = offsetof(struct config, tls_cert),
     .help = "this host's certificate"},
    {.name = "tls-key",
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     .offset = offsetof(struct config, tls_key),
     .help = "and its key"},
    {.name = "plain-anywhere",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct config, plain_anywhere),
     .help = "without TLS also beyond this host"},
    {.name = "zstd-level",
     .type = KYMO_OPTION_U64,
     .def = "1",
     .max = 19,
     .offset = offsetof(struct config, zstd_level),
     .help = "compression on the way to the collector; 0: none"},
    {.name = "rate",
     .type = KYMO_OPTION_SIZE,
     .arg = "BYTES",
     .offset = offsetof(struct config, rate_bytes_s),
     .help = "at most so much a second to the collector; 0: no limit"},
    {.name = "spool-full",
     .type = KYMO_OPTION_CHOICE,
     .choices = "drop-oldest|drop-newest|stop",
     .def = "drop-oldest",
     .offset = offsetof(struct config, spool_policy),
     .help = "what a full spool does"},
    {.name = "spool-bytes",
     .type = KYMO_OPTION_SIZE,
     .def = "20G",
     .min = 1 << 20,
     .offset = offsetof(struct config, spool_bytes),
     .help = "captures and programs that wait for the collector"},
    {.name = "spool-capture-bytes",
     .type = KYMO_OPTION_SIZE,
     .def = "10G",
     .min = 1 << 20,
     .offset = offsetof(struct config, spool_capture_bytes),
     .help = "one capture"},
    {.name = "spool-captures",
     .type = KYMO_OPTION_U64,
     .def = "4096",
     .min = 1,
     .max = 65536,
     .offset = offsetof(struct config, spool_captures),
     .help = "captures that wait"},
    {.name = "spool-neff-bytes",
     .type = KYMO_OPTION_SIZE,
     .def = "2G",
     .min = 4096,
     .offset = offsetof(struct config, spool_neff_bytes),
     .help = "one program"},
    {.name = "spool-floor",
     .type = KYMO_OPTION_SIZE,
     .def = "1G",
     .offset = offsetof(struct config, spool_floor_bytes),
     .help = "kept free on the file system"},
    {.name = "spool-reserve",
     .type = KYMO_OPTION_SIZE,
     .def = "4M",
     .min = 64 << 10,
     .max = 1 << 30,
     .offset = offsetof(struct config, spool_reserve_bytes),
     .help = "file that is given up when the disk is full"},
    {.name = "sessions-max",
     .type = KYMO_OPTION_U64,
     .def = "1024",
     .min = 1,
     .max = 1024,
     .offset = offsetof(struct config, sessions_max),
     .help = "processes with a hook at a time"},
    {.name = "sessions-per-uid",
     .type = KYMO_OPTION_U64,
     .def = "512",
     .min = 1,
     .max = 1024,
     .offset = offsetof(struct config, sessions_per_uid),
     .help = "of one user"},
    {.name = "intake-bytes",
     .type = KYMO_OPTION_SIZE,
     .def = "20G",
     .offset = offsetof(struct config, intake_bytes),
     .help = "that one user's jobs may have in the intake; beyond it the largest is switched off; 0: no limit"},
    {.name = "neff-user-bytes",
     .type = KYMO_OPTION_SIZE,
     .def = "8G",
     .offset = offsetof(struct config, neff_user_bytes),
     .help = "programs that the spool keeps for what one user has loaded, each counted once; 0: no limit"},
    {.name = "capture-timeout",
     .type = KYMO_OPTION_U64,
     .arg = "SECONDS",
     .def = "900",
     .min = 1,
     .max = 30 * 86400,
     .offset = offsetof(struct config, capture_timeout_s),
     .help = "a capture that has not begun or not ended by then is given up"},
    {.name = "capture-begin-timeout",
     .type = KYMO_OPTION_U64,
     .arg = "SECONDS",
     .def = "300",
     .min = 1,
     .max = 30 * 86400,
     .offset = offsetof(struct config, capture_begin_timeout_s),
     .help = "one whose step has not come so long after a job was asked is given up"},
    {.name = "cpu-limit",
     .type = KYMO_OPTION_DOUBLE,
     .arg = "PERCENT",
     .def = "5",
     .check = check_percent,
     .offset = offsetof(struct config, cpu_percent),
     .help = "of one core, over a minute; beyond it captures are shed; 0: no limit"},
    {.name = "disk-limit",
     .type = KYMO_OPTION_SIZE,
     .arg = "BYTES",
     .def = "64M",
     .offset = offsetof(struct config, disk_bytes_s),
     .help = "a second, over a minute; beyond it captures are shed; 0: no limit"},
    {.name = "net-limit",
     .type = KYMO_OPTION_SIZE,
     .arg = "BYTES",
     .offset = offsetof(struct config, net_bytes_s),
     .help = "the same to the network; 0: no limit (\"rate\" slows down instead)"},
    {.name = "metrics",
     .type = KYMO_OPTION_TEXT,
     .arg = "HOST:PORT",
     .def = "127.0.0.1:9464",
     .check = check_metrics,
     .offset = offsetof(struct config, metrics),
     .help = "Prometheus endpoint; 0: none"},
    {.name = "group",
     .type = KYMO_OPTION_TEXT,
     .arg = "NAME",
     .offset = offsetof(struct config, group),
     .help = "whose members may use the control socket and the bus, besides root and kymod's own user"},
    {.name = "bus",
     .type = KYMO_OPTION_CHOICE,
     .choices = "off|system|session",
     .def = "off",
     .offset = offsetof(struct config, bus),
     .help = "D-Bus to serve org.kymo.Daemon1 on"},
    {.name = "host",
     .type = KYMO_OPTION_TEXT,
     .arg = "NAME",
     .offset = offsetof(struct config, host),
     .help = "name of this host in captures (default: the system's)"},
    {.name = "instance-type",
     .type = KYMO_OPTION_TEXT,
     .arg = "TYPE",
     .offset = offsetof(struct config, instance_type),
     .help = "as trn2.48xlarge (default: as the driver tells)"},
    {.name = "sysfs",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .check = check_path,
     .offset = offsetof(struct config, sysfs),
     .help = "the Neuron driver's tree (default $KYMO_SYSFS, else the system's)"},
    {.name = "verbose",
     .letter = 'v',
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct config, verbose),
     .help = "say more"},
    {0}};

static const struct kymo_options options = {
    .program = "kymod",
    .about = "Captures the training jobs of this host and sends the captures to a collector.\n"
             "Keys of the configuration file are the names below; daemon/CONFIG.md describes them.",
    .rows = rows};

static void *begin(void *target, bool by_unit, const char *name, struct kymo_err *err)
{
    struct config *c = target;
    struct config_override *o = &c->overrides[c->noverrides];
    if (!*name || strlen(name) > PATTERN_MAX) {
        (void)kymo_err_set(err, -EINVAL, "this section needs a pattern behind its kind");
        return NULL;
    }
    if (c->noverrides == CONFIG_OVERRIDES_MAX) {
        (void)kymo_err_set(err, -EINVAL, "more than %d sections", CONFIG_OVERRIDES_MAX);
        return NULL;
    }
    *o = (struct config_override){.by_unit = by_unit, .pattern = name};
    if (c->inherit)
        o->policy = *c->inherit;
    else
        kymo_options_defaults(policy_rows, &o->policy);
    c->noverrides++;
    return &o->policy;
}

static void *begin_job(void *target, const char *name, struct kymo_err *err)
{
    return begin(target, false, name, err);
}

static void *begin_unit(void *target, const char *name, struct kymo_err *err)
{
    return begin(target, true, name, err);
}

static const struct kymo_ini_section sections[] = {{.kind = "job", .rows = policy_rows, .begin = begin_job},
                                                   {.kind = "unit", .rows = policy_rows, .begin = begin_unit},
                                                   {0}};
const struct kymo_ini_spec config_spec = {.options = &options, .sections = sections};

static int check_policy(const struct config_policy *p, const char *where, struct kymo_err *err)
{
    if (p->neff_total_bytes < p->neff_bytes)
        return kymo_err_set(err, -EINVAL, "%sneff-total-bytes: less than neff-bytes", where);
    return 0;
}

/* What one value alone cannot say. */
static int check(const struct config *c, struct kymo_err *err)
{
    int r = check_policy(&c->policy, "", err);
    for (size_t i = 0; i < c->noverrides && r == 0; i++) {
        char where[PATTERN_MAX + 16];
        (void)snprintf(where, sizeof where, "[%s %s] ", c->overrides[i].by_unit ? "unit" : "job",
                       c->overrides[i].pattern);
        r = check_policy(&c->overrides[i].policy, where, err);
    }
    if (r == 0 && (!c->tls_cert != !c->tls_key || !c->tls_cert != !c->tls_ca))
        r = kymo_err_set(err, -EINVAL, "tls-ca, tls-cert and tls-key go together");
    return r;
}

struct config *config_free(struct config *c)
{
    if (c)
        (void)kymo_ini_free(c->texts);
    kymo_free(c);
    return NULL;
}

static void config_freep(struct config **c)
{
    (void)config_free(*c);
}

/*
 * The file is read twice: sections begin with the policy of all jobs, which is known only when the command line has
 * gone over the file.
 */
int config_load(int argc, char *const *argv, struct config **ret, struct kymo_err *err)
{
    struct config *first KYMO_CLEANUP(config_freep) = KYMO_NEW(struct config);
    struct config *second KYMO_CLEANUP(config_freep) = KYMO_NEW(struct config);
    if (!first || !second)
        return kymo_err_set(err, -ENOMEM, "no memory for the configuration");
    int r = kymo_ini_load(&config_spec, argc, argv, first, &first->texts, err);
    if (r != KYMO_OPTIONS_PARSED)
        return r;
    second->inherit = &first->policy;
    r = kymo_ini_load(&config_spec, argc, argv, second, &second->texts, err);
    second->inherit = NULL;
    if (r != KYMO_OPTIONS_PARSED)
        return r;
    r = check(second, err);
    if (r < 0) {
        if (second->file)
            kymo_err_prefix(err, "%s", second->file);
        return r;
    }
    *ret = KYMO_TAKE(second);
    return KYMO_OPTIONS_PARSED;
}

enum kymo_hook_mode config_mode(const struct config_policy *p)
{
    static const enum kymo_hook_mode modes[] = {[CONFIG_MODEL] = KYMO_HOOK_MODE_MODEL,
                                                [CONFIG_CONTINUOUS] = KYMO_HOOK_MODE_CONTINUOUS,
                                                [CONFIG_SESSION] = KYMO_HOOK_MODE_SESSION};
    return modes[p->mode];
}

enum kymo_hook_mode config_armed(const struct config_policy *p)
{
    static const enum kymo_hook_mode modes[] = {[CONFIG_ARMED_NONE] = KYMO_HOOK_MODE_NONE,
                                                [CONFIG_ARMED_CONTINUOUS] = KYMO_HOOK_MODE_CONTINUOUS,
                                                [CONFIG_ARMED_ON_FAILURE] = KYMO_HOOK_MODE_ON_FAILURE};
    return modes[p->armed];
}

static bool same(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static bool same_spool(const struct config *a, const struct config *b)
{
    return a->spool_policy == b->spool_policy && a->spool_bytes == b->spool_bytes &&
           a->spool_capture_bytes == b->spool_capture_bytes && a->spool_captures == b->spool_captures &&
           a->spool_neff_bytes == b->spool_neff_bytes && a->spool_floor_bytes == b->spool_floor_bytes &&
           a->spool_reserve_bytes == b->spool_reserve_bytes;
}

void config_fixed_changes(const struct config *before, const struct config *after, char *out, size_t n)
{
    const struct {
        const char *name;
        bool differs;
    } keys[] = {
        {"data-dir", !same(before->data_dir, after->data_dir)},
        {"intake-dir", !same(before->intake_dir, after->intake_dir)},
        {"socket-dir", !same(before->socket_dir, after->socket_dir)},
        {"spool-*", !same_spool(before, after)},
        {"group", !same(before->group, after->group)},
        {"bus", before->bus != after->bus},
        {"metrics", !same(before->metrics, after->metrics)},
        {"host", !same(before->host, after->host)},
        {"instance-type", !same(before->instance_type, after->instance_type)},
        {"sysfs", !same(before->sysfs, after->sysfs)},
    };
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof keys / sizeof *keys && used < n; i++)
        if (keys[i].differs)
            used += (size_t)snprintf(out + used, n - used, "%s%s", used ? ", " : "", keys[i].name);
}

const struct config_policy *config_policy_of(const struct config *c, const char *job, const char *unit)
{
    for (size_t i = 0; i < c->noverrides; i++) {
        const char *name = c->overrides[i].by_unit ? unit : job;
        if (name && *name && fnmatch(c->overrides[i].pattern, name, 0) == 0)
            return &c->overrides[i].policy;
    }
    return &c->policy;
}

struct spool_limits config_spool_limits(const struct config *c)
{
    struct spool_limits l = spool_limits_default;
    l.policy = (enum spool_policy)c->spool_policy;
    l.bytes_max = c->spool_bytes;
    l.capture_bytes_max = c->spool_capture_bytes;
    l.captures_max = (uint32_t)c->spool_captures;
    l.neff_bytes_max = c->spool_neff_bytes;
    l.floor_bytes = c->spool_floor_bytes;
    l.reserve_bytes = c->spool_reserve_bytes;
    return l;
}
