#include "driver-iface/sim/libnrt/libnrt_systrace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "arch/layout.h"
#include "base/alloc.h"
#include "proto/neuron_trace.pb-c.h"

#define PS_PER_NS 1000u
#define HOST_EXECUTE_NS 20000u /* as libnrt_execute.c has it */
#define HOST_COPY_NS 2000u
#define TRACKING_CORE_SHIFT 50
#define EVENTS_MIN 1024u
#define EVENTS_MAX 0x100000u /* as the vendor's library clamps (C) */
#define START NTFF__NTRACE_EVENT_PHASE_TYPE__PHASE_START
#define STOP NTFF__NTRACE_EVENT_PHASE_TYPE__PHASE_STOP
#define INSTANT NTFF__NTRACE_EVENT_PHASE_TYPE__PHASE_INSTANT

struct libnrt_trace libnrt_trace;

/* Bytes by device and HBM, counted also while nothing is traced: a trace that begins later tells true totals. */
static uint64_t (*held)[SYSTRACE_USAGE_MAX];

static unsigned index_of(const struct libnrt_core *core)
{
    return (unsigned)(core - rt.cores);
}

static unsigned hbm_of(const struct libnrt_core *core)
{
    return (unsigned)(core->first_pcore * rt.arch->hbm_stacks / rt.arch->pcores_per_device);
}

bool libnrt_trace_runs(void)
{
    return libnrt_trace.system || libnrt_trace.cpu || libnrt_trace.memory;
}

/* Begins or ends the truth in the device process. */
static int tell_device(unsigned flags, const char *name, struct kymo_err *err)
{
    struct sim_request q;
    struct sim_answer a;

    libnrt_request(&q, SIM_OP_SYSTEM, 0);
    q.flags = flags;
    (void)snprintf(q.name, sizeof q.name, "%s", name);
    return libnrt_call(&q, -1, &a, NULL, err);
}

static bool wants(enum libnrt_activity activity)
{
    return (rt.inspect.activities & 1u << activity) != 0;
}

static unsigned count_hbm(void)
{
    unsigned devices = 0;

    for (unsigned i = 0; i < rt.n_cores; i++)
        if (rt.cores[i].nd_idx >= devices)
            devices = rt.cores[i].nd_idx + 1;
    return devices * (unsigned)rt.arch->hbm_stacks;
}

static int make(struct libnrt_trace *t, struct kymo_err *err)
{
    uint64_t limit = rt.inspect.sys_trace_max_events;

    limit = limit < EVENTS_MIN ? EVENTS_MIN : limit > EVENTS_MAX ? EVENTS_MAX : limit;
    t->rings = KYMO_NEW_ARRAY(struct libnrt_trace_ring, rt.n_cores);
    if (!t->rings)
        return kymo_err_set(err, -ENOMEM, "no memory for a system trace");
    for (unsigned i = 0; i < rt.n_cores; i++)
        t->rings[i].limit = limit;
    return tell_device(0, "", err);
}

void libnrt_trace_begin(void)
{
    struct kymo_err err = {0};
    struct libnrt_trace t = {
        .system = rt.inspect.enable && wants(LIBNRT_ACTIVITY_SYSTEM),
        .cpu = rt.inspect.enable && wants(LIBNRT_ACTIVITY_CPU_UTIL),
        .memory = rt.inspect.enable && wants(LIBNRT_ACTIVITY_HOST_MEMORY),
        .period_ns = rt.env.sample_ms * 1000000ull,
    };

    if (!t.system && !t.cpu && !t.memory)
        return;
    if (make(&t, &err) < 0) {
        libnrt_say("the system is not traced: %s", err.text);
        kymo_free(t.rings);
        return;
    }
    libnrt_trace = t;
}

