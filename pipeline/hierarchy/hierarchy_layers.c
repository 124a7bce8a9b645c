/* Which records of the compiler's layers the executed instructions lead to, and sums handed from layer to layer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arch/opcode.h"
#include "base/alloc.h"
#include "pipeline/hierarchy/hierarchy_impl.h"

const char *hier_record_name(const struct hier_record *r)
{
    const char *name = r->node ? r->node->name : r->debug->bir_name;
    return name ? name : "";
}

/* A record as something below it leads to it. */
struct lead {
    struct hier_record record;
    uint32_t from; /* static row, or record of the layer below */
};

static int by_debug(const void *a, const void *b)
{
    const struct lead *x = a, *y = b;
    if (x->record.debug != y->record.debug)
        return (uintptr_t)x->record.debug < (uintptr_t)y->record.debug ? -1 : 1;
    return (int)x->record.pcore - (int)y->record.pcore;
}

static int by_node(const void *a, const void *b)
{
    const struct lead *x = a, *y = b;
    if (x->record.node == y->record.node)
        return 0;
    return (uintptr_t)x->record.node < (uintptr_t)y->record.node ? -1 : 1;
}

/* HLO and framework records belong to the whole model: the cores' copies of one, same number and name, are one row. */
static int by_id_and_name(const void *a, const void *b)
{
    const struct lead *x = a, *y = b;
    if (x->record.neff != y->record.neff)
        return (uintptr_t)x->record.neff < (uintptr_t)y->record.neff ? -1 : 1;
    if (x->record.node->id != y->record.node->id)
        return x->record.node->id < y->record.node->id ? -1 : 1;
    return strcmp(hier_record_name(&x->record), hier_record_name(&y->record));
}

static int (*const same[HIER_LAYERS])(const void *, const void *) = {by_debug, by_node, by_id_and_name, by_id_and_name};

/* One record per group of equal leads; back(from) learns its number. */
static int make_records(struct hierarchy *h, enum hier_layer layer, struct lead *leads, size_t n,
                        void (*back)(struct hierarchy *h, enum hier_layer layer, uint32_t from, uint32_t record))
{
    if (n)
        qsort(leads, n, sizeof *leads, same[layer]);
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += i == 0 || same[layer](&leads[i - 1], &leads[i]) != 0;
    h->records[layer] = KYMO_NEW_ARRAY(struct hier_record, count);
    if (!h->records[layer])
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || same[layer](&leads[i - 1], &leads[i]) != 0)
            h->records[layer][h->record_count[layer]++] = leads[i].record;
        back(h, layer, leads[i].from, (uint32_t)h->record_count[layer] - 1);
    }
    return 0;
}

static void tell_weight(struct hierarchy *h, enum hier_layer layer, uint32_t from, uint32_t record)
{
    (void)layer;
    h->weights[from].record = record;
}

static void tell_below(struct hierarchy *h, enum hier_layer layer, uint32_t from, uint32_t record)
{
    h->records[layer - 1][from].above = record;
}

static void weigh(struct hierarchy *h, size_t i, const struct static_facts *f)
{
    const struct static_row *row = &h->job->statics.rows[i];
    struct statics_traffic t = statics_traffic(f);
    struct hier_weight *w = &h->weights[i];
    *w = (struct hier_weight){.record = HIER_NONE,
                              .function = f->debug ? (uint16_t)(f->debug->raw_bir_id >> 32) : 0,
                              .engine = row->engine,
                              .cores = (uint8_t)(1u << row->pcore),
                              .has_memory = t.known,
                              .hbm_read = t.hbm_read,
                              .hbm_write = t.hbm_write,
                              .sbuf_read = t.sbuf_read,
                              .sbuf_write = t.sbuf_write};
    uint64_t channels;
    if (f->record && kymo_layout_get(h->job->in->arch, f->record, KYMO_F_CHANNELS, &channels))
        w->channels = (uint32_t)channels;
    if (row->known && (row->opcode == KYMO_OP_LDWEIGHTS || row->opcode == KYMO_OP_LDWEIGHTS_MX))
        w->weights = f->footprint.sbuf_read;
    if (f->footprint.matmul) {
        w->elements = f->tensor_elements;
        w->transposed = f->transpose ? f->tensor_elements : 0;
    }
    h->has_functions |= w->function != 0;
}

static int find_bir(struct hierarchy *h)
{
    const struct statics *s = &h->job->statics;
    struct lead *leads KYMO_FREE = KYMO_NEW_ARRAY(struct lead, s->count);
    size_t n = 0;
    if (!leads)
        return -ENOMEM;
    for (size_t i = 0; i < s->count; i++) {
        struct static_facts f;
        statics_facts(s, &s->rows[i], &f);
        weigh(h, i, &f);
        if (f.debug)
            leads[n++] = (struct lead){{.neff = s->in->nodes[s->rows[i].program->node].neff,
                                        .debug = f.debug,
                                        .above = HIER_NONE,
                                        .pcore = s->rows[i].pcore},
                                       (uint32_t)i};
    }
    h->without[HIER_BIR] = s->count - n;
    return make_records(h, HIER_BIR, leads, n, tell_weight);
}

static const struct neff_node *node_above(const struct hier_record *r)
{
    return r->node ? r->node->parent : r->debug->penguin;
}

