#include "tools/export/perfetto_tracks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/export/perfetto_facts.h"

#define BUCKETS 4096u
#define GROUPS_MAX 32

struct lane {
    uint64_t id;
    int64_t end;
};

struct track {
    struct track *next; /* in its bucket */
    const char *group;
    char *name;
    size_t len;
    int rank;
    struct lane *lanes;
    size_t count, cap;
};

struct perfetto_tracks {
    struct perfetto_writer *writer;
    struct {
        const char *name;
        uint64_t id;
    } groups[GROUPS_MAX];
    size_t group_count, count;
    struct track *buckets[BUCKETS];
};

/* Engines stand in the order of the viewer, everything else by the number in its name and behind them. */
static const char *const engines[] = {"TensorMatrix", "Tensor", "Vector", "Scalar", "GpSimd", "Sync"};

int perfetto_tracks_new(struct perfetto_writer *w, struct perfetto_tracks **ret)
{
    struct perfetto_tracks *t = KYMO_NEW(struct perfetto_tracks);
    if (!t)
        return -ENOMEM;
    t->writer = w;
    *ret = t;
    return 0;
}

struct perfetto_tracks *perfetto_tracks_free(struct perfetto_tracks *t)
{
    for (size_t i = 0; t && i < BUCKETS; i++)
        for (struct track *one = t->buckets[i], *next; one; one = next) {
            next = one->next;
            kymo_free(one->name);
            kymo_free(one->lanes);
            kymo_free(one);
        }
    kymo_free(t);
    return NULL;
}

static int rank_of_group(const char *group)
{
    int i = 0;
    while (perfetto_groups[i] && strcmp(perfetto_groups[i], group) != 0)
        i++;
    return i;
}

static int find_group(struct perfetto_tracks *t, const char *name, uint64_t *ret)
{
    for (size_t i = 0; i < t->group_count; i++)
        if (!strcmp(t->groups[i].name, name)) {
            *ret = t->groups[i].id;
            return 0;
        }
    if (t->group_count == GROUPS_MAX)
        return -E2BIG;
    const struct perfetto_track track = {.name = name, .rank = rank_of_group(name), .ordered = true};
    int r = perfetto_writer_track(t->writer, &track, ret);
    if (r < 0)
        return r;
    t->groups[t->group_count].name = name;
    t->groups[t->group_count++].id = *ret;
    return 0;
}

/* (nc1) behind (nc0), engines in their order, DMA-E10 behind DMA-E9. */
static int rank_of(const char *name)
{
    const char *core = strstr(name, "(nc");
    int rank = core ? (int)(strtol(core + 3, NULL, 10) & 0xff) << 20 : 0;
    size_t stem = core ? (size_t)(core - name) : strlen(name);
    for (int i = 0; i < (int)(sizeof engines / sizeof *engines); i++)
        if (strlen(engines[i]) == stem && !memcmp(engines[i], name, stem))
            return rank + i;
    size_t digits = stem;
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9')
        digits--;
    return rank + 16 + (int)(strtol(name + digits, NULL, 10) & 0xffff);
}

static int find_track(struct perfetto_tracks *t, const char *group, const char *name, size_t len, struct track **ret)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (uint8_t)name[i]) * 16777619u;
    struct track **bucket = &t->buckets[hash % BUCKETS];
    for (*ret = *bucket; *ret; *ret = (*ret)->next)
        if ((*ret)->len == len && !memcmp((*ret)->name, name, len) && !strcmp((*ret)->group, group))
            return 0;
    if (t->count == PERFETTO_TRACKS_MAX)
        return -E2BIG;
    struct track *one = KYMO_NEW(struct track);
    char *copy = kymo_strndup(name, len);
    if (!one || !copy) {
        kymo_free(one);
        kymo_free(copy);
        return -ENOMEM;
    }
    *one = (struct track){.next = *bucket, .group = group, .name = copy, .len = len, .rank = rank_of(copy)};
    *bucket = *ret = one;
    t->count++;
    return 0;
}

static int add_lane(struct perfetto_tracks *t, struct track *one, const char *unit, struct lane **ret)
{
    void *p = one->lanes;
    uint64_t group;
    int r = kymo_grow(&p, &one->cap, one->count + 1, PERFETTO_LANES_MAX, sizeof *one->lanes);
    one->lanes = p;
    if (r == -ENOBUFS)
        r = -E2BIG;
    if (r == 0)
        r = find_group(t, one->group, &group);
    if (r < 0)
        return r;
    struct lane *lane = &one->lanes[one->count];
    const struct perfetto_track track = {.parent = group, .name = one->name, .unit = unit, .rank = one->rank};
    r = perfetto_writer_track(t->writer, &track, &lane->id);
    if (r < 0)
        return r;
    one->count++;
    *ret = lane;
    return 0;
}

int perfetto_tracks_lane(struct perfetto_tracks *t, const char *group, const char *name, size_t len, int64_t start,
                         int64_t end, uint64_t *ret)
{
    struct track *one;
    struct lane *lane = NULL;
    int r = find_track(t, group, name, len, &one);
    if (r < 0)
        return r;
    for (size_t i = 0; i < one->count && !lane; i++)
        if (one->lanes[i].end <= start)
            lane = &one->lanes[i];
    if (!lane)
        r = add_lane(t, one, NULL, &lane);
    if (r < 0)
        return r;
    lane->end = end;
    *ret = lane->id;
    return 0;
}

int perfetto_tracks_counter(struct perfetto_tracks *t, const char *group, const char *name, size_t len,
                            const char *unit, uint64_t *ret)
{
    struct track *one;
    struct lane *lane = NULL;
    int r = find_track(t, group, name, len, &one);
    if (r == 0 && one->count)
        lane = &one->lanes[0];
    else if (r == 0)
        r = add_lane(t, one, unit, &lane);
    if (r == 0)
        *ret = lane->id;
    return r;
}
