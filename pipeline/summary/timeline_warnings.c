/*
 * The consumer that writes TimelineWarning: gathers what each condition needs while events pass, and at the end makes
 * rows of the bands (settings.h has the conditions' numbers).
 */
#include "pipeline/summary/timeline_warnings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "arch/ring.h"
#include "base/alloc.h"
#include "pipeline/formulas/bands.h"
#include "pipeline/formulas/formulas.h"
#include "pipeline/formulas/outliers.h"
#include "pipeline/job.h"

#define US 1000 /* ns */

struct core {
    struct crowds small;
    struct shares reloads, transposes;
    struct shares foreign; /* instructions that are from no NKI kernel */
    struct bands unnamed;  /* packets of dynamic DMAs without names */
};

/* Coverage is a matter of the tensor, vector and scalar engines. */
enum nki { NKI_NO_MATTER, NKI_FROM_KERNEL, NKI_FOREIGN };

/* A row to come. */
struct row {
    const char *kind, *label;
    char details[320];
    int64_t start, end;
    uint64_t count;
    int pcore; /* -1: none */
    bool has_count;
};

struct state {
    const struct job *j;
    struct core cores[INPUT_CORES_MAX];
    float *transposes, *flops; /* of each static row */
    uint8_t *attribution;      /* enum nki, of each static row */
    bool has_nki;
    struct outliers *collectives; /* NULL: there are none */
    struct bands slow;
    struct row *rows;
    size_t row_count, row_cap;
};

static void warnings_free_state(void *ctx)
{
    struct state *s = ctx;
    for (unsigned p = 0; p < INPUT_CORES_MAX; p++) {
        crowds_done(&s->cores[p].small);
        shares_done(&s->cores[p].reloads);
        shares_done(&s->cores[p].transposes);
        shares_done(&s->cores[p].foreign);
        bands_done(&s->cores[p].unnamed);
    }
    kymo_free(s->transposes);
    kymo_free(s->flops);
    kymo_free(s->attribution);
    outliers_free(s->collectives);
    bands_done(&s->slow);
    kymo_free(s->rows);
    kymo_free(s);
}

static int take_statics(struct state *s, struct kymo_err *err)
{
    const struct statics *all = &s->j->statics;
    s->transposes = KYMO_NEW_ARRAY(float, all->count + 1);
    s->flops = KYMO_NEW_ARRAY(float, all->count + 1);
    s->attribution = KYMO_NEW_ARRAY(uint8_t, all->count + 1);
    if (!s->transposes || !s->flops || !s->attribution)
        return kymo_err_set(err, -ENOMEM, "no memory for the warnings of the timeline");
    for (size_t i = 0; i < all->count; i++) {
        struct static_facts f;
        uint8_t engine = all->rows[i].engine;
        if (engine != KYMO_ENGINE_TENSOR && engine != KYMO_ENGINE_VECTOR && engine != KYMO_ENGINE_SCALAR)
            continue;
        statics_facts(all, &all->rows[i], &f);
        bool nki = f.debug && f.debug->kernel_name;
        s->attribution[i] = nki ? NKI_FROM_KERNEL : NKI_FOREIGN;
        s->has_nki |= nki;
        if (engine != KYMO_ENGINE_TENSOR)
            continue;
        s->flops[i] = (float)f.raw_flops;
        s->transposes[i] = f.transpose ? s->flops[i] : 0;
    }
    return 0;
}

static int open_core(struct core *c, const struct settings *set, struct kymo_err *err)
{
    int64_t window = (int64_t)set->window_us * US;
    shares_init(&c->reloads, window, (double)set->spill_reload_percent, set->bands_max);
    shares_init(&c->transposes, window, (double)set->transpose_percent, set->bands_max);
    shares_init(&c->foreign, window, 100 - (double)set->nki_coverage_percent, set->bands_max);
    bands_init(&c->unnamed, window, set->bands_max);
    return crowds_init(&c->small, set->small_dma_count, (int64_t)set->small_dma_window_us * US,
                       (unsigned)set->small_dma_percent, set->bands_max, err);
}

static int warnings_open(const struct job *j, void **ret, struct kymo_err *err)
{
    struct state *s = KYMO_NEW(struct state);
    if (!s)
        return kymo_err_set(err, -ENOMEM, "no memory for the warnings of the timeline");
    s->j = j;
    int r = take_statics(s, err);
    for (unsigned p = 0; p < INPUT_CORES_MAX && r == 0; p++)
        r = open_core(&s->cores[p], &j->settings, err);
    bands_init(&s->slow, 0, j->settings.bands_max);
    if (r < 0) {
        warnings_free_state(s);
        return r;
    }
    *ret = s;
    return 0;
}

