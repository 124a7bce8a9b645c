/* Writes the tables Flow and WaitCause, in the order in which rows come. */
#ifndef KYMO_PIPELINE_FLOW_FLOW_ROWS_H
#define KYMO_PIPELINE_FLOW_FLOW_ROWS_H

#include "formats/parquet/parquet_writer.h"
#include "pipeline/flow/flow_core.h"

struct flow_rows;

int flow_rows_open(const char *dir, const struct parquet_options *opt, struct flow_rows **ret,
                   struct kymo_err *err) KYMO_MUST_CHECK;
int flow_rows_edge(struct flow_rows *t, const struct flow_edge *e, struct kymo_err *err) KYMO_MUST_CHECK;
int flow_rows_wait(struct flow_rows *t, const struct flow_wait *w, struct kymo_err *err) KYMO_MUST_CHECK;
int flow_rows_finish(struct flow_rows *t, struct kymo_err *err) KYMO_MUST_CHECK;
struct flow_rows *flow_rows_free(struct flow_rows *t); /* discards what was not finished */

#endif
