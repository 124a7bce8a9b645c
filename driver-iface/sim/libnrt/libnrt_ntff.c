/* The NTFF message of a capture: what the runtime knows beside the records. The message owns all of its memory. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "driver-iface/sim/libnrt/libnrt.h"

#define NTFF_FORMAT 7
#define SYNC_ERROR_NS 1 /* both clocks are read in one request; what is left is rounding */

/* Fresh message in *slot of an array that has room; false: out of memory. */
#define ADD(array, count, T, INIT)                                                                                     \
    __extension__({                                                                                                    \
        T *msg_ = KYMO_NEW(T);                                                                                         \
        if (msg_) {                                                                                                    \
            *msg_ = (T)INIT;                                                                                           \
            (array)[(count)++] = msg_;                                                                                 \
        }                                                                                                              \
        msg_;                                                                                                          \
    })

static const struct {
    uint8_t trace_type, block_type;
} ring_types[KYMO_RING_MAX] = {
#define X(id, suffix, mb, trace, block) [KYMO_RING_##id] = {trace, block},
    KYMO_RING_MAP(X)
#undef X
};

static bool set_text(char **at, const char *text)
{
    char *copy = kymo_strdup(text);

    if (copy)
        *at = copy;
    return copy != NULL;
}

static Ntff__VersionInfo *make_version(const char *text)
{
    Ntff__VersionInfo *v = KYMO_NEW(Ntff__VersionInfo);
    unsigned part[3] = {0};

    if (!v)
        return NULL;
    *v = (Ntff__VersionInfo)NTFF__VERSION_INFO__INIT;
    (void)sscanf(text, "%9u.%9u.%9u", &part[0], &part[1], &part[2]);
    v->major = part[0];
    v->minor = part[1];
    v->patch = part[2];
    if (!set_text(&v->text, text)) {
        ntff__version_info__free_unpacked(v, NULL);
        return NULL;
    }
    return v;
}

static bool add_versions(Ntff__NtffInfo *info)
{
    nrt_version_t v;
    char text[64];

    (void)nrt_get_version(&v, sizeof v);
    (void)snprintf(text, sizeof text, "%llu.%llu.%llu", (unsigned long long)v.rt_major, (unsigned long long)v.rt_minor,
                   (unsigned long long)v.rt_patch);
    info->neuron_runtime_version = make_version(text);
    info->neuron_driver_version = make_version(rt.hello.driver_version);
    return info->neuron_runtime_version && info->neuron_driver_version;
}

static bool add_texts(Ntff__NtffInfo *info)
{
    char host[256] = "";

    (void)gethostname(host, sizeof host - 1);
    return set_text(&info->arch, rt.arch->name) && set_text(&info->instance_type, rt.hello.instance) &&
           set_text(&info->hostname, host);
}

static bool clock_of(const struct libnrt_core *core, enum kymo_ring ring, unsigned nc, unsigned engine,
                     struct sim_wire_clock *ret)
{
    struct sim_request q;
    struct sim_answer a;

    libnrt_request(&q, SIM_OP_CLOCK, core->vnc);
    q.ring = ring;
    q.nc_idx = nc;
    q.engine = engine;
    if (libnrt_call(&q, -1, &a, NULL, NULL) < 0)
        return false;
    *ret = a.clock;
    return true;
}

static Ntff__BlockTimestampInfo *make_clock(const struct libnrt_core *core, enum kymo_ring ring, unsigned nc,
                                            unsigned engine)
{
    Ntff__BlockTimestampInfo *b = KYMO_NEW(Ntff__BlockTimestampInfo);
    struct sim_wire_clock k;

    if (!b || !clock_of(core, ring, nc, engine, &k)) {
        kymo_free(b);
        return NULL;
    }
    *b = (Ntff__BlockTimestampInfo)NTFF__BLOCK_TIMESTAMP_INFO__INIT;
    b->init_timestamp = k.init;
    b->actual_timestamp_inc = k.actual_inc;
    b->expected_timestamp_inc = k.expected_inc;
    return b;
}

