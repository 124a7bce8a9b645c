/*
 * One profile: NTFF, NEFFs and manifest to a directory of tables. The directory is built beside its place and put there
 * whole, so nothing half-written is ever seen under its name.
 */
#ifndef KYMO_PIPELINE_PROCESS_H
#define KYMO_PIPELINE_PROCESS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "pipeline/rings/ledger.h"
#include "pipeline/settings.h"

struct crew;

enum process_stage {
    PROCESS_OPEN,
    PROCESS_SCAN,
    PROCESS_DMA,
    PROCESS_SEMAPHORES,
    PROCESS_INSTRUCTIONS,
    PROCESS_SUMMARY,
    PROCESS_DONE
};
const char *process_stage_name(enum process_stage s);

struct process_options {
    const char *ntff;
    const char *const *neffs;
    size_t neff_count;
    const char *manifest;            /* NULL: none */
    const char *output;              /* directory */
    const char *name;                /* Metadata.profile_name; NULL: none */
    uint64_t split_rows;             /* 0: one file per table */
    const struct settings *settings; /* NULL: the defaults */
    struct crew *crew;               /* tables are written by its threads; NULL: by the caller's */
    /* done of total records; may be NULL. Non-zero stops with -ECANCELED. */
    int (*progress)(void *ctx, enum process_stage stage, uint64_t done, uint64_t total);
    /* Called for each serious row of the table Warning once the profile is in its place; may be NULL. */
    void (*warning)(void *ctx, const char *category, const char *text);
    /* Called for each row of LossLedger with a loss, likewise; may be NULL. */
    void (*loss)(void *ctx, const struct ledger_loss *loss);
    void *ctx;
};

struct process_result {
    uint64_t records, instructions, packets, transfers, host_transfers, semaphores, throttles, errors, partials,
        warnings;
    uint64_t collectives, cc_instructions, cc_events;
};

/*
 * -ENODATA: the NTFF has 0 bytes, nothing is made. Any failure leaves what was at options->output untouched. A
 * profile that is already there is replaced by exchange; anything else that is there, an input or a directory above one
 * is refused (pipeline/output_dir.h).
 */
int process_run(const struct process_options *options, struct process_result *ret,
                struct kymo_err *err) KYMO_MUST_CHECK;

#endif
