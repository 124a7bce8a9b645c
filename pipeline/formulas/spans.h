/*
 * Union of time spans, streaming: spans come in any order at or after a watermark; merged spans go out in order once
 * the watermark has passed them. Memory is what lies beyond the watermark, up to a maximum. Touching spans merge.
 */
#ifndef KYMO_PIPELINE_SPANS_H
#define KYMO_PIPELINE_SPANS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct span {
    int64_t start, end;
};

struct spans {
    struct span *open; /* disjoint, sorted; [first, first + count) in use */
    size_t first, count, cap, max;
    int64_t total;                         /* sum of what went out */
    void (*out)(void *ctx, struct span s); /* may be NULL */
    void *ctx;
};

void spans_init(struct spans *s, size_t max, void (*out)(void *ctx, struct span s), void *ctx);
void spans_done(struct spans *s);
/* An empty span (end <= start) counts for nothing. -ENOMEM, or -ENOBUFS when more than max disjoint spans are open. */
int spans_add(struct spans *s, int64_t start, int64_t end) KYMO_MUST_CHECK;
/* No later span will start before watermark. */
void spans_advance(struct spans *s, int64_t watermark);
/* Everything goes out. Returns the total. */
int64_t spans_finish(struct spans *s);

#endif
