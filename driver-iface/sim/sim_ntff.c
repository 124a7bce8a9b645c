#include "driver-iface/sim/sim_ntff.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "arch/layout.h"
#include "base/alloc.h"
#include "formats/ntff/ntff_writer.h"
#include "proto/ntff.pb-c.h"

#define NTFF_VERSION 7

#define NEW_MESSAGE(T, INIT)                                                                                           \
    __extension__({                                                                                                    \
        T *msg_ = KYMO_NEW(T);                                                                                         \
        if (msg_)                                                                                                      \
            *msg_ = (T)INIT;                                                                                           \
        msg_;                                                                                                          \
    })

struct builder {
    const struct sim_ntff_capture *cap;
    Ntff__NtffInfo *info;
    struct ntff_image_source *images;
    size_t image_count, image_room;
    struct ntff_ring_source rings[KYMO_RING_PLAN_MAX];
    size_t ring_count;
};

static bool set_string(char **at, const char *s)
{
    char *copy = kymo_strdup(s);
    if (!copy)
        return false;
    *at = copy;
    return true;
}

static const struct {
    uint8_t trace_type, block_type;
} ring_types[KYMO_RING_MAX] = {
#define X(id, suffix, mb, tt, bt) [KYMO_RING_##id] = {tt, bt},
    KYMO_RING_MAP(X)
#undef X
};

static bool add_version(Ntff__VersionInfo **at, const char *text)
{
    Ntff__VersionInfo *v = NEW_MESSAGE(Ntff__VersionInfo, NTFF__VERSION_INFO__INIT);
    if (!v)
        return false;
    *at = v;
    (void)sscanf(text, "%u.%u.%u", &v->major, &v->minor, &v->patch);
    return set_string(&v->text, text);
}

static Ntff__TraceInfo *make_trace(struct builder *b, size_t i)
{
    Ntff__TraceInfo *t = NEW_MESSAGE(Ntff__TraceInfo, NTFF__TRACE_INFO__INIT);
    if (!t)
        return NULL;
    const struct kymo_ring_plan *plan = &b->cap->plan[i];
    t->trace_type = (Ntff__NotificationTraceType)ring_types[plan->ring].trace_type;
    t->block_type = (Ntff__BlockType)ring_types[plan->ring].block_type;
    t->ring = (Ntff__RingKind)plan->ring;
    t->nc_idx = plan->nc_idx;
    t->engine_index = plan->engine_index;
    t->buffer_size = plan->bytes;
    if (!b->cap->no_counters) {
        t->emitted_oneof_case = NTFF__TRACE_INFO__EMITTED_ONEOF_EMITTED;
        t->dropped_oneof_case = NTFF__TRACE_INFO__DROPPED_ONEOF_DROPPED;
        sim_core_counters(b->cap->core, b->cap->first_pcore, i, &t->emitted, &t->dropped);
    }
    struct ntff_source bytes = {
        .size = sim_spill_size(b->cap->spill, i), .read = sim_spill_read, .ctx = sim_spill_ring(b->cap->spill, i)};
    b->rings[b->ring_count++] = (struct ntff_ring_source){.info = t, .bytes = bytes};
    return t;
}

/* Rings of a model capture are with the graph of their core, those of a session with the file. */
static bool add_traces(struct builder *b)
{
    bool session = b->cap->image_count > 1;
    Ntff__NdNodeInfo *nd = b->info->neff_nodes[0]->nd_node;
    if (session)
        b->info->session_notifications = KYMO_NEW_ARRAY(Ntff__TraceInfo *, b->cap->plan_count);
    if (session && !b->info->session_notifications)
        return false;
    for (size_t g = 0; !session && g < nd->n_graphs; g++) {
        nd->graphs[g]->traces = KYMO_NEW_ARRAY(Ntff__TraceInfo *, b->cap->plan_count);
        if (!nd->graphs[g]->traces)
            return false;
    }
    for (size_t i = 0; i < b->cap->plan_count; i++) {
        Ntff__TraceInfo *t = make_trace(b, i);
        if (!t)
            return false;
        if (session) {
            b->info->session_notifications[b->info->n_session_notifications++] = t;
            continue;
        }
        Ntff__SubgraphInfo *g = nd->graphs[b->cap->plan[i].pcore_idx < nd->n_graphs ? b->cap->plan[i].pcore_idx : 0];
        g->traces[g->n_traces++] = t;
    }
    return true;
}

static Ntff__BlockTimestampInfo *clock_message(const struct builder *b, enum kymo_ring ring, unsigned nc,
                                               unsigned engine)
{
    struct sim_clock k;
    if (!sim_core_clock(b->cap->core, ring, nc, engine, &k))
        return NULL;
    Ntff__BlockTimestampInfo *m = NEW_MESSAGE(Ntff__BlockTimestampInfo, NTFF__BLOCK_TIMESTAMP_INFO__INIT);
    if (m) {
        m->init_timestamp = k.init;
        m->actual_timestamp_inc = k.actual_inc;
        m->expected_timestamp_inc = k.expected_inc;
    }
    return m;
}

