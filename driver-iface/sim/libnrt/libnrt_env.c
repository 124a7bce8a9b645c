/* The runtime's environment (facts: ntff.md 6, driver.md 6), and kymo's own KYMO_SIM_* for what a real device would
 * simply do. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver-iface/sim/libnrt/libnrt.h"
#include "formats/systrace/systrace_facts.h"

#define EXEC_TIMEOUT_S 30
#define EXEC_TIMEOUT_MAX_S 86400

static int parse_u64(const char *name, const char *text, uint64_t max, uint64_t *ret, struct kymo_err *err)
{
    char *end = NULL;
    unsigned long long v;

    errno = 0;
    v = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end || errno || v > max)
        return kymo_err_set(err, -EINVAL, "%s=\"%.64s\" is not a whole number up to %llu", name, text,
                            (unsigned long long)max);
    *ret = v;
    return 0;
}

static int read_u64(libnrt_getenv *get, void *ctx, const char *name, uint64_t max, uint64_t *ret, struct kymo_err *err)
{
    const char *text = get(ctx, name);

    return text && *text ? parse_u64(name, text, max, ret, err) : 0;
}

static int read_flag(libnrt_getenv *get, void *ctx, const char *name, bool *ret, struct kymo_err *err)
{
    uint64_t v = *ret;
    int r = read_u64(get, ctx, name, 1, &v, err);

    if (r == 0)
        *ret = v != 0;
    return r;
}

/* "3", "0-7"; a list with holes has no place in a numbering that counts from the first. */
static int read_visible(const char *text, struct libnrt_env *e, struct kymo_err *err)
{
    static const char name[] = "NEURON_RT_VISIBLE_CORES";
    uint64_t first, last;
    char head[24];
    size_t n = strcspn(text, "-");
    int r;

    if (n >= sizeof head)
        return kymo_err_set(err, -EINVAL, "%s=\"%.64s\" is no core and no range of cores", name, text);
    memcpy(head, text, n);
    head[n] = 0;
    r = parse_u64(name, head, LIBNRT_CORES_MAX - 1, &first, err);
    if (r < 0)
        return r;
    last = first;
    if (text[n])
        r = parse_u64(name, text + n + 1, LIBNRT_CORES_MAX - 1, &last, err);
    if (r < 0)
        return r;
    if (last < first)
        return kymo_err_set(err, -EINVAL, "%s=\"%.64s\": the range ends before it begins", name, text);
    e->first_vnc = (unsigned)first;
    e->vnc_count = (unsigned)(last - first + 1);
    return 0;
}

static int read_cores(libnrt_getenv *get, void *ctx, struct libnrt_env *e, struct kymo_err *err)
{
    const char *visible = get(ctx, "NEURON_RT_VISIBLE_CORES");
    uint64_t count = 0;
    int r;

    if (visible && *visible)
        return read_visible(visible, e, err);
    r = read_u64(get, ctx, "NEURON_RT_NUM_CORES", LIBNRT_CORES_MAX, &count, err);
    e->vnc_count = (unsigned)count;
    return r;
}

static int read_slow(libnrt_getenv *get, void *ctx, struct libnrt_env *e, struct kymo_err *err)
{
    const char *text = get(ctx, "KYMO_SIM_SLOW_FACTOR");
    char *end = NULL;

    e->slow_factor = 1.0;
    if (!text || !*text)
        return 0;
    e->slow_factor = strtod(text, &end);
    if (*end || !(e->slow_factor >= 0.01 && e->slow_factor <= 100.0))
        return kymo_err_set(err, -EINVAL, "KYMO_SIM_SLOW_FACTOR=\"%.64s\" is not a number from 0.01 to 100", text);
    return 0;
}

