#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/system/system_impl.h"

#define SLOTS (2u * SYSTEM_STREAMS_MAX)

struct entry {
    uint64_t sequence;
    char stream[TRACE_JSON_ID_MAX + 1]; /* "": free */
};

struct system_streams {
    struct entry *slots; /* made with the first one */
    size_t n;
};

struct system_streams *system_streams_new(void)
{
    return KYMO_NEW(struct system_streams);
}

struct system_streams *system_streams_free(struct system_streams *s)
{
    if (s)
        kymo_free(s->slots);
    kymo_free(s);
    return NULL;
}

static struct entry *slot_of(const struct system_streams *s, uint64_t sequence)
{
    size_t i = (size_t)(sequence * 0x9e3779b97f4a7c15ull >> 32) % SLOTS;
    while (s->slots[i].stream[0] && s->slots[i].sequence != sequence)
        i = (i + 1) % SLOTS;
    return &s->slots[i];
}

bool system_streams_add(struct system_streams *s, uint64_t sequence, const char *stream)
{
    if (!s->slots)
        s->slots = KYMO_NEW_ARRAY(struct entry, SLOTS);
    if (!s->slots || !*stream)
        return s->slots != NULL;
    struct entry *e = slot_of(s, sequence);
    if (!e->stream[0] && s->n == SYSTEM_STREAMS_MAX)
        return false;
    s->n += !e->stream[0];
    e->sequence = sequence;
    (void)snprintf(e->stream, sizeof e->stream, "%s", stream);
    return true;
}

const char *system_streams_find(const struct system_streams *s, uint64_t sequence)
{
    const struct entry *e = s->slots ? slot_of(s, sequence) : NULL;
    return e && e->stream[0] ? e->stream : NULL;
}
