#include "proto/pb_alloc.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"

/* In front of each block: its size, for free, at a width that keeps the block aligned. */
#define PREFIX sizeof(max_align_t)

_Static_assert(PREFIX >= sizeof(uint64_t), "the size fits before the block");

static void *capped_alloc(void *ctx, size_t size)
{
    struct pb_alloc *a = ctx;
    if (size > a->cap || size + PREFIX > a->cap - a->used) {
        a->exceeded = true;
        return NULL;
    }
    uint8_t *p = kymo_malloc(size + PREFIX);
    if (!p) {
        a->failed = true;
        return NULL;
    }
    uint64_t taken = size + PREFIX;
    memcpy(p, &taken, sizeof taken);
    a->used += taken;
    return p + PREFIX;
}

static void capped_free(void *ctx, void *p)
{
    struct pb_alloc *a = ctx;
    if (!p)
        return;
    uint8_t *start = (uint8_t *)p - PREFIX;
    uint64_t taken;
    memcpy(&taken, start, sizeof taken);
    a->used -= taken;
    kymo_free(start);
}

void pb_alloc_init(struct pb_alloc *a, uint64_t cap)
{
    *a = (struct pb_alloc){.pb = {.alloc = capped_alloc, .free = capped_free, .allocator_data = a}, .cap = cap};
}
