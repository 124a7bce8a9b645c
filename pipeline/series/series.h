/*
 * Consumers that make series: what is under way or in use at each change. Rows are in order of timestamp; each table
 * has at most two rows per event, one where it begins and one where it ends, unless its maker says otherwise. Times are
 * ns from the profile's zero, which is also the start of every cumulative figure.
 */
#ifndef KYMO_PIPELINE_SERIES_SERIES_H
#define KYMO_PIPELINE_SERIES_SERIES_H

#include "pipeline/consumer.h"

/* DmaUsage, DmaUsageSummary, HbmUsage: from DmaPacket's rows. */
extern const struct consumer series_dma;
/* HostDmaUsage: from HostDmaTransfer's rows. */
extern const struct consumer series_host;
/* PendingDma: from DmaPacketAggregated's rows. */
extern const struct consumer series_pending;
/* FlopsUsage: from Instruction's rows. */
extern const struct consumer series_flops;

/* SbufUsage, PsumUsage, SbufAllocation: from Instruction's rows. */
extern const struct consumer series_buffers;
/* HbmUsageSummaryByType: from the snapshot in the NTFF. */
extern const struct consumer series_memory;

/* Bytes or operations since the profile's zero by the time that has passed, per second; 0 at the zero. */
double series_cumulative(uint64_t total, int64_t at);
/* Smallest of 1, 2 and 5 times a power of ten that is at least `least` and of which at most n cover span. */
int64_t series_width(int64_t span, int64_t n, int64_t least);
/* The profile's last instant. */
int64_t series_span(const struct job *j);
/* Records were lost in a ring of this kind (enum ntff ring kind): sums are lower bounds. */
bool series_lost(const struct job *j, int ring_kind);

#endif
