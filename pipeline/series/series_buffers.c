/*
 * On-chip memory in use: SbufUsage, PsumUsage and, where asked for, SbufAllocation. What counts as in use is in
 * buffer_use.h, what an access covers in buffer_ranges.h. An instruction uses its operands from the end of its wait to
 * its end, a transfer its side in SBUF from its first packet to its last. Usage is sampled at instants a fixed time
 * apart (a setting); a core has a row where anything differs from its row before. The fill of a PSUM bank is the mean
 * of its fill in partitions 0, 32, 64 and 96, the partitions that SbufUsage has.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/formulas/formulas.h"
#include "pipeline/job.h"
#include "pipeline/series/buffer_ranges.h"
#include "pipeline/series/buffer_samples.h"
#include "pipeline/series/sbuf_rows.h"
#include "pipeline/series/series.h"
#include "pipeline/series/series_table.h"
#include "pipeline/spill/time_queue.h"

#define CELLS_MAX (1u << 22)                         /* in the lists of all ranges of a core */
#define COLUMNS (BUFFER_MAP_SBUF + BUFFER_MAP_BANKS) /* SBUF lanes, PSUM banks */

struct touches { /* of a static row */
    uint32_t range[BUFFER_RANGES_MAX];
    uint8_t how[BUFFER_RANGES_MAX], pcore[BUFFER_RANGES_MAX];
    uint8_t count;
    bool transfer;
};

struct core {
    struct buffers *all;
    struct buffer_map map;
    struct buffer_use use;
    struct buffer_samples samples;
    uint32_t (*bytes)[COLUMNS]; /* of a cell */
    unsigned pcore;
};

struct buffers {
    const struct job *job;
    struct core cores[INPUT_CORES_MAX];
    struct touches *by_row;
    struct time_queue *accesses;
    struct sbuf_rows *rows; /* NULL: not asked for */
    struct series_table *sbuf, *psum;
    uint64_t unknown, cut;
};

static void release(void *c)
{
    struct buffers *b = c;
    for (unsigned i = 0; i < INPUT_CORES_MAX; i++) {
        struct core *core = &b->cores[i];
        buffer_use_done(&core->use);
        buffer_samples_done(&core->samples);
        buffer_map_done(&core->map);
        kymo_free(core->bytes);
    }
    time_queue_free(b->accesses);
    sbuf_rows_discard(b->rows);
    series_table_discard(b->sbuf);
    series_table_discard(b->psum);
    kymo_free(b->by_row);
    kymo_free(b);
}

static size_t touches_of(const struct buffers *b, size_t row, struct buffer_touch ret[BUFFER_RANGES_MAX],
                         unsigned *unknown)
{
    struct static_facts facts;
    statics_facts(&b->job->statics, &b->job->statics.rows[row], &facts);
    return buffer_ranges_of(b->job->in->arch, &b->job->statics.rows[row], &facts, ret, unknown);
}

/* Ranges first, then the cells, then each row's ranges by number. */
static int gather_ranges(struct buffers *b, struct kymo_err *err)
{
    struct buffer_touch t[BUFFER_RANGES_MAX];
    int r = 0;
    for (size_t i = 0; i < b->job->statics.count && r == 0; i++) {
        unsigned unknown = 0;
        size_t n = touches_of(b, i, t, &unknown);
        b->unknown += unknown;
        for (size_t k = 0; k < n && r == 0; k++)
            r = buffer_map_add(&b->cores[t[k].pcore].map, t[k].range, err);
    }
    for (unsigned i = 0; i < INPUT_CORES_MAX && r == 0; i++)
        r = buffer_map_cut(&b->cores[i].map, CELLS_MAX, err);
    return r;
}

static void number_ranges(struct buffers *b)
{
    struct buffer_touch t[BUFFER_RANGES_MAX];
    for (size_t i = 0; i < b->job->statics.count; i++) {
        unsigned unknown = 0;
        size_t n = touches_of(b, i, t, &unknown);
        struct touches *to = &b->by_row[i];
        for (size_t k = 0; k < n; k++) {
            uint32_t range = buffer_map_find(&b->cores[t[k].pcore].map, t[k].range);
            if (range == UINT32_MAX)
                continue;
            to->range[to->count] = range;
            to->how[to->count] = t[k].how;
            to->pcore[to->count++] = t[k].pcore;
            to->transfer = t[k].transfer;
        }
    }
}

static int take_span(void *ctx, uint32_t cell, int64_t since, int64_t until, uint32_t owner, struct kymo_err *err)
{
    struct core *core = ctx;
    for (size_t column = 0; column < COLUMNS; column++)
        if (core->bytes[cell][column])
            buffer_samples_add(&core->samples, column, since, until, core->bytes[cell][column]);
    struct sbuf_rows *rows = core->all->rows;
    return rows ? sbuf_rows_add(rows, &core->map, core->pcore, cell, since, until, owner, err) : 0;
}

