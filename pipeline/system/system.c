#include "pipeline/system/system.h"

#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "pipeline/output_dir.h"
#include "pipeline/reference.h"
#include "pipeline/system/system_impl.h"

#define ROW_RUN 65536u

static int stopped(const struct system_job *j, struct kymo_err *err)
{
    return kymo_err_set(err, -ECANCELED, "stopped on request; nothing was written to %s", j->options->output);
}

int system_report(struct system_job *j, enum process_stage stage, uint64_t done, uint64_t total, struct kymo_err *err)
{
    if (!j->options->progress || !j->options->progress(j->options->ctx, stage, done, total))
        return 0;
    return stopped(j, err);
}

void system_span(struct system_job *j, int64_t ts)
{
    if (ts < j->first)
        j->first = ts;
    if (ts > j->last)
        j->last = ts;
}

int system_ring_new(struct system_job *j, const char *kind, const char *label, struct kymo_err *err)
{
    if (j->n_rings == SYSTEM_RINGS_MAX)
        return kymo_err_set(err, -ENOBUFS, "more than %d sources of records", SYSTEM_RINGS_MAX);
    struct system_ring *ring = &j->rings[j->n_rings];
    *ring = (struct system_ring){.kind = kind};
    (void)snprintf(ring->label, sizeof ring->label, "%s", label);
    return (int)j->n_rings++;
}

static int make_parts(struct system_job *j, struct kymo_err *err)
{
    j->syncs = system_syncs_new();
    j->pairs = system_pairs_new();
    j->streams = system_streams_new();
    if (!j->syncs || !j->pairs || !j->streams)
        return kymo_err_set(err, -ENOMEM, "no memory for a system profile");
    int r = sort_spill_open(j->dir, sizeof(struct system_row), ROW_RUN, &j->rows, err);
    if (r == 0)
        r = sort_spill_open(j->dir, sizeof(struct system_memory), ROW_RUN, &j->memory, err);
    if (r == 0)
        r = sort_spill_open(j->dir, sizeof(struct system_partial), ROW_RUN, &j->partials, err);
    return r < 0 ? r : text_store_open(j->dir, &j->texts, err);
}

static int write_tables(struct system_job *j, struct kymo_err *err)
{
    int r = system_write_events(j, err);
    if (r == 0)
        r = system_write_memory(j, err);
    if (r == 0)
        r = system_write_cpu(j, err);
    if (r == 0)
        r = system_write_host_memory(j, err);
    if (r == 0)
        r = system_write_partials(j, err);
    if (r == 0)
        r = system_write_devices(j, err);
    if (r == 0)
        r = system_write_metadata(j, err);
    if (r == 0)
        r = system_write_ledger(j, err);
    if (r == 0)
        r = reference_write_schema(j->dir, err);
    /* Last, because everything before may warn. */
    return r < 0 ? r : warnings_write(j->warnings, j->dir, err);
}

static int make(struct system_job *j, struct kymo_err *err)
{
    int r = system_report(j, PROCESS_SCAN, 0, 0, err);
    if (r == 0)
        r = make_parts(j, err);
    /* The framework's first: it tells the streams of the runtime's requests. */
    if (r == 0)
        r = system_read_framework(j, err);
    if (r == 0)
        r = system_read_events(j, err);
    return r < 0 ? r : write_tables(j, err);
}

static int check_inputs(const struct system_options *o, struct kymo_err *err)
{
    int r = output_dir_check_input(o->output, o->dir, err);
    for (size_t i = 0; i < o->device_count && r == 0; i++)
        r = output_dir_check_input(o->output, o->devices[i].ntff, err);
    return r == 0 && o->manifest ? output_dir_check_input(o->output, o->manifest, err) : r;
}

static void job_done(struct system_job *j)
{
    for (unsigned k = 0; k < SYSTRACE_KIND_MAX; k++)
        systrace_free(j->files[k]);
    trace_json_free(j->framework);
    if (j->manifest)
        kymo__manifest__capture__free_unpacked(j->manifest, NULL);
    system_syncs_free(j->syncs);
    system_pairs_free(j->pairs);
    system_streams_free(j->streams);
    sort_spill_free(j->rows);
    sort_spill_free(j->memory);
    sort_spill_free(j->partials);
    text_store_free(j->texts);
    warnings_free(j->warnings);
    kymo_free(j->rings);
    kymo_free(j->cores);
    kymo_free(j->losses);
    kymo_free(j);
}

static void tell(const struct system_job *j)
{
    const struct system_options *o = j->options;
    for (size_t i = 0; o->warning && i < warnings_count(j->warnings); i++)
        if (warnings_serious(j->warnings, i))
            o->warning(o->ctx, warnings_category(j->warnings, i), warnings_text(j->warnings, i));
    for (size_t i = 0; o->loss && i < j->loss_count; i++)
        o->loss(o->ctx, &j->losses[i]);
}

int system_run(const struct system_options *options, struct system_result *ret, struct kymo_err *err)
{
    struct output_dir dir = {.lock = -1};
    struct system_job *j = KYMO_NEW(struct system_job);
    if (!j)
        return kymo_err_set(err, -ENOMEM, "no memory for a system profile");
    j->options = options;
    j->parquet.split_rows = options->split_rows;
    j->first = INT64_MAX;
    j->last = INT64_MIN;
    j->warnings = warnings_new();
    j->rings = KYMO_NEW_ARRAY(struct system_ring, SYSTEM_RINGS_MAX);
    int r = j->warnings && j->rings ? 0 : kymo_err_set(err, -ENOMEM, "no memory for a system profile");
    if (r == 0)
        r = system_open(j, err);
    if (r == 0)
        r = check_inputs(options, err);
    if (r == 0)
        r = output_dir_open(&dir, options->output, err);
    j->dir = dir.work;
    if (r == 0)
        r = make(j, err);
    if (r == 0)
        r = output_dir_publish(&dir, err);
    if (r == 0) {
        tell(j);
        j->result.warnings = warnings_count(j->warnings);
        *ret = j->result;
    }
    job_done(j);
    output_dir_done(&dir);
    return r;
}
