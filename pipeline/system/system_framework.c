/* trace.json: the framework's events. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/rings/pair.h"
#include "pipeline/system/system_impl.h"

#define SLOTS 1024u
#define REPORT_EVENTS 65536u

/* The slice seen last on a thread: flows that follow it in the file belong to it. */
struct slice {
    bool used;
    struct system_row row;
    char *name, *json;
    struct system_text flows;
};

struct reading {
    struct system_job *j;
    uint32_t ring;
    struct slice slots[SLOTS];
    struct system_text json, flows;
    uint64_t count, unbound;
    bool streams_full;
};

static struct slice *slot_of(struct reading *g, int64_t pid, int64_t tid)
{
    uint64_t x = (uint64_t)pid * 0x9e3779b97f4a7c15ull ^ (uint64_t)tid * 0xbf58476d1ce4e5b9ull;
    return &g->slots[(x >> 40) % SLOTS];
}

static int flush(struct reading *g, struct slice *s, struct kymo_err *err)
{
    if (!s->used)
        return 0;
    s->used = false;
    system_text_start(&g->json);
    int r = s->json ? kymo_buf_append(&g->json.buf, s->json, strlen(s->json)) : 0;
    if (r < 0)
        return kymo_err_set(err, r, "no memory for an event");
    return system_row_add(g->j, &s->row, s->name, &s->flows, &g->json, err);
}

static int flush_all(struct reading *g, struct kymo_err *err)
{
    int r = 0;
    for (unsigned i = 0; i < SLOTS; i++) {
        struct slice *s = &g->slots[i];
        if (r == 0)
            r = flush(g, s, err);
        kymo_free(s->name);
        kymo_free(s->json);
        kymo_buf_done(&s->flows.buf);
    }
    kymo_buf_done(&g->json.buf);
    return r;
}

/* A JSON object without its braces. */
static char *inside(const char *object)
{
    size_t n = object ? strlen(object) : 0;
    return n > 2 ? kymo_strndup(object + 1, n - 2) : NULL;
}

static int hold(struct reading *g, const struct system_row *row, char *name, char *json, struct kymo_err *err)
{
    struct slice *s = slot_of(g, row->process, row->thread);
    int r = flush(g, s, err);
    kymo_free(s->name);
    kymo_free(s->json);
    s->name = name;
    s->json = json;
    s->row = *row;
    s->used = r == 0;
    system_text_start(&s->flows);
    if (row->has_sequence)
        system_text_line(&s->flows, "seq-%" PRIu64, row->sequence);
    g->j->rings[g->ring].rows += row->records;
    return r;
}

static int take_slice(struct reading *g, const struct trace_json_event *e, int64_t end, unsigned records,
                      struct kymo_err *err)
{
    const struct system_row row = {
        .start = e->start_ns,
        .end = end,
        .thread = e->has_tid ? e->tid : -1,
        .process = e->has_pid ? e->pid : g->j->process,
        .type = SYSTEM_TYPE_FRAMEWORK,
        .source = SYSTRACE_SOURCE_FRAMEWORK,
        .records = (uint8_t)records,
        .sequence = e->sequence,
        .has_sequence = e->has_sequence,
    };
    if (e->has_sequence && *e->stream && !system_streams_add(g->j->streams, e->sequence, e->stream))
        g->streams_full = true;
    char *name = kymo_strdup(e->name);
    return name ? hold(g, &row, name, inside(e->args), err) : kymo_err_set(err, -ENOMEM, "no memory for an event");
}

static struct system_open open_of(const struct reading *g, const struct trace_json_event *e)
{
    return (struct system_open){
        .type = SYSTEM_TYPE_FRAMEWORK,
        .nc = (int32_t)(e->has_pid ? e->pid : -1),
        .thread = (uint64_t)(e->has_tid ? e->tid : -1),
        .worker = e->has_pid ? e->pid : g->j->process,
        .ts = e->start_ns,
        .ring = g->ring,
        .pcore = -1,
        .sequence = e->sequence,
        .has_sequence = e->has_sequence,
    };
}

static int add_partial(struct reading *g, const struct system_open *o, bool start_side, enum pair_reason reason,
                       struct kymo_err *err)
{
    return system_partial_add(g->j,
                              &(struct system_partial){.ts = o->ts,
                                                       .ring = g->ring,
                                                       .pcore = -1,
                                                       .type = SYSTEM_TYPE_FRAMEWORK,
                                                       .start_side = start_side,
                                                       .reason = (uint8_t)reason},
                              err);
}

static int take_begin(struct reading *g, const struct trace_json_event *e, struct kymo_err *err)
{
    struct system_open o = open_of(g, e), evicted;
    o.name = kymo_strdup(e->name);
    o.json = inside(e->args);
    if (!o.name)
        return kymo_err_set(err, -ENOMEM, "no memory for an event");
    int r = system_pairs_open(g->j->pairs, &o, &evicted, err);
    if (r > 0) {
        r = add_partial(g, &evicted, true, PAIR_LOST_AFTER, err);
        system_open_done(&evicted);
    }
    return r;
}

