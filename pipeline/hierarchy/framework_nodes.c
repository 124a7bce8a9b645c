/*
 * FrameworkNode: the segments of the operators' paths. A node holds what all operators at or below its path did; the
 * same path of several NEFFs, cores and calls is one node.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/formulas/formulas.h"
#include "pipeline/hierarchy/hierarchy_impl.h"

#define NODES_MAX (1u << 24)
#define DEPTH_MAX 64               /* segments of a path; the rest is part of the last */
#define LIST_TEXT_MAX (512u << 10) /* names or numbers below a node */
#define TEXT_MAX (64u * INTERVALS_MAX)

struct path { /* of an operator; or the beginning of one, that of a node */
    const char *text;
    size_t len;
    uint32_t item; /* operator */
};

struct node {
    struct path path;
    uint32_t parent;   /* in nodes; HIER_NONE: outermost */
    size_t first, end; /* operators at or below it */
    struct hier_sums sums;
    struct interval *spans; /* of its operators and of the nodes below, until they are one list */
    size_t span_count, span_cap;
    bool coarse;
};

struct nodes {
    struct hierarchy *h;
    const struct hier_items *items;
    struct path *operators;
    size_t operator_count;
    struct node *list; /* parents before children */
    size_t count, cap, limit;
    struct parquet_row *row;
    struct kymo_buf text;
};

static void nodes_done(struct nodes *n)
{
    for (size_t i = 0; i < n->count; i++) {
        intervals_done(&n->list[i].sums.busy);
        kymo_free(n->list[i].spans);
    }
    kymo_free(n->list);
    kymo_free(n->operators);
    kymo_buf_done(&n->text);
}

/* A slash comes before all other characters, so that what lies below a path follows it. */
static int compare_paths(const struct path *x, const struct path *y)
{
    size_t n = x->len < y->len ? x->len : y->len;
    for (size_t i = 0; i < n; i++) {
        unsigned char a = (unsigned char)x->text[i], b = (unsigned char)y->text[i];
        if (a != b)
            return a == '/' ? -1 : b == '/' ? 1 : a < b ? -1 : 1;
    }
    return x->len < y->len ? -1 : x->len > y->len;
}

static int by_path(const void *a, const void *b)
{
    const struct path *x = a, *y = b;
    int c = compare_paths(x, y);
    return c ? c : x->item < y->item ? -1 : x->item > y->item;
}

static bool is_at_or_below(const struct path *x, const struct path *node)
{
    return x->len >= node->len && !memcmp(x->text, node->text, node->len) &&
           (x->len == node->len || x->text[node->len] == '/');
}

/* The next longer beginning of the path that is a node of its own; its whole length at the end. */
static size_t next_segment(const struct path *p, size_t from, unsigned depth)
{
    size_t at = from;
    while (at < p->len && p->text[at] == '/')
        at++;
    if (depth + 1 >= DEPTH_MAX)
        return p->len;
    while (at < p->len && p->text[at] != '/')
        at++;
    return at;
}

static int add_node(struct nodes *n, const struct path *p, size_t len, uint32_t parent)
{
    void *list = n->list;
    int r = kymo_grow(&list, &n->cap, n->count + 1, NODES_MAX, sizeof *n->list);
    n->list = list;
    if (r == 0)
        n->list[n->count++] = (struct node){.path = {p->text, len, 0}, .parent = parent};
    return r;
}

/* Walks the sorted paths with the nodes that the last one went through on a stack. */
static int make_nodes(struct nodes *n)
{
    uint32_t stack[DEPTH_MAX];
    unsigned depth = 0;
    for (size_t i = 0; i < n->operator_count; i++) {
        const struct path *p = &n->operators[i];
        while (depth && !is_at_or_below(p, &n->list[stack[depth - 1]].path))
            n->list[stack[--depth]].end = i;
        for (size_t at = depth ? n->list[stack[depth - 1]].path.len : 0; at < p->len && depth < DEPTH_MAX;) {
            at = next_segment(p, at, depth);
            int r = add_node(n, p, at, depth ? stack[depth - 1] : HIER_NONE);
            if (r < 0)
                return r;
            stack[depth++] = (uint32_t)n->count - 1;
            n->list[n->count - 1].first = i;
        }
    }
    while (depth)
        n->list[stack[--depth]].end = n->operator_count;
    return 0;
}

