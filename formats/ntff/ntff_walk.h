/* Visits every image and every ring piece of a profile in the order in which FORMAT.md lays their bytes out. */
#ifndef KYMO_FORMATS_NTFF_NTFF_WALK_H
#define KYMO_FORMATS_NTFF_NTFF_WALK_H

#include <stddef.h>

#include "base/err.h"
#include "proto/ntff.pb-c.h"

#define NTFF_PLACE_SESSION ((size_t)-1)
#define NTFF_PLACE_TEXT_MAX 160

/* Where an entry stands in ntff_info; node is NTFF_PLACE_SESSION for session_notifications. */
struct ntff_place {
    size_t node, graph, item;
};

/* ntff_info.neff_nodes[0].nd_node.graphs[1].traces[2] */
void ntff_place_image(const struct ntff_place *p, char out[NTFF_PLACE_TEXT_MAX]);
void ntff_place_ring(const struct ntff_place *p, char out[NTFF_PLACE_TEXT_MAX]);

/* A visit that returns a negative value ends the walk with it. Either may be NULL. */
struct ntff_visitor {
    int (*image)(void *ctx, Ntff__EngineInstructionInfo *info, const struct ntff_place *place);
    int (*ring)(void *ctx, Ntff__TraceInfo *info, const struct ntff_place *place);
    int (*graph)(void *ctx, const Ntff__SubgraphInfo *graph, const struct ntff_place *place);
};
int ntff_walk(const Ntff__NtffInfo *info, const struct ntff_visitor *v, void *ctx) KYMO_MUST_CHECK;

#endif