static int take_end(struct reading *g, const struct trace_json_event *e, struct kymo_err *err)
{
    struct system_open key = open_of(g, e), o;
    if (!system_pairs_close(g->j->pairs, &key, &o))
        return add_partial(g, &key, false, PAIR_OPEN_AT_START, err);
    if (e->start_ns < o.ts) {
        int r = add_partial(g, &o, true, PAIR_BACKWARDS, err);
        system_open_done(&o);
        return r < 0 ? r : add_partial(g, &key, false, PAIR_BACKWARDS, err);
    }
    const struct system_row row = {
        .start = o.ts,
        .end = e->start_ns,
        .thread = (int64_t)o.thread,
        .process = o.worker,
        .type = SYSTEM_TYPE_FRAMEWORK,
        .source = SYSTRACE_SOURCE_FRAMEWORK,
        .records = 2,
        .sequence = o.sequence,
        .has_sequence = o.has_sequence,
    };
    return hold(g, &row, o.name, o.json, err);
}

/* A flow's point belongs to the slice that was written before it, when its time is within. */
static void take_flow(struct reading *g, const struct trace_json_event *e)
{
    struct slice *s = slot_of(g, e->has_pid ? e->pid : g->j->process, e->has_tid ? e->tid : -1);
    const struct system_row *row = &s->row;
    bool within = s->used && row->thread == (e->has_tid ? e->tid : -1) && e->timed && e->start_ns >= row->start &&
                  e->start_ns <= row->end && *e->id;
    if (within)
        system_text_line(&s->flows, "flow-%s", e->id);
    else
        g->unbound++;
    g->j->rings[g->ring].other++;
}

static int take_event(struct reading *g, const struct trace_json_event *e, struct kymo_err *err)
{
    struct system_ring *ring = &g->j->rings[g->ring];
    int64_t end;
    bool slice = e->phase && strchr("XBEiI", e->phase);
    ring->stored++;
    if (slice && (!e->timed || e->start_ns < SYSTEM_YEAR_2000_NS)) {
        ring->unknown++;
        return 0;
    }
    if (!e->has_duration || __builtin_add_overflow(e->start_ns, e->duration_ns, &end))
        end = e->start_ns;
    switch (e->phase) {
    case 'X':
        return take_slice(g, e, end, 1, err);
    case 'i':
    case 'I':
        return take_slice(g, e, e->start_ns, 1, err);
    case 'B':
        return take_begin(g, e, err);
    case 'E':
        return take_end(g, e, err);
    case 's':
    case 't':
    case 'f':
        take_flow(g, e);
        return 0;
    default: /* names of processes, counters and the like */
        ring->other++;
        return 0;
    }
}

static int end_open(struct reading *g, struct kymo_err *err)
{
    struct system_open o;
    int r = 0;
    while (r == 0 && system_pairs_take(g->j->pairs, &o)) {
        r = add_partial(g, &o, true, PAIR_OPEN_AT_END, err);
        system_open_done(&o);
    }
    return r;
}

static void tell(struct reading *g)
{
    const struct system_ring *ring = &g->j->rings[g->ring];
    struct warnings *w = g->j->warnings;
    if (ring->unknown)
        warnings_add(w, "Timestamps",
                     "%llu events of " TRACE_JSON_FILE
                     " are left out: they have no time, or one that is not counted from "
                     "the Unix epoch (the file has no baseTimeNanoseconds)",
                     (unsigned long long)ring->unknown);
    if (g->unbound)
        warnings_add(w, "Missing Data",
                     "%llu points of flows in " TRACE_JSON_FILE
                     " do not lie in the slice that stands before them: their "
                     "flow_id is in no row",
                     (unsigned long long)g->unbound);
    if (g->streams_full)
        warnings_add(
            w, "Missing Data",
            "more than %u requests of the framework: framework_stream_id of later ones is empty in the runtime's "
            "events",
            SYSTEM_STREAMS_MAX);
}

static int read_all(struct reading *g, struct kymo_err *err)
{
    const struct trace_json_event *e;
    struct kymo_err why = {0};
    int r = 0, code = 0;
    while (code == 0 && (r = trace_json_next(g->j->framework, &e, &why)) > 0) {
        code = take_event(g, e, err);
        if (++g->count % REPORT_EVENTS == 0 && code == 0)
            code = system_report(g->j, PROCESS_INSTRUCTIONS, g->count, 0, err);
    }
    if (r < 0) {
        g->j->rings[g->ring].broken = "undecodable";
        warnings_add(g->j->warnings, "Lost records", "events behind the damage are lost, how many is not known: %s",
                     why.text);
    }
    g->j->result.records += g->count;
    return code < 0 ? code : end_open(g, err);
}

int system_read_framework(struct system_job *j, struct kymo_err *err)
{
    if (!j->framework)
        return 0;
    int ring = system_ring_new(j, "event", TRACE_JSON_FILE, err);
    struct reading *g = ring < 0 ? NULL : KYMO_NEW(struct reading);
    if (!g)
        return ring < 0 ? ring : kymo_err_set(err, -ENOMEM, "no memory to read " TRACE_JSON_FILE);
    g->j = j;
    g->ring = (uint32_t)ring;
    /* Every event of a text file is in it: nothing else was counted. */
    j->rings[ring].has_counters = true;
    int r = read_all(g, err);
    int last = flush_all(g, r < 0 ? NULL : err);
    tell(g);
    kymo_free(g);
    j->rings[ring].emitted = j->rings[ring].stored;
    return r < 0 ? r : last;
}
