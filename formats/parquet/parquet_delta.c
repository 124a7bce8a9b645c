/* DELTA_BINARY_PACKED: see FORMAT.md. Declared in parquet_rle.h. */
#include <stddef.h>
#include <string.h>

#include "base/le.h"
#include "formats/parquet/parquet_rle.h"
#include "formats/parquet/parquet_simd.h"
#include "formats/parquet/parquet_thrift.h"

#define BLOCK 128
#define MINI 32
#define MINIS (BLOCK / MINI)

/* The greatest size of a block: minimum delta, widths, values, and the spare bytes that packing may touch. */
#define BLOCK_BYTES_MAX (PARQUET_VARINT_MAX + MINIS + BLOCK * 8 + 16)

/* MINI values of w bits, least significant bit first; returns behind the last byte. */
static uint8_t *pack_any(const uint64_t *v, uint8_t *out, unsigned w)
{
    uint64_t acc = 0;
    unsigned bits = 0;

    for (unsigned i = 0; i < MINI; i++) {
        acc |= v[i] << bits;
        bits += w;
        if (bits >= 64) {
            kymo_put_le64(out, acc);
            out += 8;
            bits -= 64;
            /* bits is what of v[i] did not fit; a shift by 64 would not be zero in C. */
            acc = bits > 0 ? v[i] >> (w - bits) : 0;
        }
    }
    /* 32 w bits are whole 32-bit words. */
    kymo_put_le32(out, (uint32_t)acc);
    return out + bits / 8;
}

/* The same step by itself: where i and w are constants, so are the shifts and whether a word is full. */
static inline __attribute__((always_inline)) uint64_t pack_one(uint64_t acc, uint64_t v, uint8_t *out, const unsigned i,
                                                               const unsigned w)
{
    const unsigned from = i * w % 64;

    acc |= v << from;
    if (from + w < 64)
        return acc;
    kymo_put_le64(out + i * w / 64 * 8, acc);
    return from + w > 64 ? v >> (64 - from) : 0;
}

#define ONE(i) acc = pack_one(acc, v[i], out, i, w);
#define EIGHT(i) ONE(i) ONE(i + 1) ONE(i + 2) ONE(i + 3) ONE(i + 4) ONE(i + 5) ONE(i + 6) ONE(i + 7)

static inline __attribute__((always_inline)) uint8_t *pack_mini(const uint64_t *v, uint8_t *out, const unsigned w)
{
    uint64_t acc = 0;

    EIGHT(0)
    EIGHT(8)
    EIGHT(16)
    EIGHT(24)
    if (w % 2 != 0)
        kymo_put_le32(out + 4 * w - 4, (uint32_t)acc);
    return out + 4 * w;
}

#define PACK(w)                                                                                                        \
    case w:                                                                                                            \
        return pack_mini(v, out, w);

/* The widths that times and ids have are worth code of their own. */
static uint8_t *pack(const uint64_t *v, uint8_t *out, unsigned w)
{
    switch (w) {
    case 0:
        return out;
        PARQUET_WIDTHS_17(PACK)
    default:
        return pack_any(v, out, w);
    }
}

static int append_head(struct kymo_buf *b, size_t n, int64_t first)
{
    int rc = kymo_buf_reserve(b, 4 * PARQUET_VARINT_MAX);
    if (rc < 0)
        return rc;
    b->len += parquet_varint(BLOCK, b->data + b->len);
    b->len += parquet_varint(MINIS, b->data + b->len);
    b->len += parquet_varint(n, b->data + b->len);
    b->len += parquet_varint(parquet_zigzag(first), b->data + b->len);
    return 0;
}

/* d: count deltas minus the least of them, zero behind up to BLOCK. */
static int append_block(struct kymo_buf *b, const uint64_t d[BLOCK], size_t count, int64_t least)
{
    int rc = kymo_buf_reserve(b, BLOCK_BYTES_MAX);
    if (rc < 0)
        return rc;
    uint8_t *out = b->data + b->len;
    out += parquet_varint(parquet_zigzag(least), out);
    uint8_t *widths = out;
    out += MINIS;
    for (unsigned m = 0; m < MINIS; m++) {
        uint64_t any = 0;
        for (unsigned i = 0; i < MINI; i++)
            any |= d[m * MINI + i];
        widths[m] = any == 0 ? 0 : (uint8_t)(64 - __builtin_clzll(any));
        if (m * MINI < count)
            out = pack(d + m * MINI, out, widths[m]);
    }
    b->len = (size_t)(out - b->data);
    return 0;
}

/* count differences of v[-1], v[0], ... into d, less the least of them, which is returned. They wrap, and the reader's
 * sums wrap back. */
PARQUET_INLINE int64_t differences_body(const int64_t *v, size_t count, uint64_t *d)
{
    int64_t least = INT64_MAX;

    for (size_t i = 0; i < count; i++) {
        int64_t delta = (int64_t)((uint64_t)v[i] - (uint64_t)v[(ptrdiff_t)i - 1]);
        least = delta < least ? delta : least;
        d[i] = (uint64_t)delta;
    }
    for (size_t i = 0; i < count; i++)
        d[i] -= (uint64_t)least;
    return least;
}

PARQUET_AVX2 static int64_t differences_avx2(const int64_t *v, size_t count, uint64_t *d)
{
    return count == BLOCK ? differences_body(v, BLOCK, d) : differences_body(v, count, d);
}

static int64_t differences_plain(const int64_t *v, size_t count, uint64_t *d)
{
    return differences_body(v, count, d);
}

int parquet_delta_append64(struct kymo_buf *b, const int64_t *v, size_t n)
{
    uint64_t d[BLOCK];
    bool avx2 = parquet_has_avx2();
    int rc = append_head(b, n, n > 0 ? v[0] : 0);

    for (size_t at = 1; rc == 0 && at < n; at += BLOCK) {
        size_t count = n - at < BLOCK ? n - at : BLOCK;
        int64_t least = avx2 ? differences_avx2(v + at, count, d) : differences_plain(v + at, count, d);
        memset(d + count, 0, (BLOCK - count) * sizeof *d);
        rc = append_block(b, d, count, least);
    }
    return rc;
}

int parquet_delta_append32(struct kymo_buf *b, const int32_t *v, size_t n)
{
    uint64_t d[BLOCK];
    int rc = append_head(b, n, n > 0 ? v[0] : 0);

    for (size_t at = 1; rc == 0 && at < n; at += BLOCK) {
        size_t count = n - at < BLOCK ? n - at : BLOCK;
        int32_t least = INT32_MAX;
        for (size_t i = 0; i < count; i++) {
            int32_t delta = (int32_t)((uint32_t)v[at + i] - (uint32_t)v[at + i - 1]);
            least = delta < least ? delta : least;
            d[i] = (uint32_t)delta;
        }
        for (size_t i = 0; i < count; i++)
            d[i] = (uint32_t)((uint32_t)d[i] - (uint32_t)least);
        memset(d + count, 0, (BLOCK - count) * sizeof *d);
        rc = append_block(b, d, count, least);
    }
    return rc;
}
