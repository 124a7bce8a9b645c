/* The small tables of a system profile. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "formats/ntff/ntff_reader.h"
#include "pipeline/rings/pair.h"
#include "pipeline/system/system_impl.h"

#define NS_PER_S 1000000000ll

static int finish(struct parquet_row *row, int r, struct kymo_err *err)
{
    if (r < 0) {
        parquet_row_discard(row);
        return r;
    }
    return parquet_row_finish(row, err);
}

static int put_partial(const struct system_job *j, struct parquet_row *row, const struct system_partial *p, int64_t id,
                       struct kymo_err *err)
{
    const char *name = systrace_event_name(p->type);
    parquet_row_int(row, KYMO_PARTIAL_EVENT_ID, id);
    parquet_row_string(row, KYMO_PARTIAL_EVENT_KIND, "system_event");
    parquet_row_string(row, KYMO_PARTIAL_EVENT_RING, j->rings[p->ring].label);
    parquet_row_int(row, KYMO_PARTIAL_EVENT_PCORE_IDX, p->pcore);
    parquet_row_string(row, KYMO_PARTIAL_EVENT_ENGINE, name ? name : "");
    parquet_row_string(row, KYMO_PARTIAL_EVENT_SIDE, p->start_side ? "start" : "end");
    parquet_row_int(row, KYMO_PARTIAL_EVENT_TS, p->ts);
    parquet_row_string(row, KYMO_PARTIAL_EVENT_REASON, pair_reason_name((enum pair_reason)p->reason));
    return parquet_row_end(row, err);
}

int system_write_partials(struct system_job *j, struct kymo_err *err)
{
    struct parquet_row *row = NULL;
    const void *p;
    int code, r = sort_spill_merge(j->partials, err);
    if (r == 0)
        r = parquet_row_open(j->dir, kymo_schema_table(KYMO_T_PARTIAL_EVENT), &j->parquet, &row, err);
    if (r < 0)
        return r;
    while (r == 0 && (code = sort_spill_next(j->partials, &p, err)) != 0)
        r = code < 0 ? code : put_partial(j, row, p, (int64_t)(j->result.events + j->result.partials++), err);
    return finish(row, r, err);
}

static int keep_loss(struct system_job *j, const struct ledger_loss *loss, struct kymo_err *err)
{
    if (j->loss_count >= LEDGER_LOSSES_MAX)
        return 0;
    void *p = j->losses;
    int r = kymo_grow(&p, &j->losses_cap, j->loss_count + 1, LEDGER_LOSSES_MAX, sizeof *j->losses);
    j->losses = p;
    if (r < 0)
        return kymo_err_set(err, r, "no memory for losses");
    j->losses[j->loss_count++] = *loss;
    return 0;
}

static int put_stored(struct parquet_row *row, const struct system_ring *ring, struct kymo_err *err)
{
    uint64_t found = ring->rows + ring->partial + ring->other + ring->unknown;
    uint64_t lost = found < ring->stored ? ring->stored - found : 0;
    parquet_row_string(row, KYMO_LOSS_LEDGER_STAGE, "runtime");
    parquet_row_string(row, KYMO_LOSS_LEDGER_RING, ring->label);
    parquet_row_string(row, KYMO_LOSS_LEDGER_RECORD_KIND, ring->kind);
    parquet_row_string(row, KYMO_LOSS_LEDGER_CAUSE, lost ? "processing" : ring->unknown ? "undecodable" : "");
    parquet_row_int(row, KYMO_LOSS_LEDGER_EMITTED_RECORDS, (int64_t)ring->stored);
    parquet_row_int(row, KYMO_LOSS_LEDGER_ROW_RECORDS, (int64_t)ring->rows);
    parquet_row_int(row, KYMO_LOSS_LEDGER_PARTIAL_RECORDS, (int64_t)ring->partial);
    parquet_row_int(row, KYMO_LOSS_LEDGER_OTHER_RECORDS, (int64_t)ring->other);
    parquet_row_int(row, KYMO_LOSS_LEDGER_UNKNOWN_RECORDS, (int64_t)ring->unknown);
    parquet_row_int(row, KYMO_LOSS_LEDGER_LOST_RECORDS, (int64_t)lost);
    parquet_row_int(row, KYMO_LOSS_LEDGER_LOST_UNKNOWN, 0);
    return parquet_row_end(row, err);
}

/* Records beyond what the file holds: overwritten in the runtime's ring, or behind a damage. */
static const char *cause_of(const struct system_ring *ring, bool known, uint64_t lost)
{
    if (ring->broken)
        return ring->broken;
    if (ring->has_counters && ring->emitted < ring->stored)
        return "counters_contradict";
    if (!known || !lost)
        return "";
    return lost > ring->dropped ? "truncated" : "ring_full";
}

