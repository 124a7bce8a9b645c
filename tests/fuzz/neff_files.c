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
    for (size_t i = 0; i < d->dataflow_count; i++)
        sink += d->dataflow_predecessors[i] + d->dataflow_kinds[i];
    for (size_t i = 0; i < d->scheduling_count; i++)
        sink += d->scheduling_predecessors[i] + d->scheduling_kinds[i];
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
