/* Pages of lists: repetition and definition levels, and the elements behind them. Declared in parquet_chunk.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/le.h"
#include "formats/parquet/parquet_chunk.h"
#include "formats/parquet/parquet_rle.h"

#define NULL_ID UINT32_MAX

struct slice {
    size_t rows, levels, elements;
    uint32_t nulls; /* rows */
};

static uint32_t list_at(const struct parquet_index *x, const uint32_t *map, size_t row)
{
    uint32_t id = x->ids[x->place[row]];

    return map && id != NULL_ID ? map[id] : id;
}

static size_t elements_of(const struct parquet_chunk *c, uint32_t list)
{
    return c->lists.lens[list] / 4;
}

static int check_lists(const struct parquet_chunk *c, const struct parquet_index *x, const uint32_t *map,
                       uint64_t *ret_nulls)
{
    *ret_nulls = 0;
    for (size_t k = 0; k < x->distinct; k++) {
        uint32_t id = map && x->ids[k] != NULL_ID ? map[x->ids[k]] : x->ids[k];
        if (id == NULL_ID)
            *ret_nulls += x->counts[k];
        else if (id >= c->lists.count)
            return -EINVAL;
    }
    return 0;
}

/* Rows from `from` on, one at least, whose levels stay near the goal for a page. */
static struct slice measure(const struct parquet_chunk *c, const struct parquet_index *x, const uint32_t *map,
                            size_t from)
{
    struct slice s = {0};

    while (from + s.rows < x->n && s.levels < PARQUET_PAGE_LEVELS_GOAL) {
        uint32_t id = list_at(x, map, from + s.rows);
        size_t n = id == NULL_ID ? 0 : elements_of(c, id);
        s.nulls += id == NULL_ID;
        s.elements += n;
        s.levels += n > 0 ? n : 1;
        s.rows++;
    }
    return s;
}

static int room(struct parquet_work *w, const struct slice *s)
{
    size_t n = s->levels + PARQUET_RLE_PAD;
    int rc = PARQUET_GROW(w->reps, w->reps_cap, n, PARQUET_WORK_VALUES_MAX);

    if (rc == 0)
        rc = PARQUET_GROW(w->defs, w->defs_cap, n, PARQUET_WORK_VALUES_MAX);
    if (rc == 0)
        rc = PARQUET_GROW(w->ids, w->ids_cap, n, PARQUET_WORK_VALUES_MAX);
    return rc;
}

/* Levels: 0 null (in optional columns), then empty, (a null element, which never is,) and an element. */
static void spread(const struct parquet_chunk *c, struct parquet_work *w, const struct parquet_index *x,
                   const uint32_t *map, size_t from, const struct slice *s)
{
    const uint32_t empty = c->max_def - 2u, element = c->max_def;
    size_t at = 0, k = 0;

    for (size_t i = 0; i < s->rows; i++) {
        uint32_t id = list_at(x, map, from + i);
        size_t n = id == NULL_ID ? 0 : elements_of(c, id);
        if (n == 0) {
            w->reps[at] = 0;
            w->defs[at++] = id == NULL_ID ? 0 : empty;
            continue;
        }
        const uint8_t *e = parquet_dict_data(&c->lists, id);
        for (size_t j = 0; j < n; j++) {
            w->reps[at] = j > 0;
            w->defs[at++] = element;
            w->ids[k++] = kymo_le32(e + 4 * j);
        }
    }
}

static int append_elements(struct parquet_chunk *c, struct parquet_work *w, size_t n, struct parquet_page *page)
{
    size_t before = c->used_count;
    int rc = parquet_dict_rank(&c->leaf);

    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (w->ids[i] >= c->leaf.count)
            return -EINVAL;
        parquet_page_bound(c, page, w->ids[i]);
    }
    for (size_t i = 0; rc == 0 && i < n && !c->no_dict; i++) {
        uint32_t local;
        rc = parquet_chunk_local(c, w->ids[i], &local);
        if (rc == 0 && local == NULL_ID)
            parquet_chunk_give_up(c, before);
    }
    if (rc < 0)
        return rc;
    if (c->no_dict)
        return parquet_chunk_plain(c, w, w->ids, n, &page->encoding);
    uint32_t max = 0;
    for (size_t i = 0; i < n; i++) {
        w->ids[i] = c->local[w->ids[i]] - 1;
        max = w->ids[i] > max ? w->ids[i] : max;
    }
    page->encoding = PARQUET_RLE_DICTIONARY;
    uint8_t width = (uint8_t)(max > 0 ? parquet_rle_width(max) : 1);
    rc = kymo_buf_append(&w->body, &width, 1);
    return rc == 0 ? parquet_rle_append(&w->body, w->ids, n, width) : rc;
}

static int one_page(struct parquet_chunk *c, struct parquet_work *w, const struct parquet_index *x, const uint32_t *map,
                    size_t from, const struct slice *s)
{
    struct parquet_page page = {
        .rows = (uint32_t)s->rows,
        .levels = (uint32_t)s->levels,
        .nulls = (uint32_t)(s->levels - s->elements),
    };
    int rc = room(w, s);
    if (rc < 0)
        return rc;
    spread(c, w, x, map, from, s);
    kymo_buf_reset(&w->body);
    rc = parquet_append_levels(&w->body, w->reps, s->levels, 1);
    if (rc == 0)
        rc = parquet_append_levels(&w->body, w->defs, s->levels, c->max_def);
    if (rc == 0)
        rc = append_elements(c, w, s->elements, &page);
    return rc == 0 ? parquet_chunk_add(c, w, page) : rc;
}

int parquet_chunk_lists(struct parquet_chunk *c, struct parquet_work *w, struct parquet_index *x, const uint32_t *map,
                        struct kymo_err *err)
{
    uint64_t nulls;
    int rc = check_lists(c, x, map, &nulls);

    c->unsorted = true;
    if (rc < 0)
        return kymo_err_set(err, rc, "column %s: a list number is beyond its dictionary", c->column->name);
    if (nulls > 0 && c->column->required)
        return kymo_err_set(err, -EINVAL, "column %s: %" PRIu64 " nulls in a required column", c->column->name, nulls);
    if (nulls == x->n)
        rc = parquet_chunk_add_null(c, x->n);
    for (size_t from = 0; rc == 0 && nulls < x->n && from < x->n;) {
        struct slice s = measure(c, x, map, from);
        rc = one_page(c, w, x, map, from, &s);
        from += s.rows;
    }
    return rc < 0 ? kymo_err_set(err, rc, "column %s: cannot encode a page", c->column->name) : 0;
}
