/*
 * Debug layers joined: asm record (one per instruction, in order) -> backend -> penguin -> hlo -> framework (FORMAT.md
 * section 6). Upper layers become sorted lists; a backend record becomes one struct neff_debug, shared by the
 * instructions that it became. What a file holds never refuses the NEFF: it is noted and the layer lacks.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/neff/neff_debug_file.h"
#include "formats/neff/neff_stack.h"

#define FIELD_INSTRUCTION 3
#define FIELD_ENGINE 4
#define FIELD_STACK 6
#define MESSAGE_MEMORY_MAX (16u << 20) /* one instruction record, unpacked */
#define RECORDS_MAX (4u << 20)
#define UPPER_LAYERS NEFF_LAYER_BACKEND /* framework, hlo and penguin stand before it */

typedef Neuroncc__DebugInfo__InstructionDebugInfo message;

struct upper { /* record of penguin, hlo or framework */
    uint64_t id, parent;
    bool has_parent;
    const char *name, *file;
    int line;
};

struct upper_layer {
    struct upper *list;
    size_t count, cap;
};

struct asm_stream { /* first parent of each record; 0 and absent: none */
    uint64_t *parents;
    bool *has_parent;
    size_t count, cap, has_cap;
};

struct join {
    struct neff_load *l;
    const struct neff_subgraph *sg;
    const struct neff_debug_file *file; /* being read */
    enum kymo_engine file_engine;
    struct neff_stack shared, own;
    struct upper_layer upper[UPPER_LAYERS];
    struct neff_debug *records;
    size_t record_count, record_cap;
    struct asm_stream streams[KYMO_ENGINE_MAX];
};

static void join_done(struct join *j)
{
    neff_stack_done(&j->shared);
    neff_stack_done(&j->own);
    for (int i = 0; i < UPPER_LAYERS; i++)
        kymo_free(j->upper[i].list);
    kymo_free(j->records);
    for (int e = 0; e < KYMO_ENGINE_MAX; e++) {
        kymo_free(j->streams[e].parents);
        kymo_free(j->streams[e].has_parent);
    }
}

static int grow(struct join *j, void **p, size_t *cap, size_t need, size_t size)
{
    int r = kymo_grow(p, cap, need, RECORDS_MAX, size);
    if (r == -ENOMEM)
        return neff_no_memory(j->l);
    return r;
}

/* Which attribute keys hold the source location is not public (G). */
static const char *attribute(const message *m, const char *const keys[], size_t n)
{
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < m->n_attributes; i++)
            if (!strcmp(m->attributes[i]->key, keys[k]) && *m->attributes[i]->value)
                return m->attributes[i]->value;
    return NULL;
}

static int source_of(struct join *j, const message *m, const char **ret_file, int *ret_line)
{
    static const char *const file_keys[] = {"file", "filename", "file_name", "source_file"};
    static const char *const line_keys[] = {"line", "lineno", "line_number", "source_line"};
    const char *file = attribute(m, file_keys, sizeof file_keys / sizeof *file_keys);
    const char *line = attribute(m, line_keys, sizeof line_keys / sizeof *line_keys);
    long number = line ? strtol(line, NULL, 10) : 0;
    *ret_line = number > 0 && number <= INT_MAX ? (int)number : 0;
    if (!file && !neff_stack_find(j->own.index ? &j->own : &j->shared, m->stack_frame_id, &file, ret_line))
        return 0;
    *ret_file = neff_intern(j->l->n, file);
    return *ret_file ? 0 : neff_no_memory(j->l);
}

static int name_of(struct join *j, const message *m, const char **ret)
{
    *ret = *m->name ? neff_intern(j->l->n, m->name) : NULL;
    return *m->name && !*ret ? neff_no_memory(j->l) : 0;
}

static int add_upper(struct join *j, const message *m)
{
    struct upper_layer *layer = &j->upper[j->file->layer];
    void *p = layer->list;
    int r = grow(j, &p, &layer->cap, layer->count + 1, sizeof *layer->list);
    layer->list = p;
    if (r < 0)
        return r;
    struct upper *u = &layer->list[layer->count];
    *u = (struct upper){.id = m->id, .has_parent = m->n_parent_ids > 0};
    u->parent = u->has_parent ? m->parent_ids[0] : 0;
    r = name_of(j, m, &u->name);
    if (r == 0)
        r = source_of(j, m, &u->file, &u->line);
    layer->count += r == 0;
    return r;
}

