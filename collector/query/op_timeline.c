/* Tracks of a window, as buckets of LevelOfDetail or as the events themselves. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/op_common.h"
#include "collector/query/serve_ops.h"
#include "collector/query/serve_own.h"

#define PER_PIXEL 4        /* exact events at most, of a track */
#define EXACT_EVENTS 16384 /* of all tracks of a kind: more take longer to read and send than buckets */
#define FAR_MORE 8         /* times as many, spread evenly, are not counted before levels are taken */
#define SQL_MAX (4u << 20)
#define SLOTS 1024

enum event_column { EV_ID, EV_START, EV_END, EV_LABEL, EV_COLOR, EV_BYTES, EV_WAIT, EV_MAX };
enum bucket_column {
    BU_START,
    BU_FIRST,
    BU_LAST,
    BU_COUNT,
    BU_BUSY,
    BU_BYTES,
    BU_ID,
    BU_LONGEST,
    BU_LABEL,
    BU_COLOR,
    BU_MAX
};

static const struct packed_column event_columns[EV_MAX] = {
    [EV_ID] = {"id", PACKED_I64},       [EV_START] = {"start", PACKED_I64}, [EV_END] = {"end", PACKED_I64},
    [EV_LABEL] = {"label", PACKED_U32}, [EV_COLOR] = {"color", PACKED_U32}, [EV_BYTES] = {"bytes", PACKED_I64},
    [EV_WAIT] = {"wait", PACKED_I64},
};
static const struct packed_column bucket_columns[BU_MAX] = {
    [BU_START] = {"start", PACKED_I64}, [BU_FIRST] = {"first", PACKED_I64},     [BU_LAST] = {"last", PACKED_I64},
    [BU_COUNT] = {"count", PACKED_U32}, [BU_BUSY] = {"busy", PACKED_I64},       [BU_BYTES] = {"bytes", PACKED_I64},
    [BU_ID] = {"id", PACKED_I64},       [BU_LONGEST] = {"longest", PACKED_I64}, [BU_LABEL] = {"label", PACKED_U32},
    [BU_COLOR] = {"color", PACKED_U32},
};

/* One that is being put together of a track's rows, which come in order. */
struct bucket {
    bool open;
    int64_t start, first, last, count, busy, bytes, id, longest;
    uint32_t label, color;
};

struct choice {
    const struct serve_track *track;
    int64_t events; /* in the window, or a few more */
    size_t packed;  /* its number there */
    bool exact;
    struct bucket bucket;
};

struct timeline {
    struct serve_request *q;
    const struct sql *sql;
    const struct serve_dir *dir;
    struct op_window w;
    struct packed *packed;
    struct choice *choices;
    size_t n;
    /* of the kind that is being read */
    size_t first, end;
    int64_t bucket; /* width of those that are put together here, */
    bool of_events; /* of events; else of levels' */
    size_t slots[SLOTS];
    struct sql_bind *binds;
    struct kymo_buf text;
};

static const char *const dma_names[] = {"engine", "queue", "aggregated", NULL};

/* Whether the defaults show it, given the settings. */
static bool fits(const struct serve_track *t, int dma, int64_t split)
{
    const struct serve_kind_row *k = &serve_kinds[t->kind];
    if (k->dma)
        return !strcmp(k->dma, dma_names[dma]);
    return !t->split || (strcmp(t->split, "joined") != 0) == (split != 0);
}

/* Tracks of one kind are read together, so they stand together. */
static void choose_kind(struct timeline *t, enum serve_kind kind, int dma, int64_t split)
{
    const char *tracks = serve_question_text(serve_question_of(t->q), "tracks"),
               *groups = serve_question_text(serve_question_of(t->q), "groups");
    for (size_t i = 0; i < t->dir->n_tracks; i++) {
        const struct serve_track *k = &t->dir->tracks[i];
        bool wanted = tracks ? serve_question_has(tracks, k->id)
                             : fits(k, dma, split) && (!groups || serve_question_has(groups, serve_kinds[kind].group));
        if (k->kind == kind && wanted)
            t->choices[t->n++] = (struct choice){.track = k};
    }
}

