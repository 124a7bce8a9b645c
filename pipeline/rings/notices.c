#include "pipeline/rings/notices.h"

#include <string.h>

#include "arch/ring.h"
#include "formats/ntff/notice.h"
#include "formats/parquet/parquet_writer.h"
#include "pipeline/job.h"
#include "pipeline/rings/ring_io.h"
#include "pipeline/spill/sort_spill.h"

struct error_record {
    uint64_t ts;
    uint8_t bytes[KYMO_RECORD_SIZE];
    uint64_t ring;
};

struct pass {
    struct job *j;
    struct sort_spill *throttles, *errors;
    struct parquet_row *row;
    uint64_t saturated;
};

static uint64_t notices_in(const struct scan_ring *r)
{
    return r->by_kind[RECORD_HAM] + r->by_kind[RECORD_ERROR] + r->by_kind[RECORD_TPB_ERROR] + r->customs;
}

static int take_throttle(struct pass *p, uint32_t ring, const struct record *rec, int64_t ts, struct kymo_err *err)
{
    struct notice_throttle t;
    notice_throttle(rec, &t);
    p->saturated += t.duration_ns == NOTICE_DURATION_SATURATED;
    const struct notices_throttle row = {.start = (uint64_t)ts,
                                         .duration = t.duration_ns,
                                         .ring = ring,
                                         .pcore = (uint8_t)p->j->scan.rings[ring].ring.pcore_idx,
                                         .class_id = t.class_id,
                                         .k = t.k,
                                         .n = t.n};
    return sort_spill_add(p->throttles, ts, &row, err);
}

static int take(struct pass *p, uint32_t ring, const uint8_t *bytes, struct kymo_err *err)
{
    struct record rec;
    record_decode(bytes, &rec);
    const struct timebase_ring *clocks = &p->j->scan.rings[ring].clocks;
    if (rec.kind != RECORD_HAM && !notice_is_error(&rec))
        return 0;
    int64_t ts = timebase_ns(&p->j->timebase, timebase_correct(clocks->by_type[rec.type], rec.ts_ps));
    if (rec.kind == RECORD_HAM)
        return take_throttle(p, ring, &rec, ts, err);
    struct error_record one = {.ts = (uint64_t)ts, .ring = ring};
    memcpy(one.bytes, bytes, sizeof one.bytes);
    return sort_spill_add(p->errors, ts, &one, err);
}

static int read_ring(struct pass *p, uint32_t ring, struct kymo_err *err)
{
    struct ring_io io;
    ring_io_init(&io, p->j->in->ntff, ring, &p->j->scan.rings[ring].times);
    int r = 0;
    for (uint64_t chunk = 0; r == 0; chunk++) {
        const uint8_t *rec;
        size_t n;
        r = ring_io_chunk(&io, chunk, &rec, &n, err);
        if (r < 0 || !n)
            break;
        for (size_t i = 0; i < n && r == 0; i++)
            r = take(p, ring, rec + i * KYMO_RECORD_SIZE, err);
    }
    ring_io_done(&io);
    return r;
}

static void put_ring(struct pass *p, unsigned column, uint32_t ring)
{
    const struct ntff_ring *r = &p->j->scan.rings[ring].ring;
    char label[64];
    kymo_ring_label((enum kymo_ring)r->kind, r->pcore_idx, r->engine_index, label, sizeof label);
    parquet_row_string(p->row, column, label);
}

static int write_throttle(struct pass *p, const void *record, struct kymo_err *err)
{
    const struct notices_throttle *t = record;
    parquet_row_int(p->row, KYMO_THROTTLE_DURATION, t->duration);
    parquet_row_int(p->row, KYMO_THROTTLE_K, t->k);
    parquet_row_int(p->row, KYMO_THROTTLE_N, t->n);
    parquet_row_int(p->row, KYMO_THROTTLE_TIMESTAMP, (int64_t)t->start);
    parquet_row_string(p->row, KYMO_THROTTLE_TYPE, notice_throttle_class(t->class_id));
    parquet_row_int(p->row, KYMO_THROTTLE_PCORE_IDX, t->pcore);
    put_ring(p, KYMO_THROTTLE_RING, t->ring);
    p->j->ledger.rings[t->ring].rows[RECORD_HAM]++;
    int r = parquet_row_end(p->row, err);
    return r < 0 ? r : spill_append(p->j->throttles, t, err);
}

