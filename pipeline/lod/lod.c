#include "pipeline/lod/lod.h"

#include <errno.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "pipeline/lod/lod_rows.h"

struct level {
    int64_t width, current; /* number of the bucket that is open */
    int64_t until;          /* where it ends */
    struct lod_row *rows;   /* by track; count 0: nothing yet in this bucket */
    uint32_t *open;         /* tracks with something */
    size_t open_count;
    struct lod_rows *done;
};

struct lod {
    struct level levels[LOD_LEVELS_MAX];
    unsigned count, least;
    size_t tracks;
    uint64_t events;
    int64_t *covered; /* by track: the greatest end so far */
};

struct lod_plan lod_plan(int64_t duration, uint64_t densest)
{
    struct lod_plan p = {.levels = 1, .least = LOD_LEAST};
    uint64_t span = duration > 0 ? (uint64_t)duration : 1, events = densest ? densest : 1;
    uint64_t wanted = span / events + 1 > UINT64_MAX / LOD_DENSITY ? span : (span / events + 1) * LOD_DENSITY;
    int64_t width = 1;
    while ((uint64_t)width < wanted && width < INT64_MAX / (LOD_STEP * 2))
        width *= 2;
    p.width[0] = width;
    while (p.levels < LOD_LEVELS_MAX && span / (uint64_t)p.width[p.levels - 1] > LOD_COARSEST &&
           p.width[p.levels - 1] < INT64_MAX / LOD_STEP) {
        p.width[p.levels] = p.width[p.levels - 1] * LOD_STEP;
        p.levels++;
    }
    return p;
}

int lod_open(const char *dir, const struct lod_plan *plan, size_t tracks, struct lod **ret, struct kymo_err *err)
{
    struct lod *l = KYMO_NEW(struct lod);
    if (!l)
        return kymo_err_set(err, -ENOMEM, "no memory for levels of detail");
    l->count = plan->levels;
    l->least = plan->least;
    l->tracks = tracks;
    l->covered = KYMO_NEW_ARRAY(int64_t, tracks + 1);
    int r = l->covered ? 0 : kymo_err_set(err, -ENOMEM, "no memory for %zu tracks", tracks);
    for (size_t i = 0; r == 0 && i < tracks; i++)
        l->covered[i] = INT64_MIN;
    for (unsigned i = 0; i < l->count && r == 0; i++) {
        struct level *v = &l->levels[i];
        v->width = plan->width[i];
        v->current = v->until = INT64_MIN;
        v->rows = KYMO_NEW_ARRAY(struct lod_row, tracks + 1);
        v->open = KYMO_NEW_ARRAY(uint32_t, tracks + 1);
        r = v->rows && v->open ? lod_rows_open(dir, v->width, &v->done, err)
                               : kymo_err_set(err, -ENOMEM, "no memory for %zu tracks", tracks);
    }
    if (r < 0)
        l = lod_free(l);
    else
        *ret = l;
    return r;
}

struct lod *lod_free(struct lod *l)
{
    for (unsigned i = 0; l && i < l->count; i++) {
        kymo_free(l->levels[i].rows);
        kymo_free(l->levels[i].open);
        lod_rows_free(l->levels[i].done);
    }
    if (l)
        kymo_free(l->covered);
    kymo_free(l);
    return NULL;
}

static void join(struct lod_row *into, const struct lod_row *row)
{
    if (row->first < into->first)
        into->first = row->first;
    if (row->last > into->last)
        into->last = row->last;
    if (row->longest > into->longest) {
        into->longest = row->longest;
        into->longest_id = row->longest_id;
        into->label = row->label;
    }
    into->busy += row->busy;
    into->count += row->count;
    into->bytes += row->bytes;
}

/* As join() of a row with this event alone, which most events come to. */
static void join_event(struct lod_row *into, const struct lod_event *e, int64_t busy)
{
    if (e->start < into->first)
        into->first = e->start;
    if (e->end > into->last)
        into->last = e->end;
    if (e->end - e->start > into->longest) {
        into->longest = e->end - e->start;
        into->longest_id = e->id;
        into->label = e->label;
    }
    into->busy += busy;
    into->count++;
    into->bytes += e->bytes;
}

static int put(struct lod *l, unsigned number, const struct lod_row *row, struct kymo_err *err);

/* The bucket is over on all tracks: its rows go out, and up into the next level. */
static int close_bucket(struct lod *l, unsigned number, struct kymo_err *err)
{
    struct level *v = &l->levels[number];
    int r = 0;
    for (size_t i = 0; i < v->open_count && r == 0; i++) {
        struct lod_row *row = &v->rows[v->open[i]];
        r = lod_rows_add(v->done, row, v->current, err);
        if (r == 0 && number + 1 < l->count)
            r = put(l, number + 1, row, err);
        row->count = 0;
    }
    v->open_count = 0;
    return r;
}

static int put(struct lod *l, unsigned number, const struct lod_row *row, struct kymo_err *err)
{
    struct level *v = &l->levels[number];
    if (row->start >= v->until) {
        int r = close_bucket(l, number, err);
        if (r < 0)
            return r;
        v->current = row->start / v->width - (row->start % v->width < 0);
        v->until = v->current < INT64_MAX / v->width ? (v->current + 1) * v->width : INT64_MAX;
    }
    struct lod_row *mine = &v->rows[row->track];
    if (mine->count) {
        join(mine, row);
        return 0;
    }
    *mine = *row;
    mine->start = v->current * v->width;
    v->open[v->open_count++] = row->track;
    return 0;
}

int lod_add(struct lod *l, const struct lod_event *e, struct kymo_err *err)
{
    if (e->track >= l->tracks)
        return kymo_err_set(err, -EINVAL, "track %u of %zu", e->track, l->tracks);
    int64_t *covered = &l->covered[e->track];
    int64_t from = e->begin > *covered ? e->begin : *covered;
    int64_t busy = e->end > from ? e->end - from : 0;
    if (e->end > *covered && e->end > e->begin)
        *covered = e->end;
    l->events++;
    struct level *finest = &l->levels[0];
    if (e->start < finest->until && finest->rows[e->track].count) {
        join_event(&finest->rows[e->track], e, busy);
        return 0;
    }
    struct lod_row row = {
        .start = e->start,
        .first = e->start,
        .last = e->end,
        .busy = busy,
        .longest = e->end - e->start,
        .longest_id = e->id,
        .count = 1,
        .bytes = e->bytes,
        .track = e->track,
        .label = e->label,
    };
    return put(l, 0, &row, err);
}

static bool is_kept(const struct lod *l, unsigned number)
{
    return number + 1 == l->count || lod_rows_count(l->levels[number].done) * l->least <= l->events;
}

int lod_finish(struct lod *l, lod_sink sink, void *ctx, struct kymo_err *err)
{
    int r = 0;
    for (unsigned i = 0; i < l->count && r == 0; i++) {
        r = close_bucket(l, i, err);
        if (r == 0 && is_kept(l, i))
            r = lod_rows_hand_out(l->levels[i].done, i, sink, ctx, err);
    }
    return r;
}
