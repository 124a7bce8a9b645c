#include "collector/query/serve_tracks.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "collector/query/serve_own_scan.h"
#include "collector/query/serve_waits.h"

#define SQL_MAX (1u << 16)
/* Of levels of detail that are made here, as pipeline/lod/lod.h has them for those in the table. */
#define DENSITY 16
#define STEP 4
#define COARSEST 256
#define LEVELS_MAX 16
#define FINEST_BUCKETS 65536 /* a directory's levels lie in memory */

static const char *const engines[] = {"Tensor", "Vector", "Scalar", "GpSimd", "Sync"};
#define N_ENGINES (sizeof engines / sizeof *engines)

#define IS_MATMUL "lower(engine) = 'tensor' AND upper(opcode) LIKE 'MATMUL%'"

/* Each: the columns track, pcore, bytes, wait, label, color, key and times, and the table. %s: the core's suffix. */
struct source {
    enum serve_kind kind;
    const char *track, *columns, *table;
};

static const struct source sources[] = {
    {SERVE_KIND_instruction, SERVE_ENGINE " || CASE WHEN " IS_MATMUL " THEN 'Matrix' ELSE '' END || %s",
     "pcore_idx AS pcore, 0 AS bytes, " SERVE_WAITED " AS wait, coalesce(opcode, '') AS "
     "label, " SERVE_OPERATOR " AS color, id, start_ts, end_ts",
     "Instruction"},
    {SERVE_KIND_instruction_split,
     SERVE_ENGINE " || CASE WHEN " IS_MATMUL
                  " THEN 'Matrix' WHEN executed_by = 'sequencer' THEN ' Sequencer' ELSE ' Compute' END || %s",
     "pcore_idx AS pcore, 0 AS bytes, " SERVE_WAITED " AS wait, coalesce(opcode, '') AS "
     "label, " SERVE_OPERATOR " AS color, id, start_ts, end_ts",
     "Instruction"},
    {SERVE_KIND_dma_engine, "'DMA-E' || coalesce(engine_idx::VARCHAR, '?') || %s",
     "pcore_idx AS pcore, transfer_bytes AS bytes, 0 AS wait, coalesce(nullif(variable, ''), queue_name, '') AS label,"
     " coalesce(queue_name, '') AS color, id, start_ts, end_ts",
     "DmaPacket"},
    {SERVE_KIND_dma_queue,
     "'DMA-E' || coalesce(engine_idx::VARCHAR, '?') || ' ' || coalesce(nullif(queue_name, ''), 'queue ' ||"
     " coalesce(queue_idx::VARCHAR, '?')) || %s",
     "pcore_idx AS pcore, transfer_bytes AS bytes, 0 AS wait, coalesce(nullif(variable, ''), queue_name, '') AS label,"
     " coalesce(queue_name, '') AS color, id, start_ts, end_ts",
     "DmaPacket"},
    {SERVE_KIND_dma_transfer,
     "CASE WHEN coalesce(queue_name, '') = '' OR queue_name = 'unknown' THEN 'unknown' ELSE queue_name || %s END",
     "pcore_idx AS pcore, transfer_bytes AS bytes, 0 AS wait, coalesce(nullif(variable, ''), queue_name, '') AS label,"
     " coalesce(queue_name, '') AS color, id, start_ts, end_ts",
     "DmaPacketAggregated"},
    {SERVE_KIND_host_dma, "'Host-device DMA-E' || coalesce(engine_idx::VARCHAR, '?')",
     "NULL::BIGINT AS pcore, transfer_bytes AS bytes, 0 AS wait, coalesce(traffic, 'unknown') AS label,"
     " coalesce(traffic, 'unknown') AS color, id, start_ts, end_ts",
     "HostDmaTransfer"},
    {SERVE_KIND_collective, "'CC stream ' || coalesce(stream_id::VARCHAR, '?')",
     "NULL::BIGINT AS pcore, greatest(coalesce(input_size, 0), coalesce(output_size, 0)) AS bytes, 0 AS wait,"
     " coalesce(operation, '') AS label, coalesce(operation, '') AS color, coalesce(id, -1) AS id, start_ts, end_ts",
     "CcOp"},
    {SERVE_KIND_cc_instruction, "'CC-core ' || coalesce(core_idx::VARCHAR, '?')",
     "NULL::BIGINT AS pcore, 0 AS bytes, coalesce(evt_wait_time_ns, 0) AS wait, coalesce(description, '') AS label,"
     " coalesce(description, '') AS color, coalesce(id, -1) AS id, start_ts, end_ts",
     "CcInstruction"},
    {SERVE_KIND_barrier, "'Barriers' || %s",
     "pcore_idx AS pcore, 0 AS bytes, 0 AS wait, coalesce(engine_name, '') AS label, coalesce(engine_name, '') AS "
     "color,"
     " coalesce(id, -1) AS id, start_ts, end_ts",
     "CoreBarriers"},
    {SERVE_KIND_throttle, "'Throttling ' || coalesce(type, '') || %s",
     "pcore_idx AS pcore, 0 AS bytes, 0 AS wait, coalesce(k::VARCHAR || '/' || n::VARCHAR, '') AS label,"
     " coalesce(type, '') AS color, -1 AS id, timestamp AS start_ts, timestamp + duration AS end_ts",
     "Throttle"},
    {SERVE_KIND_error, "'Errors' || %s",
     "pcore_idx AS pcore, 0 AS bytes, 0 AS wait, coalesce(description, '') AS label, coalesce(type, '') AS color, -1 "
     "AS id,"
     " timestamp AS start_ts, timestamp AS end_ts",
     "Error"},
};

