#include "formats/parquet/parquet_chunk.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/le.h"
#include "formats/parquet/parquet_rle.h"
#include "formats/parquet/parquet_simd.h"
#include "formats/parquet/parquet_split.h"
#include "formats/parquet/parquet_thrift.h"

#define NULL_ID UINT32_MAX
/* A dictionary of more values than this, more than half as many as there are rows, is not worth its indices. */
#define DICT_DENSE_MIN 16384
#define WORK_MAX PARQUET_WORK_VALUES_MAX
/* In shorter pages a dictionary of reals is not worth its own page. */
#define REALS_ROWS_MIN 1024

size_t parquet_type_size(enum kymo_type type)
{
    switch (type) {
    case KYMO_TYPE_INT32:
    case KYMO_TYPE_FLOAT:
        return 4;
    case KYMO_TYPE_BOOL:
        return 1;
    default:
        return 8;
    }
}

static enum kymo_type leaf_type(enum kymo_type type)
{
    switch (type) {
    case KYMO_TYPE_LIST_INT32:
        return KYMO_TYPE_INT32;
    case KYMO_TYPE_LIST_INT64:
        return KYMO_TYPE_INT64;
    case KYMO_TYPE_LIST_STRING:
        return KYMO_TYPE_STRING;
    default:
        return type;
    }
}

static enum parquet_order order_of(enum kymo_type leaf)
{
    if (leaf == KYMO_TYPE_STRING)
        return PARQUET_ORDER_BYTES;
    return leaf == KYMO_TYPE_FLOAT || leaf == KYMO_TYPE_DOUBLE ? PARQUET_ORDER_REAL : PARQUET_ORDER_INT;
}

void parquet_chunk_init(struct parquet_chunk *c, const struct kymo_column *column)
{
    *c = (struct parquet_chunk){.column = column, .leaf_type = leaf_type(column->type)};
    c->is_list = c->leaf_type != column->type;
    c->max_def = (uint8_t)(!column->required + 2 * c->is_list);
    c->max_rep = c->is_list;
    parquet_dict_init(&c->leaf, order_of(c->leaf_type));
    parquet_dict_init(&c->lists, PARQUET_ORDER_BYTES);
    kymo_buf_init(&c->data, PARQUET_CHUNK_BYTES_MAX);
}

void parquet_chunk_done(struct parquet_chunk *c)
{
    parquet_dict_done(&c->leaf);
    parquet_dict_done(&c->lists);
    kymo_buf_done(&c->data);
    kymo_free(c->pages);
    kymo_free(c->local);
    kymo_free(c->used);
    parquet_reals_free(c->reals);
    *c = (struct parquet_chunk){0};
}

void parquet_chunk_forget(struct parquet_chunk *c)
{
    const struct kymo_column *column = c->column;
    parquet_chunk_done(c);
    parquet_chunk_init(c, column);
}

void parquet_chunk_reset(struct parquet_chunk *c)
{
    for (size_t i = 0; i < c->used_count; i++)
        c->local[c->used[i]] = 0;
    kymo_buf_reset(&c->data);
    c->page_count = c->used_count = c->dict_bytes = 0;
    c->values = c->nulls = 0;
    c->no_dict = c->unsorted = false;
}

int parquet_chunk_compare(const struct parquet_chunk *c, uint64_t a, uint64_t b)
{
    return c->leaf.order == PARQUET_ORDER_BYTES ? parquet_dict_compare(&c->leaf, (uint32_t)a, (uint32_t)b)
                                                : parquet_order_compare(c->leaf.order, a, b);
}

static void bound(const struct parquet_chunk *c, struct parquet_page *p, uint64_t v)
{
    if (parquet_order_is_nan(c->leaf.order, v))
        return;
    if (!p->bounded) {
        p->min = p->max = v;
        p->bounded = true;
    } else if (parquet_chunk_compare(c, v, p->min) < 0) {
        p->min = v;
    } else if (parquet_chunk_compare(c, v, p->max) > 0) {
        p->max = v;
    }
}

void parquet_page_bound(const struct parquet_chunk *c, struct parquet_page *p, uint32_t id)
{
    bound(c, p, c->leaf.order == PARQUET_ORDER_BYTES ? id : c->leaf.values[id]);
}