void libnrt_trace_end(void)
{
    struct libnrt_trace *t = &libnrt_trace;
    char name[SIM_WIRE_NAME_MAX + 1];

    if (!libnrt_trace_runs())
        return;
    (void)snprintf(name, sizeof name, "system_pid_%d_session_%llu", (int)getpid(),
                   (unsigned long long)rt.inspect.session_id + rt.sessions);
    /* Without --truth there is none, and nobody waits for it. */
    if (tell_device(SIM_FLAG_GIVE, name, NULL) < 0)
        (void)tell_device(SIM_FLAG_GIVE, "", NULL);
    for (unsigned i = 0; i < rt.n_cores; i++)
        kymo_free(t->rings[i].events);
    kymo_free(t->rings);
    kymo_free(t->samples);
    *t = (struct libnrt_trace){0};
}

static void take_sample(struct libnrt_trace *t, uint64_t ns)
{
    struct sim_request q;
    struct sim_answer a;
    void *p = t->samples;

    libnrt_request(&q, SIM_OP_HOST, 0);
    q.sequence = ns;
    if (kymo_grow(&p, &t->samples_cap, t->n_samples + 1, SYSTRACE_SAMPLES_MAX, sizeof *t->samples) == 0) {
        t->samples = p;
        if (libnrt_call(&q, -1, &a, NULL, NULL) < 0)
            return;
        t->samples[t->n_samples] = (struct libnrt_trace_sample){.ns = ns, .used = a.bytes};
        for (unsigned i = 0; i < SIM_WIRE_CPUS; i++)
            t->samples[t->n_samples].cpu[i] = a.host_cpu[i];
        t->n_samples++;
    }
}

/* The host's clock has come to ns: the sampler has been at work meanwhile. */
static void pass(uint64_t ns)
{
    struct libnrt_trace *t = &libnrt_trace;

    if (!libnrt_trace_runs())
        return;
    if (!t->start_ns || ns < t->start_ns)
        t->start_ns = ns;
    if (ns > t->end_ns)
        t->end_ns = ns;
    if (!t->next_sample_ns)
        t->next_sample_ns = ns;
    while ((t->cpu || t->memory) && t->next_sample_ns <= ns && t->n_samples < SYSTRACE_SAMPLES_MAX) {
        take_sample(t, t->next_sample_ns);
        t->next_sample_ns += t->period_ns;
    }
}

uint64_t libnrt_trace_call(const struct libnrt_core *core)
{
    return (uint64_t)index_of(core) << TRACKING_CORE_SHIFT | ++libnrt_trace.next_tracking;
}

static struct libnrt_trace_event *next_event(struct libnrt_trace_ring *r)
{
    void *p = r->events;
    size_t at = (size_t)(r->emitted % r->limit);

    if (r->emitted < r->limit && kymo_grow(&p, &r->cap, at + 1, r->limit, sizeof *r->events) < 0)
        return NULL;
    r->events = p;
    r->emitted++;
    return &r->events[at];
}

void libnrt_trace_add(const struct libnrt_core *core, const struct libnrt_trace_event *event)
{
    struct libnrt_trace_event *e;

    if (!libnrt_trace.system || rt.inspect.type_off[event->type] || rt.inspect.core_off[index_of(core)])
        return;
    e = next_event(&libnrt_trace.rings[index_of(core)]);
    if (!e)
        return;
    *e = *event;
    e->thread = (uint64_t)gettid();
}

static void put(const struct libnrt_core *core, enum systrace_event_type type, unsigned phase, uint64_t ns,
                uint64_t tracking, const struct libnrt_trace_arg args[LIBNRT_TRACE_ARGS_MAX])
{
    struct libnrt_trace_event e = {.ns = ns, .tracking = tracking, .type = (uint8_t)type, .phase = (uint8_t)phase};

    for (unsigned i = 0; args && i < LIBNRT_TRACE_ARGS_MAX; i++)
        e.args[i] = args[i];
    libnrt_trace_add(core, &e);
}

