/*
 * Events that took much longer than the median of their group. Durations of a group are kept up to a number, beyond
 * which every second, fourth, ... counts for the median; events are spilled, so memory does not grow with them. Groups
 * beyond a maximum are not judged. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_OUTLIERS_H
#define KYMO_PIPELINE_OUTLIERS_H

#include <stdint.h>

#include "base/err.h"

#define OUTLIERS_GROUPS_MAX 1024
#define OUTLIERS_KEPT 4096 /* durations of a group */
#define OUTLIERS_LEAST 4   /* events that a group must have */

struct outliers;

struct outliers_event {
    uint64_t group;
    int64_t start, end;
};
/* median: of its group. */
typedef int (*outliers_sink)(void *ctx, const struct outliers_event *e, int64_t median, struct kymo_err *err);

int outliers_open(const char *dir, struct outliers **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct outliers *outliers_free(struct outliers *o);
int outliers_add(struct outliers *o, const struct outliers_event *e, struct kymo_err *err) KYMO_MUST_CHECK;
/* Hands out, in the order of adding, events longer than their group's median by more than percent of it. Once. */
int outliers_each(struct outliers *o, uint64_t percent, outliers_sink sink, void *ctx,
                  struct kymo_err *err) KYMO_MUST_CHECK;

#endif
