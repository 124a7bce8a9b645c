/*
 * Finds records whose time is damaged. Times of one stream, the records of one engine in one ring, do not go back:
 * where they do, the record is in doubt that its neighbours contradict, be it far before the ones around it or far
 * after those that follow. The lesser side is in doubt; where a stream goes back for good (two long runs that
 * contradict each other), nothing is. However long, a step ahead that later records confirm is an idle stretch and
 * never in doubt. Memory is fixed; plain data, not thread-safe.
 */
#ifndef KYMO_PIPELINE_RINGS_TIME_ORDER_H
#define KYMO_PIPELINE_RINGS_TIME_ORDER_H

#include <stdbool.h>
#include <stdint.h>

/* A step back in a stream that its writer cannot have made, ps. */
#define TIME_ORDER_BACK_PS 1000000000ull /* 1 ms */
/* Records on each side that may bear witness; as many in a row are a matter of their own, not damage. */
#define TIME_ORDER_WINDOW 8
/*
 * The first and the last record of a stream have a neighbour on one side only. They are in doubt when nothing else in
 * the capture, no other stream and no execution of the timeline, is as near as this, ps: what belongs to executions,
 * when the timeline has them; without one, when no record was lost; what may well come while nothing runs.
 */
#define TIME_ORDER_EDGE_EXECUTED_PS 10000000000ull   /* 10 ms */
#define TIME_ORDER_EDGE_PS 1000000000000ull          /* 1 s */
#define TIME_ORDER_EDGE_ALONE_PS 3600000000000000ull /* 1 h */

struct time_order_entry {
    uint64_t ps;        /* corrected */
    uint64_t raw;       /* as recorded */
    uint64_t index;     /* in the ring */
    uint32_t low, high; /* the record's first two words */
};

struct time_order_sink {
    /* In order of the stream. */
    void (*sound)(void *ctx, const struct time_order_entry *e);
    /* near: a neighbour, whose time is not in doubt as far as known. */
    int (*doubtful)(void *ctx, const struct time_order_entry *e, const struct time_order_entry *near);
    void *ctx;
};

struct time_order {
    struct time_order_entry recent[TIME_ORDER_WINDOW]; /* believed so far; a queue from `head` on */
    unsigned head, count;
    struct time_order_entry waiting[TIME_ORDER_WINDOW]; /* before the newest of `recent` */
    unsigned waiting_count;
};

static inline bool time_order_before(uint64_t ps, uint64_t than)
{
    return than > ps && than - ps > TIME_ORDER_BACK_PS;
}

static inline struct time_order_entry *time_order_at(struct time_order *o, unsigned i)
{
    return &o->recent[(o->head + i) % TIME_ORDER_WINDOW];
}

static inline void time_order_believe(struct time_order *o, const struct time_order_entry *e,
                                      const struct time_order_sink *sink)
{
    if (o->count == TIME_ORDER_WINDOW) {
        sink->sound(sink->ctx, time_order_at(o, 0));
        o->head = (o->head + 1) % TIME_ORDER_WINDOW;
        o->count--;
    }
    *time_order_at(o, o->count++) = *e;
}

/* A record while some wait, or one that goes back. */
int time_order_contest(struct time_order *o, const struct time_order_entry *e, const struct time_order_sink *sink);

static inline int time_order_add(struct time_order *o, const struct time_order_entry *e,
                                 const struct time_order_sink *sink)
{
    if (o->waiting_count || (o->count && time_order_before(e->ps, time_order_at(o, o->count - 1)->ps)))
        return time_order_contest(o, e, sink);
    time_order_believe(o, e, sink);
    return 0;
}

/* The stream is at its end: hands on the rest. */
int time_order_finish(struct time_order *o, const struct time_order_sink *sink);

#endif
