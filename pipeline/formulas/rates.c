#include "pipeline/formulas/rates.h"

#include <string.h>

#include "pipeline/formulas/formulas.h"

#define PARTS 65536.0 /* of one per second */
#define TAG_TIMES 8   /* shift */

int rates_init(struct rates *r, const char *dir, rates_sink sink, void *ctx, struct kymo_err *err)
{
    *r = (struct rates){.sink = sink, .ctx = ctx, .now = INT64_MIN};
    return time_queue_open(dir, 0, &r->ends, err);
}

void rates_done(struct rates *r)
{
    r->ends = time_queue_free(r->ends);
}

static unsigned __int128 parts_of(double rate)
{
    double parts = rate * PARTS + 0.5;
    return parts < 0x1p63 ? (uint64_t)parts : (unsigned __int128)parts;
}

/* Most sums fit the machine's own numbers, which become doubles without a call. */
static double real_of(unsigned __int128 parts)
{
    return (parts >> 63 ? (double)parts : (double)(int64_t)parts) / PARTS;
}

/* Everything of the instant `now` is known. */
static int leave_instant(struct rates *r, int64_t next, struct kymo_err *err)
{
    int rc = 0;
    for (unsigned lane = 0; lane < RATES_LANES && rc == 0; lane++) {
        struct rates_sum *a = &r->first[lane], *b = &r->second[lane];
        if (!a->touched)
            continue;
        struct rates_point p = {.at = r->now,
                                .lane = lane,
                                .rate = real_of(a->rate),
                                .total = a->total,
                                .has_second = b->touched,
                                .second_rate = real_of(b->rate),
                                .second_total = b->total};
        a->touched = b->touched = false;
        rc = r->sink(r->ctx, &p, err);
    }
    r->now = next;
    return rc;
}

static int go_to(struct rates *r, int64_t at, struct kymo_err *err)
{
    return at > r->now ? leave_instant(r, at, err) : 0;
}

static void change(struct rates_sum *s, unsigned __int128 rate, bool ends, uint64_t amount)
{
    s->touched = true;
    s->rate = ends ? s->rate - rate : s->rate + rate;
    s->total += amount;
}

/* Ends of spans up to and with an instant. */
static int end_until(struct rates *r, int64_t until, struct kymo_err *err)
{
    const struct time_item *first;
    while ((first = time_queue_first(r->ends)) && first->at <= until) {
        int rc = go_to(r, first->at, err);
        if (rc < 0)
            return rc;
        unsigned lane = first->tag % RATES_LANES, times = first->tag >> TAG_TIMES;
        double rate;
        memcpy(&rate, &first->b, sizeof rate);
        unsigned __int128 parts = parts_of(rate);
        change(&r->first[lane], parts, true, first->a);
        if (times)
            change(&r->second[lane], parts * times, true, first->a * times);
        rc = time_queue_pop(r->ends, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int rates_add(struct rates *r, unsigned lane, int64_t start, int64_t end, uint64_t amount, unsigned times,
              struct kymo_err *err)
{
    double rate = formulas_bytes_per_second(amount, end - start);
    if (start < r->now) {
        r->late++;
        start = r->now;
        end = end < start ? start : end;
    }
    int rc = end_until(r, start, err);
    if (rc == 0)
        rc = go_to(r, start, err);
    if (rc < 0)
        return rc;
    bool lasts = end > start;
    unsigned __int128 parts = lasts ? parts_of(rate) : 0;
    change(&r->first[lane], parts, false, lasts ? 0 : amount);
    if (times)
        change(&r->second[lane], parts * times, false, lasts ? 0 : amount * times);
    if (!lasts)
        return 0;
    struct time_item item = {.at = end, .a = amount, .tag = lane | times << TAG_TIMES};
    memcpy(&item.b, &rate, sizeof rate);
    return time_queue_push(r->ends, &item, err);
}

int rates_finish(struct rates *r, struct kymo_err *err)
{
    int rc = end_until(r, INT64_MAX, err);
    return rc < 0 ? rc : leave_instant(r, INT64_MAX, err);
}
