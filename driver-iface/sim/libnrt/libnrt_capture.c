/* One core's profile: arms the rings, keeps what the runtime itself knows, writes the file. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "driver-iface/sim/libnrt/libnrt.h"
#include "driver-iface/sim/libnrt/libnrt_systrace.h"
#include "driver-iface/sim/sim_ring.h"
#include "formats/ntff/ntff_writer.h"

static struct libnrt_capture *capture_free(struct libnrt_capture *c)
{
    if (!c)
        return NULL;
    if (c->area)
        (void)munmap(c->area, c->area_bytes);
    for (size_t i = 0; i < c->n_images; i++)
        (void)sim_image_free(c->images[i]);
    kymo_free(c->executions);
    kymo_free(c);
    return NULL;
}

static void capture_freep(struct libnrt_capture **c)
{
    *c = capture_free(*c);
}

/* The device lays the rings out by the same plan; only their size is agreed upon by comparing. */
static int map_area(struct libnrt_capture *c, int fd, uint64_t bytes, struct kymo_err *err)
{
    struct stat st;
    void *area;

    c->area_bytes = sim_ring_layout(c->plan, c->n_plan, c->offsets);
    if (c->area_bytes == 0 || c->area_bytes != bytes || fstat(fd, &st) < 0 || (uint64_t)st.st_size < bytes)
        return kymo_err_set(err, -EPROTO, "rings: the device has %llu bytes of them, %llu were expected",
                            (unsigned long long)bytes, (unsigned long long)c->area_bytes);
    area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (area == MAP_FAILED)
        return kymo_err_set(err, -ENOMEM, "rings: cannot map %llu bytes: %s", (unsigned long long)bytes,
                            strerror(errno));
    c->area = area;
    return 0;
}

static void plan_rings(const struct libnrt_core *core, struct libnrt_capture *c)
{
    unsigned engine;
    unsigned reasons =
        kymo_h2d_reasons(rt.arch, core->first_pcore, rt.hello.lnc, rt.hello.driver_version, &rt.env.sizes, &engine);

    c->n_plan =
        kymo_ring_plan(rt.arch, core->first_pcore, rt.hello.lnc, rt.hello.driver_version, &rt.env.sizes, c->plan);
    c->host_dma = NTFF__HOST_DMA_STATE__HOST_DMA_TRACED;
    for (int s = KYMO_H2D_ODD_CORE; s > KYMO_H2D_TRACED; s--)
        if (reasons & 1u << s)
            c->host_dma = (Ntff__HostDmaState)s;
}

static int control(const struct libnrt_core *core, enum sim_op_code op, struct kymo_err *err)
{
    struct sim_request q;
    struct sim_answer a;

    libnrt_request(&q, op, core->vnc);
    return libnrt_call(&q, -1, &a, NULL, err);
}

/* Each physical core of a logical one holds the same. */
static uint64_t shared_out(uint64_t bytes)
{
    return (bytes + rt.hello.lnc - 1) / rt.hello.lnc * rt.hello.lnc;
}

int libnrt_capture_arm(struct libnrt_core *core, Ntff__CaptureMode mode, struct kymo_err *err)
{
    struct libnrt_capture *c KYMO_CLEANUP(capture_freep) = NULL;
    struct sim_request q;
    struct sim_answer a;
    int fd KYMO_CLOSE = -1;
    int r;

    if (core->capture)
        return kymo_err_set(err, -EALREADY, "core %u is being profiled already", core->vnc);
    c = KYMO_NEW(struct libnrt_capture);
    if (!c)
        return kymo_err_set(err, -ENOMEM, "no memory to profile core %u", core->vnc);
    c->mode = mode;
    plan_rings(core, c);
    libnrt_request(&q, SIM_OP_ARM, core->vnc);
    q.mode = (uint32_t)mode;
    memcpy(q.sizes, rt.env.sizes.bytes, sizeof q.sizes);
    r = libnrt_call(&q, -1, &a, &fd, err);
    if (r < 0)
        return r;
    r = map_area(c, fd, a.bytes, err);
    if (r < 0) {
        (void)control(core, SIM_OP_DISARM, NULL);
        return r;
    }
    core->capture = KYMO_TAKE(c);
    libnrt_trace_memory(core, SYSTRACE_USAGE_PROFILER_BUFFERS, true, shared_out(core->capture->area_bytes), a.host_ns);
    libnrt_capture_sync(core);
    core->capture->start_unix_ns = core->capture->syncs[0].host_ns;
    return 0;
}

