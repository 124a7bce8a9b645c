#include "formats/parquet_read/table_unpack.h"

#include <errno.h>
#include <string.h>

#include "base/le.h"

#define MINIBLOCKS_MAX 64

struct source {
    const uint8_t *at, *end;
    int bad;
};

static uint64_t varint(struct source *s)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && s->at < s->end; shift += 7) {
        uint8_t b = *s->at++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return v;
    }
    s->bad = 1;
    return 0;
}

static uint64_t zigzag(uint64_t v)
{
    return (v >> 1) ^ (0 - (v & 1));
}

/* The i-th number of width bits; up to 9 bytes are looked at. */
static inline uint64_t bits_at(const uint8_t *at, size_t i, unsigned width)
{
    size_t bit = i * width;
    unsigned shift = (unsigned)(bit & 7);
    uint64_t v = kymo_le64(at + (bit >> 3)) >> shift;
    if (shift + width > 64)
        v |= (uint64_t)at[(bit >> 3) + 8] << (64 - shift);
    return width == 64 ? v : v & (((uint64_t)1 << width) - 1);
}

static size_t take_run(struct source *s, uint64_t count, unsigned width, uint32_t *ret, size_t n)
{
    size_t bytes = (width + 7) / 8, took = count < n ? (size_t)count : n;
    uint32_t v = 0;
    if ((size_t)(s->end - s->at) < bytes) {
        s->bad = 1;
        return 0;
    }
    for (size_t i = 0; i < bytes; i++)
        v |= (uint32_t)s->at[i] << (8 * i);
    s->at += bytes;
    for (size_t i = 0; i < took; i++)
        ret[i] = v;
    return took;
}

static size_t take_packed(struct source *s, uint64_t groups, unsigned width, uint32_t *ret, size_t n)
{
    /* The last group may be cut after the last number that is there. */
    uint64_t left = (uint64_t)(s->end - s->at), whole = groups <= left ? groups * width : left + 1;
    size_t took = groups <= n / 8 ? (size_t)groups * 8 : n;
    if (((uint64_t)took * width + 7) / 8 > left) {
        s->bad = 1;
        return 0;
    }
    for (size_t i = 0; i < took; i++)
        ret[i] = (uint32_t)bits_at(s->at, i, width);
    s->at += whole < left ? whole : left;
    return took;
}

int table_unpack_hybrid(const uint8_t *at, const uint8_t *end, unsigned width, uint32_t *ret, size_t n)
{
    struct source s = {.at = at, .end = end};
    if (width > 32)
        return -EBADMSG;
    for (size_t done = 0, took; done < n && !s.bad; done += took) {
        uint64_t head = varint(&s);
        took = s.bad      ? 0
               : head & 1 ? take_packed(&s, head >> 1, width, ret + done, n - done)
                          : take_run(&s, head >> 1, width, ret + done, n - done);
        if (took == 0)
            s.bad = 1;
    }
    return s.bad ? -EBADMSG : 0;
}

struct delta {
    uint64_t block, per_block, value, least;
    int narrow;
};

static inline int64_t as_value(const struct delta *d, uint64_t v)
{
    return d->narrow ? (int64_t)(int32_t)(uint32_t)v : (int64_t)v;
}

static size_t take_miniblock(struct source *s, struct delta *d, unsigned width, int64_t *ret, size_t n)
{
    size_t size = (size_t)(d->block / d->per_block), took = size < n ? size : n, bytes = size / 8 * width;
    uint64_t v = d->value;
    if (width > 64 || (size_t)(s->end - s->at) < (took * width + 7) / 8) {
        s->bad = 1;
        return 0;
    }
    for (size_t i = 0; i < took; i++) {
        v += d->least + (width ? bits_at(s->at, i, width) : 0);
        ret[i] = as_value(d, v);
    }
    d->value = v;
    s->at += (size_t)(s->end - s->at) < bytes ? (size_t)(s->end - s->at) : bytes;
    return took;
}

static size_t take_block(struct source *s, struct delta *d, int64_t *ret, size_t n)
{
    uint8_t widths[MINIBLOCKS_MAX];
    size_t done = 0;
    d->least = zigzag(varint(s));
    if (s->bad || (uint64_t)(s->end - s->at) < d->per_block) {
        s->bad = 1;
        return 0;
    }
    memcpy(widths, s->at, (size_t)d->per_block);
    s->at += d->per_block;
    for (uint64_t i = 0; i < d->per_block && done < n && !s->bad; i++)
        done += take_miniblock(s, d, widths[i], ret + done, n - done);
    return done;
}

int table_unpack_delta(const uint8_t *at, const uint8_t *end, int narrow, int64_t *ret, size_t n)
{
    struct source s = {.at = at, .end = end};
    struct delta d = {.narrow = narrow};
    d.block = varint(&s);
    d.per_block = varint(&s);
    uint64_t count = varint(&s);
    d.value = zigzag(varint(&s));
    if (s.bad || count != n || d.block == 0 || d.block % 128 || d.block > 65536 || d.per_block == 0 ||
        d.per_block > MINIBLOCKS_MAX || d.block % (d.per_block * 32))
        return -EBADMSG;
    if (n)
        ret[0] = as_value(&d, d.value);
    for (size_t done = 1; done < n && !s.bad;)
        done += take_block(&s, &d, ret + done, n - done);
    return s.bad ? -EBADMSG : 0;
}