static int new_page(struct parquet_chunk *c, struct parquet_page page)
{
    int rc = PARQUET_GROW(c->pages, c->page_cap, c->page_count + 1, PARQUET_CHUNK_PAGES_MAX);
    if (rc < 0)
        return rc;
    c->pages[c->page_count++] = page;
    c->values += page.levels;
    c->nulls += page.nulls;
    return 0;
}

int parquet_chunk_add_null(struct parquet_chunk *c, size_t rows)
{
    uint32_t n = (uint32_t)rows;

    return new_page(c, (struct parquet_page){.rows = n, .levels = n, .nulls = n});
}

int parquet_chunk_add(struct parquet_chunk *c, struct parquet_work *w, struct parquet_page page)
{
    page.off = c->data.len;
    page.raw_len = (uint32_t)w->body.len;
    int rc = parquet_work_compress(w, &c->data, &c->raw_run);
    if (rc < 0)
        return rc;
    page.len = c->data.len - page.off;
    return new_page(c, page);
}

int parquet_append_levels(struct kymo_buf *b, uint32_t *v, size_t n, unsigned max)
{
    size_t at = b->len;
    int rc = kymo_buf_append(b, "\0\0\0\0", 4);

    if (rc == 0)
        rc = parquet_rle_append(b, v, n, parquet_rle_width(max));
    if (rc == 0)
        kymo_put_le32(b->data + at, (uint32_t)(b->len - at - 4));
    return rc;
}

int parquet_chunk_local(struct parquet_chunk *c, uint32_t id, uint32_t *ret)
{
    if (id >= c->leaf.count)
        return -EINVAL;
    size_t had = c->local_cap;
    int rc = PARQUET_GROW(c->local, c->local_cap, c->leaf.count, PARQUET_DICT_MAX);
    if (rc < 0)
        return rc;
    if (c->local_cap > had)
        memset(c->local + had, 0, (c->local_cap - had) * sizeof *c->local);
    if (c->local[id] > 0) {
        *ret = c->local[id] - 1;
        return 0;
    }
    size_t bytes =
        c->leaf.order == PARQUET_ORDER_BYTES ? 4 + (size_t)c->leaf.lens[id] : parquet_type_size(c->leaf_type);
    if (c->dict_bytes + bytes > PARQUET_DICT_PAGE_MAX) {
        *ret = NULL_ID;
        return 0;
    }
    rc = PARQUET_GROW(c->used, c->used_cap, c->used_count + 1, PARQUET_DICT_MAX);
    if (rc < 0)
        return rc;
    *ret = (uint32_t)c->used_count;
    c->used[c->used_count++] = id;
    c->local[id] = (uint32_t)c->used_count;
    c->dict_bytes += bytes;
    return 0;
}

void parquet_chunk_give_up(struct parquet_chunk *c, size_t count)
{
    while (c->used_count > count)
        c->local[c->used[--c->used_count]] = 0;
    c->no_dict = true;
}

static uint32_t id_of(const struct parquet_index *x, const uint32_t *map, size_t k)
{
    uint32_t id = x->ids[k];

    return map && id != NULL_ID ? map[id] : id;
}

/* split_rows when all values have ranks and numbers, as they mostly do after the first pages. False: one has not. */
static bool split_known(const struct parquet_chunk *c, struct parquet_work *w, const struct parquet_index *x,
                        const uint32_t *map, struct parquet_page *page)
{
    const struct parquet_dict *d = &c->leaf;
    uint32_t low = NULL_ID, high = 0, nulls = 0;

    if (c->no_dict || d->ranked != d->count || c->local_cap < d->count)
        return false;
    for (size_t k = 0; k < x->distinct; k++) {
        uint32_t id = id_of(x, map, k);
        w->split[k] = NULL_ID;
        if (id == NULL_ID) {
            nulls += x->counts[k];
            continue;
        }
        if (id >= d->count || c->local[id] == 0)
            return false;
        w->split[k] = c->local[id] - 1;
        /* A NaN's rank is the greatest number: never the least, and one more than it is 0. */
        uint32_t rank = d->rank[id];
        low = rank < low ? rank : low;
        high = rank + 1 > high ? rank + 1 : high;
    }
    page->nulls = nulls;
    if (high > 0) {
        parquet_page_bound(c, page, d->by_rank[low]);
        parquet_page_bound(c, page, d->by_rank[high - 1]);
    }
    return true;
}

/*
 * w->split: by distinct id, the number in the row group's dictionary, or NULL_ID. In order of first appearance, so that
 * columns which split the rows alike get the same numbers.
 */
