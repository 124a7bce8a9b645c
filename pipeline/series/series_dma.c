/*
 * DMA and HBM traffic over time. A packet counts with its bytes over its duration while it is under way, and with all
 * its bytes from its end on. In HbmUsage a packet counts once for each of its sides that is HBM, since the traffic is
 * what is read from and what is written to HBM (the documents' MBU and their HBM throughput are both of that sum): a
 * copy inside HBM counts twice. So the last totals over all cores are Summary's dma_transfer_total_bytes and
 * hbm_read_bytes + hbm_write_bytes.
 */
#include <errno.h>

#include "base/alloc.h"
#include "pipeline/formulas/formulas.h"
#include "pipeline/formulas/rates.h"
#include "pipeline/job.h"
#include "pipeline/series/series.h"
#include "pipeline/series/series_table.h"

#define BUCKETS 4096
#define BUCKET_LEAST_NS 1000

struct bucket {
    double rates;
    unsigned __int128 totals;
    uint64_t greatest, count;
};

struct dma {
    const struct job *job;
    struct rates rates; /* the second sum is HBM's */
    struct series_table *usage, *hbm_usage, *summary;
    int64_t width, current; /* of the buckets; the one being filled */
    int64_t until;          /* where that ends */
    struct bucket buckets[RATES_LANES];
    uint64_t unsided, packets;
};

double series_cumulative(uint64_t total, int64_t at)
{
    return formulas_bytes_per_second(total, at);
}

int64_t series_width(int64_t span, int64_t n, int64_t least)
{
    static const int64_t steps[] = {1, 2, 5};
    for (int64_t power = 1; power <= INT64_MAX / 50; power *= 10)
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            int64_t width = steps[i] * power;
            if (width >= least && span / width < n)
                return width;
        }
    return INT64_MAX / 4;
}

int64_t series_span(const struct job *j)
{
    return j->scan.records ? timebase_ns(&j->timebase, j->scan.last_ps) : 0;
}

bool series_lost(const struct job *j, int ring_kind)
{
    for (size_t i = 0; i < j->scan.count; i++) {
        uint64_t lost = 0;
        const struct scan_ring *r = &j->scan.rings[i];
        if ((int)r->ring.kind == ring_kind && (r->gaps || (ledger_lost(r, &lost) && lost)))
            return true;
    }
    return false;
}

static int end_bucket(struct dma *d, struct kymo_err *err)
{
    int r = 0;
    for (unsigned lane = 0; lane < RATES_LANES && r == 0; lane++) {
        struct bucket *b = &d->buckets[lane];
        if (!b->count)
            continue;
        uint64_t totals = b->totals < INT64_MAX ? (uint64_t)b->totals : INT64_MAX;
        series_table_int(d->summary, KYMO_DMA_USAGE_SUMMARY_TIMESTAMP, d->current * d->width);
        series_table_core(d->summary, lane);
        series_table_real(d->summary, KYMO_DMA_USAGE_SUMMARY_SUM_CURRENT_THROUGHPUT, b->rates);
        series_table_int(d->summary, KYMO_DMA_USAGE_SUMMARY_SUM_TOTAL_TRANSFER_BYTES, (int64_t)totals);
        series_table_int(d->summary, KYMO_DMA_USAGE_SUMMARY_MAX_TOTAL_TRANSFER_BYTES, (int64_t)b->greatest);
        series_table_int(d->summary, KYMO_DMA_USAGE_SUMMARY_COUNT, (int64_t)b->count);
        series_table_int(d->summary, KYMO_DMA_USAGE_SUMMARY_BUCKET_RESOLUTION_NS, d->width);
        *b = (struct bucket){0};
        r = series_table_end(d->summary, err);
    }
    return r;
}

static int add_to_bucket(struct dma *d, const struct rates_point *p, struct kymo_err *err)
{
    int r = 0;
    if (p->at >= d->until) {
        r = end_bucket(d, err);
        d->current = p->at / d->width;
        d->until = d->current < INT64_MAX / d->width ? (d->current + 1) * d->width : INT64_MAX;
    }
    struct bucket *b = &d->buckets[p->lane];
    /* As the rows have them, so that a sum over the rows is this sum. */
    b->rates += (double)(float)p->rate;
    b->totals += p->total;
    b->greatest = p->total;
    b->count++;
    return r;
}

static int put(void *ctx, const struct rates_point *p, struct kymo_err *err)
{
    struct dma *d = ctx;
    int r = series_table_rate(d->usage, p->at, p->lane, p->rate, p->total, err);
    if (r == 0 && p->has_second)
        r = series_table_rate(d->hbm_usage, p->at, p->lane, p->second_rate, p->second_total, err);
    return r < 0 ? r : add_to_bucket(d, p, err);
}

static void release(void *c)
{
    struct dma *d = c;
    rates_done(&d->rates);
    series_table_discard(d->usage);
    series_table_discard(d->hbm_usage);
    series_table_discard(d->summary);
    kymo_free(d);
}

