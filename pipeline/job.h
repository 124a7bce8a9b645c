/* What the passes over one profile share. Inside of process.c and the passes. */
#ifndef KYMO_PIPELINE_JOB_H
#define KYMO_PIPELINE_JOB_H

#include "formats/parquet/parquet_writer.h"
#include "pipeline/consumers.h"
#include "pipeline/dma/dma_queues.h"
#include "pipeline/input.h"
#include "pipeline/instructions/program.h"
#include "pipeline/instructions/statics.h"
#include "pipeline/process.h"
#include "pipeline/rings/ledger.h"
#include "pipeline/rings/notices.h"
#include "pipeline/rings/partials.h"
#include "pipeline/rings/scan.h"
#include "pipeline/rings/timebase.h"
#include "pipeline/rings/timeline.h"
#include "pipeline/semaphores/met_waits.h"
#include "pipeline/settings.h"
#include "pipeline/spill/spill.h"
#include "pipeline/summary/summary.h"
#include "pipeline/warnings.h"

/* What became of the transfer that an instruction launched. */
struct job_trigger {
    int64_t start, end;
    int64_t transfer;  /* its id plus 1; 0: none */
    uint64_t complete; /* 1: every packet of it was seen */
};

struct job {
    const struct process_options *options;
    struct process_result *result;
    const char *dir; /* where tables are made */
    struct parquet_options parquet;
    struct settings settings;
    struct input *in;
    struct warnings *warnings;
    struct timebase timebase;
    struct timeline timeline;
    struct scan scan;
    struct programs programs;
    struct dma_queues queues;
    struct statics statics;
    struct summary *summary;
    struct partials *partials;
    struct consumers *consumers;
    struct ledger ledger;
    struct spill *throttles;  /* notices_throttle, by start; NULL: none */
    uint64_t unnamed, strays; /* DMA packets without DGE notifications, and of no transfer */
    uint64_t backwards;       /* events that end before they start */
    struct met_waits *met_waits[INPUT_CORES_MAX][KYMO_ENGINE_MAX]; /* NULL: no record, or nobody asks */
    struct spill *triggers[INPUT_CORES_MAX]
                          [KYMO_ENGINE_MAX]; /* job_trigger, by number of the trigger on its engine; NULL: no DMA */
};

int job_report(struct job *j, enum process_stage stage, uint64_t done, uint64_t total,
               struct kymo_err *err) KYMO_MUST_CHECK;

/* The passes. */
int job_dma(struct job *j, struct kymo_err *err) KYMO_MUST_CHECK;
int job_host_dma(struct job *j, struct kymo_err *err) KYMO_MUST_CHECK;
int job_cc(struct job *j, struct kymo_err *err) KYMO_MUST_CHECK;
/* A part of job_cc. waits: by the ring of the CC-core's instructions; NULL where nobody asks. */
int cc_events_write(struct job *j, struct met_waits **waits, struct kymo_err *err) KYMO_MUST_CHECK;
int job_instructions(struct job *j, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