static int add_track_text(struct kymo_buf *b, const struct serve_dir *d, const char *track)
{
    const char *core = d->cores > 1 ? "'(nc' || coalesce(pcore_idx::VARCHAR, '?') || ')'" : "''";
    const char *at = strstr(track, "%s");
    if (!at)
        return kymo_buf_printf(b, "%s", track);
    return kymo_buf_printf(b, "%.*s%s%s", (int)(at - track), track, core, at + 2);
}

int serve_tracks_label(const struct serve_dir *d, enum serve_kind kind, struct kymo_buf *b)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (sources[i].kind == kind)
            return add_track_text(b, d, sources[i].track);
    return -ENOENT;
}

static int add_select(const struct serve_dir *d, const struct source *src, const char *columns, struct kymo_buf *b)
{
    int r = kymo_buf_printf(b, "SELECT ");
    /* Where the levels are the table's own, its tracks have the table's own names. */
    if (r == 0 && src->kind == SERVE_KIND_instruction && d->own_levels)
        r = kymo_buf_printf(b, "coalesce(timeline_track, '')");
    else if (r == 0)
        r = add_track_text(b, d, src->track);
    return r < 0 ? r : kymo_buf_printf(b, " AS track, %s FROM ", columns);
}

static int make(const struct sql *s, int built, const struct kymo_buf *b, struct kymo_err *err)
{
    return built < 0 ? kymo_err_set(err, built, "no memory for a view")
                     : sql_run(s, (const char *)b->data, NULL, 0, NULL, NULL, err);
}

#define IN_WINDOW(name, rest) "CREATE MACRO k." name "(window_from, window_to) AS TABLE " rest
#define TOUCHES " WHERE start_ts < window_to AND end_ts >= window_from"

/* The same of what touches a window. */
static int make_window(const struct serve_dir *d, const struct sql *s, const struct source *src, const char *prefix,
                       const char *columns, struct kymo_buf *b, struct kymo_err *err)
{
    const char *kind = serve_kinds[src->kind].name;
    kymo_buf_reset(b);
    int r = kymo_buf_printf(b, IN_WINDOW("in_%s_%s", ""), prefix, kind);
    if (r == 0 && !serve_own_scan_has(d, src->table))
        return make(s, kymo_buf_printf(b, "SELECT * FROM k.%s_%s" TOUCHES, prefix, kind), b, err);
    if (r == 0)
        r = add_select(d, src, columns, b);
    return make(s, r < 0 ? r : kymo_buf_printf(b, "kymo_rows('%s', window_from, window_to)", src->table), b, err);
}

