/* CcSemaphoreUpdate: what happened to the CC-cores' own semaphores, which are not the physical cores'. */
#include <errno.h>
#include <stdio.h>

#include "arch/layout.h"
#include "base/alloc.h"
#include "pipeline/job.h"
#include "pipeline/rings/ring_io.h"

#define SOURCES 2 /* the CC-core itself, and AXI: each is in order of time */

struct cursor {
    struct ring_io io;
    const struct scan_ring *ring;
    struct met_waits *waits; /* of the CC-core; NULL: nobody asks */
    uint32_t index;
    bool axi, live;
    const uint8_t *records;
    uint64_t chunk;
    size_t n, next;
    struct record rec;
    uint64_t ps;
};

static bool wanted(const struct scan_ring *r)
{
    return r->ring.kind == NTFF__RING_KIND__RING_CC_CORE_EVENT && r->by_kind[RECORD_EVENT_SEMAPHORE];
}

static int advance(struct cursor *c, struct kymo_err *err)
{
    for (c->live = false; !c->live;) {
        if (c->next == c->n) {
            int r = ring_io_chunk(&c->io, c->chunk++, &c->records, &c->n, err);
            if (r < 0 || !c->n)
                return r;
            c->next = 0;
        }
        record_decode(c->records + c->next++ * KYMO_RECORD_SIZE, &c->rec);
        c->live = c->rec.kind == RECORD_EVENT_SEMAPHORE && (c->rec.u.sem.engine == RECORD_ENGINE_AXI) == c->axi;
    }
    c->ps = timebase_correct(c->ring->clocks.by_type[c->rec.type], c->rec.ts_ps);
    return 0;
}

static int put(struct parquet_row *row, const struct cursor *c, int64_t ts, struct kymo_err *err)
{
    const struct record *rec = &c->rec;
    char id[16];
    (void)snprintf(id, sizeof id, "%c[%u]", rec->u.sem.is_semaphore ? 'S' : 'E', rec->u.sem.id);
    parquet_row_int(row, KYMO_CC_SEMAPHORE_UPDATE_TIMESTAMP, ts);
    parquet_row_string(row, KYMO_CC_SEMAPHORE_UPDATE_ID, id);
    parquet_row_int(row, KYMO_CC_SEMAPHORE_UPDATE_VALUE, (int32_t)rec->u.sem.value);
    parquet_row_int(row, KYMO_CC_SEMAPHORE_UPDATE_CORE_IDX, c->ring->ring.engine_index);
    parquet_row_string(row, KYMO_CC_SEMAPHORE_UPDATE_UPDATE_SOURCE, c->axi ? "AXI" : "CC-core");
    parquet_row_int(row, KYMO_CC_SEMAPHORE_UPDATE_UPDATE_MODE, rec->u.sem.update_mode);
    parquet_row_string(row, KYMO_CC_SEMAPHORE_UPDATE_UPDATE_OPERATION_TYPE,
                       kymo_update_operation(rec->u.sem.update_mode));
    return parquet_row_end(row, err);
}

static int merge(struct job *j, struct cursor *cursors, size_t count, struct parquet_row *row, struct kymo_err *err)
{
    for (;;) {
        struct cursor *best = NULL;
        for (size_t i = 0; i < count; i++)
            if (cursors[i].live && (!best || cursors[i].ps < best->ps))
                best = &cursors[i];
        if (!best)
            return 0;
        const struct record *rec = &best->rec;
        j->ledger.rings[best->index].rows[RECORD_EVENT_SEMAPHORE]++;
        int r = put(row, best, timebase_ns(&j->timebase, best->ps), err);
        if (r == 0 && best->waits && !rec->u.sem.update_mode)
            r = met_waits_add(best->waits, best->ps, (rec->u.sem.is_semaphore ? 0 : 256) + rec->u.sem.id, err);
        if (r == 0)
            r = advance(best, err);
        if (r < 0)
            return r;
    }
}

/* Those of the CC-core's instructions. */
static struct met_waits *waits_of(const struct job *j, struct met_waits **waits, const struct scan_ring *ring)
{
    for (size_t i = 0; i < j->scan.count; i++)
        if (waits[i] && j->scan.rings[i].ring.engine_index == ring->ring.engine_index)
            return waits[i];
    return NULL;
}

static int run(struct job *j, struct met_waits **waits, struct cursor *cursors, struct kymo_err *err)
{
    size_t count = 0;
    int r = 0;
    for (uint32_t i = 0; i < j->scan.count; i++)
        for (int axi = 0; axi < SOURCES && r == 0 && wanted(&j->scan.rings[i]); axi++) {
            struct cursor *c = &cursors[count++];
            *c = (struct cursor){.ring = &j->scan.rings[i], .index = i, .axi = axi};
            c->waits = axi ? NULL : waits_of(j, waits, c->ring);
            ring_io_init(&c->io, j->in->ntff, i, &c->ring->times);
            r = advance(c, err);
        }
    struct parquet_row *row = NULL;
    if (r == 0)
        r = parquet_row_open(j->dir, kymo_schema_table(KYMO_T_CC_SEMAPHORE_UPDATE), &j->parquet, &row, err);
    if (r == 0)
        r = merge(j, cursors, count, row, err);
    for (size_t i = 0; i < count; i++)
        ring_io_done(&cursors[i].io);
    if (r < 0) {
        parquet_row_discard(row);
        return r;
    }
    j->result->cc_events = parquet_row_count(row);
    return parquet_row_finish(row, err);
}

int cc_events_write(struct job *j, struct met_waits **waits, struct kymo_err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < j->scan.count; i++)
        n += wanted(&j->scan.rings[i]);
    if (!n)
        return 0;
    struct cursor *cursors KYMO_FREE = KYMO_NEW_ARRAY(struct cursor, n * SOURCES);
    return cursors ? run(j, waits, cursors, err)
                   : kymo_err_set(err, -ENOMEM, "no memory for the CC-cores' event rings");
}
