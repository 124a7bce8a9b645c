/* Jobs of kymo-gather: parents of requests, and rows of fleet tables. */
#ifndef KYMO_COLLECTOR_WORK_GATHER_H
#define KYMO_COLLECTOR_WORK_GATHER_H

#include "collector/work_job.h"

/* Writes the list of a parent's members into the job's directory. */
int work_gather_list(struct work_job *j, const struct work_queue_config *c, struct kymo_err *err) KYMO_MUST_CHECK;
int work_gather_start(struct work_job *j, const struct work_queue_config *c, struct kymo_err *err) KYMO_MUST_CHECK;
/* Puts the rows that were made where they belong. */
int work_gather_publish(const struct work_job *j, const struct work_queue_config *c,
                        struct kymo_err *err) KYMO_MUST_CHECK;

#endif
