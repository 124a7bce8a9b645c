/* Inspection: sessions begun by the environment or by a config object, and their directory. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "driver-iface/sim/libnrt/libnrt.h"
#include "driver-iface/sim/libnrt/libnrt_systrace.h"

static const char *const activity_names[LIBNRT_ACTIVITY_MAX] = {
    [LIBNRT_ACTIVITY_SYSTEM] = "system_profile",
    [LIBNRT_ACTIVITY_DEVICE] = "device_profile",
    [LIBNRT_ACTIVITY_HOST_MEMORY] = "host_memory",
    [LIBNRT_ACTIVITY_CPU_UTIL] = "cpu_util",
};

#define ALL_ACTIVITIES ((1u << LIBNRT_ACTIVITY_MAX) - 1)

/* An EC2 instance has an id; a simulated one gets one that stays the same on this machine. */
void libnrt_instance_id(char out[LIBNRT_INSTANCE_MAX])
{
    char host[256] = "";
    char hex[2 * KYMO_SHA256_SIZE + 1];
    uint8_t digest[KYMO_SHA256_SIZE] = {0};

    (void)gethostname(host, sizeof host - 1);
    if (kymo_hash_sha256(host, strlen(host), digest) < 0)
        memset(digest, 0, sizeof digest);
    kymo_hash_hex(digest, sizeof digest, hex);
    (void)snprintf(out, LIBNRT_INSTANCE_MAX, "i-%.17s", hex);
}

/* <out>/<instance-id>_pid_<pid>/<start in ns>/ */
static int make_session_dir(struct kymo_err *err)
{
    char id[LIBNRT_INSTANCE_MAX];
    int n;

    libnrt_instance_id(id);
    n = snprintf(rt.session_dir, sizeof rt.session_dir, "%.3900s/%s_pid_%d/%llu", rt.inspect.output_dir, id,
                 (int)getpid(), (unsigned long long)kymo_clock_real_ns());
    if (strlen(rt.inspect.output_dir) > 3900 || n < 0 || (size_t)n >= sizeof rt.session_dir)
        return kymo_err_set(err, -ENAMETOOLONG, "%s: too long for an output directory", rt.inspect.output_dir);
    return kymo_file_mkdirs(rt.session_dir, err);
}

static bool profiles_device(const struct nrt_inspect_config *c)
{
    return (c->activities & 1u << LIBNRT_ACTIVITY_DEVICE) != 0 && c->device_profile != LIBNRT_PROFILE_NONE;
}

static bool in_session_mode(void)
{
    return rt.inspecting && rt.inspect.enable && rt.inspect.device_profile == LIBNRT_PROFILE_SESSION;
}

void libnrt_inspect_attached(struct libnrt_core *core)
{
    struct kymo_err err = {0};

    if (!in_session_mode() || core->capture)
        return;
    if (libnrt_capture_arm(core, NTFF__CAPTURE_MODE__MODE_SESSION, &err) < 0)
        libnrt_say("core %u is not profiled: %s", core->vnc, err.text);
    else
        core->capture->session_id = (uint64_t)rt.inspect.session_id + rt.sessions;
}

NRT_STATUS libnrt_inspect_start(const struct nrt_inspect_config *config)
{
    struct kymo_err err = {0};
    struct nrt_inspect_config c = *config;
    int r;

    if (rt.inspecting)
        return NRT_INVALID;
    if (!profiles_device(&c))
        c.device_profile = LIBNRT_PROFILE_NONE;
    if (rt.continuous && c.device_profile != LIBNRT_PROFILE_NONE)
        return NRT_INVALID;
    if (libnrt_is_async() && c.enable && c.device_profile == LIBNRT_PROFILE_MODEL) {
        libnrt_say("inspection: device profiles by model do not go with asynchronous execution; use session");
        return NRT_INVALID;
    }
    if (!c.enable && !c.on_fail)
        return NRT_SUCCESS;
    rt.inspect = c;
    r = make_session_dir(&err);
    if (r < 0) {
        libnrt_say("inspection: %s", err.text);
        return libnrt_status_of(r);
    }
    rt.inspecting = true;
    libnrt_trace_begin();
    libnrt_signals_install();
    for (unsigned i = 0; i < rt.n_cores; i++)
        if (rt.cores[i].attached)
            libnrt_inspect_attached(&rt.cores[i]);
    return NRT_SUCCESS;
}

