#include "pipeline/process.h"

#include <errno.h>
#include <string.h>

#include "arch/ring.h"
#include "base/alloc.h"
#include "pipeline/job.h"
#include "pipeline/output_dir.h"
#include "pipeline/reference.h"
#include "pipeline/rings/clock_rows.h"
#include "pipeline/rings/doubts.h"
#include "pipeline/rings/ring_io.h"
#include "pipeline/semaphores/semaphores.h"
#include "pipeline/series/series.h"

const char *process_stage_name(enum process_stage s)
{
    static const char *const names[] = {"open", "scan", "dma", "semaphores", "instructions", "summary", "done"};
    return names[s];
}

static int stopped(const struct job *j, struct kymo_err *err)
{
    return kymo_err_set(err, -ECANCELED, "stopped on request; nothing was written to %s", j->options->output);
}

int job_report(struct job *j, enum process_stage stage, uint64_t done, uint64_t total, struct kymo_err *err)
{
    if (!j->options->progress || !j->options->progress(j->options->ctx, stage, done, total))
        return 0;
    return stopped(j, err);
}

struct scan_report {
    struct job *j;
    uint64_t total;
};

static int report_scan(void *ctx, uint64_t records)
{
    struct scan_report *s = ctx;
    return job_report(s->j, PROCESS_SCAN, records, s->total, NULL) < 0;
}

static int scan_all(struct job *j, struct kymo_err *err)
{
    struct scan_report report = {.j = j};
    for (size_t i = 0; i < ntff_reader_ring_count(j->in->ntff); i++)
        report.total += ntff_reader_ring(j->in->ntff, i)->records;
    timebase_init(&j->timebase, j->in);
    int r = timeline_init(&j->timeline, j->in, &j->timebase, err);
    if (r == 0)
        r = scan_run(&j->scan, j->in, &j->timebase, &j->timeline, report_scan, &report, err);
    if (r == 0)
        j->timebase.zero_ns = (int64_t)(j->scan.first_ps / 1000);
    if (r == 0 && j->timeline.only == TIMELINE_NO_NODE && !j->timeline.count && j->in->node_count > 1)
        warnings_add(j->warnings, "Missing timeline",
                     "the profile has %zu NEFFs but no execution timeline: which of them ran when is not known, so "
                     "opcodes and names are "
                     "empty; capture with a runtime that records executions",
                     j->in->node_count);
    return r;
}

static int resolve(struct job *j, struct kymo_err *err)
{
    int r = programs_open(&j->programs, j->in, err);
    if (r < 0)
        return r;
    programs_choose_pc(&j->programs, j->in->arch, &j->scan, j->warnings);
    r = programs_map_compiler(&j->programs, j->in, j->warnings, err);
    if (r == 0)
        r = dma_queues_open(&j->queues, j->in, err);
    if (r == 0)
        r = statics_open(&j->statics, j->in, &j->programs, &j->queues, &j->scan, j->warnings, err);
    if (r == 0)
        r = summary_open(j->dir, &j->statics, &j->summary, err);
    if (r == 0)
        r = partials_open(j->dir, &j->partials, err);
    if (r == 0)
        r = ledger_init(&j->ledger, &j->scan, err);
    if (r == 0)
        r = notices_run(j, err);
    return r < 0 ? r : consumers_open(j, j->options->crew, &j->consumers, err);
}

static void take_status(struct job *j, const struct scan_ring *ring, const uint8_t *bytes)
{
    struct record rec;
    record_decode(bytes, &rec);
    if (rec.kind != RECORD_EXPLICIT)
        return;
    int64_t ts = timebase_ns(&j->timebase, timebase_correct(ring->clocks.by_type[rec.type], rec.ts_ps));
    if (rec.u.explicit_.extended_hint == RECORD_STATUS_START)
        totals_run_start(summary_run(j->summary), ts);
    else if (rec.u.explicit_.extended_hint == RECORD_STATUS_END)
        totals_run_stop(summary_run(j->summary), ts);
}

