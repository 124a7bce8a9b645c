#include "collector/query/export_sampler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"

#define RECORD_MAX (256u << 20)
#define BUCKETS 4096u

struct track {
    char *name;
    size_t name_len;
    struct track *next; /* in its bucket */
    struct kymo_buf record;
    int64_t start, duration;
    uint64_t events, order; /* events 0: nothing kept in this interval */
};

struct export_sampler {
    int64_t start, end;
    uint64_t intervals, current, orders;
    export_sample_out out;
    void *ctx;
    struct track *buckets[BUCKETS];
    struct track **tracks;
    size_t count, cap;
    struct track *last; /* whose event was the longest */
};

int export_sampler_new(int64_t start, int64_t end, uint64_t intervals, export_sample_out out, void *ctx,
                       struct export_sampler **ret)
{
    struct export_sampler *s = KYMO_NEW(struct export_sampler);
    if (!s)
        return -ENOMEM;
    s->start = start;
    s->end = end > start ? end : start + 1;
    s->intervals = intervals;
    s->out = out;
    s->ctx = ctx;
    *ret = s;
    return 0;
}

struct export_sampler *export_sampler_free(struct export_sampler *s)
{
    for (size_t i = 0; s && i < s->count; i++) {
        kymo_buf_done(&s->tracks[i]->record);
        kymo_free(s->tracks[i]->name);
        kymo_free(s->tracks[i]);
    }
    if (s)
        kymo_free(s->tracks);
    kymo_free(s);
    return NULL;
}

static uint64_t interval_of(const struct export_sampler *s, int64_t at)
{
    if (at <= s->start)
        return 0;
    if (at >= s->end)
        return s->intervals - 1;
    unsigned __int128 into = (unsigned __int128)(uint64_t)(at - s->start) * s->intervals;
    return (uint64_t)(into / (uint64_t)(s->end - s->start));
}

static int add_track(struct export_sampler *s, const char *name, size_t n, struct track **bucket, struct track **ret)
{
    void *p = s->tracks;
    int r = kymo_grow(&p, &s->cap, s->count + 1, EXPORT_TRACKS_MAX, sizeof(struct track *));
    s->tracks = p;
    if (r < 0)
        return r == -ENOBUFS ? -E2BIG : r;
    struct track *t = KYMO_NEW(struct track);
    char *copy = kymo_strndup(name, n);
    if (!t || !copy) {
        kymo_free(t);
        kymo_free(copy);
        return -ENOMEM;
    }
    kymo_buf_init(&t->record, RECORD_MAX);
    t->name = copy;
    t->name_len = n;
    t->next = *bucket;
    *bucket = t;
    s->tracks[s->count++] = t;
    *ret = t;
    return 0;
}

static int find_track(struct export_sampler *s, const char *name, size_t n, struct track **ret)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (uint8_t)name[i]) * 16777619u;
    struct track **bucket = &s->buckets[hash % BUCKETS];
    for (struct track *t = *bucket; t; t = t->next)
        if (t->name_len == n && !memcmp(t->name, name, n)) {
            *ret = t;
            return 0;
        }
    return add_track(s, name, n, bucket, ret);
}

static int by_order(const void *a, const void *b)
{
    const struct track *x = *(struct track *const *)a, *y = *(struct track *const *)b;
    if (!x->events != !y->events)
        return !x->events - !y->events;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static int flush(struct export_sampler *s)
{
    int r = 0;
    if (s->count)
        qsort(s->tracks, s->count, sizeof(struct track *), by_order);
    for (size_t i = 0; i < s->count && s->tracks[i]->events && r == 0; i++) {
        r = s->out(s->ctx, s->tracks[i]->record.data, s->tracks[i]->record.len, s->tracks[i]->events);
        s->tracks[i]->events = 0;
    }
    return r;
}

int export_sampler_event(struct export_sampler *s, const char *track, size_t track_len, int64_t start, int64_t end,
                         bool *ret_keep)
{
    uint64_t interval = interval_of(s, start);
    if (interval < s->current)
        return -EDOM;
    int r = interval > s->current ? flush(s) : 0;
    if (r < 0)
        return r;
    s->current = interval;
    struct track *t;
    r = find_track(s, track, track_len, &t);
    if (r < 0)
        return r;
    *ret_keep = !t->events || end - start > t->duration;
    t->events++;
    if (*ret_keep) {
        t->start = start;
        t->duration = end - start;
        t->order = s->orders++;
        s->last = t;
    }
    return 0;
}

int export_sampler_keep(struct export_sampler *s, const void *record, size_t n)
{
    kymo_buf_reset(&s->last->record);
    return kymo_buf_append(&s->last->record, record, n);
}

int export_sampler_finish(struct export_sampler *s)
{
    return flush(s);
}
