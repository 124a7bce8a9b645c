#include "pipeline/rings/timeline.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"

static int by_start(const void *a, const void *b)
{
    const struct timeline_exec *x = a, *y = b;
    if (x->start_ps != y->start_ps)
        return x->start_ps < y->start_ps ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static uint32_t node_at_position(const struct input *in, uint32_t position)
{
    for (size_t i = 0; i < in->node_count; i++)
        if (in->nodes[i].position == position)
            return (uint32_t)i;
    return TIMELINE_NO_NODE;
}

int timeline_init(struct timeline *t, const struct input *in, const struct timebase *tb, struct kymo_err *err)
{
    *t = (struct timeline){.only = in->node_count == 1 ? 0 : TIMELINE_NO_NODE};
    size_t n = in->info->n_execution_timeline;
    if (n > TIMELINE_MAX)
        return kymo_err_set(err, -E2BIG, "%s: %zu executions in one profile, at most %u are read",
                            ntff_reader_path(in->ntff), n, TIMELINE_MAX);
    if (!n)
        return 0;
    t->execs = KYMO_NEW_ARRAY(struct timeline_exec, n);
    if (!t->execs)
        return kymo_err_set(err, -ENOMEM, "no memory for %zu executions", n);
    const struct timebase_clock *clock = timebase_sync(tb, 0);
    for (size_t i = 0; i < n; i++) {
        const Ntff__ExecutionInfo *e = in->info->execution_timeline[i];
        t->execs[i] = (struct timeline_exec){
            .start_ps = timebase_correct(clock, e->start_ps),
            .end_ps = timebase_correct(clock, e->end_ps),
            .node = node_at_position(in, e->neff_node),
            .index = e->index,
            .status = e->status,
        };
    }
    t->count = n;
    qsort(t->execs, n, sizeof *t->execs, by_start);
    return 0;
}

void timeline_done(struct timeline *t)
{
    kymo_free(t->execs);
    *t = (struct timeline){0};
}

size_t timeline_runs(const struct timeline *t, uint32_t node)
{
    size_t runs = 0;
    for (size_t i = 0; i < t->count; i++)
        runs += t->execs[i].node == node;
    return runs ? runs : 1;
}

size_t timeline_whole_runs(const struct timeline *t, uint32_t node)
{
    size_t failed = 0;
    for (size_t i = 0; i < t->count; i++)
        failed += t->execs[i].node == node && t->execs[i].status;
    return timeline_runs(t, node) - failed;
}

size_t timeline_failures(const struct timeline *t)
{
    size_t failed = 0;
    for (size_t i = 0; i < t->count; i++)
        failed += t->execs[i].status != 0;
    return failed;
}
