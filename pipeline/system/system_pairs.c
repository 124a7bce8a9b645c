#include <errno.h>

#include "base/alloc.h"
#include "pipeline/system/system_impl.h"

#define BUCKETS 16384u
#define NONE UINT32_MAX

/* A place in the table; chained by call, newest first, and by age. */
struct place {
    struct system_open open;
    uint32_t next;           /* of the bucket, or of the free ones */
    uint32_t older, younger; /* by age */
};

struct system_pairs {
    struct place *places;
    uint32_t buckets[BUCKETS];
    uint32_t free, oldest, youngest, used;
};

struct system_pairs *system_pairs_new(void)
{
    struct system_pairs *p = KYMO_NEW(struct system_pairs);
    if (p)
        p->places = KYMO_NEW_ARRAY(struct place, SYSTEM_OPEN_MAX);
    if (!p || !p->places)
        return system_pairs_free(p);
    for (uint32_t i = 0; i < BUCKETS; i++)
        p->buckets[i] = NONE;
    p->free = p->oldest = p->youngest = NONE;
    return p;
}

struct system_pairs *system_pairs_free(struct system_pairs *p)
{
    struct system_open open;
    if (!p)
        return NULL;
    while (p->places && system_pairs_take(p, &open))
        system_open_done(&open);
    kymo_free(p->places);
    kymo_free(p);
    return NULL;
}

void system_open_done(struct system_open *o)
{
    kymo_free(o->name);
    kymo_free(o->json);
    o->name = o->json = NULL;
}

/* Without a tracking id the thread has to do. */
static uint32_t bucket_of(const struct system_open *o)
{
    uint64_t x = (o->tracking ? o->tracking : o->thread) * 0x9e3779b97f4a7c15ull;
    x ^= ((uint64_t)o->type << 32 | (uint32_t)o->nc) * 0xbf58476d1ce4e5b9ull;
    return (uint32_t)(x >> 40) % BUCKETS;
}

static bool same_call(const struct system_open *a, const struct system_open *b)
{
    return a->type == b->type && a->nc == b->nc && a->tracking == b->tracking &&
           (a->tracking || a->thread == b->thread);
}

static void unlink_age(struct system_pairs *p, const struct place *e)
{
    if (e->older != NONE)
        p->places[e->older].younger = e->younger;
    else
        p->oldest = e->younger;
    if (e->younger != NONE)
        p->places[e->younger].older = e->older;
    else
        p->youngest = e->older;
}

static void take(struct system_pairs *p, uint32_t i, struct system_open *ret)
{
    struct place *e = &p->places[i];
    uint32_t *link = &p->buckets[bucket_of(&e->open)];
    while (*link != i)
        link = &p->places[*link].next;
    *link = e->next;
    unlink_age(p, e);
    *ret = e->open;
    e->next = p->free;
    p->free = i;
}

bool system_pairs_take(struct system_pairs *p, struct system_open *ret)
{
    if (p->oldest == NONE)
        return false;
    take(p, p->oldest, ret);
    return true;
}

int system_pairs_open(struct system_pairs *p, const struct system_open *start, struct system_open *ret_evicted,
                      struct kymo_err *err)
{
    int evicted = p->free == NONE && p->used == SYSTEM_OPEN_MAX;
    if (evicted && !system_pairs_take(p, ret_evicted))
        return kymo_err_set(err, -EINVAL, "the table of open events is broken");
    uint32_t i = p->free != NONE ? p->free : p->used++;
    struct place *e = &p->places[i];
    if (i == p->free)
        p->free = e->next;
    uint32_t *bucket = &p->buckets[bucket_of(start)];
    *e = (struct place){.open = *start, .next = *bucket, .older = p->youngest, .younger = NONE};
    *bucket = i;
    if (p->youngest != NONE)
        p->places[p->youngest].younger = i;
    else
        p->oldest = i;
    p->youngest = i;
    return evicted;
}

bool system_pairs_close(struct system_pairs *p, const struct system_open *stop, struct system_open *ret)
{
    uint32_t i = p->buckets[bucket_of(stop)];
    while (i != NONE && !same_call(&p->places[i].open, stop))
        i = p->places[i].next;
    if (i == NONE)
        return false;
    take(p, i, ret);
    return true;
}