static void warn(struct system_job *j, const struct system_ring *ring, bool known, uint64_t lost, const char *cause)
{
    char item[160];
    if (known && lost) {
        (void)snprintf(item, sizeof item, "%s lost %" PRIu64 " of %" PRIu64, ring->label, lost, ring->emitted);
        warnings_list(
            j->warnings, "Lost records", item,
            !strcmp(cause, "truncated")
                ? "trace events are not in the file, which was cut off"
                : "trace events were dropped, the oldest first: the profile begins later than the session; raise "
                  "NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC or filter events");
    } else if (!known && !ring->broken && *cause) {
        warnings_list(j->warnings, "Unverifiable ring", ring->label,
                      "the counters of a trace contradict the events stored: whether some were lost cannot be told");
    } else if (!known && !ring->broken) {
        warnings_list(j->warnings, "Unverifiable ring", ring->label,
                      "a trace has no counters: whether events or samples were lost cannot be told");
    }
}

static int put_lost(struct system_job *j, struct parquet_row *row, const struct system_ring *ring, struct kymo_err *err)
{
    bool known = ring->has_counters && ring->emitted >= ring->stored && !ring->broken;
    uint64_t lost = known ? ring->emitted - ring->stored : 0;
    const char *cause = cause_of(ring, known, lost);
    struct ledger_loss loss = {.has_records = known, .records = lost, .has_emitted = known, .emitted = ring->emitted};
    parquet_row_string(row, KYMO_LOSS_LEDGER_STAGE, "runtime");
    parquet_row_string(row, KYMO_LOSS_LEDGER_RING, ring->label);
    parquet_row_string(row, KYMO_LOSS_LEDGER_CAUSE, cause);
    if (known) {
        parquet_row_int(row, KYMO_LOSS_LEDGER_EMITTED_RECORDS, (int64_t)lost);
        parquet_row_int(row, KYMO_LOSS_LEDGER_LOST_RECORDS, (int64_t)lost);
    }
    parquet_row_int(row, KYMO_LOSS_LEDGER_LOST_UNKNOWN, !known);
    warn(j, ring, known, lost, cause);
    int r = parquet_row_end(row, err);
    if (r < 0 || !*cause)
        return r;
    (void)snprintf(loss.stage, sizeof loss.stage, "runtime");
    (void)snprintf(loss.ring, sizeof loss.ring, "%s", ring->label);
    (void)snprintf(loss.cause, sizeof loss.cause, "%s", cause);
    return keep_loss(j, &loss, err);
}

/* What was lost on the way here. */
static int put_manifest(struct system_job *j, struct parquet_row *row, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; j->manifest && i < j->manifest->n_losses && r == 0; i++) {
        const Kymo__Manifest__Loss *loss = j->manifest->losses[i];
        parquet_row_string(row, KYMO_LOSS_LEDGER_STAGE, loss->stage ? loss->stage : "");
        parquet_row_string(row, KYMO_LOSS_LEDGER_RING, loss->ring);
        parquet_row_string(row, KYMO_LOSS_LEDGER_CAUSE, loss->cause ? loss->cause : "");
        if (loss->has_records)
            parquet_row_int(row, KYMO_LOSS_LEDGER_LOST_RECORDS, (int64_t)loss->records);
        parquet_row_int(row, KYMO_LOSS_LEDGER_LOST_UNKNOWN, !loss->has_records);
        r = parquet_row_end(row, err);
    }
    return r;
}

/* A file of samples or of JSON holds all that its writer made: it counts for itself, unless it is damaged. */
static void count_file(struct system_ring *ring)
{
    if (!strcmp(ring->kind, "sample") && !ring->broken) {
        ring->has_counters = true;
        ring->emitted = ring->stored;
    }
}

int system_write_ledger(struct system_job *j, struct kymo_err *err)
{
    struct parquet_row *row = NULL;
    int r = parquet_row_open(j->dir, kymo_schema_table(KYMO_T_LOSS_LEDGER), NULL, &row, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < j->n_rings && r == 0; i++) {
        count_file(&j->rings[i]);
        if (j->rings[i].stored)
            r = put_stored(row, &j->rings[i], err);
        if (r == 0)
            r = put_lost(j, row, &j->rings[i], err);
        if (j->rings[i].unknown)
            warnings_list(j->warnings, "Unknown records", j->rings[i].label,
                          "records of a trace are of no known kind, or have a time that is none: they are in no table");
    }
    if (r == 0)
        r = put_manifest(j, row, err);
    return finish(row, r, err);
}

static void put_date(struct parquet_row *row, unsigned column, int64_t ns)
{
    char day[32], text[64];
    time_t seconds = (time_t)(ns / NS_PER_S);
    struct tm tm;
    if (!gmtime_r(&seconds, &tm) || !strftime(day, sizeof day, "%Y-%m-%d %H:%M:%S", &tm))
        return;
    (void)snprintf(text, sizeof text, "%s.%09" PRId64 " +0000 UTC", day, (int64_t)(ns % NS_PER_S));
    parquet_row_string(row, column, text);
}

static void put_number(struct parquet_row *row, unsigned column, int64_t ns)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, ns);
    parquet_row_string(row, column, text);
}

