/* BirInstruction, PenguinInstruction, HloInstruction, FrameworkInstruction. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/hierarchy/hierarchy_impl.h"

#define ABSENT UINT_MAX
#define TEXT_MAX (64u * INTERVALS_MAX)

/* The columns that the four tables share, by their numbers in each. */
struct columns {
    enum kymo_table_id table;
    unsigned id, ids[HIER_LAYERS], name, call, pcore, start, end, intervals, elements, transposed, hbm, hbm_read,
        hbm_write, sbuf_read, sbuf_write, weights, count[KYMO_ENGINE_MAX];
    bool has_count;
};

#define COLUMNS(T)                                                                                                     \
    .table = KYMO_T_##T##_INSTRUCTION, .id = KYMO_##T##_INSTRUCTION_ID,                                                \
    .ids = {KYMO_##T##_INSTRUCTION_RAW_BIR_ID, KYMO_##T##_INSTRUCTION_RAW_PENGUIN_ID,                                  \
            KYMO_##T##_INSTRUCTION_RAW_HLO_ID, KYMO_##T##_INSTRUCTION_RAW_FRAMEWORK_ID},                               \
    .name = KYMO_##T##_INSTRUCTION_##T##_NAME, .call = KYMO_##T##_INSTRUCTION_MODULAR_FLOW_INVOCATION_IDX,             \
    .start = KYMO_##T##_INSTRUCTION_START_TS, .end = KYMO_##T##_INSTRUCTION_END_TS,                                    \
    .intervals = KYMO_##T##_INSTRUCTION_TIME_INTERVALS, .elements = KYMO_##T##_INSTRUCTION_ELEMENT_COUNT_PER_INTERVAL, \
    .transposed = KYMO_##T##_INSTRUCTION_TRANSPOSE_ELEMENT_COUNT_PER_INTERVAL,                                         \
    .hbm = KYMO_##T##_INSTRUCTION_HBM_TRANSFER_SIZE_PER_INTERVAL, .hbm_read = KYMO_##T##_INSTRUCTION_HBM_READ_BYTES,   \
    .hbm_write = KYMO_##T##_INSTRUCTION_HBM_WRITE_BYTES, .sbuf_read = KYMO_##T##_INSTRUCTION_SBUF_READ_BYTES,          \
    .sbuf_write = KYMO_##T##_INSTRUCTION_SBUF_WRITE_BYTES, .weights = KYMO_##T##_INSTRUCTION_LOAD_WEIGHT_BYTES

static const struct columns tables[HIER_LAYERS] = {
    [HIER_BIR] = {COLUMNS(BIR), .pcore = KYMO_BIR_INSTRUCTION_PCORE_IDX},
    [HIER_PENGUIN] = {COLUMNS(PENGUIN), .pcore = ABSENT},
    [HIER_HLO] = {COLUMNS(HLO), .pcore = ABSENT},
    [HIER_FRAMEWORK] = {COLUMNS(FRAMEWORK), .pcore = ABSENT, .has_count = true,
                        .count = {[KYMO_ENGINE_TENSOR] = KYMO_FRAMEWORK_INSTRUCTION_TENSOR_ENGINE_INSTRUCTION_COUNT,
                                  [KYMO_ENGINE_SCALAR] = KYMO_FRAMEWORK_INSTRUCTION_SCALAR_ENGINE_INSTRUCTION_COUNT,
                                  [KYMO_ENGINE_GPSIMD] = KYMO_FRAMEWORK_INSTRUCTION_GPSIMD_ENGINE_INSTRUCTION_COUNT,
                                  [KYMO_ENGINE_VECTOR] = KYMO_FRAMEWORK_INSTRUCTION_VECTOR_ENGINE_INSTRUCTION_COUNT,
                                  [KYMO_ENGINE_SYNC] = KYMO_FRAMEWORK_INSTRUCTION_SYNC_ENGINE_INSTRUCTION_COUNT}},
};

struct order { /* what the rows of a table are sorted by; items are large */
    int64_t start;
    int64_t id;
    const char *name;
    uint32_t pcore, call, item;
};

static int by_start(const void *a, const void *b)
{
    const struct order *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->pcore != y->pcore)
        return x->pcore < y->pcore ? -1 : 1;
    if (x->call != y->call)
        return x->call < y->call ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Puts the items that ran in the order of their rows and drops the others. */
static int sort_items(const struct hierarchy *h, enum hier_layer layer, struct hier_items *items)
{
    struct order *order KYMO_FREE = KYMO_NEW_ARRAY(struct order, items->count);
    struct hier_item *sorted = KYMO_NEW_ARRAY(struct hier_item, items->count);
    size_t n = 0;
    if (!order || !sorted) {
        kymo_free(sorted);
        return -ENOMEM;
    }
    for (size_t i = 0; i < items->count; i++) {
        const struct hier_item *item = &items->list[i];
        const struct hier_record *r = &h->records[layer][item->record];
        if (item->sums.any)
            order[n++] = (struct order){item->sums.start, item->ids[layer], hier_record_name(r),
                                        r->pcore,         item->call,       (uint32_t)i};
    }
    if (n)
        qsort(order, n, sizeof *order, by_start);
    for (size_t i = 0; i < n; i++)
        sorted[i] = items->list[order[i].item];
    kymo_free(items->list);
    items->list = sorted;
    items->count = items->cap = n;
    return 0;
}

static void put_intervals(struct parquet_row *row, const struct columns *c, const struct intervals *v,
                          struct kymo_buf *b)
{
    int64_t list[3][INTERVALS_MAX];
    kymo_buf_reset(b);
    /* The text fits the buffer's maximum; without memory for it the row fails below for want of the same. */
    if (intervals_text(v, b) == 0 && kymo_buf_append(b, "", 1) == 0)
        parquet_row_string(row, c->intervals, (const char *)b->data);
    for (size_t i = 0; i < v->count; i++) {
        list[0][i] = (int64_t)v->list[i].elements;
        list[1][i] = (int64_t)v->list[i].transposed;
        list[2][i] = (int64_t)v->list[i].hbm;
    }
    parquet_row_list(row, c->elements, list[0], v->count);
    parquet_row_list(row, c->transposed, list[1], v->count);
    parquet_row_list(row, c->hbm, list[2], v->count);
}

static void put_sums(struct parquet_row *row, const struct columns *c, const struct hier_sums *s)
{
    parquet_row_int(row, c->start, s->start);
    parquet_row_int(row, c->end, s->end);
    parquet_row_int(row, c->hbm_read, (int64_t)s->hbm_read);
    parquet_row_int(row, c->hbm_write, (int64_t)s->hbm_write);
    if (s->has_memory) {
        parquet_row_int(row, c->sbuf_read, (int64_t)s->sbuf_read);
        parquet_row_int(row, c->sbuf_write, (int64_t)s->sbuf_write);
        parquet_row_int(row, c->weights, (int64_t)s->weights);
    }
    for (unsigned e = 0; c->has_count && e < KYMO_ENGINE_MAX; e++)
        parquet_row_int(row, c->count[e], (int64_t)s->count[e]);
}

static int write_item(const struct hierarchy *h, enum hier_layer layer, const struct hier_item *item,
                      struct parquet_row *row, struct kymo_buf *b, struct kymo_err *err)
{
    const struct columns *c = &tables[layer];
    const struct hier_record *r = &h->records[layer][item->record];
    parquet_row_int(row, c->id, (int64_t)parquet_row_count(row));
    for (int i = 0; i < HIER_LAYERS; i++)
        parquet_row_int(row, c->ids[i], item->ids[i]);
    parquet_row_string(row, c->name, hier_record_name(r));
    parquet_row_int(row, c->call, item->call);
    if (c->pcore != ABSENT)
        parquet_row_int(row, c->pcore, r->pcore);
    put_sums(row, c, &item->sums);
    put_intervals(row, c, &item->sums.busy, b);
    return parquet_row_end(row, err);
}

int hierarchy_write(struct hierarchy *h, enum hier_layer layer, struct hier_items *items, struct kymo_err *err)
{
    const struct kymo_table *table = kymo_schema_table(tables[layer].table);
    struct parquet_row *row;
    if (sort_items(h, layer, items) < 0)
        return kymo_err_set(err, -ENOMEM, "no memory for the rows of %s", table->name);
    int r = parquet_row_open(h->job->dir, table, &h->job->parquet, &row, err);
    if (r < 0)
        return r;
    struct kymo_buf b KYMO_CLEANUP(kymo_buf_done);
    kymo_buf_init(&b, TEXT_MAX);
    for (size_t i = 0; i < items->count && r == 0; i++) {
        h->coarse += items->list[i].sums.busy.coarse;
        r = write_item(h, layer, &items->list[i], row, &b, err);
    }
    if (r < 0) {
        parquet_row_discard(row);
        return r;
    }
    return parquet_row_finish(row, err);
}