static int choose(struct timeline *t, struct kymo_err *err)
{
    int dma = 0;
    int64_t split = 0;
    int r = serve_question_choice(serve_question_of(t->q), "dma", dma_names, &dma, err);
    if (r == 0)
        r = serve_question_int(serve_question_of(t->q), "split", 0, 1, false, &split, err);
    if (r < 0)
        return r;
    t->choices = KYMO_NEW_ARRAY(struct choice, t->dir->n_tracks + 1);
    t->binds = KYMO_NEW_ARRAY(struct sql_bind, t->dir->n_tracks + 8);
    if (!t->choices || !t->binds)
        return kymo_err_set(err, -ENOMEM, "no memory for tracks");
    for (int kind = 0; kind < SERVE_KIND_MAX; kind++)
        choose_kind(t, (enum serve_kind)kind, dma, split);
    return 0;
}
static bool is_label(const struct choice *k, const struct sql_cell *label)
{
    const char *mine = k->track->label;
    return !strncmp(mine, label->text, label->len) && !mine[label->len];
}

/* Names differ at their ends, if at all: a small table by the last bytes finds most of them at once. */
static struct choice *find(struct timeline *t, const struct sql_cell *label)
{
    size_t slot = label->len;
    for (size_t i = label->len > 12 ? label->len - 12 : 0; i < label->len; i++)
        slot = slot * 31 + (unsigned char)label->text[i];
    slot %= SLOTS;
    size_t known = t->slots[slot];
    if (known >= t->first && known < t->end && is_label(&t->choices[known], label))
        return &t->choices[known];
    for (size_t i = t->first; i < t->end; i++)
        if (is_label(&t->choices[i], label)) {
            t->slots[slot] = i;
            return &t->choices[i];
        }
    return NULL;
}

static int count_row(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    struct timeline *t = ctx;
    struct choice *k = find(t, &c[0]);
    (void)err;
    if (k)
        k->events = c[1].null ? 0 : c[1].i;
    return 0;
}

static int add_count(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    struct choice *k = find(ctx, &c[SERVE_OWN_L_TRACK]);
    (void)err;
    if (k && !c[SERVE_OWN_L_COUNT].null)
        k->events += c[SERVE_OWN_L_COUNT].i;
    return 0;
}

static void put_event(struct timeline *t, const struct choice *k, const struct sql_cell *c)
{
    struct packed *p = t->packed;
    packed_int(p, k->packed, EV_ID, c[1].null ? -1 : c[1].i);
    packed_int(p, k->packed, EV_START, c[2].i);
    packed_int(p, k->packed, EV_END, c[3].i);
    packed_int(p, k->packed, EV_BYTES, c[4].null ? 0 : c[4].i);
    packed_int(p, k->packed, EV_WAIT, c[5].null ? 0 : c[5].i);
    packed_int(p, k->packed, EV_LABEL, packed_text(p, c[6].text, c[6].len));
    packed_int(p, k->packed, EV_COLOR, packed_text(p, c[7].text, c[7].len));
}

static int event_row(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    struct timeline *t = ctx;
    const struct choice *k = find(t, &c[0]);
    (void)err;
    if (k && k->exact)
        put_event(t, k, c);
    return 0;
}

static int bucket_row(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    static const enum bucket_column numbers[] = {BU_START, BU_FIRST, BU_LAST, BU_COUNT,
                                                 BU_BUSY,  BU_BYTES, BU_ID,   BU_LONGEST};
    struct timeline *t = ctx;
    struct packed *p = t->packed;
    const struct choice *k = find(t, &c[0]);
    (void)err;
    if (!k || k->exact)
        return 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        packed_int(p, k->packed, numbers[i], c[1 + i].null ? 0 : c[1 + i].i);
    packed_int(p, k->packed, BU_LABEL, packed_text(p, c[9].text, c[9].len));
    packed_int(p, k->packed, BU_COLOR, packed_text(p, c[10].text, c[10].len));
    return 0;
}

