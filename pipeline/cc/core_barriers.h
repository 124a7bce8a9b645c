/* The consumer that writes CoreBarriers (consumer.h). */
#ifndef KYMO_PIPELINE_CC_CORE_BARRIERS_H
#define KYMO_PIPELINE_CC_CORE_BARRIERS_H

#include "pipeline/consumer.h"

extern const struct consumer core_barriers_consumer;

#endif
