/* Makes the table WindowSums: sums by stretch of time, of which the figures of any window are made (time_sums.h). */
#ifndef KYMO_PIPELINE_LOD_WINDOW_SUMS_H
#define KYMO_PIPELINE_LOD_WINDOW_SUMS_H

#include "pipeline/consumer.h"

extern const struct consumer window_sums_consumer;

#endif
