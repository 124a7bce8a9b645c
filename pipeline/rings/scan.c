#include "pipeline/rings/scan.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/ntff/notice.h"
#include "formats/ntff/record_decode.h"
#include "pipeline/rings/ring_io.h"
#include "pipeline/rings/scan_times.h"

#define PC_WORDS (SCAN_PCS / 64)

static bool is_dma_ring(const struct ntff_ring *r)
{
    return r->kind == NTFF__RING_KIND__RING_DMA || r->kind == NTFF__RING_KIND__RING_H2D_DMA;
}

static uint64_t *pc_map(const struct scan *s, uint32_t node, unsigned pcore, unsigned engine)
{
    if (node == TIMELINE_NO_NODE)
        node = (uint32_t)s->nodes;
    if (node > s->nodes || pcore >= INPUT_CORES_MAX || engine >= KYMO_ENGINE_MAX)
        return NULL;
    size_t at = ((size_t)node * INPUT_CORES_MAX + pcore) * KYMO_ENGINE_MAX + engine;
    return s->pcs + at * PC_WORDS;
}

const uint64_t *scan_pcs(const struct scan *s, uint32_t node, unsigned pcore, enum kymo_engine engine)
{
    return pc_map(s, node, pcore, (unsigned)engine);
}

/* The pass over one ring. */
struct walk {
    struct scan *s;
    struct scan_ring *r;
    const struct kymo_arch *arch;
    const struct timeline *timeline;
    struct scan_times *times;
    size_t hint;
    uint64_t seen, last_ps;     /* records so far, and the greatest of their times */
    bool pending_gap;           /* the record before said that later ones were lost */
    int64_t depth[SCAN_QUEUES]; /* opened minus closed in this stretch */
};

static int new_segment(struct scan_ring *r, struct kymo_err *err)
{
    if (r->segment_count == SCAN_SEGMENTS_MAX)
        return 0;
    void *p = r->segments;
    int e = kymo_grow(&p, &r->segment_cap, r->segment_count + 1, SCAN_SEGMENTS_MAX, sizeof *r->segments);
    r->segments = p;
    if (e < 0)
        return kymo_err_set(err, e, "no memory for the stretches of a DMA ring");
    r->segments[r->segment_count++] = (struct scan_segment){0};
    return 0;
}

static int note_gap(struct walk *w, uint64_t ps, struct kymo_err *err)
{
    struct scan_ring *r = w->r;
    if (!r->gaps)
        r->gap_first_ps = w->seen ? w->last_ps : ps;
    r->gap_last_ps = ps;
    r->gaps++;
    memset(w->depth, 0, sizeof w->depth);
    return is_dma_ring(&r->ring) ? new_segment(r, err) : 0;
}

/* Closings beyond the openings of a stretch belong to packets that were open before it. */
static void note_dma(struct walk *w, const struct record *rec)
{
    struct scan_ring *r = w->r;
    unsigned kind = rec->u.dma.kind & 15, queue = rec->u.dma.queue & 15;
    r->by_dma_kind[kind]++;
    if (kind == w->arch->dma_open) {
        w->depth[queue]++;
    } else if (kind == w->arch->dma_close) {
        int64_t depth = --w->depth[queue];
        struct scan_segment *seg = &r->segments[r->segment_count - 1];
        if (depth < 0 && (uint64_t)-depth > seg->open[queue])
            seg->open[queue] = (uint32_t)-depth;
    }
}

static void note_pc(struct walk *w, unsigned pcore, unsigned engine, uint32_t pc, uint64_t ps)
{
    uint64_t *map = pc_map(w->s, timeline_node(w->timeline, ps, &w->hint), pcore, engine);
    if (map)
        map[pc / 64] |= 1ull << (pc % 64);
}

static void note_start(struct walk *w, const struct record *rec)
{
    if (rec->u.start.event_wait_cycles == RECORD_WAIT_SATURATED)
        w->r->saturated = (uint8_t)(w->r->saturated | 1u << (unsigned)rec->u.start.engine);
}

/* What depends on a record's time waits until that is believed. */
static void note_time(void *ctx, uint64_t ps, uint32_t low)
{
    struct walk *w = ctx;
    struct scan_ring *r = w->times->r;
    unsigned type = scan_times_type(low);
    r->first_ps = ps < r->first_ps ? ps : r->first_ps;
    r->last_ps = ps > r->last_ps ? ps : r->last_ps;
    if (r->ring.kind == NTFF__RING_KIND__RING_INSTRUCTION && type >= RECORD_TYPE_ENGINE_FIRST &&
        type <= RECORD_TYPE_ENGINE_LAST && (type & 3) <= RECORD_WHAT_END)
        note_pc(w, r->ring.pcore_idx, (type - RECORD_TYPE_ENGINE_FIRST) / 4, low & RECORD_PC_MASK, ps);
}

