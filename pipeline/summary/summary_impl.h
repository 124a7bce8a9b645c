/* Inside of the summary, shared by summary.c (accumulation), summary_active.c and summary_row.c (the tables). */
#ifndef KYMO_PIPELINE_SUMMARY_SUMMARY_IMPL_H
#define KYMO_PIPELINE_SUMMARY_SUMMARY_IMPL_H

#include "pipeline/spill/spill.h"
#include "pipeline/summary/summary.h"

#define SUMMARY_OPEN_MAX (1u << 20) /* busy spans beyond the watermark */

struct summary_op { /* one (engine, opcode) */
    struct totals_busy busy;
    uint8_t engine, opcode;
    bool known;
};

struct summary_spans { /* merged busy spans on their way to a spill file */
    struct spill *spill;
    struct kymo_err err; /* first failure: the callback cannot report it */
};

struct summary {
    const struct statics *statics;
    uint64_t *row_count; /* by static row */
    uint16_t *row_op;    /* static row to ops */
    struct summary_op *ops;
    size_t op_count;
    struct totals_busy core[INPUT_CORES_MAX][KYMO_ENGINE_MAX];
    struct totals_busy engine[KYMO_ENGINE_MAX]; /* both cores together */
    struct summary_spans active[INPUT_CORES_MAX][KYMO_ENGINE_MAX];
    struct summary_spans dma_active, cc_active;
    struct totals_busy cc_ops, cc_instructions;
    struct totals_dma dma;
    struct totals_window exec;
    struct totals_run run;
    struct summary_load *loads;
    uint64_t transfers, transfer_bytes, hbm_read, hbm_write, sbuf_read, sbuf_write, spill_save, spill_reload;
    uint64_t input_bytes, output_bytes, weight_bytes;
    uint64_t **queue_bytes; /* by queue set: one of those three, or NULL */
    int64_t transfer_time;
    unsigned since_advance;
    int64_t total_active; /* set by summary_active_write */
};

/* Lets everything out that lies before watermark; INT64_MAX at the end. */
int summary_advance(struct summary *s, int64_t watermark, struct kymo_err *err) KYMO_MUST_CHECK;
/* Writes ActiveTime and finds total_active. */
int summary_active_write(struct summary *s, const char *dir, const struct parquet_options *opt,
                         struct kymo_err *err) KYMO_MUST_CHECK;
int summary_row_write(struct summary *s, const struct input *in, const struct timeline *timeline,
                      const struct summary_counts *counts, const char *dir, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
