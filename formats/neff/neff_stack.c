#include "formats/neff/neff_stack.h"

#include <errno.h>
#include <limits.h>

#include "base/alloc.h"

#define INDEX_MEMORY_MAX (128u << 20)

int neff_stack_load(struct neff_stack *s, const uint8_t *data, size_t n)
{
    struct neff_cap cap;
    neff_cap_init(&cap, INDEX_MEMORY_MAX);
    Neuroncc__DebugInfo__StackFrameIndex *index =
        neuroncc__debug_info__stack_frame_index__unpack(&cap.allocator, n, data);
    if (!index)
        return cap.no_memory ? -ENOMEM : -EPROTO;
    neff_stack_done(s);
    s->index = index;
    return 0;
}

void neff_stack_done(struct neff_stack *s)
{
    struct neff_cap cap;
    neff_cap_init(&cap, 0);
    if (s->index)
        neuroncc__debug_info__stack_frame_index__free_unpacked(s->index, &cap.allocator);
    s->index = NULL;
}

bool neff_stack_find(const struct neff_stack *s, uint64_t frame, const char **ret_file, int *ret_line)
{
    const Neuroncc__DebugInfo__StackFrameIndex *x = s->index;
    if (!x || frame == 0 || frame > x->n_frames)
        return false;
    uint32_t location = x->frames[frame - 1]->location_id;
    if (location == 0 || location > x->n_locations)
        return false;
    const Neuroncc__DebugInfo__StackFrameLocation *l = x->locations[location - 1];
    if (l->file_id == 0 || l->file_id > x->n_file_names)
        return false;
    *ret_file = x->file_names[l->file_id - 1];
    *ret_line = l->line <= INT_MAX ? (int)l->line : 0;
    return true;
}
