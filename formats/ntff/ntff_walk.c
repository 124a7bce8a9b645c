#include "formats/ntff/ntff_walk.h"

#include <stdio.h>

static void place_text(const struct ntff_place *p, const char *list, char out[NTFF_PLACE_TEXT_MAX])
{
    if (p->node == NTFF_PLACE_SESSION)
        (void)snprintf(out, NTFF_PLACE_TEXT_MAX, "ntff_info.session_notifications[%zu]", p->item);
    else
        (void)snprintf(out, NTFF_PLACE_TEXT_MAX, "ntff_info.neff_nodes[%zu].nd_node.graphs[%zu].%s[%zu]", p->node,
                       p->graph, list, p->item);
}

void ntff_place_image(const struct ntff_place *p, char out[NTFF_PLACE_TEXT_MAX])
{
    place_text(p, "instruction_info", out);
}

void ntff_place_ring(const struct ntff_place *p, char out[NTFF_PLACE_TEXT_MAX])
{
    place_text(p, "traces", out);
}

static int walk_graph(const Ntff__SubgraphInfo *graph, struct ntff_place *p, const struct ntff_visitor *v, void *ctx)
{
    int r = v->graph ? v->graph(ctx, graph, p) : 0;
    for (p->item = 0; r >= 0 && v->image && p->item < graph->n_instruction_info; p->item++)
        r = v->image(ctx, graph->instruction_info[p->item], p);
    for (p->item = 0; r >= 0 && v->ring && p->item < graph->n_traces; p->item++)
        r = v->ring(ctx, graph->traces[p->item], p);
    return r < 0 ? r : 0;
}

static int walk_node(const Ntff__NeffNodeInfo *node, struct ntff_place *p, const struct ntff_visitor *v, void *ctx)
{
    if (node->node_info_case != NTFF__NEFF_NODE_INFO__NODE_INFO_ND_NODE || !node->nd_node)
        return 0;
    for (p->graph = 0; p->graph < node->nd_node->n_graphs; p->graph++) {
        p->item = 0;
        int r = walk_graph(node->nd_node->graphs[p->graph], p, v, ctx);
        if (r < 0)
            return r;
    }
    return 0;
}

int ntff_walk(const Ntff__NtffInfo *info, const struct ntff_visitor *v, void *ctx)
{
    struct ntff_place p = {0};
    for (p.node = 0; p.node < info->n_neff_nodes; p.node++) {
        int r = walk_node(info->neff_nodes[p.node], &p, v, ctx);
        if (r < 0)
            return r;
    }
    p = (struct ntff_place){.node = NTFF_PLACE_SESSION};
    for (; v->ring && p.item < info->n_session_notifications; p.item++) {
        int r = v->ring(ctx, info->session_notifications[p.item], &p);
        if (r < 0)
            return r;
    }
    return 0;
}
