#include "pipeline/formulas/outliers.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "pipeline/spill/spill.h"

struct group {
    uint64_t key, seen, stride; /* every stride-th duration is kept */
    int64_t *kept;
    size_t count;
};

struct outliers {
    struct group groups[OUTLIERS_GROUPS_MAX];
    size_t count;
    struct spill *events;
};

int outliers_open(const char *dir, struct outliers **ret, struct kymo_err *err)
{
    struct outliers *o = KYMO_NEW(struct outliers);
    if (!o)
        return kymo_err_set(err, -ENOMEM, "no memory for the medians of groups");
    int r = spill_open(dir, sizeof(struct outliers_event), &o->events, err);
    if (r < 0) {
        kymo_free(o);
        return r;
    }
    *ret = o;
    return 0;
}

struct outliers *outliers_free(struct outliers *o)
{
    for (size_t i = 0; o && i < o->count; i++)
        kymo_free(o->groups[i].kept);
    if (o)
        spill_free(o->events);
    kymo_free(o);
    return NULL;
}

/* NULL: not there. */
static struct group *find(struct outliers *o, uint64_t key)
{
    for (size_t i = 0; i < o->count; i++)
        if (o->groups[i].key == key)
            return &o->groups[i];
    return NULL;
}

static int new_group(struct outliers *o, uint64_t key, struct group **ret, struct kymo_err *err)
{
    struct group *g = &o->groups[o->count];
    g->kept = KYMO_NEW_ARRAY(int64_t, OUTLIERS_KEPT);
    if (!g->kept)
        return kymo_err_set(err, -ENOMEM, "no memory for the medians of groups");
    g->key = key;
    g->stride = 1;
    o->count++;
    *ret = g;
    return 0;
}

static void keep(struct group *g, int64_t duration)
{
    if (g->seen++ % g->stride)
        return;
    if (g->count == OUTLIERS_KEPT) { /* half of them stand for all */
        for (size_t i = 0; i < OUTLIERS_KEPT / 2; i++)
            g->kept[i] = g->kept[2 * i];
        g->count = OUTLIERS_KEPT / 2;
        g->stride *= 2;
    }
    g->kept[g->count++] = duration;
}

int outliers_add(struct outliers *o, const struct outliers_event *e, struct kymo_err *err)
{
    struct group *g = find(o, e->group);
    if (!g && o->count == OUTLIERS_GROUPS_MAX)
        return 0;
    int r = g ? 0 : new_group(o, e->group, &g, err);
    if (r < 0)
        return r;
    keep(g, e->end - e->start);
    return spill_append(o->events, e, err);
}

static int order(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

int outliers_each(struct outliers *o, uint64_t percent, outliers_sink sink, void *ctx, struct kymo_err *err)
{
    struct spill_reader reader;
    const void *record;
    for (size_t i = 0; i < o->count; i++)
        qsort(o->groups[i].kept, o->groups[i].count, sizeof(int64_t), order);
    int r = spill_seal(o->events, err);
    if (r == 0)
        r = spill_reader_init(&reader, o->events, err);
    if (r < 0)
        return r;
    while (r >= 0 && (r = spill_reader_next(&reader, &record, err)) > 0) {
        const struct outliers_event *e = record;
        const struct group *g = find(o, e->group);
        int64_t median = g->kept[(g->count - 1) / 2];
        if (g->seen >= OUTLIERS_LEAST && (double)(e->end - e->start) * 100 > (double)median * (double)(100 + percent))
            r = sink(ctx, e, median, err);
    }
    spill_reader_done(&reader);
    return r;
}
