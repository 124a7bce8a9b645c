#include "formats/neff/neff_wire.h"

#include <errno.h>

#include "base/alloc.h"

#define VARINT_BYTES_MAX 10

static int varint(struct neff_wire *w, uint64_t *ret)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < VARINT_BYTES_MAX && w->at < w->n; i++) {
        uint8_t byte = w->data[w->at++];
        v |= (uint64_t)(byte & 0x7F) << (7 * i);
        if (!(byte & 0x80)) {
            *ret = v;
            return 0;
        }
    }
    return -EPROTO;
}

static int skip(struct neff_wire *w, uint64_t n)
{
    if (n > w->n - w->at)
        return -EPROTO;
    w->at += (size_t)n;
    return 0;
}

static int value_of(struct neff_wire *w, struct neff_wire_field *f)
{
    uint64_t n;
    switch (f->type) {
    case NEFF_WIRE_VARINT:
        return varint(w, &f->value);
    case NEFF_WIRE_FIXED64:
        return skip(w, 8);
    case NEFF_WIRE_FIXED32:
        return skip(w, 4);
    case NEFF_WIRE_BYTES:
        if (varint(w, &n) < 0)
            return -EPROTO;
        f->data = w->data + w->at;
        f->n = (size_t)n;
        return skip(w, n);
    default:
        return -EPROTO;
    }
}

int neff_wire_next(struct neff_wire *w, struct neff_wire_field *ret)
{
    if (w->at == w->n)
        return 0;
    uint64_t tag;
    if (varint(w, &tag) < 0 || tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
        return -EPROTO;
    struct neff_wire_field f = {.number = (uint32_t)(tag >> 3), .type = (unsigned)(tag & 7)};
    if (value_of(w, &f) < 0)
        return -EPROTO;
    *ret = f;
    return 1;
}

static void *capped_alloc(void *ctx, size_t size)
{
    struct neff_cap *c = ctx;
    if (size > c->max - c->used) {
        c->over = true;
        return NULL;
    }
    void *p = kymo_malloc(size);
    if (!p)
        c->no_memory = true;
    else
        c->used += size;
    return p;
}

static void capped_free(void *ctx, void *p)
{
    (void)ctx;
    kymo_free(p);
}

void neff_cap_init(struct neff_cap *c, size_t max)
{
    *c = (struct neff_cap){.max = max};
    c->allocator = (ProtobufCAllocator){capped_alloc, capped_free, c};
}

void neff_cap_reset(struct neff_cap *c)
{
    c->used = 0;
    c->no_memory = c->over = false;
}