/* An execution that failed may have no stop notice: its end is when the file's timeline says. */
static void take_failures(struct job *j)
{
    for (size_t i = 0; i < j->timeline.count; i++) {
        const struct timeline_exec *e = &j->timeline.execs[i];
        if (e->status && e->end_ps >= e->start_ps)
            totals_run_stop(summary_run(j->summary), timebase_ns(&j->timebase, e->end_ps));
    }
}

/* Start and stop notices bound total_time; without them it is the span of all records. */
static int read_status(struct job *j, struct kymo_err *err)
{
    struct totals_run *run = summary_run(j->summary);
    totals_run_notice(run, timebase_ns(&j->timebase, j->scan.first_ps));
    totals_run_notice(run, timebase_ns(&j->timebase, j->scan.last_ps));
    take_failures(j);
    for (size_t i = 0; i < j->scan.count; i++) {
        if (j->scan.rings[i].ring.kind != NTFF__RING_KIND__RING_INFER_STATUS)
            continue;
        struct ring_io io;
        ring_io_init(&io, j->in->ntff, i, &j->scan.rings[i].times);
        const uint8_t *rec;
        size_t n;
        int r;
        for (uint64_t chunk = 0; (r = ring_io_chunk(&io, chunk, &rec, &n, err)) == 0 && n; chunk++)
            for (size_t k = 0; k < n; k++)
                take_status(j, &j->scan.rings[i], rec + k * KYMO_RECORD_SIZE);
        ring_io_done(&io);
        if (r < 0)
            return r;
    }
    return 0;
}

static int write_summary(struct job *j, struct kymo_err *err)
{
    struct process_result *res = j->result;
    res->partials = partials_count(j->partials);
    struct summary_counts counts = {
        .records = j->scan.records,
        .rows = res->instructions + res->packets + res->transfers + res->host_transfers + res->semaphores +
                res->throttles + res->errors + res->partials + res->collectives + res->cc_instructions + res->cc_events,
    };
    const struct doubts_inputs doubts = {.timeline = &j->timeline,
                                         .scan = &j->scan,
                                         .in = j->in,
                                         .partials = res->partials,
                                         .unnamed = j->unnamed,
                                         .strays = j->strays};
    char text[DOUBTS_TEXT_MAX];
    counts.incomplete = doubts_incomplete(&doubts, text);
    if (series_lost(j, NTFF__RING_KIND__RING_INSTRUCTION))
        warnings_add(j->warnings, "Lower bounds",
                     "instruction records were lost: counts and times of OpcodeSummary are lower bounds, and its "
                     "active_time_percent may be too low or too high");
    for (size_t i = 0; i < j->scan.count; i++)
        counts.event_records += j->scan.rings[i].by_kind[RECORD_EVENT_SEMAPHORE];
    return summary_write(j->summary, j->in, &j->timeline, &counts, j->dir, &j->parquet, err);
}

static int write_rest(struct job *j, struct kymo_err *err)
{
    struct reference ref = {
        .in = j->in,
        .scan = &j->scan,
        .timebase = &j->timebase,
        .timeline = &j->timeline,
        .queues = &j->queues,
        .loads = summary_loads(j->summary),
        .name = j->options->name,
    };
    int r = write_summary(j, err);
    if (r == 0)
        r = consumers_finish(j->consumers, j->warnings, err);
    if (r == 0)
        r = reference_write(&ref, j->dir, j->warnings, err);
    if (r == 0)
        r = clock_rows_write(j->in, &j->timebase, j->dir, j->warnings, err);
    if (r == 0)
        r = partials_write(j->partials, &j->scan, j->dir, &j->parquet, err);
    if (r == 0)
        r = ledger_write(&j->ledger, j->in, &j->scan, &j->timebase, j->dir, j->warnings, err);
    doubts_tell(&j->scan, &j->timeline, j->backwards, j->warnings);
    /* Last, because everything before may warn. */
    return r < 0 ? r : warnings_write(j->warnings, j->dir, err);
}