static void measure_cells(struct core *core, uint32_t bank_bytes)
{
    for (size_t i = 0; i < core->map.segment_count; i++) {
        const struct buffer_segment *s = &core->map.segments[i];
        uint32_t *bytes = core->bytes[s->cell];
        if (s->lane < BUFFER_MAP_SBUF) {
            bytes[s->lane] += s->end - s->first;
            continue;
        }
        for (uint32_t at = s->first; at < s->end;) {
            uint32_t bank = at / bank_bytes, end = (bank + 1) * bank_bytes;
            end = end < s->end ? end : s->end;
            if (bank < BUFFER_MAP_BANKS)
                bytes[BUFFER_MAP_SBUF + bank] += end - at;
            at = end;
        }
    }
}

static int open_core(struct buffers *b, unsigned pcore, struct kymo_err *err)
{
    struct core *core = &b->cores[pcore];
    int64_t span = series_span(b->job);
    core->all = b;
    core->pcore = pcore;
    core->bytes = kymo_calloc(core->map.cell_count + 1, sizeof *core->bytes);
    if (!core->bytes)
        return kymo_err_set(err, -ENOMEM, "no memory for the cells of on-chip memory");
    measure_cells(core, b->job->in->arch->psum_bank_bytes);
    int r = buffer_use_init(&core->use, &core->map, take_span, core, err);
    if (r < 0)
        return r;
    int64_t width = series_width(span, (int64_t)b->job->settings.buffer_samples, 1);
    return buffer_samples_init(&core->samples, COLUMNS, width, span, err);
}

static int open_tables(struct buffers *b, struct kymo_err *err)
{
    const struct job *j = b->job;
    int r = time_queue_open(j->dir, 0, &b->accesses, err);
    if (r == 0 && !j->settings.ignore_nc_buf_usage)
        r = series_table_open(j->dir, &j->parquet, KYMO_T_SBUF_USAGE, KYMO_SBUF_USAGE_PCORE_IDX, &b->sbuf, err);
    if (r == 0 && !j->settings.ignore_nc_buf_usage)
        r = series_table_open(j->dir, &j->parquet, KYMO_T_PSUM_USAGE, KYMO_PSUM_USAGE_PCORE_IDX, &b->psum, err);
    if (r == 0 && j->settings.enable_memory_viewer)
        r = sbuf_rows_open(j, &b->rows, err);
    return r;
}

static int open_buffers(const struct job *j, void **ret, struct kymo_err *err)
{
    if (j->settings.ignore_nc_buf_usage && !j->settings.enable_memory_viewer)
        return 0;
    struct buffers *b = KYMO_NEW(struct buffers);
    if (b)
        b->by_row = KYMO_NEW_ARRAY(struct touches, j->statics.count + 1);
    if (!b || !b->by_row) {
        kymo_free(b);
        return kymo_err_set(err, -ENOMEM, "no memory for the use of on-chip memory");
    }
    b->job = j;
    int r = gather_ranges(b, err);
    if (r == 0)
        number_ranges(b);
    for (unsigned i = 0; i < j->in->cores && r == 0; i++)
        r = open_core(b, i, err);
    if (r == 0)
        r = open_tables(b, err);
    if (r < 0) {
        release(b);
        return r;
    }
    *ret = b;
    return 0;
}

/* tag: the static row, a: the access ends. */
static int settle(struct buffers *b, int64_t until, struct kymo_err *err)
{
    const struct time_item *first;
    int r = 0;
    while (r == 0 && (first = time_queue_first(b->accesses)) && first->at < until) {
        const struct touches *t = &b->by_row[first->tag];
        for (unsigned k = 0; k < t->count && r == 0; k++) {
            struct core *core = &b->cores[t->pcore[k]];
            if (core->bytes)
                r = buffer_use_access(&core->use, t->range[k], (enum buffer_access)t->how[k], first->at,
                                      (int64_t)first->a, first->tag, err);
        }
        if (r == 0)
            r = time_queue_pop(b->accesses, err);
    }
    return r;
}

/* Instructions come in order of issue, and neither they nor their transfers begin before that. */
static int take(void *c, const struct instr_row *rows, size_t n, struct kymo_err *err)
{
    struct buffers *b = c;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct instr_row *row = &rows[i];
        const struct touches *t = &b->by_row[row->row];
        if (!t->count)
            continue;
        b->cut += t->transfer && !row->has_dma;
        if (t->transfer && !row->has_dma)
            continue;
        struct time_item item = {.at = t->transfer ? row->dma_start : row->begin,
                                 .order = (uint64_t)row->id,
                                 .a = (uint64_t)(t->transfer ? row->dma_end : row->end),
                                 .tag = row->row};
        item.at = item.at < row->start ? row->start : item.at;
        r = settle(b, row->start, err);
        if (r == 0)
            r = time_queue_push(b->accesses, &item, err);
    }
    return r;
}

