#include "pipeline/lod/time_sums.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define SUBJECTS_MAX (1u << 27)
#define NONE INT64_MIN /* no bucket: it would begin before all time */
#define NO_ROW UINT32_MAX
#define DIGIT_BITS 11
#define DIGITS (1u << DIGIT_BITS)

/* Small, since each event looks at those of several subjects. */
struct subject {
    int64_t covered; /* up to where its spans reach */
    int64_t bucket;  /* of the row below; NONE: not known, since there is none or buckets have become wider */
    int64_t busy;    /* what that row does not have yet */
    uint32_t row;    /* where it was last; NO_ROW: it has none */
    uint32_t first;  /* its row of the first bucket */
};

/* Rows of one subject are a line in order of time. An event begins near where the one before it began, so that few
 * steps lead from row to row. */
struct link {
    struct time_sums_row row;
    uint32_t before, after;
};

/* What its last events add to rows of its subjects, which are there already. */
struct group {
    int64_t bucket; /* in which these events are; NONE: there are none */
    uint64_t count, bytes;
    int64_t time, first, last;
    uint32_t subjects[TIME_SUMS_GROUP];
};

struct time_sums {
    int64_t width;
    int64_t number, from, until; /* the bucket that was looked for last */
    struct subject *subjects;
    size_t subject_count, subject_cap, with_rows;
    struct group *groups;
    size_t group_count, group_cap;
    struct link *links;
    struct time_sums_work *work; /* by row; NULL: none */
    size_t n, cap;
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
    s->links = KYMO_NEW_ARRAY(struct link, s->cap);
    s->work = work ? KYMO_NEW_ARRAY(struct time_sums_work, s->cap) : NULL;
    if (!s->links || (work && !s->work)) {
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
    kymo_free(s->groups);
    kymo_free(s->links);
    kymo_free(s->work);
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

/* Of a subject's rows, of which at is one, the last that is not after the bucket; NO_ROW: all are. */
static uint32_t walk(const struct time_sums *s, uint32_t at, int64_t bucket)
{
    while (at != NO_ROW && s->links[at].row.bucket > bucket)
        at = s->links[at].before;
    for (uint32_t next; at != NO_ROW; at = next) {
        next = s->links[at].after;
        if (next == NO_ROW || s->links[next].row.bucket > bucket)
            break;
    }
    return at;
}

static bool is_row(const struct time_sums *s, uint32_t at, int64_t bucket)
{
    return at != NO_ROW && s->links[at].row.bucket == bucket;
}

/* A row that is in no line yet; before NO_ROW: it becomes the first. */
static void insert(struct time_sums *s, struct subject *subject, uint32_t row, uint32_t before)
{
    uint32_t *from = before == NO_ROW ? &subject->first : &s->links[before].after;
    s->links[row].before = before;
    s->links[row].after = *from;
    if (*from != NO_ROW)
        s->links[*from].before = row;
    *from = row;
    subject->row = row;
}

static void join(struct time_sums *s, size_t into, size_t from)
{
    struct time_sums_row *a = &s->links[into].row, *b = &s->links[from].row;
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

/* Gives its row what it does not have yet. */
static void settle(struct time_sums *s, struct subject *subject)
{
    if (subject->busy)
        s->links[subject->row].row.figures[TIME_SUMS_BUSY] += subject->busy;
    subject->busy = 0;
}

static void settle_group(struct time_sums *s, struct group *g)
{
    for (size_t i = 0; i < TIME_SUMS_COUNTED && g->count; i++) {
        uint32_t at = walk(s, s->subjects[g->subjects[i]].row, g->bucket);
        struct time_sums_row *row = &s->links[at].row;
        row->count += g->count;
        row->bytes += g->bytes;
        row->figures[TIME_SUMS_TIME] += g->time;
        row->first = g->first < row->first ? g->first : row->first;
        row->last = g->last > row->last ? g->last : row->last;
    }
    g->bucket = NONE;
    g->count = g->bytes = 0;
    g->time = 0;
    g->first = INT64_MAX;
    g->last = INT64_MIN;
}

static void settle_all(struct time_sums *s)
{
    for (size_t i = 0; i < s->subject_count; i++)
        settle(s, &s->subjects[i]);
    for (size_t i = 0; i < s->group_count; i++)
        settle_group(s, &s->groups[i]);
}

/* Buckets become twice as wide: rows that are one from now on stand where the first of them stood. */
static void widen(struct time_sums *s)
{
    size_t n = s->n;
    settle_all(s);
    s->n = 0;
    s->width *= 2;
    s->from = s->until = 0;
    for (size_t i = 0; i < s->subject_count; i++) {
        struct subject *subject = &s->subjects[i];
        subject->bucket = NONE;
        subject->row = subject->first = NO_ROW;
    }
    for (size_t i = 0; i < n; i++) {
        struct subject *subject = &s->subjects[s->links[i].row.subject];
        int64_t bucket = floor_div(s->links[i].row.bucket, 2);
        uint32_t at = walk(s, subject->row, bucket);
        if (is_row(s, at, bucket)) {
            join(s, at, i);
            continue;
        }
        s->links[s->n].row = s->links[i].row;
        s->links[s->n].row.bucket = bucket;
        if (s->work)
            s->work[s->n] = s->work[i];
        insert(s, subject, (uint32_t)s->n++, at);
    }
}

static int grow(struct time_sums *s, struct kymo_err *err)
{
    size_t cap = 2 * s->cap;
    void *links = kymo_realloc_array(s->links, cap, sizeof *s->links);
    if (links)
        s->links = links;
    void *work = s->work ? kymo_realloc_array(s->work, cap, sizeof *s->work) : NULL;
    if (work)
        s->work = work;
    if (!links || (s->work && !work))
        return kymo_err_set(err, -ENOMEM, "no memory for %zu sums", cap);
    s->cap = cap;
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
        s->subjects[s->subject_count] =
            (struct subject){.covered = INT64_MIN, .bucket = NONE, .row = NO_ROW, .first = NO_ROW};
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

/* A subject's row of the bucket that is looked at, where it is not its last. */
static int other_row(struct time_sums *s, uint32_t subject, int64_t t, struct kymo_err *err)
{
    struct subject *mine = &s->subjects[subject];
    uint32_t at = walk(s, mine->row, s->number);
    settle(s, mine);
    if (!is_row(s, at, s->number)) {
        int r = make_room(s, err);
        if (r < 0)
            return r;
        look_at(s, t);
        at = walk(s, mine->row, s->number);
    }
    if (!is_row(s, at, s->number)) {
        uint32_t row = (uint32_t)s->n++;
        s->links[row].row =
            (struct time_sums_row){.bucket = s->number, .subject = subject, .first = INT64_MAX, .last = INT64_MIN};
        if (s->work)
            s->work[row] = (struct time_sums_work){.has_bytes = false};
        s->with_rows += mine->row == NO_ROW;
        insert(s, mine, row, at);
    } else {
        mine->row = at;
    }
    mine->bucket = s->number;
    return 0;
}

static int other_place(struct time_sums *s, uint32_t subject, int64_t t, struct kymo_err *err)
{
    int r = subject < s->subject_count ? 0 : add_subjects(s, subject, err);
    if (r < 0)
        return r;
    look_at(s, t);
    return s->subjects[subject].bucket == s->number ? 0 : other_row(s, subject, t, err);
}

/* The subject's row of the bucket that t is in, which stays looked at; valid until the next call. */
static inline int row_at(struct time_sums *s, uint32_t subject, int64_t t, uint32_t *ret, struct kymo_err *err)
{
    bool here = t >= s->from && t < s->until && subject < s->subject_count && s->subjects[subject].bucket == s->number;
    int r = here ? 0 : other_place(s, subject, t, err);
    if (r == 0)
        *ret = s->subjects[subject].row;
    return r;
}

static int spread(struct time_sums *s, uint32_t subject, enum time_sums_figure figure, int64_t begin, int64_t end,
                  struct kymo_err *err)
{
    while (begin < end) {
        uint32_t row = 0;
        int r = row_at(s, subject, begin, &row, err);
        if (r < 0)
            return r;
        int64_t until = end < s->until ? end : s->until;
        s->links[row].row.figures[figure] += until - begin;
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
        uint32_t row = 0;
        int r = row_at(s, subject, at, &row, err);
        if (r < 0)
            return r;
        int64_t until = e->end < s->until ? e->end : s->until;
        add_flops(&s->work[row], e->work, (double)(until - at) / (double)(e->end - e->begin));
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

/* Its parts in buckets after that in which it begins, too. */
static int spread_event(struct time_sums *s, uint32_t subject, const struct time_sums_event *e, struct kymo_err *err)
{
    int r = spread(s, subject, TIME_SUMS_TIME, e->start, e->end, err);
    if (r == 0)
        r = spread(s, subject, TIME_SUMS_WAIT, e->start, e->begin, err);
    return r == 0 && e->work && e->work->has_flops ? spread_flops(s, subject, e, err) : r;
}

int time_sums_event(struct time_sums *s, const uint32_t *subjects, size_t n, const struct time_sums_event *e,
                    struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        uint32_t at = 0;
        r = row_at(s, subjects[i], e->start, &at, err);
        if (r < 0)
            return r;
        struct time_sums_row *row = &s->links[at].row;
        bool inside = e->end <= s->until;
        row->count++;
        row->bytes += e->bytes;
        row->cost += e->cost;
        row->first = e->start < row->first ? e->start : row->first;
        row->last = e->end > row->last ? e->end : row->last;
        if (e->work)
            add_work(&s->work[at], e->work, inside || e->begin >= e->end);
        if (inside) {
            row->figures[TIME_SUMS_TIME] += e->end - e->start;
            row->figures[TIME_SUMS_WAIT] += e->begin - e->start;
        } else {
            r = spread_event(s, subjects[i], e, err);
        }
    }
    return r;
}

/* In more than one bucket, or in one that its row is not of. */
static int cover_apart(struct time_sums *s, uint32_t subject, int64_t begin, int64_t end, struct kymo_err *err)
{
    int r = subject < s->subject_count ? 0 : add_subjects(s, subject, err);
    if (r < 0)
        return r;
    struct subject *mine = &s->subjects[subject];
    begin = begin > mine->covered ? begin : mine->covered;
    mine->covered = end;
    look_at(s, begin);
    if (mine->bucket != s->number || end > s->until)
        return spread(s, subject, TIME_SUMS_BUSY, begin, end, err);
    mine->busy += end - begin;
    return 0;
}

/* Whether it is done: the span is in the bucket that is looked at, or tells the subject nothing. */
static inline bool cover_here(struct subject *mine, int64_t number, int64_t begin, int64_t end)
{
    int64_t covered = mine->covered;
    if (end <= covered)
        return true;
    if (mine->bucket != number)
        return false;
    mine->busy += end - (begin > covered ? begin : covered);
    mine->covered = end;
    return true;
}

int time_sums_cover(struct time_sums *s, const uint32_t *subjects, size_t n, int64_t begin, int64_t end,
                    struct kymo_err *err)
{
    const uint32_t *last = subjects + n;
    if (begin >= end)
        return 0;
    if (begin >= s->from && end <= s->until) {
        struct subject *list = s->subjects;
        size_t count = s->subject_count;
        int64_t number = s->number;
        while (subjects < last && *subjects < count && cover_here(&list[*subjects], number, begin, end))
            subjects++;
    }
    int r = 0;
    for (; subjects < last && r == 0; subjects++) {
        bool done = *subjects < s->subject_count && end <= s->subjects[*subjects].covered;
        r = done ? 0 : cover_apart(s, *subjects, begin, end, err);
    }
    return r;
}

int time_sums_group(struct time_sums *s, uint32_t group, const uint32_t subjects[TIME_SUMS_GROUP], struct kymo_err *err)
{
    void *list = s->groups;
    int r = kymo_grow(&list, &s->group_cap, (size_t)group + 1, SUBJECTS_MAX, sizeof *s->groups);
    if (r < 0)
        return kymo_err_set(err, r, "no memory for sums of %u groups", group);
    s->groups = list;
    for (; s->group_count <= group; s->group_count++)
        s->groups[s->group_count] = (struct group){.bucket = NONE, .first = INT64_MAX, .last = INT64_MIN};
    settle_group(s, &s->groups[group]);
    memcpy(s->groups[group].subjects, subjects, sizeof s->groups[group].subjects);
    return 0;
}

/* The first in a bucket, or one that ends in another. */
static int begin_group(struct time_sums *s, struct group *g, const struct time_sums_event *e, struct kymo_err *err)
{
    if (g->bucket != s->number)
        settle_group(s, g);
    int r = time_sums_event(s, g->subjects, TIME_SUMS_COUNTED, e, err);
    look_at(s, e->start);
    if (r == 0)
        g->bucket = s->number;
    return r;
}

int time_sums_group_event(struct time_sums *s, uint32_t group, int64_t start, int64_t end, uint64_t bytes,
                          struct kymo_err *err)
{
    struct group *g = &s->groups[group];
    look_at(s, start);
    if (g->bucket != s->number || end > s->until) {
        const struct time_sums_event e = {.start = start, .begin = start, .end = end, .bytes = bytes};
        int r = begin_group(s, g, &e, err);
        return r < 0 ? r : time_sums_cover(s, g->subjects, TIME_SUMS_GROUP, start, end, err);
    }
    g->count++;
    g->bytes += bytes;
    g->time += end - start;
    g->first = start < g->first ? start : g->first;
    g->last = end > g->last ? end : g->last;
    bool done = start < end;
    for (size_t i = 0; i < TIME_SUMS_GROUP && done; i++)
        done = cover_here(&s->subjects[g->subjects[i]], g->bucket, start, end);
    return done ? 0 : time_sums_cover(s, g->subjects, TIME_SUMS_GROUP, start, end, err);
}

/* Moves the list to another by digits, those of equal digits in the order that they have. */
static void distribute(const uint32_t *list, const uint16_t *digits, size_t n, uint32_t *to)
{
    size_t at[DIGITS] = {0}, sum = 0;
    for (size_t i = 0; i < n; i++)
        at[digits[i]]++;
    for (size_t d = 0; d < DIGITS; d++) {
        size_t count = at[d];
        at[d] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        to[at[digits[i]]++] = list[i];
}

/* Of subjects of a rank, in order of bucket, then of subject: puts rows into a list, and returns how many. The list and
 * the digits have room for all rows, and other, too. */
static size_t order_rank(const struct time_sums *s, const uint8_t *ranks, uint8_t rank, const int64_t *range,
                         uint32_t *list, uint32_t *other, uint16_t *digits)
{
    size_t n = 0;
    uint64_t least = (uint64_t)range[0], most = (uint64_t)range[1];
    for (size_t i = 0; i < s->subject_count; i++)
        for (uint32_t row = ranks[i] == rank ? s->subjects[i].first : NO_ROW; row != NO_ROW;
             row = s->links[row].after) {
            digits[n] = (uint16_t)(((uint64_t)s->links[row].row.bucket - least) & (DIGITS - 1));
            list[n++] = row;
        }
    for (unsigned shift = 0; shift == 0 || (shift < 64 && (most - least) >> shift); shift += DIGIT_BITS) {
        for (size_t i = 0; i < n && shift; i++)
            digits[i] = (uint16_t)(((uint64_t)s->links[list[i]].row.bucket - least) >> shift & (DIGITS - 1));
        distribute(list, digits, n, other);
        memcpy(list, other, n * sizeof *list);
    }
    return n;
}

int time_sums_rows(struct time_sums *s, const uint8_t *rank, time_sums_sink sink, void *ctx, struct kymo_err *err)
{
    settle_all(s);
    uint32_t *list KYMO_FREE = KYMO_NEW_ARRAY(uint32_t, s->n + 1);
    uint32_t *other KYMO_FREE = KYMO_NEW_ARRAY(uint32_t, s->n + 1);
    uint16_t *digits KYMO_FREE = KYMO_NEW_ARRAY(uint16_t, s->n + 1);
    if (!list || !other || !digits)
        return kymo_err_set(err, -ENOMEM, "no memory for %zu sums", s->n);
    int64_t range[2] = {INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < s->n; i++) {
        range[0] = s->links[i].row.bucket < range[0] ? s->links[i].row.bucket : range[0];
        range[1] = s->links[i].row.bucket > range[1] ? s->links[i].row.bucket : range[1];
    }
    int r = 0;
    for (unsigned k = 0; k <= UINT8_MAX && r == 0; k++) {
        size_t n = s->n && memchr(rank, (int)k, s->subject_count)
                       ? order_rank(s, rank, (uint8_t)k, range, list, other, digits)
                       : 0;
        for (size_t i = 0; i < n && r == 0; i++)
            r = sink(ctx, &s->links[list[i]].row, s->work ? &s->work[list[i]] : NULL, err);
    }
    return r;
}
