/* Members of a profile of many ranks as lanes on one axis: their arrivals at collectives, and how busy they are. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "collector/query/op_common.h"
#include "collector/query/ranks_sql.h"
#include "collector/query/serve_ops.h"

#define LANES_MAX 64
#define NAMES_MAX 65536
#define MEMORY (256u << 20)

/* $1, $2: the window on the common axis, $3: its zero, $4: ns of a pixel, $5: the members, a line each. */
static const char arrivals[] =
    "WITH a AS (SELECT c.*, s.operation, s.last_profile = c.profile AS is_last, (c.arrival_ns - $3 - $1) // $4 AS pixel"
    " FROM k.\"CollectiveArrival\" c JOIN k.\"CollectiveSkew\" s ON s.id = c.collective_id"
    " WHERE c.profile IN (SELECT unnest(string_split($5, chr(10)))) AND c.arrival_ns <= $2 + $3 AND c.end_ns >= $1 + "
    "$3),"
    "n AS (SELECT *, row_number() OVER (PARTITION BY profile, pixel ORDER BY late_ns DESC NULLS LAST, arrival_ns) AS "
    "nth,"
    " count(*) OVER (PARTITION BY profile, pixel) AS many FROM a)"
    "SELECT collective_id, arrival_ns - $3, end_ns - $3, operation, late_ns, wait_ns, error_bound_ns,"
    " coalesce(is_last, false)::BIGINT, many, profile FROM n WHERE nth = 1 ORDER BY profile, arrival_ns, collective_id";

static const struct packed_column arrival_columns[] = {
    {"id", PACKED_I64},   {"start", PACKED_I64}, {"end", PACKED_I64}, {"label", PACKED_U32}, {"late", PACKED_I64},
    {"wait", PACKED_I64}, {"error", PACKED_I64}, {"last", PACKED_U8}, {"count", PACKED_U32}};
static const struct packed_column busy_columns[] = {
    {"start", PACKED_I64}, {"length", PACKED_I64}, {"share", PACKED_F64}, {"label", PACKED_U32}};

/*
 * $1, $2: the window on the member's own axis, $3: ns of a pixel there. Of the level whose buckets are the widest that
 * are no wider than a pixel, each pixel's busiest track. What began there may last longer than the pixel.
 */
static const char busy[] =
    "WITH all_levels AS (SELECT kind, bucket_ns, timeline_track, start_ts, busy_ns FROM"
    " read_parquet('/proc/self/fd/%d/LevelOfDetail.parquet') WHERE kind = 'instruction'),"
    "l AS (SELECT coalesce(max(bucket_ns) FILTER (bucket_ns <= $3), min(bucket_ns)) AS bucket FROM all_levels),"
    "b AS (SELECT greatest(bucket, $3 // bucket * bucket)::BIGINT AS step, bucket FROM l),"
    "t AS (SELECT start_ts // step AS place, timeline_track, sum(busy_ns)::DOUBLE AS busy, any_value(step) AS step"
    " FROM all_levels, b WHERE bucket_ns = bucket AND start_ts <= $2 AND start_ts >= $1 - step GROUP BY ALL)"
    "SELECT (place * any_value(step))::BIGINT, greatest(any_value(step), max(busy))::BIGINT, least(max(busy) / "
    "any_value(step), 1.0)::DOUBLE,"
    " arg_max(timeline_track, busy) FROM t GROUP BY place ORDER BY 1";

struct lane {
    const char *profile, *dir;
    int64_t offset; /* of its axis on the common one */
    double drift;   /* per ns */
    bool placed;    /* has a clock */
};

struct lanes {
    struct op_window w;
    int64_t zero;
    struct lane list[LANES_MAX];
    size_t n;
    struct packed *packed;
    struct query_db *db;
    size_t track;            /* that is being made, ... */
    const struct lane *lane; /* ... and whose it is */
};

/* The tracks of arrivals are the first, in the order of the members. */
static size_t track_of(const struct lanes *l, const char *profile, size_t n)
{
    size_t i = 0;
    while (i < l->n && (strlen(l->list[i].profile) != n || memcmp(l->list[i].profile, profile, n) != 0))
        i++;
    return i;
}

static int keep_arrival(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    const struct lanes *l = ctx;
    size_t track = track_of(l, c[9].text, c[9].len);
    (void)err;
    for (size_t i = 0; i < 9 && track < l->n; i++) {
        int64_t none = i == 6 ? -1 : 0;
        packed_int(l->packed, track, i,
                   i == 3      ? packed_text(l->packed, c[i].text, c[i].len)
                   : c[i].null ? none
                               : c[i].i);
    }
    return 0;
}

static int64_t to_common(const struct lane *lane, int64_t ts)
{
    return lane->offset + ts + (int64_t)(lane->drift * (double)ts);
}

/* The inverse; off by less than a ns per second of drift, which a window does not mind. */
static int64_t to_own(const struct lane *lane, int64_t common)
{
    return (int64_t)((double)(common - lane->offset) / (1 + lane->drift));
}

static int keep_busy(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    struct lanes *l = ctx;
    (void)err;
    if (c[0].null || c[1].null || c[2].null)
        return 0;
    packed_int(l->packed, l->track, 0, to_common(l->lane, c[0].i));
    packed_int(l->packed, l->track, 1, c[1].i);
    packed_real(l->packed, l->track, 2, c[2].f);
    packed_int(l->packed, l->track, 3, packed_text(l->packed, c[3].text, c[3].len));
    return 0;
}