static int make_view(const struct serve_dir *d, const struct sql *s, const struct source *src, const char *prefix,
                     const char *columns, struct kymo_buf *b, struct kymo_err *err)
{
    kymo_buf_reset(b);
    int r = kymo_buf_printf(b, "CREATE VIEW k.%s_%s AS ", prefix, serve_kinds[src->kind].name);
    if (r == 0)
        r = add_select(d, src, columns, b);
    r = make(s, r < 0 ? r : kymo_buf_printf(b, "k.\"%s\"", src->table), b, err);
    return r < 0 ? r : make_window(d, s, src, prefix, columns, b, err);
}

static int make_source(const struct serve_dir *d, const struct sql *s, const struct source *src, struct kymo_buf *b,
                       struct kymo_err *err)
{
    int r = make_view(d, s, src, "src", src->columns, b, err);
    return r < 0 || !serve_kinds[src->kind].table ? r : make_view(d, s, src, "row", "*", b, err);
}

/* Of tables without tracks. */
static int make_table_windows(const struct serve_dir *d, const struct sql *s, struct kymo_buf *b, struct kymo_err *err)
{
    static const char *const tables[] = {"ActiveTime", "WaitCause"};
    int r = 0;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && r == 0; i++) {
        kymo_buf_reset(b);
        bool own = serve_own_scan_has(d, tables[i]);
        r = own ? kymo_buf_printf(b, IN_WINDOW("in_%s", "SELECT * FROM kymo_rows('%s', window_from, window_to)"),
                                  tables[i], tables[i])
                : kymo_buf_printf(b, IN_WINDOW("in_%s", "SELECT * FROM k.\"%s\"" TOUCHES), tables[i], tables[i]);
        r = make(s, r, b, err);
    }
    return r;
}

/* Levels of one kind, each from the one below, the finest from the events. */
static int make_levels(const struct serve_dir *d, const struct sql *s, const char *kind, struct kymo_buf *b,
                       struct kymo_err *err)
{
    int64_t densest = 0, span = d->to - d->from;
    kymo_buf_reset(b);
    int r = kymo_buf_printf(b, "SELECT max(n) FROM (SELECT count(*) n FROM k.src_%s GROUP BY track)", kind);
    if (r == 0)
        r = sql_numbers(s, (const char *)b->data, NULL, 0, &densest, 1, err);
    if (r < 0 || densest <= 0)
        return r;
    int64_t width = 1, wanted = (span / densest + 1) * DENSITY;
    while (width < wanted || span / width > FINEST_BUCKETS)
        width *= 2;
    kymo_buf_reset(b);
    r = kymo_buf_printf(
        b,
        "INSERT INTO k.levels SELECT '%s', 0, $1::BIGINT, track, min(pcore), start_ts // $1 * $1, min(start_ts), "
        "max(end_ts),"
        " count(*), least(sum(end_ts - start_ts)::BIGINT, max(end_ts) - min(start_ts)), sum(bytes)::BIGINT,"
        " arg_max(id, end_ts - start_ts), max(end_ts - start_ts), arg_max(label, end_ts - start_ts),"
        " arg_max(color, end_ts - start_ts) FROM k.src_%s GROUP BY track, start_ts // $1",
        kind, kind);
    if (r == 0)
        r = sql_run(s, (const char *)b->data, (struct sql_bind[]){SQL_INT(width)}, 1, NULL, NULL, err);
    for (int level = 1; r == 0 && level < LEVELS_MAX && span / width > COARSEST; level++) {
        static const char next[] =
            "INSERT INTO k.levels SELECT kind, level + 1, $2::BIGINT, track, min(pcore), start_ts // $2 * $2, "
            "min(first_ts),"
            " max(last_ts), sum(event_count)::BIGINT, least(sum(busy_ns)::BIGINT, max(last_ts) - min(first_ts)),"
            " sum(bytes)::BIGINT, arg_max(longest_id, longest_ns), max(longest_ns), arg_max(label, longest_ns),"
            " arg_max(color, longest_ns) FROM k.levels WHERE kind = $1 AND level = $3::BIGINT - 1"
            " GROUP BY kind, level, track, start_ts // $2";
        width *= STEP;
        r = sql_run(s, next, (struct sql_bind[]){SQL_TEXT(kind), SQL_INT(width), SQL_INT(level)}, 3, NULL, NULL, err);
    }
    return r;
}

