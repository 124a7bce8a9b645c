#include "formats/ntff/ntff_index.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "arch/arch.h"
#include "arch/ring.h"
#include "base/alloc.h"
#include "formats/ntff/ntff_walk.h"

#define SLOT_SIZE 64
#define CAUSE_MAX 256
#define PCORES_MAX 2

_Static_assert((int)NTFF__RING_KIND__RING_H2D_DMA == KYMO_RING_H2D_DMA, "ring_kind and enum kymo_ring agree");

/* What each ring's entries must say of themselves. */
static const struct {
    int trace_type, block_type;
} ring_types[KYMO_RING_MAX] = {
#define X(id, suffix, mb, tt, bt) [KYMO_RING_##id] = {tt, bt},
    KYMO_RING_MAP(X)
#undef X
};

struct builder {
    const Ntff__NtffInfo *info;
    const struct ntff_header *header;
    const char *name;
    struct kymo_err *err;
    struct ntff_index ix;
    size_t pieces;
    uint64_t image_end, ring_end; /* how far the blobs seen so far reach, from their section's start */
    /* Ring number + 1 by kind, physical core and engine: joining stays linear in the number of pieces. */
    uint16_t by_key[KYMO_RING_MAX][PCORES_MAX][NTFF_ENGINE_INDEX_MAX + 1];
};

_Static_assert(NTFF_RINGS_MAX < UINT16_MAX, "by_key holds a ring's number + 1");

