#include "formats/neff/neff_arena.h"

#include <stdalign.h>
#include <string.h>

#include "base/alloc.h"

#define CHUNK_SIZE (64u << 10)
#define BUCKETS_FIRST 256

struct neff_arena_chunk {
    struct neff_arena_chunk *next;
    size_t used, size;
    alignas(max_align_t) unsigned char data[];
};

void neff_arena_done(struct neff_arena *a)
{
    for (struct neff_arena_chunk *c = a->chunks, *next; c; c = next) {
        next = c->next;
        kymo_free(c);
    }
    kymo_free(a->buckets);
    *a = (struct neff_arena){0};
}

void neff_arena_reset(struct neff_arena *a)
{
    struct neff_arena_chunk *kept = NULL;
    for (struct neff_arena_chunk *c = a->chunks, *next; c; c = next) {
        next = c->next;
        if (!kept && c->size == CHUNK_SIZE) {
            kept = c;
            continue;
        }
        kymo_free(c);
    }
    *a = (struct neff_arena){.chunks = kept, .total = kept ? kept->size : 0};
    if (kept) {
        kept->used = 0;
        kept->next = NULL;
    }
}

static struct neff_arena_chunk *add_chunk(struct neff_arena *a, size_t need)
{
    size_t size = need > CHUNK_SIZE ? need : CHUNK_SIZE;
    if (size > NEFF_ARENA_MAX - a->total)
        return NULL;
    struct neff_arena_chunk *c = kymo_malloc(sizeof *c + size);
    if (!c)
        return NULL;
    *c = (struct neff_arena_chunk){.size = size};
    a->total += size;
    /* A chunk made for one big piece is full at once: the one with room stays in front. */
    if (a->chunks && need > CHUNK_SIZE) {
        c->next = a->chunks->next;
        a->chunks->next = c;
    } else {
        c->next = a->chunks;
        a->chunks = c;
    }
    return c;
}

void *neff_arena_alloc(struct neff_arena *a, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > NEFF_ARENA_MAX)
        return NULL;
    bytes = (bytes + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
    struct neff_arena_chunk *c = a->chunks;
    if (!c || c->size - c->used < bytes)
        c = add_chunk(a, bytes);
    if (!c)
        return NULL;
    void *p = c->data + c->used;
    c->used += bytes;
    memset(p, 0, bytes);
    return p;
}

void *neff_arena_copy(struct neff_arena *a, const void *data, size_t n, size_t size)
{
    void *p = neff_arena_alloc(a, n, size);
    if (p && n)
        memcpy(p, data, n * size);
    return p;
}

/* FNV-1a, begun with the arena's address: where it lies is not for the file's author to choose. */
static size_t hash_of(const struct neff_arena *a, const char *text)
{
    uint64_t h = 0xcbf29ce484222325u ^ (uint64_t)(uintptr_t)a;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return (size_t)(h ^ h >> 29);
}

static int grow_buckets(struct neff_arena *a)
{
    size_t count = a->bucket_count ? a->bucket_count * 2 : BUCKETS_FIRST;
    struct neff_name **grown = KYMO_NEW_ARRAY(struct neff_name *, count);
    if (!grown)
        return -1;
    for (size_t i = 0; i < a->bucket_count; i++)
        for (struct neff_name *n = a->buckets[i], *next; n; n = next) {
            next = n->next;
            size_t at = hash_of(a, n->text) % count;
            n->next = grown[at];
            grown[at] = n;
        }
    kymo_free(a->buckets);
    a->buckets = grown;
    a->bucket_count = count;
    return 0;
}

struct neff_name *neff_arena_name(struct neff_arena *a, const char *text)
{
    if (a->name_count >= a->bucket_count && grow_buckets(a) < 0)
        return NULL;
    struct neff_name **at = &a->buckets[hash_of(a, text) % a->bucket_count];
    for (struct neff_name *n = *at; n; n = n->next)
        if (!strcmp(n->text, text))
            return n;
    size_t len = strlen(text);
    struct neff_name *n = neff_arena_alloc(a, 1, sizeof *n + len + 1);
    if (!n)
        return NULL;
    memcpy(n->text, text, len + 1);
    n->next = *at;
    *at = n;
    a->name_count++;
    return n;
}