static bool add_engine_clocks(const struct builder *b, Ntff__NcTimestampInfo *t, unsigned nc)
{
    Ntff__BlockTimestampInfo **at[KYMO_ENGINE_MAX] = {[KYMO_ENGINE_TENSOR] = &t->tpb_pe,
                                                      [KYMO_ENGINE_SCALAR] = &t->tpb_act,
                                                      [KYMO_ENGINE_GPSIMD] = &t->tpb_pool,
                                                      [KYMO_ENGINE_VECTOR] = &t->tpb_dve,
                                                      [KYMO_ENGINE_SYNC] = &t->tpb_sp};
    for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++) {
        *at[e] = clock_message(b, KYMO_RING_INSTRUCTION, nc, e);
        if (!*at[e])
            return false;
    }
    return true;
}

/* CC-cores are listed by number, those of this profile's rings alone. */
static bool add_cc_clocks(const struct builder *b, Ntff__NcTimestampInfo *t, unsigned nc)
{
    t->top_sp = KYMO_NEW_ARRAY(Ntff__BlockTimestampInfo *, b->cap->plan_count);
    for (size_t i = 0; t->top_sp && i < b->cap->plan_count; i++) {
        const struct kymo_ring_plan *plan = &b->cap->plan[i];
        if (plan->ring != KYMO_RING_CC_CORE_INSTRUCTION)
            continue;
        Ntff__BlockTimestampInfo *m = clock_message(b, KYMO_RING_CC_CORE_INSTRUCTION, nc, plan->engine_index);
        if (!m)
            return false;
        t->top_sp[t->n_top_sp++] = m;
    }
    return t->top_sp != NULL;
}

static bool add_clocks(const struct builder *b, Ntff__SubgraphInfo *g)
{
    struct sim_clock k;
    if (!sim_core_clock(b->cap->core, KYMO_RING_INSTRUCTION, g->nc_idx, 0, &k))
        return true; /* this generation's clocks need no correction */
    Ntff__NcTimestampInfo *t = NEW_MESSAGE(Ntff__NcTimestampInfo, NTFF__NC_TIMESTAMP_INFO__INIT);
    if (!t)
        return false;
    g->timestamp_info = t;
    t->dma = KYMO_NEW_ARRAY(Ntff__BlockTimestampInfo *, SIM_DMA_ENGINES);
    t->h2d_dma = KYMO_NEW_ARRAY(Ntff__BlockTimestampInfo *, 1);
    if (!t->dma || !t->h2d_dma || !add_engine_clocks(b, t, g->nc_idx))
        return false;
    for (unsigned e = 0; e < SIM_DMA_ENGINES; e++) {
        t->dma[e] = clock_message(b, KYMO_RING_DMA, g->nc_idx, e);
        if (!t->dma[e])
            return false;
        t->n_dma++;
    }
    const struct kymo_arch *arch = b->cap->images[0]->arch;
    t->h2d_dma[0] =
        clock_message(b, KYMO_RING_H2D_DMA, g->nc_idx, arch->h2d_first + g->nc_idx / arch->h2d_pcores_per_engine);
    t->n_h2d_dma = t->h2d_dma[0] ? 1 : 0;
    return t->n_h2d_dma == 1 && (!g->cc_op_info || add_cc_clocks(b, t, g->nc_idx));
}

static bool add_images(struct builder *b, const struct sim_image *im, Ntff__NeffNodeInfo *node)
{
    for (size_t g = 0; g < node->nd_node->n_graphs; g++) {
        Ntff__SubgraphInfo *graph = node->nd_node->graphs[g];
        for (size_t i = 0; i < graph->n_instruction_info; i++) {
            Ntff__EngineInstructionInfo *info = graph->instruction_info[i];
            const struct sim_engine_image *ei = &im->cores[g].engines[info->nc_engine_type];
            if (b->image_count == b->image_room)
                return false;
            b->images[b->image_count++] = (struct ntff_image_source){
                .info = info, .bytes = ntff_source_memory(ei->code, (size_t)ei->count * KYMO_INSTR_SIZE)};
        }
        if (!add_clocks(b, graph))
            return false;
    }
    return true;
}

static bool add_nodes(struct builder *b)
{
    const struct sim_ntff_capture *cap = b->cap;
    b->info->neff_nodes = KYMO_NEW_ARRAY(Ntff__NeffNodeInfo *, cap->image_count);
    b->image_room = cap->image_count * 2 * KYMO_ENGINE_MAX;
    b->images = KYMO_NEW_ARRAY(struct ntff_image_source, b->image_room);
    if (!b->info->neff_nodes || !b->images)
        return false;
    for (size_t i = 0; i < cap->image_count; i++) {
        Ntff__NeffNodeInfo *node = sim_image_describe(cap->images[i], cap->nd_idx, cap->first_pcore, cap->rank);
        if (!node)
            return false;
        b->info->neff_nodes[b->info->n_neff_nodes++] = node;
        if (!add_images(b, cap->images[i], node))
            return false;
    }
    return true;
}