void libnrt_capture_disarm(struct libnrt_core *core)
{
    struct sim_request q;
    struct sim_answer a;

    if (!core->capture)
        return;
    libnrt_request(&q, SIM_OP_DISARM, core->vnc);
    if (libnrt_call(&q, -1, &a, NULL, NULL) == 0)
        libnrt_trace_memory(core, SYSTRACE_USAGE_PROFILER_BUFFERS, false, shared_out(core->capture->area_bytes),
                            a.host_ns);
    core->capture = capture_free(core->capture);
    libnrt_models_release((unsigned)(core - rt.cores));
}

int libnrt_capture_restart(struct libnrt_core *core, struct kymo_err *err)
{
    struct libnrt_capture *c = core->capture;
    int r = control(core, SIM_OP_RESTART, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < c->n_images; i++)
        (void)sim_image_free(c->images[i]);
    c->n_images = c->n_executions = c->n_syncs = 0;
    libnrt_capture_sync(core);
    c->start_unix_ns = c->syncs[0].host_ns;
    return 0;
}

void libnrt_capture_sync(struct libnrt_core *core)
{
    struct libnrt_capture *c = core->capture;
    struct sim_request q;
    struct sim_answer a;

    if (!c)
        return;
    if (c->n_syncs == LIBNRT_SYNCS_MAX)
        c->n_syncs--; /* first and last are worth more than one in between */
    libnrt_request(&q, SIM_OP_NOW, core->vnc);
    if (libnrt_call(&q, -1, &a, NULL, NULL) == 0)
        c->syncs[c->n_syncs++] = (struct libnrt_sync){.ps = a.now_ps, .host_ns = a.host_ns};
}

/* A ring's readable records as one run of bytes. */
struct ring_bytes {
    struct nq_span spans[2];
};

static int read_ring(void *ctx, uint64_t off, void *buf, size_t n)
{
    const struct ring_bytes *b = ctx;
    uint64_t first = b->spans[0].records * KYMO_RECORD_SIZE;
    size_t part = 0;

    if (off < first) {
        part = first - off < n ? (size_t)(first - off) : n;
        memcpy(buf, b->spans[0].data + off, part);
    }
    if (part < n)
        memcpy((uint8_t *)buf + part, b->spans[1].data + (off + part - first), n - part);
    return 0;
}

struct writing {
    Ntff__NtffInfo *info;
    struct ntff_image_source *images;
    size_t n_images;
    struct ntff_ring_source rings[KYMO_RING_PLAN_MAX];
    struct ring_bytes bytes[KYMO_RING_PLAN_MAX];
    size_t n_rings;
};

static struct writing *writing_free(struct writing *w)
{
    if (!w)
        return NULL;
    if (w->info)
        ntff__ntff_info__free_unpacked(w->info, NULL);
    kymo_free(w->images);
    kymo_free(w);
    return NULL;
}

static void writing_freep(struct writing **w)
{
    *w = writing_free(*w);
}

/* The counters come from the device; where they do not fit what is in the ring they are left out, not bent. */
static void take_counters(const struct nq_control *control, uint64_t stored, Ntff__TraceInfo *t)
{
    uint64_t emitted = atomic_load(&control->emitted), dropped = atomic_load(&control->dropped);

    if (emitted < dropped || emitted - dropped != stored)
        return;
    t->emitted_oneof_case = NTFF__TRACE_INFO__EMITTED_ONEOF_EMITTED;
    t->emitted = emitted;
    t->dropped_oneof_case = NTFF__TRACE_INFO__DROPPED_ONEOF_DROPPED;
    t->dropped = dropped;
}

static int take_ring(const struct libnrt_capture *c, size_t i, Ntff__TraceInfo *t, struct writing *w,
                     struct kymo_err *err)
{
    struct nq_control *control = (struct nq_control *)(void *)c->area + i;
    struct ring_bytes *b = &w->bytes[w->n_rings];
    struct nq *q KYMO_CLEANUP(nq_freep) = NULL;
    uint64_t stored;
    int r = nq_new(control, c->area + c->offsets[i], c->plan[i].bytes, &q, err);

    if (r < 0)
        return r;
    stored = nq_peek(q, b->spans);
    take_counters(control, stored, t);
    w->rings[w->n_rings++] =
        (struct ntff_ring_source){.info = t, .bytes = {.size = stored * KYMO_RECORD_SIZE, .read = read_ring, .ctx = b}};
    return 0;
}