static size_t new_track(struct lanes *l, const char *kind, const struct lane *lane, const char *mode,
                        const struct packed_column *columns, size_t n)
{
    char id[320];
    (void)snprintf(id, sizeof id, "%s:%.255s", kind, lane->profile);
    return packed_track(l->packed, id, mode, 0, columns, n);
}

static int64_t pixel_of(const struct lanes *l)
{
    int64_t ns = (l->w.to - l->w.from) / l->w.width;
    return ns > 0 ? ns : 1;
}

/* A member without levels, or that cannot be read, has an empty lane. */
static int read_busy(struct serve_request *q, void *ctx, struct kymo_err *err)
{
    struct lanes *l = ctx;
    char statement[sizeof busy + 16];
    int r = 0;
    for (size_t i = 0; i < l->n && r != -ECANCELED; i++) {
        struct kymo_err ignored = {0};
        l->lane = &l->list[i];
        l->track = new_track(l, "busy", l->lane, "busy", busy_columns, 4);
        if (!l->lane->placed || query_db_place(l->db, i) < 0)
            continue;
        (void)snprintf(statement, sizeof statement, busy, query_db_place(l->db, i));
        const struct sql_bind binds[] = {SQL_INT(to_own(l->lane, l->w.from)), SQL_INT(to_own(l->lane, l->w.to)),
                                         SQL_INT(pixel_of(l))};
        r = sql_run(serve_sql_of(q), statement, binds, 3, keep_busy, l, &ignored);
    }
    return r == -ECANCELED ? kymo_err_set(err, r, "nobody wants the answer any more") : 0;
}

static int keep_clock(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    struct lane *lane = ctx;
    (void)err;
    lane->placed = !c[0].null;
    lane->offset = c[0].i;
    lane->drift = c[1].null ? 0 : c[1].f / 1e6;
    return 0;
}

static int read_lanes(struct serve_request *q, struct lanes *l, struct kymo_err *err)
{
    struct kymo_buf names;
    kymo_buf_init(&names, NAMES_MAX);
    int r = 0;
    for (size_t i = 0; i < l->n && r == 0; i++) {
        struct lane *lane = &l->list[i];
        const struct sql_bind clock[] = {SQL_INT(l->zero), SQL_TEXT(lane->profile)};
        r = sql_run(serve_sql_of(q), "SELECT offset_ns - $1, drift_ppm FROM k.\"ClockMap\" WHERE profile = $2 LIMIT 1",
                    clock, 2, keep_clock, lane, err);
        (void)new_track(l, "collective", lane, "arrivals", arrival_columns, 9);
        if (r == 0 && kymo_buf_printf(&names, "%s%s", i ? "\n" : "", lane->profile) < 0)
            r = kymo_err_set(err, -ENOBUFS, "the names of the members are too long");
    }
    const struct sql_bind binds[] = {SQL_INT(l->w.from), SQL_INT(l->w.to), SQL_INT(l->zero), SQL_INT(pixel_of(l)),
                                     SQL_TEXT((const char *)names.data)};
    if (r == 0)
        r = sql_run(serve_sql_of(q), arrivals, binds, 5, keep_arrival, l, err);
    kymo_buf_done(&names);
    return r;
}

static int answer(struct serve_request *q, struct lanes *l, struct kymo_err *err)
{
    const char *dirs[LANES_MAX];
    const struct query_limits limits = {.memory_bytes = MEMORY, .threads = 1};
    for (size_t i = 0; i < l->n; i++)
        dirs[i] = l->list[i].dir;
    int r = read_lanes(q, l, err);
    if (r == 0)
        r = query_db_open_places(dirs, l->n, &limits, &l->db, err);
    if (r == 0)
        r = serve_visit_db(q, l->db, read_busy, l, err);
    return r < 0 ? r : serve_answer_packed(q, l->packed, err);
}

static int take_members(struct lanes *l, const json_t *names, const json_t *dirs, struct kymo_err *err)
{
    l->n = json_array_size(names);
    if (l->n == 0 || l->n > LANES_MAX || json_array_size(dirs) != l->n)
        return kymo_err_set(err, -EINVAL, "profiles names 1 to %d members", LANES_MAX);
    for (size_t i = 0; i < l->n; i++) {
        l->list[i].profile = json_string_value(json_array_get(names, i));
        l->list[i].dir = json_string_value(json_array_get(dirs, i));
        if (!l->list[i].profile || !l->list[i].dir)
            return kymo_err_set(err, -EINVAL, "profiles has something that is no name");
    }
    return 0;
}

int op_lanes(struct serve_request *q, struct kymo_err *err)
{
    struct lanes l = {0};
    json_t *names = NULL, *dirs = NULL;
    int r = ranks_check(q, err);
    if (r == 0)
        r = op_window_read(q, true, &l.w, err);
    if (r == 0)
        r = serve_question_json(serve_question_of(q), "names", &names, err);
    if (r == 0)
        r = serve_question_json(serve_question_of(q), "dirs", &dirs, err);
    if (r == 0)
        r = take_members(&l, names, dirs, err);
    if (r == 0)
        r = ranks_zero(q, &l.zero, err);
    if (r == 0 && !(l.packed = packed_new(l.w.from, l.w.to, l.w.width)))
        r = kymo_err_set(err, -ENOMEM, "no memory for an answer");
    if (r == 0)
        r = answer(q, &l, err);
    packed_free(l.packed);
    query_db_free(l.db);
    json_decref(names);
    json_decref(dirs);
    return r;
}
