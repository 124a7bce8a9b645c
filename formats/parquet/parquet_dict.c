#include "formats/parquet/parquet_dict.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/le.h"

#define SLOTS_MIN 64
#define RANKED_MAX 131072 /* values; beyond, new ones are compared one by one */
#define RANKED_SMALL 4096

void parquet_dict_init(struct parquet_dict *d, enum parquet_order order)
{
    *d = (struct parquet_dict){.order = order};
}

void parquet_dict_done(struct parquet_dict *d)
{
    kymo_free(d->values);
    kymo_free(d->lens);
    kymo_free(d->hashes);
    kymo_free(d->bytes);
    kymo_free(d->slots);
    kymo_free(d->rank);
    kymo_free(d->by_rank);
    parquet_dict_init(d, d->order);
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    unsigned __int128 p = (unsigned __int128)(h ^ v) * 0x9e3779b97f4a7c15u;

    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static uint32_t hash_bytes(const uint8_t *p, size_t n)
{
    uint64_t h = mix(n, 0x2545f4914f6cdd1du);

    for (; n >= 8; p += 8, n -= 8)
        h = mix(h, kymo_le64(p));
    uint64_t tail = 0;
    memcpy(&tail, p, n);
    return (uint32_t)mix(h, tail);
}

static int rehash(struct parquet_dict *d)
{
    size_t n = d->slot_count ? d->slot_count * 2 : SLOTS_MIN;
    uint32_t *slots = kymo_calloc(n, sizeof *slots);
    if (!slots)
        return -ENOMEM;
    for (uint32_t id = 0; id < d->count; id++) {
        size_t s = d->hashes[id] & (n - 1);
        while (slots[s])
            s = (s + 1) & (n - 1);
        slots[s] = id + 1;
    }
    kymo_free(d->slots);
    d->slots = slots;
    d->slot_count = n;
    return 0;
}

static int grow(struct parquet_dict *d)
{
    int rc = PARQUET_GROW(d->values, d->cap, d->count + 1, PARQUET_DICT_MAX);
    if (rc == 0)
        rc = PARQUET_GROW(d->hashes, d->hash_cap, d->count + 1, PARQUET_DICT_MAX);
    if (rc == 0 && d->order == PARQUET_ORDER_BYTES)
        rc = PARQUET_GROW(d->lens, d->len_cap, d->count + 1, PARQUET_DICT_MAX);
    /* At most half full, so that a search always ends. */
    if (rc == 0 && (d->count + 1) * 2 > d->slot_count)
        rc = rehash(d);
    return rc;
}

static uint32_t add(struct parquet_dict *d, uint64_t value, uint32_t hash)
{
    uint32_t id = (uint32_t)d->count++;
    size_t s = hash & (d->slot_count - 1);

    while (d->slots[s])
        s = (s + 1) & (d->slot_count - 1);
    d->slots[s] = id + 1;
    d->values[id] = value;
    d->hashes[id] = hash;
    return id;
}

int parquet_dict_scalar(struct parquet_dict *d, uint64_t bits, uint32_t *ret)
{
    uint32_t hash = (uint32_t)mix(bits, 0x2545f4914f6cdd1du);

    for (size_t s = hash & (d->slot_count - 1); d->slot_count && d->slots[s]; s = (s + 1) & (d->slot_count - 1)) {
        if (d->values[d->slots[s] - 1] == bits) {
            *ret = d->slots[s] - 1;
            return 0;
        }
    }
    int rc = grow(d);
    if (rc < 0)
        return rc;
    *ret = add(d, bits, hash);
    return 0;
}

int parquet_dict_bytes(struct parquet_dict *d, const void *data, size_t len, uint32_t *ret)
{
    uint32_t hash = hash_bytes(data, len);

    for (size_t s = hash & (d->slot_count - 1); d->slot_count && d->slots[s]; s = (s + 1) & (d->slot_count - 1)) {
        uint32_t id = d->slots[s] - 1;
        if (d->hashes[id] == hash && d->lens[id] == len && memcmp(parquet_dict_data(d, id), data, len) == 0) {
            *ret = id;
            return 0;
        }
    }
    int rc = grow(d);
    if (rc == 0)
        rc = PARQUET_GROW(d->bytes, d->bytes_cap, d->bytes_len + len + 1, PARQUET_DICT_BYTES_MAX);
    if (rc < 0)
        return rc;
    uint32_t id = add(d, d->bytes_len, hash);
    memcpy(d->bytes + d->bytes_len, data, len);
    d->lens[id] = (uint32_t)len;
    d->bytes_len += len;
    *ret = id;
    return 0;
}

static double real(uint64_t bits)
{
    double v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

bool parquet_order_is_nan(enum parquet_order order, uint64_t v)
{
    return order == PARQUET_ORDER_REAL && isnan(real(v));
}

int parquet_order_compare(enum parquet_order order, uint64_t a, uint64_t b)
{
    if (order == PARQUET_ORDER_INT)
        return ((int64_t)a > (int64_t)b) - ((int64_t)a < (int64_t)b);
    return (real(a) > real(b)) - (real(a) < real(b));
}

int parquet_dict_compare(const struct parquet_dict *d, uint32_t a, uint32_t b)
{
    if (a < d->ranked && b < d->ranked)
        return (d->rank[a] > d->rank[b]) - (d->rank[a] < d->rank[b]);
    if (d->order != PARQUET_ORDER_BYTES)
        return parquet_order_compare(d->order, d->values[a], d->values[b]);
    size_t n = d->lens[a] < d->lens[b] ? d->lens[a] : d->lens[b];
    int c = memcmp(parquet_dict_data(d, a), parquet_dict_data(d, b), n);
    return c ? c : (d->lens[a] > d->lens[b]) - (d->lens[a] < d->lens[b]);
}

static int by_value(const void *pa, const void *pb, void *arg)
{
    return parquet_dict_compare(arg, *(const uint32_t *)pa, *(const uint32_t *)pb);
}

/* Sorting a large dictionary for every few values that come would cost more than comparing them ever does. */
static bool rank_pays(const struct parquet_dict *d, bool grew)
{
    size_t more = d->count - d->ranked;

    if (more == 0 || d->count > RANKED_MAX)
        return false;
    return more >= d->ranked / 2 + 16 || (!grew && (d->count <= RANKED_SMALL || more >= d->ranked / 8));
}

int parquet_dict_rank(struct parquet_dict *d)
{
    bool grew = d->count != d->seen;

    d->seen = d->count;
    if (!rank_pays(d, grew))
        return 0;
    uint32_t *rank = kymo_realloc_array(d->rank, d->count, sizeof *rank);
    if (!rank)
        return -ENOMEM;
    d->rank = rank;
    uint32_t *order = kymo_realloc_array(d->by_rank, d->count, sizeof *order);
    if (!order)
        return -ENOMEM;
    d->by_rank = order;
    /* Values that compare to nothing get no rank; the old ranks are void while sorting. */
    d->ranked = 0;
    size_t n = 0;
    for (uint32_t id = 0; id < d->count; id++) {
        rank[id] = PARQUET_DICT_NO_RANK;
        if (!parquet_order_is_nan(d->order, d->order == PARQUET_ORDER_BYTES ? 0 : d->values[id]))
            order[n++] = id;
    }
    qsort_r(order, n, sizeof *order, by_value, d);
    for (size_t i = 0; i < n; i++)
        rank[order[i]] = (uint32_t)i;
    d->ranked = d->count;
    return 0;
}