static void put_span(const struct libnrt_core *core, enum systrace_event_type type, uint64_t start, uint64_t end,
                     uint64_t tracking, const struct libnrt_trace_arg args[LIBNRT_TRACE_ARGS_MAX])
{
    put(core, type, START, start, tracking, args);
    put(core, type, STOP, end, tracking, NULL);
}

/* Hardware events carry the device's time, and when the host came to know of them. */
static void put_device_exec(const struct libnrt_core *core, const struct sim_wire_result *result, uint64_t exec_id,
                            uint64_t host_ns, uint64_t tracking, uint64_t sequence)
{
    struct libnrt_trace_event e = {
        .ns = result->start_ps / PS_PER_NS,
        .tracking = tracking,
        .sequence = sequence,
        .type = SYSTRACE_device_exec,
        .phase = START,
        .args = {{LIBNRT_TRACE_CORE, core->first_pcore},
                 {LIBNRT_TRACE_EXEC_ID, exec_id},
                 {LIBNRT_TRACE_NC_TIME, result->start_ps / PS_PER_NS},
                 {LIBNRT_TRACE_CPU_TIME, host_ns},
                 {LIBNRT_TRACE_MODEL_ID, result->model_id}},
    };

    if (result->end_ps == 0)
        return; /* it never ran */
    libnrt_trace_add(core, &e);
    e.ns = result->end_ps / PS_PER_NS;
    e.phase = STOP;
    e.status = result->status;
    e.args[0] = (struct libnrt_trace_arg){LIBNRT_TRACE_NC_TIME, e.ns};
    e.args[1] = (struct libnrt_trace_arg){LIBNRT_TRACE_CPU_TIME, host_ns};
    for (unsigned i = 2; i < LIBNRT_TRACE_ARGS_MAX; i++)
        e.args[i] = (struct libnrt_trace_arg){LIBNRT_TRACE_NONE, 0};
    libnrt_trace_add(core, &e);
}

static void put_sync(const struct libnrt_core *core, uint64_t exec_id, uint64_t device_ps, uint64_t host_ns,
                     uint64_t tracking)
{
    put(core, SYSTRACE_timestamp_sync, INSTANT, device_ps / PS_PER_NS, tracking,
        LIBNRT_TRACE_ARGS({LIBNRT_TRACE_EXEC_ID, exec_id}, {LIBNRT_TRACE_NC_TIME, device_ps / PS_PER_NS},
                          {LIBNRT_TRACE_CPU_TIME, host_ns}));
}

void libnrt_trace_execution(const struct libnrt_core *core, const struct nrt_model *m, const struct sim_answer *a,
                            uint64_t exec_id)
{
    uint64_t call, begin = a->host_begin_ns, end = a->host_ns, ready = begin + HOST_EXECUTE_NS;
    const struct libnrt_trace_arg *model =
        LIBNRT_TRACE_ARGS({LIBNRT_TRACE_MODEL_ID, m->id}, {LIBNRT_TRACE_EXEC_ID, exec_id});

    if (!libnrt_trace_runs())
        return;
    pass(end);
    call = libnrt_trace_call(core);
    put(core, SYSTRACE_execute_api, START, begin, call, LIBNRT_TRACE_ARGS({LIBNRT_TRACE_MODEL_ID, m->id}));
    put(core, SYSTRACE_runtime_execute, START, begin, call, LIBNRT_TRACE_ARGS({LIBNRT_TRACE_MODEL_ID, m->id}));
    put_span(core, SYSTRACE_exec_pre, begin, ready, call, model);
    put(core, SYSTRACE_exec_core, START, ready, call, model);
    put_device_exec(core, &a->result, exec_id, end, call, 0);
    put(core, SYSTRACE_exec_core, STOP, end, call, NULL);
    put_sync(core, exec_id, a->now_ps, end, call);
    put(core, SYSTRACE_runtime_execute, STOP, end, call, NULL);
    struct libnrt_trace_event last = {
        .ns = end, .tracking = call, .status = a->result.status, .type = SYSTRACE_execute_api, .phase = STOP};
    libnrt_trace_add(core, &last);
}