static const char *kind_name(const struct timeline *t)
{
    return serve_kinds[t->choices[t->first].track->kind].name;
}

/* " AND track IN ($n, ...)" for the choices of the kind that are exact, or that are not; binds follow the n there are.
 */
static int add_tracks(struct timeline *t, bool exact, size_t *n)
{
    int r = kymo_buf_printf(&t->text, " AND track IN (");
    const char *comma = "";
    for (size_t i = t->first; i < t->end && r == 0; i++) {
        if (t->choices[i].exact != exact)
            continue;
        t->binds[(*n)++] = SQL_TEXT(t->choices[i].track->label);
        r = kymo_buf_printf(&t->text, "%s$%zu", comma, *n);
        comma = ", ";
    }
    return r < 0 ? r : kymo_buf_printf(&t->text, ")");
}

static size_t count_exact(const struct timeline *t)
{
    size_t n = 0;
    for (size_t i = t->first; i < t->end; i++)
        n += t->choices[i].exact;
    return n;
}

/* What statements about the window begin with. */
static int begin(struct timeline *t, const char *fmt, size_t *n)
{
    kymo_buf_reset(&t->text);
    t->binds[0] = SQL_INT(t->w.from);
    t->binds[1] = SQL_INT(t->w.to);
    *n = 2;
    return kymo_buf_printf(&t->text, fmt, kind_name(t)); /* NOLINT: every text is one below */
}

/* The same from the tables themselves, where they are kymo's. */
static struct serve_own_window own_window(struct timeline *t, sql_row row)
{
    return (struct serve_own_window){.dir = t->dir,
                                     .kind = t->choices[t->first].track->kind,
                                     .from = t->w.from,
                                     .to = t->w.to,
                                     .stop = t->sql->stop,
                                     .row = row,
                                     .ctx = t};
}

static int run(struct timeline *t, int built, size_t n, sql_row row, struct kymo_err *err)
{
    if (built < 0)
        return kymo_err_set(err, built, "no memory for a statement");
    return sql_run(t->sql, (const char *)t->text.data, t->binds, n, row, t, err);
}

/* Whole buckets, wherever the window cuts them. */
static void whole_buckets(const struct timeline *t, int64_t bucket, int64_t *ret_from, int64_t *ret_to)
{
    int64_t before = t->w.from % bucket, behind = t->w.to % bucket;
    *ret_from = t->w.from - (before < 0 ? before + bucket : before);
    *ret_to = t->w.to - (behind < 0 ? behind + bucket : behind) + bucket - 1;
}

static void widen(struct timeline *t, int64_t bucket)
{
    int64_t from, to;
    whole_buckets(t, bucket, &from, &to);
    t->binds[0] = SQL_INT(from);
    t->binds[1] = SQL_INT(to);
}

static void put_bucket(struct timeline *t, struct choice *k)
{
    struct bucket *b = &k->bucket;
    /* Events may overlap; levels say how long what they stand for covers. */
    if (t->of_events && b->busy > b->last - b->first)
        b->busy = b->last - b->first;
    const int64_t numbers[] = {
        [BU_START] = b->start, [BU_FIRST] = b->first, [BU_LAST] = b->last, [BU_COUNT] = b->count,
        [BU_BUSY] = b->busy,   [BU_BYTES] = b->bytes, [BU_ID] = b->id,     [BU_LONGEST] = b->longest,
        [BU_LABEL] = b->label, [BU_COLOR] = b->color};
    for (size_t i = 0; b->open && i < BU_MAX; i++)
        packed_int(t->packed, k->packed, i, numbers[i]);
    b->open = false;
}

static void put_buckets(struct timeline *t)
{
    for (size_t i = t->first; i < t->end; i++)
        put_bucket(t, &t->choices[i]);
}

