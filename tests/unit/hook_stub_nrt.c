/* The smallest runtime that the hook can meet: executions cost nothing and make no system call, so that what the hook
 * adds can be seen. It profiles models, and lacks inspection, and continuous profiles
 * unless built with them. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "driver-iface/nrt/nrt_abi.h"

#define MODELS 200u

static char models[MODELS];
static unsigned n_models;

NRT_STATUS nrt_init(nrt_framework_type_t framework, const char *fw_version, const char *fal_version)
{
    static const char *const names[] = {"NEURON_RT_PROFILE_BUF_EVENT_MB", "NEURON_RT_PROFILE_BUF_DMA_MB"};

    (void)framework;
    (void)fw_version;
    (void)fal_version;
    for (size_t i = 0; getenv("KYMO_STUB_PRINT") && i < 2; i++)
        (void)printf("%s=%s\n", names[i], getenv(names[i]) ? getenv(names[i]) : "");
    return NRT_SUCCESS;
}

void nrt_close(void)
{
    n_models = 0;
}

NRT_STATUS nrt_load(const void *neff, size_t size, int32_t vnc, int32_t vnc_count, nrt_model_t **model)
{
    (void)neff;
    (void)size;
    (void)vnc;
    (void)vnc_count;
    if (n_models == MODELS)
        return NRT_RESOURCE;
    *model = (nrt_model_t *)(void *)&models[n_models++];
    return NRT_SUCCESS;
}

NRT_STATUS nrt_unload(nrt_model_t *model)
{
    (void)model;
    return NRT_SUCCESS;
}

/* errno says that the caller's view is the runtime's. */
NRT_STATUS nrt_execute(nrt_model_t *model, const nrt_tensor_set_t *in, nrt_tensor_set_t *out)
{
    (void)in;
    (void)out;
    errno = ENOTTY;
    return model ? NRT_SUCCESS : NRT_INVALID_HANDLE;
}

NRT_STATUS nrt_profile_start(nrt_model_t *model, const char *filename)
{
    (void)filename;
    return model ? NRT_SUCCESS : NRT_INVALID_HANDLE;
}

NRT_STATUS nrt_profile_stop(const char *filename)
{
    const char *slow = getenv("KYMO_STUB_SLOW_MS");
    int fd = open(filename, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (slow)
        (void)usleep((useconds_t)strtoul(slow, NULL, 10) * 1000);
    if (fd < 0 || write(fd, "ntff", 4) != 4)
        return NRT_FAILURE;
    (void)close(fd);
    return NRT_SUCCESS;
}

#ifdef STUB_CONTINUOUS
NRT_STATUS nrt_profile_continuous_options_allocate(nrt_profile_continuous_options_t **options)
{
    *options = (nrt_profile_continuous_options_t *)(void *)models;
    return NRT_SUCCESS;
}

NRT_STATUS nrt_profile_continuous_options_set_output_dir(nrt_profile_continuous_options_t *options, const char *dir)
{
    return options && dir ? NRT_SUCCESS : NRT_INVALID;
}

NRT_STATUS nrt_profile_continuous_start(nrt_profile_continuous_options_t *options)
{
    return options ? NRT_SUCCESS : NRT_INVALID;
}

NRT_STATUS nrt_profile_continuous_save(uint32_t vnc, nrt_profile_continuous_options_t *options)
{
    return options && vnc == 0 ? NRT_SUCCESS : NRT_INVALID;
}

NRT_STATUS nrt_profile_continuous_stop(void)
{
    return NRT_SUCCESS;
}
#endif
