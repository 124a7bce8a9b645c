#include "formats/parquet/parquet_thrift.h"

#include <string.h>

size_t parquet_varint(uint64_t v, uint8_t out[PARQUET_VARINT_MAX])
{
    size_t n = 0;

    while (v >= 0x80) {
        out[n++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    out[n++] = (uint8_t)v;
    return n;
}

uint64_t parquet_zigzag(int64_t v)
{
    return ((uint64_t)v << 1) ^ (v < 0 ? UINT64_MAX : 0);
}

static void put(struct parquet_thrift *t, const void *data, size_t n)
{
    if (t->rc == 0)
        t->rc = kymo_buf_append(t->buf, data, n);
}

static void put_byte(struct parquet_thrift *t, unsigned v)
{
    put(t, &(uint8_t){(uint8_t)v}, 1);
}

static void put_varint(struct parquet_thrift *t, uint64_t v)
{
    uint8_t tmp[PARQUET_VARINT_MAX];

    put(t, tmp, parquet_varint(v, tmp));
}

static void put_binary(struct parquet_thrift *t, const void *data, size_t n)
{
    put_varint(t, n);
    if (n > 0)
        put(t, data, n);
}

static void put_field(struct parquet_thrift *t, int field, enum parquet_thrift_type type)
{
    int *last = &t->last[t->depth];
    int delta = field - *last;

    if (delta > 0 && delta <= 15) {
        put_byte(t, (unsigned)delta << 4 | type);
    } else {
        put_byte(t, type);
        put_varint(t, parquet_zigzag(field));
    }
    *last = field;
}

static void push(struct parquet_thrift *t)
{
    t->depth++;
    t->last[t->depth] = 0;
}

struct parquet_thrift parquet_thrift_begin(struct kymo_buf *buf)
{
    return (struct parquet_thrift){.buf = buf};
}

int parquet_thrift_end(struct parquet_thrift *t)
{
    put_byte(t, 0);
    return t->rc;
}

void parquet_thrift_bool(struct parquet_thrift *t, int field, bool v)
{
    put_field(t, field, v ? PARQUET_THRIFT_TRUE : PARQUET_THRIFT_FALSE);
}

void parquet_thrift_i32(struct parquet_thrift *t, int field, int32_t v)
{
    put_field(t, field, PARQUET_THRIFT_I32);
    put_varint(t, parquet_zigzag(v));
}

void parquet_thrift_i64(struct parquet_thrift *t, int field, int64_t v)
{
    put_field(t, field, PARQUET_THRIFT_I64);
    put_varint(t, parquet_zigzag(v));
}

void parquet_thrift_binary(struct parquet_thrift *t, int field, const void *data, size_t n)
{
    put_field(t, field, PARQUET_THRIFT_BINARY);
    put_binary(t, data, n);
}

void parquet_thrift_string(struct parquet_thrift *t, int field, const char *s)
{
    parquet_thrift_binary(t, field, s, strlen(s));
}

void parquet_thrift_struct(struct parquet_thrift *t, int field)
{
    put_field(t, field, PARQUET_THRIFT_STRUCT);
    push(t);
}

void parquet_thrift_close(struct parquet_thrift *t)
{
    put_byte(t, 0);
    t->depth--;
}

void parquet_thrift_ready(struct parquet_thrift *t, int field, const void *data, size_t n)
{
    put_field(t, field, PARQUET_THRIFT_STRUCT);
    put(t, data, n);
}

void parquet_thrift_list(struct parquet_thrift *t, int field, enum parquet_thrift_type type, size_t n)
{
    put_field(t, field, PARQUET_THRIFT_LIST);
    if (n < 15) {
        put_byte(t, (unsigned)n << 4 | type);
    } else {
        put_byte(t, 0xf0u | type);
        put_varint(t, n);
    }
}

void parquet_thrift_list_bool(struct parquet_thrift *t, bool v)
{
    put_byte(t, v ? PARQUET_THRIFT_TRUE : PARQUET_THRIFT_FALSE);
}

void parquet_thrift_list_int(struct parquet_thrift *t, int64_t v)
{
    put_varint(t, parquet_zigzag(v));
}

void parquet_thrift_list_binary(struct parquet_thrift *t, const void *data, size_t n)
{
    put_binary(t, data, n);
}

void parquet_thrift_list_struct(struct parquet_thrift *t)
{
    push(t);
}
