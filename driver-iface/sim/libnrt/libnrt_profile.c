/* Profiles on request: of one model (start, stop), and continuous ones (start, save, stop). What happens around
 * executions. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/le.h"
#include "driver-iface/sim/libnrt/libnrt.h"

#define NS_PER_S 1000000000ull
#define NEFF_NUMBER_MASK ((1ull << 48) - 1)

uint64_t libnrt_neff_number(const struct nrt_model *m)
{
    return kymo_le64(m->sha256) & NEFF_NUMBER_MASK;
}

int libnrt_write_neff(const struct nrt_model *m, const char *dir, struct kymo_err *err)
{
    char *path KYMO_FREE = kymo_asprintf("%s/neff_%llu_vnc_%u.neff", dir, (unsigned long long)libnrt_neff_number(m),
                                         rt.cores[m->core].vnc);

    if (!path)
        return kymo_err_set(err, -ENOMEM, "%s: no memory for a name in it", dir);
    return kymo_file_write_atomic(path, m->bytes, m->size, err);
}

static NRT_STATUS fail(const char *what, int r, const struct kymo_err *err)
{
    libnrt_say("%s: %s", what, err->text);
    return libnrt_status_of(r);
}

NRT_STATUS nrt_profile_start(nrt_model_t *model, const char *filename)
{
    struct kymo_err err = {0};
    struct libnrt_core *core;
    struct nrt_model *m;
    NRT_STATUS status = libnrt_enter();
    int r;

    if (status != NRT_SUCCESS)
        return status;
    m = libnrt_model_of(model);
    if (!m || !filename || !*filename || strlen(filename) >= PATH_MAX || strcmp(filename, "/dev/null") == 0)
        return libnrt_leave(m ? NRT_INVALID : NRT_INVALID_HANDLE);
    if (libnrt_is_async()) {
        libnrt_say("nrt_profile_start: not with asynchronous execution");
        return libnrt_leave(NRT_INVALID);
    }
    core = &rt.cores[m->core];
    r = libnrt_capture_arm(core, NTFF__CAPTURE_MODE__MODE_MODEL, &err);
    if (r < 0)
        return libnrt_leave(fail("nrt_profile_start", r == -EALREADY ? -EBUSY : r, &err));
    (void)snprintf(core->capture->file, sizeof core->capture->file, "%s", filename);
    return libnrt_leave(NRT_SUCCESS);
}

static struct libnrt_core *core_of_file(const char *filename)
{
    for (unsigned i = 0; i < rt.n_cores; i++)
        if (rt.cores[i].capture && strcmp(rt.cores[i].capture->file, filename) == 0)
            return &rt.cores[i];
    return NULL;
}

NRT_STATUS nrt_profile_stop(const char *filename)
{
    struct kymo_err err = {0};
    struct libnrt_core *core;
    NRT_STATUS status = libnrt_enter();
    int r;

    if (status != NRT_SUCCESS)
        return status;
    core = filename && *filename ? core_of_file(filename) : NULL;
    if (!core)
        return libnrt_leave(NRT_INVALID);
    r = libnrt_capture_write(core, filename, &err);
    libnrt_capture_disarm(core);
    return libnrt_leave(r < 0 ? fail("nrt_profile_stop", r, &err) : NRT_SUCCESS);
}

NRT_STATUS nrt_profile_continuous_options_allocate(nrt_profile_continuous_options_t **options)
{
    nrt_profile_continuous_options_t *o;

    if (!options)
        return NRT_INVALID;
    o = KYMO_NEW(nrt_profile_continuous_options_t);
    if (!o)
        return NRT_FAIL_HOST_MEM_ALLOC;
    (void)snprintf(o->output_dir, sizeof o->output_dir, "./output");
    *options = o;
    return NRT_SUCCESS;
}

NRT_STATUS nrt_profile_continuous_options_free(nrt_profile_continuous_options_t *options)
{
    kymo_free(options);
    return options ? NRT_SUCCESS : NRT_INVALID;
}

NRT_STATUS nrt_profile_continuous_options_set_output_dir(nrt_profile_continuous_options_t *options, const char *dir)
{
    if (!options || !dir || !*dir || strlen(dir) >= sizeof options->output_dir)
        return NRT_INVALID;
    (void)snprintf(options->output_dir, sizeof options->output_dir, "%s", dir);
    return NRT_SUCCESS;
}

NRT_STATUS nrt_profile_continuous_start(nrt_profile_continuous_options_t *options)
{
    NRT_STATUS status = libnrt_enter();

    if (status != NRT_SUCCESS)
        return status;
    if (!options)
        return libnrt_leave(NRT_INVALID);
    if (libnrt_is_async() || (rt.inspecting && rt.inspect.device_profile != LIBNRT_PROFILE_NONE)) {
        libnrt_say("nrt_profile_continuous_start: not with %s",
                   rt.inspecting ? "inspect device profiling" : "asynchronous execution");
        return libnrt_leave(NRT_INVALID);
    }
    rt.continuous = true;
    return libnrt_leave(NRT_SUCCESS);
}

/* model_<id>_pid_<pid>_vnc_<vnc>_inst_<i>_<date-time>; the fraction keeps two saves in one second apart. */
static char *continuous_name(const struct libnrt_core *core, const char *dir)
{
    const struct nrt_model *m = core->capture->models[core->capture->n_images - 1];
    uint64_t now = kymo_clock_real_ns();
    time_t seconds = (time_t)(now / NS_PER_S);
    struct tm tm;
    char when[32] = "";

    if (gmtime_r(&seconds, &tm))
        (void)strftime(when, sizeof when, "%Y%m%d-%H%M%S", &tm);
    return kymo_asprintf("%s/model_%llu_pid_%d_vnc_%u_inst_%u_%s-%09llu.ntff", dir, (unsigned long long)m->id,
                         (int)getpid(), core->vnc, m->instance, when, (unsigned long long)(now % NS_PER_S));
}