static int open_tables(struct dma *d, struct kymo_err *err)
{
    static const struct series_rate_columns usage = {KYMO_DMA_USAGE_TIMESTAMP, KYMO_DMA_USAGE_CURRENT_THROUGHPUT,
                                                     KYMO_DMA_USAGE_TOTAL_TRANSFER_BYTES,
                                                     KYMO_DMA_USAGE_CUMULATIVE_THROUGHPUT};
    static const struct series_rate_columns hbm = {KYMO_HBM_USAGE_TIMESTAMP, KYMO_HBM_USAGE_CURRENT_THROUGHPUT,
                                                   KYMO_HBM_USAGE_TOTAL_TRANSFER_BYTES,
                                                   KYMO_HBM_USAGE_CUMULATIVE_THROUGHPUT};
    const struct job *j = d->job;
    int r = series_table_open(j->dir, &j->parquet, KYMO_T_DMA_USAGE, KYMO_DMA_USAGE_PCORE_IDX, &d->usage, err);
    if (r == 0)
        r = series_table_open(j->dir, &j->parquet, KYMO_T_HBM_USAGE, KYMO_HBM_USAGE_PCORE_IDX, &d->hbm_usage, err);
    if (r == 0)
        r = series_table_open(j->dir, &j->parquet, KYMO_T_DMA_USAGE_SUMMARY, KYMO_DMA_USAGE_SUMMARY_PCORE_IDX,
                              &d->summary, err);
    if (r == 0) {
        series_table_rates(d->usage, &usage);
        series_table_rates(d->hbm_usage, &hbm);
    }
    return r;
}

static int open_dma(const struct job *j, void **ret, struct kymo_err *err)
{
    struct dma *d = KYMO_NEW(struct dma);
    if (!d)
        return kymo_err_set(err, -ENOMEM, "no memory for the DMA series");
    d->job = j;
    d->width = (int64_t)j->settings.dma_usage_bucket_ns;
    if (!d->width)
        d->width = series_width(series_span(j), BUCKETS, BUCKET_LEAST_NS);
    d->until = d->width;
    int r = rates_init(&d->rates, j->dir, put, d, err);
    if (r == 0)
        r = open_tables(d, err);
    if (r < 0) {
        release(d);
        return r;
    }
    *ret = d;
    return 0;
}

static int take_packets(void *c, const struct consumer_packet *rows, size_t n, struct kymo_err *err)
{
    struct dma *d = c;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct dma_packet_row *p = &rows[i].row;
        unsigned lane = p->phys / (DMA_ENGINES * DMA_QUEUES);
        unsigned sides = (rows[i].flow.from == DMA_MEMORY_HBM) + (unsigned)(rows[i].flow.to == DMA_MEMORY_HBM);
        d->packets++;
        d->unsided += rows[i].flow.from == DMA_MEMORY_UNKNOWN || rows[i].flow.to == DMA_MEMORY_UNKNOWN;
        r = rates_add(&d->rates, lane, p->start, p->end, p->bytes, sides, err);
    }
    return r;
}

static int finish_tables(struct dma *d, struct kymo_err *err)
{
    struct series_table *tables[] = {d->usage, d->hbm_usage, d->summary};
    int r = 0;
    d->usage = d->hbm_usage = d->summary = NULL;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (r == 0)
            r = series_table_finish(tables[i], err);
        else
            series_table_discard(tables[i]);
    }
    return r;
}

/* Tables end with their stage: the stages after it need the memory. */
static int end_stage(void *c, enum consumer_stage stage, struct kymo_err *err)
{
    struct dma *d = c;
    if (stage != CONSUMER_TRANSFERS)
        return 0;
    int r = rates_finish(&d->rates, err);
    if (r == 0)
        r = end_bucket(d, err);
    rates_done(&d->rates);
    return r < 0 ? r : finish_tables(d, err);
}

static void warn(const struct dma *d, struct warnings *w)
{
    if (series_lost(d->job, NTFF__RING_KIND__RING_DMA))
        warnings_add(
            w, "Lower bounds",
            "DMA records were lost: rates and totals of DmaUsage, DmaUsageSummary and HbmUsage are lower bounds, "
            "and so is the number of transfers in PendingDma; larger DMA buffers keep more. Totals of DmaUsage and "
            "DmaUsageSummary have the packets of no known transfer, too, which dma_transfer_total_bytes of Summary "
            "has not");
    if (d->unsided)
        warnings_add(w, "Lower bounds",
                     "the memories of %llu of %llu DMA packets are not both known: HbmUsage is a lower bound",
                     (unsigned long long)d->unsided, (unsigned long long)d->packets);
    if (d->rates.late)
        warnings_add(w, "Timestamps",
                     "%llu DMA packets begin before packets that were recorded before them: in DmaUsage and HbmUsage "
                     "they begin later",
                     (unsigned long long)d->rates.late);
}

static int finish(void *c, struct warnings *w, struct kymo_err *err)
{
    (void)err;
    warn(c, w);
    return 0;
}

const struct consumer series_dma = {
    .name = "DMA series",
    .open = open_dma,
    .packets = take_packets,
    .end_stage = end_stage,
    .finish = finish,
    .free = release,
};