static int split_rows(struct parquet_chunk *c, struct parquet_work *w, const struct parquet_index *x,
                      const uint32_t *map, struct parquet_page *page)
{
    size_t before = c->used_count;
    int rc = PARQUET_GROW(w->split, w->split_cap, x->distinct, PARQUET_INDEX_ROWS_MAX);

    if (rc == 0 && !c->no_dict)
        rc = parquet_dict_rank(&c->leaf);
    if (rc == 0 && split_known(c, w, x, map, page))
        return 0;
    for (size_t k = 0; rc == 0 && k < x->distinct; k++) {
        uint32_t id = id_of(x, map, k);
        w->split[k] = NULL_ID;
        if (id == NULL_ID) {
            page->nulls += x->counts[k];
            continue;
        }
        if (id >= c->leaf.count)
            return -EINVAL;
        parquet_page_bound(c, page, id);
        if (c->no_dict)
            continue;
        rc = parquet_chunk_local(c, id, &w->split[k]);
        if (rc == 0 && w->split[k] == NULL_ID)
            parquet_chunk_give_up(c, before);
    }
    if (rc == 0 && !c->no_dict && c->used_count > before && c->used_count > DICT_DENSE_MIN &&
        c->used_count * 2 > c->values - c->nulls + (page->rows - page->nulls))
        parquet_chunk_give_up(c, before);
    return rc;
}

static int room_for_rows(struct parquet_work *w, size_t n)
{
    int rc = PARQUET_GROW(w->ids, w->ids_cap, n + PARQUET_RLE_PAD, WORK_MAX);

    return rc == 0 ? PARQUET_GROW(w->defs, w->defs_cap, n + PARQUET_RLE_PAD, WORK_MAX) : rc;
}

/* The page's levels; valid has a byte per row and is looked at when there are nulls. */
static int append_defs(const struct parquet_chunk *c, struct kymo_buf *b, const struct parquet_page *page,
                       const uint8_t *valid)
{
    if (c->max_def == 0)
        return 0;
    size_t at = b->len, groups = (page->levels + 7u) / 8;
    int rc = kymo_buf_reserve(b, 4 + PARQUET_VARINT_MAX + groups + 8);
    if (rc < 0)
        return rc;
    b->len += 4;
    if (page->nulls == 0) {
        rc = parquet_rle_append_run(b, 1, page->levels, 1);
    } else {
        b->len += parquet_varint(groups << 1 | 1, b->data + b->len);
        parquet_pack_bools(valid, page->levels, b->data + b->len);
        b->len += groups;
    }
    kymo_put_le32(b->data + at, (uint32_t)(b->len - at - 4));
    return rc;
}

/* A page whose body is there already. */
static int copy_page(struct parquet_chunk *c, struct parquet_page page, const struct kymo_buf *buf, size_t off,
                     size_t len, uint32_t raw_len)
{
    page.off = c->data.len;
    page.len = len;
    page.raw_len = raw_len;
    int rc = kymo_buf_append(&c->data, buf->data + off, len);
    return rc < 0 ? rc : new_page(c, page);
}

/* A page of dictionary numbers: from the bodies kept, or encoded and kept. */
static int dict_page(struct parquet_chunk *c, struct parquet_work *w, struct parquet_index *x, struct parquet_page page)
{
    bool levels = c->max_def > 0;
    const struct parquet_body *kept = parquet_index_find(x, w->split, levels);

    page.encoding = PARQUET_RLE_DICTIONARY;
    if (kept)
        return copy_page(c, page, kept->buf, kept->off, kept->len, kept->raw_len);
    kymo_buf_reset(&w->body);
    int rc = parquet_split_append(&w->body, x, w->split, levels, page.nulls);
    if (rc == 0)
        rc = parquet_chunk_add(c, w, page);
    if (rc < 0)
        return rc;
    const struct parquet_page *made = &c->pages[c->page_count - 1];
    return parquet_index_keep(x, w->split, levels, &c->data, made->off, made->len, made->raw_len);
}

static int append_bools(struct kymo_buf *b, const uint8_t *v, size_t n)
{
    int rc = kymo_buf_reserve(b, n / 8 + 1);
    if (rc < 0)
        return rc;
    parquet_pack_bools(v, n, b->data + b->len);
    b->len += (n + 7) / 8;
    return 0;
}

