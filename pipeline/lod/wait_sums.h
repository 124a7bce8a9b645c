/* Makes the table WaitSums, what WaitCause says by stretch of time (time_sums.h). A part of the flow consumer. */
#ifndef KYMO_PIPELINE_LOD_WAIT_SUMS_H
#define KYMO_PIPELINE_LOD_WAIT_SUMS_H

#include "pipeline/flow/flow_core.h"
#include "pipeline/job.h"

struct wait_sums;

int wait_sums_open(const struct job *j, struct wait_sums **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* A row of WaitCause. */
int wait_sums_add(struct wait_sums *t, const struct flow_wait *w, struct kymo_err *err) KYMO_MUST_CHECK;
/* Writes the table. */
int wait_sums_finish(struct wait_sums *t, struct kymo_err *err) KYMO_MUST_CHECK;
struct wait_sums *wait_sums_free(struct wait_sums *t); /* discards what was not finished; NULL is fine */

#endif