static int list_operators(struct nodes *n)
{
    n->operators = KYMO_NEW_ARRAY(struct path, n->items->count);
    if (!n->operators)
        return -ENOMEM;
    for (size_t i = 0; i < n->items->count; i++) {
        const char *name = hier_record_name(&n->h->records[HIER_FRAMEWORK][n->items->list[i].record]);
        if (*name)
            n->operators[n->operator_count++] = (struct path){name, strlen(name), (uint32_t)i};
    }
    if (n->operator_count)
        qsort(n->operators, n->operator_count, sizeof *n->operators, by_path);
    return make_nodes(n);
}

static int add_spans(struct node *node, const struct hier_sums *s)
{
    void *p = node->spans;
    int r = kymo_grow(&p, &node->span_cap, node->span_count + s->busy.count, SIZE_MAX / sizeof *node->spans,
                      sizeof *node->spans);
    node->spans = p;
    if (r < 0)
        return r;
    if (s->busy.count)
        memcpy(node->spans + node->span_count, s->busy.list, s->busy.count * sizeof *node->spans);
    node->span_count += s->busy.count;
    node->coarse |= s->busy.coarse;
    hier_sums_add(&node->sums, s);
    return 0;
}

/* Operators that end at this very path are the first of those at or below it. */
static int add_own(struct nodes *n, struct node *node)
{
    int r = 0;
    for (size_t i = node->first; i < node->end && n->operators[i].len == node->path.len && r == 0; i++)
        r = add_spans(node, &n->items->list[n->operators[i].item].sums);
    return r;
}

/* From the last node to the first: all below a node is done when its turn comes. */
static int sum_up(struct nodes *n)
{
    int r = 0;
    for (size_t i = n->count; i-- > 0 && r == 0;) {
        struct node *node = &n->list[i];
        r = add_own(n, node);
        if (r == 0)
            r = intervals_union(&node->sums.busy, node->spans, node->span_count, n->limit);
        kymo_free(node->spans);
        node->spans = NULL;
        node->sums.busy.coarse |= node->coarse;
        if (r == 0 && node->parent != HIER_NONE)
            r = add_spans(&n->list[node->parent], &node->sums);
    }
    return r;
}

static struct path segment_of(const struct nodes *n, const struct node *node)
{
    size_t from = node->parent == HIER_NONE ? 0 : n->list[node->parent].path.len;
    while (from < node->path.len && node->path.text[from] == '/')
        from++;
    return (struct path){node->path.text + from, node->path.len - from, 0};
}

static void put_buffer(struct nodes *n, unsigned column)
{
    if (kymo_buf_append(&n->text, "", 1) == 0)
        parquet_row_string(n->row, column, (const char *)n->text.data);
    kymo_buf_reset(&n->text);
}

static void put_path(struct nodes *n, unsigned column, struct path p)
{
    /* What has no room in memory leaves the column empty, and the row fails for want of it. */
    if (kymo_buf_append(&n->text, p.text, p.len) == 0)
        put_buffer(n, column);
}

/* False: the list is as long as it may get. */
static bool list_item(struct nodes *n, bool first, const char *text, size_t len)
{
    if (n->text.len + len + 4 > LIST_TEXT_MAX)
        return false;
    return kymo_buf_append(&n->text, ", ", first ? 0 : 2) == 0 && kymo_buf_append(&n->text, text, len) == 0;
}

static void put_children(struct nodes *n, size_t at)
{
    bool first = true, whole = kymo_buf_append(&n->text, "[", 1) == 0;
    for (size_t i = at + 1; whole && i < n->count && n->list[i].first < n->list[at].end; i++) {
        if (n->list[i].parent != at)
            continue;
        struct path s = segment_of(n, &n->list[i]);
        whole = list_item(n, first, s.text, s.len);
        first = false;
    }
    n->h->cut += !whole;
    if (kymo_buf_append(&n->text, "]", 1) == 0)
        put_buffer(n, KYMO_FRAMEWORK_NODE_CHILDREN_NAMES);
}

