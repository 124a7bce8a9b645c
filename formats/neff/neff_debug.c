/*
 * Debug layers joined: asm record (one per instruction, in order) -> backend -> penguin -> hlo -> framework (FORMAT.md
 * section 6). Upper layers become sorted lists; a backend record becomes one struct neff_debug, shared by the
 * instructions that it became. What a file holds never refuses the NEFF: it is noted and the layer lacks.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/neff/neff_debug_file.h"
#include "formats/neff/neff_stack.h"
#include "formats/neff/neff_wire.h"
#include "proto/neff_debug.pb-c.h"

#define FIELD_INSTRUCTION 3
#define FIELD_ENGINE 4
#define FIELD_STACK 6
#define MESSAGE_MEMORY_MAX (16u << 20) /* one instruction record, unpacked */
#define RECORDS_MAX (4u << 20)
#define UPPER_LAYERS NEFF_LAYER_BACKEND /* framework, hlo and penguin stand before it */

typedef Neuroncc__DebugInfo__InstructionDebugInfo message;

#define FRAMES_PER_RECORD_MAX 16
#define ATTRIBUTES_TEXT_MAX 4096

struct upper_layer {
    struct neff_node *list;
    size_t count, cap;
    bool kept; /* list lies in the package's memory */
};

struct asm_stream { /* first parent of each record; 0 and absent: none */
    uint64_t *parents;
    bool *has_parent;
    size_t count, cap, has_cap;
};

struct backend_record {
    struct neff_debug debug;
    uint32_t frame; /* its own */
    const uint64_t *parents;
    size_t parent_count;
};

struct join {
    struct neff_load *l;
    const struct neff_subgraph *sg;
    const struct neff_debug_file *file; /* being read */
    enum kymo_engine file_engine;
    struct neff_stacks *stacks;
    struct neff_stack shared, own;
    struct upper_layer upper[UPPER_LAYERS];
    struct backend_record *records;
    size_t record_count, record_cap;
    struct asm_stream streams[KYMO_ENGINE_MAX];
    size_t at; /* byte of the file at hand where its last field began */
};

static void join_done(struct join *j)
{
    for (int i = 0; i < UPPER_LAYERS; i++)
        if (!j->upper[i].kept)
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
static const char *const file_keys[] = {"file", "filename", "file_name", "source_file"};
static const char *const line_keys[] = {"line", "lineno", "line_number", "source_line"};

static const char *attribute(const message *m, const char *const keys[], size_t n)
{
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < m->n_attributes; i++)
            if (!strcmp(m->attributes[i]->key, keys[k]) && *m->attributes[i]->value)
                return m->attributes[i]->value;
    return NULL;
}

static int source_of(struct join *j, const message *m, uint32_t frame, const char **ret_file, int *ret_line)
{
    const char *file = attribute(m, file_keys, sizeof file_keys / sizeof *file_keys);
    const char *line = attribute(m, line_keys, sizeof line_keys / sizeof *line_keys);
    long number = line ? strtol(line, NULL, 10) : 0;
    *ret_line = number > 0 && number <= INT_MAX ? (int)number : 0;
    if (!file && !neff_stack_find(j->stacks, frame, &file, ret_line))
        return 0;
    *ret_file = neff_intern(j->l->n, file);
    return *ret_file ? 0 : neff_no_memory(j->l);
}

static int name_of(struct join *j, const message *m, const char **ret)
{
    *ret = *m->name ? neff_intern(j->l->n, m->name) : NULL;
    return *m->name && !*ret ? neff_no_memory(j->l) : 0;
}

static uint32_t frame_of(const struct join *j, const message *m)
{
    return neff_stack_frame(j->own.count ? j->own : j->shared, m->stack_frame_id);
}

static bool is_one_of(const char *key, const char *const keys[], size_t n)
{
    size_t i = 0;
    while (i < n && strcmp(key, keys[i]) != 0)
        i++;
    return i < n;
}