int system_write_metadata(struct system_job *j, struct kymo_err *err)
{
    struct parquet_row *row = NULL;
    int r = parquet_row_open(j->dir, kymo_schema_table(KYMO_T_SYSTEM_PROFILE_METADATA), NULL, &row, err);
    if (r < 0)
        return r;
    if (j->first <= j->last) {
        put_date(row, KYMO_SYSTEM_PROFILE_METADATA_FIRST_TS, j->first);
        put_date(row, KYMO_SYSTEM_PROFILE_METADATA_LAST_TS, j->last);
        put_number(row, KYMO_SYSTEM_PROFILE_METADATA_FIRST_TS_NS, j->first);
        put_number(row, KYMO_SYSTEM_PROFILE_METADATA_LAST_TS_NS, j->last);
    } else {
        warnings_add(j->warnings, "Missing Data",
                     "SystemProfileMetadata has no times: the trace holds no event and no sample");
    }
    if (j->info && j->info->ntff_version)
        parquet_row_int(row, KYMO_SYSTEM_PROFILE_METADATA_NTFF_VERSION, j->info->ntff_version);
    else
        warnings_add(j->warnings, "Missing Data", "SystemProfileMetadata.ntff_version is 0: no file says it");
    if (j->arch)
        parquet_row_int(row, KYMO_SYSTEM_PROFILE_METADATA_HBM_CAPACITY_BYTES,
                        (int64_t)(j->arch->hbm_bytes / j->arch->pcores_per_device));
    else
        warnings_add(j->warnings, "Missing Data",
                     "SystemProfileMetadata.hbm_capacity_bytes is 0: no file names the instance's type or generation");
    return finish(row, parquet_row_end(row, err), err);
}

static bool is_by_model(const Ntff__NtffInfo *info)
{
    return info->mode != NTFF__CAPTURE_MODE__MODE_SESSION;
}

static void put_core(const struct system_job *j, struct parquet_row *row, const Ntff__NtffInfo *info)
{
    for (size_t i = 0; i < j->n_cores; i++)
        if (j->cores[i].vnc == info->vnc) {
            parquet_row_int(row, KYMO_DEVICE_PROFILE_LIST_NC_IDX, j->cores[i].nc);
            return;
        }
}

static int put_device(const struct system_job *j, struct parquet_row *row, const char *name, const Ntff__NtffInfo *info,
                      struct kymo_err *err)
{
    parquet_row_string(row, KYMO_DEVICE_PROFILE_LIST_DEVICE_PROFILE_NAME, name);
    parquet_row_string(row, KYMO_DEVICE_PROFILE_LIST_INSTANCE_ID, j->instance);
    parquet_row_int(row, KYMO_DEVICE_PROFILE_LIST_PROCESS_ID,
                    info->pid && info->pid <= INT64_MAX ? (int64_t)info->pid : j->process);
    parquet_row_int(row, KYMO_DEVICE_PROFILE_LIST_NC_ID, info->vnc);
    if (!is_by_model(info))
        parquet_row_int(row, KYMO_DEVICE_PROFILE_LIST_SESSION_ID, (int64_t)info->session_id);
    else if (info->n_neff_nodes == 1)
        parquet_row_int(row, KYMO_DEVICE_PROFILE_LIST_MODEL_ID, (int64_t)info->neff_nodes[0]->model_id);
    put_core(j, row, info);
    return parquet_row_end(row, err);
}

/* A file that cannot be read, or holds nothing, has no profile to link. */
static int link_device(struct system_job *j, struct parquet_row *row, const struct system_device *d,
                       struct kymo_err *err)
{
    struct ntff_reader *reader KYMO_CLEANUP(ntff_reader_freep) = NULL;
    struct kymo_err why = {0};
    int r = ntff_reader_open(d->ntff, &reader, &why);
    if (r == -ENOMEM)
        return kymo_err_set(err, r, "%s", why.text);
    if (r < 0) {
        if (r != -ENODATA)
            warnings_add(j->warnings, "Missing Data", "a device profile is not in DeviceProfileList: %s", why.text);
        return 0;
    }
    const Ntff__NtffInfo *info = ntff_reader_info(reader);
    if (j->process >= 0 && info->pid && info->pid != (uint64_t)j->process) {
        warnings_add(j->warnings, "Contradiction",
                     "%s is of process %" PRIu64 ", the trace of process %" PRId64 ": it is not in DeviceProfileList",
                     d->ntff, info->pid, j->process);
        return 0;
    }
    return put_device(j, row, d->name, info, err);
}

int system_write_devices(struct system_job *j, struct kymo_err *err)
{
    struct parquet_row *row = NULL;
    int r = parquet_row_open(j->dir, kymo_schema_table(KYMO_T_DEVICE_PROFILE_LIST), NULL, &row, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < j->options->device_count && r == 0; i++)
        r = link_device(j, row, &j->options->devices[i], err);
    return finish(row, r, err);
}