static int save(struct libnrt_core *core, const char *dir, struct kymo_err *err)
{
    char *path KYMO_FREE = NULL;
    int r = kymo_file_mkdirs(dir, err);

    if (r < 0)
        return r;
    path = continuous_name(core, dir);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "%s: no memory for a name in it", dir);
    r = libnrt_capture_write(core, path, err);
    return r < 0 ? r : libnrt_write_neff(core->capture->models[core->capture->n_images - 1], dir, err);
}

NRT_STATUS nrt_profile_continuous_save(uint32_t vnc, nrt_profile_continuous_options_t *options)
{
    struct kymo_err err = {0};
    struct libnrt_core *core;
    NRT_STATUS status = libnrt_enter();
    int r;

    if (status != NRT_SUCCESS)
        return status;
    core = vnc < rt.n_cores ? &rt.cores[vnc] : NULL;
    if (!options || !core || !rt.continuous)
        return libnrt_leave(NRT_INVALID);
    if (!core->capture || core->capture->n_images == 0)
        return libnrt_leave(NRT_INVALID); /* nothing was executed there yet */
    r = save(core, options->output_dir, &err);
    return libnrt_leave(r < 0 ? fail("nrt_profile_continuous_save", r, &err) : NRT_SUCCESS);
}

static void disarm_mode(Ntff__CaptureMode mode)
{
    for (unsigned i = 0; i < rt.n_cores; i++)
        if (rt.cores[i].capture && rt.cores[i].capture->mode == mode && !rt.cores[i].capture->file[0])
            libnrt_capture_disarm(&rt.cores[i]);
}

NRT_STATUS nrt_profile_continuous_stop(void)
{
    NRT_STATUS status = libnrt_enter();

    if (status != NRT_SUCCESS)
        return status;
    if (!rt.continuous)
        return libnrt_leave(NRT_INVALID);
    rt.continuous = false;
    disarm_mode(NTFF__CAPTURE_MODE__MODE_CONTINUOUS);
    return libnrt_leave(NRT_SUCCESS);
}