/* more: a bucket of one event or of many. */
static void join(struct timeline *t, struct choice *k, const struct bucket *more, const struct sql_cell *label,
                 const struct sql_cell *color)
{
    struct bucket *b = &k->bucket;
    int64_t start = more->start / t->bucket * t->bucket;
    if (b->open && b->start != start)
        put_bucket(t, k);
    if (!b->open)
        *b = (struct bucket){.open = true, .start = start, .first = more->first, .last = more->last, .longest = -1};
    b->first = more->first < b->first ? more->first : b->first;
    b->last = more->last > b->last ? more->last : b->last;
    b->count += more->count;
    b->busy += more->busy;
    b->bytes += more->bytes;
    if (more->longest <= b->longest)
        return;
    b->longest = more->longest;
    b->id = more->id;
    b->label = packed_text(t->packed, label->text, label->len);
    b->color = packed_text(t->packed, color->text, color->len);
}

static int join_level(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    struct timeline *t = ctx;
    struct choice *k = find(t, &c[SERVE_OWN_L_TRACK]);
    const struct bucket b = {.start = c[SERVE_OWN_L_START].i,
                             .first = c[SERVE_OWN_L_FIRST].i,
                             .last = c[SERVE_OWN_L_LAST].i,
                             .count = c[SERVE_OWN_L_COUNT].i,
                             .busy = c[SERVE_OWN_L_BUSY].i,
                             .bytes = c[SERVE_OWN_L_BYTES].i,
                             .id = c[SERVE_OWN_L_ID].i,
                             .longest = c[SERVE_OWN_L_LONGEST].i};
    (void)err;
    if (k && !k->exact)
        join(t, k, &b, &c[SERVE_OWN_L_LABEL], &c[SERVE_OWN_L_COLOR]);
    return 0;
}

static int join_event(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    struct timeline *t = ctx;
    struct choice *k = find(t, &c[SERVE_OWN_TRACK]);
    int64_t start = c[SERVE_OWN_START].i, end = c[SERVE_OWN_END].i, begin = start + c[SERVE_OWN_WAIT].i;
    (void)err;
    if (!k || k->exact)
        return 0;
    const struct bucket b = {.start = start,
                             .first = start,
                             .last = end,
                             .count = 1,
                             .busy = end - (begin < end ? begin : end),
                             .bytes = c[SERVE_OWN_BYTES].i,
                             .id = c[SERVE_OWN_ID].i,
                             .longest = end - start};
    join(t, k, &b, &c[SERVE_OWN_LABEL], &c[SERVE_OWN_COLOR]);
    return 0;
}

/* kymo's tables and levels come in the order of start as they are. */
static const char *in_order(const struct timeline *t, const char *order)
{
    return t->dir->own_levels ? "" : order;
}

static int read_events(struct timeline *t, struct kymo_err *err)
{
    size_t n;
    const struct serve_own_window w = own_window(t, event_row);
    if (serve_own_has_events(t->dir, w.kind))
        return serve_own_events(&w, err);
    int r = begin(t,
                  "SELECT track, id, start_ts, end_ts, bytes::BIGINT, wait::BIGINT, label, color FROM k.src_%s"
                  " WHERE end_ts >= $1 AND start_ts <= $2",
                  &n);
    if (r == 0 && count_exact(t) < t->end - t->first)
        r = add_tracks(t, true, &n);
    if (r == 0)
        r = kymo_buf_printf(&t->text, "%s",
                            serve_kinds[t->choices[t->first].track->kind].table ? in_order(t, " ORDER BY start_ts, id")
                                                                                : " ORDER BY start_ts, id");
    return run(t, r, n, event_row, err);
}

static int read_own_levels(struct timeline *t, int64_t level, int64_t bucket, struct kymo_err *err)
{
    struct serve_own_window w = own_window(t, level == bucket ? bucket_row : join_level);
    t->bucket = bucket;
    t->of_events = false;
    if (level != bucket)
        whole_buckets(t, bucket, &w.from, &w.to);
    int r = serve_own_levels(&w, level, false, err);
    put_buckets(t);
    return r;
}

