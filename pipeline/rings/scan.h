/*
 * The first pass over every ring: counts by kind, the least and greatest time, loss marks, which program counters
 * occur, and for DMA rings how many packets were in flight where each stretch of records begins. Everything later is
 * decided from it.
 */
#ifndef KYMO_PIPELINE_RINGS_SCAN_H
#define KYMO_PIPELINE_RINGS_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/ntff/record.h"
#include "pipeline/input.h"
#include "pipeline/rings/ring_io.h"
#include "pipeline/rings/timebase.h"
#include "pipeline/rings/timeline.h"

#define SCAN_PCS (1u << RECORD_PC_BITS)
#define SCAN_SEGMENTS_MAX 65536 /* stretches between losses that are told apart in one ring */
#define SCAN_QUEUES 16

/* Packets that were open on each queue before the first record of a stretch. */
struct scan_segment {
    uint32_t open[SCAN_QUEUES];
};

struct scan_ring {
    struct ntff_ring ring;
    struct timebase_ring clocks;
    uint64_t by_kind[RECORD_KIND_MAX];
    uint64_t by_dma_kind[16];
    uint64_t customs;           /* explicit records that are custom notifications */
    uint64_t first_ps, last_ps; /* least and greatest corrected time; first > last: no record */
    uint64_t gaps;              /* loss marks */
    uint64_t gap_first_ps, gap_last_ps;
    struct ring_io_times times; /* of records whose own time is in doubt */
    uint64_t doubtful;          /* records whose time is in doubt */
    uint64_t doubtful_offset;   /* of the first of them, in the file */
    bool hw_mark, sw_mark;
    uint8_t saturated;             /* engines, as bits, of which an instruction's wait counter was at its end */
    struct scan_segment *segments; /* DMA rings */
    size_t segment_count, segment_cap;
};

struct scan {
    struct scan_ring *rings;
    size_t count;
    uint64_t records;
    uint64_t first_ps, last_ps; /* of the profile */
    uint64_t *pcs;              /* bitmaps [node][pcore][engine][SCAN_PCS]; node `nodes`: records that belong to none */
    size_t nodes;
};

/* Called now and then with the records read so far; non-zero stops the pass with -ECANCELED. */
typedef int (*scan_progress)(void *ctx, uint64_t records);

int scan_run(struct scan *s, const struct input *in, const struct timebase *tb, const struct timeline *t,
             scan_progress progress, void *ctx, struct kymo_err *err) KYMO_MUST_CHECK;
void scan_done(struct scan *s);
/* Bitmap of the program counters seen; node may be TIMELINE_NO_NODE. NULL: out of range. */
const uint64_t *scan_pcs(const struct scan *s, uint32_t node, unsigned pcore, enum kymo_engine engine);

/* Whether a ring belongs to a physical core, not to a CC-core or a host-device engine. */
static inline bool scan_of_core(const struct ntff_ring *ring)
{
    return ring->kind <= NTFF__RING_KIND__RING_THROTTLE;
}

static inline bool scan_pc_seen(const uint64_t *map, uint32_t pc)
{
    return map[pc / 64] >> (pc % 64) & 1;
}

/* The first counter seen from pc on; SCAN_PCS: none. */
static inline uint32_t scan_next_pc(const uint64_t *map, uint32_t pc)
{
    while (pc < SCAN_PCS && !(map[pc / 64] >> (pc % 64)))
        pc = (pc | 63) + 1;
    return pc < SCAN_PCS ? pc + (uint32_t)__builtin_ctzll(map[pc / 64] >> (pc % 64)) : SCAN_PCS;
}

#endif