static void put_sbuf(struct buffers *b, unsigned pcore, int64_t at, const int64_t *bytes)
{
    double size = b->job->in->arch->sbuf_partition_bytes, sum = 0;
    series_table_int(b->sbuf, KYMO_SBUF_USAGE_TIMESTAMP, at);
    series_table_core(b->sbuf, pcore);
    for (unsigned k = 0; k < BUFFER_MAP_SBUF; k++) {
        sum += (double)bytes[k];
        series_table_real(b->sbuf, KYMO_SBUF_USAGE_PARTITION_0_UTIL_PERCENT + k,
                          formulas_percent((double)bytes[k], size));
    }
    series_table_real(b->sbuf, KYMO_SBUF_USAGE_AVG_UTIL_PERCENT, formulas_percent(sum, BUFFER_MAP_SBUF * size));
}

static void put_psum(struct buffers *b, unsigned pcore, int64_t at, const int64_t *bytes)
{
    double size = 4.0 * b->job->in->arch->psum_bank_bytes, sum = 0;
    series_table_int(b->psum, KYMO_PSUM_USAGE_TIMESTAMP, at);
    series_table_core(b->psum, pcore);
    for (unsigned k = 0; k < BUFFER_MAP_BANKS; k++) {
        sum += (double)bytes[k];
        series_table_real(b->psum, KYMO_PSUM_USAGE_BANK_0_UTIL_PERCENT + k, formulas_percent((double)bytes[k], size));
    }
    series_table_real(b->psum, KYMO_PSUM_USAGE_AVG_UTIL_PERCENT, formulas_percent(sum, BUFFER_MAP_BANKS * size));
}

static int write_sample(struct buffers *b, unsigned pcore, size_t k, int64_t now[COLUMNS], struct kymo_err *err)
{
    const struct buffer_samples *s = &b->cores[pcore].samples;
    const int32_t *changes = s->changes + k * COLUMNS;
    bool sbuf = false, psum = false;
    for (size_t i = 0; i < COLUMNS; i++) {
        now[i] += changes[i];
        sbuf |= i < BUFFER_MAP_SBUF && changes[i];
        psum |= i >= BUFFER_MAP_SBUF && changes[i];
    }
    int64_t at = (int64_t)k * s->width;
    int r = 0;
    if (sbuf) {
        put_sbuf(b, pcore, at, now);
        r = series_table_end(b->sbuf, err);
    }
    if (psum && r == 0) {
        put_psum(b, pcore, at, now + BUFFER_MAP_SBUF);
        r = series_table_end(b->psum, err);
    }
    return r;
}

static int write_samples(struct buffers *b, struct kymo_err *err)
{
    int64_t now[INPUT_CORES_MAX][COLUMNS] = {0};
    int r = 0;
    for (size_t k = 0; b->sbuf && k < b->cores[0].samples.count && r == 0; k++)
        for (unsigned i = 0; i < b->job->in->cores && r == 0; i++)
            r = write_sample(b, i, k, now[i], err);
    return r;
}

static int end_stage(void *c, enum consumer_stage stage, struct kymo_err *err)
{
    struct buffers *b = c;
    if (stage != CONSUMER_INSTRUCTIONS)
        return 0;
    int r = settle(b, INT64_MAX, err);
    for (unsigned i = 0; i < b->job->in->cores && r == 0; i++)
        r = buffer_use_finish(&b->cores[i].use, err);
    return r < 0 ? r : write_samples(b, err);
}

static void warn(const struct buffers *b, struct warnings *w)
{
    uint32_t granule = 1;
    for (unsigned i = 0; i < INPUT_CORES_MAX; i++)
        granule = b->cores[i].map.granule > granule ? b->cores[i].map.granule : granule;
    if (series_lost(b->job, NTFF__RING_KIND__RING_INSTRUCTION) || series_lost(b->job, NTFF__RING_KIND__RING_DMA) ||
        b->cut)
        warnings_add(w, "Lower bounds",
                     "instruction or DMA records were lost, or transfers are not whole: SbufUsage, PsumUsage and "
                     "SbufAllocation do not know of some accesses and are estimates");
    if (b->unknown)
        warnings_add(
            w, "Lower bounds",
            "%llu operands of different instructions are in registers or tables: what they use of SBUF and PSUM "
            "is not in SbufUsage, PsumUsage and SbufAllocation",
            (unsigned long long)b->unknown);
    if (granule > 1)
        warnings_add(w, "On-chip memory",
                     "operands are so many and different that SBUF and PSUM are followed in pieces "
                     "of %u bytes: usage is an upper bound",
                     granule);
}

static int finish(void *c, struct warnings *w, struct kymo_err *err)
{
    struct buffers *b = c;
    struct series_table *sbuf = b->sbuf, *psum = b->psum;
    struct sbuf_rows *rows = b->rows;
    b->sbuf = b->psum = NULL;
    b->rows = NULL;
    warn(b, w);
    int r = rows ? sbuf_rows_finish(rows, err) : 0;
    int s = sbuf ? series_table_finish(sbuf, r < 0 ? NULL : err) : 0;
    int p = psum ? series_table_finish(psum, r < 0 || s < 0 ? NULL : err) : 0;
    return r < 0 ? r : s < 0 ? s : p;
}

const struct consumer series_buffers = {
    .name = "on-chip memory",
    .open = open_buffers,
    .instructions = take,
    .end_stage = end_stage,
    .finish = finish,
    .free = release,
};