static bool is_unnamed(const struct state *s, const struct consumer_packet *p)
{
    const struct dma_set *set = p->flow.set == DMA_NONE ? NULL : &s->j->queues.sets[p->flow.set];
    return set && set->dynamic && !s->j->in->info->dge_notifications && p->flow.from == DMA_MEMORY_UNKNOWN &&
           p->flow.to == DMA_MEMORY_UNKNOWN;
}

static int take_packets(void *ctx, const struct consumer_packet *rows, size_t n, struct kymo_err *err)
{
    struct state *s = ctx;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct consumer_packet *p = &rows[i];
        struct core *c = &s->cores[p->row.phys / (DMA_ENGINES * DMA_QUEUES)];
        double bytes = (double)p->row.bytes;
        bool reload = p->flow.spill && p->flow.to == DMA_MEMORY_SBUF;
        if (p->flow.from == DMA_MEMORY_HBM)
            r = shares_add(&c->reloads, p->row.start, p->row.end, reload ? bytes : 0, bytes, err);
        else if (is_unnamed(s, p))
            r = bands_add(&c->unnamed, (struct band){.start = p->row.start, .end = p->row.end, .count = 1}, err);
    }
    return r;
}

/* Small: less than so many bytes per descriptor, on average over the DMA. */
static int take_transfers(void *ctx, const struct consumer_transfer *rows, size_t n, struct kymo_err *err)
{
    struct state *s = ctx;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct dma_transfer *t = &rows[i].transfer;
        if (t->set == DMA_NONE || s->j->queues.sets[t->set].dma_class != TOTALS_DMA_HARDWARE)
            continue;
        bool small = t->bytes < s->j->settings.small_dma_bytes * t->whole;
        r = crowds_add(&s->cores[t->pcore].small, t->start, t->end, small, err);
    }
    return r;
}

static int take_instructions(void *ctx, const struct instr_row *rows, size_t n, struct kymo_err *err)
{
    struct state *s = ctx;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        uint32_t at = rows[i].row;
        struct core *c = &s->cores[s->j->statics.rows[at].pcore];
        if (s->flops[at] > 0)
            r = shares_add(&c->transposes, rows[i].start, rows[i].end, s->transposes[at], s->flops[at], err);
        if (r == 0 && s->has_nki && s->attribution[at])
            r = shares_add(&c->foreign, rows[i].start, rows[i].end, s->attribution[at] == NKI_FOREIGN, 1, err);
    }
    return r;
}

/* Collectives of one kind, size and number of ranks are a group, wherever they stand in the program. */
static uint64_t group_of(const struct consumer_collective *c)
{
    const uint64_t parts[] = {c->kind, c->dtype, (uint64_t)c->num_elements, (uint64_t)c->ranks};
    uint64_t h = 1469598103934665603ull;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        h = (h ^ parts[i]) * 1099511628211ull;
    return h;
}

static int take_collectives(void *ctx, const struct consumer_collective *rows, size_t n, struct kymo_err *err)
{
    struct state *s = ctx;
    int r = s->collectives ? 0 : outliers_open(s->j->dir, &s->collectives, err);
    for (size_t i = 0; i < n && r == 0; i++)
        if (rows[i].known)
            r = outliers_add(s->collectives, &(struct outliers_event){group_of(&rows[i]), rows[i].start, rows[i].end},
                             err);
    return r;
}

