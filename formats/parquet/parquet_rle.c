#include "formats/parquet/parquet_rle.h"

#include <string.h>

#include "base/le.h"
#include "formats/parquet/parquet_simd.h"
#include "formats/parquet/parquet_thrift.h"

/* A run is worth its own header from this many whole groups of eight. */
#define RUN_GROUPS_MIN 2

unsigned parquet_rle_width(uint32_t max)
{
    return max == 0 ? 0 : 32u - (unsigned)__builtin_clz(max);
}

/*
 * Eight values of w bits are w bytes, least significant bit first. With w constant the compiler folds the whole shift
 * network; the last store of a group may reach beyond it, so that the output needs eight spare bytes.
 */
static inline __attribute__((always_inline)) uint8_t *pack_groups(const uint32_t *v, size_t groups, uint8_t *out,
                                                                  const unsigned w)
{
    for (size_t g = 0; g < groups; g++, v += 8, out += w) {
        if (w <= 8) {
            uint64_t a = 0;
            for (unsigned i = 0; i < 8; i++)
                a |= (uint64_t)v[i] << (i * w);
            kymo_put_le64(out, a);
        } else if (w <= 16) {
            uint64_t a = 0, b = 0;
            for (unsigned i = 0; i < 4; i++) {
                a |= (uint64_t)v[i] << (i * w);
                b |= (uint64_t)v[i + 4] << (i * w);
            }
            /* 4 w bits: a whole number of bytes only when w is even, so the halves are joined first. */
            kymo_put_le64(out, w == 16 ? a : a | b << (4 * w % 64));
            if (w == 16)
                kymo_put_le64(out + 8, b);
            else
                kymo_put_le64(out + 8, b >> (64 - 4 * w));
        } else {
            unsigned __int128 a = 0;
            unsigned bits = 0;
            uint8_t *o = out;
            for (unsigned i = 0; i < 8; i++) {
                a |= (unsigned __int128)v[i] << bits;
                bits += w;
                if (bits >= 64) {
                    kymo_put_le64(o, (uint64_t)a);
                    o += 8;
                    a >>= 64;
                    bits -= 64;
                }
            }
            kymo_put_le64(o, (uint64_t)a);
        }
    }
    return out;
}

#define PACK(w)                                                                                                        \
    case w:                                                                                                            \
        return pack_groups(v, groups, out, w);

/* Groups of eight values of 1 to 32 bits; returns behind the last byte. */
static uint8_t *pack(const uint32_t *v, size_t groups, uint8_t *out, unsigned width)
{
    switch (width) {
        PARQUET_WIDTHS_17(PACK)
        PACK(18)
        PACK(19)
        PACK(20)
        PACK(21)
        PACK(22)
        PACK(23)
        PACK(24)
        PACK(25)
        PACK(26)
        PACK(27)
        PACK(28)
        PACK(29)
        PACK(30)
        PACK(31)
    default:
        return pack_groups(v, groups, out, 32);
    }
}

static int append_groups(struct kymo_buf *b, const uint32_t *v, size_t groups, unsigned width)
{
    int rc = kymo_buf_reserve(b, PARQUET_VARINT_MAX + groups * width + 16);
    if (rc < 0)
        return rc;
    b->len += parquet_varint(groups << 1 | 1, b->data + b->len);
    b->len = (size_t)(pack(v, groups, b->data + b->len, width) - b->data);
    return 0;
}

int parquet_rle_append_run(struct kymo_buf *b, uint32_t v, size_t n, unsigned width)
{
    if (n == 0)
        return 0;
    int rc = kymo_buf_reserve(b, PARQUET_VARINT_MAX + 8);
    if (rc < 0)
        return rc;
    b->len += parquet_varint(n << 1, b->data + b->len);
    kymo_put_le32(b->data + b->len, v);
    b->len += (width + 7) / 8;
    return 0;
}

static int group_is(const uint32_t *g, uint32_t v)
{
    uint32_t diff = 0;

    for (unsigned i = 0; i < 8; i++)
        diff |= g[i] ^ v;
    return diff == 0;
}

/* Groups from g on, all full, that hold one value only. */
static size_t run_of_groups(const uint32_t *g, size_t groups)
{
    size_t k = 0;

    while (k < groups && group_is(g + 8 * k, g[0]))
        k++;
    return k;
}

static void clear_pad(uint32_t *v, size_t n)
{
    for (size_t i = n; i % 8 > 0; i++)
        v[i] = 0;
}

int parquet_rle_append_packed(struct kymo_buf *b, uint32_t *v, size_t n, unsigned width)
{
    clear_pad(v, n);
    return n > 0 ? append_groups(b, v, (n + 7) / 8, width) : 0;
}

int parquet_rle_append(struct kymo_buf *b, uint32_t *v, size_t n, unsigned width)
{
    size_t full = n / 8, all = (n + 7) / 8, start = 0, at = 0;
    int rc;

    clear_pad(v, n);
    while (at < full) {
        size_t run = run_of_groups(v + 8 * at, full - at);
        if (run < RUN_GROUPS_MIN) {
            at += run > 0 ? run : 1;
            continue;
        }
        if (at > start && (rc = append_groups(b, v + 8 * start, at - start, width)) < 0)
            return rc;
        size_t len = run * 8;
        /* A run that reaches the last, partial group takes it in when it fits. */
        if (at + run == full && all > full) {
            size_t i = full * 8;
            while (i < n && v[i] == v[8 * at])
                i++;
            if (i == n)
                return parquet_rle_append_run(b, v[8 * at], n - 8 * at, width);
        }
        rc = parquet_rle_append_run(b, v[8 * at], len, width);
        if (rc < 0)
            return rc;
        at += run;
        start = at;
    }
    return all > start ? append_groups(b, v + 8 * start, all - start, width) : 0;
}

void parquet_pack_bools(const uint8_t *v, size_t n, uint8_t *out)
{
    const uint64_t low = 0x7f7f7f7f7f7f7f7fu;
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        /* The top bit of each byte becomes whether the byte is not zero; the product brings the eight together. */
        uint64_t x = kymo_le64(v + i);
        x = ((((x & low) + low) | x) & ~low) >> 7;
        *out++ = (uint8_t)(x * 0x0102040810204080u >> 56);
    }
    if (i < n) {
        unsigned byte = 0;
        for (unsigned k = 0; i + k < n; k++)
            byte |= (unsigned)(v[i + k] != 0) << k;
        *out = (uint8_t)byte;
    }
}