/* Of a level whose buckets are a whole part of the answer's. */
static int read_levels(struct timeline *t, int64_t level, int64_t bucket, struct kymo_err *err)
{
    size_t n;
    if (serve_own_has_levels(t->dir))
        return read_own_levels(t, level, bucket, err);
    int r =
        level == bucket
            ? begin(t,
                    "SELECT track, start_ts, first_ts, last_ts, event_count, busy_ns, bytes, longest_id, longest_ns,"
                    " label, color FROM k.levels WHERE kind = '%s' AND bucket_ns = $3 AND last_ts >= $1 AND"
                    " start_ts <= $2",
                    &n)
            : begin(t,
                    "SELECT track, start_ts // $4 * $4 AS b, min(first_ts), max(last_ts), sum(event_count)::BIGINT,"
                    " sum(busy_ns)::BIGINT, sum(bytes)::BIGINT, arg_max(longest_id, longest_ns), max(longest_ns),"
                    " arg_max(label, longest_ns), arg_max(color, longest_ns) FROM k.levels WHERE kind = '%s' AND"
                    " bucket_ns = $3 AND last_ts >= $1 AND start_ts <= $2 GROUP BY track, b ORDER BY b",
                    &n);
    t->binds[n++] = SQL_INT(level);
    if (level != bucket) {
        widen(t, bucket);
        t->binds[n++] = SQL_INT(bucket);
    } else if (r == 0) {
        r = kymo_buf_printf(&t->text, "%s", in_order(t, " ORDER BY start_ts"));
    }
    return run(t, r, n, bucket_row, err);
}

static int make_own_buckets(struct timeline *t, int64_t bucket, struct kymo_err *err)
{
    struct serve_own_window w = own_window(t, join_event);
    t->bucket = bucket;
    t->of_events = true;
    whole_buckets(t, bucket, &w.from, &w.to);
    int r = serve_own_events(&w, err);
    put_buckets(t);
    return r;
}

/* Below the finest level, and for kinds that have none. */
static int make_buckets(struct timeline *t, int64_t bucket, struct kymo_err *err)
{
    size_t n;
    if (serve_own_has_events(t->dir, t->choices[t->first].track->kind))
        return make_own_buckets(t, bucket, err);
    int r = begin(t,
                  "SELECT track, start_ts // $3 * $3 AS b, min(start_ts), max(end_ts), count(*),"
                  " least(sum(end_ts - least(start_ts + wait, end_ts))::BIGINT, max(end_ts) - min(start_ts)),"
                  " sum(bytes)::BIGINT, arg_max(id, end_ts - start_ts), max(end_ts - start_ts),"
                  " arg_max(label, end_ts - start_ts), arg_max(color, end_ts - start_ts) FROM k.src_%s WHERE"
                  " end_ts >= $1 AND start_ts <= $2",
                  &n);
    widen(t, bucket);
    t->binds[n++] = SQL_INT(bucket);
    if (r == 0 && count_exact(t))
        r = add_tracks(t, false, &n);
    if (r == 0)
        r = kymo_buf_printf(&t->text, " GROUP BY track, b ORDER BY b");
    return run(t, r, n, bucket_row, err);
}

/* How many events each track has in the window. The greatest bucket of at most a 64th of it is near enough. */
static int count_events(struct timeline *t, int64_t finest, struct kymo_err *err)
{
    size_t n;
    for (size_t i = t->first; i < t->end; i++)
        t->choices[i].events = 0;
    int64_t bucket = (t->w.to - t->w.from) / 64;
    int r;
    if (finest < 0) {
        r = begin(t, "SELECT track, count(*) FROM k.src_%s WHERE end_ts >= $1 AND start_ts <= $2 GROUP BY track", &n);
        return run(t, r, n, count_row, err);
    }
    const struct serve_own_window w = own_window(t, add_count);
    if (serve_own_has_levels(t->dir))
        return serve_own_levels(&w, serve_dir_bucket(t->dir, w.kind, bucket), true, err);
    r = begin(
        t,
        "SELECT track, sum(event_count)::BIGINT FROM k.levels WHERE kind = '%s' AND bucket_ns = $3 AND last_ts >= $1"
        " AND start_ts <= $2 GROUP BY track",
        &n);
    t->binds[n++] = SQL_INT(serve_dir_bucket(t->dir, t->choices[t->first].track->kind, bucket));
    return run(t, r, n, count_row, err);
}

