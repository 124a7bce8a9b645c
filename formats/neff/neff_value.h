/*
 * JSON members: parsing with limits, and typed access that never fails on a value of another type. A document as a
 * whole is bounded in bytes and values; the long array of an engine's DMA entries is walked one entry at a time
 * instead.
 */
#ifndef KYMO_FORMATS_NEFF_NEFF_VALUE_H
#define KYMO_FORMATS_NEFF_NEFF_VALUE_H

#include <jansson.h>

#include "base/alloc.h"
#include "formats/neff/neff_internal.h"

#define NEFF_JSON_MAX (64u << 20)       /* bytes of one document */
#define NEFF_JSON_VALUES_MAX (4u << 20) /* marks that begin a value in it, counted before parsing */
#define NEFF_JSON_WALK_MAX (1ull << 30) /* bytes of a walked document */
#define NEFF_JSON_ENTRY_MAX (1u << 20)  /* bytes of one entry of its array, or of a name */
#define NEFF_JSON_OTHER_MAX (16u << 20) /* bytes of any other value of it */
#define NEFF_JSON_ENTRIES_MAX (16u << 20)

/* A parsed document and the memory it lies in; values live as long as it. Never json_decref them. */
struct neff_json {
    struct neff_arena memory;
    json_t *root;
};
void neff_json_done(struct neff_json *j);
#define NEFF_JSON KYMO_CLEANUP(neff_json_done)

/* The whole member as one object into *j, which is zeroed; refuses (BAD_JSON, LIMIT) naming member and byte. */
int neff_json_parse(struct neff_load *l, const struct neff_member *m, struct neff_json *j) KYMO_MUST_CHECK;

/*
 * Walks a member that is an object. The array under `key` is handed to each() entry by entry, all other values are
 * checked and dropped. each() returns 0 to go on.
 */
int neff_json_walk(struct neff_load *l, const struct neff_member *m, const char *key,
                   int (*each)(void *ctx, const json_t *entry), void *ctx) KYMO_MUST_CHECK;

const char *neff_json_text(const json_t *object, const char *key);              /* NULL: absent or no text */
int64_t neff_json_int(const json_t *object, const char *key, int64_t fallback); /* also from decimal text */

/* neff_groups.c: ranks, replica groups and streams of a def.json; what has another shape is noted and left out. */
int neff_groups_load(struct neff_load *l, const json_t *def, struct neff_subgraph *sg) KYMO_MUST_CHECK;

#endif
