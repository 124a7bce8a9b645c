/* ntrace.pb: the runtime's and the hardware's events. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/rings/pair.h"
#include "pipeline/system/system_impl.h"

#define REPORT_EVENTS 65536u

struct reading {
    struct system_job *j;
    struct system_text json, flows;
    uint64_t count, total;
};

static const char *find(const Ntff__NtraceEvent *e, const char *key)
{
    for (size_t i = 0; i < e->n_attributes; i++)
        if (!strcmp(e->attributes[i]->key, key))
            return e->attributes[i]->value;
    return NULL;
}

/* Decimal, or hexadecimal with 0x. */
static bool find_number(const Ntff__NtraceEvent *e, const char *key, uint64_t *ret)
{
    const char *text = find(e, key);
    char *stop;
    if (!text || *text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long long v = strtoull(text, &stop, 0);
    if (errno || *stop)
        return false;
    *ret = v;
    return true;
}

static bool find_time(const Ntff__NtraceEvent *e, const char *key, int64_t *ret)
{
    uint64_t v;
    if (!find_number(e, key, &v) || v > INT64_MAX)
        return false;
    *ret = (int64_t)v;
    return true;
}

/* A core that no list names has a ring without counters. */
static int find_core(struct system_job *j, const Ntff__NtraceEvent *e, const struct system_core **ret,
                     struct kymo_err *err)
{
    for (size_t i = 0; i < j->n_cores; i++)
        if (j->cores[i].nc == e->nc_idx) {
            *ret = &j->cores[i];
            return 0;
        }
    char label[64];
    (void)snprintf(label, sizeof label, "SYSTEM(nc%u)", e->nc_idx);
    void *p = j->cores;
    int r = kymo_grow(&p, &j->cores_cap, j->n_cores + 1, SYSTEM_CORES_MAX, sizeof *j->cores);
    j->cores = p;
    if (r < 0)
        return kymo_err_set(err, r, "events of more than %d cores", SYSTEM_CORES_MAX);
    r = system_ring_new(j, "event", label, err);
    if (r < 0)
        return r;
    j->cores[j->n_cores] = (struct system_core){
        .nc = e->nc_idx, .vnc = UINT32_MAX, .nd = e->nd_idx, .first_pcore = UINT32_MAX, .ring = (uint32_t)r};
    *ret = &j->cores[j->n_cores++];
    return 0;
}

static void take_sync(struct system_sync *s, const Ntff__NtraceEvent *e, bool *ret)
{
    s->nc = e->nc_idx;
    *ret = find_time(e, "nc_timestamp_ns", &s->device_ns) && find_time(e, "cpu_timestamp_ns", &s->cpu_ns);
    if (!find_number(e, "exec_id", &s->exec_id))
        s->exec_id = UINT64_MAX;
}

/* Readings may stand behind the events that need them. What breaks the file is told when it is read for good. */
static int read_syncs(struct system_job *j, struct systrace_reader *file, struct kymo_err *err)
{
    struct systrace_item item;
    int r, code = 0;
    while ((r = systrace_next(file, &item, NULL)) > 0 && code == 0) {
        struct system_sync sync;
        bool whole = false;
        if (item.event->event_type == SYSTRACE_timestamp_sync)
            take_sync(&sync, item.event, &whole);
        if (whole)
            code = system_syncs_add(j->syncs, &sync, err);
        if (systrace_item_count(file) % REPORT_EVENTS == 0 && code == 0)
            code = system_report(j, PROCESS_SCAN, systrace_item_count(file), 0, err);
    }
    systrace_rewind(file);
    system_syncs_sort(j->syncs);
    return r == -ENOMEM ? kymo_err_set(err, r, "no memory to read events") : code;
}

/* Hardware events to the host's time. */
static int64_t host_time(struct system_job *j, const Ntff__NtraceEvent *e, const uint64_t *exec_id)
{
    int64_t ts = (int64_t)e->timestamp, device, cpu;
    if (!find_time(e, "nc_timestamp_ns", &device))
        return ts;
    if (system_syncs_convert(j->syncs, e->nc_idx, exec_id, ts, &ts))
        return ts;
    j->unconverted++;
    return find_time(e, "cpu_timestamp_ns", &cpu) ? cpu : ts;
}

static bool is_column(const char *key)
{
    return !strcmp(key, "worker_gid") || !strcmp(key, "nc_local_id");
}

static bool has_key(const struct system_text *t, const char *key)
{
    char quoted[256];
    int n = snprintf(quoted, sizeof quoted, "\"%.200s\":", key);
    return t->buf.len >= (size_t)n && memmem(t->buf.data, t->buf.len, quoted, (size_t)n);
}

/* What a stop says again is told apart from what its start said. */
static void put_attributes(struct system_text *t, const Ntff__NtraceEvent *e, bool again)
{
    char status[16];
    for (size_t i = 0; i < e->n_attributes; i++)
        if (!is_column(e->attributes[i]->key))
            system_text_member(t, again && has_key(t, e->attributes[i]->key) ? "stop_" : "", e->attributes[i]->key,
                               e->attributes[i]->value);
    (void)snprintf(status, sizeof status, "%u", e->status);
    if (e->status)
        system_text_member(t, "", "status", status);
}

static void take_worker(const Ntff__NtraceEvent *e, struct system_open *o)
{
    uint64_t v;
    o->has_worker = find_number(e, "worker_gid", &v) && v <= INT64_MAX;
    o->worker = o->has_worker ? (int64_t)v : -1;
}

static void take_bytes(const Ntff__NtraceEvent *e, struct system_open *o)
{
    bool single = o->type == SYSTRACE_dmem_buf_copyin || o->type == SYSTRACE_dmem_buf_copyout;
    bool batch = o->type == SYSTRACE_dmem_buf_batch_copyin || o->type == SYSTRACE_dmem_buf_batch_copyout;
    uint64_t v;
    if ((single && find_number(e, "size", &v)) || (batch && find_number(e, "total_size", &v))) {
        o->has_bytes = v <= INT64_MAX;
        o->bytes = o->has_bytes ? (int64_t)v : 0;
    }
}

static void take_memory(const Ntff__NtraceEvent *e, struct system_open *o)
{
    const char *usage = find(e, "usage_type");
    uint64_t v;
    o->usage = (uint16_t)(usage ? systrace_usage_find(usage) : SYSTRACE_USAGE_MAX);
    o->has_hbm = find_number(e, "hbm_idx", &v) && v < SYSTEM_HBMS_MAX;
    o->hbm = o->has_hbm ? (uint32_t)v : 0;
}

/* All that the row needs of a start, or of an instant. */
static void describe(const Ntff__NtraceEvent *e, const struct system_core *core, struct system_open *o)
{
    uint64_t pcore;
    *o = (struct system_open){
        .tracking = e->tracking_id,
        .thread = e->thread_id,
        .id = e->id,
        .parent = e->parent_id,
        .nd = e->nd_idx,
        .ring = core->ring,
        .nc = (int32_t)e->nc_idx,
        .pcore = core->first_pcore <= INT32_MAX ? (int32_t)core->first_pcore : -1,
        .type = (uint16_t)e->event_type,
        .has_sequence = e->nrta_seq_id_oneof_case == NTFF__NTRACE_EVENT__NRTA_SEQ_ID_ONEOF_NRTA_SEQ_ID,
    };
    o->sequence = o->has_sequence ? e->nrta_seq_id : 0;
    o->has_exec = find_number(e, "exec_id", &o->exec_id);
    if (find_number(e, "nc_local_id", &pcore) && pcore <= INT32_MAX)
        o->pcore = (int32_t)pcore;
    take_worker(e, o);
    take_bytes(e, o);
    if (o->type == SYSTRACE_dma_mem_alloc || o->type == SYSTRACE_dma_mem_dealloc)
        take_memory(e, o);
}

/* Types that came with newer runtimes keep their number; an event of no type has a name of its own. */
static const char *name_of(const Ntff__NtraceEvent *e, char out[32])
{
    if (e->event_type == SYSTRACE_generic && e->hint && *e->hint)
        return e->hint;
    if (systrace_event_name(e->event_type))
        return NULL;
    (void)snprintf(out, 32, "event_%u", e->event_type);
    return out;
}

static int add_row(struct reading *g, const struct system_open *o, int64_t end, unsigned records, struct kymo_err *err)
{
    struct system_row row = {
        .start = o->ts,
        .end = end,
        .thread = (int64_t)o->thread,
        .process = g->j->process,
        .worker = o->worker,
        .bytes = o->bytes,
        .sequence = o->sequence,
        .nc = o->nc,
        .pcore = o->pcore,
        .type = o->type,
        .source = (uint8_t)systrace_event_source(o->type),
        .records = (uint8_t)records,
        .has_worker = o->has_worker,
        .has_nc = true,
        .has_bytes = o->has_bytes,
        .has_sequence = o->has_sequence,
    };
    system_text_start(&g->flows);
    if (o->tracking)
        system_text_line(&g->flows, "%" PRIu64, o->tracking);
    if (o->id)
        system_text_line(&g->flows, "event-%" PRIu64, o->id);
    if (o->parent)
        system_text_line(&g->flows, "event-%" PRIu64, o->parent);
    if (o->has_sequence)
        system_text_line(&g->flows, "seq-%" PRIu64, o->sequence);
    g->j->rings[o->ring].rows += records;
    return system_row_add(g->j, &row, o->name, &g->flows, &g->json, err);
}

static int add_partial(struct system_job *j, const struct system_open *o, int64_t ts, bool start_side,
                       enum pair_reason reason, struct kymo_err *err)
{
    return system_partial_add(j,
                              &(struct system_partial){.ts = ts,
                                                       .ring = o->ring,
                                                       .pcore = o->pcore,
                                                       .type = o->type,
                                                       .start_side = start_side,
                                                       .reason = (uint8_t)reason},
                              err);
}

static int take_start(struct reading *g, const Ntff__NtraceEvent *e, const struct system_core *core,
                      struct kymo_err *err)
{
    struct system_open o, evicted;
    char name[32];
    const char *own = name_of(e, name);
    describe(e, core, &o);
    o.ts = host_time(g->j, e, o.has_exec ? &o.exec_id : NULL);
    system_text_start(&g->json);
    put_attributes(&g->json, e, false);
    o.name = own ? kymo_strdup(own) : NULL;
    o.json = g->json.buf.len ? kymo_strndup((const char *)g->json.buf.data, g->json.buf.len) : NULL;
    if (g->json.failed || (own && !o.name) || (g->json.buf.len && !o.json)) {
        system_open_done(&o);
        return kymo_err_set(err, -ENOMEM, "no memory for an event");
    }
    int r = system_pairs_open(g->j->pairs, &o, &evicted, err);
    if (r < 0) {
        system_open_done(&o);
        return r;
    }
    if (r > 0) {
        r = add_partial(g->j, &evicted, evicted.ts, true, PAIR_LOST_AFTER, err);
        system_open_done(&evicted);
    }
    return r;
}

static int add_memory(struct system_job *j, const Ntff__NtraceEvent *stop, const struct system_open *o, int64_t ts,
                      struct kymo_err *err)
{
    struct system_memory m = {.ts = ts, .device = o->nd, .hbm = o->hbm, .usage = o->usage};
    if (!o->has_hbm)
        return 0;
    m.has_class = find_number(stop, "usage_type_total_bytes", &m.class_total) && m.class_total <= INT64_MAX;
    m.has_total = find_number(stop, "total_bytes", &m.total) && m.total <= INT64_MAX;
    return m.has_class || m.has_total ? sort_spill_add(j->memory, ts, &m, err) : 0;
}

/* Both sides are there: a row, unless their times contradict each other. */
static int close_span(struct reading *g, const Ntff__NtraceEvent *e, struct system_open *o, struct kymo_err *err)
{
    int64_t end = host_time(g->j, e, o->has_exec ? &o->exec_id : NULL);
    system_text_start(&g->json);
    if (o->json && kymo_buf_append(&g->json.buf, o->json, strlen(o->json)) < 0)
        return kymo_err_set(err, -ENOMEM, "no memory for an event");
    put_attributes(&g->json, e, true);
    if (!o->has_bytes)
        take_bytes(e, o);
    int r;
    if (end < o->ts) {
        r = add_partial(g->j, o, o->ts, true, PAIR_BACKWARDS, err);
        return r < 0 ? r : add_partial(g->j, o, end, false, PAIR_BACKWARDS, err);
    }
    r = add_row(g, o, end, 2, err);
    if (r == 0 && (o->type == SYSTRACE_dma_mem_alloc || o->type == SYSTRACE_dma_mem_dealloc))
        r = add_memory(g->j, e, o, end, err);
    return r;
}

static int take_stop(struct reading *g, const Ntff__NtraceEvent *e, const struct system_core *core,
                     struct kymo_err *err)
{
    const struct system_ring *ring = &g->j->rings[core->ring];
    struct system_open key, o;
    describe(e, core, &key);
    if (system_pairs_close(g->j->pairs, &key, &o)) {
        int r = close_span(g, e, &o, err);
        system_open_done(&o);
        return r;
    }
    int64_t ts = host_time(g->j, e, key.has_exec ? &key.exec_id : NULL);
    bool lost = ring->has_counters ? ring->dropped > 0 : false;
    return add_partial(g->j, &key, ts, false, lost ? PAIR_LOST_BEFORE : PAIR_OPEN_AT_START, err);
}

static int take_instant(struct reading *g, const Ntff__NtraceEvent *e, const struct system_core *core,
                        struct kymo_err *err)
{
    struct system_open o;
    char name[32];
    int64_t end;
    describe(e, core, &o);
    o.ts = host_time(g->j, e, o.has_exec ? &o.exec_id : NULL);
    o.name = (char *)(uintptr_t)name_of(e, name); /* borrowed, until the row is in */
    system_text_start(&g->json);
    put_attributes(&g->json, e, false);
    if (e->duration > INT64_MAX || __builtin_add_overflow(o.ts, (int64_t)e->duration, &end))
        end = o.ts;
    return add_row(g, &o, end, 1, err);
}

static int take_event(struct reading *g, const Ntff__NtraceEvent *e, struct kymo_err *err)
{
    const struct system_core *core;
    int r = find_core(g->j, e, &core, err);
    if (r < 0)
        return r;
    g->j->rings[core->ring].stored++;
    if (e->timestamp > INT64_MAX || e->event_type >= SYSTEM_TYPE_FRAMEWORK) {
        g->j->rings[core->ring].unknown++;
        return 0;
    }
    switch (e->phase) {
    case NTFF__NTRACE_EVENT_PHASE_TYPE__PHASE_START:
        return take_start(g, e, core, err);
    case NTFF__NTRACE_EVENT_PHASE_TYPE__PHASE_STOP:
        return take_stop(g, e, core, err);
    case NTFF__NTRACE_EVENT_PHASE_TYPE__PHASE_INSTANT:
        return take_instant(g, e, core, err);
    default:
        g->j->rings[core->ring].unknown++;
        return 0;
    }
}

static int end_open(struct system_job *j, struct kymo_err *err)
{
    struct system_open o;
    int r = 0;
    while (r == 0 && system_pairs_take(j->pairs, &o)) {
        r = add_partial(j, &o, o.ts, true, PAIR_OPEN_AT_END, err);
        system_open_done(&o);
    }
    return r;
}

/* What broke the file costs what stands behind. */
static void tell_broken(struct system_job *j, const struct kymo_err *why)
{
    int ring = system_ring_new(j, "event", systrace_file_name(SYSTRACE_KIND_NTRACE), NULL);
    if (ring >= 0)
        j->rings[ring].broken = "undecodable";
    warnings_add(j->warnings, "Lost records", "events behind the damage are lost, how many is not known: %s",
                 why->text);
}

static int read_all(struct reading *g, struct systrace_reader *file, struct kymo_err *err)
{
    struct systrace_item item;
    struct kymo_err why = {0};
    int r, code = 0;
    while (code == 0 && (r = systrace_next(file, &item, &why)) != 0) {
        if (r == -ENOMEM)
            return kymo_err_set(err, r, "%s", why.text);
        if (r < 0) {
            tell_broken(g->j, &why);
            break;
        }
        code = take_event(g, item.event, err);
        g->count++;
        if (g->count % REPORT_EVENTS == 0 && code == 0)
            code = system_report(g->j, PROCESS_INSTRUCTIONS, g->count, 0, err);
    }
    g->j->result.records += g->count;
    return code < 0 ? code : end_open(g->j, err);
}

int system_read_events(struct system_job *j, struct kymo_err *err)
{
    struct systrace_reader *file = j->files[SYSTRACE_KIND_NTRACE];
    struct reading g = {.j = j};
    if (!file)
        return 0;
    int r = read_syncs(j, file, err);
    if (r == 0)
        r = read_all(&g, file, err);
    kymo_buf_done(&g.json.buf);
    kymo_buf_done(&g.flows.buf);
    if (j->unconverted)
        warnings_add(
            j->warnings, "Timestamps",
            "%llu records of hardware events have the time at which the host came to know of them, or the device's: "
            "their core has no timestamp_sync_point; let them into the trace "
            "(NEURON_RT_INSPECT_EVENT_FILTER_TYPE)",
            (unsigned long long)j->unconverted);
    if (system_syncs_thinned(j->syncs))
        warnings_add(j->warnings, "Timestamps",
                     "more than %u clock readings: some hardware events have their time by a neighbour's reading",
                     SYSTEM_SYNCS_MAX);
    return r;
}
