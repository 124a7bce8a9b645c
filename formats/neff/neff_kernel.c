/*
 * NKI kernels: kernel_debug_info.json and one JSON per kernel (A that they exist; their keys are not public, so all of
 * them here are G and stand in this file alone). What is broken in them is noted and left out.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "formats/neff/neff_path.h"
#include "formats/neff/neff_value.h"

#define INDEX_NAME "kernel_debug_info.json"
#define KERNELS_MAX 4096
#define ITEMS_MAX (4u << 20) /* of each list of one subgraph */
#define DEPTH_MAX 256

/* Keys of the index and of a kernel's file (G). */
#define KEY_KERNELS "kernels"
#define KEY_FILE "file"
#define KEY_LINE "line"
#define KEY_ID "id"
#define KEY_PARENT "parent"
#define KEY_VALUE "value"
#define KEY_NAME "name"
#define KEY_FUNCTION "function"
#define KEY_FRAMES "stack_frames"
#define KEY_VARIABLES "iteration_variables"
#define KEY_REGIONS "regions"
#define KEY_INSTRUCTIONS "instructions"
#define KEY_FRAME "stack_frame"
#define KEY_VARIABLE "iteration_variable"
#define KEY_REGION "region"

struct id_entry { /* id within a file, and its index plus 1 in the list */
    int64_t id;
    uint32_t index;
};

struct scopes {
    struct neff_kernel_scope *list;
    size_t count, cap;
    struct id_entry *ids; /* of the file at hand, by id */
    size_t id_count, id_cap;
};

struct kernels {
    struct neff_load *l;
    const struct neff_member *member; /* being read */
    struct scopes frames, variables, regions;
    struct neff_kernel_instruction *instructions;
    size_t instruction_count, instruction_cap;
};

static void scopes_done(struct scopes *s)
{
    kymo_free(s->list);
    kymo_free(s->ids);
}

static void kernels_done(struct kernels *k)
{
    scopes_done(&k->frames);
    scopes_done(&k->variables);
    scopes_done(&k->regions);
    kymo_free(k->instructions);
}

static int make_room(struct kernels *k, void *list, size_t *cap, size_t need, size_t size)
{
    void **p = list;
    int r = kymo_grow(p, cap, need, ITEMS_MAX, size);
    return r == -ENOMEM ? neff_no_memory(k->l) : r;
}

static int take_text(struct kernels *k, const json_t *o, const char *key, const char **ret)
{
    const char *text = neff_json_text(o, key);
    *ret = text && *text ? neff_intern(k->l->n, text) : NULL;
    return text && *text && !*ret ? neff_no_memory(k->l) : 0;
}

static int take_line(const json_t *o)
{
    int64_t line = neff_json_int(o, KEY_LINE, 0);
    return line > 0 && line <= INT_MAX ? (int)line : 0;
}