/* Kinds run parallel to their predecessors; where they are fewer, the rest is 0 (invalid). */
static int copy_edges(struct join *j, const uint64_t *ids, size_t n, const Neuroncc__DebugInfo__DependenceKind *kinds,
                      size_t kind_n, const uint64_t **ret_ids, const uint32_t **ret_kinds)
{
    if (n == 0)
        return 0;
    struct neff_arena *a = &j->l->n->arena;
    uint32_t *kind_list = NEFF_ARENA_ARRAY(a, uint32_t, n);
    *ret_ids = neff_arena_copy(a, ids, n, sizeof *ids);
    if (!kind_list || !*ret_ids)
        return neff_no_memory(j->l);
    for (size_t i = 0; i < n && i < kind_n; i++)
        kind_list[i] = (uint32_t)kinds[i];
    *ret_kinds = kind_list;
    return 0;
}

static int add_backend(struct join *j, const message *m)
{
    void *p = j->records;
    int r = grow(j, &p, &j->record_cap, j->record_count + 1, sizeof *j->records);
    j->records = p;
    if (r < 0)
        return r;
    struct neff_debug *d = &j->records[j->record_count];
    *d = (struct neff_debug){.raw_bir_id = m->id, .kind = (int)m->kind, .has_penguin = m->n_parent_ids > 0};
    d->raw_penguin_id = d->has_penguin ? m->parent_ids[0] : 0;
    d->dataflow_count = m->n_dataflow_predecessors;
    d->scheduling_count = m->n_scheduling_predecessors;
    r = name_of(j, m, &d->bir_name);
    if (r == 0)
        r = source_of(j, m, &d->file, &d->line);
    if (r == 0)
        r = copy_edges(j, m->dataflow_predecessors, m->n_dataflow_predecessors, m->dataflow_kinds, m->n_dataflow_kinds,
                       &d->dataflow_predecessors, &d->dataflow_kinds);
    if (r == 0)
        r = copy_edges(j, m->scheduling_predecessors, m->n_scheduling_predecessors, m->scheduling_kinds,
                       m->n_scheduling_kinds, &d->scheduling_predecessors, &d->scheduling_kinds);
    j->record_count += r == 0;
    return r;
}

/* A file outside the subgraphs' folders serves all of them: bits 63 to 48 of a BIR id tell whose record it is. */
static bool is_of_subgraph(const struct join *j, const message *m)
{
    return !j->file->shared || j->l->n->subgraph_count < 2 || m->n_parent_ids == 0 ||
           m->parent_ids[0] >> 48 == j->sg->pcore_idx;
}

static int add_asm(struct join *j, const message *m)
{
    if (j->file_engine == KYMO_ENGINE_INVALID || !is_of_subgraph(j, m))
        return 0;
    struct asm_stream *s = &j->streams[j->file_engine];
    void *p = s->parents;
    int r = grow(j, &p, &s->cap, s->count + 1, sizeof *s->parents);
    s->parents = p;
    if (r < 0)
        return r;
    p = s->has_parent;
    r = grow(j, &p, &s->has_cap, s->count + 1, sizeof *s->has_parent);
    s->has_parent = p;
    if (r < 0)
        return r;
    s->has_parent[s->count] = m->n_parent_ids > 0;
    s->parents[s->count++] = m->n_parent_ids ? m->parent_ids[0] : 0;
    return 0;
}

static int add_message(struct join *j, struct neff_cap *cap, const struct neff_wire_field *f)
{
    neff_cap_reset(cap);
    message *m = neuroncc__debug_info__instruction_debug_info__unpack(&cap->allocator, f->n, f->data);
    if (!m)
        return cap->no_memory ? neff_no_memory(j->l) : -EPROTO;
    int r = j->file->layer == NEFF_LAYER_ASM       ? add_asm(j, m)
            : j->file->layer == NEFF_LAYER_BACKEND ? add_backend(j, m)
                                                   : add_upper(j, m);
    neuroncc__debug_info__instruction_debug_info__free_unpacked(m, &cap->allocator);
    return r;
}