/* n values of the leaf's type, none null, in the encoding that suits it without a dictionary. */
static int append_values(const struct parquet_chunk *c, struct kymo_buf *b, const void *v, size_t n,
                         enum parquet_encoding *ret)
{
    *ret = PARQUET_PLAIN;
    switch (c->leaf_type) {
    case KYMO_TYPE_INT64:
        *ret = PARQUET_DELTA_BINARY_PACKED;
        return parquet_delta_append64(b, v, n);
    case KYMO_TYPE_INT32:
        *ret = PARQUET_DELTA_BINARY_PACKED;
        return parquet_delta_append32(b, v, n);
    case KYMO_TYPE_BOOL:
        return append_bools(b, v, n);
    default:
        return kymo_buf_append(b, v, n * parquet_type_size(c->leaf_type));
    }
}

static void put_scalar(const struct parquet_chunk *c, void *out, size_t i, uint64_t bits)
{
    double real;

    switch (c->leaf_type) {
    case KYMO_TYPE_INT32:
        ((int32_t *)out)[i] = (int32_t)(int64_t)bits;
        break;
    case KYMO_TYPE_FLOAT:
        memcpy(&real, &bits, sizeof real);
        ((float *)out)[i] = (float)real;
        break;
    case KYMO_TYPE_BOOL:
        ((uint8_t *)out)[i] = bits != 0;
        break;
    default:
        ((uint64_t *)out)[i] = bits;
    }
}

int parquet_chunk_plain(struct parquet_chunk *c, struct parquet_work *w, const uint32_t *ids, size_t n,
                        enum parquet_encoding *ret)
{
    struct kymo_buf *b = &w->body;
    int rc = 0;

    *ret = PARQUET_PLAIN;
    if (c->leaf_type == KYMO_TYPE_STRING) {
        for (size_t i = 0; rc == 0 && i < n; i++) {
            uint32_t len = c->leaf.lens[ids[i]];
            rc = kymo_buf_append(b, &len, 4);
            if (rc == 0)
                rc = kymo_buf_append(b, parquet_dict_data(&c->leaf, ids[i]), len);
        }
        return rc;
    }
    rc = PARQUET_GROW(w->values, w->values_cap, n, WORK_MAX);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++)
        put_scalar(c, w->values, i, c->leaf.values[ids[i]]);
    return append_values(c, b, w->values, n, ret);
}

/* Rows from `from` on that together stay near the goal for a page. */
static size_t slice_of(const struct parquet_chunk *c, const struct parquet_index *x, const uint32_t *map, size_t from)
{
    if (c->leaf_type != KYMO_TYPE_STRING)
        return x->n - from;
    size_t bytes = 0, i = from;
    while (i < x->n && (i == from || bytes < PARQUET_PAGE_BYTES_GOAL)) {
        uint32_t id = id_of(x, map, x->place[i++]);
        bytes += id == NULL_ID ? 0 : 4 + (size_t)c->leaf.lens[id];
    }
    return i - from;
}

/* The rows of x without dictionary, as one page or, for strings, as many as keep their size. */
static int plain_pages(struct parquet_chunk *c, struct parquet_work *w, const struct parquet_index *x,
                       const uint32_t *map)
{
    size_t rows;
    int rc = room_for_rows(w, x->n);
    /* The levels' memory serves as bytes here. */
    uint8_t *valid = (uint8_t *)w->defs;

    for (size_t from = 0; rc == 0 && from < x->n; from += rows) {
        rows = slice_of(c, x, map, from);
        struct parquet_page page = {.rows = (uint32_t)rows, .levels = (uint32_t)rows};
        size_t k = 0;
        for (size_t i = 0; i < rows; i++) {
            uint32_t id = id_of(x, map, x->place[from + i]);
            valid[i] = id != NULL_ID;
            page.nulls += id == NULL_ID;
            if (id != NULL_ID) {
                parquet_page_bound(c, &page, id);
                w->ids[k++] = id;
            }
        }
        kymo_buf_reset(&w->body);
        rc = append_defs(c, &w->body, &page, valid);
        if (rc == 0)
            rc = parquet_chunk_plain(c, w, w->ids, k, &page.encoding);
        if (rc == 0)
            rc = parquet_chunk_add(c, w, page);
    }
    return rc;
}

static struct parquet_index *index_of(struct parquet_work *w, const uint32_t *key)
{
    for (size_t i = 0; i < w->index_count; i++) {
        if (w->index[i].key == key)
            return &w->index[i];
    }
    return NULL;
}

