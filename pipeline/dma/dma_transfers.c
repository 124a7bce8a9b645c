#include "pipeline/dma/dma_transfers.h"

#include <errno.h>

#include "base/alloc.h"

#define POOL_MAX (DMA_TRANSFERS_PENDING_MAX * 4u)

struct group {
    uint32_t *open; /* pool indexes, in order of creation */
    size_t count, cap;
};

struct dma_transfers {
    struct group *groups;
    uint32_t group_count;
    struct dma_transfer *pool;
    size_t pool_count, pool_cap;
    uint32_t *unused;
    size_t unused_count, unused_cap;
    uint32_t *order; /* pool indexes by id, a circle */
    size_t order_cap;
    uint64_t order_head, order_tail;
    int64_t next_id;
    uint64_t forced;
    dma_transfers_sink sink;
    void *ctx;
};

int dma_transfers_new(uint32_t groups, dma_transfers_sink sink, void *ctx, struct dma_transfers **ret,
                      struct kymo_err *err)
{
    struct dma_transfers *t = KYMO_NEW(struct dma_transfers);
    if (t) {
        t->order_cap = 2 * (size_t)DMA_TRANSFERS_PENDING_MAX;
        t->groups = KYMO_NEW_ARRAY(struct group, groups + 1);
        t->order = KYMO_NEW_ARRAY(uint32_t, t->order_cap);
    }
    if (!t || !t->groups || !t->order) {
        dma_transfers_free(t);
        return kymo_err_set(err, -ENOMEM, "no memory for DMA transfers");
    }
    t->group_count = groups;
    t->sink = sink;
    t->ctx = ctx;
    *ret = t;
    return 0;
}

struct dma_transfers *dma_transfers_free(struct dma_transfers *t)
{
    if (!t)
        return NULL;
    for (uint32_t g = 0; t->groups && g < t->group_count; g++)
        kymo_free(t->groups[g].open);
    kymo_free(t->groups);
    kymo_free(t->pool);
    kymo_free(t->unused);
    kymo_free(t->order);
    kymo_free(t);
    return NULL;
}

uint64_t dma_transfers_forced(const struct dma_transfers *t)
{
    return t->forced;
}

static int allocate(struct dma_transfers *t, const struct dma_transfer *proto, uint32_t *ret, struct kymo_err *err)
{
    if (t->unused_count) {
        *ret = t->unused[--t->unused_count];
    } else {
        void *p = t->pool, *u = t->unused;
        int r = kymo_grow(&p, &t->pool_cap, t->pool_count + 1, POOL_MAX, sizeof *t->pool);
        t->pool = p;
        if (r == 0)
            r = kymo_grow(&u, &t->unused_cap, t->pool_count + 1, POOL_MAX, sizeof *t->unused);
        t->unused = u;
        if (r < 0)
            return kymo_err_set(err, r, "no memory for %zu open DMA transfers", t->pool_count + 1);
        *ret = (uint32_t)t->pool_count++;
    }
    struct dma_transfer *x = &t->pool[*ret];
    *x = *proto;
    x->id = -1;
    x->seen = x->whole = x->bytes = 0;
    x->decided = false;
    return 0;
}

static void release(struct dma_transfers *t, uint32_t index)
{
    t->unused[t->unused_count++] = index;
}

/* A decided transfer without a whole packet has no row and no place in the order. */
static void decide(struct dma_transfers *t, uint32_t index)
{
    t->pool[index].decided = true;
    if (t->pool[index].id < 0)
        release(t, index);
}

static void remove_open(struct group *g, size_t at)
{
    for (size_t i = at; i + 1 < g->count; i++)
        g->open[i] = g->open[i + 1];
    g->count--;
}

static void close_one(struct group *g, uint32_t index)
{
    for (size_t i = g->count; i-- > 0;)
        if (g->open[i] == index) {
            remove_open(g, i);
            return;
        }
}

static uint32_t find_open(const struct dma_transfers *t, uint32_t group, uint64_t entry)
{
    const struct group *g = &t->groups[group];
    for (size_t i = g->count; i-- > 0;)
        if (t->pool[g->open[i]].entry == entry)
            return g->open[i];
    return UINT32_MAX;
}

bool dma_transfers_open(const struct dma_transfers *t, uint32_t group, uint64_t entry)
{
    return find_open(t, group, entry) != UINT32_MAX;
}