/* Engine and stack frames stand behind the instructions that need them: a first walk looks for these alone. */
static int read_preface(struct join *j)
{
    struct neff_wire w = {.data = j->file->member->data, .n = j->file->member->size};
    struct neff_wire_field f;
    int r;
    neff_stack_done(&j->own);
    j->file_engine = j->file->engine;
    while ((r = neff_wire_next(&w, &f)) > 0) {
        if (f.number == FIELD_ENGINE && f.type == NEFF_WIRE_VARINT && j->file_engine == KYMO_ENGINE_INVALID &&
            f.value <= 16)
            j->file_engine = kymo_engine_of_debug((unsigned)f.value);
        if (f.number == FIELD_STACK && f.type == NEFF_WIRE_BYTES)
            r = neff_stack_load(&j->own, f.data, f.n);
        if (r < 0)
            break;
    }
    return r == -ENOMEM ? neff_no_memory(j->l) : r;
}

static int read_instructions(struct join *j)
{
    struct neff_wire w = {.data = j->file->member->data, .n = j->file->member->size};
    struct neff_wire_field f;
    struct neff_cap cap;
    int r = read_preface(j);
    if (r == -ENOMEM)
        return r;
    /* Where the first walk met damage, so will this one, after the records before it. */
    neff_cap_init(&cap, MESSAGE_MEMORY_MAX);
    while ((r = neff_wire_next(&w, &f)) > 0) {
        if (f.number == FIELD_INSTRUCTION && f.type == NEFF_WIRE_BYTES)
            r = add_message(j, &cap, &f);
        if (r < 0)
            return r;
    }
    return r;
}

/* The index alone: as the message itself, or inside an otherwise empty description. */
static int read_stack_file(struct join *j)
{
    int r = read_preface(j);
    if (r < 0 || j->own.index) {
        neff_stack_done(&j->shared);
        j->shared = j->own;
        j->own.index = NULL;
        return r;
    }
    r = neff_stack_load(&j->shared, j->file->member->data, j->file->member->size);
    return r == -ENOMEM ? neff_no_memory(j->l) : r;
}

static int read_files(struct join *j, const struct neff_debug_file *files, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        j->file = &files[i];
        int r = j->file->layer == NEFF_LAYER_STACK ? read_stack_file(j) : read_instructions(j);
        if (r == -ENOMEM)
            return r;
        if (r < 0)
            neff_add_note(j->l->n, "%s: %s; what was read until there counts", j->file->member->name,
                          r == -ENOBUFS ? "it holds too many records" : "it is damaged");
        else if (j->file->layer == NEFF_LAYER_ASM && j->file_engine == KYMO_ENGINE_INVALID)
            neff_add_note(j->l->n, "%s: tells no engine; left out", j->file->member->name);
    }
    return 0;
}

