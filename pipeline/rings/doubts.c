#include "pipeline/rings/doubts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "arch/ring.h"
#include "pipeline/rings/ledger.h"

static void tell_executions(const struct timeline *t, struct warnings *w)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct timeline_exec *e = &t->execs[i];
        char item[64];
        (void)snprintf(item, sizeof item, "execution %u with NRT status %u", e->index, e->status);
        if (e->status)
            warnings_list(
                w, "Failed execution", item,
                "an execution failed: its records may end early, and times of the profile may not be typical");
        (void)snprintf(item, sizeof item, "execution %u", e->index);
        if (e->end_ps < e->start_ps)
            warnings_list(w, "Timestamps", item,
                          "an execution ends before it starts in the file's timeline: its end is left out");
    }
}

static void tell_errors(const struct scan_ring *r, const char *label, struct warnings *w)
{
    uint64_t n = r->by_kind[RECORD_TPB_ERROR] + r->by_kind[RECORD_ERROR];
    char item[128];
    (void)snprintf(item, sizeof item, "%llu in %s", (unsigned long long)n, label);
    if (n)
        warnings_list(w, "Errors on the device", item,
                      "the device reported errors while it was profiled: results may be wrong; they are in the table "
                      "Error");
}

static void tell_times(const struct scan_ring *r, const char *label, struct warnings *w)
{
    char item[160];
    (void)snprintf(item, sizeof item, "%" PRIu64 " in %s, the first at offset %" PRIu64, r->doubtful, label,
                   r->doubtful_offset);
    if (r->doubtful)
        warnings_list(
            w, "Timestamps", item,
            "records have times that the records around them contradict; the file is damaged there. Their rows "
            "have the time of a sound record beside them, so that durations that begin or end with one are not "
            "to be trusted");
}

void doubts_tell(const struct scan *scan, const struct timeline *timeline, uint64_t backwards, struct warnings *w)
{
    uint64_t unknown = 0;
    tell_executions(timeline, w);
    for (size_t i = 0; i < scan->count; i++) {
        const struct scan_ring *r = &scan->rings[i];
        char label[64];
        kymo_ring_label((enum kymo_ring)r->ring.kind, r->ring.pcore_idx, r->ring.engine_index, label, sizeof label);
        tell_errors(r, label, w);
        tell_times(r, label, w);
        unknown += r->by_kind[RECORD_UNKNOWN];
    }
    if (scan->records && unknown == scan->records)
        warnings_add(w, "Unknown records",
                     "none of the %llu records is of a known kind: the tables of events are empty; the file is damaged "
                     "or of a format that this version does not read",
                     (unsigned long long)unknown);
    else if (unknown)
        warnings_add(w, "Unknown records", "%llu of %llu records are of unknown kinds and in no table but LossLedger",
                     (unsigned long long)unknown, (unsigned long long)scan->records);
    if (backwards)
        warnings_add(w, "Timestamps",
                     "%llu events end before they start: both ends are in PartialEvent with reason backwards; the "
                     "trace's clock is not to be trusted there",
                     (unsigned long long)backwards);
}

static void append(char *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void append(char *text, const char *fmt, ...)
{
    size_t n = strlen(text);
    if (n)
        n += (size_t)snprintf(text + n, DOUBTS_TEXT_MAX - n, "; ");
    va_list ap;
    va_start(ap, fmt);
    if (n < DOUBTS_TEXT_MAX)
        (void)vsnprintf(text + n, DOUBTS_TEXT_MAX - n, fmt, ap);
    va_end(ap);
}

const char *doubts_incomplete(const struct doubts_inputs *d, char text[static DOUBTS_TEXT_MAX])
{
    unsigned rings = 0, neffs = 0;
    for (size_t i = 0; i < d->scan->count; i++) {
        uint64_t lost = 0;
        bool known = ledger_lost(&d->scan->rings[i], &lost);
        rings += lost || (!known && d->scan->rings[i].gaps);
    }
    for (size_t n = 0; n < d->in->node_count; n++)
        neffs += !d->in->nodes[n].neff;
    *text = 0;
    if (rings)
        append(text, "records of %u rings were lost", rings);
    if (d->partials)
        append(text, "%" PRIu64 " events have one end only and no row", d->partials);
    if (neffs)
        append(text, "%u NEFFs are missing: static DMA transfers, HBM and SBUF bytes, model FLOPs", neffs);
    if (timeline_failures(d->timeline))
        append(text, "%zu executions failed: model FLOPs are those of the others", timeline_failures(d->timeline));
    if (d->unnamed)
        append(text, "%" PRIu64 " DMA packets have no DGE notifications: HBM and SBUF bytes", d->unnamed);
    if (d->strays)
        append(text, "%" PRIu64 " DMA packets belong to no transfer: HBM and SBUF bytes", d->strays);
    return *text ? text : NULL;
}
