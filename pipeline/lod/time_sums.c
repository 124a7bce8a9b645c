#include "pipeline/lod/time_sums.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define SUBJECTS_MAX (1u << 27)
#define NONE INT64_MIN /* no bucket: it would begin before all time */

/* Small, since each event looks at those of several subjects. */
struct subject {
    int64_t covered; /* up to where its spans reach */
    int64_t bucket;  /* of its newest row; NONE: it has none */
    int64_t busy;    /* what that row does not have yet */
    size_t last;     /* its newest row */
    bool has_rows;   /* ever had one */
};

struct time_sums {
    int64_t width;
    int64_t number, from, until; /* the bucket that was looked for last */
    struct subject *subjects;
    size_t subject_count, subject_cap, with_rows;
    struct time_sums_row *rows;
    struct time_sums_work *work; /* by row; NULL: none */
    size_t n, cap;
    uint32_t *index; /* hash table of rows, plus 1 */
    size_t slots;    /* a power of two, above twice the rows */
};

int time_sums_open(int64_t duration, bool work, struct time_sums **ret, struct kymo_err *err)
{
    struct time_sums *s = KYMO_NEW(struct time_sums);
    if (!s)
        return kymo_err_set(err, -ENOMEM, "no memory for sums");
    s->width = 1;
    while (duration / s->width > TIME_SUMS_BUCKETS)
        s->width *= 2;
    s->cap = 1024;
    s->slots = 4 * s->cap;
    s->rows = KYMO_NEW_ARRAY(struct time_sums_row, s->cap);
    s->index = KYMO_NEW_ARRAY(uint32_t, s->slots);
    s->work = work ? KYMO_NEW_ARRAY(struct time_sums_work, s->cap) : NULL;
    if (!s->rows || !s->index || (work && !s->work)) {
        time_sums_free(s);
        return kymo_err_set(err, -ENOMEM, "no memory for sums");
    }
    *ret = s;
    return 0;
}

struct time_sums *time_sums_free(struct time_sums *s)
{
    if (!s)
        return NULL;
    kymo_free(s->subjects);
    kymo_free(s->rows);
    kymo_free(s->work);
    kymo_free(s->index);
    kymo_free(s);
    return NULL;
}

