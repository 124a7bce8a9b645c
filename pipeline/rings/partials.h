/*
 * The table PartialEvent: events of which one side is known. Collected from all passes, sorted by time through unlinked
 * runs on disk, written at the end. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_RINGS_PARTIALS_H
#define KYMO_PIPELINE_RINGS_PARTIALS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "formats/parquet/parquet_writer.h"
#include "pipeline/rings/pair.h"
#include "pipeline/rings/scan.h"

enum partial_kind {
    PARTIAL_INSTRUCTION,
    PARTIAL_DMA_PACKET,
    PARTIAL_HOST_DMA,
    PARTIAL_COLLECTIVE,
    PARTIAL_CC_INSTRUCTION
};

struct partial {
    int64_t ts, id, pc;          /* pc -1: the record has none */
    uint32_t ring;               /* in scan.rings */
    uint16_t engine;             /* enum kymo_engine, DMA engine number or CC-core */
    uint8_t pcore, kind, reason; /* enum partial_kind, enum pair_reason */
    bool start_side;
};

struct partials;

int partials_open(const char *dir, struct partials **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct partials *partials_free(struct partials *p);
int partials_add(struct partials *p, struct partial one, struct kymo_err *err) KYMO_MUST_CHECK;
uint64_t partials_count(const struct partials *p);
int partials_write(struct partials *p, const struct scan *scan, const char *dir, const struct parquet_options *opt,
                   struct kymo_err *err) KYMO_MUST_CHECK;

#endif
