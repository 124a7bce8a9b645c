#include "tests/fuzz/neff_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/le.h"

#define FILES_MAX 16

static volatile size_t sink;

void neff_touch_text(const char *s)
{
    if (s)
        sink += strlen(s);
}

void neff_touch_debug(const struct neff_debug *d)
{
    if (!d)
        return;
    neff_touch_text(d->bir_name);
    neff_touch_text(d->file);
    neff_touch_text(d->layer);
    neff_touch_text(d->hlo_name);
    neff_touch_text(d->kernel_name);
    for (const struct neff_node *up = d->penguin; up; up = up->parent) {
        neff_touch_text(up->name);
        neff_touch_text(up->attributes);
    }
    for (size_t i = 0; i < d->frame_count; i++)
        sink += d->frames[i];
    for (size_t i = 0; i < d->dataflow_count; i++)
        sink += d->dataflow_predecessors[i] + d->dataflow_kinds[i];
    for (size_t i = 0; i < d->scheduling_count; i++)
        sink += d->scheduling_predecessors[i] + d->scheduling_kinds[i];
}

static void touch_scopes(const struct neff_kernel_scope *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        neff_touch_text(list[i].name);
        neff_touch_text(list[i].file);
        for (uint32_t up = i + 1; up; up = list[up - 1].parent)
            sink += list[up - 1].depth;
    }
}

void neff_touch_sources(const struct neff *n, const struct neff_kernels *k)
{
    const struct neff_frames *f = neff_get_frames(n);
    for (uint32_t i = 0; i < f->frame_count; i++) {
        uint32_t at = f->frames[i].location, file = at ? f->locations[at - 1].file : 0;
        neff_touch_text(file ? f->files[file - 1] : NULL);
        sink += f->frames[i].parent <= f->frame_count;
    }
    if (!k)
        return;
    touch_scopes(k->frames, k->frame_count);
    touch_scopes(k->variables, k->variable_count);
    touch_scopes(k->regions, k->region_count);
    for (uint32_t i = 0; i < k->instruction_count; i++) {
        const struct neff_kernel_instruction *in = &k->instructions[i];
        neff_touch_text(in->name);
        sink += (in->frame ? k->frames[in->frame - 1].depth : 0) + (in->region ? k->regions[in->region - 1].depth : 0) +
                (in->variable ? k->variables[in->variable - 1].depth : 0);
    }
}

static int by_name(const void *a, const void *b)
{
    const struct neff_member *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static bool is_there(const struct neff *n, const char *name)
{
    for (size_t i = 0; i < n->member_count; i++)
        if (n->members[i].name == name)
            return true;
    return false;
}

static void split(struct neff *n, const uint8_t *data, size_t size, const char *const *names, size_t name_count)
{
    for (unsigned files = 0; files < FILES_MAX && size >= 3; files++) {
        const char *name = names[data[0] % name_count];
        size_t len = kymo_le16(data + 1);
        if (len > size - 3)
            len = size - 3;
        if (!is_there(n, name))
            n->members[n->member_count++] = (struct neff_member){name, data + 3, len};
        data += 3 + len;
        size -= 3 + len;
    }
    if (n->member_count)
        qsort(n->members, n->member_count, sizeof *n->members, by_name);
}

struct neff *neff_from_files(const uint8_t *data, size_t size, const char *const *names, size_t name_count)
{
    struct neff *n KYMO_CLEANUP(neff_freep) = KYMO_NEW(struct neff);
    if (!n)
        return NULL;
    n->mac_count = -1;
    n->path = kymo_strdup("input");
    n->members = KYMO_NEW_ARRAY(struct neff_member, FILES_MAX);
    n->member_owned = KYMO_NEW_ARRAY(bool, FILES_MAX);
    if (!n->path || !n->members || !n->member_owned)
        return NULL;
    split(n, data, size, names, name_count);
    return KYMO_TAKE(n);
}