static int take_index(struct parquet_work *w, const struct parquet_column *in, size_t n, size_t limit,
                      struct parquet_index **ret)
{
    struct parquet_index *x = index_of(w, in->index);

    if (!x) {
        x = &w->index[w->index_next];
        w->index_next = (w->index_next + 1) % PARQUET_WORK_INDEXES;
        if (w->index_count < PARQUET_WORK_INDEXES)
            w->index_count++;
        int rc = parquet_index_build(x, in->index, n, limit);
        if (rc < 0)
            return rc;
    }
    if (x->need > limit)
        return -EINVAL;
    *ret = x;
    return 0;
}

static int rows_by_index(struct parquet_chunk *c, struct parquet_work *w, const struct parquet_column *in, size_t n,
                         struct kymo_err *err)
{
    const struct parquet_dict *d = c->is_list ? &c->lists : &c->leaf;
    struct parquet_index *x;
    int rc = take_index(w, in, n, in->map ? in->map_len : d->count, &x);

    if (rc < 0)
        return kymo_err_set(err, rc, "column %s: an index is beyond its map or dictionary", c->column->name);
    if (c->is_list)
        return parquet_chunk_lists(c, w, x, in->map, err);
    c->unsorted = true;
    struct parquet_page page = {.rows = (uint32_t)n, .levels = (uint32_t)n};
    /* Parquet has no dictionaries of booleans. */
    c->no_dict = c->no_dict || c->leaf_type == KYMO_TYPE_BOOL;
    rc = split_rows(c, w, x, in->map, &page);
    if (rc < 0)
        return kymo_err_set(err, rc, "column %s: cannot look up its values", c->column->name);
    if (page.nulls > 0 && c->column->required)
        return kymo_err_set(err, -EINVAL, "column %s: %" PRIu32 " nulls in a required column", c->column->name,
                            page.nulls);
    if (page.nulls == page.rows)
        rc = parquet_chunk_add_null(c, n);
    else
        rc = c->no_dict ? plain_pages(c, w, x, in->map) : dict_page(c, w, x, page);
    return rc < 0 ? kymo_err_set(err, rc, "column %s: cannot encode a page", c->column->name) : 0;
}

static uint64_t scalar_at(const struct parquet_chunk *c, const void *v, size_t i)
{
    double real;
    uint64_t bits;

    switch (c->leaf_type) {
    case KYMO_TYPE_INT32:
        return (uint64_t)(int64_t)((const int32_t *)v)[i];
    case KYMO_TYPE_FLOAT:
        real = (double)((const float *)v)[i];
        memcpy(&bits, &real, sizeof bits);
        return bits;
    case KYMO_TYPE_BOOL:
        return ((const uint8_t *)v)[i] != 0;
    default:
        return ((const uint64_t *)v)[i];
    }
}

struct extent {
    int64_t min, max;
    bool fell; /* some value is below the one before it */
};

/* The common types by themselves, so that each becomes one tight loop. */
#define EXTENT(SUFFIX, TYPE)                                                                                           \
    PARQUET_INLINE struct extent extent_body##SUFFIX(const TYPE *v, size_t n) {                                        \
        TYPE min = v[0], max = v[0], fell = 0;                                                                         \
        for (size_t i = 1; i < n; i++) {                                                                               \
            min = v[i] < min ? v[i] : min;                                                                             \
            max = v[i] > max ? v[i] : max;                                                                             \
            fell |= v[i] < v[i - 1] ? -1 : 0;                                                                          \
        }                                                                                                              \
        return (struct extent){min, max, fell != 0};                                                                   \
    } PARQUET_AVX2 static struct extent extent_avx2##SUFFIX(const TYPE *v, size_t n) {                                 \
        return extent_body##SUFFIX(v, n);                                                                              \
    } static struct extent extent##SUFFIX(const TYPE *v, size_t n) {                                                   \
        return parquet_has_avx2() ? extent_avx2##SUFFIX(v, n) : extent_body##SUFFIX(v, n);                             \
    }

EXTENT(64, int64_t)
EXTENT(32, int32_t)

static void bound_ints(struct parquet_chunk *c, struct parquet_page *p, struct extent e, int64_t first, int64_t last)
{
    p->min = (uint64_t)e.min;
    p->max = (uint64_t)e.max;
    p->bounded = true;
    c->unsorted = c->unsorted || e.fell || p->nulls > 0 || (c->page_count > 0 && first < (int64_t)c->last);
    c->last = (uint64_t)last;
}