/* What this execution is to be traced for, when nothing on the core is armed yet; false: nothing. */
static bool wanted(const struct nrt_model *m, Ntff__CaptureMode *ret)
{
    if (rt.continuous)
        *ret = NTFF__CAPTURE_MODE__MODE_CONTINUOUS;
    else if (rt.inspecting && rt.inspect.enable && rt.inspect.device_profile == LIBNRT_PROFILE_MODEL && !m->profiled &&
             m->executions >= rt.inspect.warmup)
        *ret = NTFF__CAPTURE_MODE__MODE_MODEL;
    else if (rt.inspecting && rt.inspect.on_fail)
        *ret = NTFF__CAPTURE_MODE__MODE_ON_FAILURE;
    else
        return false;
    return true;
}

static bool is_latest_only(const struct libnrt_capture *c)
{
    return c->mode == NTFF__CAPTURE_MODE__MODE_CONTINUOUS || c->mode == NTFF__CAPTURE_MODE__MODE_ON_FAILURE;
}

void libnrt_profile_before(struct nrt_model *m)
{
    struct libnrt_core *core = &rt.cores[m->core];
    Ntff__CaptureMode mode = NTFF__CAPTURE_MODE__MODE_MODEL;
    struct kymo_err err = {0};
    int r = 0;

    if (core->capture && core->capture->mode == NTFF__CAPTURE_MODE__MODE_ON_FAILURE && wanted(m, &mode) &&
        mode != NTFF__CAPTURE_MODE__MODE_ON_FAILURE)
        libnrt_capture_disarm(core);
    if (core->capture && is_latest_only(core->capture))
        r = libnrt_capture_restart(core, &err);
    else if (!core->capture && wanted(m, &mode))
        r = libnrt_capture_arm(core, mode, &err);
    if (r < 0)
        libnrt_say("core %u is not profiled: %s", core->vnc, err.text);
}

/* <hash>_instid_<i>_vnc_<n>.ntff beside its NEFF, in the session's directory. */
static int write_in_session(struct nrt_model *m, struct kymo_err *err)
{
    struct libnrt_core *core = &rt.cores[m->core];
    char *path KYMO_FREE = kymo_asprintf("%s/%llu_instid_%u_vnc_%u.ntff", rt.session_dir,
                                         (unsigned long long)libnrt_neff_number(m), m->instance, core->vnc);
    int r;

    if (!path)
        return kymo_err_set(err, -ENOMEM, "%s: no memory for a name in it", rt.session_dir);
    r = libnrt_capture_write(core, path, err);
    return r < 0 ? r : libnrt_write_neff(m, rt.session_dir, err);
}

void libnrt_profile_after(struct nrt_model *m, NRT_STATUS status)
{
    struct libnrt_core *core = &rt.cores[m->core];
    struct kymo_err err = {0};
    bool model, failure;

    if (!core->capture || core->capture->file[0])
        return;
    model = core->capture->mode == NTFF__CAPTURE_MODE__MODE_MODEL;
    failure = core->capture->mode == NTFF__CAPTURE_MODE__MODE_ON_FAILURE && status != NRT_SUCCESS;
    if (!model && !failure)
        return;
    if (write_in_session(m, &err) < 0)
        libnrt_say("profile of core %u: %s", core->vnc, err.text);
    m->profiled = m->profiled || model;
    libnrt_capture_disarm(core);
}

/* Model and continuous profiles cannot be told apart from what runs beside them, so they end here. */
void libnrt_profile_async(void)
{
    if (libnrt_is_async())
        return;
    if (rt.continuous || (rt.inspecting && rt.inspect.device_profile == LIBNRT_PROFILE_MODEL))
        libnrt_say("execution becomes asynchronous: model and continuous profiles end");
    rt.continuous = false;
    if (rt.inspecting && rt.inspect.device_profile == LIBNRT_PROFILE_MODEL)
        rt.inspect.device_profile = LIBNRT_PROFILE_NONE;
    rt.inspect.on_fail = false;
    disarm_mode(NTFF__CAPTURE_MODE__MODE_CONTINUOUS);
    disarm_mode(NTFF__CAPTURE_MODE__MODE_ON_FAILURE);
}

void libnrt_profile_close(void)
{
    if (rt.inspecting)
        (void)libnrt_inspect_finish();
    rt.continuous = false;
}
