#include "pipeline/rings/time_edges.h"

#include <stdlib.h>

static int by_time(const void *a, const void *b)
{
    const struct time_edge *x = a, *y = b;
    if (x->e.ps != y->e.ps)
        return x->e.ps < y->e.ps ? -1 : 1;
    if (x->ring != y->ring)
        return x->ring < y->ring ? -1 : 1;
    return x->e.index < y->e.index ? -1 : x->e.index > y->e.index;
}

static void put_near(struct time_edge *edge, const struct time_range *r, uint64_t limit)
{
    bool certain = edge->near_ps >= r->first_ps && edge->near_ps <= r->last_ps;
    edge->raw = certain ? edge->near_raw : limit;
}

static void judge_later(struct time_edge *edges, size_t from, size_t count, struct time_range *r)
{
    for (size_t i = from; i < count; i++) {
        struct time_edge *edge = &edges[i];
        bool backed = i + 1 < count && edges[i + 1].e.ps - edge->e.ps <= edge->reach_ps;
        if (backed || edge->e.ps - r->last_ps <= edge->reach_ps)
            r->last_ps = edge->e.ps;
        else
            put_near(edge, r, r->last_ps);
    }
}

static void judge_earlier(struct time_edge *edges, size_t count, struct time_range *r)
{
    for (size_t i = count; i-- > 0;) {
        struct time_edge *edge = &edges[i];
        bool backed = i > 0 && edge->e.ps - edges[i - 1].e.ps <= edge->reach_ps;
        if (backed || r->first_ps - edge->e.ps <= edge->reach_ps)
            r->first_ps = edge->e.ps;
        else
            put_near(edge, r, r->first_ps);
    }
}

void time_edges_judge(struct time_edge *edges, size_t count, struct time_range certain)
{
    size_t earlier = 0, later = count;
    qsort(edges, count, sizeof *edges, by_time);
    for (size_t i = 0; i < count; i++)
        edges[i].raw = edges[i].e.raw;
    if (certain.first_ps > certain.last_ps)
        return;
    while (earlier < count && edges[earlier].e.ps < certain.first_ps)
        earlier++;
    while (later > earlier && edges[later - 1].e.ps > certain.last_ps)
        later--;
    judge_earlier(edges, earlier, &certain);
    judge_later(edges, later, count, &certain);
}
