/* The small tables that say what the profile is of: Metadata, NeffHeader, ExecutionInfo, TensorInfo, DmaQueuesInfo,
 * SchemaFields. */
#ifndef KYMO_PIPELINE_REFERENCE_H
#define KYMO_PIPELINE_REFERENCE_H

#include "pipeline/dma/dma_queues.h"
#include "pipeline/input.h"
#include "pipeline/rings/scan.h"
#include "pipeline/rings/timebase.h"
#include "pipeline/rings/timeline.h"
#include "pipeline/summary/summary.h"

struct reference {
    const struct input *in;
    const struct scan *scan;
    const struct timebase *timebase;
    const struct timeline *timeline;
    const struct dma_queues *queues;
    const struct summary_load *loads;
    const char *name; /* Metadata.profile_name; NULL: none */
};

int reference_write(const struct reference *ref, const char *dir, struct warnings *w,
                    struct kymo_err *err) KYMO_MUST_CHECK;

/* SchemaFields: every column of every table that kymo knows. */
int reference_write_schema(const char *dir, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