static int write_session(struct libnrt_core *core, struct kymo_err *err)
{
    const struct libnrt_capture *c = core->capture;
    char *path KYMO_FREE = kymo_asprintf("%s/profile_nc_%u_session_%llu.ntff", rt.session_dir, core->vnc,
                                         (unsigned long long)c->session_id);
    int r;

    if (!path)
        return kymo_err_set(err, -ENOMEM, "%s: no memory for a name in it", rt.session_dir);
    r = libnrt_capture_write(core, path, err);
    for (size_t i = 0; i < c->n_images && r == 0; i++)
        r = libnrt_write_neff(c->models[i], rt.session_dir, err);
    return r;
}

static NRT_STATUS finish_trace(NRT_STATUS status)
{
    struct kymo_err err = {0};
    int r = libnrt_trace_runs() ? libnrt_trace_write(&err) : 0;

    if (r < 0)
        libnrt_say("system trace: %s", err.text);
    libnrt_trace_end();
    return status == NRT_SUCCESS ? libnrt_status_of(r) : status;
}

/* Every profile is tried; the first failure is what the caller hears. */
NRT_STATUS libnrt_inspect_finish(void)
{
    NRT_STATUS status = NRT_SUCCESS;

    libnrt_async_wait();
    for (unsigned i = 0; i < rt.n_cores; i++) {
        struct libnrt_core *core = &rt.cores[i];
        struct kymo_err err = {0};
        int r = 0;

        if (!core->capture || core->capture->file[0] || core->capture->mode == NTFF__CAPTURE_MODE__MODE_CONTINUOUS)
            continue;
        if (core->capture->mode == NTFF__CAPTURE_MODE__MODE_SESSION)
            r = write_session(core, &err);
        if (r < 0)
            libnrt_say("profile of core %u: %s", core->vnc, err.text);
        if (r < 0 && status == NRT_SUCCESS)
            status = libnrt_status_of(r);
        libnrt_capture_disarm(core);
    }
    status = finish_trace(status);
    for (size_t i = 0; i < LIBNRT_MODELS_MAX; i++)
        if (rt.models[i])
            rt.models[i]->profiled = false;
    rt.inspecting = false;
    rt.sessions++;
    libnrt_signals_restore();
    return status;
}

static const char *process_env(void *ctx, const char *name)
{
    (void)ctx;
    return getenv(name);
}

NRT_STATUS nrt_inspect_begin(void)
{
    struct kymo_err err = {0};
    struct nrt_inspect_config c;
    NRT_STATUS status = libnrt_enter();
    int r;

    if (status != NRT_SUCCESS)
        return status;
    r = libnrt_inspect_read(process_env, NULL, &c, &err);
    if (r < 0) {
        libnrt_say("nrt_inspect_begin: %s", err.text);
        return libnrt_leave(libnrt_status_of(r));
    }
    return libnrt_leave(libnrt_inspect_start(&c));
}

/* NULL is refused: the public header and what was seen of the library differ there, and a refusal cannot surprise. */
NRT_STATUS nrt_inspect_begin_with_options(nrt_inspect_config_t *options)
{
    NRT_STATUS status = libnrt_enter();

    if (status != NRT_SUCCESS)
        return status;
    return libnrt_leave(options ? libnrt_inspect_start(options) : NRT_INVALID);
}

NRT_STATUS nrt_inspect_stop(void)
{
    NRT_STATUS status = libnrt_enter();

    if (status != NRT_SUCCESS)
        return status;
    return libnrt_leave(rt.inspecting ? libnrt_inspect_finish() : NRT_SUCCESS);
}

NRT_STATUS nrt_inspect_config_allocate(nrt_inspect_config_t **options)
{
    nrt_inspect_config_t *c;

    if (!options)
        return NRT_INVALID;
    c = KYMO_NEW(nrt_inspect_config_t);
    if (!c)
        return NRT_RESOURCE;
    libnrt_inspect_defaults(c);
    *options = c;
    return NRT_SUCCESS;
}

NRT_STATUS nrt_inspect_config_free(nrt_inspect_config_t *options)
{
    kymo_free(options);
    return options ? NRT_SUCCESS : NRT_INVALID;
}

NRT_STATUS nrt_inspect_config_set_defaults(nrt_inspect_config_t *options)
{
    if (!options)
        return NRT_INVALID;
    libnrt_inspect_defaults(options);
    return NRT_SUCCESS;
}

NRT_STATUS nrt_inspect_config_set_session_id(nrt_inspect_config_t *options, int session_id)
{
    if (!options || session_id < 0)
        return NRT_INVALID;
    options->session_id = session_id;
    return NRT_SUCCESS;
}

