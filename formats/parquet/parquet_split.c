#include "formats/parquet/parquet_split.h"

#include <string.h>

#include "base/le.h"
#include "formats/parquet/parquet_rle.h"
#include "formats/parquet/parquet_simd.h"
#include "formats/parquet/parquet_thrift.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

static void gather_all(const uint32_t *split, const uint16_t *place, size_t n, uint32_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = split[place[i]];
}

static size_t gather_plain(const uint32_t *split, const uint16_t *place, size_t n, uint32_t *out, uint8_t *bits)
{
    size_t m = 0, i = 0;

    for (; i + 8 <= n; i += 8)
        m += gather_group(split, place + i, 8, out + m, bits++);
    if (i < n)
        m += gather_group(split, place + i, n - i, out + m, bits);
    return m;
}

#if defined(__x86_64__)
#define LANE(i) 4 * (i), 4 * (i) + 1, 4 * (i) + 2, 4 * (i) + 3
#define LANES(a, b, c, d)                                                                                              \
    {                                                                                                                  \
        LANE(a), LANE(b), LANE(c), LANE(d)                                                                             \
    }
/* By which of four numbers are wanted: these to the front. */
static const uint8_t to_front[16][16] = {
    LANES(0, 1, 2, 3), LANES(0, 1, 2, 3), LANES(1, 1, 2, 3), LANES(0, 1, 2, 3), LANES(2, 1, 2, 3), LANES(0, 2, 2, 3),
    LANES(1, 2, 2, 3), LANES(0, 1, 2, 3), LANES(3, 1, 2, 3), LANES(0, 3, 2, 3), LANES(1, 3, 2, 3), LANES(0, 1, 3, 3),
    LANES(2, 3, 2, 3), LANES(0, 2, 3, 3), LANES(1, 2, 3, 3), LANES(0, 1, 2, 3),
};

static const uint8_t count_of[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};

/* Four of v to out, which has room for four; returns which of them are not null. */
PARQUET_INLINE PARQUET_AVX2 unsigned pick_four(const uint32_t *v, uint32_t *out)
{
    __m128i four = _mm_loadu_si128((const __m128i *)v);
    __m128i null = _mm_cmpeq_epi32(four, _mm_set1_epi32(-1));
    unsigned is = ~(unsigned)_mm_movemask_ps(_mm_castsi128_ps(null)) & 15;
    __m128i order = _mm_loadu_si128((const __m128i *)to_front[is]);
    _mm_storeu_si128((__m128i *)out, _mm_shuffle_epi8(four, order));
    return is;
}

PARQUET_AVX2 static size_t gather_avx2(const uint32_t *split, const uint16_t *place, size_t n, uint32_t *out,
                                       uint8_t *bits)
{
    uint32_t all[BLOCK];
    size_t m = 0, i = 0;

    gather_all(split, place, n & ~(size_t)7, all);
    for (; i + 8 <= n; i += 8) {
        unsigned low = pick_four(all + i, out + m);
        m += count_of[low];
        unsigned high = pick_four(all + i + 4, out + m);
        m += count_of[high];
        *bits++ = (uint8_t)(high << 4 | low);
    }
    if (i < n)
        m += gather_group(split, place + i, n - i, out + m, bits);
    return m;
}
#else
#define gather_avx2 gather_plain
#endif

/*
 * Numbers of n rows that are not null, into out, which has room for four more; the rows' bits into bits (one byte for
 * eight rows). At most BLOCK rows. Returns how many.
 */
static size_t gather(const uint32_t *split, const uint16_t *place, size_t n, uint32_t *out, uint8_t *bits)
{
    return parquet_has_avx2() ? gather_avx2(split, place, n, out, bits) : gather_plain(split, place, n, out, bits);
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
