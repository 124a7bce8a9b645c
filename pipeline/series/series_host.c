/*
 * Host-device traffic over time, over all host-device engines whose trace the profile holds. None of it is in DmaUsage,
 * and nothing of DmaUsage is here.
 */
#include <errno.h>

#include "base/alloc.h"
#include "pipeline/formulas/rates.h"
#include "pipeline/job.h"
#include "pipeline/series/series.h"
#include "pipeline/series/series_table.h"

struct host {
    const struct job *job;
    struct rates rates;
    struct series_table *usage;
};

static int put(void *ctx, const struct rates_point *p, struct kymo_err *err)
{
    struct host *h = ctx;
    series_table_int(h->usage, KYMO_HOST_DMA_USAGE_TIMESTAMP, p->at);
    series_table_real(h->usage, KYMO_HOST_DMA_USAGE_CURRENT_THROUGHPUT, p->rate);
    series_table_int(h->usage, KYMO_HOST_DMA_USAGE_TOTAL_TRANSFER_BYTES, (int64_t)p->total);
    series_table_real(h->usage, KYMO_HOST_DMA_USAGE_CUMULATIVE_THROUGHPUT, series_cumulative(p->total, p->at));
    return series_table_end(h->usage, err);
}

static void release(void *c)
{
    struct host *h = c;
    rates_done(&h->rates);
    series_table_discard(h->usage);
    kymo_free(h);
}

static int open_host(const struct job *j, void **ret, struct kymo_err *err)
{
    struct host *h = KYMO_NEW(struct host);
    if (!h)
        return kymo_err_set(err, -ENOMEM, "no memory for the host-device series");
    h->job = j;
    int r = rates_init(&h->rates, j->dir, put, h, err);
    if (r == 0)
        r = series_table_open(j->dir, &j->parquet, KYMO_T_HOST_DMA_USAGE, KYMO_HOST_DMA_USAGE_MAX, &h->usage, err);
    if (r < 0) {
        release(h);
        return r;
    }
    *ret = h;
    return 0;
}

static int take(void *c, const struct consumer_host_transfer *rows, size_t n, struct kymo_err *err)
{
    struct host *h = c;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = rates_add(&h->rates, 0, rows[i].start, rows[i].end, rows[i].bytes, 0, err);
    return r;
}

/* The table ends with its stage: the stages after it need the memory. */
static int end_stage(void *c, enum consumer_stage stage, struct kymo_err *err)
{
    struct host *h = c;
    if (stage != CONSUMER_HOST_TRANSFERS)
        return 0;
    int r = rates_finish(&h->rates, err);
    rates_done(&h->rates);
    if (r < 0)
        return r;
    struct series_table *usage = h->usage;
    h->usage = NULL;
    return series_table_finish(usage, err);
}

static int finish(void *c, struct warnings *w, struct kymo_err *err)
{
    const struct host *h = c;
    (void)err;
    if (series_lost(h->job, NTFF__RING_KIND__RING_H2D_DMA))
        warnings_add(w, "Lower bounds",
                     "host-device DMA records were lost: rates and totals of HostDmaUsage are lower bounds; "
                     "NEURON_RT_PROFILE_BUF_H2D_DMA_MB sets the buffer");
    return 0;
}

const struct consumer series_host = {
    .name = "host-device series",
    .open = open_host,
    .host_transfers = take,
    .end_stage = end_stage,
    .finish = finish,
    .free = release,
};
