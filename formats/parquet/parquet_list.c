/* Pages of lists: repetition and definition levels, and the elements behind them. Declared in parquet_chunk.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/le.h"
#include "formats/parquet/parquet_chunk.h"
#include "formats/parquet/parquet_rle.h"
#include "formats/parquet/parquet_split.h"

#define NULL_ID UINT32_MAX

/* One page's rows of x. */
struct slice {
    size_t from, rows, levels, elements;
};

static size_t elements_of(const struct parquet_chunk *c, uint32_t list)
{
    return list == NULL_ID ? 0 : c->lists.lens[list] / 4;
}

/* w->split: by distinct id the list, or NULL_ID. */
static int look_up(const struct parquet_chunk *c, struct parquet_work *w, const struct parquet_index *x,
                   const uint32_t *map, uint64_t *ret_nulls)
{
    int rc = PARQUET_GROW(w->split, w->split_cap, x->distinct, PARQUET_INDEX_ROWS_MAX);

    *ret_nulls = 0;
    for (size_t k = 0; rc == 0 && k < x->distinct; k++) {
        uint32_t id = map && x->ids[k] != NULL_ID ? map[x->ids[k]] : x->ids[k];
        if (id == NULL_ID)
            *ret_nulls += x->counts[k];
        else if (id >= c->lists.count)
            rc = -EINVAL;
        w->split[k] = id;
    }
    return rc;
}