static int find(struct dma_transfers *t, const struct dma_transfer *proto, uint32_t *ret, struct kymo_err *err)
{
    struct group *g = &t->groups[proto->group];
    *ret = find_open(t, proto->group, proto->entry);
    if (*ret != UINT32_MAX)
        return 0;
    if (g->count == DMA_TRANSFERS_GROUP_MAX) {
        t->forced++;
        uint32_t oldest = g->open[0];
        remove_open(g, 0);
        decide(t, oldest);
    }
    void *p = g->open;
    int r = kymo_grow(&p, &g->cap, g->count + 1, DMA_TRANSFERS_GROUP_MAX, sizeof *g->open);
    g->open = p;
    if (r < 0)
        return kymo_err_set(err, r, "no memory for open DMA transfers");
    r = allocate(t, proto, ret, err);
    if (r < 0)
        return r;
    g->open[g->count++] = *ret;
    return 0;
}

static int emit_head(struct dma_transfers *t, struct kymo_err *err)
{
    uint32_t index = t->order[t->order_head++ % t->order_cap];
    const struct dma_transfer *x = &t->pool[index];
    int r = t->sink(t->ctx, x, x->expected && x->whole == x->expected, err);
    release(t, index);
    return r;
}

/* The oldest goes out as it is; a later packet of it would open a transfer of its own. */
static int force_head(struct dma_transfers *t, struct kymo_err *err)
{
    uint32_t index = t->order[t->order_head % t->order_cap];
    struct group *g = &t->groups[t->pool[index].group];
    if (!t->pool[index].decided) {
        t->forced++;
        close_one(g, index);
    }
    return emit_head(t, err);
}

static int take_id(struct dma_transfers *t, uint32_t index, struct kymo_err *err)
{
    t->pool[index].id = t->next_id++;
    t->order[t->order_tail++ % t->order_cap] = index;
    while (t->order_tail - t->order_head > DMA_TRANSFERS_PENDING_MAX) {
        int r = force_head(t, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static void merge_packet(struct dma_transfer *x, int64_t start, int64_t end, uint64_t bytes)
{
    x->start = !x->whole || start < x->start ? start : x->start;
    x->end = !x->whole || end > x->end ? end : x->end;
    x->bytes += bytes;
    x->whole++;
}

int dma_transfers_add(struct dma_transfers *t, const struct dma_transfer *proto, bool partial, int64_t start,
                      int64_t end, uint64_t bytes, int64_t *ret_id, int32_t *ret_index, struct kymo_err *err)
{
    uint32_t index;
    int r = find(t, proto, &index, err);
    if (r < 0)
        return r;
    struct dma_transfer *x = &t->pool[index];
    *ret_index = (int32_t)x->seen++;
    if (!partial) {
        merge_packet(x, start, end, bytes);
        if (x->id < 0)
            r = take_id(t, index, err);
    }
    *ret_id = x->id;
    if (x->expected && x->seen >= x->expected) {
        close_one(&t->groups[proto->group], index);
        decide(t, index);
    }
    return r;
}

int dma_transfers_single(struct dma_transfers *t, const struct dma_transfer *proto, int64_t start, int64_t end,
                         uint64_t bytes, int64_t *ret_id, struct kymo_err *err)
{
    uint32_t index;
    int r = allocate(t, proto, &index, err);
    if (r < 0)
        return r;
    struct dma_transfer *x = &t->pool[index];
    x->seen = 1;
    x->decided = true;
    merge_packet(x, start, end, bytes);
    *ret_id = t->next_id;
    return take_id(t, index, err);
}

void dma_transfers_close(struct dma_transfers *t, uint32_t group, dma_transfers_over over, void *ctx)
{
    struct group *g = &t->groups[group];
    size_t kept = 0;
    for (size_t i = 0; i < g->count; i++) {
        if (over(ctx, &t->pool[g->open[i]]))
            decide(t, g->open[i]);
        else
            g->open[kept++] = g->open[i];
    }
    g->count = kept;
}

int dma_transfers_flush(struct dma_transfers *t, struct kymo_err *err)
{
    while (t->order_head < t->order_tail && t->pool[t->order[t->order_head % t->order_cap]].decided) {
        int r = emit_head(t, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool all_over(void *ctx, const struct dma_transfer *t)
{
    (void)ctx;
    (void)t;
    return true;
}

int dma_transfers_finish(struct dma_transfers *t, struct kymo_err *err)
{
    for (uint32_t g = 0; g < t->group_count; g++)
        dma_transfers_close(t, g, all_over, NULL);
    return dma_transfers_flush(t, err);
}
