/* The table SemaphoreUpdate, as a consumer of the pass over the EVENT rings (semaphores.h). */
#ifndef KYMO_PIPELINE_SEMAPHORES_SEMAPHORE_ROWS_H
#define KYMO_PIPELINE_SEMAPHORES_SEMAPHORE_ROWS_H

#include "pipeline/consumer.h"

extern const struct consumer semaphore_rows_consumer;

#endif
