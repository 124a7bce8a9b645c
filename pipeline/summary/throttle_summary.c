/* The consumer that writes ThrottleSummary: for each core one row per class of throttling, and one for all together. */
#include <errno.h>

#include "base/alloc.h"
#include "formats/ntff/notice.h"
#include "pipeline/formulas/formulas.h"
#include "pipeline/formulas/limits.h"
#include "pipeline/job.h"
#include "pipeline/series/series.h"

#define ALL NOTICE_CLASSES
#define TRACKS (NOTICE_CLASSES + 1)
#define OPEN_MAX (1u << 20) /* busy spans beyond the watermark */

/* The notices of one core and class. */
struct track {
    struct limits limits;
    struct spill_reader reader;
    struct formulas_throttle mean;
    unsigned pcore, class_id;
    int64_t last; /* of the profile: a notice counts up to there */
    uint64_t count;
};

struct core {
    struct track tracks[TRACKS];
    struct spans busy;   /* of the PE array */
    struct kymo_err err; /* first failure: the callback cannot report it */
};

struct state {
    const struct job *j;
    struct core cores[INPUT_CORES_MAX];
};

static int next_notice(void *ctx, struct limits_notice *ret, struct kymo_err *err)
{
    struct track *t = ctx;
    for (;;) {
        const void *record;
        int r = spill_reader_next(&t->reader, &record, err);
        if (r <= 0)
            return r;
        const struct notices_throttle *n = record;
        if (n->pcore != t->pcore || (t->class_id != ALL && n->class_id != t->class_id))
            continue;
        t->count++;
        formulas_throttle_add(&t->mean, n->k, n->n, n->duration);
        int64_t end = (int64_t)n->start + n->duration;
        *ret = (struct limits_notice){(int64_t)n->start, end < t->last ? end : t->last,
                                      formulas_throttle_limit(n->k, n->n)};
        return 1;
    }
}

static void to_tracks(void *ctx, struct span s)
{
    struct core *c = ctx;
    for (unsigned i = 0; i < TRACKS && c->err.code == 0; i++)
        if (limits_busy(&c->tracks[i].limits, s.start, s.end, &c->err) < 0 && c->err.code == 0)
            c->err.code = -EIO;
}

static void throttle_free(void *ctx)
{
    struct state *s = ctx;
    for (unsigned p = 0; p < INPUT_CORES_MAX; p++) {
        spans_done(&s->cores[p].busy);
        for (unsigned i = 0; i < TRACKS; i++)
            spill_reader_done(&s->cores[p].tracks[i].reader);
    }
    kymo_free(s);
}