static int write_error(struct pass *p, const void *record, struct kymo_err *err)
{
    const struct error_record *e = record;
    const struct ntff_ring *ring = &p->j->scan.rings[e->ring].ring;
    struct record rec;
    struct notice_error notice;
    record_decode(e->bytes, &rec);
    notice_error(&rec, &notice);
    parquet_row_string(p->row, KYMO_ERROR_DESCRIPTION, notice.description);
    parquet_row_int(p->row, KYMO_ERROR_ERROR_TYPE_ID, notice.id);
    parquet_row_string(p->row, KYMO_ERROR_METADATA, *notice.metadata ? notice.metadata : NULL);
    parquet_row_string(p->row, KYMO_ERROR_METADATA_HEX, notice.metadata_hex);
    if (scan_of_core(ring))
        parquet_row_int(p->row, KYMO_ERROR_PCORE_IDX, ring->pcore_idx);
    parquet_row_int(p->row, KYMO_ERROR_TIMESTAMP, (int64_t)e->ts);
    parquet_row_string(p->row, KYMO_ERROR_TYPE, notice.type);
    put_ring(p, KYMO_ERROR_RING, (uint32_t)e->ring);
    p->j->ledger.rings[e->ring].rows[rec.kind]++;
    return parquet_row_end(p->row, err);
}

static int write_table(struct pass *p, enum kymo_table_id table, struct sort_spill *rows,
                       int (*each)(struct pass *, const void *, struct kymo_err *), uint64_t *ret_rows,
                       struct kymo_err *err)
{
    struct job *j = p->j;
    int r = parquet_row_open(j->dir, kymo_schema_table(table), &j->parquet, &p->row, err);
    if (r < 0)
        return r;
    const void *record;
    r = sort_spill_merge(rows, err);
    while (r >= 0 && (r = sort_spill_next(rows, &record, err)) > 0)
        r = each(p, record, err);
    if (r < 0) {
        parquet_row_discard(p->row);
        return r;
    }
    *ret_rows = parquet_row_count(p->row);
    return parquet_row_finish(p->row, err);
}

static int write_throttles(struct pass *p, struct kymo_err *err)
{
    struct job *j = p->j;
    int r = spill_open(j->dir, sizeof(struct notices_throttle), &j->throttles, err);
    if (r == 0)
        r = write_table(p, KYMO_T_THROTTLE, p->throttles, write_throttle, &j->result->throttles, err);
    if (r == 0 && j->result->throttles)
        return spill_seal(j->throttles, err);
    j->throttles = spill_free(j->throttles);
    return r;
}

int notices_run(struct job *j, struct kymo_err *err)
{
    struct pass p = {.j = j};
    uint64_t found = 0;
    for (size_t i = 0; i < j->scan.count; i++)
        found += notices_in(&j->scan.rings[i]);
    if (!found)
        return 0;
    int r = sort_spill_open(j->dir, sizeof(struct notices_throttle), 0, &p.throttles, err);
    if (r == 0)
        r = sort_spill_open(j->dir, sizeof(struct error_record), 0, &p.errors, err);
    for (size_t i = 0; i < j->scan.count && r == 0; i++)
        if (notices_in(&j->scan.rings[i]))
            r = read_ring(&p, (uint32_t)i, err);
    if (r == 0)
        r = write_throttles(&p, err);
    if (r == 0)
        r = write_table(&p, KYMO_T_ERROR, p.errors, write_error, &j->result->errors, err);
    if (p.saturated)
        warnings_add(j->warnings, "Throttle",
                     "%llu throttled spans lasted longer than their record can say: their durations are lower bounds",
                     (unsigned long long)p.saturated);
    sort_spill_free(p.throttles);
    sort_spill_free(p.errors);
    return r;
}
