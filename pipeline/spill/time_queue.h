/*
 * Items in order of a time, whatever order they are given in: a line for those that come near their order, and for the
 * others a heap that goes to sorted runs in unlinked files when it is full. Memory is bounded by line, heap and a few
 * kilobytes per run; each item is written once per level of runs, so work stays near linear. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_TIME_QUEUE_H
#define KYMO_PIPELINE_TIME_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TIME_QUEUE_HELD 65536u /* items in memory by default */
#define TIME_QUEUE_HELD_MIN 1024u

/* at, then order, decide; the rest is the caller's. */
struct time_item {
    int64_t at;
    uint64_t order;
    uint64_t a, b;
    uint32_t tag;
    uint32_t run; /* set by the queue */
};

struct time_queue;

/* dir: where the runs lie. held: items in memory, 0 for the default. */
int time_queue_open(const char *dir, size_t held, struct time_queue **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct time_queue *time_queue_free(struct time_queue *q);
int time_queue_push(struct time_queue *q, const struct time_item *item, struct kymo_err *err) KYMO_MUST_CHECK;
/* The first item, valid until the next call; NULL: none. */
const struct time_item *time_queue_first(const struct time_queue *q);
/* Takes the first item out; there must be one. */
int time_queue_pop(struct time_queue *q, struct kymo_err *err) KYMO_MUST_CHECK;
size_t time_queue_runs(const struct time_queue *q); /* that are open */

#endif