int64_t time_sums_width(const struct time_sums *s)
{
    return s->width;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static size_t slot_of(const struct time_sums *s, uint32_t subject, int64_t bucket)
{
    uint64_t h = ((uint64_t)bucket << 32 ^ subject) * 0x9e3779b97f4a7c15u;
    return (size_t)(h >> 20) & (s->slots - 1);
}

/* Where the row is, or would be. */
static uint32_t *find(struct time_sums *s, uint32_t subject, int64_t bucket)
{
    size_t i = slot_of(s, subject, bucket);
    for (; s->index[i]; i = (i + 1) & (s->slots - 1)) {
        const struct time_sums_row *row = &s->rows[s->index[i] - 1];
        if (row->subject == subject && row->bucket == bucket)
            break;
    }
    return &s->index[i];
}

static void join(struct time_sums *s, size_t into, size_t from)
{
    struct time_sums_row *a = &s->rows[into], *b = &s->rows[from];
    a->count += b->count;
    a->bytes += b->bytes;
    a->cost += b->cost;
    a->first = b->first < a->first ? b->first : a->first;
    a->last = b->last > a->last ? b->last : a->last;
    for (int i = 0; i < TIME_SUMS_FIGURES; i++)
        a->figures[i] += b->figures[i];
    if (!s->work)
        return;
    struct time_sums_work *x = &s->work[into], *y = &s->work[from];
    for (int i = 0; i < TIME_SUMS_BYTES; i++)
        x->bytes[i] += y->bytes[i];
    for (int i = 0; i < TIME_SUMS_FLOPS; i++)
        x->flops[i] += y->flops[i];
    x->has_bytes |= y->has_bytes;
    x->has_flops |= y->has_flops;
}

/* Gives the newest row what it does not have yet. */
static void settle(struct time_sums *s, struct subject *subject)
{
    if (subject->busy)
        s->rows[subject->last].figures[TIME_SUMS_BUSY] += subject->busy;
    subject->busy = 0;
}

/* Buckets become twice as wide: rows that are one from now on stand where the first of them stood. */
static void widen(struct time_sums *s)
{
    size_t n = 0;
    s->width *= 2;
    s->from = s->until = 0;
    memset(s->index, 0, s->slots * sizeof *s->index);
    for (size_t i = 0; i < s->subject_count; i++) {
        settle(s, &s->subjects[i]);
        s->subjects[i].bucket = NONE;
    }
    for (size_t i = 0; i < s->n; i++) {
        int64_t bucket = floor_div(s->rows[i].bucket, 2);
        uint32_t *at = find(s, s->rows[i].subject, bucket);
        if (*at) {
            join(s, *at - 1, i);
            continue;
        }
        s->rows[n] = s->rows[i];
        s->rows[n].bucket = bucket;
        if (s->work)
            s->work[n] = s->work[i];
        *at = (uint32_t)++n;
    }
    s->n = n;
}

static int grow(struct time_sums *s, struct kymo_err *err)
{
    size_t cap = 2 * s->cap, slots = 4 * cap;
    void *rows = kymo_realloc_array(s->rows, cap, sizeof *s->rows);
    if (rows)
        s->rows = rows;
    void *work = s->work ? kymo_realloc_array(s->work, cap, sizeof *s->work) : NULL;
    if (work)
        s->work = work;
    uint32_t *index = KYMO_NEW_ARRAY(uint32_t, slots);
    if (!rows || (s->work && !work) || !index) {
        kymo_free(index);
        return kymo_err_set(err, -ENOMEM, "no memory for %zu sums", cap);
    }
    kymo_free(s->index);
    s->index = index;
    s->slots = slots;
    s->cap = cap;
    for (size_t i = 0; i < s->n; i++)
        *find(s, s->rows[i].subject, s->rows[i].bucket) = (uint32_t)(i + 1);
    return 0;
}

/* Room for one more row. However wide buckets are, a subject may have three, since the profile may begin in any. */
static int make_room(struct time_sums *s, struct kymo_err *err)
{
    size_t most = 4 * s->with_rows > TIME_SUMS_ROWS ? 4 * s->with_rows : TIME_SUMS_ROWS;
    while (s->n >= most && s->width < INT64_MAX / 4)
        widen(s);
    return s->n == s->cap ? grow(s, err) : 0;
}

static int add_subjects(struct time_sums *s, uint32_t subject, struct kymo_err *err)
{
    void *list = s->subjects;
    int r = kymo_grow(&list, &s->subject_cap, (size_t)subject + 1, SUBJECTS_MAX, sizeof *s->subjects);
    if (r < 0)
        return kymo_err_set(err, r, "no memory for sums of %u subjects", subject);
    s->subjects = list;
    for (; s->subject_count <= subject; s->subject_count++)
        s->subjects[s->subject_count] = (struct subject){.covered = INT64_MIN, .bucket = NONE};
    return 0;
}

static void look_at(struct time_sums *s, int64_t t)
{
    if (t >= s->from && t < s->until)
        return;
    s->number = floor_div(t, s->width);
    s->from = s->number * s->width;
    s->until = s->from + s->width;
}

/* A subject's row of the bucket that is looked at, where it is not its newest. */
static int other_row(struct time_sums *s, uint32_t subject, int64_t t, struct kymo_err *err)
{
    uint32_t *at = find(s, subject, s->number);
    if (!*at) {
        int r = make_room(s, err);
        if (r < 0)
            return r;
        look_at(s, t);
        at = find(s, subject, s->number);
    }
    if (!*at) {
        s->rows[s->n] =
            (struct time_sums_row){.bucket = s->number, .subject = subject, .first = INT64_MAX, .last = INT64_MIN};
        if (s->work)
            s->work[s->n] = (struct time_sums_work){.has_bytes = false};
        *at = (uint32_t)++s->n;
    }
    struct subject *mine = &s->subjects[subject];
    settle(s, mine);
    s->with_rows += !mine->has_rows;
    mine->has_rows = true;
    mine->last = *at - 1;
    mine->bucket = s->number;
    return 0;
}

/* The row of the bucket that t is in, which stays looked at; valid until the next call. */
static int row_at(struct time_sums *s, uint32_t subject, int64_t t, struct time_sums_row **ret, struct kymo_err *err)
{
    int r = subject < s->subject_count ? 0 : add_subjects(s, subject, err);
    if (r < 0)
        return r;
    look_at(s, t);
    if (s->subjects[subject].bucket != s->number)
        r = other_row(s, subject, t, err);
    *ret = &s->rows[s->subjects[subject].last];
    return r;
}

static int spread(struct time_sums *s, uint32_t subject, enum time_sums_figure figure, int64_t begin, int64_t end,
                  struct kymo_err *err)
{
    while (begin < end) {
        struct time_sums_row *row;
        int r = row_at(s, subject, begin, &row, err);
        if (r < 0)
            return r;
        int64_t until = end < s->until ? end : s->until;
        row->figures[figure] += until - begin;
        begin = until;
    }
    return 0;
}

static void add_flops(struct time_sums_work *into, const struct time_sums_work *work, double share)
{
    into->has_flops = true;
    for (int i = 0; i < TIME_SUMS_FLOPS; i++)
        into->flops[i] += share * work->flops[i];
}

static int spread_flops(struct time_sums *s, uint32_t subject, const struct time_sums_event *e, struct kymo_err *err)
{
    for (int64_t at = e->begin; at < e->end;) {
        struct time_sums_row *row;
        int r = row_at(s, subject, at, &row, err);
        if (r < 0)
            return r;
        int64_t until = e->end < s->until ? e->end : s->until;
        add_flops(&s->work[row - s->rows], e->work, (double)(until - at) / (double)(e->end - e->begin));
        at = until;
    }
    return 0;
}

static void add_work(struct time_sums_work *into, const struct time_sums_work *work, bool flops)
{
    into->has_bytes |= work->has_bytes;
    for (int i = 0; work->has_bytes && i < TIME_SUMS_BYTES; i++)
        into->bytes[i] += work->bytes[i];
    if (work->has_flops)
        add_flops(into, work, flops ? 1 : 0);
}

int time_sums_event(struct time_sums *s, uint32_t subject, const struct time_sums_event *e, struct kymo_err *err)
{
    struct time_sums_row *row;
    int r = row_at(s, subject, e->start, &row, err);
    if (r < 0)
        return r;
    bool inside = e->end <= s->until;
    row->count++;
    row->bytes += e->bytes;
    row->cost += e->cost;
    row->first = e->start < row->first ? e->start : row->first;
    row->last = e->end > row->last ? e->end : row->last;
    if (e->work)
        add_work(&s->work[row - s->rows], e->work, inside || e->begin >= e->end);
    if (inside) {
        row->figures[TIME_SUMS_TIME] += e->end - e->start;
        row->figures[TIME_SUMS_WAIT] += e->begin - e->start;
        return 0;
    }
    r = spread(s, subject, TIME_SUMS_TIME, e->start, e->end, err);
    if (r == 0)
        r = spread(s, subject, TIME_SUMS_WAIT, e->start, e->begin, err);
    return r == 0 && e->work && e->work->has_flops ? spread_flops(s, subject, e, err) : r;
}

int time_sums_cover(struct time_sums *s, uint32_t subject, int64_t begin, int64_t end, struct kymo_err *err)
{
    int r = subject < s->subject_count ? 0 : add_subjects(s, subject, err);
    if (r < 0)
        return r;
    struct subject *mine = &s->subjects[subject];
    if (begin >= end || end <= mine->covered)
        return 0;
    begin = begin > mine->covered ? begin : mine->covered;
    mine->covered = end;
    look_at(s, begin);
    if (mine->bucket == s->number && end <= s->until) {
        mine->busy += end - begin;
        return 0;
    }
    return spread(s, subject, TIME_SUMS_BUSY, begin, end, err);
}

struct order {
    const struct time_sums_row *rows;
    const uint8_t *rank;
};

static int compare(const void *x, const void *y, void *ctx)
{
    const struct order *o = ctx;
    const struct time_sums_row *a = &o->rows[*(const uint32_t *)x], *b = &o->rows[*(const uint32_t *)y];
    if (o->rank[a->subject] != o->rank[b->subject])
        return o->rank[a->subject] < o->rank[b->subject] ? -1 : 1;
    if (a->bucket != b->bucket)
        return a->bucket < b->bucket ? -1 : 1;
    return (a->subject > b->subject) - (a->subject < b->subject);
}

int time_sums_rows(struct time_sums *s, const uint8_t *rank, time_sums_sink sink, void *ctx, struct kymo_err *err)
{
    struct order order = {s->rows, rank};
    for (size_t i = 0; i < s->subject_count; i++)
        settle(s, &s->subjects[i]);
    uint32_t *list KYMO_FREE = KYMO_NEW_ARRAY(uint32_t, s->n + 1);
    int r = list ? 0 : kymo_err_set(err, -ENOMEM, "no memory for %zu sums", s->n);
    for (size_t i = 0; list && i < s->n; i++)
        list[i] = (uint32_t)i;
    if (list && s->n)
        qsort_r(list, s->n, sizeof *list, compare, &order);
    for (size_t i = 0; i < s->n && r == 0; i++)
        r = sink(ctx, &s->rows[list[i]], s->work ? &s->work[list[i]] : NULL, err);
    return r;
}
