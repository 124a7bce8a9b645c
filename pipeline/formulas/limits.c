#include "pipeline/formulas/limits.h"

void limits_init(struct limits *l, int (*next)(void *, struct limits_notice *, struct kymo_err *), void *ctx)
{
    *l = (struct limits){.next = next, .ctx = ctx};
}

static int fetch(struct limits *l, struct kymo_err *err)
{
    int r = l->has_pending ? 0 : l->next(l->ctx, &l->pending, err);
    l->has_pending |= r > 0;
    return r < 0 ? r : 0;
}

static void admit(struct limits *l, struct limits_notice n)
{
    size_t at = l->live_count;
    if (at == LIMITS_LIVE_MAX) {
        l->left_out++;
        at = 0;
        for (size_t i = 1; i < LIMITS_LIVE_MAX; i++)
            if (l->live[i].limit > l->live[at].limit)
                at = i;
        if (l->live[at].limit <= n.limit)
            return;
    } else {
        l->live_count++;
    }
    l->live[at] = n;
}

static void drop_ended(struct limits *l)
{
    for (size_t i = 0; i < l->live_count;)
        if (l->live[i].end <= l->at)
            l->live[i] = l->live[--l->live_count];
        else
            i++;
}

/* From l->at to the next end or begin. */
static void make_segment(struct limits *l)
{
    struct limits_notice s = {.start = l->at, .end = l->live[0].end, .limit = l->live[0].limit};
    for (size_t i = 1; i < l->live_count; i++) {
        s.end = l->live[i].end < s.end ? l->live[i].end : s.end;
        s.limit = l->live[i].limit < s.limit ? l->live[i].limit : s.limit;
    }
    if (l->has_pending && l->pending.start < s.end)
        s.end = l->pending.start;
    l->at = s.end;
    l->throttled += s.end - s.start;
    l->lost += (1 - s.limit) * (double)(s.end - s.start);
    l->segment = s;
    l->has_segment = true;
}

static int next_segment(struct limits *l, struct kymo_err *err)
{
    l->has_segment = false;
    for (;;) {
        int r = fetch(l, err);
        if (r < 0 || (!l->has_pending && !l->live_count))
            return r;
        if (!l->live_count && (!l->started || l->pending.start > l->at))
            l->at = l->pending.start;
        l->started = true;
        while (r == 0 && l->has_pending && l->pending.start <= l->at) {
            if (l->pending.end > l->at)
                admit(l, l->pending);
            l->has_pending = false;
            r = fetch(l, err);
        }
        if (r < 0)
            return r;
        drop_ended(l);
        if (l->live_count) {
            make_segment(l);
            return 0;
        }
    }
}

int limits_busy(struct limits *l, int64_t start, int64_t end, struct kymo_err *err)
{
    int r = l->has_segment ? 0 : next_segment(l, err);
    while (r == 0 && l->has_segment && l->segment.end <= start)
        r = next_segment(l, err);
    while (r == 0 && l->has_segment && l->segment.start < end) {
        const struct limits_notice *s = &l->segment;
        int64_t from = s->start > start ? s->start : start, to = s->end < end ? s->end : end;
        l->busy_lost += (1 - s->limit) * (double)(to - from);
        if (s->end > end)
            break;
        r = next_segment(l, err);
    }
    return r;
}

int limits_finish(struct limits *l, struct kymo_err *err)
{
    int r;
    do
        r = next_segment(l, err);
    while (r == 0 && l->has_segment);
    return r;
}
