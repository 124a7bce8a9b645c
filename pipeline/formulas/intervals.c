#include "pipeline/formulas/intervals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

size_t intervals_limit(size_t lists)
{
    size_t each = lists ? INTERVALS_IN_ALL / lists : INTERVALS_MAX;
    return each > INTERVALS_MAX ? INTERVALS_MAX : each < INTERVALS_MIN ? INTERVALS_MIN : each;
}

void intervals_done(struct intervals *v)
{
    kymo_free(v->list);
    *v = (struct intervals){0};
}

static void join(struct interval *into, const struct interval *x)
{
    if (x->start < into->start)
        into->start = x->start;
    if (x->end > into->end)
        into->end = x->end;
    into->elements += x->elements;
    into->transposed += x->transposed;
    into->hbm += x->hbm;
}

static int by_length(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* The k-th smallest of v, whose order is lost: what a full list needs again and again without the rest being sorted. */
static int64_t pick(int64_t *v, size_t n, size_t k)
{
    size_t low = 0, high = n - 1;
    while (low < high) {
        int64_t middle = v[low + (high - low) / 2];
        size_t i = low, j = high;
        for (;; i++, j--) {
            while (v[i] < middle)
                i++;
            while (v[j] > middle)
                j--;
            if (i >= j)
                break;
            int64_t swap = v[i];
            v[i] = v[j];
            v[j] = swap;
        }
        if (k <= j)
            high = j;
        else
            low = j + 1;
    }
    return v[k];
}

static int64_t kth(int64_t *v, size_t n, size_t k)
{
    if (n <= INTERVALS_MAX)
        return pick(v, n, k);
    qsort(v, n, sizeof *v, by_length);
    return v[k];
}

/* Joins the neighbours with the smallest gaps until `left` spans are there; gaps is room for as many as there are. */
static size_t coarsen(struct interval *list, size_t n, size_t left, int64_t *gaps)
{
    for (size_t i = 0; i + 1 < n; i++)
        gaps[i] = list[i + 1].start - list[i].end;
    /* Gaps of exactly the threshold are joined only as far as needed, from the front. */
    size_t joins = n - left, below = 0;
    int64_t threshold = kth(gaps, n - 1, joins - 1);
    for (size_t i = 0; i + 1 < n; i++)
        below += gaps[i] < threshold;
    size_t ties = joins - below, kept = 0;
    for (size_t i = 1; i < n; i++) {
        int64_t gap = list[i].start - list[kept].end;
        if (gap < threshold || (gap == threshold && ties)) {
            ties -= gap == threshold;
            join(&list[kept], &list[i]);
        } else {
            list[++kept] = list[i];
        }
    }
    return kept + 1;
}

static int make_room(struct intervals *v, size_t max)
{
    if (v->count < max) {
        void *p = v->list;
        int r = kymo_grow(&p, &v->cap, v->count + 1, max, sizeof *v->list);
        v->list = p;
        return r;
    }
    int64_t gaps[INTERVALS_MAX] = {0};
    v->count = coarsen(v->list, v->count, max / 2, gaps);
    v->coarse = true;
    return 0;
}

/* The span that x touches or comes right behind, plus 1; 0: it comes first. */
static size_t place(const struct intervals *v, const struct interval *x)
{
    size_t at = v->count;
    while (at > 0 && v->list[at - 1].start > x->start)
        at--;
    return at;
}

int intervals_add(struct intervals *v, struct interval x, size_t max)
{
    size_t at = place(v, &x);
    bool before = at > 0 && v->list[at - 1].end >= x.start, after = at < v->count && v->list[at].start <= x.end;
    if (!before && !after) {
        bool full = v->count >= max;
        int r = make_room(v, max);
        if (r < 0)
            return r;
        /* Spans were joined: another place, or one that covers x. */
        if (full)
            return intervals_add(v, x, max);
        memmove(v->list + at + 1, v->list + at, (v->count - at) * sizeof *v->list);
        v->list[at] = x;
        v->count++;
        return 0;
    }
    size_t into = before ? at - 1 : at, next = into + 1;
    join(&v->list[into], &x);
    while (next < v->count && v->list[next].start <= v->list[into].end)
        join(&v->list[into], &v->list[next++]);
    memmove(v->list + into + 1, v->list + next, (v->count - next) * sizeof *v->list);
    v->count -= next - into - 1;
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

int intervals_union(struct intervals *v, struct interval *all, size_t n, size_t max)
{
    if (n == 0)
        return 0;
    qsort(all, n, sizeof *all, by_start);
    size_t kept = 0;
    for (size_t i = 1; i < n; i++)
        if (all[i].start <= all[kept].end)
            join(&all[kept], &all[i]);
        else
            all[++kept] = all[i];
    kept++;
    if (kept > max) {
        int64_t *gaps KYMO_FREE = KYMO_NEW_ARRAY(int64_t, kept);
        if (!gaps)
            return -ENOMEM;
        kept = coarsen(all, kept, max, gaps);
        v->coarse = true;
    }
    v->list = KYMO_NEW_ARRAY(struct interval, kept);
    if (!v->list)
        return -ENOMEM;
    memcpy(v->list, all, kept * sizeof *all);
    v->count = v->cap = kept;
    return 0;
}

int64_t intervals_busy(const struct intervals *v)
{
    int64_t sum = 0;
    for (size_t i = 0; i < v->count; i++)
        sum += v->list[i].end - v->list[i].start;
    return sum;
}

int intervals_text(const struct intervals *v, struct kymo_buf *b)
{
    int r = kymo_buf_append(b, "[", 1);
    for (size_t i = 0; i < v->count && r == 0; i++)
        r = kymo_buf_printf(b, "%s[%lld, %lld]", i ? ", " : "", (long long)v->list[i].start, (long long)v->list[i].end);
    return r == 0 ? kymo_buf_append(b, "]", 1) : r;
}