static Ntff__TraceInfo *find_trace(Ntff__NtffInfo *info, const struct kymo_ring_plan *p, unsigned first_pcore)
{
    Ntff__TraceInfo **traces = info->session_notifications;
    size_t n = info->n_session_notifications;

    if (info->mode != NTFF__CAPTURE_MODE__MODE_SESSION) {
        Ntff__SubgraphInfo *g = info->neff_nodes[0]->nd_node->graphs[0];
        const Ntff__NdNodeInfo *nd = info->neff_nodes[0]->nd_node;

        for (size_t i = 0; i < nd->n_graphs; i++)
            if (nd->graphs[i]->nc_idx == first_pcore + p->pcore_idx)
                g = nd->graphs[i];
        traces = g->traces;
        n = g->n_traces;
    }
    for (size_t i = 0; i < n; i++)
        if ((unsigned)traces[i]->ring == (unsigned)p->ring && traces[i]->nc_idx == p->nc_idx &&
            traces[i]->engine_index == p->engine_index)
            return traces[i];
    return NULL;
}

static int take_rings(const struct libnrt_core *core, struct writing *w, struct kymo_err *err)
{
    const struct libnrt_capture *c = core->capture;

    for (size_t i = 0; i < c->n_plan; i++) {
        Ntff__TraceInfo *t = find_trace(w->info, &c->plan[i], core->first_pcore);
        int r = t ? take_ring(c, i, t, w, err) : kymo_err_set(err, -EINVAL, "ring %zu has no place in the profile", i);

        if (r < 0)
            return r;
    }
    return 0;
}

static int take_images(const struct libnrt_capture *c, struct writing *w, struct kymo_err *err)
{
    w->images = KYMO_NEW_ARRAY(struct ntff_image_source, c->n_images * 2 * KYMO_ENGINE_MAX);
    if (!w->images)
        return kymo_err_set(err, -ENOMEM, "no memory for %zu images", c->n_images);
    for (size_t i = 0; i < c->n_images; i++) {
        const Ntff__NdNodeInfo *nd = w->info->neff_nodes[i]->nd_node;

        for (size_t g = 0; g < nd->n_graphs && g < 2; g++)
            for (size_t k = 0; k < nd->graphs[g]->n_instruction_info && k < KYMO_ENGINE_MAX; k++) {
                Ntff__EngineInstructionInfo *info = nd->graphs[g]->instruction_info[k];
                const struct sim_engine_image *e = &c->images[i]->cores[g].engines[info->nc_engine_type];

                w->images[w->n_images++] = (struct ntff_image_source){
                    .info = info, .bytes = ntff_source_memory(e->code, (size_t)e->count * 64)};
            }
    }
    return 0;
}

static int write_profile(struct libnrt_core *core, const char *path, struct kymo_err *err)
{
    struct writing *w KYMO_CLEANUP(writing_freep) = KYMO_NEW(struct writing);
    int r;

    if (!w)
        return kymo_err_set(err, -ENOMEM, "%s: no memory to write it", path);
    libnrt_capture_sync(core);
    w->info = libnrt_ntff_build(core);
    if (!w->info)
        return kymo_err_set(err, -ENOMEM, "%s: no memory for its description", path);
    r = take_images(core->capture, w, err);
    if (r == 0)
        r = take_rings(core, w, err);
    return r < 0 ? r : ntff_writer_write(path, w->info, w->images, w->n_images, w->rings, w->n_rings, err);
}

/* The truth comes from the model, which the device process has; a device without --truth has none to give. */
static int write_truth(const struct libnrt_core *core, const char *path, struct kymo_err *err)
{
    size_t n = strlen(path), skip = n > SIM_WIRE_NAME_MAX ? n - SIM_WIRE_NAME_MAX : 0;
    const char *slash = strrchr(path, '/');
    struct sim_request q;
    struct sim_answer a;
    int r;

    libnrt_request(&q, SIM_OP_TRUTH, core->vnc);
    if (slash && path + skip > slash)
        return kymo_err_set(err, -ENAMETOOLONG, "%s: its name is too long for a truth directory", path);
    (void)snprintf(q.name, sizeof q.name, "%s", path + skip);
    r = libnrt_call(&q, -1, &a, NULL, err);
    return r == -ENOTSUP ? 0 : r;
}

int libnrt_capture_write(struct libnrt_core *core, const char *path, struct kymo_err *err)
{
    int r;

    if (core->capture->n_executions == 0)
        return kymo_file_write_atomic(path, "", 0, err);
    r = control(core, SIM_OP_FREEZE, err);
    if (r < 0)
        return r;
    r = write_profile(core, path, err);
    if (r == 0)
        r = write_truth(core, path, err);
    (void)control(core, SIM_OP_THAW, NULL);
    return r;
}
