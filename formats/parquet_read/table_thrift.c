#include "formats/parquet_read/table_thrift.h"

static uint8_t byte_of(struct table_thrift *t)
{
    if (t->bad || t->at == t->end) {
        t->bad = true;
        return 0;
    }
    return *t->at++;
}

static uint64_t varint(struct table_thrift *t)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t b = byte_of(t);
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return t->bad ? 0 : v;
    }
    t->bad = true;
    return 0;
}

int64_t table_thrift_int(struct table_thrift *t)
{
    uint64_t v = varint(t);
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

bool table_thrift_next(struct table_thrift *t, struct table_thrift_field *f)
{
    uint8_t b = byte_of(t);
    if (t->bad || b == TABLE_THRIFT_STOP)
        return false;
    f->type = b & 15;
    f->id = b >> 4 ? f->id + (b >> 4) : (int)(int16_t)table_thrift_int(t);
    return !t->bad;
}

const uint8_t *table_thrift_binary(struct table_thrift *t, size_t *ret_n)
{
    uint64_t n = varint(t);
    const uint8_t *at = t->at;
    *ret_n = 0;
    if (t->bad || n > (uint64_t)(t->end - t->at)) {
        t->bad = true;
        return NULL;
    }
    t->at += n;
    *ret_n = (size_t)n;
    return at;
}

static uint64_t list_head(struct table_thrift *t, enum table_thrift_type *ret)
{
    uint8_t b = byte_of(t);
    uint64_t n = b >> 4 == 15 ? varint(t) : b >> 4;
    *ret = b & 15;
    /* Each element has a byte at least, so what is told of here is there, or the list ends with an error soon. */
    if (n > (uint64_t)(t->end - t->at))
        t->bad = true;
    return t->bad ? 0 : n;
}

size_t table_thrift_list(struct table_thrift *t, enum table_thrift_type type)
{
    enum table_thrift_type found;
    uint64_t n = list_head(t, &found);
    if (n && found != type)
        t->bad = true;
    return t->bad ? 0 : (size_t)n;
}

static void skip(struct table_thrift *t, enum table_thrift_type type, int depth, bool element);

static void skip_elements(struct table_thrift *t, int depth)
{
    enum table_thrift_type type;
    uint64_t n = list_head(t, &type);
    for (uint64_t i = 0; i < n && !t->bad; i++)
        skip(t, type, depth, true);
}

static void skip_fields(struct table_thrift *t, int depth)
{
    struct table_thrift_field f = {0};
    while (table_thrift_next(t, &f))
        skip(t, f.type, depth, false);
}

static void skip(struct table_thrift *t, enum table_thrift_type type, int depth, bool element)
{
    size_t n;
    if (depth > TABLE_THRIFT_DEPTH_MAX) {
        t->bad = true;
        return;
    }
    switch (type) {
    case TABLE_THRIFT_TRUE:
    case TABLE_THRIFT_FALSE:
        if (element) /* a field's value is its type */
            (void)byte_of(t);
        return;
    case TABLE_THRIFT_BYTE:
        (void)byte_of(t);
        return;
    case TABLE_THRIFT_I16:
    case TABLE_THRIFT_I32:
    case TABLE_THRIFT_I64:
        (void)varint(t);
        return;
    case TABLE_THRIFT_DOUBLE:
        for (int i = 0; i < 8; i++)
            (void)byte_of(t);
        return;
    case TABLE_THRIFT_BINARY:
        (void)table_thrift_binary(t, &n);
        return;
    case TABLE_THRIFT_LIST:
    case TABLE_THRIFT_SET:
        skip_elements(t, depth + 1);
        return;
    case TABLE_THRIFT_STRUCT:
        skip_fields(t, depth + 1);
        return;
    default:
        t->bad = true; /* Parquet has no maps */
    }
}

void table_thrift_skip(struct table_thrift *t, enum table_thrift_type type)
{
    skip(t, type, 0, false);
}