static int add_row(struct state *s, const struct row *proto, struct kymo_err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static int add_row(struct state *s, const struct row *proto, struct kymo_err *err, const char *fmt, ...)
{
    void *rows = s->rows;
    int r = kymo_grow(&rows, &s->row_cap, s->row_count + 1, 1u << 20, sizeof *s->rows);
    s->rows = rows;
    if (r < 0)
        return kymo_err_set(err, r, "no memory for the warnings of the timeline");
    struct row *row = &s->rows[s->row_count++];
    int64_t last = timebase_ns(&s->j->timebase, s->j->scan.last_ps);
    *row = *proto;
    row->end = row->end < last ? row->end : last; /* a notice may claim more */
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(row->details, sizeof row->details, fmt, ap);
    va_end(ap);
    return 0;
}

static struct row row_of(const char *kind, const char *label, const struct band *b, unsigned pcore)
{
    return (struct row){.kind = kind,
                        .label = label,
                        .start = b->start,
                        .end = b->end,
                        .count = b->count,
                        .pcore = (int)pcore,
                        .has_count = true};
}

static int small_rows(struct state *s, unsigned pcore, struct kymo_err *err)
{
    const struct bands *b = &s->cores[pcore].small.bands;
    /* Without DGE notices nobody knows which packets one instruction made. */
    const char *what = s->j->in->info->dge_notifications ? "instructions" : "packets";
    int r = 0;
    for (size_t i = 0; i < b->count && r == 0; i++) {
        const struct row row = row_of("small_dma_transfers", "Small DMA transfers", &b->rows[i], pcore);
        r = add_row(s, &row, err,
                    "Excessive small DMA transfers (%" PRIu64
                    " %s) back-pressure HBM in this region, making instruction "
                    "timing here unreliable. Consider batching or vectorizing these transfers: aim for contiguous "
                    "payloads of at least 4 KiB.",
                    b->rows[i].count, what);
    }
    return r;
}

static int reload_rows(struct state *s, unsigned pcore, struct kymo_err *err)
{
    const struct bands *b = &s->cores[pcore].reloads.bands;
    int r = 0;
    for (size_t i = 0; i < b->count && r == 0; i++) {
        const struct row row = row_of("spill_reload", "Spill reload", &b->rows[i], pcore);
        r = add_row(
            s, &row, err,
            "%.1f %% of the bytes read from HBM here (%.0f of %.0f) bring back what had been spilled from SBUF. "
            "Smaller tiles, or another order of use, keep data in SBUF.",
            formulas_percent(b->rows[i].part, b->rows[i].whole), b->rows[i].part, b->rows[i].whole);
    }
    return r;
}

static int transpose_rows(struct state *s, unsigned pcore, struct kymo_err *err)
{
    const struct bands *b = &s->cores[pcore].transposes.bands;
    int r = 0;
    for (size_t i = 0; i < b->count && r == 0; i++) {
        const struct row row = row_of("transpose_overhead", "Transposes", &b->rows[i], pcore);
        r = add_row(s, &row, err,
                    "%.1f %% of the tensor engine's FLOPs here are transposes (%" PRIu64 " of them). Another layout of "
                    "inputs and weights, or a transpose by DMA, leaves the engine to the model.",
                    formulas_percent(b->rows[i].part, b->rows[i].whole), b->rows[i].count);
    }
    return r;
}

static int coverage_rows(struct state *s, unsigned pcore, struct kymo_err *err)
{
    const struct bands *b = &s->cores[pcore].foreign.bands;
    int r = 0;
    for (size_t i = 0; i < b->count && r == 0; i++) {
        const struct row row = row_of("low_nki_coverage", "Low NKI coverage", &b->rows[i], pcore);
        r = add_row(s, &row, err,
                    "Only %.1f %% of the instructions of the tensor, vector and scalar engines here come from NKI "
                    "kernels; %" PRIu64 " do not. What the compiler made of the rest may be worth a kernel.",
                    100 - formulas_percent(b->rows[i].part, b->rows[i].whole), b->rows[i].count);
    }
    return r;
}

static int take_outlier(void *ctx, const struct outliers_event *e, int64_t median, struct kymo_err *err)
{
    struct state *s = ctx;
    const struct band one = {
        .start = e->start, .end = e->end, .count = 1, .part = (double)(e->end - e->start), .whole = (double)median};
    return bands_add(&s->slow, one, err);
}

static int collective_rows(struct state *s, uint64_t *joined, struct kymo_err *err)
{
    int r = s->collectives
                ? outliers_each(s->collectives, s->j->settings.collective_outlier_percent, take_outlier, s, err)
                : 0;
    for (size_t i = 0; i < s->slow.count && r == 0; i++) {
        const struct band *b = &s->slow.rows[i];
        struct row row = row_of("collective_outlier", "Collective outlier", b, 0);
        row.pcore = -1;
        r = add_row(s, &row, err,
                    "%" PRIu64 " collectives here took %.1f times the median of those of their kind, size and ranks "
                    "(%.1f us instead of %.1f us). Look for the rank that arrives last, and for traffic beside them.",
                    b->count, formulas_ratio(b->part, b->whole), b->part / 1e3, b->whole / 1e3);
    }
    *joined += s->slow.joined;
    return r;
}

static int unnamed_rows(struct state *s, unsigned pcore, struct kymo_err *err)
{
    const struct bands *b = &s->cores[pcore].unnamed;
    int r = 0;
    for (size_t i = 0; i < b->count && r == 0; i++) {
        const struct row row = row_of("dma_names_missing", "DMA names missing", &b->rows[i], pcore);
        r = add_row(s, &row, err,
                    "%" PRIu64 " packets of dynamic DMAs have neither names nor their instruction, because the capture "
                    "has no DGE notifications. Set NEURON_RT_ENABLE_DGE_NOTIFICATIONS=1 and capture again.",
                    b->rows[i].count);
    }
    return r;
}

/* Bands of notices near each other; part: ns lost, whole: ns throttled. */
static int gather_throttling(struct state *s, struct bands *bands, struct kymo_err *err)
{
    struct spill_reader reader;
    const void *record;
    int r = spill_reader_init(&reader, s->j->throttles, err);
    while (r == 0 && (r = spill_reader_next(&reader, &record, err)) > 0) {
        const struct notices_throttle *t = record;
        int64_t start = (int64_t)t->start;
        double length = (double)t->duration, limit = formulas_throttle_limit(t->k, t->n);
        r = bands_add(
            &bands[t->pcore % INPUT_CORES_MAX],
            (struct band){
                .start = start, .end = start + t->duration, .count = 1, .part = (1 - limit) * length, .whole = length},
            err);
    }
    spill_reader_done(&reader);
    return r;
}

static int throttling_rows(struct state *s, const struct bands *b, unsigned pcore, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; i < b->count && r == 0; i++) {
        double lost = formulas_percent(b->rows[i].part, b->rows[i].whole);
        if (lost <= (double)s->j->settings.throttling_percent)
            continue;
        const struct row row = row_of("throttling", "Throttling", &b->rows[i], pcore);
        r = add_row(s, &row, err,
                    "The hardware throttled the core: on average %.1f %% of full speed was allowed (%" PRIu64
                    " notices). Times here are longer than the program's own; see Throttle for the classes.",
                    100 - lost, b->rows[i].count);
    }
    return r;
}

