/*
 * Memory of one NEFF: everything that parsing makes lives in one arena and goes with it. Names are interned, since
 * queue and variable names repeat in every DMA block. Not thread-safe.
 */
#ifndef KYMO_FORMATS_NEFF_NEFF_ARENA_H
#define KYMO_FORMATS_NEFF_NEFF_ARENA_H

#include <stddef.h>
#include <stdint.h>

#define NEFF_ARENA_MAX (2ull << 30)

struct neff_arena_chunk;

/* One interned name. mark and value are the parser's scratch: see neff_engine.c. */
struct neff_name {
    struct neff_name *next;
    uint64_t mark;
    const char *value;
    char text[];
};

struct neff_arena {
    struct neff_arena_chunk *chunks; /* newest first */
    size_t total;
    struct neff_name **buckets;
    size_t bucket_count, name_count;
};

/* A zeroed arena is empty. */
void neff_arena_done(struct neff_arena *a);
/* Empties it but keeps a chunk for what comes next. Not for arenas with names. */
void neff_arena_reset(struct neff_arena *a);
/* Aligned for any type, zeroed. NULL: out of memory or beyond NEFF_ARENA_MAX. */
void *neff_arena_alloc(struct neff_arena *a, size_t n, size_t size);
void *neff_arena_copy(struct neff_arena *a, const void *data, size_t n, size_t size);
/* The one copy of this text; NULL: out of memory. */
struct neff_name *neff_arena_name(struct neff_arena *a, const char *text);

#define NEFF_ARENA_ARRAY(a, T, n) ((T *)neff_arena_alloc((a), (n), sizeof(T)))

#endif
