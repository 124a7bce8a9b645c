#include "pipeline/doubts.h"

#include <stdio.h>

#include "arch/ring.h"

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
                      "the device reported errors while it was profiled: results may be wrong; kymo ntff inspect shows "
                      "the records");
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