static bool choose_modes(struct timeline *t)
{
    int64_t total = 0;
    bool any = false;
    for (size_t i = t->first; i < t->end; i++)
        total += t->choices[i].events;
    for (size_t i = t->first; i < t->end; i++) {
        struct choice *k = &t->choices[i];
        k->exact = total <= EXACT_EVENTS && k->events <= PER_PIXEL * t->w.width;
        any |= k->exact;
    }
    return any;
}

/* What the tracks have in all, of which a window has no more than its part if they are spread evenly. */
static int64_t count_all(struct timeline *t)
{
    int64_t n = 0;
    for (size_t i = t->first; i < t->end; i++) {
        t->choices[i].events = t->choices[i].track->events;
        n += t->choices[i].events;
    }
    return n;
}

static bool is_crowded(const struct timeline *t, int64_t events)
{
    double whole = (double)(t->dir->to - t->dir->from) + 1, here = (double)(t->w.to - t->w.from);
    return (double)events * (here < whole ? here / whole : 1) > (double)EXACT_EVENTS * FAR_MORE;
}

static void open_tracks(struct timeline *t, int64_t bucket)
{
    for (size_t i = t->first; i < t->end; i++) {
        struct choice *k = &t->choices[i];
        k->packed = k->exact ? packed_track(t->packed, k->track->id, "events", 0, event_columns, EV_MAX)
                             : packed_track(t->packed, k->track->id, "buckets", bucket, bucket_columns, BU_MAX);
    }
}

/* The tracks of one kind, which stand together. */
static int read_kind(struct timeline *t, struct kymo_err *err)
{
    enum serve_kind kind = t->choices[t->first].track->kind;
    int64_t pixel = (t->w.to - t->w.from) / t->w.width, finest = serve_dir_bucket(t->dir, kind, 0);
    int64_t level = finest > 0 && finest <= pixel ? serve_dir_bucket(t->dir, kind, pixel) : -1;
    int64_t events = count_all(t);
    bool crowded = level > 0 && is_crowded(t, events);
    int r = crowded || events <= EXACT_EVENTS ? 0 : count_events(t, finest, err);
    if (r < 0)
        return r;
    bool exact = !crowded && choose_modes(t), all = exact && count_exact(t) == t->end - t->first;
    int64_t bucket = level > 0 ? pixel / level * level : pixel > 0 ? pixel : 1;
    open_tracks(t, bucket);
    if (exact && events)
        r = read_events(t, err);
    if (r == 0 && !all)
        r = level > 0 ? read_levels(t, level, bucket, err) : make_buckets(t, bucket, err);
    return r;
}

static int read_kinds(struct timeline *t, struct kymo_err *err)
{
    int r = 0;
    for (t->first = 0; t->first < t->n && r == 0; t->first = t->end) {
        t->end = t->first + 1;
        while (t->end < t->n && t->choices[t->end].track->kind == t->choices[t->first].track->kind)
            t->end++;
        r = read_kind(t, err);
    }
    return r;
}

int op_timeline(struct serve_request *q, struct kymo_err *err)
{
    struct timeline t = {.q = q, .sql = serve_sql_of(q), .dir = serve_dir_of(q)};
    struct packed *packed KYMO_CLEANUP(packed_freep) = NULL;
    kymo_buf_init(&t.text, SQL_MAX);
    int r = op_window_read(q, true, &t.w, err);
    if (r == 0)
        r = choose(&t, err);
    if (r == 0 && !(t.packed = packed = packed_new(t.w.from, t.w.to, t.w.width)))
        r = kymo_err_set(err, -ENOMEM, "no memory for an answer");
    if (r == 0)
        r = read_kinds(&t, err);
    if (r == 0)
        r = serve_answer_packed(q, packed, err);
    kymo_buf_done(&t.text);
    kymo_free(t.binds);
    kymo_free(t.choices);
    return r;
}
