#include "pipeline/hierarchy/hierarchy.h"

#include <errno.h>

#include "base/alloc.h"
#include "pipeline/hierarchy/hierarchy_impl.h"
#include "pipeline/instructions/source_tables.h"

void hier_items_done(struct hier_items *items)
{
    for (size_t i = 0; i < items->count; i++)
        intervals_done(&items->list[i].sums.busy);
    kymo_free(items->list);
    *items = (struct hier_items){0};
}

static void release(void *state)
{
    struct hierarchy *h = state;
    for (size_t i = 0; h->calls_of && i < h->record_count[HIER_BIR]; i++)
        kymo_free(h->calls_of[i]);
    kymo_free(h->calls_of);
    for (int layer = 0; layer < HIER_LAYERS; layer++)
        kymo_free(h->records[layer]);
    hier_items_done(&h->items);
    calls_done(&h->calls);
    kymo_free(h->weights);
    kymo_free(h);
}

static int64_t id_or_none(bool there, uint64_t id)
{
    return there ? (int64_t)id : -1;
}

static struct hier_item item_of(const struct hierarchy *h, uint32_t record, uint32_t call)
{
    const struct neff_debug *d = h->records[HIER_BIR][record].debug;
    return (struct hier_item){
        .record = record,
        .call = call,
        .ids = {(int64_t)d->raw_bir_id, id_or_none(d->has_penguin, d->raw_penguin_id),
                id_or_none(d->penguin && d->penguin->has_parent, d->raw_hlo_id),
                id_or_none(d->hlo && d->hlo->has_parent, d->raw_framework_id)},
    };
}

static int open_layers(const struct job *j, void **ret, struct kymo_err *err)
{
    struct hierarchy *h = KYMO_NEW(struct hierarchy);
    if (!h)
        return kymo_err_set(err, -ENOMEM, "no memory for the compiler's layers");
    h->job = j;
    int r = hierarchy_find_records(h, err);
    size_t n = h->record_count[HIER_BIR];
    h->items.list = r == 0 ? KYMO_NEW_ARRAY(struct hier_item, n) : NULL;
    h->calls_of = r == 0 ? KYMO_NEW_ARRAY(uint32_t *, n) : NULL;
    if (r == 0 && (!h->items.list || !h->calls_of))
        r = kymo_err_set(err, -ENOMEM, "no memory for %zu BIR instructions", n);
    if (r < 0) {
        release(h);
        return r;
    }
    for (size_t i = 0; h->items.list && i < n; i++)
        h->items.list[i] = item_of(h, (uint32_t)i, 0);
    h->items.count = h->items.cap = n;
    h->items.limit = intervals_limit(n);
    *ret = h;
    return 0;
}

static int add_item(struct hierarchy *h, uint32_t record, uint32_t call, uint32_t *ret)
{
    void *p = h->items.list;
    int r = kymo_grow(&p, &h->items.cap, h->items.count + 1, UINT32_MAX, sizeof *h->items.list);
    h->items.list = p;
    if (r < 0)
        return r;
    *ret = (uint32_t)h->items.count;
    h->items.list[h->items.count++] = item_of(h, record, call);
    return 0;
}

/* The item of a record in a call of its function. */
static int find_item(struct hierarchy *h, uint32_t record, uint32_t call, struct hier_item **ret)
{
    uint32_t at = record;
    if (call) {
        uint32_t **list = &h->calls_of[record];
        if (!*list && !(*list = KYMO_NEW_ARRAY(uint32_t, CALLS_MAX)))
            return -ENOMEM;
        at = (*list)[call];
        if (!at) {
            int r = add_item(h, record, call, &at);
            if (r < 0)
                return r;
            (*list)[call] = at;
        }
    }
    *ret = &h->items.list[at];
    return 0;
}

static int add_spans(struct hierarchy *h, struct hier_sums *s, const struct hier_weight *w, const struct instr_row *row)
{
    uint64_t hbm = w->hbm_read + w->hbm_write;
    struct interval run = {.start = row->begin,
                           .end = row->end,
                           .elements = w->elements,
                           .transposed = w->transposed,
                           .hbm = row->has_dma ? 0 : hbm};
    int r = intervals_add(&s->busy, run, h->items.limit);
    const struct interval moved = {.start = row->dma_start, .end = row->dma_end, .hbm = hbm};
    return r == 0 && row->has_dma ? intervals_add(&s->busy, moved, h->items.limit) : r;
}

/* What hier_sums_add does for the sums of one execution, without their making: this is done for every instruction. */
static void add_execution(struct hier_sums *s, const struct hier_weight *w, const struct instr_row *row)
{
    int64_t end = row->has_dma && row->dma_end > row->end ? row->dma_end : row->end, took = row->end - row->start;
    unsigned e = w->engine;
    if (!s->any || row->start < s->start)
        s->start = row->start;
    if (!s->any || end > s->end)
        s->end = end;
    if (!s->count[e] || took < s->shortest[e])
        s->shortest[e] = took;
    if (!s->count[e] || took > s->longest[e])
        s->longest[e] = took;
    s->any = true;
    s->cores |= w->cores;
    s->has_memory |= w->has_memory;
    s->hbm_read += w->hbm_read;
    s->hbm_write += w->hbm_write;
    s->sbuf_read += w->sbuf_read;
    s->sbuf_write += w->sbuf_write;
    s->weights += w->weights;
    s->elements += w->elements;
    s->transposed += w->transposed;
    s->count[e]++;
    s->channels[e] += w->channels;
}