static int note_record(struct walk *w, const uint8_t *bytes, uint64_t ps, struct kymo_err *err)
{
    struct scan_ring *r = w->r;
    struct record rec;
    record_decode_inline(bytes, &rec);
    if (w->pending_gap || rec.sw_overflow) {
        int e = note_gap(w, ps, err);
        if (e < 0)
            return e;
    }
    w->pending_gap = rec.hw_overflow;
    r->sw_mark |= rec.sw_overflow;
    r->hw_mark |= rec.hw_overflow;
    w->last_ps = ps > w->last_ps ? ps : w->last_ps;
    r->by_kind[rec.kind]++;
    r->customs += rec.kind == RECORD_EXPLICIT && notice_is_error(&rec);
    if (rec.kind == RECORD_DMA && is_dma_ring(&r->ring))
        note_dma(w, &rec);
    else if (rec.kind == RECORD_INSTRUCTION_START)
        note_start(w, &rec);
    uint64_t index = w->seen++;
    uint32_t low = kymo_le32(bytes);
    if (scan_times_inner(w->times, low)) {
        scan_times_certain(w->times, ps);
        note_time(w, ps, low);
        return 0;
    }
    const struct time_order_entry e = {
        .ps = ps, .raw = rec.ts_ps, .index = index, .low = low, .high = kymo_le32(bytes + 4)};
    return scan_times_add(w->times, &e);
}

static int scan_ring(struct walk *w, const struct ntff_reader *reader, size_t index, scan_progress progress, void *ctx,
                     struct kymo_err *err)
{
    struct ring_io io;
    ring_io_init(&io, reader, index, NULL);
    int r = is_dma_ring(&w->r->ring) ? new_segment(w->r, err) : 0;
    for (uint64_t chunk = 0; r == 0; chunk++) {
        const uint8_t *rec;
        size_t n;
        r = ring_io_chunk(&io, chunk, &rec, &n, err);
        if (r < 0 || !n)
            break;
        scan_times_chunk(w->times, rec, n);
        for (size_t i = 0; i < n && r == 0; i++)
            r = note_record(w, rec + i * KYMO_RECORD_SIZE, w->times->ps[i], err);
        w->s->records += n;
        if (r == 0 && progress && progress(ctx, w->s->records))
            r = kymo_err_set(err, -ECANCELED, "stopped");
    }
    if (r == 0 && w->pending_gap)
        r = note_gap(w, w->last_ps, err);
    if (r == 0)
        r = scan_times_end_ring(w->times);
    ring_io_done(&io);
    return r;
}

static int allocate(struct scan *s, const struct input *in, struct kymo_err *err)
{
    *s = (struct scan){.count = ntff_reader_ring_count(in->ntff), .nodes = in->node_count, .first_ps = UINT64_MAX};
    s->rings = KYMO_NEW_ARRAY(struct scan_ring, s->count + 1);
    s->pcs = KYMO_NEW_ARRAY(uint64_t, (s->nodes + 1) * INPUT_CORES_MAX * KYMO_ENGINE_MAX * PC_WORDS);
    return s->rings && s->pcs ? 0 : kymo_err_set(err, -ENOMEM, "no memory for the first pass");
}

static int scan_rings(struct walk *w, const struct input *in, const struct timebase *tb, scan_progress progress,
                      void *ctx, struct kymo_err *err)
{
    struct scan *s = w->s;
    int r = 0;
    w->times->note = note_time;
    w->times->ctx = w;
    for (size_t i = 0; i < s->count && r == 0; i++) {
        struct scan_ring *ring = &s->rings[i];
        ring->ring = *ntff_reader_ring(in->ntff, i);
        ring->clocks = timebase_of_ring(tb, in, &ring->ring);
        ring->first_ps = UINT64_MAX;
        w->r = w->times->r = ring;
        w->times->ring = (uint32_t)i;
        w->seen = w->last_ps = 0;
        w->pending_gap = false;
        memset(w->depth, 0, sizeof w->depth);
        r = scan_ring(w, in->ntff, i, progress, ctx, err);
    }
    return r == 0 ? scan_times_end(w->times, w->timeline) : r;
}

static uint64_t within(uint64_t ps, const struct scan_ring *r)
{
    return ps < r->first_ps ? r->first_ps : ps > r->last_ps ? r->last_ps : ps;
}

/* A loss may have been told by a record whose time is in doubt. */
static void sum_up(struct scan *s, const struct input *in)
{
    for (size_t i = 0; i < s->count; i++) {
        struct scan_ring *r = &s->rings[i];
        if (r->gaps) {
            r->gap_first_ps = within(r->gap_first_ps, r);
            r->gap_last_ps = within(r->gap_last_ps, r);
        }
        if (r->times.count)
            r->doubtful_offset = ntff_reader_record_offset(in->ntff, i, r->times.at[0].index);
        s->first_ps = r->first_ps < s->first_ps ? r->first_ps : s->first_ps;
        s->last_ps = r->last_ps > s->last_ps ? r->last_ps : s->last_ps;
    }
}

int scan_run(struct scan *s, const struct input *in, const struct timebase *tb, const struct timeline *t,
             scan_progress progress, void *ctx, struct kymo_err *err)
{
    struct walk w = {.s = s, .arch = in->arch, .timeline = t};
    int r = allocate(s, in, err);
    if (r == 0 && !(w.times = scan_times_new(s, err)))
        r = -ENOMEM;
    if (r == 0)
        r = scan_rings(&w, in, tb, progress, ctx, err);
    scan_times_free(w.times);
    if (r == 0)
        sum_up(s, in);
    if (r == 0 && s->first_ps > s->last_ps)
        s->first_ps = s->last_ps = 0;
    if (r < 0)
        scan_done(s);
    return r;
}

void scan_done(struct scan *s)
{
    for (size_t i = 0; s->rings && i < s->count; i++) {
        kymo_free(s->rings[i].segments);
        kymo_free(s->rings[i].times.at);
    }
    kymo_free(s->rings);
    kymo_free(s->pcs);
    *s = (struct scan){0};
}
