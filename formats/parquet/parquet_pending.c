#include "formats/parquet/parquet_pending.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

void parquet_pending_done(struct parquet_pending *p)
{
    kymo_free(p->ids);
    kymo_free(p->values);
    kymo_free(p->valid);
    *p = (struct parquet_pending){0};
}

struct parquet_column parquet_column_from(const struct parquet_column *in, const struct kymo_column *column, size_t at)
{
    struct parquet_column out = *in;

    if (in->values)
        out.values = (const uint8_t *)in->values + at * parquet_type_size(column->type);
    if (in->valid)
        out.valid = in->valid + at;
    if (in->index)
        out.index = in->index + at;
    return out;
}

static int room(struct parquet_pending *p, const struct parquet_chunk *c, enum parquet_pending_kind kind, size_t n)
{
    if (kind == PARQUET_PENDING_NULLS)
        return 0;
    if (kind == PARQUET_PENDING_IDS)
        return PARQUET_GROW(p->ids, p->ids_cap, n, PARQUET_BATCH_MAX);
    int rc = PARQUET_GROW(p->valid, p->valid_cap, n, PARQUET_BATCH_MAX);
    size_t size = parquet_type_size(c->leaf_type);
    return rc == 0 ? PARQUET_GROW(p->values, p->values_cap, n * size, PARQUET_BATCH_MAX * size) : rc;
}

static void value_of_id(struct parquet_pending *p, const struct parquet_chunk *c, uint32_t id, size_t row)
{
    size_t size = parquet_type_size(c->leaf_type);
    uint8_t *to = p->values + row * size;

    p->valid[row] = id != PARQUET_NULL;
    memset(to, 0, size);
    if (id == PARQUET_NULL)
        return;
    uint64_t bits = c->leaf.values[id];
    if (c->leaf_type == KYMO_TYPE_FLOAT) {
        double d;
        memcpy(&d, &bits, sizeof d);
        float single = (float)d;
        memcpy(to, &single, sizeof single);
    } else {
        memcpy(to, &bits, size);
    }
}

static uint32_t id_at(const struct parquet_column *in, size_t row)
{
    uint32_t id = in->index[row];

    return in->map && id != PARQUET_NULL ? in->map[id] : id;
}

static int check_ids(const struct parquet_chunk *c, const struct parquet_column *in, size_t n)
{
    size_t limit = c->is_list ? c->lists.count : c->leaf.count;

    for (size_t i = 0; i < n; i++) {
        if (in->map && in->index[i] != PARQUET_NULL && in->index[i] >= in->map_len)
            return -EINVAL;
        uint32_t id = id_at(in, i);
        if (id != PARQUET_NULL && id >= limit)
            return -EINVAL;
    }
    return 0;
}

/* Makes the rows that wait fit to be followed by rows of another kind. */
static void convert(struct parquet_pending *p, const struct parquet_chunk *c, enum parquet_pending_kind to, size_t have)
{
    for (size_t i = 0; i < have; i++) {
        if (to == PARQUET_PENDING_IDS)
            p->ids[i] = PARQUET_NULL;
        else
            value_of_id(p, c, p->kind == PARQUET_PENDING_IDS ? p->ids[i] : PARQUET_NULL, i);
    }
    p->kind = to;
}

static void copy(struct parquet_pending *p, const struct parquet_chunk *c, const struct parquet_column *in, size_t n,
                 size_t have)
{
    size_t size = parquet_type_size(c->leaf_type);

    if (p->kind == PARQUET_PENDING_IDS) {
        for (size_t i = 0; i < n; i++)
            p->ids[have + i] = in->index ? id_at(in, i) : PARQUET_NULL;
    } else if (in->values) {
        memcpy(p->values + have * size, in->values, n * size);
        if (in->valid)
            memcpy(p->valid + have, in->valid, n);
        else
            memset(p->valid + have, 1, n);
    } else {
        for (size_t i = 0; i < n; i++)
            value_of_id(p, c, in->index ? id_at(in, i) : PARQUET_NULL, have + i);
    }
}

int parquet_pending_append(struct parquet_pending *p, const struct parquet_chunk *c, const struct parquet_column *in,
                           size_t n, size_t have)
{
    enum parquet_pending_kind kind = in->index    ? PARQUET_PENDING_IDS
                                     : in->values ? PARQUET_PENDING_VALUES
                                                  : PARQUET_PENDING_NULLS;
    if (have == 0)
        p->kind = PARQUET_PENDING_NULLS;
    if (kind == PARQUET_PENDING_VALUES && (c->is_list || c->leaf_type == KYMO_TYPE_STRING))
        return -EINVAL;
    int rc = kind == PARQUET_PENDING_IDS ? check_ids(c, in, n) : 0;
    /* Values are the wider kind: ids can become values, not the other way round. */
    if (kind < p->kind)
        kind = p->kind;
    if (rc == 0)
        rc = room(p, c, kind, have + n);
    if (rc < 0)
        return rc;
    if (kind != p->kind)
        convert(p, c, kind, have);
    if (kind != PARQUET_PENDING_NULLS)
        copy(p, c, in, n, have);
    return 0;
}

struct parquet_column parquet_pending_take(struct parquet_pending *p)
{
    struct parquet_column out = {0};

    if (p->kind == PARQUET_PENDING_IDS) {
        out.index = p->ids;
    } else if (p->kind == PARQUET_PENDING_VALUES) {
        out.values = p->values;
        out.valid = p->valid;
    }
    p->kind = PARQUET_PENDING_NULLS;
    return out;
}
