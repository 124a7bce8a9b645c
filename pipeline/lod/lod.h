/*
 * Level of detail: what begins on each track in each stretch of time, at widths four times one another, so that a
 * timeline of any length is drawn from a few rows per pixel. Events of a kind come in order of start; each belongs to
 * the stretch ("bucket") in which it starts. Rows of a level come out in order of bucket. Counts, sums and extremes of
 * a level are exactly those of the level below it, summed. Not thread-safe; times are ns of the profile.
 */
#ifndef KYMO_PIPELINE_LOD_H
#define KYMO_PIPELINE_LOD_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define LOD_LEVELS_MAX 16
#define LOD_STEP 4       /* a level's bucket against the one below */
#define LOD_DENSITY 4    /* events in a bucket of the finest level, on the densest track, on average */
#define LOD_LEAST 4      /* events per row: a fine level with fewer says little that its events do not */
#define LOD_COARSEST 256 /* the coarsest level has at most this many buckets */

struct lod_plan {
    int64_t width[LOD_LEVELS_MAX]; /* ns; the finest is a power of two */
    unsigned levels;               /* at least 1 */
    unsigned least;                /* a level with fewer events per row is left out, but for the coarsest */
};
/* densest: events on the densest track, as far as known. */
struct lod_plan lod_plan(int64_t duration, uint64_t densest);

struct lod_row {
    int64_t start;       /* of the bucket */
    int64_t first, last; /* first start, greatest end of its events: an event may end in a later bucket */
    int64_t busy;        /* time in which its events run and no earlier event of the track does */
    int64_t longest, longest_id;
    uint64_t count, bytes;
    uint32_t track, label; /* label: of the longest event */
};

struct lod_event {
    int64_t start, begin, end, id; /* begin: where it runs from, after a wait */
    uint64_t bytes;
    uint32_t track, label;
};

struct lod;

/* Spill files lie in dir. */
int lod_open(const char *dir, const struct lod_plan *plan, size_t tracks, struct lod **ret,
             struct kymo_err *err) KYMO_MUST_CHECK;
struct lod *lod_free(struct lod *l);
/* An event that starts before its predecessor counts for the predecessor's bucket. */
int lod_add(struct lod *l, const struct lod_event *e, struct kymo_err *err) KYMO_MUST_CHECK;
typedef int (*lod_sink)(void *ctx, unsigned level, const struct lod_row *row, struct kymo_err *err);
/* Hands out the rows of all levels that the plan keeps, the finest first. Nothing may be added afterwards. */
int lod_finish(struct lod *l, lod_sink sink, void *ctx, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
