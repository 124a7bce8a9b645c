/* Collects the triggers of DMA transfers from the instruction stream, per group of queue sets, in order of time. */
#ifndef KYMO_PIPELINE_DMA_DMA_TRIGGERS_H
#define KYMO_PIPELINE_DMA_DMA_TRIGGERS_H

#include "pipeline/dma/dma_assign.h"
#include "pipeline/job.h"

struct dma_triggers {
    struct spill **groups; /* dma_trigger; NULL: a group without triggers */
    uint32_t group_count;
    uint64_t undescribed; /* dynamic DMAs without a DGE record although such records were asked for */
};

/* Also opens job.triggers, with a zeroed record for each trigger instruction of an engine. */
int dma_triggers_collect(struct dma_triggers *t, struct job *j, struct kymo_err *err) KYMO_MUST_CHECK;
void dma_triggers_done(struct dma_triggers *t);

#endif