static int make_all_levels(const struct serve_dir *d, const struct sql *s, struct kymo_buf *b, struct kymo_err *err)
{
    static const char table[] =
        "CREATE TABLE k.levels (kind VARCHAR, level BIGINT, bucket_ns BIGINT, track VARCHAR, pcore BIGINT, start_ts "
        "BIGINT,"
        " first_ts BIGINT, last_ts BIGINT, event_count BIGINT, busy_ns BIGINT, bytes BIGINT, longest_id BIGINT,"
        " longest_ns BIGINT, label VARCHAR, color VARCHAR)";
    int r = sql_run(s, table, NULL, 0, NULL, NULL, err);
    for (int k = 0; k < SERVE_KIND_MAX && r == 0; k++)
        if (serve_kinds[k].levels && (k != SERVE_KIND_instruction_split || d->has_split))
            r = make_levels(d, s, serve_kinds[k].name, b, err);
    return r;
}

int serve_tracks_views(struct serve_dir *d, const struct sql *s, struct kymo_err *err)
{
    static const char own[] =
        "CREATE VIEW k.levels AS SELECT kind, level::BIGINT AS level, bucket_ns, timeline_track AS track, pcore_idx AS "
        "pcore,"
        " start_ts, first_ts, last_ts, event_count, busy_ns, transfer_bytes AS bytes, longest_id, longest_ns, label,"
        " CASE WHEN kind IN ('instruction', 'instruction_split') THEN coalesce(operator, '') ELSE label END AS color"
        " FROM k.\"LevelOfDetail\"";
    struct kymo_buf b;
    kymo_buf_init(&b, SQL_MAX);
    int r = 0;
    for (size_t i = 0; i < sizeof sources / sizeof *sources && r == 0; i++)
        r = make_source(d, s, &sources[i], &b, err);
    if (r == 0)
        r = make_table_windows(d, s, &b, err);
    if (r == 0)
        r = d->own_levels ? sql_run(s, own, NULL, 0, NULL, NULL, err) : make_all_levels(d, s, &b, err);
    kymo_buf_done(&b);
    return r;
}

/* Which tracks there are */

struct finder {
    struct serve_dir *d;
    size_t cap;
};

static char *make_id(const char *kind, const char *label)
{
    struct kymo_buf b;
    kymo_buf_init(&b, SQL_MAX);
    int r = kymo_buf_printf(&b, "%s:", kind);
    for (; *label && r == 0; label++)
        r = *label == ','   ? kymo_buf_printf(&b, "%%2C")
            : *label == '%' ? kymo_buf_printf(&b, "%%25")
                            : kymo_buf_printf(&b, "%c", *label);
    char *id = r == 0 ? kymo_strndup((const char *)b.data, b.len) : NULL;
    kymo_buf_done(&b);
    return id;
}

/* The known engine that a label begins with, by number; -1. */
static int engine_of(const char *label)
{
    for (size_t i = 0; i < N_ENGINES; i++)
        if (!strncmp(label, engines[i], strlen(engines[i])))
            return (int)i;
    return -1;
}

static const char *split_of(enum serve_kind kind, const char *label)
{
    bool matrix = !strncmp(label, "TensorMatrix", 12);
    if (kind == SERVE_KIND_instruction)
        return matrix ? NULL : "joined";
    if (kind != SERVE_KIND_instruction_split)
        return NULL;
    return strstr(label, " Sequencer") ? "sequencer" : "compute";
}

static int add(struct finder *f, enum serve_kind kind, const char *label, int64_t pcore, int64_t events,
               struct kymo_err *err)
{
    struct serve_dir *d = f->d;
    void *list = d->tracks;
    int r = kymo_grow(&list, &f->cap, d->n_tracks + 1, SERVE_TRACKS_MAX, sizeof *d->tracks);
    if (r < 0)
        return kymo_err_set(err, r, "more than %d tracks", SERVE_TRACKS_MAX);
    d->tracks = list;
    struct serve_track *t = &d->tracks[d->n_tracks++];
    bool instruction = kind == SERVE_KIND_instruction || kind == SERVE_KIND_instruction_split;
    int engine = instruction ? engine_of(label) : -1;
    *t = (struct serve_track){.kind = kind,
                              .label = kymo_strdup(label),
                              .id = make_id(serve_kinds[kind].name, label),
                              .engine = engine < 0 ? NULL : kymo_strdup(engines[engine]),
                              .pcore = pcore,
                              .events = events,
                              .split = split_of(kind, label)};
    return t->label && t->id && (engine < 0 || t->engine) ? 0 : kymo_err_set(err, -ENOMEM, "no memory for tracks");
}

