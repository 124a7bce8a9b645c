/*
 * The consumer that writes Flow and WaitCause. Semaphore records are spilled in order of ring until the instructions
 * come; then both are walked together, in order of time (flow_core.h). Rows come in the order in which the later event
 * began to run; that of an edge into a transfer or a collective is its trigger.
 */
#ifndef KYMO_PIPELINE_FLOW_FLOW_H
#define KYMO_PIPELINE_FLOW_FLOW_H

#include "pipeline/consumer.h"

extern const struct consumer flow_consumer;

#endif
