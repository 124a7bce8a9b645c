/*
 * The pass over throttle and error notices of all rings: tables Throttle and Error, each in order of time. What the
 * records mean is formats/ntff/notice.h's. Rings without such a record, which scan has counted, are not read again.
 */
#ifndef KYMO_PIPELINE_NOTICES_H
#define KYMO_PIPELINE_NOTICES_H

#include <stdint.h>

#include "base/err.h"

struct consumer;
struct job;

/* One row of Throttle. */
struct notices_throttle {
    uint64_t start;   /* ns of the profile */
    int64_t duration; /* ns */
    uint32_t ring;    /* in scan.rings */
    uint8_t pcore, class_id, k, n;
};

/* Writes both tables and fills job.throttles, sorted by start, when there is a row of Throttle. */
int notices_run(struct job *j, struct kymo_err *err) KYMO_MUST_CHECK;

/* Writes ThrottleSummary from them and from the tensor engines' busy time (limits.h). */
extern const struct consumer throttle_summary;

#endif
