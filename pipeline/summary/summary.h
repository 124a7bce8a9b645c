/*
 * Everything that is summed over a profile: the tables ActiveTime, OpcodeSummary and Summary. Memory is independent of
 * the number of events: merged busy spans go to spill files and are merged at the end. Not thread-safe. Times are ns.
 */
#ifndef KYMO_PIPELINE_SUMMARY_SUMMARY_H
#define KYMO_PIPELINE_SUMMARY_SUMMARY_H

#include <stdint.h>

#include "formats/parquet/parquet_writer.h"
#include "pipeline/formulas/totals.h"
#include "pipeline/instructions/statics.h"
#include "pipeline/rings/timeline.h"

struct summary;

/* Counts that other parts know. */
struct summary_counts {
    uint64_t records, event_records, rows;
    const char *incomplete; /* why the totals are lower bounds; NULL: they are not */
};

int summary_open(const char *dir, const struct statics *statics, struct summary **ret,
                 struct kymo_err *err) KYMO_MUST_CHECK;
struct summary *summary_free(struct summary *s);

/* In order of start. row: static row. */
int summary_instruction(struct summary *s, uint32_t row, int64_t start, int64_t end, int64_t wait,
                        struct kymo_err *err) KYMO_MUST_CHECK;
/* In order of start. */
struct summary_flow {
    uint32_t set; /* DMA_NONE when not known */
    enum dma_memory from, to;
    bool spill;
};
int summary_packet(struct summary *s, struct summary_flow flow, int64_t start, int64_t end, uint64_t bytes,
                   struct kymo_err *err) KYMO_MUST_CHECK;
/* block or copy (of queues.copies), DMA_NONE: what was copied is not known. */
void summary_transfer(struct summary *s, uint32_t block, uint32_t copy, int64_t start, int64_t end, uint64_t bytes);
/* In order of start each. */
int summary_collective(struct summary *s, int64_t start, int64_t end, struct kymo_err *err) KYMO_MUST_CHECK;
int summary_cc_instruction(struct summary *s, int64_t start, int64_t end, int64_t wait,
                           struct kymo_err *err) KYMO_MUST_CHECK;
/* Notices of execution start and stop, and the span of all records. */
struct totals_run *summary_run(struct summary *s);

/* How often a block or copy was transferred, and its bytes. */
struct summary_load {
    uint64_t transfers, bytes;
};
const struct summary_load *summary_loads(const struct summary *s); /* by block; copies behind */

/* Writes the three tables; opt is for ActiveTime, which may be large. */
int summary_write(struct summary *s, const struct input *in, const struct timeline *timeline,
                  const struct summary_counts *counts, const char *dir, const struct parquet_options *opt,
                  struct kymo_err *err) KYMO_MUST_CHECK;

#endif
