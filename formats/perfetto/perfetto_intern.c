#include "formats/perfetto/perfetto_intern.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

#define SLOTS (2 * PERFETTO_INTERN_MAX)

struct perfetto_interned {
    char *text; /* NULL: free */
    size_t len;
    uint32_t id;
};

int perfetto_intern_init(struct perfetto_intern *t)
{
    t->count = 0;
    t->slots = KYMO_NEW_ARRAY(struct perfetto_interned, SLOTS);
    return t->slots ? 0 : -ENOMEM;
}

void perfetto_intern_done(struct perfetto_intern *t)
{
    for (uint32_t i = 0; t->slots && i < SLOTS; i++)
        kymo_free(t->slots[i].text);
    kymo_free(t->slots);
    t->slots = NULL;
}

int perfetto_intern_find(struct perfetto_intern *t, const char *text, size_t n, uint64_t *ret_id, bool *ret_new)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (uint8_t)text[i]) * 1099511628211u;
    uint32_t at = (uint32_t)(hash >> 32 ^ hash) % SLOTS;
    while (t->slots[at].text && (t->slots[at].len != n || memcmp(t->slots[at].text, text, n) != 0))
        at = (at + 1) % SLOTS;
    struct perfetto_interned *slot = &t->slots[at];
    *ret_new = !slot->text && t->count < PERFETTO_INTERN_MAX;
    *ret_id = slot->id;
    if (!*ret_new)
        return 0;
    slot->text = kymo_strndup(text, n);
    if (!slot->text)
        return -ENOMEM;
    slot->len = n;
    slot->id = ++t->count;
    *ret_id = slot->id;
    return 0;
}
