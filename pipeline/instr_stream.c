#include "pipeline/instr_stream.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/ring_io.h"

#define DGE_WINDOW 1024 /* DGE records whose instruction is not out yet; more than the pairing window holds */
#define EVENTS_MAX (2 * RING_IO_CHUNK + PAIR_WINDOW) /* a record and a loss mark give one event each */

struct dge {
    uint64_t start_index;
    uint16_t engines, per_engine;
    bool group;
};

struct cursor {
    struct ring_io *io;
    const struct timebase_clock *clock;
    uint32_t ring;
    uint8_t pcore, engine;
    uint64_t chunk;
    bool pending_gap, finished;
    struct pair pair;
    uint64_t last_start; /* position of the last start record; UINT64_MAX: none */
    struct dge dge[DGE_WINDOW];
    size_t dge_first, dge_count;
    struct statics_place place;
    size_t hint;
    uint64_t key; /* order in the merge: start of the last event that has one */
    struct instr_event *events;
    size_t next, count;
};

struct instr_stream {
    const struct input *in;
    const struct scan *scan;
    const struct statics *statics;
    const struct timeline *timeline;
    struct ring_io *ios;
    size_t io_count;
    struct cursor *cursors;
    size_t cursor_count;
};

struct instr_stream *instr_stream_free(struct instr_stream *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; s->ios && i < s->io_count; i++)
        ring_io_done(&s->ios[i]);
    for (size_t i = 0; s->cursors && i < s->cursor_count; i++)
        kymo_free(s->cursors[i].events);
    kymo_free(s->ios);
    kymo_free(s->cursors);
    kymo_free(s);
    return NULL;
}

void instr_stream_freep(struct instr_stream **s)
{
    *s = instr_stream_free(*s);
}

static int open_cursor(struct instr_stream *s, struct ring_io *io, uint32_t ring, unsigned engine, struct kymo_err *err)
{
    struct cursor *c = &s->cursors[s->cursor_count++];
    const struct scan_ring *r = &s->scan->rings[ring];
    c->io = io;
    c->clock = r->clocks.by_type[4 + 4 * engine];
    c->ring = ring;
    c->pcore = (uint8_t)r->ring.pcore_idx;
    c->engine = (uint8_t)engine;
    c->last_start = UINT64_MAX;
    pair_init(&c->pair);
    c->events = KYMO_NEW_ARRAY(struct instr_event, EVENTS_MAX);
    return c->events ? 0 : kymo_err_set(err, -ENOMEM, "no memory for a cursor over instructions");
}

static bool wanted(const struct input *in, const struct scan_ring *r)
{
    return r->ring.kind == NTFF__RING_KIND__RING_INSTRUCTION && r->ring.pcore_idx < in->cores && r->ring.records;
}

int instr_stream_open(const struct input *in, const struct scan *scan, const struct statics *statics,
                      const struct timeline *timeline, struct instr_stream **ret, struct kymo_err *err)
{
    struct instr_stream *s KYMO_CLEANUP(instr_stream_freep) = KYMO_NEW(struct instr_stream);
    if (!s)
        return kymo_err_set(err, -ENOMEM, "no memory for the instruction stream");
    *s = (struct instr_stream){.in = in, .scan = scan, .statics = statics, .timeline = timeline};
    size_t n = 0;
    for (size_t i = 0; i < scan->count; i++)
        n += wanted(in, &scan->rings[i]);
    s->ios = KYMO_NEW_ARRAY(struct ring_io, n + 1);
    s->cursors = KYMO_NEW_ARRAY(struct cursor, n * KYMO_ENGINE_MAX + 1);
    if (!s->ios || !s->cursors)
        return kymo_err_set(err, -ENOMEM, "no memory for the instruction stream");
    for (size_t i = 0; i < scan->count; i++) {
        if (!wanted(in, &scan->rings[i]))
            continue;
        struct ring_io *io = &s->ios[s->io_count++];
        ring_io_init(io, in->ntff, i);
        for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++) {
            int r = open_cursor(s, io, (uint32_t)i, e, err);
            if (r < 0)
                return r;
        }
    }
    *ret = KYMO_TAKE(s);
    return 0;
}

static void attach_dge(struct cursor *c, const struct pair_event *p, struct instr_event *e)
{
    while (p->has_start && c->dge_count) {
        const struct dge *d = &c->dge[c->dge_first % DGE_WINDOW];
        if (d->start_index > p->start_index)
            return;
        if (d->start_index == p->start_index) {
            e->has_dge = true;
            e->dge_engines = d->engines;
            e->dge_per_engine = d->per_engine;
            e->dge_group = d->group;
        }
        c->dge_first++;
        c->dge_count--;
    }
}