static void put_operators(struct nodes *n, const struct node *node)
{
    bool whole = kymo_buf_append(&n->text, "[", 1) == 0;
    int64_t last = -1;
    for (size_t i = node->first; whole && i < node->end; i++) {
        int64_t id = n->items->list[n->operators[i].item].ids[HIER_FRAMEWORK];
        char number[24];
        int len = snprintf(number, sizeof number, "%lld", (long long)id);
        /* Several calls of one operator follow each other. */
        if (i == node->first || id != last)
            whole = list_item(n, i == node->first, number, (size_t)len);
        last = id;
    }
    n->h->cut += !whole;
    if (kymo_buf_append(&n->text, "]", 1) == 0)
        put_buffer(n, KYMO_FRAMEWORK_NODE_CHILDREN_IDS);
}

/* Of the PE arrays of all physical cores that took part. */
static double utilisation(const struct nodes *n, const struct hier_sums *s, uint64_t elements, int64_t busy)
{
    const struct kymo_arch *a = n->h->job->in->arch;
    unsigned rows = a->pe_rows * (unsigned)__builtin_popcount(s->cores);
    return formulas_element_percent((double)elements, rows, a->pe_cols,
                                    (double)busy * a->clock_ghz[KYMO_ENGINE_TENSOR]);
}

enum per_interval { ELEMENTS, TRANSPOSED, HBM, HFU, MFU, MBU };

static int interval_text(struct nodes *n, const struct hier_sums *s, const struct interval *v, enum per_interval what)
{
    int64_t busy = v->end - v->start;
    switch (what) {
    case ELEMENTS:
        return kymo_buf_printf(&n->text, "%llu", (unsigned long long)v->elements);
    case TRANSPOSED:
        return kymo_buf_printf(&n->text, "%llu", (unsigned long long)v->transposed);
    case HBM:
        return kymo_buf_printf(&n->text, "%llu", (unsigned long long)v->hbm);
    case HFU:
        return kymo_buf_printf(&n->text, "%.6g", utilisation(n, s, v->elements, busy));
    case MFU:
        return kymo_buf_printf(&n->text, "%.6g", utilisation(n, s, v->elements - v->transposed, busy));
    default:
        return kymo_buf_printf(
            &n->text, "%.6g",
            formulas_bandwidth_percent((double)v->hbm, busy, n->h->job->in->arch->hbm_stack_bandwidth));
    }
}

static void put_per_interval(struct nodes *n, const struct hier_sums *s, unsigned column, enum per_interval what)
{
    const struct intervals *v = &s->busy;
    int r = kymo_buf_append(&n->text, "[", 1);
    for (size_t i = 0; i < v->count && r == 0; i++) {
        r = kymo_buf_append(&n->text, ", ", i ? 2 : 0);
        if (r == 0)
            r = interval_text(n, s, &v->list[i], what);
    }
    if (r == 0 && kymo_buf_append(&n->text, "]", 1) == 0)
        put_buffer(n, column);
}

static void put_engine(struct nodes *n, const struct hier_sums *s, enum kymo_engine e, unsigned count, unsigned time)
{
    char text[64] = "[]";
    parquet_row_int(n->row, count, (int64_t)s->count[e]);
    if (s->count[e])
        (void)snprintf(text, sizeof text, "[%lld, %lld]", (long long)s->shortest[e], (long long)s->longest[e]);
    parquet_row_string(n->row, time, text);
}

