#include "driver-iface/hook/hook_profile.h"

#include <signal.h>
#include <string.h>

#include "driver-iface/hook/hook_internal.h"

#define SESSION 2 /* of nrt_inspect_config_set_inspect_device_profile_mode */
#define BIT(mode) (1u << KYMO_HOOK_MODE_##mode)
#define INSPECT_BITS (BIT(SESSION) | BIT(ON_FAILURE))

/* X(name, arguments, modes that need it) */
#define PROFILE_MAP(X)                                                                                                 \
    X(nrt_profile_continuous_options_allocate, (void **options), BIT(CONTINUOUS))                                      \
    X(nrt_profile_continuous_options_set_output_dir, (void *options, const char *dir), BIT(CONTINUOUS))                \
    X(nrt_profile_continuous_start, (void *options), BIT(CONTINUOUS))                                                  \
    X(nrt_profile_continuous_save, (uint32_t core, void *options), BIT(CONTINUOUS))                                    \
    X(nrt_profile_continuous_stop, (void), BIT(CONTINUOUS))                                                            \
    X(nrt_profile_start, (const void *model, const char *file), BIT(MODEL))                                            \
    X(nrt_profile_stop, (const char *file), BIT(MODEL))                                                                \
    X(nrt_inspect_config_allocate, (void **config), INSPECT_BITS)                                                      \
    X(nrt_inspect_config_free, (void *config), INSPECT_BITS)                                                           \
    X(nrt_inspect_config_set_output_dir, (void *config, const char *dir), INSPECT_BITS)                                \
    X(nrt_inspect_config_set_activity, (void *config, const char *activity, bool on), INSPECT_BITS)                    \
    X(nrt_inspect_config_set_enable_inspect, (void *config, bool on), INSPECT_BITS)                                    \
    X(nrt_inspect_config_set_enable_inspect_on_fail, (void *config, bool on), INSPECT_BITS)                            \
    X(nrt_inspect_config_set_inspect_device_profile_mode, (void *config, int mode), 0)                                 \
    X(nrt_inspect_begin_with_options, (void *config), INSPECT_BITS)                                                    \
    X(nrt_inspect_stop, (void), INSPECT_BITS)

static struct {
#define X(name, args, modes) int(*name) args;
    PROFILE_MAP(X)
#undef X
} api;

static void *options; /* of continuous profiles; made once, kept */

const char *hook_profile_missing(enum kymo_hook_mode mode)
{
#define X(name, args, modes)                                                                                           \
    if (!api.name && !hook_real_find(#name, &api.name) && ((modes)&1u << mode))                                        \
        return #name;
    PROFILE_MAP(X)
#undef X
    return NULL;
}

static int make_options(void)
{
    return options ? HOOK_NRT_SUCCESS : api.nrt_profile_continuous_options_allocate(&options);
}

int hook_profile_continuous_start(void)
{
    int status;

    if (hook_profile_missing(KYMO_HOOK_MODE_CONTINUOUS))
        return -1;
    status = make_options();
    return status == HOOK_NRT_SUCCESS ? api.nrt_profile_continuous_start(options) : status;
}

int hook_profile_continuous_save(uint32_t core, const char *dir)
{
    int status = api.nrt_profile_continuous_options_set_output_dir(options, dir);

    return status == HOOK_NRT_SUCCESS ? api.nrt_profile_continuous_save(core, options) : status;
}

int hook_profile_continuous_stop(void)
{
    return api.nrt_profile_continuous_stop();
}

int hook_profile_model_start(const void *model, const char *file)
{
    if (hook_profile_missing(KYMO_HOOK_MODE_MODEL))
        return -1;
    return api.nrt_profile_start(model, file);
}

int hook_profile_model_stop(const char *file)
{
    return api.nrt_profile_stop(file);
}

static const int signals[2] = {SIGINT, SIGTERM};

static void keep_handlers(struct sigaction kept[2])
{
    for (int i = 0; i < 2; i++)
        (void)sigaction(signals[i], NULL, &kept[i]);
}

static void restore_handlers(const struct sigaction kept[2])
{
    for (int i = 0; i < 2; i++)
        (void)sigaction(signals[i], &kept[i], NULL);
}

/* Every value is set: what the vendor documents as defaults differs from what was seen. */
static int configure(void *config, enum kymo_hook_mode mode, const char *dir, bool system)
{
    static const char *const traces[] = {"system_profile", "cpu_util", "host_memory"};
    int status = api.nrt_inspect_config_set_output_dir(config, dir);

    if (status == HOOK_NRT_SUCCESS)
        status = api.nrt_inspect_config_set_activity(config, "all", false);
    if (status == HOOK_NRT_SUCCESS)
        status = api.nrt_inspect_config_set_activity(config, "device_profile", true);
    for (unsigned i = 0; i < 3 && system && status == HOOK_NRT_SUCCESS; i++)
        status = api.nrt_inspect_config_set_activity(config, traces[i], true);
    if (status == HOOK_NRT_SUCCESS)
        status = api.nrt_inspect_config_set_enable_inspect(config, mode == KYMO_HOOK_MODE_SESSION);
    if (status == HOOK_NRT_SUCCESS)
        status = api.nrt_inspect_config_set_enable_inspect_on_fail(config, mode == KYMO_HOOK_MODE_ON_FAILURE);
    if (status == HOOK_NRT_SUCCESS && api.nrt_inspect_config_set_inspect_device_profile_mode)
        status = api.nrt_inspect_config_set_inspect_device_profile_mode(config, SESSION);
    return status;
}

int hook_profile_inspect_start(enum kymo_hook_mode mode, const char *dir, bool system)
{
    struct sigaction kept[2];
    void *config = NULL;
    int status;

    if (hook_profile_missing(mode))
        return -1;
    status = api.nrt_inspect_config_allocate(&config);
    if (status != HOOK_NRT_SUCCESS)
        return status;
    status = configure(config, mode, dir, system);
    keep_handlers(kept);
    if (status == HOOK_NRT_SUCCESS)
        status = api.nrt_inspect_begin_with_options(config);
    restore_handlers(kept);
    (void)api.nrt_inspect_config_free(config);
    return status;
}

int hook_profile_inspect_stop(void)
{
    struct sigaction kept[2];
    int status;

    keep_handlers(kept);
    status = api.nrt_inspect_stop();
    restore_handlers(kept);
    return status;
}

/* nrt_version_t (facts: driver.md 4): four numbers, then texts; room for one that has grown. */
#define VERSION_BYTES 224

void hook_profile_runtime_version(uint32_t ret[4])
{
    uint64_t version[64] = {0};
    int (*get)(void *version, size_t size);

    memset(ret, 0, 4 * sizeof *ret);
    if (!hook_real_find("nrt_get_version", &get) || get(version, VERSION_BYTES) != HOOK_NRT_SUCCESS)
        return;
    for (size_t i = 0; i < 4; i++)
        ret[i] = version[i] < UINT32_MAX ? (uint32_t)version[i] : UINT32_MAX;
}