static int upper_by_id(const void *a, const void *b)
{
    const struct upper *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int record_by_id(const void *a, const void *b)
{
    const struct neff_debug *x = a, *y = b;
    return x->raw_bir_id < y->raw_bir_id ? -1 : x->raw_bir_id > y->raw_bir_id;
}

static const struct upper *find_upper(const struct join *j, enum neff_layer layer, uint64_t id)
{
    const struct upper key = {.id = id};
    const struct upper_layer *u = &j->upper[layer];
    return u->count ? bsearch(&key, u->list, u->count, sizeof key, upper_by_id) : NULL;
}

/* The nearest layer that knows a source line wins. */
static void take_source(struct neff_debug *d, const struct upper *u)
{
    if (!d->file && u->file) {
        d->file = u->file;
        d->line = u->line;
    }
}

static void link_upwards(const struct join *j, struct neff_debug *d)
{
    const struct upper *penguin = d->has_penguin ? find_upper(j, NEFF_LAYER_PENGUIN, d->raw_penguin_id) : NULL;
    if (!penguin)
        return;
    take_source(d, penguin);
    const struct upper *hlo = penguin->has_parent ? find_upper(j, NEFF_LAYER_HLO, penguin->parent) : NULL;
    d->raw_hlo_id = penguin->parent;
    if (!hlo)
        return;
    d->hlo_name = hlo->name;
    take_source(d, hlo);
    const struct upper *framework = hlo->has_parent ? find_upper(j, NEFF_LAYER_FRAMEWORK, hlo->parent) : NULL;
    d->raw_framework_id = hlo->parent;
    if (!framework)
        return;
    d->layer = framework->name;
    take_source(d, framework);
}

/* Records that only the asm layer names have nothing but their id. */
static int add_nameless(struct join *j)
{
    size_t known = j->record_count;
    for (int e = 0; e < KYMO_ENGINE_MAX; e++)
        for (size_t i = 0; i < j->streams[e].count; i++) {
            const struct neff_debug key = {.raw_bir_id = j->streams[e].parents[i]};
            if (!j->streams[e].has_parent[i] || (known && bsearch(&key, j->records, known, sizeof key, record_by_id)))
                continue;
            if (j->record_count > known && j->records[j->record_count - 1].raw_bir_id == key.raw_bir_id)
                continue;
            void *p = j->records;
            int r = grow(j, &p, &j->record_cap, j->record_count + 1, sizeof *j->records);
            j->records = p;
            if (r < 0)
                return r;
            j->records[j->record_count++] = key;
        }
    return 0;
}

static void drop_doubles(struct join *j)
{
    size_t kept = 0;
    for (size_t i = 0; i < j->record_count; i++)
        if (kept == 0 || j->records[kept - 1].raw_bir_id != j->records[i].raw_bir_id)
            j->records[kept++] = j->records[i];
    j->record_count = kept;
}

static int sort_layers(struct join *j)
{
    for (int i = 0; i < UPPER_LAYERS; i++)
        if (j->upper[i].count)
            qsort(j->upper[i].list, j->upper[i].count, sizeof(struct upper), upper_by_id);
    if (j->record_count)
        qsort(j->records, j->record_count, sizeof *j->records, record_by_id);
    drop_doubles(j);
    int r = add_nameless(j);
    if (r < 0)
        return r;
    if (j->record_count)
        qsort(j->records, j->record_count, sizeof *j->records, record_by_id);
    drop_doubles(j);
    for (size_t i = 0; i < j->record_count; i++)
        link_upwards(j, &j->records[i]);
    return 0;
}

static int index_stream(struct join *j, const struct asm_stream *s, const struct neff_engine *e,
                        const struct neff_debug *records, struct neff_debug_stream *out)
{
    if (s->count != e->count)
        neff_add_note(j->l->n, "%s: %zu debug records for %zu instructions; joined by place as far as they go",
                      e->bin_name, s->count, e->count);
    size_t n = s->count < e->count ? s->count : e->count;
    uint32_t *index = NEFF_ARENA_ARRAY(&j->l->n->arena, uint32_t, n);
    if (!index)
        return neff_no_memory(j->l);
    for (size_t i = 0; i < n; i++) {
        const struct neff_debug key = {.raw_bir_id = s->parents[i]};
        const struct neff_debug *d = s->has_parent[i] && j->record_count
                                         ? bsearch(&key, records, j->record_count, sizeof key, record_by_id)
                                         : NULL;
        index[i] = d ? (uint32_t)(d - records) + 1 : 0;
    }
    *out = (struct neff_debug_stream){index, n, records};
    j->l->n->has_debug = true;
    return 0;
}

static int index_streams(struct join *j, struct neff_debug_streams *out)
{
    struct neff_debug *records = neff_arena_copy(&j->l->n->arena, j->records, j->record_count, sizeof *records);
    if (!records)
        return neff_no_memory(j->l);
    for (size_t i = 0; i < j->sg->engine_count; i++) {
        const struct neff_engine *e = &j->sg->engines[i];
        const struct asm_stream *s = &j->streams[e->engine];
        int r = s->count && e->count ? index_stream(j, s, e, records, &out->engine[e->engine]) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

static int load_subgraph(struct neff_load *l, size_t number)
{
    struct neff_debug_file *files KYMO_FREE = NULL;
    struct join j = {.l = l, .sg = &l->n->subgraphs[number]};
    size_t n;
    int r = neff_debug_files(l, j.sg, &files, &n);
    if (r == 0)
        r = read_files(&j, files, n);
    if (r == 0)
        r = sort_layers(&j);
    if (r == 0 && n > 0)
        r = index_streams(&j, &l->n->debug[number]);
    join_done(&j);
    if (r == -ENOBUFS) {
        neff_add_note(l->n, "%s: more debug records than fit; there are none", j.sg->definition);
        return 0;
    }
    return r;
}

int neff_debug_load(struct neff_load *l)
{
    l->n->debug = NEFF_ARENA_ARRAY(&l->n->arena, struct neff_debug_streams, l->n->subgraph_count);
    if (!l->n->debug)
        return neff_no_memory(l);
    for (size_t i = 0; i < l->n->subgraph_count; i++) {
        int r = load_subgraph(l, i);
        if (r < 0)
            return r;
    }
    if (!l->n->has_debug)
        neff_add_note(l->n,
                      "no debug layer joins the instructions: compiler names, sources and dependencies are not known");
    return 0;
}
