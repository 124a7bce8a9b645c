#include "pipeline/formulas/spans.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

void spans_init(struct spans *s, size_t max, void (*out)(void *ctx, struct span s), void *ctx)
{
    *s = (struct spans){.max = max, .out = out, .ctx = ctx};
}

void spans_done(struct spans *s)
{
    kymo_free(s->open);
    *s = (struct spans){.max = s->max};
}

/* First open span whose end is not before t. Most spans come last or touch the last, so that is tried first. */
static size_t first_reaching(const struct spans *s, int64_t t)
{
    size_t lo = s->first, hi = s->first + s->count;
    if (s->count && s->open[hi - 1].end < t)
        return hi;
    if (s->count && s->open[hi - 1].start <= t)
        return hi - 1;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (s->open[mid].end < t)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static int make_room(struct spans *s)
{
    if (s->first > 0) {
        memmove(s->open, s->open + s->first, s->count * sizeof *s->open);
        s->first = 0;
    }
    void *p = s->open;
    int r = kymo_grow(&p, &s->cap, s->count + 1, s->max, sizeof *s->open);
    s->open = p;
    return r;
}

static int insert(struct spans *s, size_t at, struct span one)
{
    if (s->first + s->count == s->cap) {
        size_t offset = at - s->first;
        int r = make_room(s);
        if (r < 0)
            return r;
        at = s->first + offset;
    }
    memmove(s->open + at + 1, s->open + at, (s->first + s->count - at) * sizeof *s->open);
    s->open[at] = one;
    s->count++;
    return 0;
}

int spans_add(struct spans *s, int64_t start, int64_t end)
{
    if (end <= start)
        return 0;
    size_t at = first_reaching(s, start);
    size_t stop = s->first + s->count;
    if (at == stop || s->open[at].start > end)
        return insert(s, at, (struct span){start, end});
    struct span *into = &s->open[at];
    if (start < into->start)
        into->start = start;
    if (end > into->end)
        into->end = end;
    size_t next = at + 1;
    while (next < stop && s->open[next].start <= into->end) {
        if (s->open[next].end > into->end)
            into->end = s->open[next].end;
        next++;
    }
    if (next == at + 1)
        return 0;
    memmove(s->open + at + 1, s->open + next, (stop - next) * sizeof *s->open);
    s->count -= next - at - 1;
    return 0;
}

void spans_advance(struct spans *s, int64_t watermark)
{
    /* A span that ends at the watermark may still grow: a later one may touch it. */
    while (s->count && s->open[s->first].end < watermark) {
        struct span one = s->open[s->first++];
        s->count--;
        s->total += one.end - one.start;
        if (s->out)
            s->out(s->ctx, one);
    }
    if (!s->count)
        s->first = 0;
}

int64_t spans_finish(struct spans *s)
{
    spans_advance(s, INT64_MAX);
    return s->total;
}
