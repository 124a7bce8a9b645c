/* State of the runtime: init, close, cores, models. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "driver-iface/sim/libnrt/libnrt.h"
#include "driver-iface/sim/libnrt/libnrt_systrace.h"

/* What the simulated runtime says it is; its number is that of the public headers (G). */
#define RUNTIME_MAJOR 2
#define RUNTIME_MINOR 33

struct libnrt rt = {.lock = PTHREAD_MUTEX_INITIALIZER, .sock = -1};

void libnrt_say(const char *fmt, ...)
{
    char line[640];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (n > 0)
        (void)fprintf(stderr, "libnrt: %s\n", line);
}

NRT_STATUS libnrt_status_of(int error)
{
    switch (-error) {
    case 0:
        return NRT_SUCCESS;
    case EBUSY:
        return NRT_EXEC_NC_BUSY;
    case EBADF:
        return NRT_INVALID_HANDLE;
    case ENOMEM:
    case ENOSPC:
        return NRT_RESOURCE;
    case EINVAL:
    case EPROTO:
    case EFBIG:
        return NRT_INVALID;
    case EDEADLK:
    case ETIMEDOUT:
        return NRT_TIMEOUT;
    case EAGAIN:
        return NRT_QUEUE_FULL;
    default:
        return NRT_FAILURE;
    }
}

NRT_STATUS libnrt_enter(void)
{
    (void)pthread_mutex_lock(&rt.lock);
    if (rt.state == LIBNRT_READY && rt.pid == getpid())
        return NRT_SUCCESS;
    return libnrt_leave(rt.state == LIBNRT_CLOSED ? NRT_CLOSED : NRT_UNINITIALIZED);
}

NRT_STATUS libnrt_leave(NRT_STATUS status)
{
    (void)pthread_mutex_unlock(&rt.lock);
    return status;
}

static const char *process_env(void *ctx, const char *name)
{
    (void)ctx;
    return getenv(name);
}

static int choose_cores(struct kymo_err *err)
{
    unsigned first = rt.env.first_vnc, total = rt.hello.vnc_count;
    unsigned count = rt.env.vnc_count ? rt.env.vnc_count : total;
    unsigned lnc = rt.hello.lnc;

    if (rt.env.lnc && rt.env.lnc != lnc)
        return kymo_err_set(err, -EINVAL, "NEURON_LOGICAL_NC_CONFIG=%u, but the device process runs with %u",
                            rt.env.lnc, lnc);
    if (first >= total || count > total - first)
        return kymo_err_set(err, -EINVAL, "visible cores %u to %u: the instance has %u", first, first + count - 1,
                            total);
    rt.cores = KYMO_NEW_ARRAY(struct libnrt_core, count);
    if (!rt.cores)
        return kymo_err_set(err, -ENOMEM, "no memory for %u cores", count);
    rt.n_cores = count;
    for (unsigned i = 0; i < count; i++) {
        unsigned pcore = (first + i) * lnc;

        rt.cores[i].vnc = first + i;
        rt.cores[i].nd_idx = pcore / rt.arch->pcores_per_device;
        rt.cores[i].first_pcore = pcore % rt.arch->pcores_per_device;
    }
    return 0;
}

static int start(struct kymo_err *err)
{
    int r = libnrt_env_read(process_env, NULL, &rt.env, err);

    if (r == 0)
        r = libnrt_connect(&rt.sock, &rt.hello, err);
    if (r < 0)
        return r;
    rt.arch = kymo_arch_find(rt.hello.instance);
    if (!rt.arch || rt.hello.lnc < 1 || rt.hello.lnc > 2 || rt.hello.vnc_count == 0 ||
        rt.hello.vnc_count > LIBNRT_CORES_MAX)
        return kymo_err_set(err, -EPROTO, "device process: instance %s with %u cores of LNC %u", rt.hello.instance,
                            rt.hello.vnc_count, rt.hello.lnc);
    return choose_cores(err);
}

