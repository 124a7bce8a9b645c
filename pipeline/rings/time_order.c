#include "pipeline/rings/time_order.h"

#include <stddef.h>

/* Newest records that those waiting contradict. */
static unsigned contradicted(struct time_order *o)
{
    unsigned n = 0;
    while (n < o->count && time_order_before(o->waiting[0].ps, time_order_at(o, o->count - 1 - n)->ps))
        n++;
    return n;
}

static int doubt_waiting(struct time_order *o, const struct time_order_sink *sink)
{
    int r = 0;
    for (unsigned i = 0; i < o->waiting_count && r == 0; i++)
        r = sink->doubtful(sink->ctx, &o->waiting[i], time_order_at(o, o->count - 1));
    o->waiting_count = 0;
    return r;
}

static void believe_waiting(struct time_order *o, const struct time_order_sink *sink)
{
    for (unsigned i = 0; i < o->waiting_count; i++)
        time_order_believe(o, &o->waiting[i], sink);
    o->waiting_count = 0;
}

static int doubt_newest(struct time_order *o, unsigned n, const struct time_order_sink *sink)
{
    int r = 0;
    const struct time_order_entry *near = o->count > n ? time_order_at(o, o->count - n - 1) : &o->waiting[0];
    for (unsigned i = o->count - n; i < o->count && r == 0; i++)
        r = sink->doubtful(sink->ctx, time_order_at(o, i), near);
    o->count -= n;
    believe_waiting(o, sink);
    return r;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

static uint64_t to_nearer(uint64_t ps, const struct time_order_entry *before, const struct time_order_entry *after)
{
    uint64_t to_after = distance(ps, after->ps), to_before = before ? distance(ps, before->ps) : UINT64_MAX;
    return to_after < to_before ? to_after : to_before;
}

/* One against one, and both may be right but not together: the one that is further from what is around them is not. */
static bool newest_is_odd(struct time_order *o, const struct time_order_entry *next)
{
    const struct time_order_entry *before = o->count > 1 ? time_order_at(o, o->count - 2) : NULL;
    return to_nearer(time_order_at(o, o->count - 1)->ps, before, next) > to_nearer(o->waiting[0].ps, before, next);
}

/* The next record agrees with the newest that are believed. */
static int go_on(struct time_order *o, const struct time_order_entry *e, const struct time_order_sink *sink)
{
    unsigned n = contradicted(o);
    bool newest = o->waiting_count > n || (o->waiting_count == 1 && n == 1 && newest_is_odd(o, e));
    int r = newest ? doubt_newest(o, n, sink) : doubt_waiting(o, sink);
    if (r == 0)
        time_order_believe(o, e, sink);
    return r;
}

/* A record that goes back even behind the last one waiting. */
static int step_back(struct time_order *o, const struct time_order_entry *e, const struct time_order_sink *sink)
{
    struct time_order_entry *last = &o->waiting[o->waiting_count - 1];
    const struct time_order_entry *near = time_order_at(o, o->count - 1);
    if (o->waiting_count > 1 && time_order_before(e->ps, last[-1].ps))
        return sink->doubtful(sink->ctx, e, last);
    int r = sink->doubtful(sink->ctx, last, o->waiting_count > 1 ? &last[-1] : near);
    *last = *e;
    return r;
}

int time_order_contest(struct time_order *o, const struct time_order_entry *e, const struct time_order_sink *sink)
{
    if (!o->waiting_count) {
        o->waiting[o->waiting_count++] = *e;
        return 0;
    }
    if (!time_order_before(e->ps, time_order_at(o, o->count - 1)->ps))
        return go_on(o, e, sink);
    if (time_order_before(e->ps, o->waiting[o->waiting_count - 1].ps))
        return step_back(o, e, sink);
    unsigned n = contradicted(o);
    o->waiting[o->waiting_count++] = *e;
    if (o->waiting_count > n)
        return doubt_newest(o, n, sink);
    /* As many on both sides as can bear witness. */
    if (o->waiting_count == TIME_ORDER_WINDOW)
        believe_waiting(o, sink);
    return 0;
}

int time_order_finish(struct time_order *o, const struct time_order_sink *sink)
{
    int r = 0;
    if (o->waiting_count) {
        unsigned n = contradicted(o);
        if (o->waiting_count < n)
            r = doubt_waiting(o, sink);
        else if (o->count > n)
            r = doubt_newest(o, n, sink);
        else
            believe_waiting(o, sink);
    }
    for (unsigned i = 0; i < o->count && r == 0; i++)
        sink->sound(sink->ctx, time_order_at(o, i));
    o->count = 0;
    return r;
}
