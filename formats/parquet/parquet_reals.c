#include "formats/parquet/parquet_reals.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

#define SLOTS 1024u
#define SLOT_BITS 10

/* By the bits of a value: the dictionary itself would be asked for every row. */
struct parquet_reals {
    uint64_t bits[SLOTS];
    uint32_t id[SLOTS]; /* plus 1; 0: free */
    unsigned count;
};

struct parquet_reals *parquet_reals_free(struct parquet_reals *r)
{
    kymo_free(r);
    return NULL;
}

static uint64_t bits_at(const void *v, size_t i, bool single)
{
    uint32_t narrow;
    uint64_t wide;

    if (single) {
        memcpy(&narrow, (const uint8_t *)v + 4 * i, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, (const uint8_t *)v + 8 * i, sizeof wide);
    return wide;
}

/* A dictionary holds doubles. */
static uint64_t dict_bits(uint64_t bits, bool single)
{
    uint32_t narrow = (uint32_t)bits;
    float f;
    uint64_t wide;

    if (!single)
        return bits;
    memcpy(&f, &narrow, sizeof f);
    double d = (double)f;
    memcpy(&wide, &d, sizeof wide);
    return wide;
}

static int add(struct parquet_reals *r, struct parquet_dict *d, uint64_t bits, bool single, uint32_t slot)
{
    uint32_t id;

    if (r->count == PARQUET_REALS_MAX)
        return 1;
    int rc = parquet_dict_scalar(d, dict_bits(bits, single), &id);
    if (rc < 0)
        return rc;
    r->bits[slot] = bits;
    r->id[slot] = id + 1;
    r->count++;
    return 0;
}

int parquet_reals_number(struct parquet_reals **r, struct parquet_dict *d, const void *v, const uint8_t *valid,
                         size_t n, bool single, uint32_t *ids)
{
    if (!*r && !(*r = KYMO_NEW(struct parquet_reals)))
        return -ENOMEM;
    struct parquet_reals *t = *r;
    for (size_t i = 0; i < n; i++) {
        ids[i] = UINT32_MAX;
        if (valid && !valid[i])
            continue;
        uint64_t bits = bits_at(v, i, single);
        uint32_t slot = (uint32_t)(bits * 0x9e3779b97f4a7c15u >> (64 - SLOT_BITS));
        while (t->id[slot] && t->bits[slot] != bits)
            slot = (slot + 1) % SLOTS;
        if (!t->id[slot]) {
            int rc = add(t, d, bits, single, slot);
            if (rc != 0)
                return rc;
        }
        ids[i] = t->id[slot] - 1;
    }
    return 0;
}