void libnrt_trace_submit(const struct libnrt_core *core, const struct nrt_model *m, const struct sim_answer *a)
{
    struct libnrt_trace_event e = {.ns = a->host_begin_ns,
                                   .sequence = a->sequence + 1,
                                   .type = SYSTRACE_model_submit,
                                   .phase = START,
                                   .args = {{LIBNRT_TRACE_MODEL_ID, m->id}}};

    if (!libnrt_trace_runs())
        return;
    pass(a->host_ns);
    e.tracking = libnrt_trace_call(core);
    libnrt_trace_add(core, &e);
    e.ns = a->host_ns;
    e.phase = STOP;
    e.args[0] = (struct libnrt_trace_arg){LIBNRT_TRACE_NONE, 0};
    libnrt_trace_add(core, &e);
}

void libnrt_trace_collected(const struct libnrt_core *core, const struct sim_wire_result *result, uint64_t sequence)
{
    struct sim_request q;
    struct sim_answer a;
    uint64_t call;

    if (!libnrt_trace_runs())
        return;
    libnrt_request(&q, SIM_OP_NOW, core->vnc);
    if (libnrt_call(&q, -1, &a, NULL, NULL) < 0)
        return;
    pass(a.host_ns);
    call = libnrt_trace_call(core);
    put_device_exec(core, result, sequence, a.host_ns, call, sequence + 1);
    put_sync(core, sequence, a.now_ps, a.host_ns, call);
}

/* The image's bytes by the engine that runs them. */
static void put_code(const struct libnrt_core *core, const struct nrt_model *m, bool alloc, uint64_t ns)
{
    static const enum systrace_usage usages[KYMO_ENGINE_MAX] = {
        [KYMO_ENGINE_TENSOR] = SYSTRACE_USAGE_TENSOR_INSTRUCTIONS,
        [KYMO_ENGINE_SCALAR] = SYSTRACE_USAGE_SCALAR_INSTRUCTIONS,
        [KYMO_ENGINE_GPSIMD] = SYSTRACE_USAGE_GPSIMD_INSTRUCTIONS,
        [KYMO_ENGINE_VECTOR] = SYSTRACE_USAGE_VECTOR_INSTRUCTIONS,
        [KYMO_ENGINE_SYNC] = SYSTRACE_USAGE_SYNC_INSTRUCTIONS,
    };
    unsigned lnc = rt.hello.lnc;
    uint64_t left = (m->image->image_bytes + lnc - 1) / lnc * lnc;

    for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++) {
        uint64_t bytes = 0;

        for (unsigned c = 0; c < lnc; c++)
            bytes += (uint64_t)m->image->cores[c].engines[e].count * KYMO_INSTR_SIZE;
        bytes = bytes < left && e + 1 < KYMO_ENGINE_MAX ? bytes : left;
        left -= bytes;
        libnrt_trace_memory(core, usages[e], alloc, bytes, ns);
    }
}

void libnrt_trace_load(const struct libnrt_core *core, const struct nrt_model *m, const struct sim_answer *a, bool load)
{
    unsigned lnc = rt.hello.lnc;
    uint64_t call;

    pass(a->host_ns);
    call = libnrt_trace_call(core);
    if (load)
        put(core, SYSTRACE_model_load, START, a->host_begin_ns, call, NULL);
    put_code(core, m, load, a->host_ns);
    libnrt_trace_memory(core, SYSTRACE_USAGE_WEIGHTS, load, (m->size + lnc - 1) / lnc * lnc, a->host_ns);
    if (load)
        put(core, SYSTRACE_model_load, STOP, a->host_ns, call, LIBNRT_TRACE_ARGS({LIBNRT_TRACE_MODEL_ID, m->id}));
}