/* All that is wrong inside the protobuf is reported at the protobuf's offset, with the place in words. */
__attribute__((format(printf, 3, 4))) static int refuse(struct builder *b, const char *place, const char *fmt, ...)
{
    char cause[CAUSE_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(cause, sizeof cause, fmt, ap);
    va_end(ap);
    return kymo_err_set(b->err, -EPROTO, "%s: offset %d: %s: %s", b->name, NTFF_HEADER_SIZE, place, cause);
}

static bool enum_known(int value, int max)
{
    return value >= 0 && value < max;
}

/* Ranges rise in the order of naming, so that no byte belongs to two blobs. */
static int check_range(struct builder *b, const char *place, uint64_t offset, uint64_t size, uint64_t section,
                       uint64_t *end)
{
    if (offset > section || size > section - offset)
        return refuse(b, place, "%llu bytes at %llu leave the section of %llu bytes", (unsigned long long)size,
                      (unsigned long long)offset, (unsigned long long)section);
    if (offset < *end)
        return refuse(b, place, "%llu bytes at %llu overlap the blob before, which ends at %llu",
                      (unsigned long long)size, (unsigned long long)offset, (unsigned long long)*end);
    *end = offset + size;
    return 0;
}

static int check_sections(struct builder *b, const char *place, const Ntff__EngineInstructionInfo *info, uint64_t slots)
{
    for (size_t i = 0; i < info->n_sections; i++) {
        const Ntff__ImageSectionInfo *s = info->sections[i];
        if (!enum_known((int)s->section, NTFF__IMAGE_SECTION__SECTION_FUNCTION + 1))
            return refuse(b, place, "sections[%zu]: unknown section %d", i, (int)s->section);
        if ((uint64_t)s->first + s->count > slots)
            return refuse(b, place, "sections[%zu]: slots %u to %llu of an image of %llu", i, s->first,
                          (unsigned long long)s->first + s->count, (unsigned long long)slots);
    }
    return 0;
}

static int visit_image(void *ctx, Ntff__EngineInstructionInfo *info, const struct ntff_place *p)
{
    struct builder *b = ctx;
    char place[NTFF_PLACE_TEXT_MAX];
    ntff_place_image(p, place);
    uint64_t size = info->instructions_size;
    if (!enum_known((int)info->nc_engine_type, KYMO_ENGINE_MAX))
        return refuse(b, place, "unknown engine %d", (int)info->nc_engine_type);
    if (info->instructions.len > 0 && size > 0)
        return refuse(b, place, "instructions are both inline and in a blob");
    if (info->instructions.len > 0)
        size = info->instructions.len;
    if (size % SLOT_SIZE)
        return refuse(b, place, "image of %llu bytes, no multiple of %d", (unsigned long long)size, SLOT_SIZE);
    if (size > NTFF_IMAGE_MAX)
        return refuse(b, place, "image of %llu bytes, more than the limit of %llu", (unsigned long long)size,
                      NTFF_IMAGE_MAX);
    int r = check_range(b, place, info->instructions_offset, info->instructions_size, b->header->instruction_size,
                        &b->image_end);
    return r < 0 ? r : check_sections(b, place, info, size / SLOT_SIZE);
}

static int check_nc(struct builder *b, const char *place, uint32_t nc)
{
    uint64_t first = b->info->start_nc;
    if (nc >= first && nc < first + b->info->lnc_size)
        return 0;
    return refuse(b, place, "nc_idx %u is outside the logical core (%llu to %llu)", nc, (unsigned long long)first,
                  (unsigned long long)first + b->info->lnc_size - 1);
}

static int visit_graph(void *ctx, const Ntff__SubgraphInfo *graph, const struct ntff_place *p)
{
    struct builder *b = ctx;
    char place[NTFF_PLACE_TEXT_MAX];
    (void)snprintf(place, sizeof place, "ntff_info.neff_nodes[%zu].nd_node.graphs[%zu]", p->node, p->graph);
    for (size_t i = 0; i < graph->n_patch_info; i++) {
        const Ntff__InstructionPatchInfo *patch = graph->patch_info[i];
        if (!enum_known((int)patch->nc_engine_type, KYMO_ENGINE_MAX) ||
            !enum_known((int)patch->type, NTFF__INSTRUCTION_PATCH_TYPE__PATCH_DELETE + 1) ||
            !enum_known((int)patch->section, NTFF__IMAGE_SECTION__SECTION_FUNCTION + 1))
            return refuse(b, place, "patch_info[%zu]: unknown engine %d, type %d or section %d", i,
                          (int)patch->nc_engine_type, (int)patch->type, (int)patch->section);
        if (patch->offset % SLOT_SIZE || patch->offset > NTFF_IMAGE_MAX)
            return refuse(b, place, "patch_info[%zu]: offset %llu is no slot of an image", i,
                          (unsigned long long)patch->offset);
    }
    return check_nc(b, place, graph->nc_idx);
}

static int check_ring_types(struct builder *b, const char *place, const Ntff__TraceInfo *t)
{
    if (!enum_known((int)t->ring, KYMO_RING_MAX))
        return refuse(b, place, "unknown ring kind %d", (int)t->ring);
    if ((int)t->trace_type != ring_types[t->ring].trace_type || (int)t->block_type != ring_types[t->ring].block_type)
        return refuse(b, place, "ring kind %d with trace_type %d and block_type %d, not %d and %d", (int)t->ring,
                      (int)t->trace_type, (int)t->block_type, ring_types[t->ring].trace_type,
                      ring_types[t->ring].block_type);
    if (t->engine_index > NTFF_ENGINE_INDEX_MAX)
        return refuse(b, place, "engine_index %u, more than the limit of %d", t->engine_index, NTFF_ENGINE_INDEX_MAX);
    if (t->size % KYMO_RECORD_SIZE)
        return refuse(b, place, "%llu bytes of records, no multiple of %d", (unsigned long long)t->size,
                      KYMO_RECORD_SIZE);
    return check_nc(b, place, t->nc_idx);
}

/* The ring that this piece belongs to, new at its first piece. NULL: the error is set in *ret_code. */
static struct ntff_index_ring *find_ring(struct builder *b, const char *place, const Ntff__TraceInfo *t, int *ret_code)
{
    uint32_t pcore = t->nc_idx - b->info->start_nc;
    uint16_t *key = &b->by_key[t->ring][pcore][t->engine_index];
    if (*key)
        return &b->ix.rings[*key - 1];
    int r = kymo_grow((void **)&b->ix.rings, &b->ix.cap, b->ix.n + 1, NTFF_RINGS_MAX, sizeof *b->ix.rings);
    if (r < 0) {
        *ret_code = r == -ENOMEM ? kymo_err_set(b->err, r, "%s: out of memory", b->name)
                                 : refuse(b, place, "more than %d rings", NTFF_RINGS_MAX);
        return NULL;
    }
    struct ntff_index_ring *ring = &b->ix.rings[b->ix.n++];
    *ring = (struct ntff_index_ring){
        .pub = {.kind = t->ring, .nc_idx = t->nc_idx, .pcore_idx = pcore, .engine_index = t->engine_index}};
    *key = (uint16_t)b->ix.n;
    return ring;
}

/* The last piece's counters stand for the whole ring. */
static void take_counters(struct ntff_ring *ring, const Ntff__TraceInfo *t)
{
    ring->buffer_size = t->buffer_size;
    ring->has_counters = t->emitted_oneof_case == NTFF__TRACE_INFO__EMITTED_ONEOF_EMITTED &&
                         t->dropped_oneof_case == NTFF__TRACE_INFO__DROPPED_ONEOF_DROPPED;
    ring->emitted = ring->has_counters ? t->emitted : 0;
    ring->dropped = ring->has_counters ? t->dropped : 0;
}

static int visit_ring(void *ctx, Ntff__TraceInfo *t, const struct ntff_place *p)
{
    struct builder *b = ctx;
    char place[NTFF_PLACE_TEXT_MAX];
    ntff_place_ring(p, place);
    int r = check_ring_types(b, place, t);
    if (r < 0)
        return r;
    r = check_range(b, place, t->offset, t->size, b->header->notification_size, &b->ring_end);
    if (r < 0)
        return r;
    struct ntff_index_ring *ring = find_ring(b, place, t, &r);
    if (!ring)
        return r;
    if (++b->pieces > NTFF_PIECES_MAX)
        return refuse(b, place, "more than %u pieces of rings", NTFF_PIECES_MAX);
    take_counters(&ring->pub, t);
    if (t->size == 0)
        return 0;
    if (kymo_grow((void **)&ring->pieces, &ring->cap, ring->n + 1, NTFF_PIECES_MAX, sizeof *ring->pieces) < 0)
        return kymo_err_set(b->err, -ENOMEM, "%s: out of memory", b->name);
    ring->pieces[ring->n++] =
        (struct ntff_piece){.first = ring->pub.records, .offset = b->header->notification_base + t->offset};
    ring->pub.records += t->size / KYMO_RECORD_SIZE;
    b->ix.records += t->size / KYMO_RECORD_SIZE;
    return 0;
}

static int check_info(struct builder *b)
{
    const Ntff__NtffInfo *info = b->info;
    if (info->ntff_version != b->header->ntff_version)
        return refuse(b, "ntff_info.ntff_version", "%u, but the header says %u", info->ntff_version,
                      b->header->ntff_version);
    if (info->lnc_size < 1 || info->lnc_size > PCORES_MAX)
        return refuse(b, "ntff_info.lnc_size", "%u, neither 1 nor 2", info->lnc_size);
    for (size_t i = 0; i < info->n_execution_timeline; i++)
        if (info->execution_timeline[i]->neff_node >= info->n_neff_nodes)
            return refuse(b, "ntff_info.execution_timeline", "entry %zu names NEFF node %u of %zu", i,
                          info->execution_timeline[i]->neff_node, info->n_neff_nodes);
    return 0;
}

/* Counters that contradict the stored bytes prove nothing: such a ring is reported like one without counters. */
static void check_counters(struct ntff_index *ix)
{
    for (size_t i = 0; i < ix->n; i++) {
        struct ntff_ring *ring = &ix->rings[i].pub;
        if (ring->has_counters && (ring->dropped > ring->emitted || ring->emitted - ring->dropped != ring->records)) {
            ring->has_counters = 0;
            ring->counters_contradict = 1;
        }
    }
}

static int check_flags(struct builder *b)
{
    bool none = (b->header->flags & NTFF_FLAG_NO_RECORDS) != 0;
    if (none == (b->ix.records == 0))
        return 0;
    return refuse(b, "ntff_info", "%llu records, but the header says that there are %s",
                  (unsigned long long)b->ix.records, none ? "none" : "some");
}

int ntff_index_build(const Ntff__NtffInfo *info, const struct ntff_header *header, const char *name,
                     struct ntff_index *ret, struct kymo_err *err)
{
    static const struct ntff_visitor visitor = {.image = visit_image, .ring = visit_ring, .graph = visit_graph};
    struct builder *b KYMO_FREE = KYMO_NEW(struct builder);
    if (!b)
        return kymo_err_set(err, -ENOMEM, "%s: out of memory", name);
    b->info = info;
    b->header = header;
    b->name = name;
    b->err = err;
    int r = check_info(b);
    if (r == 0)
        r = ntff_walk(info, &visitor, b);
    if (r == 0)
        r = check_flags(b);
    if (r < 0) {
        ntff_index_done(&b->ix);
        return r;
    }
    check_counters(&b->ix);
    *ret = b->ix;
    return 0;
}

void ntff_index_done(struct ntff_index *ix)
{
    for (size_t i = 0; i < ix->n; i++)
        kymo_free(ix->rings[i].pieces);
    kymo_free(ix->rings);
    *ix = (struct ntff_index){0};
}