static int take(struct hierarchy *h, const struct instr_row *row)
{
    const struct hier_weight *w = &h->weights[row->row];
    const struct static_row *st = &h->job->statics.rows[row->row];
    uint32_t call = 0;
    int r = 0;
    if (h->has_functions && st->program)
        r = calls_next(&h->calls, st->program->node, st->pcore, (enum kymo_engine)st->engine, w->function, st->slot,
                       &call);
    if (r < 0 || w->record == HIER_NONE)
        return r;
    struct hier_item *item;
    r = find_item(h, w->record, call, &item);
    if (r < 0)
        return r;
    add_execution(&item->sums, w, row);
    return add_spans(h, &item->sums, w, row);
}

static int instructions(void *state, const struct instr_row *rows, size_t n, struct kymo_err *err)
{
    struct hierarchy *h = state;
    for (size_t i = 0; i < n; i++)
        if (take(h, &rows[i]) < 0)
            return kymo_err_set(err, -ENOMEM, "no memory for the compiler's layers");
    return 0;
}

/* What a layer is called, the table that lacks, and how its records come into a NEFF (facts: the vendor's, A). */
static const struct {
    const char *layer, *table, *remedy;
} layers[HIER_LAYERS] = {
    {"BIR", "BirInstruction", "give the NEFF that ran, compiled with its debug_info files"},
    {"Penguin", "PenguinInstruction", "give the NEFF with its debug_info_penguin file"},
    {"HLO", "HloInstruction", "compile with XLA_IR_DEBUG=1 and XLA_HLO_DEBUG=1"},
    {"framework", "FrameworkInstruction", "compile with NEURON_FRAMEWORK_DEBUG=1, XLA_IR_DEBUG=1 and XLA_HLO_DEBUG=1"},
};

static void warn(const struct hierarchy *h, struct warnings *w)
{
    size_t before = h->job->statics.count;
    for (int layer = 0; layer < HIER_LAYERS; layer++) {
        size_t n = h->record_count[layer];
        if (n == 0 && before)
            warnings_add(
                w, "Missing debug layer",
                "no executed instruction has a record of the %s layer: %s has no rows, and columns that rest on "
                "it are empty; %s",
                layers[layer].layer, layers[layer].table, layers[layer].remedy);
        else if (layer > HIER_BIR && h->without[layer])
            warnings_add(w, "Missing debug layer",
                         "%zu of %zu BIR instructions lead to no record of the %s layer: %s lacks them; %s",
                         h->without[layer], h->record_count[HIER_BIR], layers[layer].layer, layers[layer].table,
                         layers[layer].remedy);
        before = n;
    }
    if (h->coarse)
        warnings_add(
            w, "Interval lists",
            "%zu rows of the compiler's layers had more busy spans than are kept (%zu a row of BirInstruction): "
            "the nearest were joined over the gaps between them, so their spans are upper bounds, and hfu, mfu "
            "and mbu lower ones",
            h->coarse, h->items.limit);
    if (h->calls.folded)
        warnings_add(w, "Function calls",
                     "a function was called more than %d times in one execution: later calls are in the row of call %d",
                     CALLS_MAX, CALLS_MAX - 1);
    if (h->cut)
        warnings_add(w, "Interval lists",
                     "%zu rows of FrameworkNode have more names or numbers below them than are kept", h->cut);
}

static int finish(void *state, struct warnings *w, struct kymo_err *err)
{
    struct hierarchy *h = state;
    struct hier_items items KYMO_CLEANUP(hier_items_done) = h->items;
    size_t limit = h->items.limit;
    h->items = (struct hier_items){0};
    int r = hierarchy_write(h, HIER_BIR, &items, err);
    for (int layer = HIER_PENGUIN; layer < HIER_LAYERS && r == 0; layer++) {
        struct hier_items next = {0};
        r = hierarchy_roll_up(h, (enum hier_layer)layer, &items, &next, err);
        hier_items_done(&items);
        items = next;
        if (r == 0)
            r = hierarchy_write(h, (enum hier_layer)layer, &items, err);
    }
    if (r == 0)
        r = hierarchy_write_nodes(h, &items, err);
    if (r == 0)
        r = source_tables_write(h->job->in, h->job->dir, err);
    h->items.limit = limit;
    if (r == 0)
        warn(h, w);
    return r;
}

const struct consumer hierarchy_consumer = {
    .name = "hierarchy",
    .open = open_layers,
    .instructions = instructions,
    .finish = finish,
    .free = release,
};
