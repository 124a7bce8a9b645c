#include "pipeline/cc/cc_instrs.h"

#include <errno.h>

#include "base/alloc.h"
#include "pipeline/rings/ring_io.h"

#define HINT_SHIFT RECORD_PC_BITS /* the hint belongs to what a start and its end have in common */
#define HELD_MAX (PAIR_WINDOW + 2)

struct cursor {
    struct ring_io io;
    struct pair pair;
    const struct scan_ring *ring;
    uint32_t index;
    const uint8_t *records;
    uint64_t chunk, at;
    size_t n, next_record;
    bool pending_gap, finished, dropped;
    struct pair_event held[HELD_MAX];
    size_t first, count;
    uint64_t key; /* start of the latest event that has one: partial events go out at once */
};

struct cc_instrs {
    struct cursor *cursors;
    size_t count;
};

static bool wanted(const struct scan_ring *r)
{
    return r->ring.kind == NTFF__RING_KIND__RING_CC_CORE_INSTRUCTION &&
           (r->by_kind[RECORD_INSTRUCTION_START] || r->by_kind[RECORD_INSTRUCTION_END]);
}

int cc_instrs_open(const struct job *j, struct cc_instrs **ret, struct kymo_err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < j->scan.count; i++)
        n += wanted(&j->scan.rings[i]);
    struct cc_instrs *s = KYMO_NEW(struct cc_instrs);
    if (s)
        s->cursors = KYMO_NEW_ARRAY(struct cursor, n + 1);
    if (!s || !s->cursors) {
        cc_instrs_free(s);
        return kymo_err_set(err, -ENOMEM, "no memory for the CC-cores' rings");
    }
    for (size_t i = 0; i < j->scan.count; i++) {
        if (!wanted(&j->scan.rings[i]))
            continue;
        struct cursor *c = &s->cursors[s->count++];
        uint64_t lost = 0;
        c->ring = &j->scan.rings[i];
        c->index = (uint32_t)i;
        c->dropped = ledger_lost(c->ring, &lost) && lost;
        ring_io_init(&c->io, j->in->ntff, i, &c->ring->times);
        pair_init(&c->pair);
    }
    *ret = s;
    return 0;
}

struct cc_instrs *cc_instrs_free(struct cc_instrs *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < s->count; i++)
        ring_io_done(&s->cursors[i].io);
    kymo_free(s->cursors);
    kymo_free(s);
    return NULL;
}

static void pop(struct cursor *c)
{
    while (c->first + c->count < HELD_MAX && pair_pop(&c->pair, &c->held[c->first + c->count]))
        c->count++;
}

static void take(struct cursor *c, const uint8_t *bytes)
{
    struct record rec;
    if (c->pending_gap || ring_io_lost_before(bytes))
        pair_gap(&c->pair);
    c->pending_gap = ring_io_lost_after(bytes);
    record_decode(bytes, &rec);
    if (rec.kind == RECORD_INSTRUCTION_START)
        pair_start(&c->pair, rec.u.start.pc | (uint32_t)rec.u.start.hint << HINT_SHIFT, rec.ts_ps, c->at,
                   rec.u.start.event_wait_cycles);
    else if (rec.kind == RECORD_INSTRUCTION_END)
        pair_end(&c->pair, rec.u.end.pc | (uint32_t)rec.u.end.hint << HINT_SHIFT, rec.ts_ps, c->at, 0, 0);
    c->at++;
    pop(c);
}

static int fill(struct cursor *c, struct kymo_err *err)
{
    c->first = 0;
    while (!c->count && !c->finished) {
        if (c->next_record == c->n) {
            int r = ring_io_chunk(&c->io, c->chunk++, &c->records, &c->n, err);
            if (r < 0)
                return r;
            c->next_record = 0;
        }
        if (c->n) {
            take(c, c->records + c->next_record++ * KYMO_RECORD_SIZE);
            continue;
        }
        c->finished = true;
        if (c->pending_gap)
            pair_gap(&c->pair);
        pair_finish(&c->pair);
        pop(c);
    }
    return 0;
}

static uint64_t correct(const struct cursor *c, unsigned what, uint64_t raw)
{
    return timebase_correct(c->ring->clocks.by_type[4 + 4 * KYMO_ENGINE_SYNC + what], raw);
}

static void set_key(struct cursor *c)
{
    const struct pair_event *e = &c->held[c->first];
    if (e->has_start)
        c->key = correct(c, 0, e->start_ps);
}

static struct cc_instr give(struct cursor *c)
{
    const struct pair_event *e = &c->held[c->first++];
    c->count--;
    return (struct cc_instr){
        .start_ps = e->has_start ? correct(c, 0, e->start_ps) : 0,
        .end_ps = e->has_end ? correct(c, 1, e->end_ps) : 0,
        .pc = e->pc & ((1u << HINT_SHIFT) - 1),
        .hint = (uint8_t)(e->pc >> HINT_SHIFT),
        .ring = c->index,
        .wait_cycles = e->wait_cycles,
        .reason = (uint8_t)(e->reason == PAIR_OPEN_AT_END && c->dropped ? PAIR_LOST_AFTER : e->reason),
        .has_start = e->has_start,
        .has_end = e->has_end,
    };
}

int cc_instrs_next(struct cc_instrs *s, struct cc_instr *ret, struct kymo_err *err)
{
    struct cursor *best = NULL;
    for (size_t i = 0; i < s->count; i++) {
        struct cursor *c = &s->cursors[i];
        if (!c->count && !c->finished) {
            int r = fill(c, err);
            if (r < 0)
                return r;
        }
        if (!c->count)
            continue;
        set_key(c);
        if (!best || c->key < best->key)
            best = c;
    }
    if (!best)
        return 0;
    *ret = give(best);
    return 1;
}