static int all_throttling(struct state *s, uint64_t *joined, struct kymo_err *err)
{
    struct bands bands[INPUT_CORES_MAX];
    for (unsigned p = 0; p < INPUT_CORES_MAX; p++)
        bands_init(&bands[p], (int64_t)s->j->settings.window_us * US, s->j->settings.bands_max);
    int r = s->j->throttles ? gather_throttling(s, bands, err) : 0;
    for (unsigned p = 0; p < INPUT_CORES_MAX; p++) {
        r = r < 0 ? r : throttling_rows(s, &bands[p], p, err);
        *joined += bands[p].joined;
        bands_done(&bands[p]);
    }
    return r;
}

/* One band for each ring that lost records. */
static int lost_row(struct state *s, const struct scan_ring *ring, struct kymo_err *err)
{
    const struct job *j = s->j;
    uint64_t lost = 0;
    bool known = ledger_lost(ring, &lost);
    if (!lost && (known || !ring->gaps))
        return 0;
    char label[64];
    kymo_ring_label((enum kymo_ring)ring->ring.kind, ring->ring.pcore_idx, ring->ring.engine_index, label,
                    sizeof label);
    struct row row = {.kind = "records_lost", .label = "Records lost", .count = lost, .pcore = -1, .has_count = known};
    ledger_span(&j->scan, ring, &j->timebase, &row.start, &row.end);
    if (scan_of_core(&ring->ring))
        row.pcore = (int)ring->ring.pcore_idx;
    if (known)
        return add_row(s, &row, err,
                       "%s lost %" PRIu64 " of %" PRIu64
                       " records in this range because its buffer was full: counts and "
                       "times of its tables are lower bounds here. Raise NEURON_RT_PROFILE_BUF_%s_MB.",
                       label, lost, ring->ring.emitted, kymo_ring_name((enum kymo_ring)ring->ring.kind));
    return add_row(s, &row, err,
                   "%s lost records at %" PRIu64
                   " places in this range; how many is not known. Counts and times of its "
                   "tables are lower bounds here. Raise NEURON_RT_PROFILE_BUF_%s_MB.",
                   label, ring->gaps, kymo_ring_name((enum kymo_ring)ring->ring.kind));
}

