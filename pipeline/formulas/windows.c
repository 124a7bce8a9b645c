#include "pipeline/formulas/windows.h"

enum { TAG_LANE = 1, TAG_MARKED = 2, TAG_END = 4 };

int windows_init(struct windows *w, const char *dir, int64_t width, int64_t span, windows_sink sink, void *ctx,
                 struct kymo_err *err)
{
    *w = (struct windows){.width = width, .span = span, .sink = sink, .ctx = ctx};
    w->next = width < span ? width : span;
    return time_queue_open(dir, 0, &w->changes, err);
}

void windows_done(struct windows *w)
{
    w->changes = time_queue_free(w->changes);
}

static void advance_flow(struct windows_flow *f, uint64_t passed)
{
    f->done += f->rate * passed;
}

static void advance(struct windows *w, int64_t to)
{
    for (unsigned i = 0; i < WINDOWS_LANES; i++) {
        advance_flow(&w->lanes[i].all, (uint64_t)(to - w->now));
        advance_flow(&w->lanes[i].marked, (uint64_t)(to - w->now));
    }
    w->now = to;
}

static int end_window(struct windows *w, struct kymo_err *err)
{
    advance(w, w->next);
    int r = w->sink(w->ctx, (w->next - 1) / w->width * w->width, w->next, w->lanes, err);
    for (unsigned i = 0; i < WINDOWS_LANES; i++) {
        w->lanes[i].all.before = w->lanes[i].all.done;
        w->lanes[i].marked.before = w->lanes[i].marked.done;
    }
    if (w->next == w->span)
        w->next = INT64_MAX;
    else
        w->next = w->span - w->next > w->width ? w->next + w->width : w->span;
    return r;
}

/* What happens at the end of a window is in it, so that the last one has everything. */
static int go_to(struct windows *w, int64_t at, struct kymo_err *err)
{
    int r = 0;
    while (w->next < at && r == 0)
        r = end_window(w, err);
    if (r == 0 && at > w->now)
        advance(w, at);
    return r;
}

static windows_work rate_of(const struct time_item *item)
{
    return item->b ? ((windows_work)item->a << WINDOWS_PARTS) / item->b : 0;
}

static void change(struct windows_flow *f, const struct time_item *item, windows_work rate)
{
    if (item->tag & TAG_END) {
        f->rate -= rate;
        /* What the rounding of the rate left out. */
        f->done += ((windows_work)item->a << WINDOWS_PARTS) - rate * item->b;
    } else {
        f->rate += rate;
    }
}

static int take(struct windows *w, struct kymo_err *err)
{
    struct time_item item = *time_queue_first(w->changes);
    struct windows_lane *lane = &w->lanes[item.tag & TAG_LANE];
    windows_work rate = rate_of(&item);
    int r = go_to(w, item.at, err);
    if (r < 0)
        return r;
    change(&lane->all, &item, rate);
    if (item.tag & TAG_MARKED)
        change(&lane->marked, &item, rate);
    r = time_queue_pop(w->changes, err);
    if (r < 0 || item.tag & TAG_END)
        return r;
    /* From where the span was let in, should it have come late: its work is not cut. */
    item.at = w->now + (int64_t)item.b;
    item.tag |= TAG_END;
    return time_queue_push(w->changes, &item, err);
}

int windows_add(struct windows *w, unsigned lane, bool marked, int64_t begin, int64_t end, uint64_t work,
                struct kymo_err *err)
{
    struct time_item item = {
        .at = begin, .a = work, .b = (uint64_t)(end - begin), .tag = lane | (marked ? (unsigned)TAG_MARKED : 0)};
    return time_queue_push(w->changes, &item, err);
}

int windows_settle(struct windows *w, int64_t until, struct kymo_err *err)
{
    const struct time_item *first;
    int r = 0;
    while (r == 0 && (first = time_queue_first(w->changes)) && first->at < until)
        r = take(w, err);
    return r;
}

int windows_finish(struct windows *w, struct kymo_err *err)
{
    int r = windows_settle(w, INT64_MAX, err);
    while (r == 0 && w->next < INT64_MAX)
        r = end_window(w, err);
    return r;
}