static struct nrt_model *model_free(struct nrt_model *m)
{
    if (!m)
        return NULL;
    m->image = sim_image_free(m->image);
    kymo_free(m->bytes);
    kymo_free(m);
    return NULL;
}

static void model_freep(struct nrt_model **m)
{
    *m = model_free(*m);
}

/* The device hears it before the call returns, so that whoever comes next finds the cores free. */
static void detach(struct libnrt_core *core)
{
    struct sim_request q;
    struct sim_answer a;

    libnrt_capture_disarm(core);
    if (!core->attached)
        return;
    libnrt_request(&q, SIM_OP_DETACH, core->vnc);
    if (libnrt_call(&q, -1, &a, NULL, NULL) < 0) {
        /* The end of the connection says it too. */
    }
    core->attached = false;
}

static void release(void)
{
    for (unsigned i = 0; i < rt.n_cores; i++)
        detach(&rt.cores[i]);
    for (size_t i = 0; i < LIBNRT_MODELS_MAX; i++)
        rt.models[i] = model_free(rt.models[i]);
    libnrt_trace_forget();
    kymo_free(rt.cores);
    rt.cores = NULL;
    rt.n_cores = 0;
    rt.sock = kymo_file_close(rt.sock);
}

void libnrt_models_release(unsigned core)
{
    for (size_t i = 0; i < LIBNRT_MODELS_MAX; i++)
        if (rt.models[i] && rt.models[i]->unloaded && rt.models[i]->core == core)
            rt.models[i] = model_free(rt.models[i]);
}

NRT_STATUS nrt_init(nrt_framework_type_t framework, const char *fw_version, const char *fal_version)
{
    struct kymo_err err = {0};
    struct nrt_inspect_config inspect;
    NRT_STATUS status = NRT_SUCCESS;
    int r;

    (void)fw_version;
    (void)fal_version;
    if (framework <= NRT_FRAMEWORK_TYPE_INVALID || framework > NRT_FRAMEWORK_TYPE_PRECHECK)
        return NRT_INVALID;
    (void)pthread_mutex_lock(&rt.lock);
    if (rt.state == LIBNRT_READY)
        return libnrt_leave(NRT_SUCCESS);
    libnrt_async_reset();
    r = start(&err);
    if (r == 0)
        r = libnrt_inspect_read(process_env, NULL, &inspect, &err);
    if (r < 0) {
        libnrt_say("nrt_init: %s", err.text);
        release();
        return libnrt_leave(libnrt_status_of(r));
    }
    rt.pid = getpid();
    rt.executions = 0;
    rt.run++;
    rt.state = LIBNRT_READY;
    if (inspect.enable || inspect.on_fail)
        status = libnrt_inspect_start(&inspect);
    if (status != NRT_SUCCESS)
        libnrt_say("nrt_init: inspection does not start (%d), going on without", (int)status);
    return libnrt_leave(NRT_SUCCESS);
}

void nrt_close(void)
{
    if (libnrt_enter() != NRT_SUCCESS)
        return;
    libnrt_async_wait();
    libnrt_profile_close();
    release();
    rt.state = LIBNRT_CLOSED;
    (void)libnrt_leave(NRT_SUCCESS);
}

struct libnrt_core *libnrt_core_of(int32_t vnc)
{
    return vnc >= 0 && (unsigned)vnc < rt.n_cores ? &rt.cores[vnc] : NULL;
}

struct nrt_model *libnrt_model_of(const nrt_model_t *handle)
{
    for (size_t i = 0; handle && i < LIBNRT_MODELS_MAX; i++)
        if (rt.models[i] == handle && !rt.models[i]->unloaded)
            return rt.models[i];
    return NULL;
}

struct nrt_model *libnrt_model_by_id(uint64_t id)
{
    for (size_t i = 0; i < LIBNRT_MODELS_MAX; i++)
        if (rt.models[i] && rt.models[i]->id == id)
            return rt.models[i];
    return NULL;
}

