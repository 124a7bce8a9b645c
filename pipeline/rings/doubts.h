/* Warnings about what the trace itself tells: failed executions, errors of engines, times and records that make no
 * sense. */
#ifndef KYMO_PIPELINE_RINGS_DOUBTS_H
#define KYMO_PIPELINE_RINGS_DOUBTS_H

#include <stddef.h>

#include "pipeline/rings/scan.h"
#include "pipeline/rings/timeline.h"
#include "pipeline/warnings.h"

/* backwards: events whose end comes before their start. */
void doubts_tell(const struct scan *scan, const struct timeline *timeline, uint64_t backwards, struct warnings *w);

#define DOUBTS_TEXT_MAX 512

/* What totals rest on. */
struct doubts_inputs {
    const struct timeline *timeline;
    const struct scan *scan;
    const struct input *in;
    uint64_t partials; /* events with one end */
    uint64_t unnamed;  /* packets of dynamic DMAs without DGE notifications */
    uint64_t strays;   /* packets of no transfer */
};
/* Why totals are lower bounds; NULL: they are not. */
const char *doubts_incomplete(const struct doubts_inputs *d, char text[static DOUBTS_TEXT_MAX]);

#endif