void libnrt_trace_copy(const struct libnrt_core *core, bool to_device, uint64_t tensor, uint64_t offset, uint64_t bytes,
                       const struct sim_answer *a)
{
    enum systrace_event_type api = to_device ? SYSTRACE_tensor_write : SYSTRACE_tensor_read;
    enum systrace_event_type copy = to_device ? SYSTRACE_dmem_buf_copyin : SYSTRACE_dmem_buf_copyout;
    uint64_t call;

    if (!libnrt_trace_runs())
        return;
    pass(a->host_ns);
    call = libnrt_trace_call(core);
    if (tensor)
        put(core, api, START, a->host_begin_ns, call,
            LIBNRT_TRACE_ARGS({LIBNRT_TRACE_TENSOR, tensor}, {LIBNRT_TRACE_SIZE, bytes}));
    put_span(core, copy, a->host_begin_ns + HOST_COPY_NS, a->host_ns, call,
             LIBNRT_TRACE_ARGS({LIBNRT_TRACE_HANDLE, 0x1000 + tensor}, {LIBNRT_TRACE_OFFSET, offset},
                               {LIBNRT_TRACE_SIZE, bytes}));
    if (tensor)
        put(core, api, STOP, a->host_ns, call, NULL);
}

void libnrt_trace_tensor(const struct libnrt_core *core, uint64_t tensor, uint64_t bytes, bool alloc,
                         const struct sim_answer *a)
{
    unsigned lnc = rt.hello.lnc;
    uint64_t call;

    pass(a->host_ns);
    call = libnrt_trace_call(core);
    put(core, alloc ? SYSTRACE_tensor_alloc : SYSTRACE_tensor_free, INSTANT, a->host_ns, call,
        LIBNRT_TRACE_ARGS({LIBNRT_TRACE_TENSOR, tensor}, {LIBNRT_TRACE_SIZE, bytes},
                          {alloc ? LIBNRT_TRACE_NONE : LIBNRT_TRACE_REF_COUNT, 0}));
    libnrt_trace_memory(core, SYSTRACE_USAGE_TENSORS, alloc, (bytes + lnc - 1) / lnc * lnc, a->host_ns);
}

void libnrt_trace_forget(void)
{
    kymo_free(held);
    held = NULL;
}

void libnrt_trace_memory(const struct libnrt_core *core, enum systrace_usage usage, bool alloc, uint64_t bytes,
                         uint64_t host_ns)
{
    unsigned hbm = hbm_of(core);
    enum systrace_event_type type = alloc ? SYSTRACE_dma_mem_alloc : SYSTRACE_dma_mem_dealloc;
    uint64_t call, total = 0, *used;

    if (!held)
        held = kymo_calloc(count_hbm(), sizeof *held);
    if (!held || bytes == 0)
        return;
    pass(host_ns);
    used = held[core->nd_idx * rt.arch->hbm_stacks + hbm];
    for (unsigned u = 0; u < SYSTRACE_USAGE_MAX; u++)
        total += used[u];
    call = libnrt_trace_call(core);
    put(core, type, START, host_ns, call, LIBNRT_TRACE_ARGS({LIBNRT_TRACE_HBM, hbm}, {LIBNRT_TRACE_USAGE, usage}));
    if (!alloc && bytes > used[usage])
        bytes = used[usage];
    used[usage] = alloc ? used[usage] + bytes : used[usage] - bytes;
    total = alloc ? total + bytes : total - bytes;
    put(core, type, STOP, host_ns, call,
        LIBNRT_TRACE_ARGS({alloc ? LIBNRT_TRACE_ALLOCATED : LIBNRT_TRACE_FREED, bytes},
                          {LIBNRT_TRACE_USAGE_TOTAL, used[usage]}, {LIBNRT_TRACE_TOTAL, total},
                          {LIBNRT_TRACE_ADDRESS, rt.arch->hbm_base + ((uint64_t)hbm << 36) + total}));
}