NRT_STATUS libnrt_attach(struct libnrt_core *core)
{
    struct kymo_err err = {0};
    struct sim_request q;
    struct sim_answer a;
    int r;

    if (core->attached)
        return NRT_SUCCESS;
    libnrt_request(&q, SIM_OP_ATTACH, core->vnc);
    q.attach.slow_factor = rt.env.slow_factor;
    q.attach.dge_notifications = rt.env.dge_notifications;
    r = libnrt_call(&q, -1, &a, NULL, &err);
    if (r < 0) {
        libnrt_say("core %u: %s", core->vnc, err.text);
        return libnrt_status_of(r);
    }
    core->attached = true;
    libnrt_trace_memory(core, SYSTRACE_USAGE_GENERIC, true, SIM_WIRE_RUNTIME_BYTES * rt.hello.lnc, a.host_ns);
    libnrt_trace_memory(core, SYSTRACE_USAGE_DMA_RINGS_RUNTIME, true, SIM_WIRE_DMA_RING_BYTES * rt.hello.lnc,
                        a.host_ns);
    libnrt_inspect_attached(core);
    return NRT_SUCCESS;
}

/* Sealed, so that the device may read it in place. */
static int make_memfd(const void *bytes, size_t size, struct kymo_err *err)
{
    int fd KYMO_CLOSE = memfd_create("neff", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int taken, r;

    if (fd < 0)
        return kymo_err_set(err, -errno, "NEFF: no memory file: %s", strerror(errno));
    r = kymo_file_pwrite_all(fd, bytes, size, 0, "NEFF", err);
    if (r < 0)
        return r;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return kymo_err_set(err, -errno, "NEFF: cannot seal the memory file: %s", strerror(errno));
    taken = fd;
    fd = -1;
    return taken;
}

static int load_on_device(struct libnrt_core *core, const void *bytes, size_t size, const struct sim_wire_comm *comm,
                          struct sim_answer *ret, struct kymo_err *err)
{
    struct sim_request q;
    int fd KYMO_CLOSE = make_memfd(bytes, size, err);

    if (fd < 0)
        return fd;
    libnrt_request(&q, SIM_OP_LOAD, core->vnc);
    q.bytes = size;
    q.comm = *comm;
    return libnrt_call(&q, fd, ret, NULL, err);
}

/* The host's own reading of the NEFF: what the profile describes. The device has built the same from the same bytes. */
static int read_model(struct nrt_model *m, struct kymo_err *err)
{
    struct neff *neff = NULL;
    int r = neff_open_memory(m->bytes, m->size, "NEFF", NEFF_NO_DEBUG, &neff, err);

    if (r == 0)
        r = kymo_hash_sha256(m->bytes, m->size, m->sha256);
    if (r == 0)
        r = sim_image_build(rt.arch, rt.hello.lnc, neff, m->id, &m->image, err);
    if (r < 0)
        neff_freep(&neff);
    return r;
}

static unsigned count_instances(const struct nrt_model *m)
{
    unsigned n = 0;

    for (size_t i = 0; i < LIBNRT_MODELS_MAX; i++)
        if (rt.models[i] && rt.models[i]->core == m->core && memcmp(rt.models[i]->sha256, m->sha256, 32) == 0)
            n = rt.models[i]->instance + 1 > n ? rt.models[i]->instance + 1 : n;
    return n;
}

static int load(struct libnrt_core *core, const void *bytes, size_t size, const struct sim_wire_comm *comm,
                struct nrt_model **ret, struct kymo_err *err)
{
    struct nrt_model *m KYMO_CLEANUP(model_freep) = KYMO_NEW(struct nrt_model);
    struct sim_answer a;
    size_t slot = 0;
    int r;

    while (slot < LIBNRT_MODELS_MAX && rt.models[slot])
        slot++;
    if (slot == LIBNRT_MODELS_MAX)
        return kymo_err_set(err, -ENOSPC, "%u models are loaded already", LIBNRT_MODELS_MAX);
    if (m)
        m->bytes = kymo_malloc(size);
    if (!m || !m->bytes)
        return kymo_err_set(err, -ENOMEM, "no memory for a NEFF of %zu bytes", size);
    memcpy(m->bytes, bytes, size);
    m->size = size;
    m->core = (unsigned)(core - rt.cores);
    m->rank = comm->rank;
    r = load_on_device(core, bytes, size, comm, &a, err);
    m->id = r == 0 ? a.model_id : 0;
    if (r == 0)
        r = read_model(m, err);
    if (r < 0)
        return r;
    m->instance = count_instances(m);
    libnrt_trace_load(core, m, &a, true);
    rt.models[slot] = m;
    *ret = KYMO_TAKE(m);
    return 0;
}

static NRT_STATUS load_any(const void *neff, size_t size, int32_t vnc, const struct sim_wire_comm *comm,
                           nrt_model_t **model)
{
    struct kymo_err err = {0};
    struct libnrt_core *core;
    struct nrt_model *m = NULL;
    NRT_STATUS status = libnrt_enter();
    int r;

    if (status != NRT_SUCCESS)
        return status;
    core = libnrt_core_of(vnc == -1 ? 0 : vnc);
    if (!neff || size == 0 || !model)
        return libnrt_leave(NRT_INVALID);
    if (!core)
        return libnrt_leave(NRT_LOAD_NOT_ENOUGH_NC);
    status = libnrt_attach(core);
    if (status != NRT_SUCCESS)
        return libnrt_leave(status);
    r = load(core, neff, size, comm, &m, &err);
    if (r < 0) {
        libnrt_say("%s on core %u: %s", comm->world ? "nrt_load_collectives" : "nrt_load", core->vnc, err.text);
        return libnrt_leave(libnrt_status_of(r));
    }
    *model = m;
    return libnrt_leave(NRT_SUCCESS);
}

NRT_STATUS nrt_load(const void *neff, size_t size, int32_t vnc, int32_t vnc_count, nrt_model_t **model)
{
    (void)vnc_count; /* deprecated: a NEFF takes one logical core */
    return load_any(neff, size, vnc, &(struct sim_wire_comm){0}, model);
}

NRT_STATUS nrt_load_collectives(const void *neff, size_t size, int32_t vnc, int32_t vnc_count, uint32_t ctx_device_id,
                                uint32_t ctx_device_count, nrt_model_t **model)
{
    struct sim_wire_comm comm = {.rank = ctx_device_id, .world = ctx_device_count};

    (void)vnc_count;
    if (ctx_device_count == 0 || ctx_device_id >= ctx_device_count)
        return NRT_INVALID;
    (void)pthread_mutex_lock(&rt.lock);
    comm.job = rt.env.job;
    comm.timeout_ms = (uint32_t)(rt.env.timeout_s * 1000);
    (void)pthread_mutex_unlock(&rt.lock);
    return load_any(neff, size, vnc, &comm, model);
}

NRT_STATUS nrt_unload(nrt_model_t *model)
{
    struct sim_request q;
    struct sim_answer a;
    struct nrt_model *m;
    NRT_STATUS status = libnrt_enter();
    int r;

    if (status != NRT_SUCCESS)
        return status;
    m = libnrt_model_of(model);
    if (!m)
        return libnrt_leave(NRT_INVALID_HANDLE);
    libnrt_async_wait();
    libnrt_request(&q, SIM_OP_UNLOAD, rt.cores[m->core].vnc);
    q.model_id = m->id;
    r = libnrt_call(&q, -1, &a, NULL, NULL);
    if (r == 0)
        libnrt_trace_load(&rt.cores[m->core], m, &a, false);
    m->unloaded = true;
    if (!rt.cores[m->core].capture)
        libnrt_models_release(m->core);
    return libnrt_leave(libnrt_status_of(r));
}

/* Before nrt_init too, hence a connection of its own then. */
static NRT_STATUS count_cores(uint32_t *count, bool visible)
{
    struct sim_wire_hello hello;
    struct libnrt_env env;
    int sock KYMO_CLOSE = -1;
    int r = 0;

    if (!count)
        return NRT_INVALID;
    (void)pthread_mutex_lock(&rt.lock);
    if (rt.state == LIBNRT_READY) {
        *count = visible ? rt.n_cores : rt.hello.vnc_count;
        return libnrt_leave(NRT_SUCCESS);
    }
    (void)pthread_mutex_unlock(&rt.lock);
    r = libnrt_env_read(process_env, NULL, &env, NULL);
    if (r == 0)
        r = libnrt_connect(&sock, &hello, NULL);
    if (r < 0)
        return libnrt_status_of(r);
    *count = visible && env.vnc_count ? env.vnc_count : hello.vnc_count;
    return NRT_SUCCESS;
}

NRT_STATUS nrt_get_total_nc_count(uint32_t *count)
{
    return count_cores(count, false);
}

NRT_STATUS nrt_get_total_vnc_count(uint32_t *count)
{
    return count_cores(count, false);
}

NRT_STATUS nrt_get_visible_nc_count(uint32_t *count)
{
    return count_cores(count, true);
}

NRT_STATUS nrt_get_visible_vnc_count(uint32_t *count)
{
    return count_cores(count, true);
}

NRT_STATUS nrt_get_model_vnc_count(const nrt_model_t *model, uint32_t *count)
{
    NRT_STATUS status = libnrt_enter();

    if (status != NRT_SUCCESS)
        return status;
    if (!libnrt_model_of(model) || !count)
        return libnrt_leave(count ? NRT_INVALID_HANDLE : NRT_INVALID);
    *count = 1;
    return libnrt_leave(NRT_SUCCESS);
}

NRT_STATUS nrt_get_model_nc_count(const nrt_model_t *model, uint32_t *count)
{
    return nrt_get_model_vnc_count(model, count);
}

NRT_STATUS nrt_get_version(nrt_version_t *version, size_t size)
{
    nrt_version_t v = {.rt_major = RUNTIME_MAJOR, .rt_minor = RUNTIME_MINOR};

    if (!version || size == 0)
        return NRT_INVALID;
    (void)snprintf(v.rt_detail, sizeof v.rt_detail, "%d.%d.0 simulated by kymo %s", RUNTIME_MAJOR, RUNTIME_MINOR,
                   KYMO_VERSION);
    memcpy(version, &v, size < sizeof v ? size : sizeof v);
    return NRT_SUCCESS;
}

NRT_STATUS nrt_get_instance_info(nrt_instance_info_t *info, size_t size)
{
    nrt_instance_info_t v = {0};
    NRT_STATUS status;

    if (!info || size == 0)
        return NRT_INVALID;
    status = libnrt_enter();
    if (status != NRT_SUCCESS)
        return status;
    (void)snprintf(v.arch_name, sizeof v.arch_name, "%.15s", rt.arch->name);
    (void)libnrt_leave(NRT_SUCCESS);
    memcpy(info, &v, size < sizeof v ? size : sizeof v);
    return NRT_SUCCESS;
}

/* Ranks meet at each execution; there is nothing to build beforehand. */
NRT_STATUS nrt_build_global_comm(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count)
{
    NRT_STATUS status = libnrt_enter();

    if (status != NRT_SUCCESS)
        return status;
    if (!libnrt_core_of(vnc) || g_device_count == 0 || g_device_id >= g_device_count)
        return libnrt_leave(NRT_INVALID);
    return libnrt_leave(NRT_SUCCESS);
}

NRT_STATUS nrt_cc_global_comm_init(uint32_t vnc, uint32_t g_device_id, uint32_t g_device_count)
{
    return nrt_build_global_comm(vnc <= INT32_MAX ? (int32_t)vnc : -1, g_device_id, g_device_count);
}