static int throttle_open(const struct job *j, void **ret, struct kymo_err *err)
{
    if (!j->throttles)
        return 0;
    struct state *s = KYMO_NEW(struct state);
    if (!s)
        return kymo_err_set(err, -ENOMEM, "no memory for the sums of throttling");
    s->j = j;
    int r = 0;
    for (unsigned n = 0; n < INPUT_CORES_MAX * TRACKS && r == 0; n++) {
        struct track *t = &s->cores[n / TRACKS].tracks[n % TRACKS];
        t->pcore = n / TRACKS;
        t->class_id = n % TRACKS;
        t->last = timebase_ns(&j->timebase, j->scan.last_ps);
        limits_init(&t->limits, next_notice, t);
        r = spill_reader_init(&t->reader, j->throttles, err);
    }
    for (unsigned p = 0; p < INPUT_CORES_MAX; p++)
        spans_init(&s->cores[p].busy, OPEN_MAX, to_tracks, &s->cores[p]);
    if (r < 0) {
        throttle_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

static int advance(struct state *s, int64_t watermark, struct kymo_err *err)
{
    for (unsigned p = 0; p < INPUT_CORES_MAX; p++) {
        struct core *c = &s->cores[p];
        spans_advance(&c->busy, watermark);
        if (c->err.code < 0)
            return kymo_err_set(err, c->err.code, "%s", c->err.text);
    }
    return 0;
}

static int throttle_instructions(void *ctx, const struct instr_row *rows, size_t n, struct kymo_err *err)
{
    struct state *s = ctx;
    for (size_t i = 0; i < n; i++) {
        const struct static_row *st = &s->j->statics.rows[rows[i].row];
        if (st->engine != KYMO_ENGINE_TENSOR)
            continue;
        int r = spans_add(&s->cores[st->pcore].busy, rows[i].begin, rows[i].end);
        if (r < 0)
            return kymo_err_set(err, r, "too many busy spans are open at once");
    }
    return n ? advance(s, rows[n - 1].start, err) : 0;
}

static int write_row(const struct state *s, struct parquet_row *row, const struct track *t, struct kymo_err *err)
{
    double total = (double)totals_run_time(summary_run(s->j->summary));
    const struct limits *l = &t->limits;
    parquet_row_int(row, KYMO_THROTTLE_SUMMARY_NC_IDX, (int64_t)s->j->in->info->start_nc + t->pcore);
    parquet_row_string(row, KYMO_THROTTLE_SUMMARY_THROTTLE_TYPE,
                       t->class_id == ALL ? "all" : notice_throttle_class((uint8_t)t->class_id));
    parquet_row_int(row, KYMO_THROTTLE_SUMMARY_THROTTLE_ACTIVE_TIME_NS, l->throttled);
    parquet_row_real(row, KYMO_THROTTLE_SUMMARY_THROTTLE_ACTIVE_TIME_PERCENT,
                     formulas_percent((double)l->throttled, total));
    if (t->mean.duration > 0)
        parquet_row_real(row, KYMO_THROTTLE_SUMMARY_MAX_ACHIEVABLE_UTIL_WITH_THROTTLING_PERCENT,
                         formulas_throttle_mean(&t->mean));
    parquet_row_real(row, KYMO_THROTTLE_SUMMARY_ACTIVE_THROTTLED_PERCENT, formulas_percent(l->busy_lost, total));
    parquet_row_real(row, KYMO_THROTTLE_SUMMARY_UNUSED_THROTTLED_PERCENT,
                     formulas_percent(l->lost - l->busy_lost, total));
    return parquet_row_end(row, err);
}

static int write_tracks(struct state *s, struct parquet_row *row, struct warnings *w, struct kymo_err *err)
{
    uint64_t left_out = 0, rows = 0;
    int r = 0;
    for (unsigned n = 0; n < INPUT_CORES_MAX * TRACKS && r == 0; n++) {
        struct track *t = &s->cores[n / TRACKS].tracks[n % TRACKS];
        r = limits_finish(&t->limits, err);
        left_out += t->limits.left_out;
        rows += t->count > 0;
        if (r == 0 && t->count)
            r = write_row(s, row, t, err);
    }
    if (rows && series_lost(s->j, NTFF__RING_KIND__RING_INSTRUCTION))
        warnings_add(w, "Lower bounds",
                     "instruction records were lost: active_throttled_percent of ThrottleSummary is a lower bound and "
                     "unused_throttled_percent an upper bound, since lost work counts as idle");
    if (series_lost(s->j, NTFF__RING_KIND__RING_THROTTLE))
        warnings_add(w, "Lower bounds",
                     "throttle records were lost: times and shares of ThrottleSummary are lower bounds, and its "
                     "max_achievable_util_with_throttling_percent may be too low or too high");
    if (left_out)
        warnings_add(w, "Throttle",
                     "more than %d throttle notices held at one time; the mildest of them are left out of "
                     "ThrottleSummary, whose times and losses are lower bounds",
                     LIMITS_LIVE_MAX);
    return r;
}

static int throttle_finish(void *ctx, struct warnings *w, struct kymo_err *err)
{
    struct state *s = ctx;
    struct parquet_row *row;
    int r = advance(s, INT64_MAX, err);
    if (r == 0)
        r = parquet_row_open(s->j->dir, kymo_schema_table(KYMO_T_THROTTLE_SUMMARY), NULL, &row, err);
    if (r < 0)
        return r;
    r = write_tracks(s, row, w, err);
    if (r < 0) {
        parquet_row_discard(row);
        return r;
    }
    return parquet_row_finish(row, err);
}

const struct consumer throttle_summary = {
    .name = "throttle_summary",
    .open = throttle_open,
    .instructions = throttle_instructions,
    .finish = throttle_finish,
    .free = throttle_free,
};