/* Bits of a float as a number that orders as the float does, and back: the same step. */
static inline uint32_t ordered(uint32_t bits)
{
    return bits ^ (bits >> 31 ? 0x7fffffffu : 0);
}

/* Least and greatest of floats by their bits; fell: there is a NaN, and they are void. */
PARQUET_INLINE struct extent reals_body(const uint32_t *bits, size_t n)
{
    int32_t min = INT32_MAX, max = INT32_MIN, nan = 0;

    for (size_t i = 0; i < n; i++) {
        int32_t v = (int32_t)ordered(bits[i]);
        min = v < min ? v : min;
        max = v > max ? v : max;
        nan |= (int32_t)(bits[i] & 0x7fffffff) > 0x7f800000 ? -1 : 0;
    }
    return (struct extent){min, max, nan != 0};
}

PARQUET_AVX2 static struct extent reals_avx2(const uint32_t *bits, size_t n)
{
    return reals_body(bits, n);
}

static uint64_t real_of_ordered(int64_t v)
{
    uint32_t bits = ordered((uint32_t)v);
    float single;
    uint64_t ret;

    memcpy(&single, &bits, sizeof single);
    double real = (double)single;
    memcpy(&ret, &real, sizeof ret);
    return ret;
}

/* False: there is a NaN among them. */
static bool bound_floats(struct parquet_chunk *c, struct parquet_page *p, const void *v, size_t n)
{
    struct extent e = parquet_has_avx2() ? reals_avx2(v, n) : reals_body(v, n);

    if (e.fell)
        return false;
    p->min = real_of_ordered(e.min);
    p->max = real_of_ordered(e.max);
    p->bounded = true;
    c->unsorted = true;
    return true;
}

static void bound_values(struct parquet_chunk *c, struct parquet_page *p, const void *v, size_t n)
{
    if (c->leaf_type == KYMO_TYPE_INT64) {
        const int64_t *i = v;
        bound_ints(c, p, extent64(i, n), i[0], i[n - 1]);
        return;
    }
    if (c->leaf_type == KYMO_TYPE_INT32) {
        const int32_t *i = v;
        bound_ints(c, p, extent32(i, n), i[0], i[n - 1]);
        return;
    }
    if (c->leaf_type == KYMO_TYPE_FLOAT && bound_floats(c, p, v, n))
        return;
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = scalar_at(c, v, i);
        bound(c, p, bits);
    }
    c->unsorted = true;
}

/* Those of n values of a size that are valid, to the front of out; returns their number. */
static inline __attribute__((always_inline)) size_t compact(const uint8_t *from, const uint8_t *valid, size_t n,
                                                            uint8_t *to, const size_t size)
{
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        memcpy(to + k * size, from + i * size, size);
        k += valid[i] != 0;
    }
    return k;
}

/* w->values: those that are valid. */
static int pick_valid(struct parquet_chunk *c, struct parquet_work *w, const struct parquet_column *in, size_t n,
                      struct parquet_page *page)
{
    int rc = PARQUET_GROW(w->values, w->values_cap, n, WORK_MAX);
    if (rc < 0)
        return rc;
    uint8_t *to = (uint8_t *)w->values;
    size_t size = parquet_type_size(c->leaf_type), k;
    /* A constant size each, or every row would be a call. */
    if (size == 8)
        k = compact(in->values, in->valid, n, to, 8);
    else if (size == 4)
        k = compact(in->values, in->valid, n, to, 4);
    else
        k = compact(in->values, in->valid, n, to, 1);
    page->nulls = (uint32_t)(n - k);
    return 0;
}

static const struct parquet_made *find_made(const struct parquet_chunk *c, const struct parquet_work *w,
                                            const struct parquet_column *in)
{
    for (size_t i = 0; i < w->made_count; i++) {
        const struct parquet_made *m = &w->made[i];
        if (m->values == in->values && m->valid == in->valid && m->type == c->leaf_type &&
            m->levels == (c->max_def > 0))
            return m;
    }
    return NULL;
}