static void pop(struct instr_stream *s, struct cursor *c)
{
    struct pair_event p;
    while (c->count < EVENTS_MAX && pair_pop(&c->pair, &p)) {
        struct instr_event *e = &c->events[c->count++];
        *e = (struct instr_event){
            .start_ps = p.has_start ? timebase_correct(c->clock, p.start_ps) : 0,
            .end_ps = p.has_end ? timebase_correct(c->clock, p.end_ps) : 0,
            .pc = p.pc,
            .ring = c->ring,
            .wait_cycles = p.wait_cycles,
            .crc_in = p.crc_in,
            .crc_out = p.crc_out,
            .pcore = c->pcore,
            .engine = c->engine,
            .has_start = p.has_start,
            .has_end = p.has_end,
            .reason = (uint8_t)p.reason,
        };
        uint32_t node = timeline_node(s->timeline, e->has_start ? e->start_ps : e->end_ps, &c->hint);
        e->row = statics_find(s->statics, &c->place, node, c->pcore, (enum kymo_engine)c->engine, p.pc);
        attach_dge(c, &p, e);
    }
}

static void note_gap(struct instr_stream *s, struct cursor *c)
{
    pair_gap(&c->pair);
    pop(s, c);
    c->events[c->count++] = (struct instr_event){.gap = true, .ring = c->ring, .pcore = c->pcore, .engine = c->engine};
}

static void take(struct instr_stream *s, struct cursor *c, const uint8_t *bytes, uint64_t index)
{
    struct record rec;
    record_decode(bytes, &rec);
    switch (rec.kind) {
    case RECORD_INSTRUCTION_START:
        pair_start(&c->pair, rec.u.start.pc, rec.ts_ps, index, rec.u.start.event_wait_cycles);
        c->last_start = index;
        break;
    case RECORD_INSTRUCTION_END:
        pair_end(&c->pair, rec.u.end.pc, rec.ts_ps, index, rec.u.end.crc_in, rec.u.end.crc_out);
        break;
    case RECORD_DGE_METADATA:
        /* It stands right after the start record of its instruction (among those of the engine). */
        if (c->last_start == UINT64_MAX || c->dge_count == DGE_WINDOW)
            return;
        c->dge[(c->dge_first + c->dge_count++) % DGE_WINDOW] =
            (struct dge){c->last_start, rec.u.dge.dma_engines, rec.u.dge.packets_per_engine, rec.u.dge.engine_group};
        return;
    default:
        return;
    }
    pop(s, c);
}

static int fill(struct instr_stream *s, struct cursor *c, struct kymo_err *err)
{
    c->next = c->count = 0;
    while (!c->count && !c->finished) {
        const uint8_t *rec;
        size_t n;
        int r = ring_io_chunk(c->io, c->chunk, &rec, &n, err);
        if (r < 0)
            return r;
        uint64_t first = c->chunk++ * RING_IO_CHUNK;
        for (size_t i = 0; i < n; i++, rec += KYMO_RECORD_SIZE) {
            if (c->pending_gap || ring_io_lost_before(rec))
                note_gap(s, c);
            c->pending_gap = ring_io_lost_after(rec);
            if (ring_io_type(rec) / 4 == c->engine + 1)
                take(s, c, rec, first + i);
        }
        if (!n) {
            c->finished = true;
            if (c->pending_gap)
                note_gap(s, c);
            pair_finish(&c->pair);
            pop(s, c);
        }
    }
    return 0;
}

static void set_key(struct cursor *c)
{
    const struct instr_event *e = &c->events[c->next];
    /* An event without a start goes out at once: waiting for its end's time would hold younger starts back. */
    if (!e->gap && e->has_start)
        c->key = e->start_ps;
}

int instr_stream_next(struct instr_stream *s, const struct instr_event **ret, struct kymo_err *err)
{
    struct cursor *best = NULL;
    for (size_t i = 0; i < s->cursor_count; i++) {
        struct cursor *c = &s->cursors[i];
        if (c->next == c->count) {
            if (c->finished)
                continue;
            int r = fill(s, c, err);
            if (r < 0)
                return r;
            if (!c->count)
                continue;
            set_key(c);
        }
        if (!best || c->key < best->key)
            best = c;
    }
    if (!best)
        return 0;
    *ret = &best->events[best->next++];
    if (best->next < best->count)
        set_key(best);
    return 1;
}
