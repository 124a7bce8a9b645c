#include "pipeline/semaphores/semaphores.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "arch/layout.h"
#include "base/alloc.h"
#include "formats/ntff/record_decode.h"
#include "pipeline/job.h"
#include "pipeline/rings/ring_io.h"

#define SOURCES (KYMO_ENGINE_MAX + 1) /* the engines, and AXI */

struct semaphore_row semaphores_row(const struct record *rec)
{
    struct semaphore_row r = {
        .value = (int32_t)rec->u.sem.value,
        .source = rec->u.sem.engine < 0 ? "AXI" : kymo_engine_name((enum kymo_engine)rec->u.sem.engine),
        .operation = kymo_update_operation(rec->u.sem.update_mode),
        .timing = kymo_update_timing(rec->u.sem.update_mode),
        .mode = rec->u.sem.update_mode,
        .double_set_or_clear = rec->u.sem.double_set_or_clear,
    };
    (void)snprintf(r.id, sizeof r.id, "%c[%u]", rec->u.sem.is_semaphore ? 'S' : 'E', rec->u.sem.id);
    return r;
}

struct place {
    uint64_t ps; /* corrected */
    uint64_t position;
    uint32_t gaps;
};

struct cursor {
    struct ring_io *io;
    const struct timebase_clock *clock;
    uint8_t pcore, source;
    uint64_t chunk;
    uint32_t gaps; /* losses so far */
    bool finished;
    struct place *places; /* of the chunk's records of this source */
    uint8_t *records;     /* and the records: another cursor may have replaced the chunk by now */
    size_t next, count;
};

static bool wanted(const struct input *in, const struct scan_ring *r)
{
    return r->ring.kind == NTFF__RING_KIND__RING_EVENT && r->ring.pcore_idx < in->cores &&
           r->by_kind[RECORD_EVENT_SEMAPHORE];
}

static int source_of(const uint8_t *rec)
{
    uint8_t type = ring_io_type(rec);
    if (type == 0x1b)
        return KYMO_ENGINE_MAX;
    return type >= 4 && type < 4 + 4 * KYMO_ENGINE_MAX && type % 4 == 3 ? type / 4 - 1 : -1;
}

static void take_record(struct cursor *c, const uint8_t *rec, uint64_t position)
{
    struct record one;
    c->gaps += ring_io_lost_before(rec);
    if (source_of(rec) == c->source) {
        record_decode_inline(rec, &one);
        c->places[c->count] = (struct place){timebase_correct(c->clock, one.ts_ps), position, c->gaps};
        memcpy(c->records + c->count++ * KYMO_RECORD_SIZE, rec, KYMO_RECORD_SIZE);
    }
    c->gaps += ring_io_lost_after(rec);
}

static int fill(struct cursor *c, struct kymo_err *err)
{
    c->next = c->count = 0;
    while (!c->count && !c->finished) {
        const uint8_t *rec;
        size_t n;
        int r = ring_io_chunk(c->io, c->chunk, &rec, &n, err);
        if (r < 0)
            return r;
        for (size_t i = 0; i < n; i++)
            take_record(c, rec + i * KYMO_RECORD_SIZE, c->chunk * RING_IO_CHUNK + i);
        c->finished = !n;
        c->chunk++;
    }
    return 0;
}

struct merge {
    struct ring_io *ios;
    uint32_t *ring_of_io;
    struct cursor *cursors;
    size_t io_count, cursor_count;
};

static void merge_done(struct merge *m)
{
    for (size_t i = 0; m->ios && i < m->io_count; i++)
        ring_io_done(&m->ios[i]);
    for (size_t i = 0; m->cursors && i < m->cursor_count; i++) {
        kymo_free(m->cursors[i].places);
        kymo_free(m->cursors[i].records);
    }
    kymo_free(m->ios);
    kymo_free(m->ring_of_io);
    kymo_free(m->cursors);
}

static int open_cursor(struct merge *m, const struct scan_ring *r, struct ring_io *io, unsigned source,
                       struct kymo_err *err)
{
    struct cursor *c = &m->cursors[m->cursor_count++];
    *c = (struct cursor){.io = io, .pcore = (uint8_t)r->ring.pcore_idx, .source = (uint8_t)source};
    c->clock = source < KYMO_ENGINE_MAX ? r->clocks.by_type[4 + 4 * source + 3] : NULL;
    c->places = KYMO_NEW_ARRAY(struct place, RING_IO_CHUNK);
    c->records = KYMO_NEW_ARRAY(uint8_t, (size_t)RING_IO_CHUNK * KYMO_RECORD_SIZE);
    return c->places && c->records ? 0 : kymo_err_set(err, -ENOMEM, "no memory for a cursor over semaphores");
}

