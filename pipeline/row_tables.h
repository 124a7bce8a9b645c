/* The tables whose rows are the events themselves: Instruction, DmaPacket and DmaPacketAggregated, as consumers. */
#ifndef KYMO_PIPELINE_ROW_TABLES_H
#define KYMO_PIPELINE_ROW_TABLES_H

#include "pipeline/consumer.h"

extern const struct consumer instruction_rows_consumer, dma_rows_consumer;

#endif
