/* One engine of a subgraph: its instruction stream and the transfers that its JSON describes (FORMAT.md sections 4 and
 * 5). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "arch/layout.h"
#include "formats/neff/neff_path.h"
#include "formats/neff/neff_value.h"

#define BLOCKS_MAX (1u << 20)
#define EXTENSION_MAX 5
#define TRANSPOSE_DIMS 4

struct blocks {
    struct neff_load *l;
    const struct neff_subgraph *sg;
    const char *member;
    uint64_t serial;
    struct neff_dma_block *list;
    size_t count, cap;
};

/* Exact name first; failing that, any case, because builds differ in it. */
static const struct neff_member *find_any_case(const struct neff *n, const char *name)
{
    const struct neff_member *m = neff_find_member(n, name);
    for (size_t i = 0; !m && i < n->member_count; i++)
        if (!strcasecmp(n->members[i].name, name))
            m = &n->members[i];
    return m;
}

/* def.json names the .bin in some files and the .json in others: the stem leads to both. path is the name looked for.
 */
static const struct neff_member *find_sibling(const struct neff *n, const char *definition, const char *file,
                                              const char *extension, char path[static NEFF_NAME_MAX + 1])
{
    if (!neff_path_beside(definition, file, path, NEFF_NAME_MAX + 1 - EXTENSION_MAX)) {
        (void)snprintf(path, NEFF_NAME_MAX + 1, "%s", file);
        return NULL;
    }
    char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    char *end = dot && (!strcasecmp(dot, ".bin") || !strcasecmp(dot, ".json")) ? dot : path + strlen(path);
    (void)snprintf(end, (size_t)(path + NEFF_NAME_MAX + 1 - end), "%s", extension);
    return find_any_case(n, path);
}

static const struct neff_queue *set_of(const struct neff_subgraph *sg, const char *instance)
{
    for (size_t i = 0; i < sg->queue_count; i++)
        for (size_t k = 0; k < sg->queues[i].instance_count; k++)
            if (!strcmp(sg->queues[i].instances[k], instance))
                return &sg->queues[i];
    return NULL;
}

static int intern_into(struct neff_load *l, const char *text, const char **ret)
{
    *ret = text ? neff_intern(l->n, text) : NULL;
    return text && !*ret ? neff_no_memory(l) : 0;
}

/* function_start holds for its entry and all later ones of the queue set, whichever instance they name. */
static int name_block(struct blocks *b, const json_t *entry, struct neff_dma_block *block)
{
    const char *queue = neff_json_text(entry, "queue"), *instance = neff_json_text(entry, "instance_name");
    const char *start = neff_json_text(entry, "function_start");
    int r = intern_into(b->l, instance ? instance : queue ? queue : "", &block->queue);
    if (r == 0)
        r = intern_into(b->l, start, &start);
    if (r < 0)
        return r;
    const struct neff_queue *set = queue || !instance ? NULL : set_of(b->sg, instance);
    struct neff_name *key = neff_arena_name(&b->l->n->arena, queue ? queue : set ? set->name : block->queue);
    if (!key)
        return neff_no_memory(b->l);
    if (key->mark != b->serial) {
        key->mark = b->serial;
        key->value = NULL;
    }
    if (start)
        key->value = start;
    block->function = key->value;
    return 0;
}

static unsigned load_dims(const json_t *list, int64_t out[NEFF_DMA_DIMS])
{
    size_t n = json_array_size(list);
    if (n > NEFF_DMA_DIMS)
        n = NEFF_DMA_DIMS;
    for (size_t i = 0; i < n; i++)
        out[i] = json_integer_value(json_array_get(list, i));
    return (unsigned)n;
}

static int load_access(struct blocks *b, const json_t *desc, const char *side, struct neff_access *a)
{
    char key[16];
    (void)snprintf(key, sizeof key, "%s", side);
    const char *variable = neff_json_text(desc, key);
    (void)snprintf(key, sizeof key, "%s_arr", side);
    /* A computing transfer lists its sources; the first one stands for them. */
    const json_t *sources = json_object_get(desc, key);
    if (!variable)
        variable = json_string_value(json_array_get(sources, 0));
    (void)snprintf(key, sizeof key, "%s_dtype", side);
    const char *dtype = neff_json_text(desc, key);
    int r = intern_into(b->l, variable, &a->variable);
    if (r == 0)
        r = intern_into(b->l, dtype ? dtype : "uint8", &a->dtype);
    if (r < 0)
        return r;
    (void)snprintf(key, sizeof key, "%s_off", side);
    a->offset = neff_json_int(desc, key, 0);
    (void)snprintf(key, sizeof key, "%s_steps", side);
    a->step_count = load_dims(json_object_get(desc, key), a->steps);
    (void)snprintf(key, sizeof key, "%s_sizes", side);
    a->size_count = load_dims(json_object_get(desc, key), a->sizes);
    return 0;
}

/* Product of the sizes, the first of which is in bytes; false when it is negative or beyond 63 bits. */
static bool product_of(const json_t *sizes, int64_t *ret)
{
    int64_t bytes = json_array_size(sizes) > 0;
    for (size_t i = 0; i < json_array_size(sizes) && i < NEFF_DMA_DIMS; i++) {
        int64_t size = json_integer_value(json_array_get(sizes, i));
        if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes))
            return false;
    }
    *ret = bytes;
    return true;
}

static bool add_bytes(const json_t *desc, uint64_t *total)
{
    const json_t *sizes = json_object_get(desc, "from_sizes");
    int64_t bytes;
    if (!product_of(json_array_size(sizes) ? sizes : json_object_get(desc, "to_sizes"), &bytes))
        return false;
    *total += (uint64_t)bytes;
    return *total <= INT64_MAX;
}