/* key=value with commas between, in the order of the file; what does not fit is left out. */
static int attributes_of(struct join *j, const message *m, const char **ret)
{
    char text[ATTRIBUTES_TEXT_MAX];
    size_t n = 0;
    for (size_t i = 0; i < m->n_attributes; i++) {
        const char *key = m->attributes[i]->key, *value = m->attributes[i]->value;
        if (!*key || is_one_of(key, file_keys, sizeof file_keys / sizeof *file_keys) ||
            is_one_of(key, line_keys, sizeof line_keys / sizeof *line_keys))
            continue;
        int w = snprintf(text + n, sizeof text - n, "%s%s=%s", n ? "," : "", key, value);
        if (w < 0 || (size_t)w >= sizeof text - n)
            break;
        n += (size_t)w;
    }
    text[n] = '\0';
    *ret = n ? neff_intern(j->l->n, text) : NULL;
    return n && !*ret ? neff_no_memory(j->l) : 0;
}

/* Most records have one parent, which needs no list of its own. */
static int copy_parents(struct join *j, const message *m, const uint64_t **ret, size_t *ret_n)
{
    *ret_n = m->n_parent_ids;
    if (m->n_parent_ids < 2)
        return 0;
    *ret = neff_arena_copy(&j->l->n->arena, m->parent_ids, m->n_parent_ids, sizeof *m->parent_ids);
    return *ret ? 0 : neff_no_memory(j->l);
}

static int add_upper(struct join *j, const message *m)
{
    struct upper_layer *layer = &j->upper[j->file->layer];
    void *p = layer->list;
    int r = grow(j, &p, &layer->cap, layer->count + 1, sizeof *layer->list);
    layer->list = p;
    if (r < 0)
        return r;
    struct neff_node *u = &layer->list[layer->count];
    *u = (struct neff_node){.id = m->id, .has_parent = m->n_parent_ids > 0, .frame = frame_of(j, m)};
    u->parent_id = u->has_parent ? m->parent_ids[0] : 0;
    r = name_of(j, m, &u->name);
    if (r == 0)
        r = copy_parents(j, m, &u->parents, &u->parent_count);
    if (r == 0)
        r = attributes_of(j, m, &u->attributes);
    if (r == 0)
        r = source_of(j, m, u->frame, &u->file, &u->line);
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
    struct backend_record *record = &j->records[j->record_count];
    *record = (struct backend_record){.frame = frame_of(j, m)};
    struct neff_debug *d = &record->debug;
    *d = (struct neff_debug){.raw_bir_id = m->id, .kind = (int)m->kind, .has_penguin = m->n_parent_ids > 0};
    d->raw_penguin_id = d->has_penguin ? m->parent_ids[0] : 0;
    d->dataflow_count = m->n_dataflow_predecessors;
    d->scheduling_count = m->n_scheduling_predecessors;
    r = name_of(j, m, &d->bir_name);
    if (r == 0)
        r = copy_parents(j, m, &record->parents, &record->parent_count);
    if (r == 0)
        r = source_of(j, m, record->frame, &d->file, &d->line);
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
    j->own = (struct neff_stack){0};
    j->file_engine = j->file->engine;
    for (j->at = 0; (r = neff_wire_next(&w, &f)) > 0; j->at = w.at) {
        if (f.number == FIELD_ENGINE && f.type == NEFF_WIRE_VARINT && j->file_engine == KYMO_ENGINE_INVALID &&
            f.value <= 16)
            j->file_engine = kymo_engine_of_debug((unsigned)f.value);
        if (f.number == FIELD_STACK && f.type == NEFF_WIRE_BYTES)
            r = neff_stack_load(j->l, j->stacks, f.data, f.n, &j->own);
        if (r < 0)
            break;
    }
    return r;
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
    for (j->at = 0; (r = neff_wire_next(&w, &f)) > 0; j->at = w.at) {
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
    if (r < 0 || j->own.count) {
        j->shared = j->own;
        j->own = (struct neff_stack){0};
        return r;
    }
    return neff_stack_load(j->l, j->stacks, j->file->member->data, j->file->member->size, &j->shared);
}

static int read_files(struct join *j, const struct neff_debug_file *files, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        j->file = &files[i];
        int r = neff_archive_hold(j->l, j->file->member);
        if (r == 0)
            r = j->file->layer == NEFF_LAYER_STACK ? read_stack_file(j) : read_instructions(j);
        if (r == -ENOMEM)
            return r;
        if (r < 0)
            neff_add_note(j->l->n, "%s: %s at byte %zu; what was read until there counts", j->file->member->name,
                          r == -ENOBUFS ? "it holds too many records" : "it is damaged", j->at);
        else if (j->file->layer == NEFF_LAYER_ASM && j->file_engine == KYMO_ENGINE_INVALID)
            neff_add_note(j->l->n, "%s: tells no engine; left out", j->file->member->name);
    }
    return 0;
}