static int run_passes(struct job *j, struct kymo_err *err)
{
    int r = job_report(j, PROCESS_OPEN, 0, 0, err);
    if (r == 0)
        r = scan_all(j, err);
    if (r == 0)
        r = resolve(j, err);
    if (r == 0)
        r = read_status(j, err);
    if (r == 0)
        r = job_report(j, PROCESS_DMA, 0, j->scan.records, err);
    if (r == 0)
        r = job_dma(j, err);
    if (r == 0)
        r = consumers_end_stage(j->consumers, CONSUMER_TRANSFERS, err);
    if (r == 0)
        r = job_host_dma(j, err);
    if (r == 0)
        r = consumers_end_stage(j->consumers, CONSUMER_HOST_TRANSFERS, err);
    if (r == 0)
        r = job_cc(j, err);
    if (r == 0)
        r = job_report(j, PROCESS_SEMAPHORES, 0, j->scan.records, err);
    if (r == 0)
        r = job_semaphores(j, err);
    if (r == 0)
        r = consumers_end_stage(j->consumers, CONSUMER_SEMAPHORES, err);
    if (r == 0)
        r = job_report(j, PROCESS_INSTRUCTIONS, 0, j->scan.records, err);
    if (r == 0)
        r = job_instructions(j, err);
    if (r == 0)
        r = consumers_end_stage(j->consumers, CONSUMER_INSTRUCTIONS, err);
    if (r == 0)
        r = job_report(j, PROCESS_SUMMARY, 0, 0, err);
    return r < 0 ? r : write_rest(j, err);
}

static void job_done(struct job *j)
{
    for (unsigned pcore = 0; pcore < INPUT_CORES_MAX; pcore++)
        for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++) {
            spill_free(j->triggers[pcore][e]);
            met_waits_free(j->met_waits[pcore][e]);
        }
    spill_free(j->throttles);
    consumers_free(j->consumers);
    ledger_done(&j->ledger);
    partials_free(j->partials);
    summary_free(j->summary);
    statics_done(&j->statics);
    dma_queues_done(&j->queues);
    programs_done(&j->programs);
    scan_done(&j->scan);
    timeline_done(&j->timeline);
    input_free(j->in);
    warnings_free(j->warnings);
}

static int check_inputs(const struct process_options *o, struct kymo_err *err)
{
    int r = output_dir_check_input(o->output, o->ntff, err);
    for (size_t i = 0; i < o->neff_count && r == 0; i++)
        r = output_dir_check_input(o->output, o->neffs[i], err);
    return r == 0 && o->manifest ? output_dir_check_input(o->output, o->manifest, err) : r;
}

static void tell_warnings(const struct process_options *o, const struct warnings *w)
{
    for (size_t i = 0; o->warning && i < warnings_count(w); i++)
        if (warnings_serious(w, i))
            o->warning(o->ctx, warnings_category(w, i), warnings_text(w, i));
}

int process_run(const struct process_options *options, struct process_result *ret, struct kymo_err *err)
{
    struct process_result result = {0};
    struct output_dir dir = {.lock = -1};
    struct job *j = KYMO_NEW(struct job);
    if (j)
        j->warnings = warnings_new();
    if (!j || !j->warnings) {
        kymo_free(j);
        return kymo_err_set(err, -ENOMEM, "no memory");
    }
    j->options = options;
    j->result = &result;
    j->parquet.split_rows = options->split_rows;
    settings_defaults(&j->settings);
    if (options->settings)
        j->settings = *options->settings;
    /* The inputs come first: a file that cannot be read leaves no directory, not even a temporary one. */
    int r = input_open(options->ntff, options->neffs, options->neff_count, options->manifest, j->warnings, &j->in, err);
    if (r == 0)
        r = check_inputs(options, err);
    if (r == 0)
        r = output_dir_open(&dir, options->output, err);
    j->dir = dir.work;
    if (r == 0)
        r = run_passes(j, err);
    if (r == -ECANCELED)
        r = stopped(j, err);
    if (r == 0)
        r = output_dir_publish(&dir, err);
    if (r == 0)
        tell_warnings(options, j->warnings);
    for (size_t i = 0; r == 0 && options->loss && i < j->ledger.loss_count; i++)
        options->loss(options->ctx, &j->ledger.losses[i]);
    result.warnings = warnings_count(j->warnings);
    result.records = j->scan.records;
    job_done(j);
    kymo_free(j);
    output_dir_done(&dir);
    if (r == 0)
        *ret = result;
    return r;
}