static int find_kind(const struct sql_cell *name)
{
    int kind = 0;
    while (kind < SERVE_KIND_MAX &&
           (strlen(serve_kinds[kind].name) != name->len || memcmp(serve_kinds[kind].name, name->text, name->len) != 0))
        kind++;
    return kind;
}

static int keep_level(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    struct finder *f = ctx;
    int kind = find_kind(&c[0]), i = 0;
    (void)err;
    while (kind < SERVE_KIND_MAX && i < SERVE_LEVELS_MAX && f->d->buckets[kind][i])
        i++;
    if (kind < SERVE_KIND_MAX && i < SERVE_LEVELS_MAX && c[1].i > 0)
        f->d->buckets[kind][i] = c[1].i;
    return 0;
}

static int keep_track(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    struct finder *f = ctx;
    char *label KYMO_FREE = kymo_strndup(c[1].text, c[1].len);
    int kind = find_kind(&c[0]);
    if (!label)
        return kymo_err_set(err, -ENOMEM, "no memory for tracks");
    /* The matrix track of the split is the plain one. */
    if (kind == SERVE_KIND_MAX || (kind == SERVE_KIND_instruction_split && !strncmp(label, "TensorMatrix", 12)))
        return 0;
    return add(f, (enum serve_kind)kind, label, c[2].null ? -1 : c[2].i, c[3].null ? 0 : c[3].i, err);
}

static bool has_track(const struct serve_dir *d, const char *label)
{
    for (size_t i = 0; i < d->n_tracks; i++)
        if (d->tracks[i].kind == SERVE_KIND_instruction && !strcmp(d->tracks[i].label, label))
            return true;
    return false;
}

/* An engine that did nothing has a track all the same. */
static int add_idle(struct finder *f, struct kymo_err *err)
{
    int r = 0;
    for (int core = 0; core < f->d->cores && r == 0; core++)
        for (size_t i = 0; i <= N_ENGINES && r == 0; i++) {
            char label[64], suffix[16] = "";
            if (f->d->cores > 1)
                (void)snprintf(suffix, sizeof suffix, "(nc%d)", core);
            (void)snprintf(label, sizeof label, "%s%s", i < N_ENGINES ? engines[i] : "TensorMatrix", suffix);
            if (!has_track(f->d, label))
                r = add(f, SERVE_KIND_instruction, label, core, 0, err);
        }
    return r;
}

/* 5 after 10, 2 before 10: digits count as numbers. */
static int compare_labels(const char *a, const char *b)
{
    while (*a && *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            char *end_a, *end_b;
            unsigned long long x = strtoull(a, &end_a, 10), y = strtoull(b, &end_b, 10);
            if (x != y)
                return x < y ? -1 : 1;
            a = end_a;
            b = end_b;
        } else if (*a != *b) {
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        } else {
            a++;
            b++;
        }
    }
    return (*a != 0) - (*b != 0);
}

static int part_rank(const struct serve_track *t)
{
    if (!strncmp(t->label, "TensorMatrix", 12))
        return 3;
    return t->split && !strcmp(t->split, "compute") ? 2 : t->split && !strcmp(t->split, "sequencer") ? 1 : 0;
}

/* Engines core by core, in the order of the list above; the two kinds of them side by side, so that a switch keeps
 * order. */
static int compare_tracks(const void *x, const void *y)
{
    const struct serve_track *a = x, *b = y;
    bool instructions = a->kind <= SERVE_KIND_instruction_split && b->kind <= SERVE_KIND_instruction_split;
    if (!instructions && a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->pcore != b->pcore)
        return a->pcore < b->pcore ? -1 : 1;
    if (!instructions)
        return compare_labels(a->label, b->label);
    int ea = a->engine ? engine_of(a->engine) : 99, eb = b->engine ? engine_of(b->engine) : 99;
    if (ea != eb)
        return ea < eb ? -1 : 1;
    int pa = part_rank(a), pb = part_rank(b);
    return pa != pb ? (pa < pb ? -1 : 1) : compare_labels(a->label, b->label);
}