static int upper_by_id(const void *a, const void *b)
{
    const struct neff_node *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int record_by_id(const void *a, const void *b)
{
    const struct backend_record *x = a, *y = b;
    return x->debug.raw_bir_id < y->debug.raw_bir_id ? -1 : x->debug.raw_bir_id > y->debug.raw_bir_id;
}

static struct backend_record *find_record(const struct join *j, size_t count, uint64_t id)
{
    const struct backend_record key = {.debug.raw_bir_id = id};
    return count ? bsearch(&key, j->records, count, sizeof key, record_by_id) : NULL;
}

static struct neff_node *find_upper(const struct join *j, enum neff_layer layer, uint64_t id)
{
    const struct neff_node key = {.id = id};
    const struct upper_layer *u = &j->upper[layer];
    return u->count ? bsearch(&key, u->list, u->count, sizeof key, upper_by_id) : NULL;
}

/* The nearest layer that knows a source line wins. */
static void take_source(struct neff_debug *d, const struct neff_node *u)
{
    if (!d->file && u->file) {
        d->file = u->file;
        d->line = u->line;
    }
}

static void add_frame(uint32_t list[FRAMES_PER_RECORD_MAX], size_t *n, uint32_t frame)
{
    size_t i = 0;
    while (i < *n && list[i] != frame)
        i++;
    if (frame && i == *n && *n < FRAMES_PER_RECORD_MAX)
        list[(*n)++] = frame;
}

/*
 * The record's own frame, and those of its parents where it was fused from several; without any, the frame of the
 * nearest layer above that has one.
 */
static int collect_frames(const struct join *j, struct backend_record *record)
{
    struct neff_debug *d = &record->debug;
    const struct neff_node *const above[] = {d->penguin, d->hlo, d->framework};
    uint32_t list[FRAMES_PER_RECORD_MAX] = {0};
    size_t n = 0;
    add_frame(list, &n, record->frame);
    for (size_t i = 0; record->parent_count > 1 && i < record->parent_count; i++) {
        const struct neff_node *parent = find_upper(j, NEFF_LAYER_PENGUIN, record->parents[i]);
        add_frame(list, &n, parent ? parent->frame : 0);
    }
    for (size_t i = 0; n == 0 && i < sizeof above / sizeof *above; i++)
        add_frame(list, &n, above[i] ? above[i]->frame : 0);
    d->frame_count = n;
    d->frames = n ? neff_arena_copy(&j->l->n->arena, list, n, sizeof *list) : NULL;
    return n && !d->frames ? neff_no_memory(j->l) : 0;
}

static int link_upwards(const struct join *j, struct backend_record *record)
{
    struct neff_debug *d = &record->debug;
    d->penguin = d->has_penguin ? find_upper(j, NEFF_LAYER_PENGUIN, d->raw_penguin_id) : NULL;
    if (d->penguin) {
        take_source(d, d->penguin);
        d->hlo = d->penguin->parent;
        d->raw_hlo_id = d->penguin->parent_id;
    }
    if (d->hlo) {
        take_source(d, d->hlo);
        d->hlo_name = d->hlo->name;
        d->framework = d->hlo->parent;
        d->raw_framework_id = d->hlo->parent_id;
    }
    if (d->framework) {
        take_source(d, d->framework);
        d->layer = d->framework->name;
    }
    return collect_frames(j, record);
}

/* Records that only the asm layer names have nothing but their id. */
static int add_nameless(struct join *j)
{
    size_t known = j->record_count;
    for (int e = 0; e < KYMO_ENGINE_MAX; e++)
        for (size_t i = 0; i < j->streams[e].count; i++) {
            uint64_t id = j->streams[e].parents[i];
            if (!j->streams[e].has_parent[i] || find_record(j, known, id))
                continue;
            if (j->record_count > known && j->records[j->record_count - 1].debug.raw_bir_id == id)
                continue;
            void *p = j->records;
            int r = grow(j, &p, &j->record_cap, j->record_count + 1, sizeof *j->records);
            j->records = p;
            if (r < 0)
                return r;
            j->records[j->record_count++] = (struct backend_record){.debug.raw_bir_id = id};
        }
    return 0;
}

static void drop_doubles(struct join *j)
{
    size_t kept = 0;
    for (size_t i = 0; i < j->record_count; i++)
        if (kept == 0 || j->records[kept - 1].debug.raw_bir_id != j->records[i].debug.raw_bir_id)
            j->records[kept++] = j->records[i];
    j->record_count = kept;
}

/* Into the package's own memory, framework first, so that each layer finds the one above it there. */
static int keep_upper_layers(struct join *j)
{
    for (int i = 0; i < UPPER_LAYERS; i++) {
        struct upper_layer *u = &j->upper[i];
        if (u->count)
            qsort(u->list, u->count, sizeof *u->list, upper_by_id);
        struct neff_node *kept = neff_arena_copy(&j->l->n->arena, u->list, u->count, sizeof *u->list);
        if (!kept)
            return neff_no_memory(j->l);
        kymo_free(u->list);
        u->list = kept;
        u->kept = true;
        for (size_t k = 0; i > NEFF_LAYER_FRAMEWORK && k < u->count; k++)
            if (kept[k].has_parent)
                kept[k].parent = find_upper(j, (enum neff_layer)(i - 1), kept[k].parent_id);
    }
    return 0;
}

static void sort_records(struct join *j)
{
    if (j->record_count)
        qsort(j->records, j->record_count, sizeof *j->records, record_by_id);
    drop_doubles(j);
}

static int sort_layers(struct join *j)
{
    int r = keep_upper_layers(j);
    if (r < 0)
        return r;
    sort_records(j);
    r = add_nameless(j);
    if (r < 0)
        return r;
    sort_records(j);
    for (size_t i = 0; i < j->record_count && r == 0; i++)
        r = link_upwards(j, &j->records[i]);
    return r;
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
        const struct backend_record *d = s->has_parent[i] ? find_record(j, j->record_count, s->parents[i]) : NULL;
        index[i] = d ? (uint32_t)(d - j->records) + 1 : 0;
    }
    *out = (struct neff_debug_stream){index, n, records};
    j->l->n->has_debug = true;
    return 0;
}

