#include "formats/parquet/parquet_index.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/parquet/parquet_dict.h"

#define NULL_ID UINT32_MAX

void parquet_index_init(struct parquet_index *x)
{
    *x = (struct parquet_index){0};
}

void parquet_index_done(struct parquet_index *x)
{
    kymo_free(x->ids);
    kymo_free(x->counts);
    kymo_free(x->place);
    kymo_free(x->place_of);
    for (size_t i = 0; i < PARQUET_INDEX_BODIES_MAX; i++)
        kymo_free(x->body[i].split);
    parquet_index_init(x);
}

/* Null plus 1 is 0, so that it needs no case of its own. */
static uint32_t need_of(const uint32_t *index, size_t n, uint32_t *ret_least)
{
    uint32_t need = 0, least = UINT32_MAX;

    for (size_t i = 0; i < n; i++) {
        need = index[i] + 1 > need ? index[i] + 1 : need;
        least = index[i] + 1 < least ? index[i] + 1 : least;
    }
    *ret_least = least;
    return need;
}

static int room(struct parquet_index *x, size_t n)
{
    size_t had = x->place_of_cap;
    int rc = PARQUET_GROW(x->place, x->place_cap, n, PARQUET_INDEX_ROWS_MAX);

    if (rc == 0)
        rc = PARQUET_GROW(x->ids, x->ids_cap, n, PARQUET_INDEX_ROWS_MAX);
    if (rc == 0)
        rc = PARQUET_GROW(x->counts, x->counts_cap, n, PARQUET_INDEX_ROWS_MAX);
    if (rc == 0)
        rc = PARQUET_GROW(x->place_of, x->place_of_cap, (size_t)x->need, (size_t)PARQUET_DICT_MAX);
    if (rc == 0 && x->place_of_cap > had)
        memset(x->place_of + had, 0, (x->place_of_cap - had) * sizeof *x->place_of);
    return rc;
}

static void take_apart(struct parquet_index *x, const uint32_t *index, size_t n)
{
    uint32_t *const ids = x->ids, *const counts = x->counts, *const place_of = x->place_of;
    uint32_t distinct = 0, null_place = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t id = index[i];
        uint32_t *slot = id == NULL_ID ? &null_place : &place_of[id];
        uint32_t place = *slot;
        if (place == 0) {
            ids[distinct] = id;
            counts[distinct] = 0;
            place = *slot = ++distinct;
        }
        counts[place - 1]++;
        x->place[i] = (uint16_t)(place - 1);
    }
    for (uint32_t k = 0; k < distinct; k++) {
        if (ids[k] != NULL_ID)
            place_of[ids[k]] = 0;
    }
    x->distinct = distinct;
}

static void take_one(struct parquet_index *x, uint32_t id, size_t n)
{
    x->ids[0] = id;
    x->counts[0] = (uint32_t)n;
    x->distinct = 1;
    memset(x->place, 0, n * sizeof *x->place);
}

int parquet_index_build(struct parquet_index *x, const uint32_t *index, size_t n, size_t limit)
{
    x->key = NULL;
    x->n = n;
    x->distinct = x->body_count = 0;
    uint32_t least;
    x->need = need_of(index, n, &least);
    if (x->need > limit)
        return -EINVAL;
    int rc = room(x, n);
    if (rc < 0)
        return rc;
    if (n > 0 && least == x->need)
        take_one(x, index[0], n);
    else
        take_apart(x, index, n);
    x->key = index;
    return 0;
}

static uint64_t hash_of(const uint32_t *split, size_t n)
{
    uint64_t h = n;

    for (size_t i = 0; i < n; i++)
        h = (h ^ split[i]) * 0x9e3779b97f4a7c15u;
    return h;
}

const struct parquet_body *parquet_index_find(const struct parquet_index *x, const uint32_t *split, bool levels)
{
    uint64_t hash = hash_of(split, x->distinct);

    for (size_t i = 0; i < x->body_count; i++) {
        const struct parquet_body *b = &x->body[i];
        if (b->hash == hash && b->levels == levels && memcmp(b->split, split, x->distinct * sizeof *split) == 0)
            return b;
    }
    return NULL;
}

int parquet_index_keep(struct parquet_index *x, const uint32_t *split, bool levels, const struct kymo_buf *buf,
                       size_t off, size_t len, uint32_t raw_len)
{
    if (x->body_count == PARQUET_INDEX_BODIES_MAX)
        return 0;
    struct parquet_body *b = &x->body[x->body_count];
    int rc = PARQUET_GROW(b->split, b->split_cap, x->distinct, PARQUET_INDEX_ROWS_MAX);
    if (rc < 0)
        return rc;
    memcpy(b->split, split, x->distinct * sizeof *split);
    b->hash = hash_of(split, x->distinct);
    b->levels = levels;
    b->buf = buf;
    b->off = off;
    b->len = len;
    b->raw_len = raw_len;
    x->body_count++;
    return 0;
}
