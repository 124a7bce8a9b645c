#include "formats/parquet/parquet_split.h"

#include <string.h>

#include "base/le.h"
#include "formats/parquet/parquet_rle.h"
#include "formats/parquet/parquet_thrift.h"

#define NULL_ID UINT32_MAX
/* Rows at a time: their numbers fit the first-level cache together with the split. */
#define BLOCK 1024
#define BLOCKS_UNSEEN 7

struct range {
    uint32_t min, max; /* of the numbers; min > max when all are null */
};

static struct range range_of(const uint32_t *split, size_t n)
{
    struct range r = {NULL_ID, 0};

    for (size_t k = 0; k < n; k++) {
        if (split[k] == NULL_ID)
            continue;
        r.min = split[k] < r.min ? split[k] : r.min;
        r.max = split[k] > r.max ? split[k] : r.max;
    }
    return r;
}

/* One byte of bits; a constant count makes straight code of it. */
static inline __attribute__((always_inline)) size_t gather_group(const uint32_t *split, const uint16_t *place,
                                                                 const size_t count, uint32_t *out, uint8_t *bits)
{
    unsigned byte = 0;
    size_t m = 0;

    for (size_t k = 0; k < count; k++) {
        uint32_t v = split[place[k]];
        unsigned is = v != NULL_ID;
        out[m] = v;
        m += is;
        byte |= is << k;
    }
    *bits = (uint8_t)byte;
    return m;
}

/* Numbers of n rows that are not null, into out; the rows' bits into bits (one byte for eight rows). Returns how many.
 */
static size_t gather(const uint32_t *split, const uint16_t *place, size_t n, uint32_t *out, uint8_t *bits)
{
    size_t m = 0, i = 0;

    for (; i + 8 <= n; i += 8)
        m += gather_group(split, place + i, 8, out + m, bits++);
    if (i < n)
        m += gather_group(split, place + i, n - i, out + m, bits);
    return m;
}

static void gather_all(const uint32_t *split, const uint16_t *place, size_t n, uint32_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = split[place[i]];
}

/* Opens levels of width bits: their length, and the header of one bit-packed run, whose bytes the caller fills. */
static int open_levels(struct kymo_buf *b, size_t n, unsigned width, size_t *ret_bits)
{
    size_t groups = (n + 7) / 8, bytes = groups * width;
    int rc = kymo_buf_reserve(b, 4 + PARQUET_VARINT_MAX + bytes);
    if (rc < 0)
        return rc;
    size_t at = b->len + 4;
    size_t head = parquet_varint(groups << 1 | 1, b->data + at);
    kymo_put_le32(b->data + b->len, (uint32_t)(head + bytes));
    *ret_bits = at + head;
    b->len = at + head + bytes;
    return 0;
}

static int all_levels(struct kymo_buf *b, size_t n, uint32_t level)
{
    size_t at = b->len;
    int rc = kymo_buf_append(b, "\0\0\0\0", 4);

    if (rc == 0)
        rc = parquet_rle_append_run(b, level, n, 1);
    if (rc == 0)
        kymo_put_le32(b->data + at, (uint32_t)(b->len - at - 4));
    return rc;
}

/* Looks for runs, but not in the blocks after one that had none: where engines alternate there never are any. */
static int append_block(struct kymo_buf *b, uint32_t *v, size_t n, unsigned width, unsigned *no_runs)
{
    if (*no_runs > 0) {
        --*no_runs;
        return parquet_rle_append_packed(b, v, n, width);
    }
    size_t before = b->len;
    int rc = parquet_rle_append(b, v, n, width);
    *no_runs = b->len - before >= (n + 7) / 8 * width ? BLOCKS_UNSEEN : 0;
    return rc;
}