static int merge_open(struct merge *m, const struct input *in, const struct scan *scan, struct kymo_err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < scan->count; i++)
        n += wanted(in, &scan->rings[i]);
    m->ios = KYMO_NEW_ARRAY(struct ring_io, n + 1);
    m->ring_of_io = KYMO_NEW_ARRAY(uint32_t, n + 1);
    m->cursors = KYMO_NEW_ARRAY(struct cursor, n * SOURCES + 1);
    if (!m->ios || !m->ring_of_io || !m->cursors)
        return kymo_err_set(err, -ENOMEM, "no memory for the event rings");
    for (size_t i = 0; i < scan->count; i++) {
        if (!wanted(in, &scan->rings[i]))
            continue;
        struct ring_io *io = &m->ios[m->io_count];
        ring_io_init_shared(io, in->ntff, i, &scan->rings[i].times);
        m->ring_of_io[m->io_count++] = (uint32_t)i;
        for (unsigned s = 0; s < SOURCES; s++) {
            int r = open_cursor(m, &scan->rings[i], io, s, err);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

/* At one time, a ring's order of writing decides. */
static bool is_before(const struct cursor *a, const struct cursor *b)
{
    const struct place *x = &a->places[a->next], *y = &b->places[b->next];
    return x->ps != y->ps ? x->ps < y->ps : a->io == b->io && x->position < y->position;
}

/* 1 and the next cursor in time, 0 at the end. */
static int pick(struct merge *m, struct cursor **ret, struct kymo_err *err)
{
    struct cursor *best = NULL;
    for (size_t i = 0; i < m->cursor_count; i++) {
        struct cursor *c = &m->cursors[i];
        if (c->next == c->count && !c->finished) {
            int r = fill(c, err);
            if (r < 0)
                return r;
        }
        if (c->next < c->count && (!best || is_before(c, best)))
            best = c;
    }
    *ret = best;
    return best != NULL;
}

static int take(struct job *j, const struct cursor *c, uint32_t ring, const struct record *rec, const struct place *at,
                struct kymo_err *err)
{
    struct consumer_semaphore row = {
        .ts = timebase_ns(&j->timebase, at->ps),
        .ps = at->ps,
        .position = at->position,
        .gaps = at->gaps,
        .value = rec->u.sem.value,
        .ring = ring,
        .mode = rec->u.sem.update_mode,
        .index = rec->u.sem.id,
        .pcore = c->pcore,
        .source = c->source,
        .is_semaphore = rec->u.sem.is_semaphore,
        .double_set_or_clear = rec->u.sem.double_set_or_clear,
    };
    j->ledger.rings[ring].rows[RECORD_EVENT_SEMAPHORE]++;
    j->result->semaphores++;
    struct met_waits *waits = c->source < KYMO_ENGINE_MAX && !row.mode ? j->met_waits[c->pcore][c->source] : NULL;
    int r = waits ? met_waits_add(waits, at->ps, (row.is_semaphore ? 0 : 256) + row.index, err) : 0;
    return r < 0 ? r : consumers_semaphore(j->consumers, &row, err);
}

static int open_waits(struct job *j, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; i < j->scan.count; i++) {
        const struct scan_ring *ring = &j->scan.rings[i];
        if (ring->ring.kind != NTFF__RING_KIND__RING_INSTRUCTION || ring->ring.pcore_idx >= j->in->cores)
            continue;
        struct met_waits **waits = j->met_waits[ring->ring.pcore_idx];
        for (unsigned e = 0; e < KYMO_ENGINE_MAX && r == 0; e++)
            r = ring->saturated >> e & 1 && !waits[e] ? met_waits_open(j->dir, &waits[e], err) : 0;
    }
    return r;
}

static int seal_waits(struct job *j, struct kymo_err *err)
{
    int r = 0;
    for (unsigned pcore = 0; pcore < INPUT_CORES_MAX; pcore++)
        for (unsigned e = 0; e < KYMO_ENGINE_MAX && r == 0; e++)
            r = j->met_waits[pcore][e] ? met_waits_seal(j->met_waits[pcore][e], err) : 0;
    return r;
}

static int run(struct job *j, struct merge *m, struct kymo_err *err)
{
    size_t hint = 0;
    struct cursor *c;
    int r;
    while ((r = pick(m, &c, err)) > 0) {
        struct record rec;
        record_decode_inline(c->records + c->next * KYMO_RECORD_SIZE, &rec);
        const struct place *at = &c->places[c->next++];
        r = take(j, c, m->ring_of_io[c->io - m->ios], &rec, at, err);
        if (r < 0)
            return r;
        timeline_count(&j->timeline, at->ps, &hint);
    }
    return r;
}

int job_semaphores(struct job *j, struct kymo_err *err)
{
    struct merge m = {0};
    int r = merge_open(&m, j->in, &j->scan, err);
    if (r == 0)
        r = open_waits(j, err);
    if (r == 0)
        r = run(j, &m, err);
    merge_done(&m);
    return r < 0 ? r : seal_waits(j, err);
}