static void put_sums(struct nodes *n, const struct hier_sums *s)
{
    struct parquet_row *row = n->row;
    int64_t busy = intervals_busy(&s->busy);
    parquet_row_int(row, KYMO_FRAMEWORK_NODE_START_TS, s->start);
    parquet_row_int(row, KYMO_FRAMEWORK_NODE_END_TS, s->end);
    parquet_row_real(row, KYMO_FRAMEWORK_NODE_HFU, utilisation(n, s, s->elements, busy));
    parquet_row_real(row, KYMO_FRAMEWORK_NODE_MFU, utilisation(n, s, s->elements - s->transposed, busy));
    parquet_row_int(row, KYMO_FRAMEWORK_NODE_HBM_READ_BYTES, (int64_t)s->hbm_read);
    parquet_row_int(row, KYMO_FRAMEWORK_NODE_HBM_WRITE_BYTES, (int64_t)s->hbm_write);
    if (s->has_memory) {
        parquet_row_int(row, KYMO_FRAMEWORK_NODE_SBUF_READ_BYTES, (int64_t)s->sbuf_read);
        parquet_row_int(row, KYMO_FRAMEWORK_NODE_SBUF_WRITE_BYTES, (int64_t)s->sbuf_write);
        parquet_row_int(row, KYMO_FRAMEWORK_NODE_LOAD_WEIGHT_BYTES, (int64_t)s->weights);
    }
#define ENGINE(E)                                                                                                      \
    put_engine(n, s, KYMO_ENGINE_##E, KYMO_FRAMEWORK_NODE_##E##_ENGINE_INSTRUCTION_COUNT,                              \
               KYMO_FRAMEWORK_NODE_TOTAL_TIME_##E)
    ENGINE(TENSOR);
    ENGINE(SCALAR);
    ENGINE(SYNC);
    ENGINE(GPSIMD);
    ENGINE(VECTOR);
#undef ENGINE
    parquet_row_int(row, KYMO_FRAMEWORK_NODE_TOTAL_CHANNELS_SCALAR, (int64_t)s->channels[KYMO_ENGINE_SCALAR]);
    parquet_row_int(row, KYMO_FRAMEWORK_NODE_TOTAL_CHANNELS_VECTOR, (int64_t)s->channels[KYMO_ENGINE_VECTOR]);
}

static int write_node(struct nodes *n, size_t at, struct kymo_err *err)
{
    const struct node *node = &n->list[at];
    const struct intervals *busy = &node->sums.busy;
    n->h->coarse += busy->coarse;
    put_path(n, KYMO_FRAMEWORK_NODE_NODE_NAME, segment_of(n, node));
    put_path(n, KYMO_FRAMEWORK_NODE_PATH, node->path);
    if (node->parent != HIER_NONE)
        put_path(n, KYMO_FRAMEWORK_NODE_PARENT_NAME, segment_of(n, &n->list[node->parent]));
    put_children(n, at);
    put_operators(n, node);
    put_sums(n, &node->sums);
    if (intervals_text(busy, &n->text) == 0)
        put_buffer(n, KYMO_FRAMEWORK_NODE_TIME_INTERVALS);
    put_per_interval(n, &node->sums, KYMO_FRAMEWORK_NODE_ELEMENT_COUNT_PER_INTERVAL, ELEMENTS);
    put_per_interval(n, &node->sums, KYMO_FRAMEWORK_NODE_TRANSPOSE_ELEMENT_COUNT_PER_INTERVAL, TRANSPOSED);
    put_per_interval(n, &node->sums, KYMO_FRAMEWORK_NODE_HBM_TRANSFER_SIZE_PER_INTERVAL, HBM);
    put_per_interval(n, &node->sums, KYMO_FRAMEWORK_NODE_HFU_PER_INTERVAL, HFU);
    put_per_interval(n, &node->sums, KYMO_FRAMEWORK_NODE_MFU_PER_INTERVAL, MFU);
    put_per_interval(n, &node->sums, KYMO_FRAMEWORK_NODE_MBU_PER_INTERVAL, MBU);
    return parquet_row_end(n->row, err);
}

struct order {
    int64_t start;
    size_t node;
};

static int by_start(const void *a, const void *b)
{
    const struct order *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static int write_nodes(struct nodes *n, struct kymo_err *err)
{
    struct order *order KYMO_FREE = KYMO_NEW_ARRAY(struct order, n->count);
    if (!order)
        return kymo_err_set(err, -ENOMEM, "no memory for %zu framework nodes", n->count);
    for (size_t i = 0; i < n->count; i++)
        order[i] = (struct order){n->list[i].sums.start, i};
    if (n->count)
        qsort(order, n->count, sizeof *order, by_start);
    int r =
        parquet_row_open(n->h->job->dir, kymo_schema_table(KYMO_T_FRAMEWORK_NODE), &n->h->job->parquet, &n->row, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n->count && r == 0; i++)
        r = write_node(n, order[i].node, err);
    if (r < 0) {
        parquet_row_discard(n->row);
        return r;
    }
    return parquet_row_finish(n->row, err);
}

int hierarchy_write_nodes(struct hierarchy *h, const struct hier_items *items, struct kymo_err *err)
{
    struct nodes n KYMO_CLEANUP(nodes_done) = {.h = h, .items = items};
    kymo_buf_init(&n.text, LIST_TEXT_MAX + TEXT_MAX);
    int r = list_operators(&n);
    n.limit = intervals_limit(n.count);
    if (r == 0)
        r = sum_up(&n);
    if (r < 0)
        return kymo_err_set(err, r, "no memory for %zu framework nodes", n.count);
    return write_nodes(&n, err);
}