static bool add_dma_clocks(const struct libnrt_core *core, unsigned nc, Ntff__NcTimestampInfo *t)
{
    t->dma = KYMO_NEW_ARRAY(Ntff__BlockTimestampInfo *, rt.arch->dma_engines);
    if (!t->dma)
        return false;
    for (unsigned e = 0; e < rt.arch->dma_engines; e++) {
        Ntff__BlockTimestampInfo *b = make_clock(core, KYMO_RING_DMA, nc, e);

        if (!b)
            return false;
        t->dma[t->n_dma++] = b;
    }
    return true;
}

static bool add_h2d_clocks(const struct libnrt_core *core, unsigned nc, Ntff__NcTimestampInfo *t)
{
    const struct libnrt_capture *c = core->capture;

    t->h2d_dma = KYMO_NEW_ARRAY(Ntff__BlockTimestampInfo *, KYMO_H2D_ENGINES_MAX);
    if (!t->h2d_dma)
        return false;
    for (size_t i = 0; i < c->n_plan && t->n_h2d_dma < KYMO_H2D_ENGINES_MAX; i++) {
        Ntff__BlockTimestampInfo *b;

        if (c->plan[i].ring != KYMO_RING_H2D_DMA || c->plan[i].nc_idx != nc)
            continue;
        b = make_clock(core, KYMO_RING_H2D_DMA, nc, c->plan[i].engine_index);
        if (!b)
            return false;
        t->h2d_dma[t->n_h2d_dma++] = b;
    }
    return true;
}

/* CC-cores by number, those that have a ring in this profile. */
static bool add_cc_clocks(const struct libnrt_core *core, unsigned nc, Ntff__NcTimestampInfo *t)
{
    const struct libnrt_capture *c = core->capture;

    t->top_sp = KYMO_NEW_ARRAY(Ntff__BlockTimestampInfo *, c->n_plan);
    for (size_t i = 0; t->top_sp && i < c->n_plan; i++) {
        Ntff__BlockTimestampInfo *b;

        if (c->plan[i].ring != KYMO_RING_CC_CORE_INSTRUCTION || c->plan[i].nc_idx != nc)
            continue;
        b = make_clock(core, KYMO_RING_CC_CORE_INSTRUCTION, nc, c->plan[i].engine_index);
        if (!b)
            return false;
        t->top_sp[t->n_top_sp++] = b;
    }
    return t->top_sp != NULL;
}

static bool add_clocks(const struct libnrt_core *core, Ntff__SubgraphInfo *g)
{
    Ntff__NcTimestampInfo *t;
    unsigned nc = g->nc_idx;

    if (!rt.arch->rescale)
        return true;
    t = KYMO_NEW(Ntff__NcTimestampInfo);
    if (!t)
        return false;
    *t = (Ntff__NcTimestampInfo)NTFF__NC_TIMESTAMP_INFO__INIT;
    g->timestamp_info = t;
    t->tpb_pe = make_clock(core, KYMO_RING_INSTRUCTION, nc, KYMO_ENGINE_TENSOR);
    t->tpb_act = make_clock(core, KYMO_RING_INSTRUCTION, nc, KYMO_ENGINE_SCALAR);
    t->tpb_dve = make_clock(core, KYMO_RING_INSTRUCTION, nc, KYMO_ENGINE_VECTOR);
    t->tpb_pool = make_clock(core, KYMO_RING_INSTRUCTION, nc, KYMO_ENGINE_GPSIMD);
    t->tpb_sp = make_clock(core, KYMO_RING_INSTRUCTION, nc, KYMO_ENGINE_SYNC);
    return t->tpb_pe && t->tpb_act && t->tpb_dve && t->tpb_pool && t->tpb_sp && add_dma_clocks(core, nc, t) &&
           add_h2d_clocks(core, nc, t) && (!g->cc_op_info || add_cc_clocks(core, nc, t));
}

static bool set_bytes(ProtobufCBinaryData *at, const uint8_t *data, size_t n)
{
    uint8_t *copy = kymo_malloc(n);

    if (!copy)
        return false;
    memcpy(copy, data, n);
    kymo_free(at->data);
    at->data = copy;
    at->len = n;
    return true;
}