NRT_STATUS nrt_inspect_config_set_output_dir(nrt_inspect_config_t *options, const char *dir)
{
    if (!options || !dir || !*dir || strlen(dir) >= sizeof options->output_dir)
        return NRT_INVALID;
    (void)snprintf(options->output_dir, sizeof options->output_dir, "%s", dir);
    return NRT_SUCCESS;
}

NRT_STATUS nrt_inspect_config_set_sys_trace_max_events_per_nc(nrt_inspect_config_t *options, uint64_t max_events)
{
    if (!options)
        return NRT_INVALID;
    options->sys_trace_max_events = max_events;
    return NRT_SUCCESS;
}

NRT_STATUS nrt_inspect_config_set_capture_enabled_for_nc(nrt_inspect_config_t *options, uint32_t nc_idx, bool enabled)
{
    if (!options || nc_idx >= LIBNRT_CORES_MAX)
        return NRT_INVALID;
    options->core_off[nc_idx] = !enabled;
    return NRT_SUCCESS;
}

NRT_STATUS nrt_inspect_config_set_capture_enabled_for_event_type_string(nrt_inspect_config_t *options,
                                                                        const char *event_type, bool enabled)
{
    if (!options || !event_type)
        return NRT_INVALID;
    return libnrt_inspect_enable_type(options, event_type, enabled) ? NRT_SUCCESS : NRT_INVALID;
}

NRT_STATUS nrt_inspect_config_set_enable_inspect(nrt_inspect_config_t *options, bool enable)
{
    if (!options)
        return NRT_INVALID;
    options->enable = enable;
    return NRT_SUCCESS;
}

NRT_STATUS nrt_inspect_config_set_enable_inspect_on_fail(nrt_inspect_config_t *options, bool enable)
{
    if (!options)
        return NRT_INVALID;
    options->on_fail = enable;
    return NRT_SUCCESS;
}

NRT_STATUS nrt_inspect_config_set_inspect_device_profile_mode(nrt_inspect_config_t *options,
                                                              nrt_inspect_device_profile_mode_t mode)
{
    if (!options || (unsigned)mode > NRT_INSPECT_DEVICE_PROFILE_MODE_SESSION)
        return NRT_INVALID;
    options->device_profile = (enum libnrt_device_profile)mode;
    return NRT_SUCCESS;
}

NRT_STATUS nrt_inspect_config_set_activity(nrt_inspect_config_t *options, const char *activity, bool enabled)
{
    unsigned bits = 0;

    if (!options || !activity)
        return NRT_INVALID;
    if (strcmp(activity, "all") == 0)
        bits = ALL_ACTIVITIES;
    for (unsigned i = 0; i < LIBNRT_ACTIVITY_MAX; i++)
        if (strcmp(activity, activity_names[i]) == 0)
            bits = 1u << i;
    if (!bits)
        return NRT_INVALID;
    options->activities = enabled ? options->activities | bits : options->activities & ~bits;
    return NRT_SUCCESS;
}

/* Ordinary malloc memory: the interface lets the caller free each string and the array itself. */
static NRT_STATUS list_activities(unsigned bits, const char ***types, size_t *count)
{
    const char **list = KYMO_NEW_ARRAY(const char *, LIBNRT_ACTIVITY_MAX);
    size_t n = 0;

    if (!list)
        return NRT_RESOURCE;
    for (unsigned i = 0; i < LIBNRT_ACTIVITY_MAX; i++) {
        if (!(bits & 1u << i))
            continue;
        list[n] = kymo_strdup(activity_names[i]);
        if (!list[n++]) {
            nrt_inspect_config_free_activity_types(list, n);
            return NRT_RESOURCE;
        }
    }
    *types = list;
    *count = n;
    return NRT_SUCCESS;
}

NRT_STATUS nrt_inspect_config_get_all_activity_types(const char ***types, size_t *count)
{
    return types && count ? list_activities(ALL_ACTIVITIES, types, count) : NRT_INVALID;
}

NRT_STATUS nrt_inspect_config_get_enabled_activity_types(nrt_inspect_config_t *options, const char ***types,
                                                         size_t *count)
{
    return options && types && count ? list_activities(options->activities, types, count) : NRT_INVALID;
}

void nrt_inspect_config_free_activity_types(const char **types, size_t count)
{
    for (size_t i = 0; types && i < count; i++)
        kymo_free((void *)(uintptr_t)types[i]);
    kymo_free((void *)(uintptr_t)types);
}
