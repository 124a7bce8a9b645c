/*
 * Estimated MFU and HFU over time, per physical core: windows of one width, in each of which the floating-point
 * operations of the matmuls are set against what the PE array could do (formulas.h: HFU counts all of them, MFU all but
 * transposes, as Summary.hfu_estimated_percent and mfu_inst_estimated_percent do). A matmul's operations are spread
 * evenly from the end of its wait to its end. A row stands at the end of its window: instant figures are of the window,
 * cumulative ones of all from the profile's zero to there, so that the last row, at the profile's last instant, has all
 * operations. The width is a setting; no document gives one (class G).
 */
#include <errno.h>

#include "base/alloc.h"
#include "pipeline/formulas/formulas.h"
#include "pipeline/formulas/windows.h"
#include "pipeline/job.h"
#include "pipeline/series/series.h"
#include "pipeline/series/series_table.h"

#define WINDOWS 65536
#define WINDOWS_MAX 1048576
#define WINDOW_LEAST_NS 1000

struct flops {
    const struct job *job;
    uint64_t *by_row; /* operations of a static row */
    bool *transpose;
    bool any[WINDOWS_LANES]; /* the core has matmuls */
    struct windows windows;
    struct series_table *table;
    int64_t width;
    double peak; /* per ns */
    bool widened;
};

static void release(void *c)
{
    struct flops *f = c;
    windows_done(&f->windows);
    series_table_discard(f->table);
    kymo_free(f->by_row);
    kymo_free(f->transpose);
    kymo_free(f);
}

static bool find_matmuls(struct flops *f)
{
    const struct statics *s = &f->job->statics;
    bool any = false;
    for (size_t i = 0; i < s->count; i++) {
        struct static_facts facts;
        statics_facts(s, &s->rows[i], &facts);
        f->by_row[i] = facts.raw_flops;
        f->transpose[i] = facts.transpose;
        f->any[s->rows[i].pcore] |= facts.raw_flops != 0;
        any |= facts.raw_flops != 0;
    }
    return any;
}

static void choose_width(struct flops *f)
{
    int64_t asked = (int64_t)f->job->settings.flops_window_ns, span = series_span(f->job);
    int64_t least = series_width(span, WINDOWS_MAX, 1);
    f->width = asked ? asked : series_width(span, WINDOWS, WINDOW_LEAST_NS);
    f->widened = f->width < least;
    if (f->widened)
        f->width = least;
}

static double percent(const struct flops *f, windows_work operations, int64_t duration)
{
    return formulas_percent(windows_real(operations), f->peak * (double)duration);
}

static int write_core(struct flops *f, unsigned pcore, int64_t since, int64_t at, const struct windows_lane *lane,
                      struct kymo_err *err)
{
    struct series_table *t = f->table;
    windows_work all = lane->all.done - lane->all.before, marked = lane->marked.done - lane->marked.before;
    series_table_int(t, KYMO_FLOPS_USAGE_TIMESTAMP, at);
    series_table_core(t, pcore);
    series_table_real(t, KYMO_FLOPS_USAGE_MFU_INSTANT_PERCENT, percent(f, all - marked, at - since));
    series_table_real(t, KYMO_FLOPS_USAGE_MFU_CUMULATIVE_PERCENT, percent(f, lane->all.done - lane->marked.done, at));
    series_table_real(t, KYMO_FLOPS_USAGE_HFU_INSTANT_PERCENT, percent(f, all, at - since));
    series_table_real(t, KYMO_FLOPS_USAGE_HFU_CUMULATIVE_PERCENT, percent(f, lane->all.done, at));
    series_table_int(t, KYMO_FLOPS_USAGE_HARDWARE_FLOPS, (int64_t)(lane->all.done >> WINDOWS_PARTS));
    series_table_int(t, KYMO_FLOPS_USAGE_TRANSPOSE_FLOPS, (int64_t)(lane->marked.done >> WINDOWS_PARTS));
    return series_table_end(t, err);
}

static int put(void *ctx, int64_t since, int64_t at, const struct windows_lane *lanes, struct kymo_err *err)
{
    struct flops *f = ctx;
    int r = 0;
    for (unsigned i = 0; i < WINDOWS_LANES && r == 0; i++)
        r = f->any[i] ? write_core(f, i, since, at, &lanes[i], err) : 0;
    return r;
}

static int open_flops(const struct job *j, void **ret, struct kymo_err *err)
{
    const struct kymo_arch *a = j->in->arch;
    struct flops *f = KYMO_NEW(struct flops);
    if (!f)
        return kymo_err_set(err, -ENOMEM, "no memory for the FLOPS series");
    f->job = j;
    f->peak = formulas_pe_peak(a->pe_rows, a->pe_cols, a->clock_ghz[KYMO_ENGINE_TENSOR]) / 1e9;
    f->by_row = KYMO_NEW_ARRAY(uint64_t, j->statics.count + 1);
    f->transpose = KYMO_NEW_ARRAY(bool, j->statics.count + 1);
    int r = f->by_row && f->transpose ? 0 : kymo_err_set(err, -ENOMEM, "no memory for the FLOPS series");
    if (r == 0 && !find_matmuls(f)) {
        release(f);
        return 0;
    }
    choose_width(f);
    if (r == 0)
        r = windows_init(&f->windows, j->dir, f->width, series_span(j), put, f, err);
    if (r == 0)
        r = series_table_open(j->dir, &j->parquet, KYMO_T_FLOPS_USAGE, KYMO_FLOPS_USAGE_PCORE_IDX, &f->table, err);
    if (r < 0) {
        release(f);
        return r;
    }
    *ret = f;
    return 0;
}

/* Instructions come in order of issue: no later one begins before that. */
static int take(void *c, const struct instr_row *rows, size_t n, struct kymo_err *err)
{
    struct flops *f = c;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct instr_row *row = &rows[i];
        if (!f->by_row[row->row])
            continue;
        unsigned pcore = f->job->statics.rows[row->row].pcore;
        r = windows_settle(&f->windows, row->start, err);
        if (r == 0)
            r = windows_add(&f->windows, pcore, f->transpose[row->row], row->begin, row->end, f->by_row[row->row], err);
    }
    return r;
}

static int end_stage(void *c, enum consumer_stage stage, struct kymo_err *err)
{
    struct flops *f = c;
    return stage == CONSUMER_INSTRUCTIONS ? windows_finish(&f->windows, err) : 0;
}

static int finish(void *c, struct warnings *w, struct kymo_err *err)
{
    struct flops *f = c;
    struct series_table *table = f->table;
    f->table = NULL;
    if (series_lost(f->job, NTFF__RING_KIND__RING_INSTRUCTION))
        warnings_add(w, "Lower bounds", "instruction records were lost: the figures of FlopsUsage are lower bounds");
    if (f->widened)
        warnings_add(w, "Settings", "flops_window_ns was raised to %lld: there are at most %d windows",
                     (long long)f->width, WINDOWS_MAX);
    return series_table_finish(table, err);
}

const struct consumer series_flops = {
    .name = "FLOPS series",
    .open = open_flops,
    .instructions = take,
    .end_stage = end_stage,
    .finish = finish,
    .free = release,
};
