#include "formats/neff/neff_stack.h"

#include <errno.h>
#include <limits.h>

#include "base/alloc.h"
#include "formats/neff/neff_wire.h"
#include "proto/neff_debug.pb-c.h"

#define INDEX_MEMORY_MAX (128u << 20)
#define ITEMS_MAX (4u << 20) /* of each kind, in the whole package */
#define SOURCES_MAX NEFF_MEMBERS_MAX

typedef Neuroncc__DebugInfo__StackFrameIndex message;

struct neff_stack_source {
    const uint8_t *data;
    struct neff_stack stack;
};

void neff_stacks_done(struct neff_stacks *s)
{
    kymo_free(s->files);
    kymo_free(s->functions);
    kymo_free(s->locations);
    kymo_free(s->frames);
    kymo_free(s->sources);
    *s = (struct neff_stacks){0};
}

static int make_room(struct neff_load *l, void *list, size_t *cap, size_t need, size_t size)
{
    void **p = list;
    int r = kymo_grow(p, cap, need, ITEMS_MAX, size);
    return r == -ENOMEM ? neff_no_memory(l) : r;
}

static int add_names(struct neff_load *l, const char ***list, size_t *count, size_t *cap, char **names, size_t n)
{
    int r = make_room(l, list, cap, *count + n, sizeof **list);
    for (size_t i = 0; i < n && r == 0; i++) {
        const char *name = neff_intern(l->n, names[i]);
        if (!name)
            return neff_no_memory(l);
        (*list)[*count + i] = name;
    }
    if (r == 0)
        *count += n;
    return r;
}

/* An id of an index as one of the list; 0 where the index has none such. */
static uint32_t moved(uint64_t id, size_t count, size_t base)
{
    return id > 0 && id <= count ? (uint32_t)(base + id) : 0;
}

static int add_index(struct neff_load *l, struct neff_stacks *s, const message *x, struct neff_stack *ret)
{
    size_t files = s->file_count, functions = s->function_count, locations = s->location_count, base = s->frame_count;
    int r = make_room(l, &s->locations, &s->location_cap, locations + x->n_locations, sizeof *s->locations);
    if (r == 0)
        r = make_room(l, &s->frames, &s->frame_cap, base + x->n_frames, sizeof *s->frames);
    if (r == 0)
        r = add_names(l, &s->files, &s->file_count, &s->file_cap, x->file_names, x->n_file_names);
    if (r == 0)
        r = add_names(l, &s->functions, &s->function_count, &s->function_cap, x->function_names, x->n_function_names);
    if (r < 0)
        return r;
    for (size_t i = 0; i < x->n_locations; i++) {
        const Neuroncc__DebugInfo__StackFrameLocation *at = x->locations[i];
        s->locations[s->location_count++] = (struct neff_location){
            .file = moved(at->file_id, x->n_file_names, files),
            .function = moved(at->function_id, x->n_function_names, functions),
            .line = at->line <= INT_MAX ? at->line : 0,
        };
    }
    for (size_t i = 0; i < x->n_frames; i++)
        s->frames[s->frame_count++] = (struct neff_frame){
            .location = moved(x->frames[i]->location_id, x->n_locations, locations),
            .parent = moved(x->frames[i]->parent_frame_id, x->n_frames, base),
        };
    *ret = (struct neff_stack){(uint32_t)base, (uint32_t)x->n_frames};
    return 0;
}

static int remember(struct neff_load *l, struct neff_stacks *s, const uint8_t *data, struct neff_stack stack)
{
    void *p = s->sources;
    int r = kymo_grow(&p, &s->source_cap, s->source_count + 1, SOURCES_MAX, sizeof *s->sources);
    s->sources = p;
    if (r == 0)
        s->sources[s->source_count++] = (struct neff_stack_source){data, stack};
    return r == -ENOMEM ? neff_no_memory(l) : r;
}

int neff_stack_load(struct neff_load *l, struct neff_stacks *s, const uint8_t *data, size_t n, struct neff_stack *ret)
{
    for (size_t i = 0; i < s->source_count; i++)
        if (s->sources[i].data == data) {
            *ret = s->sources[i].stack;
            return 0;
        }
    struct neff_cap cap;
    neff_cap_init(&cap, INDEX_MEMORY_MAX);
    message *index = neuroncc__debug_info__stack_frame_index__unpack(&cap.allocator, n, data);
    if (!index)
        return cap.no_memory ? neff_no_memory(l) : -EPROTO;
    struct neff_stack stack;
    int r = add_index(l, s, index, &stack);
    neuroncc__debug_info__stack_frame_index__free_unpacked(index, &cap.allocator);
    if (r == 0)
        r = remember(l, s, data, stack);
    if (r == 0)
        *ret = stack;
    return r;
}

int neff_stacks_keep(struct neff_load *l, const struct neff_stacks *s)
{
    struct neff_arena *a = &l->n->arena;
    struct neff_frames *f = &l->n->frames;
    f->files = neff_arena_copy(a, s->files, s->file_count, sizeof *s->files);
    f->functions = neff_arena_copy(a, s->functions, s->function_count, sizeof *s->functions);
    f->locations = neff_arena_copy(a, s->locations, s->location_count, sizeof *s->locations);
    f->frames = neff_arena_copy(a, s->frames, s->frame_count, sizeof *s->frames);
    if (!f->files || !f->functions || !f->locations || !f->frames)
        return neff_no_memory(l);
    f->file_count = (uint32_t)s->file_count;
    f->function_count = (uint32_t)s->function_count;
    f->location_count = (uint32_t)s->location_count;
    f->frame_count = (uint32_t)s->frame_count;
    return 0;
}

uint32_t neff_stack_frame(struct neff_stack stack, uint64_t frame)
{
    return moved(frame, stack.count, stack.base);
}

bool neff_stack_find(const struct neff_stacks *s, uint32_t frame, const char **ret_file, int *ret_line)
{
    uint32_t location = frame ? s->frames[frame - 1].location : 0;
    const struct neff_location *at = location ? &s->locations[location - 1] : NULL;
    if (!at || !at->file)
        return false;
    *ret_file = s->files[at->file - 1];
    *ret_line = (int)at->line;
    return true;
}
