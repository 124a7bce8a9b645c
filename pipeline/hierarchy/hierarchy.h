/*
 * The compiler's layers with what ran below each of their records: BirInstruction, PenguinInstruction, HloInstruction,
 * FrameworkInstruction and FrameworkNode. Every executed instruction adds to its BIR record; the layers above are put
 * together from those below them when all events are through. Memory grows with the program: one record, and a list of
 * busy spans of a greatest length (intervals.h), per BIR record that ran.
 *
 * A record is busy while one of its instructions runs, the semaphore wait before it left out, and while a transfer that
 * one of them started is under way, where all of it was seen. The bytes of a transfer count for the record of the
 * instruction that started it, in the span in which the transfer begins; start and end are the least start and the
 * greatest end of instructions and transfers.
 */
#ifndef KYMO_PIPELINE_HIERARCHY_HIERARCHY_H
#define KYMO_PIPELINE_HIERARCHY_HIERARCHY_H

#include "pipeline/consumer.h"

extern const struct consumer hierarchy_consumer;

#endif