static int by_id(const void *a, const void *b)
{
    const struct id_entry *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Of two with one id the first counts. */
static uint32_t find_id(const struct scopes *s, int64_t id)
{
    size_t low = 0, high = s->id_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->ids[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->id_count && s->ids[low].id == id ? s->ids[low].index : 0;
}

static uint32_t take_reference(const struct scopes *s, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_integer(v) ? find_id(s, json_integer_value(v)) : 0;
}

static int add_scope(struct kernels *k, struct scopes *s, const json_t *o, const char *name_key)
{
    if (!json_is_integer(json_object_get(o, KEY_ID)))
        return -EPROTO;
    int r = make_room(k, &s->list, &s->cap, s->count + 1, sizeof *s->list);
    if (r == 0)
        r = make_room(k, &s->ids, &s->id_cap, s->id_count + 1, sizeof *s->ids);
    if (r < 0)
        return r;
    struct neff_kernel_scope *scope = &s->list[s->count];
    *scope = (struct neff_kernel_scope){.line = take_line(o), .depth = 1, .value = neff_json_int(o, KEY_VALUE, 0)};
    r = take_text(k, o, name_key, &scope->name);
    if (r == 0)
        r = take_text(k, o, KEY_FILE, &scope->file);
    if (r < 0)
        return r;
    s->ids[s->id_count++] = (struct id_entry){neff_json_int(o, KEY_ID, 0), (uint32_t)++s->count};
    return 0;
}

/* A chain that is too long, or goes round, is cut at its lower end. */
static bool set_depth(struct scopes *s, struct neff_kernel_scope *scope)
{
    uint32_t depth = 1;
    for (uint32_t up = scope->parent; up && depth <= DEPTH_MAX; up = s->list[up - 1].parent)
        depth++;
    bool too_deep = depth > DEPTH_MAX;
    if (too_deep)
        scope->parent = 0;
    scope->depth = too_deep ? 1 : depth;
    return !too_deep;
}

static int load_scopes(struct kernels *k, struct scopes *s, const json_t *root, const char *key, const char *name_key)
{
    const json_t *array = json_object_get(root, key);
    size_t first = s->count, n = json_array_size(array), cut = 0;
    s->id_count = 0;
    for (size_t i = 0; i < n; i++) {
        int r = add_scope(k, s, json_array_get(array, i), name_key);
        if (r == -EPROTO)
            neff_add_note(k->l->n, "%s: entry %zu of \"%s\" has no id", k->member->name, i, key);
        /* Parents are told by place below: an entry left out would shift them. */
        if (r < 0)
            return r;
    }
    if (s->id_count)
        qsort(s->ids, s->id_count, sizeof *s->ids, by_id);
    for (size_t i = 0; i < n; i++)
        s->list[first + i].parent = take_reference(s, json_array_get(array, i), KEY_PARENT);
    for (size_t i = first; i < s->count; i++)
        cut += !set_depth(s, &s->list[i]);
    if (cut)
        neff_add_note(k->l->n, "%s: %zu entries of \"%s\" nest deeper than %d or in a circle; cut there",
                      k->member->name, cut, key, DEPTH_MAX);
    return 0;
}

static int add_instruction(struct kernels *k, const json_t *o)
{
    int r = make_room(k, &k->instructions, &k->instruction_cap, k->instruction_count + 1, sizeof *k->instructions);
    if (r < 0)
        return r;
    struct neff_kernel_instruction *in = &k->instructions[k->instruction_count];
    *in = (struct neff_kernel_instruction){
        .line = take_line(o),
        .frame = take_reference(&k->frames, o, KEY_FRAME),
        .variable = take_reference(&k->variables, o, KEY_VARIABLE),
        .region = take_reference(&k->regions, o, KEY_REGION),
    };
    r = take_text(k, o, KEY_NAME, &in->name);
    if (r == 0)
        r = take_text(k, o, KEY_FILE, &in->file);
    /* Nothing can refer to one without a name. */
    k->instruction_count += r == 0 && in->name;
    return r;
}

static int load_lists(struct kernels *k, const json_t *root)
{
    int r = load_scopes(k, &k->frames, root, KEY_FRAMES, KEY_FUNCTION);
    if (r == 0)
        r = load_scopes(k, &k->variables, root, KEY_VARIABLES, KEY_NAME);
    if (r == 0)
        r = load_scopes(k, &k->regions, root, KEY_REGIONS, KEY_NAME);
    const json_t *list = json_object_get(root, KEY_INSTRUCTIONS);
    for (size_t i = 0; i < json_array_size(list) && r == 0; i++)
        r = add_instruction(k, json_array_get(list, i));
    return r;
}

/* root stays NULL when the member does not parse. */
static int parse(struct neff_load *l, const struct neff_member *m, struct neff_json *json)
{
    struct kymo_err why = {0};
    struct neff_load quiet = {.n = l->n, .err = &why};
    int r = neff_json_parse(&quiet, m, json);
    if (r == -ENOMEM)
        return neff_no_memory(l);
    if (r < 0) {
        neff_add_note(l->n, "%s; left out", why.text);
        json->root = NULL;
    }
    return 0;
}

static int load_kernel(struct kernels *k, const struct neff_member *m)
{
    struct neff_json json NEFF_JSON = {0};
    int r = parse(k->l, m, &json);
    if (r < 0 || !json.root)
        return r;
    k->member = m;
    r = load_lists(k, json.root);
    if (r == -ENOBUFS)
        neff_add_note(k->l->n, "%s: the kernels hold more entries than fit; the rest is left out", m->name);
    return r == -ENOBUFS || r == -EPROTO ? 0 : r;
}

/* A name in a JSON file counts from the file's folder or from the root. */
static const struct neff_member *find_beside(const struct neff *n, const char *base, const char *name)
{
    char path[NEFF_NAME_MAX + 1];
    const struct neff_member *m = neff_path_beside(base, name, path, sizeof path) ? neff_find_member(n, path) : NULL;
    return m ? m : neff_find_member(n, neff_path_strip(name));
}

static int load_index(struct kernels *k, const struct neff_member *m)
{
    struct neff_json json NEFF_JSON = {0};
    int r = parse(k->l, m, &json);
    const json_t *list = json_object_get(json.root, KEY_KERNELS);
    size_t n = json_array_size(list);
    if (n > KERNELS_MAX) {
        neff_add_note(k->l->n, "%s: %zu kernels; %d of them are read", m->name, n, KERNELS_MAX);
        n = KERNELS_MAX;
    }
    for (size_t i = 0; i < n && r == 0; i++) {
        const char *file = neff_json_text(json_array_get(list, i), KEY_FILE);
        const struct neff_member *kernel = file ? find_beside(k->l->n, m->name, file) : NULL;
        if (kernel)
            r = load_kernel(k, kernel);
        else
            neff_add_note(k->l->n, "%s: the file of kernel %zu is not in the archive", m->name, i);
    }
    return r;
}

static int by_name(const void *a, const void *b)
{
    const struct neff_kernel_instruction *x = a, *y = b;
    return strcmp(x->name, y->name);
}

const struct neff_kernel_instruction *neff_kernel_find(const struct neff_kernels *k, const char *name)
{
    const struct neff_kernel_instruction key = {.name = name};
    return k->instruction_count ? bsearch(&key, k->instructions, k->instruction_count, sizeof key, by_name) : NULL;
}

static int keep_scopes(struct kernels *k, const struct scopes *s, const struct neff_kernel_scope **ret, uint32_t *ret_n)
{
    *ret = neff_arena_copy(&k->l->n->arena, s->list, s->count, sizeof *s->list);
    *ret_n = (uint32_t)s->count;
    return *ret ? 0 : neff_no_memory(k->l);
}

static int keep(struct kernels *k, const struct neff_kernels **ret)
{
    struct neff_arena *a = &k->l->n->arena;
    struct neff_kernels *out = NEFF_ARENA_ARRAY(a, struct neff_kernels, 1);
    if (!out)
        return neff_no_memory(k->l);
    int r = keep_scopes(k, &k->frames, &out->frames, &out->frame_count);
    if (r == 0)
        r = keep_scopes(k, &k->variables, &out->variables, &out->variable_count);
    if (r == 0)
        r = keep_scopes(k, &k->regions, &out->regions, &out->region_count);
    if (r < 0)
        return r;
    if (k->instruction_count)
        qsort(k->instructions, k->instruction_count, sizeof *k->instructions, by_name);
    out->instructions = neff_arena_copy(a, k->instructions, k->instruction_count, sizeof *k->instructions);
    out->instruction_count = (uint32_t)k->instruction_count;
    *ret = out;
    return out->instructions ? 0 : neff_no_memory(k->l);
}

static int load_subgraph(struct neff_load *l, const struct neff_member *m, const struct neff_kernels **ret)
{
    struct kernels k KYMO_CLEANUP(kernels_done) = {.l = l};
    int r = load_index(&k, m);
    return r == 0 ? keep(&k, ret) : r;
}

int neff_kernel_load(struct neff_load *l)
{
    struct neff *n = l->n;
    const struct neff_member *members[NEFF_SUBGRAPHS_MAX];
    int r = 0;
    for (size_t i = 0; i < n->subgraph_count && i < NEFF_SUBGRAPHS_MAX && r == 0; i++) {
        members[i] = find_beside(n, n->subgraphs[i].definition, INDEX_NAME);
        size_t same = 0;
        while (same < i && members[same] != members[i])
            same++;
        if (members[i] && same < i)
            n->debug[i].kernels = n->debug[same].kernels;
        else if (members[i])
            r = load_subgraph(l, members[i], &n->debug[i].kernels);
    }
    return r;
}
