#include "pipeline/instructions/instr_stream.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/ntff/record_decode.h"
#include "pipeline/rings/ring_io.h"

#define DGE_WINDOW 1024 /* DGE records whose instruction is not out yet; more than the pairing window holds */
#define EVENTS_MAX (2 * RING_IO_CHUNK + PAIR_WINDOW) /* a record and a loss mark give one event each */

struct dge {
    uint64_t start_index;
    uint16_t engines, per_engine;
    bool group;
};

/* Where each engine's records stand in a chunk; those with loss marks stand in every list. */
struct index {
    uint64_t chunk; /* UINT64_MAX: empty */
    uint32_t count[KYMO_ENGINE_MAX];
    uint16_t at[KYMO_ENGINE_MAX][RING_IO_CHUNK];
};

struct source { /* one ring */
    struct ring_io io;
    struct index *indexes; /* RING_IO_SLOTS of them */
};

struct cursor {
    struct source *source;
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
    struct source *sources;
    size_t source_count;
    struct cursor *cursors;
    size_t cursor_count;
};

struct instr_stream *instr_stream_free(struct instr_stream *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; s->sources && i < s->source_count; i++) {
        ring_io_done(&s->sources[i].io);
        kymo_free(s->sources[i].indexes);
    }
    for (size_t i = 0; s->cursors && i < s->cursor_count; i++)
        kymo_free(s->cursors[i].events);
    kymo_free(s->sources);
    kymo_free(s->cursors);
    kymo_free(s);
    return NULL;
}

void instr_stream_freep(struct instr_stream **s)
{
    *s = instr_stream_free(*s);
}

static int open_cursor(struct instr_stream *s, struct source *source, uint32_t ring, unsigned engine,
                       struct kymo_err *err)
{
    struct cursor *c = &s->cursors[s->cursor_count++];
    const struct scan_ring *r = &s->scan->rings[ring];
    c->source = source;
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

static int open_source(struct instr_stream *s, uint32_t ring, struct kymo_err *err)
{
    struct source *source = &s->sources[s->source_count++];
    ring_io_init_shared(&source->io, s->in->ntff, ring, &s->scan->rings[ring].times);
    source->indexes = KYMO_NEW_ARRAY(struct index, RING_IO_SLOTS);
    if (!source->indexes)
        return kymo_err_set(err, -ENOMEM, "no memory for the instruction stream");
    for (unsigned i = 0; i < RING_IO_SLOTS; i++)
        source->indexes[i].chunk = UINT64_MAX;
    int r = 0;
    for (unsigned e = 0; e < KYMO_ENGINE_MAX && r == 0; e++)
        r = open_cursor(s, source, ring, e, err);
    return r;
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
    s->sources = KYMO_NEW_ARRAY(struct source, n + 1);
    s->cursors = KYMO_NEW_ARRAY(struct cursor, n * KYMO_ENGINE_MAX + 1);
    if (!s->sources || !s->cursors)
        return kymo_err_set(err, -ENOMEM, "no memory for the instruction stream");
    for (size_t i = 0; i < scan->count; i++) {
        int r = wanted(in, &scan->rings[i]) ? open_source(s, (uint32_t)i, err) : 0;
        if (r < 0)
            return r;
    }
    *ret = KYMO_TAKE(s);
    return 0;
}

void instr_stream_skip(struct instr_stream *s, unsigned pcore, enum kymo_engine engine)
{
    for (size_t i = 0; i < s->cursor_count; i++)
        if (s->cursors[i].pcore == pcore && s->cursors[i].engine == engine)
            s->cursors[i].finished = true;
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
    record_decode_inline(bytes, &rec);
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

static void add_to_index(struct index *x, const uint8_t *rec, uint16_t at)
{
    unsigned engine = ring_io_type(rec) / 4u - 1;
    if (ring_io_lost_before(rec) || ring_io_lost_after(rec))
        for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++)
            x->at[e][x->count[e]++] = at;
    else if (engine < KYMO_ENGINE_MAX)
        x->at[engine][x->count[engine]++] = at;
}

/* One walk over a chunk serves the cursors of all engines. */
static const struct index *index_chunk(struct source *source, uint64_t chunk, const uint8_t *records, size_t n)
{
    struct index *x = &source->indexes[chunk % RING_IO_SLOTS];
    if (x->chunk == chunk)
        return x;
    x->chunk = chunk;
    memset(x->count, 0, sizeof x->count);
    for (size_t i = 0; i < n; i++)
        add_to_index(x, records + i * KYMO_RECORD_SIZE, (uint16_t)i);
    return x;
}

static void take_chunk(struct instr_stream *s, struct cursor *c, const uint8_t *records, size_t n)
{
    uint64_t first = c->chunk * RING_IO_CHUNK;
    const struct index *x = index_chunk(c->source, c->chunk, records, n);
    for (uint32_t i = 0; i < x->count[c->engine]; i++) {
        uint16_t at = x->at[c->engine][i];
        const uint8_t *rec = records + (size_t)at * KYMO_RECORD_SIZE;
        if (c->pending_gap || ring_io_lost_before(rec))
            note_gap(s, c);
        c->pending_gap = ring_io_lost_after(rec);
        if (ring_io_type(rec) / 4 == c->engine + 1)
            take(s, c, rec, first + at);
    }
}

static void finish(struct instr_stream *s, struct cursor *c)
{
    c->finished = true;
    if (c->pending_gap)
        note_gap(s, c);
    pair_finish(&c->pair);
    pop(s, c);
}

static int fill(struct instr_stream *s, struct cursor *c, struct kymo_err *err)
{
    c->next = c->count = 0;
    while (!c->count && !c->finished) {
        const uint8_t *records;
        size_t n;
        int r = ring_io_chunk(&c->source->io, c->chunk, &records, &n, err);
        if (r < 0)
            return r;
        if (n)
            take_chunk(s, c, records, n);
        else
            finish(s, c);
        c->chunk++;
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