static bool add_nodes(const struct libnrt_core *core, Ntff__NtffInfo *info)
{
    const struct libnrt_capture *c = core->capture;

    info->neff_nodes = KYMO_NEW_ARRAY(Ntff__NeffNodeInfo *, c->n_images);
    if (!info->neff_nodes)
        return false;
    for (size_t i = 0; i < c->n_images; i++) {
        Ntff__NeffNodeInfo *n = sim_image_describe(c->images[i], core->nd_idx, core->first_pcore, c->models[i]->rank);

        if (!n)
            return false;
        info->neff_nodes[info->n_neff_nodes++] = n;
        if (!set_bytes(&n->neff_sha256, c->models[i]->sha256, sizeof c->models[i]->sha256))
            return false;
        for (size_t g = 0; g < n->nd_node->n_graphs; g++)
            if (!add_clocks(core, n->nd_node->graphs[g]))
                return false;
    }
    return true;
}

static bool fill_trace(const struct kymo_ring_plan *p, Ntff__TraceInfo *t)
{
    if (!t)
        return false;
    t->trace_type = (Ntff__NotificationTraceType)ring_types[p->ring].trace_type;
    t->block_type = (Ntff__BlockType)ring_types[p->ring].block_type;
    t->ring = (Ntff__RingKind)p->ring;
    t->nc_idx = p->nc_idx;
    t->engine_index = p->engine_index;
    t->buffer_size = p->bytes;
    return true;
}

/* Rings that belong to the whole logical core stand with its first physical core, as their plan says. */
static bool add_core_traces(const struct libnrt_capture *c, unsigned pcore_idx, Ntff__SubgraphInfo *g)
{
    g->traces = KYMO_NEW_ARRAY(Ntff__TraceInfo *, KYMO_RING_PLAN_MAX);
    if (!g->traces)
        return false;
    for (size_t i = 0; i < c->n_plan; i++)
        if (c->plan[i].pcore_idx == pcore_idx &&
            !fill_trace(&c->plan[i], ADD(g->traces, g->n_traces, Ntff__TraceInfo, NTFF__TRACE_INFO__INIT)))
            return false;
    return true;
}

static bool add_traces(const struct libnrt_core *core, Ntff__NtffInfo *info)
{
    const struct libnrt_capture *c = core->capture;
    const Ntff__NdNodeInfo *nd = info->neff_nodes[0]->nd_node;

    if (c->mode != NTFF__CAPTURE_MODE__MODE_SESSION) {
        for (size_t g = 0; g < nd->n_graphs; g++)
            if (!add_core_traces(c, nd->graphs[g]->nc_idx - core->first_pcore, nd->graphs[g]))
                return false;
        return true;
    }
    info->session_notifications = KYMO_NEW_ARRAY(Ntff__TraceInfo *, KYMO_RING_PLAN_MAX);
    if (!info->session_notifications)
        return false;
    for (size_t i = 0; i < c->n_plan; i++)
        if (!fill_trace(&c->plan[i], ADD(info->session_notifications, info->n_session_notifications, Ntff__TraceInfo,
                                         NTFF__TRACE_INFO__INIT)))
            return false;
    return true;
}

/* The rings belong to no program: their memory stands with the first one. */
static bool add_ring_memory(const struct libnrt_core *core, const Ntff__NtffInfo *info)
{
    const struct libnrt_capture *c = core->capture;
    const Ntff__NdNodeInfo *nd = info->neff_nodes[0]->nd_node;

    for (size_t g = 0; g < nd->n_graphs; g++) {
        struct sim_memory_use use = {0};

        sim_memory_use_rings(c->plan, c->n_plan, nd->graphs[g]->nc_idx - core->first_pcore, &use);
        if (!sim_memory_use_describe(&use, nd->graphs[g]))
            return false;
    }
    return true;
}