static void keep_made(const struct parquet_chunk *c, struct parquet_work *w, const struct parquet_column *in)
{
    const struct parquet_page *p = &c->pages[c->page_count - 1];

    if (w->made_count < PARQUET_WORK_MADE)
        w->made[w->made_count++] = (struct parquet_made){.values = in->values,
                                                         .valid = in->valid,
                                                         .type = c->leaf_type,
                                                         .levels = c->max_def > 0,
                                                         .encoding = p->encoding,
                                                         .buf = &c->data,
                                                         .off = p->off,
                                                         .len = p->len,
                                                         .raw_len = p->raw_len};
}

/* v: the page's values that are not null. */
static int value_page(struct parquet_chunk *c, struct parquet_work *w, const struct parquet_column *in, const void *v,
                      struct parquet_page page)
{
    const struct parquet_made *made = find_made(c, w, in);

    bound_values(c, &page, v, page.rows - page.nulls);
    if (made) {
        page.encoding = made->encoding;
        return copy_page(c, page, made->buf, made->off, made->len, made->raw_len);
    }
    kymo_buf_reset(&w->body);
    int rc = append_defs(c, &w->body, &page, in->valid);
    if (rc == 0)
        rc = append_values(c, &w->body, v, page.rows - page.nulls, &page.encoding);
    if (rc == 0)
        rc = parquet_chunk_add(c, w, page);
    if (rc == 0)
        keep_made(c, w, in);
    return rc;
}

/* 1: the column's reals are too many, or too few rows, for a dictionary. */
static int reals_by_index(struct parquet_chunk *c, struct parquet_work *w, const struct parquet_column *in, size_t n,
                          struct kymo_err *err)
{
    bool real = c->leaf_type == KYMO_TYPE_FLOAT || c->leaf_type == KYMO_TYPE_DOUBLE;

    if (!real || c->many_reals || c->no_dict || n < REALS_ROWS_MIN)
        return 1;
    int rc = room_for_rows(w, n);
    if (rc == 0)
        rc = parquet_reals_number(&c->reals, &c->leaf, in->values, in->valid, n, c->leaf_type == KYMO_TYPE_FLOAT,
                                  w->ids);
    if (rc < 0)
        return kymo_err_set(err, rc, "column %s: no memory for its dictionary", c->column->name);
    if (rc > 0) {
        c->many_reals = true;
        return 1;
    }
    const struct parquet_column by_index = {.index = w->ids};
    rc = rows_by_index(c, w, &by_index, n, err);
    /* The array is the next column's too. */
    struct parquet_index *x = index_of(w, w->ids);
    if (x)
        x->key = NULL;
    return rc;
}

static int rows_by_value(struct parquet_chunk *c, struct parquet_work *w, const struct parquet_column *in, size_t n,
                         struct kymo_err *err)
{
    struct parquet_page page = {.rows = (uint32_t)n, .levels = (uint32_t)n};
    const void *v = in->values;
    int rc = reals_by_index(c, w, in, n, err);

    if (rc <= 0)
        return rc;
    rc = 0;
    if (in->valid && memchr(in->valid, 0, n)) {
        rc = pick_valid(c, w, in, n, &page);
        v = w->values;
    }
    if (rc == 0 && page.nulls > 0 && c->column->required)
        return kymo_err_set(err, -EINVAL, "column %s: %" PRIu32 " nulls in a required column", c->column->name,
                            page.nulls);
    if (rc == 0 && page.nulls == page.rows) {
        c->unsorted = true;
        rc = parquet_chunk_add_null(c, n);
    } else if (rc == 0) {
        rc = value_page(c, w, in, v, page);
    }
    return rc < 0 ? kymo_err_set(err, rc, "column %s: cannot encode a page", c->column->name) : 0;
}

int parquet_chunk_rows(struct parquet_chunk *c, struct parquet_work *w, const struct parquet_column *in, size_t n,
                       struct kymo_err *err)
{
    if (in->index)
        return rows_by_index(c, w, in, n, err);
    if (in->values && (c->is_list || c->leaf_type == KYMO_TYPE_STRING))
        return kymo_err_set(err, -EINVAL, "column %s: strings and lists are given by index", c->column->name);
    if (in->values)
        return rows_by_value(c, w, in, n, err);
    if (c->column->required)
        return kymo_err_set(err, -EINVAL, "column %s: a required column is not given", c->column->name);
    c->unsorted = true;
    int rc = parquet_chunk_add_null(c, n);
    return rc < 0 ? kymo_err_set(err, rc, "column %s: cannot add a page", c->column->name) : 0;
}
