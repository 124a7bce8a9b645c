/*
 * Transfers that are triggered and not yet complete, per physical core, at each change. A transfer waits from the end
 * of the instruction that triggered it, or from its first packet where that came before or no trigger is known, until
 * its last packet has ended. No document says what counts; this is ours (class G).
 */
#include <errno.h>

#include "base/alloc.h"
#include "pipeline/formulas/levels.h"
#include "pipeline/job.h"
#include "pipeline/series/series.h"
#include "pipeline/series/series_table.h"

struct pending {
    struct levels levels;
    struct series_table *table;
};

static void release(void *c)
{
    struct pending *p = c;
    levels_done(&p->levels);
    series_table_discard(p->table);
    kymo_free(p);
}

static int open_pending(const struct job *j, void **ret, struct kymo_err *err)
{
    struct pending *p = KYMO_NEW(struct pending);
    if (!p)
        return kymo_err_set(err, -ENOMEM, "no memory for the pending transfers");
    int r = levels_init(&p->levels, j->dir, err);
    if (r == 0)
        r = series_table_open(j->dir, &j->parquet, KYMO_T_PENDING_DMA, KYMO_PENDING_DMA_PCORE_IDX, &p->table, err);
    if (r < 0) {
        release(p);
        return r;
    }
    *ret = p;
    return 0;
}

static int take(void *c, const struct consumer_transfer *rows, size_t n, struct kymo_err *err)
{
    struct pending *p = c;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct dma_transfer *t = &rows[i].transfer;
        int64_t since = t->has_trigger_end && t->trigger_end < t->start ? t->trigger_end : t->start;
        r = levels_add(&p->levels, t->pcore, since, t->end, err);
    }
    return r;
}

static int put(void *ctx, unsigned lane, int64_t at, int64_t value, struct kymo_err *err)
{
    struct pending *p = ctx;
    series_table_int(p->table, KYMO_PENDING_DMA_TIMESTAMP, at);
    series_table_int(p->table, KYMO_PENDING_DMA_VALUE, value);
    series_table_core(p->table, lane);
    return series_table_end(p->table, err);
}

/* The table ends with its stage: the stages after it need the memory. */
static int end_stage(void *c, enum consumer_stage stage, struct kymo_err *err)
{
    struct pending *p = c;
    if (stage != CONSUMER_TRANSFERS)
        return 0;
    int r = levels_finish(&p->levels, put, p, err);
    levels_done(&p->levels);
    if (r < 0)
        return r;
    struct series_table *table = p->table;
    p->table = NULL;
    return series_table_finish(table, err);
}

static int finish(void *c, struct warnings *w, struct kymo_err *err)
{
    (void)c;
    (void)w; /* series_dma.c speaks of lost records for all DMA series */
    (void)err;
    return 0;
}

const struct consumer series_pending = {
    .name = "pending transfers",
    .open = open_pending,
    .transfers = take,
    .end_stage = end_stage,
    .finish = finish,
    .free = release,
};
