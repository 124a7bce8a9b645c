/* Warnings about what the trace itself tells: failed executions, errors of engines, times and records that make no
 * sense. */
#ifndef KYMO_PIPELINE_DOUBTS_H
#define KYMO_PIPELINE_DOUBTS_H

#include "pipeline/scan.h"
#include "pipeline/timeline.h"
#include "pipeline/warnings.h"

/* backwards: events whose end comes before their start. */
void doubts_tell(const struct scan *scan, const struct timeline *timeline, uint64_t backwards, struct warnings *w);

#endif