static int load_transpose(struct blocks *b, const json_t *desc, struct neff_dma_block *block)
{
    const json_t *shape = json_object_get(desc, "transpose_shape");
    block->transpose_element_size = neff_json_int(desc, "transpose_element_size", 0);
    size_t n = json_array_size(shape);
    if (n == 0)
        return 0;
    int64_t dims[TRANSPOSE_DIMS] = {0};
    _Static_assert(TRANSPOSE_DIMS == NEFF_DMA_DIMS, "shapes are read like sizes");
    block->transpose_dims = load_dims(shape, dims);
    block->transpose_shape = neff_arena_copy(&b->l->n->arena, dims, block->transpose_dims, sizeof *dims);
    return block->transpose_shape ? 0 : neff_no_memory(b->l);
}

static int load_descriptors(struct blocks *b, const json_t *entry, struct neff_dma_block *block)
{
    const json_t *list = json_object_get(entry, "desc"), *first = list;
    size_t n = 1;
    if (json_is_array(list)) {
        n = json_array_size(list);
        first = json_array_get(list, 0);
    }
    bool known = true;
    for (size_t i = 0; i < n && known; i++)
        known = add_bytes(json_is_array(list) ? json_array_get(list, i) : list, &block->bytes);
    if (!known) {
        neff_add_note(b->l->n, "%s: block %u of queue %s: its sizes have no product; bytes are 0", b->member, block->id,
                      block->queue);
        block->bytes = 0;
    }
    block->desc_count = n ? (uint32_t)n : 1;
    const char *op = neff_json_text(first, "op");
    int r = intern_into(b->l, op ? op : "copy", &block->op);
    if (r == 0)
        r = load_access(b, first, "from", &block->from);
    if (r == 0)
        r = load_access(b, first, "to", &block->to);
    return r == 0 ? load_transpose(b, first, block) : r;
}

static int load_block(void *ctx, const json_t *entry)
{
    struct blocks *b = ctx;
    int64_t id = neff_json_int(entry, "id", -1), semaphore = neff_json_int(entry, "semaphore", -1);
    if (id < 0 || id > UINT32_MAX) {
        neff_add_note(b->l->n, "%s: DMA entry without a usable id; left out", b->member);
        return 0;
    }
    void *p = b->list;
    int r = kymo_grow(&p, &b->cap, b->count + 1, BLOCKS_MAX, sizeof *b->list);
    b->list = p;
    if (r < 0)
        return r == -ENOMEM ? neff_no_memory(b->l)
                            : neff_refuse(b->l, NEFF_ERROR_LIMIT, -E2BIG, "member \"%s\": more than %u DMA blocks",
                                          b->member, BLOCKS_MAX);
    struct neff_dma_block *block = &b->list[b->count];
    *block = (struct neff_dma_block){.id = (uint32_t)id,
                                     .semaphore = semaphore >= 0 && semaphore < 65536 ? (int)semaphore : -1};
    r = name_block(b, entry, block);
    if (r == 0)
        r = load_descriptors(b, entry, block);
    b->count += r == 0;
    return r;
}

static int load_blocks(struct neff_load *l, const struct neff_subgraph *sg, const struct neff_member *m,
                       struct neff_engine *e)
{
    struct blocks b = {.l = l, .sg = sg, .member = m->name, .serial = ++l->n->stream_serial};
    int r = neff_json_walk(l, m, "dma", load_block, &b);
    if (r == 0) {
        e->blocks = neff_arena_copy(&l->n->arena, b.list, b.count, sizeof *b.list);
        e->block_count = b.count;
        if (!e->blocks)
            r = neff_no_memory(l);
    }
    kymo_free(b.list);
    return r;
}

static int load_stream(struct neff_load *l, const struct neff_member *m, struct neff_engine *e)
{
    if (m->size % KYMO_INSTR_SIZE != 0)
        return neff_refuse(l, NEFF_ERROR_BAD_STREAM_LENGTH, -EPROTO,
                           "member \"%s\": %zu bytes are no whole number of %d-byte records", m->name, m->size,
                           KYMO_INSTR_SIZE);
    if (!m->size)
        neff_add_note(l->n, "member \"%s\" has no bytes: %s has no instructions of the compiler", m->name,
                      kymo_engine_name(e->engine));
    int r = neff_archive_hold(l, m);
    if (r < 0)
        return r;
    e->bin_name = m->name;
    e->code = m->data;
    e->count = m->size / KYMO_INSTR_SIZE;
    return 0;
}

int neff_engine_load(struct neff_load *l, const struct neff_subgraph *sg, const char *file, struct neff_engine *e)
{
    char bin_path[NEFF_NAME_MAX + 1], json_path[NEFF_NAME_MAX + 1];
    const struct neff_member *bin = find_sibling(l->n, sg->definition, file, ".bin", bin_path);
    const struct neff_member *json = find_sibling(l->n, sg->definition, file, ".json", json_path);
    if (!bin)
        neff_add_note(l->n, "%s: the instructions of %s are absent (%s)", sg->definition, kymo_engine_name(e->engine),
                      bin_path);
    if (!json)
        neff_add_note(l->n, "%s: the transfers of %s are absent (%s)", sg->definition, kymo_engine_name(e->engine),
                      json_path);
    int r = bin ? load_stream(l, bin, e) : 0;
    if (r < 0 || !json)
        return r;
    e->json_name = json->name;
    return load_blocks(l, sg, json, e);
}
