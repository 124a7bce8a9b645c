/*
 * A table of numbers written row by row in batches: the columns are integers and reals, none of them null, but for
 * those that are never set. Fast enough for a row per event. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_SERIES_TABLE_H
#define KYMO_PIPELINE_SERIES_TABLE_H

#include <stdint.h>

#include "formats/parquet/parquet_writer.h"

struct series_table;

/* pcore: the column that names the physical core, which has few values; table->column_count: none. */
int series_table_open(const char *dir, const struct parquet_options *opt, enum kymo_table_id table, unsigned pcore,
                      struct series_table **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* A column of integers, or of reals; each row has all columns of the first one. */
void series_table_int(struct series_table *t, unsigned column, int64_t v);
void series_table_real(struct series_table *t, unsigned column, double v);
void series_table_core(struct series_table *t, unsigned pcore);
int series_table_end(struct series_table *t, struct kymo_err *err) KYMO_MUST_CHECK;

/* Rates over time, of which there are many: a row's time, rate, total so far and total by time in one call. */
struct series_rate_columns {
    unsigned at, current, total, cumulative; /* INT64, FLOAT, INT64, FLOAT */
};
void series_table_rates(struct series_table *t, const struct series_rate_columns *columns); /* once, before the first */
int series_table_rate(struct series_table *t, int64_t at, unsigned pcore, double rate, uint64_t total,
                      struct kymo_err *err) KYMO_MUST_CHECK;
uint64_t series_table_rows(const struct series_table *t);
/* Frees t whatever the result. */
int series_table_finish(struct series_table *t, struct kymo_err *err) KYMO_MUST_CHECK;
struct series_table *series_table_discard(struct series_table *t);

#endif
