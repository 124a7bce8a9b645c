#include "pipeline/formulas/bands.h"

#include <errno.h>

#include "base/alloc.h"

#define BANDS_MAX (1u << 20)

void bands_init(struct bands *b, int64_t near, size_t max)
{
    *b = (struct bands){.near = near, .max = max};
}

void bands_done(struct bands *b)
{
    kymo_free(b->rows);
    *b = (struct bands){0};
}

static void join(struct band *into, const struct band *one)
{
    into->end = one->end > into->end ? one->end : into->end;
    into->count += one->count;
    into->part += one->part;
    into->whole += one->whole;
}

/* Halves the number at least, so that joining stays cheap however many come. */
static void thin_out(struct bands *b)
{
    while (b->count > b->max / 2 + 1) {
        size_t kept = 1;
        b->near = b->near > 0 ? 2 * b->near : 1;
        for (size_t i = 1; i < b->count; i++)
            if (b->rows[i].start - b->rows[kept - 1].end <= b->near)
                join(&b->rows[kept - 1], &b->rows[i]);
            else
                b->rows[kept++] = b->rows[i];
        b->joined += b->count - kept;
        b->count = kept;
    }
}

int bands_add(struct bands *b, struct band one, struct kymo_err *err)
{
    struct band *last = b->count ? &b->rows[b->count - 1] : NULL;
    if (last && one.start - last->end <= b->near) {
        join(last, &one);
        return 0;
    }
    void *rows = b->rows;
    int r = kymo_grow(&rows, &b->cap, b->count + 1, BANDS_MAX, sizeof *b->rows);
    b->rows = rows;
    if (r < 0)
        return kymo_err_set(err, r, "no memory for the warnings of the timeline");
    b->rows[b->count++] = one;
    if (b->count > b->max)
        thin_out(b);
    return 0;
}

void shares_init(struct shares *s, int64_t width, double limit, size_t max)
{
    *s = (struct shares){.width = width, .limit = limit};
    bands_init(&s->bands, width, max);
}

void shares_done(struct shares *s)
{
    bands_done(&s->bands);
}

static int close_window(struct shares *s, struct kymo_err *err)
{
    bool over = s->any && 100 * s->sum.part > s->limit * s->sum.whole;
    struct band one = s->sum;
    s->sum = (struct band){0};
    s->any = false;
    return over ? bands_add(&s->bands, one, err) : 0;
}

int shares_add(struct shares *s, int64_t start, int64_t end, double part, double whole, struct kymo_err *err)
{
    int64_t window = start / s->width;
    int r = window != s->window ? close_window(s, err) : 0;
    s->window = window;
    s->sum.whole += whole;
    if (part > 0) {
        s->sum.start = s->any ? s->sum.start : start;
        s->sum.end = s->any && s->sum.end > end ? s->sum.end : end;
        s->sum.part += part;
        s->sum.count++;
        s->any = true;
    }
    return r;
}

int shares_finish(struct shares *s, struct kymo_err *err)
{
    return close_window(s, err);
}

int crowds_init(struct crowds *c, size_t need, int64_t width, unsigned percent, size_t max, struct kymo_err *err)
{
    *c = (struct crowds){.need = need, .width = width, .percent = percent};
    bands_init(&c->bands, width, max);
    c->last = KYMO_NEW_ARRAY(struct crowd_mark, need);
    return c->last ? 0 : kymo_err_set(err, -ENOMEM, "no memory for the warnings of the timeline");
}

void crowds_done(struct crowds *c)
{
    bands_done(&c->bands);
    kymo_free(c->last);
    *c = (struct crowds){0};
}

int crowds_add(struct crowds *c, int64_t start, int64_t end, bool marked, struct kymo_err *err)
{
    uint64_t place = c->events++;
    if (!marked)
        return 0;
    c->last[c->marked++ % c->need] = (struct crowd_mark){start, place};
    if (c->marked < c->need)
        return 0;
    const struct crowd_mark *oldest = &c->last[c->marked % c->need];
    if (start - oldest->start > c->width || 100 * (uint64_t)c->need < c->percent * (place - oldest->place + 1))
        return 0;
    /* Those that an earlier band has are not counted twice. */
    uint64_t fresh = c->marked - c->counted;
    uint64_t count = fresh < c->need ? fresh : c->need;
    c->counted = c->marked;
    return bands_add(&c->bands, (struct band){.start = oldest->start, .end = end, .count = count}, err);
}
