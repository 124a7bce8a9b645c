/*
 * The part of the first pass that decides what a record's time is worth: times in doubt are listed by ring, so that
 * every later pass reads another one in their place (ring_io.h), and ranges and program counters come from sound times.
 */
#ifndef KYMO_PIPELINE_RINGS_SCAN_TIMES_H
#define KYMO_PIPELINE_RINGS_SCAN_TIMES_H

#include "formats/ntff/record_decode.h"
#include "pipeline/rings/ring_io.h"
#include "pipeline/rings/scan.h"
#include "pipeline/rings/time_edges.h"
#include "pipeline/rings/time_order.h"

#define SCAN_TIMES_STREAMS 32
#define SCAN_TIMES_DOUBTFUL_MAX 65536 /* in one ring; beyond it times stand as they are */
/*
 * Of a chunk in order, the first records of a stream push those out that wait in its time_order, and the last take
 * their place and the one of scan_times_stream's last two. Those between are sound whatever comes.
 */
#define SCAN_TIMES_MARGIN (TIME_ORDER_WINDOW + 2)

/* Records of one engine, or of one type that belongs to none, in one ring. */
struct scan_times_stream {
    struct time_order order;
    uint64_t sound; /* handed on by `order` */
    struct time_order_entry first, second, before_last, last;
    uint32_t place, inner; /* in the chunk: records so far, and how many are further from its ends than the margin */
};

struct scan_times {
    struct scan *scan;
    struct scan_ring *r;
    uint32_t ring;
    /* A sound record's place in time; low: its first word. */
    void (*note)(void *ctx, uint64_t ps, uint32_t low);
    void *ctx;
    uint64_t ps[RING_IO_CHUNK]; /* corrected times of the chunk */
    bool in_order;              /* in every stream of the chunk, and nothing waits */
    struct scan_times_stream streams[SCAN_TIMES_STREAMS];
    struct time_edge *edges;
    size_t count, cap;
    struct time_range certain;
    struct kymo_err *err;
};

/* The caller sets `r` and `ring` before the records of each ring. NULL: out of memory. */
struct scan_times *scan_times_new(struct scan *s, struct kymo_err *err);
struct scan_times *scan_times_free(struct scan_times *t);
int scan_times_end_ring(struct scan_times *t) KYMO_MUST_CHECK;
/* Looks at the next chunk as a whole; the caller goes through it with scan_times_add then. */
void scan_times_chunk(struct scan_times *t, const uint8_t *records, size_t n);
/* After the last ring. timeline: what is known of executions. Sets `r` and `ring` for `note`. */
int scan_times_end(struct scan_times *t, const struct timeline *timeline) KYMO_MUST_CHECK;

void scan_times_sound(void *ctx, const struct time_order_entry *e);
int scan_times_doubtful(void *ctx, const struct time_order_entry *e, const struct time_order_entry *near);

static inline unsigned scan_times_type(uint32_t low)
{
    return low >> RECORD_SHIFT_TYPE & 31;
}

/* An engine's types are four in a row. */
static inline unsigned scan_times_stream_of(uint32_t low)
{
    unsigned type = scan_times_type(low);
    bool engine = type >= RECORD_TYPE_ENGINE_FIRST && type <= RECORD_TYPE_ENGINE_LAST;
    return engine ? RECORD_TYPE_ENGINE_FIRST + (type - RECORD_TYPE_ENGINE_FIRST) / 4 : type;
}

static inline int scan_times_add(struct scan_times *t, const struct time_order_entry *e)
{
    const struct time_order_sink sink = {scan_times_sound, scan_times_doubtful, t};
    struct time_order *o = &t->streams[scan_times_stream_of(e->low)].order;
    if (!t->in_order)
        return time_order_add(o, e, &sink);
    time_order_believe(o, e, &sink);
    return 0;
}

/* Whether the next record, which begins with low, is sound whatever comes: scan_times_add needs not know of it. */
static inline bool scan_times_inner(struct scan_times *t, uint32_t low)
{
    struct scan_times_stream *stream = &t->streams[scan_times_stream_of(low)];
    return stream->place++ - SCAN_TIMES_MARGIN < stream->inner;
}

/* What scan_times_add leads to, for such a record. */
static inline void scan_times_certain(struct scan_times *t, uint64_t ps)
{
    t->certain.first_ps = ps < t->certain.first_ps ? ps : t->certain.first_ps;
    t->certain.last_ps = ps > t->certain.last_ps ? ps : t->certain.last_ps;
}

#endif