/* The key of a kernel's instruction: BIR name and number of its penguin parent, with a colon between (A). */
static void name_kernel(const struct neff_kernels *kernels, struct neff_debug *d)
{
    char key[NEFF_NAME_MAX];
    if (!kernels || !d->bir_name || !d->has_penguin)
        return;
    int n = snprintf(key, sizeof key, "%s:%llu", d->bir_name, (unsigned long long)d->raw_penguin_id);
    if (n < 0 || (size_t)n >= sizeof key)
        return;
    d->kernel = neff_kernel_find(kernels, key);
    d->kernel_name = d->kernel ? d->kernel->name : NULL;
}

static int index_streams(struct join *j, struct neff_debug_streams *out)
{
    struct neff_debug *records = NEFF_ARENA_ARRAY(&j->l->n->arena, struct neff_debug, j->record_count);
    if (!records)
        return neff_no_memory(j->l);
    for (size_t i = 0; i < j->record_count; i++) {
        records[i] = j->records[i].debug;
        name_kernel(out->kernels, &records[i]);
    }
    for (size_t i = 0; i < j->sg->engine_count; i++) {
        const struct neff_engine *e = &j->sg->engines[i];
        const struct asm_stream *s = &j->streams[e->engine];
        int r = s->count && e->count ? index_stream(j, s, e, records, &out->engine[e->engine]) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

static int load_subgraph(struct neff_load *l, struct neff_stacks *stacks, size_t number)
{
    struct neff_debug_file *files KYMO_FREE = NULL;
    struct join j = {.l = l, .sg = &l->n->subgraphs[number], .stacks = stacks};
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
    struct neff_stacks stacks KYMO_CLEANUP(neff_stacks_done) = {0};
    l->n->debug = NEFF_ARENA_ARRAY(&l->n->arena, struct neff_debug_streams, l->n->subgraph_count);
    if (!l->n->debug)
        return neff_no_memory(l);
    int r = neff_kernel_load(l);
    for (size_t i = 0; i < l->n->subgraph_count && r == 0; i++)
        r = load_subgraph(l, &stacks, i);
    if (r == 0)
        r = neff_stacks_keep(l, &stacks);
    if (r < 0)
        return r;
    if (!l->n->has_debug)
        neff_add_note(l->n,
                      "no debug layer joins the instructions: compiler names, sources and dependencies are not known");
    return 0;
}