static int host_dma_row(struct state *s, struct kymo_err *err)
{
    const struct job *j = s->j;
    if (j->in->info->host_dma == NTFF__HOST_DMA_STATE__HOST_DMA_TRACED)
        return 0;
    const char *why = kymo_h2d_reason_text((enum kymo_h2d_state)j->in->info->host_dma);
    const struct row row = {.kind = "host_dma_not_captured",
                            .label = "Host-device DMA not captured",
                            .end = timebase_ns(&j->timebase, j->scan.last_ps),
                            .pcore = -1};
    return add_row(s, &row, err, "There is no trace of host-device DMA: %s.",
                   why ? why : "the file gives a reason that this version does not know");
}

static int make_rows(struct state *s, uint64_t *joined, struct kymo_err *err)
{
    int r = host_dma_row(s, err);
    for (unsigned p = 0; p < INPUT_CORES_MAX && r == 0; p++) {
        struct core *c = &s->cores[p];
        r = shares_finish(&c->reloads, err);
        if (r == 0)
            r = shares_finish(&c->transposes, err);
        if (r == 0)
            r = shares_finish(&c->foreign, err);
        if (r == 0)
            r = small_rows(s, p, err);
        if (r == 0)
            r = reload_rows(s, p, err);
        if (r == 0)
            r = transpose_rows(s, p, err);
        if (r == 0)
            r = unnamed_rows(s, p, err);
        if (r == 0)
            r = coverage_rows(s, p, err);
        *joined += c->small.bands.joined + c->reloads.bands.joined + c->transposes.bands.joined + c->unnamed.joined +
                   c->foreign.bands.joined;
    }
    if (r == 0)
        r = collective_rows(s, joined, err);
    if (r == 0)
        r = all_throttling(s, joined, err);
    for (size_t i = 0; i < s->j->scan.count && r == 0; i++)
        r = lost_row(s, &s->j->scan.rings[i], err);
    return r;
}

static int by_start(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return x->start != y->start ? (x->start < y->start ? -1 : 1) : x->end < y->end ? -1 : x->end > y->end;
}

static int write_one(struct parquet_row *out, const struct row *row, struct kymo_err *err)
{
    parquet_row_string(out, KYMO_TIMELINE_WARNING_KIND, row->kind);
    parquet_row_string(out, KYMO_TIMELINE_WARNING_LABEL, row->label);
    parquet_row_int(out, KYMO_TIMELINE_WARNING_START_TS, row->start);
    parquet_row_int(out, KYMO_TIMELINE_WARNING_END_TS, row->end);
    if (row->has_count)
        parquet_row_int(out, KYMO_TIMELINE_WARNING_COUNT, (int64_t)row->count);
    parquet_row_string(out, KYMO_TIMELINE_WARNING_DETAILS, row->details);
    if (row->pcore >= 0)
        parquet_row_int(out, KYMO_TIMELINE_WARNING_PCORE_IDX, row->pcore);
    return parquet_row_end(out, err);
}

static int warnings_finish(void *ctx, struct warnings *w, struct kymo_err *err)
{
    struct state *s = ctx;
    struct parquet_row *out = NULL;
    uint64_t joined = 0;
    int r = make_rows(s, &joined, err);
    if (r == 0)
        r = parquet_row_open(s->j->dir, kymo_schema_table(KYMO_T_TIMELINE_WARNING), NULL, &out, err);
    if (r < 0)
        return r;
    if (s->row_count)
        qsort(s->rows, s->row_count, sizeof *s->rows, by_start);
    for (size_t i = 0; i < s->row_count && r == 0; i++)
        r = write_one(out, &s->rows[i], err);
    if (joined)
        warnings_add(w, "Timeline warnings",
                     "%" PRIu64 " bands of the timeline were joined with their neighbours to keep to %" PRIu64
                     " of a kind and core; the setting bands_max allows more",
                     joined, s->j->settings.bands_max);
    if (r < 0) {
        parquet_row_discard(out);
        return r;
    }
    return parquet_row_finish(out, err);
}

const struct consumer timeline_warnings = {
    .name = "timeline_warnings",
    .open = warnings_open,
    .packets = take_packets,
    .transfers = take_transfers,
    .collectives = take_collectives,
    .instructions = take_instructions,
    .finish = warnings_finish,
    .free = warnings_free_state,
};
