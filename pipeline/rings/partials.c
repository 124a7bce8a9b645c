#include "pipeline/rings/partials.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "arch/ring.h"
#include "base/alloc.h"
#include "formats/parquet/parquet_writer.h"
#include "pipeline/spill/spill.h"

#define RUN_RECORDS 262144u
#define RUNS_MAX 4096u

struct partials {
    const char *dir; /* the caller's */
    struct partial *held;
    size_t count;
    struct spill **runs;
    size_t run_count, run_cap;
    uint64_t total;
};

int partials_open(const char *dir, struct partials **ret, struct kymo_err *err)
{
    struct partials *p = KYMO_NEW(struct partials);
    if (p)
        p->held = KYMO_NEW_ARRAY(struct partial, RUN_RECORDS);
    if (!p || !p->held) {
        partials_free(p);
        return kymo_err_set(err, -ENOMEM, "no memory for partial events");
    }
    p->dir = dir;
    *ret = p;
    return 0;
}

struct partials *partials_free(struct partials *p)
{
    if (!p)
        return NULL;
    for (size_t i = 0; i < p->run_count; i++)
        spill_free(p->runs[i]);
    kymo_free(p->runs);
    kymo_free(p->held);
    kymo_free(p);
    return NULL;
}

uint64_t partials_count(const struct partials *p)
{
    return p->total;
}

static int order(const struct partial *x, const struct partial *y)
{
    if (x->ts != y->ts)
        return x->ts < y->ts ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int by_time(const void *a, const void *b)
{
    return order(a, b);
}

static int write_run(struct partials *p, struct kymo_err *err)
{
    qsort(p->held, p->count, sizeof *p->held, by_time);
    void *runs = p->runs;
    int r = kymo_grow(&runs, &p->run_cap, p->run_count + 1, RUNS_MAX, sizeof(struct spill *));
    p->runs = runs;
    if (r < 0)
        return kymo_err_set(err, r, "too many partial events");
    struct spill *run;
    r = spill_open(p->dir, sizeof(struct partial), &run, err);
    if (r < 0)
        return r;
    p->runs[p->run_count++] = run;
    for (size_t i = 0; i < p->count && r == 0; i++)
        r = spill_append(run, &p->held[i], err);
    p->count = 0;
    return r < 0 ? r : spill_seal(run, err);
}

int partials_add(struct partials *p, struct partial one, struct kymo_err *err)
{
    if (p->count == RUN_RECORDS) {
        int r = write_run(p, err);
        if (r < 0)
            return r;
    }
    p->held[p->count++] = one;
    p->total++;
    return 0;
}

static int write_row(struct parquet_row *row, const struct partial *e, const struct scan *scan, struct kymo_err *err)
{
    static const char *const kinds[] = {"instruction", "dma_packet", "host_dma", "collective", "cc_instruction"};
    const struct ntff_ring *ring = &scan->rings[e->ring].ring;
    char label[64], number[16];
    kymo_ring_label((enum kymo_ring)ring->kind, ring->pcore_idx, ring->engine_index, label, sizeof label);
    (void)snprintf(number, sizeof number, "%u", e->engine);
    bool instruction = e->kind == PARTIAL_INSTRUCTION;
    parquet_row_int(row, KYMO_PARTIAL_EVENT_ID, e->id);
    parquet_row_string(row, KYMO_PARTIAL_EVENT_KIND, kinds[e->kind]);
    parquet_row_string(row, KYMO_PARTIAL_EVENT_RING, label);
    parquet_row_int(row, KYMO_PARTIAL_EVENT_PCORE_IDX, e->pcore);
    parquet_row_string(row, KYMO_PARTIAL_EVENT_ENGINE,
                       instruction ? kymo_engine_name((enum kymo_engine)e->engine) : number);
    if (e->pc >= 0)
        parquet_row_int(row, KYMO_PARTIAL_EVENT_PC, e->pc);
    parquet_row_string(row, KYMO_PARTIAL_EVENT_SIDE, e->start_side ? "start" : "end");
    parquet_row_int(row, KYMO_PARTIAL_EVENT_TS, e->ts);
    parquet_row_string(row, KYMO_PARTIAL_EVENT_REASON, pair_reason_name((enum pair_reason)e->reason));
    return parquet_row_end(row, err);
}

struct head {
    struct spill_reader reader;
    const struct partial *at; /* NULL: at its end */
};

static int advance(struct head *h, struct kymo_err *err)
{
    const void *next = NULL;
    int r = spill_reader_next(&h->reader, &next, err);
    h->at = r > 0 ? next : NULL;
    return r < 0 ? r : 0;
}

static int merge(struct partials *p, struct head *heads, const struct scan *scan, struct parquet_row *row,
                 struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; i < p->run_count && r == 0; i++) {
        r = spill_reader_init(&heads[i].reader, p->runs[i], err);
        if (r == 0)
            r = advance(&heads[i], err);
    }
    while (r == 0) {
        struct head *best = NULL;
        for (size_t i = 0; i < p->run_count; i++)
            if (heads[i].at && (!best || order(heads[i].at, best->at) < 0))
                best = &heads[i];
        if (!best)
            break;
        r = write_row(row, best->at, scan, err);
        if (r == 0)
            r = advance(best, err);
    }
    for (size_t i = 0; i < p->run_count; i++)
        spill_reader_done(&heads[i].reader);
    return r;
}

int partials_write(struct partials *p, const struct scan *scan, const char *dir, const struct parquet_options *opt,
                   struct kymo_err *err)
{
    int r = p->count ? write_run(p, err) : 0;
    if (r < 0)
        return r;
    struct parquet_row *row;
    r = parquet_row_open(dir, kymo_schema_table(KYMO_T_PARTIAL_EVENT), opt, &row, err);
    if (r < 0)
        return r;
    struct head *heads KYMO_FREE = KYMO_NEW_ARRAY(struct head, p->run_count + 1);
    r = heads ? merge(p, heads, scan, row, err) : kymo_err_set(err, -ENOMEM, "no memory to merge partial events");
    if (r < 0) {
        parquet_row_discard(row);
        return r;
    }
    return parquet_row_finish(row, err);
}
