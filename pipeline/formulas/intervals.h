/*
 * Busy spans with what was done in each: disjoint, sorted, of a stated greatest number. Spans that touch are one. When
 * more than the greatest number would be there, neighbours are joined, those with the smallest gaps first, until half
 * of it are left, and the list is marked. Times are ns. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_INTERVALS_H
#define KYMO_PIPELINE_INTERVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define INTERVALS_MAX 256              /* of one list */
#define INTERVALS_MIN 4                /* of one list, however many lists there are */
#define INTERVALS_IN_ALL (1024 * 1024) /* of all lists of one layer, as far as INTERVALS_MIN leaves that */

struct interval {
    int64_t start, end;
    uint64_t elements, transposed; /* of matmuls, and of those that transpose */
    uint64_t hbm;                  /* bytes read from and written to HBM */
};

struct intervals { /* zeroed: empty */
    struct interval *list;
    size_t count, cap;
    bool coarse; /* some neighbours were joined over a gap */
};

/* Greatest length of each of so many lists. */
size_t intervals_limit(size_t lists);
void intervals_done(struct intervals *v);
/* Spans may come in any order; one that comes late costs a walk from the end. 0 or -ENOMEM. */
int intervals_add(struct intervals *v, struct interval x, size_t max) KYMO_MUST_CHECK;
/* v becomes the union of the n spans of all, which it puts in order. 0 or -ENOMEM; v was empty. */
int intervals_union(struct intervals *v, struct interval *all, size_t n, size_t max) KYMO_MUST_CHECK;
int64_t intervals_busy(const struct intervals *v); /* sum of the lengths */

/* [[1, 10], [20, 50]] at the end of b. */
int intervals_text(const struct intervals *v, struct kymo_buf *b) KYMO_MUST_CHECK;

#endif