/* The coarsest level of a kind has few rows and counts everything. */
static int find_in_levels(struct finder *f, const struct sql *s, struct kymo_err *err)
{
    int r = sql_run(s, "SELECT kind, bucket_ns FROM k.levels GROUP BY ALL ORDER BY kind, bucket_ns", NULL, 0,
                    keep_level, f, err);
    return r < 0 ? r
                 : sql_run(s,
                           "SELECT kind, track, min(pcore), sum(event_count)::BIGINT FROM k.levels JOIN (SELECT kind "
                           "AS top_kind,"
                           " max(level) AS top FROM k.levels GROUP BY kind) ON kind = top_kind AND level = top GROUP "
                           "BY kind, track",
                           NULL, 0, keep_track, f, err);
}

/* Of one kind, while its coarsest level is read: a track's place among the directory's, by its label. */
struct own_finder {
    struct finder *f;
    enum serve_kind kind;
    json_t *places;
};

static int keep_own_track(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    struct own_finder *o = ctx;
    const struct sql_cell *label = &c[SERVE_OWN_L_TRACK], *pcore = &c[SERVE_OWN_L_PCORE],
                          *count = &c[SERVE_OWN_L_COUNT];
    const json_t *place = json_object_getn(o->places, label->text, label->len);
    if (place) {
        struct serve_track *t = &o->f->d->tracks[json_integer_value(place)];
        t->events += count->null ? 0 : count->i;
        t->pcore = !pcore->null && (t->pcore < 0 || pcore->i < t->pcore) ? pcore->i : t->pcore;
        return 0;
    }
    const char *kind = serve_kinds[o->kind].name;
    size_t n = o->f->d->n_tracks;
    int r = keep_track(o->f, (struct sql_cell[]){{.text = kind, .len = strlen(kind)}, *label, *pcore, *count}, err);
    if (r < 0 || o->f->d->n_tracks == n)
        return r; /* a track of another kind */
    return json_object_setn_new(o->places, label->text, label->len, json_integer((json_int_t)n)) < 0
               ? kymo_err_set(err, -ENOMEM, "no memory for tracks")
               : 0;
}

/* The same from kymo's own file. */
static int find_in_own(struct finder *f, const struct sql *s, struct kymo_err *err)
{
    struct serve_dir *d = f->d;
    int r = serve_own_widths(d, d->buckets, err);
    for (int k = 0; k < SERVE_KIND_MAX && r == 0; k++) {
        int64_t widest = serve_dir_bucket(d, (enum serve_kind)k, INT64_MAX);
        struct own_finder o = {f, (enum serve_kind)k, json_object()};
        const struct serve_own_window w = {.dir = d,
                                           .kind = (enum serve_kind)k,
                                           .from = INT64_MIN + 1,
                                           .to = INT64_MAX,
                                           .stop = s->stop,
                                           .row = keep_own_track,
                                           .ctx = &o};
        r = widest > 0 ? serve_own_levels(&w, widest, true, err) : 0;
        json_decref(o.places);
    }
    return r;
}

int serve_tracks_find(struct serve_dir *d, const struct sql *s, struct kymo_err *err)
{
    struct finder f = {.d = d};
    int r = serve_own_has_levels(d) ? find_in_own(&f, s, err) : find_in_levels(&f, s, err);
    for (int k = 0; k < SERVE_KIND_MAX && r == 0; k++) {
        if (serve_kinds[k].levels)
            continue;
        char text[256];
        (void)snprintf(text, sizeof text, "SELECT '%s', track, min(pcore), count(*) FROM k.src_%s GROUP BY track",
                       serve_kinds[k].name, serve_kinds[k].name);
        r = sql_run(s, text, NULL, 0, keep_track, &f, err);
    }
    if (r == 0)
        r = add_idle(&f, err);
    if (r == 0 && d->n_tracks)
        qsort(d->tracks, d->n_tracks, sizeof *d->tracks, compare_tracks);
    return r;
}
