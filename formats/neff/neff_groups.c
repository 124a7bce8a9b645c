/* What def.json says of collectives: ranks, replica groups, streams (FORMAT.md section 3; keys C, shapes G). */
#include <errno.h>

#include "arch/cc.h"
#include "formats/neff/neff_value.h"

#define LAYOUTS_MAX 4096
#define RANKS_MAX (1u << 20) /* of all groups together */

struct budget {
    size_t ranks;
};

static int bad(struct neff_load *l, const struct neff_subgraph *sg)
{
    neff_add_note(l->n, "%s: replica_groups has another shape than lists of lists of ranks; left out", sg->definition);
    return -EPROTO;
}

static int load_set(struct neff_load *l, const json_t *v, const struct neff_subgraph *sg, struct budget *b,
                    struct neff_replica_set *set)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v) || n > KYMO_CC_RANKS_MAX || (b->ranks += n) > RANKS_MAX)
        return bad(l, sg);
    uint32_t *ranks = NEFF_ARENA_ARRAY(&l->n->arena, uint32_t, n + 1);
    if (!ranks)
        return neff_no_memory(l);
    for (size_t i = 0; i < n; i++) {
        json_int_t rank = json_integer_value(json_array_get(v, i));
        if (!json_is_integer(json_array_get(v, i)) || rank < 0 || rank >= KYMO_CC_RANKS_MAX)
            return bad(l, sg);
        ranks[i] = (uint32_t)rank;
    }
    *set = (struct neff_replica_set){ranks, n};
    return 0;
}

static int load_layout(struct neff_load *l, const json_t *v, const struct neff_subgraph *sg, struct budget *b,
                       struct neff_replica_layout *layout)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v) || n > KYMO_CC_RANKS_MAX)
        return bad(l, sg);
    struct neff_replica_set *sets = NEFF_ARENA_ARRAY(&l->n->arena, struct neff_replica_set, n + 1);
    if (!sets)
        return neff_no_memory(l);
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = load_set(l, json_array_get(v, i), sg, b, &sets[i]);
    *layout = (struct neff_replica_layout){sets, n};
    return r;
}

/* A list of layouts, or one layout alone. */
static int load_layouts(struct neff_load *l, const json_t *groups, struct neff_subgraph *sg)
{
    const json_t *inner = json_array_get(json_array_get(groups, 0), 0);
    bool single = json_is_integer(inner);
    size_t n = single ? 1 : json_array_size(groups);
    struct budget b = {0};
    if (!json_is_array(groups) || n > LAYOUTS_MAX)
        return bad(l, sg);
    struct neff_replica_layout *list = NEFF_ARENA_ARRAY(&l->n->arena, struct neff_replica_layout, n + 1);
    if (!list)
        return neff_no_memory(l);
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = load_layout(l, single ? groups : json_array_get(groups, i), sg, &b, &list[i]);
    if (r < 0)
        return r;
    sg->replica_layouts = list;
    sg->replica_layout_count = n;
    return 0;
}

int neff_groups_load(struct neff_load *l, const json_t *def, struct neff_subgraph *sg)
{
    int64_t world = neff_json_int(def, "world-size", 0);
    size_t streams = json_array_size(json_object_get(def, "cc_stream"));
    const json_t *groups = json_object_get(def, "replica_groups");
    sg->world_size = world > 0 && world <= KYMO_CC_RANKS_MAX ? (unsigned)world : 0;
    if (world && !sg->world_size)
        neff_add_note(l->n, "%s: world-size %lld is not from 1 to %d; left out", sg->definition, (long long)world,
                      KYMO_CC_RANKS_MAX);
    sg->stream_count = streams < KYMO_CC_STREAMS_MAX ? (unsigned)streams : KYMO_CC_STREAMS_MAX;
    int r = groups ? load_layouts(l, groups, sg) : 0;
    return r == -EPROTO ? 0 : r;
}