/* Rows behind `from`, one at least, whose levels stay near the goal for a page. */
static struct slice measure(const struct parquet_chunk *c, const struct parquet_work *w, const struct parquet_index *x,
                            size_t from)
{
    struct slice s = {.from = from};

    while (from + s.rows < x->n && s.levels < PARQUET_PAGE_LEVELS_GOAL) {
        size_t n = elements_of(c, w->split[x->place[from + s.rows]]);
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
                   const struct slice *s)
{
    const uint32_t empty = c->max_def - 2u, element = c->max_def;
    uint32_t *const reps = w->reps, *const defs = w->defs, *const ids = w->ids;
    size_t at = 0, k = 0;

    for (size_t i = 0; i < s->rows; i++) {
        uint32_t id = w->split[x->place[s->from + i]];
        size_t n = elements_of(c, id);
        reps[at] = 0;
        if (n == 0) {
            defs[at++] = id == NULL_ID ? 0 : empty;
            continue;
        }
        const uint8_t *e = parquet_dict_data(&c->lists, id);
        defs[at++] = element;
        ids[k++] = kymo_le32(e);
        for (size_t j = 1; j < n; j++) {
            reps[at] = 1;
            defs[at++] = element;
            ids[k++] = kymo_le32(e + 4 * j);
        }
    }
}

/* Bounds of the page, and its elements in the row group's dictionary while there is one: by list, not by row. */
static int note_elements(struct parquet_chunk *c, const struct parquet_work *w, const struct parquet_index *x,
                         const struct slice *s, struct parquet_page *page)
{
    size_t before = c->used_count;
    bool whole = s->rows == x->n;
    int rc = parquet_dict_rank(&c->leaf);

    for (size_t i = 0; rc == 0 && i < (whole ? x->distinct : s->rows); i++) {
        uint32_t id = w->split[whole ? i : x->place[s->from + i]];
        for (size_t j = 0; rc == 0 && j < elements_of(c, id); j++) {
            uint32_t local = 0, e = kymo_le32(parquet_dict_data(&c->lists, id) + 4 * j);
            if (e >= c->leaf.count)
                return -EINVAL;
            parquet_page_bound(c, page, e);
            if (!c->no_dict)
                rc = parquet_chunk_local(c, e, &local);
            if (local == NULL_ID)
                parquet_chunk_give_up(c, before);
        }
    }
    return rc;
}

static int append_elements(struct parquet_chunk *c, struct parquet_work *w, size_t n, struct parquet_page *page)
{
    if (c->no_dict)
        return parquet_chunk_plain(c, w, w->ids, n, &page->encoding);
    uint32_t max = 0;
    for (size_t i = 0; i < n; i++) {
        w->ids[i] = c->local[w->ids[i]] - 1;
        max = w->ids[i] > max ? w->ids[i] : max;
    }
    page->encoding = PARQUET_RLE_DICTIONARY;
    uint8_t width = (uint8_t)(max > 0 ? parquet_rle_width(max) : 1);
    int rc = kymo_buf_append(&w->body, &width, 1);
    return rc == 0 ? parquet_rle_append(&w->body, w->ids, n, width) : rc;
}

static int one_page(struct parquet_chunk *c, struct parquet_work *w, const struct parquet_index *x,
                    const struct slice *s)
{
    struct parquet_page page = {
        .rows = (uint32_t)s->rows,
        .levels = (uint32_t)s->levels,
        .nulls = (uint32_t)(s->levels - s->elements),
    };
    int rc = room(w, s);
    if (rc < 0)
        return rc;
    spread(c, w, x, s);
    kymo_buf_reset(&w->body);
    rc = parquet_append_levels(&w->body, w->reps, s->levels, 1);
    if (rc == 0)
        rc = parquet_append_levels(&w->body, w->defs, s->levels, c->max_def);
    if (rc == 0)
        rc = note_elements(c, w, x, s, &page);
    if (rc == 0)
        rc = append_elements(c, w, s->elements, &page);
    return rc == 0 ? parquet_chunk_add(c, w, page) : rc;
}

/* Whether no list of the page has more than one element, as with the banks that an instruction uses. */
static bool all_short(const struct parquet_chunk *c, const struct parquet_work *w, const struct parquet_index *x)
{
    for (size_t k = 0; k < x->distinct; k++) {
        if (elements_of(c, w->split[k]) > 1)
            return false;
    }
    return true;
}

/* The page by distinct id, without a look at levels row by row. Needs the elements in the dictionary. */
static int short_page(struct parquet_chunk *c, struct parquet_work *w, const struct parquet_index *x,
                      struct parquet_page page)
{
    int rc = PARQUET_GROW(w->defs, w->defs_cap, x->distinct, PARQUET_WORK_VALUES_MAX);
    if (rc < 0)
        return rc;
    /* The levels' memory serves as bytes here. */
    uint8_t *level = (uint8_t *)w->defs;
    size_t elements = 0;
    for (size_t k = 0; k < x->distinct; k++) {
        uint32_t id = w->split[k];
        size_t n = elements_of(c, id);
        level[k] = (uint8_t)(id == NULL_ID ? 0 : n > 0 ? c->max_def : c->max_def - 2);
        w->split[k] = n > 0 ? c->local[kymo_le32(parquet_dict_data(&c->lists, id))] - 1 : NULL_ID;
        elements += n * x->counts[k];
    }
    page.nulls = (uint32_t)(x->n - elements);
    page.encoding = PARQUET_RLE_DICTIONARY;
    kymo_buf_reset(&w->body);
    rc = parquet_split_append_lists(&w->body, x, w->split, level, elements);
    return rc == 0 ? parquet_chunk_add(c, w, page) : rc;
}

/* Takes the page when it can; *ret_done says whether. */
static int try_short_page(struct parquet_chunk *c, struct parquet_work *w, const struct parquet_index *x,
                          bool *ret_done)
{
    const struct slice all = {.rows = x->n};
    struct parquet_page page = {.rows = (uint32_t)x->n, .levels = (uint32_t)x->n};

    *ret_done = false;
    if (c->no_dict || !all_short(c, w, x))
        return 0;
    int rc = note_elements(c, w, x, &all, &page);
    if (rc < 0 || c->no_dict)
        return rc;
    *ret_done = true;
    return short_page(c, w, x, page);
}

int parquet_chunk_lists(struct parquet_chunk *c, struct parquet_work *w, struct parquet_index *x, const uint32_t *map,
                        struct kymo_err *err)
{
    uint64_t nulls;
    int rc = look_up(c, w, x, map, &nulls);

    c->unsorted = true;
    if (rc < 0)
        return kymo_err_set(err, rc, "column %s: a list number is beyond its dictionary, or no memory",
                            c->column->name);
    if (nulls > 0 && c->column->required)
        return kymo_err_set(err, -EINVAL, "column %s: %" PRIu64 " nulls in a required column", c->column->name, nulls);
    bool done = nulls == x->n;
    rc = done ? parquet_chunk_add_null(c, x->n) : try_short_page(c, w, x, &done);
    for (size_t from = 0; rc == 0 && !done && from < x->n;) {
        struct slice s = measure(c, w, x, from);
        rc = one_page(c, w, x, &s);
        from += s.rows;
    }
    return rc < 0 ? kymo_err_set(err, rc, "column %s: cannot encode a page", c->column->name) : 0;
}
