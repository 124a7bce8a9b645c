/*
 * One system profile: the runtime's trace files of a session, and the framework's, to a directory of tables. As a
 * device profile it is built beside its place and put there whole (pipeline/process.h).
 */
#ifndef KYMO_PIPELINE_SYSTEM_SYSTEM_H
#define KYMO_PIPELINE_SYSTEM_SYSTEM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "pipeline/process.h"

#define SYSTEM_DEVICES_MAX 4096

/* A device profile of the same session. */
struct system_device {
    const char *name; /* of the profile */
    const char *ntff;
};

struct system_options {
    const char *dir; /* holds ntrace.pb, trace_info.pb, cpu_util.pb, host_mem.pb and trace.json, or some of them; or one
                        of those files, beside which the others have the same prefix (systrace_prefix) */
    const struct system_device *devices;
    size_t device_count;
    const char *manifest; /* NULL: none */
    const char *output;
    uint64_t split_rows;
    /* As in struct process_options; stages are open, scan, instructions (events), summary. */
    int (*progress)(void *ctx, enum process_stage stage, uint64_t done, uint64_t total);
    void (*warning)(void *ctx, const char *category, const char *text);
    void (*loss)(void *ctx, const struct ledger_loss *loss);
    void *ctx;
};

struct system_result {
    uint64_t records, events, samples, memory, partials, warnings;
};

/*
 * -ENODATA: the directory holds none of the files, or only empty ones; nothing is made. A file that breaks off, or is
 * no trace, costs what follows in it: a row of LossLedger and one of Warning say so. Any other failure leaves what was
 * at options->output untouched.
 */
int system_run(const struct system_options *options, struct system_result *ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
