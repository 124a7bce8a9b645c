/* Writes the table Instruction from static rows and the dynamic columns of each event. */
#ifndef KYMO_PIPELINE_INSTRUCTIONS_INSTR_ROWS_H
#define KYMO_PIPELINE_INSTRUCTIONS_INSTR_ROWS_H

#include <stdint.h>

#include "formats/parquet/parquet_writer.h"
#include "pipeline/instructions/statics.h"

/* What one row has beside its static row. */
struct instr_row {
    int64_t id;
    int64_t start, end, wait; /* ns; wait: evt_wait_time_ns */
    int64_t begin;            /* it runs from here: its wait is over, by the counter or, at its end, by a record */
    int64_t dma_start, dma_end;
    int64_t transfer;          /* the one it triggered, whole or not; -1: none */
    uint64_t start_ps, end_ps; /* corrected */
    uint32_t row;              /* static */
    uint32_t gaps;             /* losses in the ring before it, as its engine saw them */
    uint32_t partials;         /* partial events of its engine before it */
    uint16_t crc_in, crc_out;
    bool has_dma;
    bool saturated; /* the wait counter was at its end */
};

struct instr_rows;

/* Registers every static row's columns in the writer's dictionaries. */
int instr_rows_open(const char *dir, const struct parquet_options *opt, const struct statics *statics,
                    struct warnings *w, struct instr_rows **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* Rows in order of start. */
int instr_rows_add(struct instr_rows *t, const struct instr_row *row, struct kymo_err *err) KYMO_MUST_CHECK;
int instr_rows_finish(struct instr_rows *t, struct kymo_err *err) KYMO_MUST_CHECK;
/* Without a finish before, nothing is left of the table. */
struct instr_rows *instr_rows_free(struct instr_rows *t);

#endif
