/*
 * On-chip memory cut into cells: bytes that the same operands touch, and so are always used alike. Since operands are
 * static, so are the cells, and an access costs as many steps as it has cells instead of bytes. SBUF and PSUM are
 * followed in partitions 0, 32, 64 and 96 (lanes 0 to 3 and 4 to 7), which is what the vendor's tables show. One map is
 * one physical core's. Immutable once cut.
 */
#ifndef KYMO_PIPELINE_BUFFER_MAP_H
#define KYMO_PIPELINE_BUFFER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define BUFFER_MAP_LANES 8
#define BUFFER_MAP_SBUF 4 /* lanes before this one are SBUF's */
#define BUFFER_MAP_PARTITION_STEP 32
#define BUFFER_MAP_RANGES_MAX (1u << 22)
#define BUFFER_MAP_BANKS 8

struct buffer_range {
    uint32_t first, end; /* bytes of a partition */
    uint8_t lanes;       /* bit k: lane k */
};

struct buffer_segment { /* a piece of a cell in one lane */
    uint64_t mark[2];   /* which ranges cover it */
    uint32_t first, end, cell;
    uint8_t lane;
};

struct buffer_map {
    struct buffer_range *ranges; /* all different, in order */
    uint32_t *range_at;          /* cells of range i: list[range_at[i]] to list[range_at[i + 1]] */
    uint32_t *list;
    size_t range_count, range_cap;
    struct buffer_segment *segments; /* by cell */
    uint32_t *segment_at;            /* by cell, one more at the end */
    size_t segment_count, cell_count;
    uint32_t granule; /* 1, or the bytes that ranges were widened to so that there are not too many cells */
};

/* Ranges are gathered first. An empty range, or one without lanes, is ignored. */
int buffer_map_add(struct buffer_map *m, struct buffer_range range, struct kymo_err *err) KYMO_MUST_CHECK;
/* list_max: cells of all ranges together; ranges are widened until that suffices. */
int buffer_map_cut(struct buffer_map *m, size_t list_max, struct kymo_err *err) KYMO_MUST_CHECK;
/* Number of a range that was added; UINT32_MAX when it was ignored. */
uint32_t buffer_map_find(const struct buffer_map *m, struct buffer_range range);
void buffer_map_done(struct buffer_map *m);

/* Lanes of partitions first to first + count - 1. */
uint8_t buffer_map_lanes(bool psum, uint32_t first, uint32_t count);

#endif