static int find_above(struct hierarchy *h, enum hier_layer layer)
{
    size_t below = h->record_count[layer - 1], n = 0;
    struct lead *leads KYMO_FREE = KYMO_NEW_ARRAY(struct lead, below);
    if (!leads)
        return -ENOMEM;
    for (size_t i = 0; i < below; i++) {
        const struct hier_record *r = &h->records[layer - 1][i];
        const struct neff_node *node = node_above(r);
        if (node)
            leads[n++] = (struct lead){
                {.neff = r->neff, .node = node, .debug = r->debug, .above = HIER_NONE, .pcore = r->pcore}, (uint32_t)i};
    }
    return make_records(h, layer, leads, n, tell_below);
}

static void count_missing(struct hierarchy *h)
{
    for (size_t i = 0; i < h->record_count[HIER_BIR]; i++) {
        const struct neff_debug *d = h->records[HIER_BIR][i].debug;
        h->without[HIER_PENGUIN] += !d->penguin;
        h->without[HIER_HLO] += !d->hlo;
        h->without[HIER_FRAMEWORK] += !d->framework;
    }
}

int hierarchy_find_records(struct hierarchy *h, struct kymo_err *err)
{
    h->weights = KYMO_NEW_ARRAY(struct hier_weight, h->job->statics.count);
    int r = h->weights ? find_bir(h) : -ENOMEM;
    for (int layer = HIER_PENGUIN; layer < HIER_LAYERS && r == 0; layer++)
        r = find_above(h, (enum hier_layer)layer);
    if (r < 0)
        return kymo_err_set(err, r, "no memory for the compiler's layers");
    count_missing(h);
    return 0;
}

static void add_extremes(struct hier_sums *a, const struct hier_sums *b)
{
    for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++) {
        if (!b->count[e])
            continue;
        if (!a->count[e] || b->shortest[e] < a->shortest[e])
            a->shortest[e] = b->shortest[e];
        if (!a->count[e] || b->longest[e] > a->longest[e])
            a->longest[e] = b->longest[e];
        a->count[e] += b->count[e];
        a->channels[e] += b->channels[e];
    }
}

void hier_sums_add(struct hier_sums *a, const struct hier_sums *b)
{
    if (!b->any)
        return;
    if (!a->any || b->start < a->start)
        a->start = b->start;
    if (!a->any || b->end > a->end)
        a->end = b->end;
    a->any = true;
    a->cores |= b->cores;
    a->has_memory |= b->has_memory;
    a->hbm_read += b->hbm_read;
    a->hbm_write += b->hbm_write;
    a->sbuf_read += b->sbuf_read;
    a->sbuf_write += b->sbuf_write;
    a->weights += b->weights;
    a->elements += b->elements;
    a->transposed += b->transposed;
    add_extremes(a, b);
}

/* An item of the layer below and the record above it. */
struct member {
    uint32_t record, call, item;
};

static int by_record(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    if (x->record != y->record)
        return x->record < y->record ? -1 : 1;
    if (x->call != y->call)
        return x->call < y->call ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

/* Members come in the order of the table below, which is that of start: the first is the earliest. */
static int merge_group(const struct hier_items *below, const struct member *m, size_t n, size_t limit,
                       struct hier_item *item)
{
    size_t spans = 0;
    *item = (struct hier_item){.record = m[0].record, .call = m[0].call};
    memcpy(item->ids, below->list[m[0].item].ids, sizeof item->ids);
    for (size_t i = 0; i < n; i++)
        spans += below->list[m[i].item].sums.busy.count;
    struct interval *all KYMO_FREE = KYMO_NEW_ARRAY(struct interval, spans);
    if (!all)
        return -ENOMEM;
    spans = 0;
    for (size_t i = 0; i < n; i++) {
        const struct hier_sums *s = &below->list[m[i].item].sums;
        hier_sums_add(&item->sums, s);
        item->sums.busy.coarse |= s->busy.coarse;
        if (s->busy.count)
            memcpy(all + spans, s->busy.list, s->busy.count * sizeof *all);
        spans += s->busy.count;
    }
    return intervals_union(&item->sums.busy, all, spans, limit);
}

static size_t list_members(const struct hierarchy *h, enum hier_layer layer, const struct hier_items *below,
                           struct member *members, size_t *ret_groups)
{
    size_t n = 0, groups = 0;
    for (size_t i = 0; i < below->count; i++) {
        uint32_t above = h->records[layer - 1][below->list[i].record].above;
        if (above != HIER_NONE && below->list[i].sums.any)
            members[n++] = (struct member){above, below->list[i].call, (uint32_t)i};
    }
    if (n)
        qsort(members, n, sizeof *members, by_record);
    for (size_t i = 0; i < n; i++)
        groups += i == 0 || members[i].record != members[i - 1].record || members[i].call != members[i - 1].call;
    *ret_groups = groups;
    return n;
}

int hierarchy_roll_up(const struct hierarchy *h, enum hier_layer layer, struct hier_items *below,
                      struct hier_items *ret, struct kymo_err *err)
{
    struct member *members KYMO_FREE = KYMO_NEW_ARRAY(struct member, below->count);
    size_t groups, n = members ? list_members(h, layer, below, members, &groups) : 0;
    struct hier_items out = {0};
    int r = members && (out.list = KYMO_NEW_ARRAY(struct hier_item, n ? groups : 0)) ? 0 : -ENOMEM;
    out.limit = n ? intervals_limit(groups) : 0;
    for (size_t i = 0, end; i < n && r == 0; i = end) {
        for (end = i + 1; end < n && members[end].record == members[i].record && members[end].call == members[i].call;)
            end++;
        r = merge_group(below, members + i, end - i, out.limit, &out.list[out.count++]);
    }
    if (r < 0) {
        hier_items_done(&out);
        return kymo_err_set(err, r, "no memory for the compiler's layers");
    }
    *ret = out;
    return 0;
}