/* The rings belong to no program: their memory stands with the first one. */
static bool add_ring_memory(struct builder *b)
{
    Ntff__NdNodeInfo *nd = b->info->neff_nodes[0]->nd_node;
    for (size_t g = 0; g < nd->n_graphs; g++) {
        struct sim_memory_use use = {0};
        sim_memory_use_rings(b->cap->plan, b->cap->plan_count, (unsigned)g, &use);
        if (!sim_memory_use_describe(&use, nd->graphs[g]))
            return false;
    }
    return true;
}

static bool add_timeline(struct builder *b)
{
    b->info->execution_timeline = KYMO_NEW_ARRAY(Ntff__ExecutionInfo *, b->cap->execution_count);
    if (!b->info->execution_timeline)
        return false;
    for (size_t i = 0; i < b->cap->execution_count; i++) {
        const struct sim_ntff_execution *x = &b->cap->executions[i];
        Ntff__ExecutionInfo *e = NEW_MESSAGE(Ntff__ExecutionInfo, NTFF__EXECUTION_INFO__INIT);
        if (!e)
            return false;
        e->index = (uint32_t)i;
        e->neff_node = x->image;
        e->start_ps = x->result.start_ps;
        e->end_ps = x->result.end_ps;
        e->status = x->result.status;
        e->model_id = b->cap->images[x->image]->model_id;
        b->info->execution_timeline[b->info->n_execution_timeline++] = e;
    }
    return true;
}

static bool add_buffer_sizes(struct builder *b)
{
    b->info->notification_buffer_sizes = KYMO_NEW_ARRAY(Ntff__NotificationBufferSize *, KYMO_RING_MAX);
    if (!b->info->notification_buffer_sizes)
        return false;
    for (unsigned ring = 0; ring < KYMO_RING_MAX; ring++) {
        Ntff__NotificationBufferSize *s =
            NEW_MESSAGE(Ntff__NotificationBufferSize, NTFF__NOTIFICATION_BUFFER_SIZE__INIT);
        if (!s)
            return false;
        s->block_type = (Ntff__BlockType)ring_types[ring].block_type;
        s->trace_type = (Ntff__NotificationTraceType)ring_types[ring].trace_type;
        s->buffer_size = b->cap->sizes->bytes[ring];
        b->info->notification_buffer_sizes[b->info->n_notification_buffer_sizes++] = s;
    }
    return true;
}

static bool add_clock_sync(struct builder *b)
{
    b->info->clock_syncs = KYMO_NEW_ARRAY(Ntff__ClockSync *, 1);
    Ntff__ClockSync *s = NEW_MESSAGE(Ntff__ClockSync, NTFF__CLOCK_SYNC__INIT);
    if (!s || !b->info->clock_syncs) {
        kymo_free(s);
        return false;
    }
    b->info->clock_syncs[b->info->n_clock_syncs++] = s;
    s->nc_idx = b->cap->first_pcore;
    s->nc_timestamp_ps = b->cap->start_ps;
    s->cpu_timestamp_ns = b->cap->start_unix_ns;
    s->error_ns = 1000;
    return true;
}

static bool fill(struct builder *b)
{
    const struct sim_ntff_capture *cap = b->cap;
    Ntff__NtffInfo *info = b->info;
    info->ntff_version = NTFF_VERSION;
    info->profile_start_time = cap->start_unix_ns;
    info->nd_idx = cap->nd_idx;
    info->start_nc = cap->first_pcore;
    info->lnc_size = cap->lnc;
    info->vnc = cap->vnc;
    info->mode = cap->image_count > 1 ? NTFF__CAPTURE_MODE__MODE_SESSION : NTFF__CAPTURE_MODE__MODE_MODEL;
    info->dge_notifications = cap->dge_notifications;
    info->host_dma =
        cap->h2d_reasons ? (Ntff__HostDmaState)__builtin_ctz(cap->h2d_reasons) : NTFF__HOST_DMA_STATE__HOST_DMA_TRACED;
    return set_string(&info->arch, cap->images[0]->arch->name) && set_string(&info->instance_type, cap->instance) &&
           set_string(&info->hostname, "kymo-sim") && add_version(&info->neuron_runtime_version, KYMO_VERSION) &&
           add_version(&info->neuron_driver_version, cap->driver) && add_nodes(b) && add_ring_memory(b) &&
           add_traces(b) && add_timeline(b) && add_buffer_sizes(b) && add_clock_sync(b);
}

int sim_ntff_write(const struct sim_ntff_capture *cap, const char *path, struct kymo_err *err)
{
    struct builder b = {.cap = cap, .info = NEW_MESSAGE(Ntff__NtffInfo, NTFF__NTFF_INFO__INIT)};
    int r;
    if (!b.info || !fill(&b))
        r = kymo_err_set(err, -ENOMEM, "no memory for the description of %s", path);
    else
        r = ntff_writer_write(path, b.info, b.images, b.image_count, b.rings, b.ring_count, err);
    if (b.info)
        ntff__ntff_info__free_unpacked(b.info, NULL);
    kymo_free(b.images);
    return r;
}