/* bits_at: where in b the null bits go; 0: nowhere. */
static int append_numbers(struct kymo_buf *b, const struct parquet_index *x, const uint32_t *split, size_t nulls,
                          size_t bits_at, unsigned width)
{
    uint32_t block[BLOCK + 2 * PARQUET_RLE_PAD];
    uint8_t nowhere[BLOCK / 8] = {0};
    size_t have = 0;
    unsigned no_runs = 0;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < x->n; i += BLOCK) {
        size_t n = x->n - i < BLOCK ? x->n - i : BLOCK;
        if (nulls > 0) {
            have += gather(split, x->place + i, n, block + have, bits_at ? b->data + bits_at + i / 8 : nowhere);
        } else {
            gather_all(split, x->place + i, n, block + have);
            have += n;
        }
        /* Only whole groups may be packed before the end; what is over goes in front of the next block. */
        bool last = i + n == x->n;
        size_t whole = last ? have : have & ~(size_t)7, over = have - whole;
        uint32_t keep[8];
        memcpy(keep, block + whole, over * sizeof *keep);
        rc = append_block(b, block, whole, width, &no_runs);
        memcpy(block, keep, over * sizeof *keep);
        have = over;
    }
    return rc;
}

/* One number only: what is left are the null bits. */
static void fill_bits(const struct parquet_index *x, const uint32_t *split, uint8_t *bits)
{
    uint32_t scratch[BLOCK + PARQUET_RLE_PAD];

    for (size_t i = 0; i < x->n; i += BLOCK) {
        size_t n = x->n - i < BLOCK ? x->n - i : BLOCK;
        (void)gather(split, x->place + i, n, scratch, bits + i / 8);
    }
}

int parquet_split_append(struct kymo_buf *b, const struct parquet_index *x, const uint32_t *split, bool levels,
                         size_t nulls)
{
    struct range r = range_of(split, x->distinct);
    /* A width of zero is allowed, but some readers never met it. */
    uint8_t width = (uint8_t)(r.max > 0 ? parquet_rle_width(r.max) : 1);
    size_t bits_at = 0;
    int rc = 0;

    if (levels)
        rc = nulls > 0 ? open_levels(b, x->n, 1, &bits_at) : all_levels(b, x->n, 1);
    if (rc == 0)
        rc = kymo_buf_append(b, &width, 1);
    if (rc < 0)
        return rc;
    if (r.min != r.max)
        return append_numbers(b, x, split, nulls, bits_at, width);
    if (nulls > 0)
        fill_bits(x, split, b->data + bits_at);
    return parquet_rle_append_run(b, r.min, x->n - nulls, width);
}

int parquet_split_append_lists(struct kymo_buf *b, const struct parquet_index *x, const uint32_t *split,
                               const uint8_t *level, size_t elements)
{
    struct range r = range_of(split, x->distinct);
    uint8_t width = (uint8_t)(r.min <= r.max && r.max > 0 ? parquet_rle_width(r.max) : 1);
    size_t at = 0;
    int rc = all_levels(b, x->n, 0);

    if (rc == 0)
        rc = open_levels(b, x->n, 2, &at);
    if (rc < 0)
        return rc;
    uint8_t *out = b->data + at;
    const uint16_t *place = x->place;
    memset(out + 2 * (x->n / 8), 0, 2 * ((x->n + 7) / 8 - x->n / 8));
    size_t i = 0;
    for (; i + 4 <= x->n; i += 4)
        out[i / 4] =
            (uint8_t)(level[place[i]] | level[place[i + 1]] << 2 | level[place[i + 2]] << 4 | level[place[i + 3]] << 6);
    for (; i < x->n; i++)
        out[i / 4] = (uint8_t)(out[i / 4] | level[place[i]] << (i % 4 * 2));
    rc = kymo_buf_append(b, &width, 1);
    if (rc < 0 || elements == 0)
        return rc;
    if (r.min == r.max)
        return parquet_rle_append_run(b, r.min, elements, width);
    return append_numbers(b, x, split, x->n - elements, 0, width);
}
