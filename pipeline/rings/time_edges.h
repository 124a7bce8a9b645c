/*
 * The first and the last record of each stream against the whole capture (time_order.h has why): from what is certain
 * outwards, an edge is sound when it is in reach of what is known to be sound or of another edge.
 */
#ifndef KYMO_PIPELINE_RINGS_TIME_EDGES_H
#define KYMO_PIPELINE_RINGS_TIME_EDGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/rings/time_order.h"

struct time_edge {
    struct time_order_entry e;
    uint64_t near_ps, near_raw; /* its neighbour in the stream; none: its own */
    uint64_t reach_ps;          /* TIME_ORDER_EDGE_... */
    uint64_t raw;               /* judged: the time that it gets, e.raw when it is not in doubt */
    uint32_t ring;
};

/* What is certain; first > last: nothing. */
struct time_range {
    uint64_t first_ps, last_ps;
};

/* Sorts the edges by time and judges them. */
void time_edges_judge(struct time_edge *edges, size_t count, struct time_range certain);

#endif