/* Ranks of one job name the same place to meet; any text will do. */
static uint64_t read_job(libnrt_getenv *get, void *ctx)
{
    const char *text = get(ctx, "NEURON_RT_ROOT_COMM_ID");
    uint64_t h = 14695981039346656037ull;

    for (; text && *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211ull;
    return h;
}

int libnrt_env_read(libnrt_getenv *get, void *ctx, struct libnrt_env *ret, struct kymo_err *err)
{
    struct libnrt_env e = {.sample_ms = 1000};
    uint64_t lnc = 0;
    int r = kymo_ring_sizes_from_env(get, ctx, &e.sizes, err);

    if (r == 0)
        r = read_flag(get, ctx, "NEURON_RT_ENABLE_DGE_NOTIFICATIONS", &e.dge_notifications, err);
    if (r == 0)
        r = read_u64(get, ctx, "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", 1u << 20, &e.async_inflight, err);
    if (r == 0)
        r = read_u64(get, ctx, "NEURON_LOGICAL_NC_CONFIG", 2, &lnc, err);
    if (r == 0)
        r = read_cores(get, ctx, &e, err);
    if (r == 0)
        r = read_slow(get, ctx, &e, err);
    if (r == 0)
        r = read_u64(get, ctx, "KYMO_SIM_FAIL_EXECUTION", UINT64_MAX, &e.fail_execution, err);
    if (r == 0)
        r = read_u64(get, ctx, "KYMO_SIM_SAMPLE_MS", 3600000, &e.sample_ms, err);
    if (r == 0 && e.sample_ms == 0)
        r = kymo_err_set(err, -EINVAL, "KYMO_SIM_SAMPLE_MS is 0");
    e.timeout_s = EXEC_TIMEOUT_S;
    if (r == 0)
        r = read_u64(get, ctx, "NEURON_RT_EXEC_TIMEOUT", EXEC_TIMEOUT_MAX_S, &e.timeout_s, err);
    if (r < 0)
        return r;
    e.job = read_job(get, ctx);
    e.lnc = (unsigned)lnc;
    *ret = e;
    return 0;
}

void libnrt_inspect_defaults(struct nrt_inspect_config *c)
{
    *c = (struct nrt_inspect_config){
        .session_id = 1,
        .activities = (1u << LIBNRT_ACTIVITY_MAX) - 1,
        .device_profile = LIBNRT_PROFILE_SESSION,
        .sys_trace_max_events = 1000000,
        .output_dir = "./output",
    };
}

_Static_assert((int)SYSTRACE_EVENT_MAX <= (int)LIBNRT_EVENT_TYPES_MAX, "a flag for each type");

bool libnrt_inspect_enable_type(struct nrt_inspect_config *c, const char *name, bool on)
{
    bool found = false;

    for (unsigned t = 0; t < SYSTRACE_EVENT_MAX; t++) {
        bool hardware = systrace_event_source(t) == SYSTRACE_SOURCE_NEURON_HW;

        if (strcmp(name, "all") != 0 && strcmp(name, systrace_event_name(t)) != 0 &&
            strcmp(name, hardware ? "hardware" : "software") != 0)
            continue;
        c->type_off[t] = !on;
        found = true;
    }
    return found;
}

static int read_device_profile(libnrt_getenv *get, void *ctx, struct nrt_inspect_config *c, struct kymo_err *err)
{
    const char *text = get(ctx, "NEURON_RT_INSPECT_DEVICE_PROFILE");

    c->device_profile = LIBNRT_PROFILE_NONE;
    if (!text || !*text || strcmp(text, "0") == 0)
        return 0;
    if (strcmp(text, "1") == 0 || strcmp(text, "model") == 0)
        c->device_profile = LIBNRT_PROFILE_MODEL;
    else if (strcmp(text, "session") == 0)
        c->device_profile = LIBNRT_PROFILE_SESSION;
    else
        return kymo_err_set(err, -EINVAL, "NEURON_RT_INSPECT_DEVICE_PROFILE=\"%.64s\" is not 0, 1, model or session",
                            text);
    return 0;
}

static int read_activity(libnrt_getenv *get, void *ctx, const char *name, enum libnrt_activity activity, bool on,
                         struct nrt_inspect_config *c, struct kymo_err *err)
{
    int r = read_flag(get, ctx, name, &on, err);

    if (r == 0)
        c->activities = on ? c->activities | 1u << activity : c->activities & ~(1u << activity);
    return r;
}

/* "0-3,7": the others are left out. */
static int read_core_filter(libnrt_getenv *get, void *ctx, struct nrt_inspect_config *c, struct kymo_err *err)
{
    static const char name[] = "NEURON_RT_INSPECT_EVENT_FILTER_NC";
    const char *p = get(ctx, name);

    if (!p || !*p)
        return 0;
    memset(c->core_off, 1, sizeof c->core_off);
    for (const char *start = p;;) {
        char *end = NULL;
        unsigned long first = strtoul(p, &end, 10), last = first;

        if (isdigit((unsigned char)*p) && *end == '-' && isdigit((unsigned char)end[1]))
            last = strtoul(end + 1, &end, 10);
        if (!isdigit((unsigned char)*p) || (*end && *end != ',') || last < first || last >= LIBNRT_CORES_MAX)
            return kymo_err_set(err, -EINVAL, "%s=\"%.64s\" is no list of cores", name, start);
        memset(c->core_off + first, 0, last - first + 1);
        if (!*end)
            return 0;
        p = end + 1;
    }
}

/* Names let in; after the first of them the others are out. "^name" leaves one out. */
static int read_type_filter(libnrt_getenv *get, void *ctx, struct nrt_inspect_config *c, struct kymo_err *err)
{
    static const char name[] = "NEURON_RT_INSPECT_EVENT_FILTER_TYPE";
    const char *list = get(ctx, name);
    bool first = true;

    for (const char *p = list; p && *p;) {
        size_t n = strcspn(p, ",");
        bool on = *p != '^';
        char word[64] = "";

        if (n - !on < sizeof word)
            memcpy(word, p + !on, n - !on);
        if (on && first)
            (void)libnrt_inspect_enable_type(c, "all", false);
        if (!libnrt_inspect_enable_type(c, word, on))
            return kymo_err_set(err, -EINVAL, "%s=\"%.64s\": no event is called \"%.40s\"", name, list, word);
        first = first && !on;
        p += n + (p[n] == ',');
    }
    return 0;
}

static int read_trace(libnrt_getenv *get, void *ctx, struct nrt_inspect_config *c, struct kymo_err *err)
{
    int r = read_activity(get, ctx, "NEURON_RT_INSPECT_SYSTEM_PROFILE", LIBNRT_ACTIVITY_SYSTEM, true, c, err);

    if (r == 0)
        r = read_activity(get, ctx, "NEURON_RT_INSPECT_CPU_UTIL", LIBNRT_ACTIVITY_CPU_UTIL, false, c, err);
    if (r == 0)
        r = read_activity(get, ctx, "NEURON_RT_INSPECT_HOST_MEMORY", LIBNRT_ACTIVITY_HOST_MEMORY, false, c, err);
    if (r == 0)
        r = read_u64(get, ctx, "NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC", UINT64_MAX, &c->sys_trace_max_events,
                     err);
    if (r == 0)
        r = read_core_filter(get, ctx, c, err);
    return r < 0 ? r : read_type_filter(get, ctx, c, err);
}

int libnrt_inspect_read(libnrt_getenv *get, void *ctx, struct nrt_inspect_config *ret, struct kymo_err *err)
{
    struct nrt_inspect_config c;
    const char *dir = get(ctx, "NEURON_RT_INSPECT_OUTPUT_DIR");
    uint64_t warmup = 0;
    int r;

    libnrt_inspect_defaults(&c);
    r = read_flag(get, ctx, "NEURON_RT_INSPECT_ENABLE", &c.enable, err);
    if (r == 0)
        r = read_flag(get, ctx, "NEURON_RT_INSPECT_ON_FAIL", &c.on_fail, err);
    if (r == 0)
        r = read_device_profile(get, ctx, &c, err);
    if (r == 0)
        r = read_u64(get, ctx, "NEURON_RT_INSPECT_DEVICE_PROFILE_NUM_WARMUP", 1u << 30, &warmup, err);
    if (r == 0)
        r = read_trace(get, ctx, &c, err);
    if (r < 0)
        return r;
    c.warmup = (unsigned)warmup;
    if (dir && *dir && (size_t)snprintf(c.output_dir, sizeof c.output_dir, "%s", dir) >= sizeof c.output_dir)
        return kymo_err_set(err, -ENAMETOOLONG, "NEURON_RT_INSPECT_OUTPUT_DIR is longer than %d bytes", PATH_MAX - 1);
    *ret = c;
    return 0;
}