static bool add_sizes(const struct libnrt_capture *c, Ntff__NtffInfo *info)
{
    bool seen[KYMO_RING_MAX] = {false};

    info->notification_buffer_sizes = KYMO_NEW_ARRAY(Ntff__NotificationBufferSize *, KYMO_RING_MAX);
    if (!info->notification_buffer_sizes)
        return false;
    for (size_t i = 0; i < c->n_plan; i++) {
        enum kymo_ring ring = c->plan[i].ring;
        Ntff__NotificationBufferSize *b;

        if (seen[ring])
            continue;
        seen[ring] = true;
        b = ADD(info->notification_buffer_sizes, info->n_notification_buffer_sizes, Ntff__NotificationBufferSize,
                NTFF__NOTIFICATION_BUFFER_SIZE__INIT);
        if (!b)
            return false;
        b->block_type = (Ntff__BlockType)ring_types[ring].block_type;
        b->trace_type = (Ntff__NotificationTraceType)ring_types[ring].trace_type;
        b->buffer_size = c->plan[i].bytes;
    }
    return true;
}

static bool add_timeline(const struct libnrt_capture *c, Ntff__NtffInfo *info)
{
    info->execution_timeline = KYMO_NEW_ARRAY(Ntff__ExecutionInfo *, c->n_executions);
    if (!info->execution_timeline)
        return false;
    for (size_t i = 0; i < c->n_executions; i++) {
        const struct libnrt_execution *x = &c->executions[i];
        Ntff__ExecutionInfo *e =
            ADD(info->execution_timeline, info->n_execution_timeline, Ntff__ExecutionInfo, NTFF__EXECUTION_INFO__INIT);

        if (!e)
            return false;
        e->index = (uint32_t)i;
        while (e->neff_node + 1 < c->n_images && c->images[e->neff_node]->model_id != x->model_id)
            e->neff_node++;
        e->start_ps = x->start_ps;
        e->end_ps = x->end_ps;
        e->status = x->status;
        e->model_id = x->model_id;
    }
    return true;
}

static bool add_syncs(const struct libnrt_core *core, Ntff__NtffInfo *info)
{
    const struct libnrt_capture *c = core->capture;

    info->clock_syncs = KYMO_NEW_ARRAY(Ntff__ClockSync *, c->n_syncs);
    if (!info->clock_syncs)
        return c->n_syncs == 0;
    for (size_t i = 0; i < c->n_syncs; i++) {
        Ntff__ClockSync *s = ADD(info->clock_syncs, info->n_clock_syncs, Ntff__ClockSync, NTFF__CLOCK_SYNC__INIT);

        if (!s)
            return false;
        s->nc_idx = core->first_pcore;
        s->nc_timestamp_ps = c->syncs[i].ps;
        s->cpu_timestamp_ns = c->syncs[i].host_ns;
        s->error_ns = SYNC_ERROR_NS;
    }
    return true;
}

static bool fill(const struct libnrt_core *core, Ntff__NtffInfo *info)
{
    const struct libnrt_capture *c = core->capture;

    info->ntff_version = NTFF_FORMAT;
    info->profile_start_time = c->start_unix_ns;
    info->pid = (uint64_t)getpid();
    info->session_id = c->session_id;
    info->nd_idx = core->nd_idx;
    info->start_nc = core->first_pcore;
    info->lnc_size = rt.hello.lnc;
    info->vnc = core->vnc;
    info->mode = c->mode;
    info->dge_notifications = rt.env.dge_notifications;
    info->host_dma = c->host_dma;
    return add_versions(info) && add_texts(info) && add_nodes(core, info) && add_traces(core, info) &&
           add_ring_memory(core, info) && add_sizes(c, info) && add_timeline(c, info) && add_syncs(core, info);
}

Ntff__NtffInfo *libnrt_ntff_build(const struct libnrt_core *core)
{
    Ntff__NtffInfo *info = KYMO_NEW(Ntff__NtffInfo);

    if (!info)
        return NULL;
    *info = (Ntff__NtffInfo)NTFF__NTFF_INFO__INIT;
    if (fill(core, info))
        return info;
    ntff__ntff_info__free_unpacked(info, NULL);
    return NULL;
}
