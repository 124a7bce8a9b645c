/* Figures of a window, or of a box: of some tracks in a window. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/op_covered.h"
#include "collector/query/rollup.h"
#include "collector/query/serve_ops.h"
#include "collector/query/serve_own.h"
#include "collector/query/serve_tracks.h"

#define SQL_MAX (4u << 20)
#define ROWS_MAX 2000
#define TOP 20 /* of queues, opcodes, operators: those with the most time; */
#define TOP_TEXT "20"

struct summary {
    struct serve_request *q;
    const struct serve_dir *dir;
    struct op_window w;
    json_t *answer;
    bool box;
    const struct serve_track **chosen;
    size_t n_chosen;
    size_t of_kind[SERVE_KIND_MAX]; /* how many are chosen */
    struct sql_bind *binds;
    size_t n_binds, binds_cap;
    struct kymo_buf text;
};

static int choose(struct summary *s, struct kymo_err *err)
{
    const char *tracks = serve_question_text(serve_question_of(s->q), "tracks");
    s->box = tracks != NULL;
    s->chosen = KYMO_NEW_ARRAY(const struct serve_track *, s->dir->n_tracks + 1);
    /* Each part of the window names the tracks for itself. */
    s->binds_cap = (OP_PIECES_MAX + 1) * s->dir->n_tracks + 4;
    s->binds = KYMO_NEW_ARRAY(struct sql_bind, s->binds_cap);
    if (!s->chosen || !s->binds)
        return kymo_err_set(err, -ENOMEM, "no memory for tracks");
    for (size_t i = 0; s->box && i < s->dir->n_tracks; i++)
        if (serve_question_has(tracks, s->dir->tracks[i].id)) {
            s->chosen[s->n_chosen++] = &s->dir->tracks[i];
            s->of_kind[s->dir->tracks[i].kind]++;
        }
    return 0;
}

static bool wanted(const struct summary *s, enum serve_kind kind)
{
    return s->box ? s->of_kind[kind] > 0 : op_has_table(s->q, serve_kinds[kind].table);
}

static void begin(struct summary *s)
{
    kymo_buf_reset(&s->text);
    s->binds[0] = SQL_INT(s->w.from);
    s->binds[1] = SQL_INT(s->w.to);
    s->n_binds = 2;
}

/* " AND COLUMN IN (...)" with the tracks of this kind that a box has. */
static int add_tracks(struct summary *s, enum serve_kind kind, const char *column)
{
    int r = s->box ? kymo_buf_printf(&s->text, " AND %s IN (NULL", column) : 0;
    for (size_t i = 0; i < s->n_chosen && r == 0; i++) {
        if (s->chosen[i]->kind != kind)
            continue;
        if (s->n_binds == s->binds_cap)
            return -E2BIG;
        s->binds[s->n_binds++] = SQL_TEXT(s->chosen[i]->label);
        r = kymo_buf_printf(&s->text, ", $%zu", s->n_binds);
    }
    return r == 0 && s->box ? kymo_buf_printf(&s->text, ")") : r;
}

/* The condition of events of this kind, behind WHERE. */
static int add_condition(struct summary *s, enum serve_kind kind)
{
    int r = kymo_buf_printf(&s->text, "%s", OP_INSIDE);
    return r < 0 ? r : add_tracks(s, kind, "track");
}

/* "(SELECT ...)": instructions of the window, of both kinds of tracks where a box has both. */
static int add_instructions(struct summary *s)
{
    static const enum serve_kind kinds[] = {SERVE_KIND_instruction, SERVE_KIND_instruction_split};
    const char *between = "(";
    int r = 0;
    for (size_t i = 0; i < 2 && r == 0; i++) {
        if (s->box ? !s->of_kind[kinds[i]] : i > 0)
            continue;
        r = kymo_buf_printf(&s->text, "%sSELECT * FROM k.row_%s WHERE ", between, serve_kinds[kinds[i]].name);
        if (r == 0)
            r = add_condition(s, kinds[i]);
        between = " UNION ALL ";
    }
    return r < 0 ? r : kymo_buf_printf(&s->text, ")");
}

/*
 * Rows of a statement that are added up: each of the parts of the window has its own, of the same columns. events and
 * sums end behind a WHERE, with $1 to $3 as op_parts_text has them; sums has the tracks in this column.
 */
struct source {
    enum serve_kind kind;
    const char *events, *sums, *column;
};

static int add_source(struct summary *s, const struct op_parts *p, const struct source *source, const char **between)
{
    int r = 0;
    for (size_t i = 0; i < p->n && r == 0; i++) {
        r = kymo_buf_printf(&s->text, "%s", *between);
        if (r == 0)
            r = op_parts_text(&s->text, source->events, &p->pieces[i]);
        if (r == 0)
            r = add_tracks(s, source->kind, "track");
        *between = " UNION ALL ";
    }
    if (r == 0 && p->from < p->to) {
        r = kymo_buf_printf(&s->text, "%s", *between);
        if (r == 0)
            r = op_parts_sums(&s->text, source->sums, p);
        if (r == 0)
            r = add_tracks(s, source->kind, source->column);
        *between = " UNION ALL ";
    }
    return r;
}

static void begin_sums(struct summary *s)
{
    kymo_buf_reset(&s->text);
    s->n_binds = 0;
}

static bool has_instructions(const struct summary *s)
{
    return wanted(s, SERVE_KIND_instruction) || (s->box && s->of_kind[SERVE_KIND_instruction_split]);
}

static int rows_of(struct summary *s, int built, size_t max, json_t **ret, struct kymo_err *err)
{
    if (built < 0)
        return kymo_err_set(err, built, "no memory for a statement");
    return sql_objects(serve_sql_of(s->q), (const char *)s->text.data, s->binds, s->n_binds, max, ret, NULL, err);
}

static int busy_of_rows(struct summary *s, int built, struct busy *ret, struct kymo_err *err)
{
    if (built < 0)
        return kymo_err_set(err, built, "no memory for a statement");
    return op_busy_read(s->q, (const char *)s->text.data, s->binds, s->n_binds, false, ret, err);
}

static void put(json_t *o, const char *name, json_t *value)
{
    (void)json_object_set_new(o, name, value);
}

static json_t *percent(double part, double whole)
{
    return whole > 0 ? json_real(100 * part / whole) : json_null();
}

static double duration(const struct summary *s)
{
    return (double)(s->w.to - s->w.from);
}

static void put_active(const struct summary *s, json_t *row, int64_t ns)
{
    put(row, "active_ns", json_integer(ns));
    put(row, "active_percent", percent((double)ns, duration(s)));
}

/* Instructions */

#define SUM(name) ", sum(" name ")::BIGINT"
#define BEGUN(name) ", CASE WHEN start_ts >= $1 THEN " name " END AS " name
#define SUMMED(name) ", " name
#define NAME(name) name,
static const char *const byte_columns[] = {ROLLUP_BYTES(NAME)};

#define COUNTED "($3 OR start_ts >= $1)"
#define BUCKETS "start_ts >= $1 AND start_ts < $2"
#define INSTRUCTIONS_FROM                                                                                              \
    "SELECT " SERVE_ENGINE " AS engine, pcore_idx AS pcore, coalesce(opcode, '') AS opcode, " SERVE_OPERATOR           \
    " AS operator, " COUNTED "::BIGINT AS instructions, " OP_PART " AS part, " OP_WAIT " AS wait, " OP_SHARE           \
    " * raw_flops AS hardware, " OP_SHARE " * flops_transpose AS moved" ROLLUP_BYTES(BEGUN) " FROM @row_"
#define INSTRUCTION_SUMS                                                                                               \
    "SELECT engine, pcore_idx AS pcore, opcode, coalesce(operator, '') AS operator, event_count AS instructions,"      \
    " time_ns AS part, wait_ns AS wait, raw_flops AS hardware, flops_transpose AS moved" ROLLUP_BYTES(                 \
        SUMMED) " FROM k.\"WindowSums\" WHERE kind = 'operation' AND " BUCKETS

static int keep_group(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    return rollup_add(ctx, c, err);
}

/* One pass for all that is told of instructions. */
static int read_instructions(struct summary *s, struct rollup *ret, struct kymo_err *err)
{
    static const struct source sources[] = {
        {SERVE_KIND_instruction, INSTRUCTIONS_FROM "instruction WHERE " OP_INSIDE, INSTRUCTION_SUMS, "timeline_track"},
        {SERVE_KIND_instruction_split, INSTRUCTIONS_FROM "instruction_split WHERE " OP_INSIDE, INSTRUCTION_SUMS,
         "split_track"}};
    struct op_parts p;
    const char *between = "WITH i AS (";
    int r = 0;
    op_parts_make(s->dir, SERVE_SUMS_INSTRUCTIONS, &s->w, &p);
    begin_sums(s);
    for (size_t i = 0; i < 2 && r == 0; i++)
        if (s->box ? s->of_kind[sources[i].kind] > 0 : i == 0)
            r = add_source(s, &p, &sources[i], &between);
    if (r == 0)
        r = kymo_buf_printf(&s->text, "%s",
                            ") SELECT engine, pcore, opcode, operator, sum(instructions)::BIGINT, sum(part)::BIGINT,"
                            " sum(wait)::BIGINT" ROLLUP_BYTES(SUM) ", sum(hardware)::DOUBLE, sum(moved)::DOUBLE FROM i"
                                                                   " GROUP BY engine, pcore, opcode, operator");
    return r < 0 ? kymo_err_set(err, r, "no memory for a statement")
                 : sql_run(serve_sql_of(s->q), (const char *)s->text.data, s->binds, s->n_binds, keep_group, ret, err);
}

static json_t *field(const json_t *row, const char *name)
{
    json_t *value = json_object_get(row, name);
    return value ? json_incref(value) : json_null();
}

static void put_flops(const struct summary *s, json_t *o, const json_t *row, bool transposes)
{
    double all = json_number_value(json_object_get(row, "hardware_flops")),
           moved = json_number_value(json_object_get(row, "transpose_flops")), could = s->dir->peak * duration(s);
    bool known = json_is_integer(json_object_get(row, "hardware_flops"));
    put(o, "hardware_flops", field(row, "hardware_flops"));
    if (transposes)
        put(o, "transpose_flops", field(row, "transpose_flops"));
    put(o, "mfu_percent", known ? percent(all - moved, could) : json_null());
    put(o, "hfu_percent", known ? percent(all, could) : json_null());
}

static json_t *copy(const json_t *row, const char *const *names, size_t n)
{
    json_t *o = json_object();
    for (size_t i = 0; i < n; i++)
        put(o, names[i], field(row, names[i]));
    return o;
}

static void put_totals(struct summary *s, const json_t *row)
{
    json_t *flops = json_object();
    put(s->answer, "instructions", field(row, "instructions"));
    put_flops(s, flops, row, true);
    put(s->answer, "flops", flops);
    put(s->answer, "memory", copy(row, byte_columns, sizeof byte_columns / sizeof *byte_columns));
}

static bool is_chosen(const struct summary *s, const struct serve_track *t)
{
    for (size_t i = 0; i < s->n_chosen; i++)
        if (s->chosen[i] == t)
            return true;
    return false;
}

/* Whether a box has all that an engine does, on its tracks joined or apart. The matrix track stands in both. */
static bool has_engine(const struct summary *s, const struct serve_track *of)
{
    bool joined = true, apart = s->dir->has_split;
    for (size_t i = 0; i < s->dir->n_tracks; i++) {
        const struct serve_track *t = &s->dir->tracks[i];
        bool mine = t->engine && of->engine && !strcmp(t->engine, of->engine) && t->pcore == of->pcore;
        if (!mine || !t->events || is_chosen(s, t))
            continue;
        joined &= t->kind != SERVE_KIND_instruction;
        apart &= t->kind != SERVE_KIND_instruction_split && t->split;
    }
    return joined || apart;
}

static bool has_whole_engines(const struct summary *s)
{
    for (size_t i = 0; i < s->n_chosen; i++)
        if ((s->chosen[i]->kind == SERVE_KIND_instruction || s->chosen[i]->kind == SERVE_KIND_instruction_split) &&
            !has_engine(s, s->chosen[i]))
            return false;
    return true;
}

/* ActiveTime has what an engine's instructions cover, merged already; boxes may have a part of an engine only. */
static int read_active(struct summary *s, struct op_active *active, struct kymo_err *err)
{
    static const char of_engines[] =
        "SELECT " SERVE_ENGINE " || ' ' || coalesce(pcore_idx, -1), start_ts, start_ts, end_ts FROM"
        " @ActiveTime WHERE " OP_INSIDE,
                      sums[] = "SELECT engine || ' ' || pcore_idx, sum(busy_ns)::BIGINT FROM k.\"WindowSums\" WHERE"
                               " kind = 'engine' AND " BUCKETS " GROUP BY ALL";
    struct op_parts p = {.n = 1, .pieces = {op_piece_make(s->dir, s->w.from, s->w.to, true)}};
    if (op_has_table(s->q, "ActiveTime") && has_whole_engines(s)) {
        op_parts_make(s->dir, SERVE_SUMS_INSTRUCTIONS, &s->w, &p);
        int r = op_active_open(&p, active, err);
        return r < 0 ? r : op_active_read(s->q, &p, of_engines, sums, NULL, 0, active, err);
    }
    int r = op_active_open(&p, active, err);
    bool split = s->of_kind[SERVE_KIND_instruction_split];
    const struct op_covered c = {split ? SERVE_KIND_instruction_split : SERVE_KIND_instruction, s->chosen, s->n_chosen,
                                 OP_COVERED_ENGINE};
    if (r < 0)
        return r;
    if (s->box && split != (s->of_kind[SERVE_KIND_instruction] > 0) && serve_own_has_events(s->dir, c.kind))
        return op_covered_read(s->q, &c, &p, active, err);
    begin(s);
    r = kymo_buf_printf(&s->text, "%s",
                        "SELECT " SERVE_ENGINE " || ' ' || coalesce(pcore_idx, -1), start_ts, " OP_BEGIN
                        ", end_ts FROM ");
    return busy_of_rows(s, r < 0 ? r : add_instructions(s), active->pieces[0], err);
}

static json_t *engine_json(struct summary *s, struct op_active *active, const json_t *row)
{
    static const char *const names[] = {"engine", "pcore", "instructions", "time_ns"};
    char key[128];
    const json_t *pcore = json_object_get(row, "pcore");
    json_t *o = copy(row, names, sizeof names / sizeof *names);
    int n = snprintf(key, sizeof key, "%.100s %lld", json_string_value(json_object_get(row, "engine")),
                     json_is_integer(pcore) ? (long long)json_integer_value(pcore) : -1LL);
    put_active(s, o, op_active_of(active, key, (size_t)n));
    put(o, "wait_ns", field(row, "wait_ns"));
    put_flops(s, o, row, false);
    return o;
}

static void put_copies(struct summary *s, const char *name, json_t *rows, const char *const *fields, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++)
        (void)json_array_append_new(list, copy(json_array_get(rows, i), fields, n));
    put(s->answer, name, list);
    json_decref(rows);
}

static void put_rolled_up(struct summary *s, struct rollup *sums, struct op_active *active)
{
    static const char *const opcode[] = {"engine", "opcode", "instructions", "time_ns"};
    static const char *const operator[] = {"operator", "instructions", "time_ns"};
    json_t *engines = json_array(), *rows = rollup_rows(sums, ROLLUP_ENGINE, ROWS_MAX);
    for (size_t i = 0; i < json_array_size(rows); i++)
        (void)json_array_append_new(engines, engine_json(s, active, json_array_get(rows, i)));
    json_decref(rows);
    put(s->answer, "engines", engines);
    put_copies(s, "opcodes", rollup_rows(sums, ROLLUP_OPCODE, TOP), opcode, 4);
    put_copies(s, "operators", rollup_rows(sums, ROLLUP_OPERATOR, TOP), operator, 3);
    rows = rollup_rows(sums, ROLLUP_ALL, 1);
    put_totals(s, json_array_get(rows, 0));
    json_decref(rows);
}

static int put_instructions(struct summary *s, struct kymo_err *err)
{
    struct op_active active KYMO_CLEANUP(op_active_done) = {0};
    struct rollup *sums KYMO_CLEANUP(rollup_freep) = rollup_new();
    int r = sums ? read_instructions(s, sums, err) : kymo_err_set(err, -ENOMEM, "no memory for a summary");
    if (r == 0)
        r = read_active(s, &active, err);
    if (r == 0)
        put_rolled_up(s, sums, &active);
    return r;
}

/* Why they waited. Of a box, those of its tracks; WaitCause names instructions alone. */
#define WAITS_FROM                                                                                                     \
    "SELECT dependency_type, " COUNTED "::BIGINT AS count, " OP_PART " AS wait_ns, CASE WHEN start_ts >= $1 THEN "     \
    "cost_ns END AS cost_ns FROM "
#define WAIT_SUMS                                                                                                      \
    "SELECT dependency_type, event_count AS count, wait_ns, CASE WHEN event_count > 0 THEN cost_ns END AS cost_ns "    \
    "FROM k.\"WaitSums\" WHERE " BUCKETS
#define WAITS_ON(kind)                                                                                                 \
    WAITS_FROM "(SELECT w.*, i.track FROM @WaitCause w, @row_" kind " i WHERE w.instruction_id = i.id AND"             \
               " w.start_ts < $2 AND w.end_ts >= $1 AND i.start_ts < $2 AND i.end_ts >= $1) WHERE " OP_INSIDE

/* A box of both kinds of tracks counts no wait twice. */
static int add_waits_of_both(struct summary *s)
{
    begin(s);
    int r =
        kymo_buf_printf(&s->text, "SELECT dependency_type, count(*) AS count, sum(" OP_PART
                                  ")::BIGINT AS wait_ns, sum(cost_ns) FILTER (start_ts >= $1)::BIGINT AS cost_ns"
                                  " FROM k.\"WaitCause\" WHERE " OP_INSIDE " AND instruction_id IN (SELECT id FROM ");
    if (r == 0)
        r = add_instructions(s);
    return r < 0 ? r : kymo_buf_printf(&s->text, ")");
}

static int add_waits(struct summary *s)
{
    static const struct source all = {SERVE_KIND_instruction, WAITS_FROM "@WaitCause WHERE " OP_INSIDE, WAIT_SUMS, ""},
                               joined = {SERVE_KIND_instruction, WAITS_ON("instruction"), WAIT_SUMS, "timeline_track"},
                               split = {SERVE_KIND_instruction_split, WAITS_ON("instruction_split"), WAIT_SUMS,
                                        "split_track"};
    struct op_parts p;
    const char *between = "";
    op_parts_make(s->dir, SERVE_SUMS_WAITS, &s->w, &p);
    begin_sums(s);
    int r = kymo_buf_printf(&s->text, "SELECT dependency_type, sum(count)::BIGINT AS count, sum(wait_ns)::BIGINT AS"
                                      " wait_ns, sum(cost_ns)::BIGINT AS cost_ns FROM (");
    if (r == 0)
        r = add_source(s, &p, !s->box ? &all : s->of_kind[SERVE_KIND_instruction] ? &joined : &split, &between);
    return r < 0 ? r : kymo_buf_printf(&s->text, ")");
}

static int put_waits(struct summary *s, struct kymo_err *err)
{
    json_t *rows;
    bool both = s->of_kind[SERVE_KIND_instruction] && s->of_kind[SERVE_KIND_instruction_split];
    int r = both ? add_waits_of_both(s) : add_waits(s);
    if (r == 0)
        r = kymo_buf_printf(&s->text, " GROUP BY dependency_type ORDER BY wait_ns DESC, dependency_type");
    r = rows_of(s, r, ROWS_MAX, &rows, err);
    if (r == 0)
        put(s->answer, "waits", rows);
    return r;
}

/* Everything else */

#define BEGUN_BYTES "CASE WHEN start_ts >= $1 THEN transfer_bytes END AS bytes"
#define SUMS_OF(kind) " FROM k.\"WindowSums\" WHERE kind = '" kind "' AND " BUCKETS

static const struct part {
    const char *name;
    enum serve_sums sums;
    struct source source;
    bool single;             /* one row, not a list */
    const char *head, *tail; /* around the source's rows */
} parts[] = {
    {"queues",
     SERVE_SUMS_TRANSFERS,
     {SERVE_KIND_dma_transfer,
      "SELECT queue_name AS queue, pcore_idx AS pcore, " COUNTED "::BIGINT AS transfers, " BEGUN_BYTES ", " OP_PART
      " AS time_ns FROM @row_dma_transfer WHERE " OP_INSIDE,
      "SELECT queue_name AS queue, pcore_idx AS pcore, event_count AS transfers, transfer_bytes AS bytes, "
      "time_ns" SUMS_OF("dma_transfer"),
      "timeline_track"},
     false,
     "SELECT queue, pcore, sum(transfers)::BIGINT AS transfers, coalesce(sum(bytes), 0)::BIGINT AS transfer_bytes,"
     " sum(time_ns)::BIGINT AS time_ns FROM (",
     ") GROUP BY queue, pcore ORDER BY time_ns DESC, queue, pcore LIMIT " TOP_TEXT},
    {"host_dma",
     SERVE_SUMS_HOST,
     {SERVE_KIND_host_dma,
      "SELECT " COUNTED "::BIGINT AS transfers, " BEGUN_BYTES " FROM @row_host_dma WHERE " OP_INSIDE,
      "SELECT event_count AS transfers, transfer_bytes AS bytes" SUMS_OF("host_dma"), "timeline_track"},
     true,
     "SELECT coalesce(sum(transfers), 0)::BIGINT AS transfers, coalesce(sum(bytes), 0)::BIGINT AS transfer_bytes FROM "
     "(",
     ")"},
    {"collectives",
     SERVE_SUMS_MAX,
     {SERVE_KIND_collective,
      "SELECT operation, " OP_PART " AS time_ns, CASE WHEN start_ts >= $1 THEN greatest(coalesce(input_size, 0),"
      " coalesce(output_size, 0)) END AS bytes FROM k.row_collective WHERE " OP_INSIDE,
      NULL, NULL},
     false,
     "SELECT operation, count(*) AS count, sum(time_ns)::BIGINT AS time_ns, sum(bytes)::BIGINT AS bytes FROM (",
     ") GROUP BY operation ORDER BY time_ns DESC, operation"},
};

static void put_rate(const struct summary *s, json_t *o, const char *bytes)
{
    put(o, "bytes_per_second", json_real(json_number_value(json_object_get(o, bytes)) * 1e9 / duration(s)));
}

/* Rows of a statement over a source, between head and tail. */
static int rows_of_source(struct summary *s, enum serve_sums sums, const struct source *source, const char *head,
                          const char *tail, size_t max, json_t **ret, struct kymo_err *err)
{
    struct op_parts p;
    const char *between = "";
    op_parts_make(s->dir, sums, &s->w, &p);
    begin_sums(s);
    int r = kymo_buf_printf(&s->text, "%s", head);
    if (r == 0)
        r = add_source(s, &p, source, &between);
    if (r == 0)
        r = kymo_buf_printf(&s->text, "%s", tail);
    return rows_of(s, r, max, ret, err);
}

static int put_part(struct summary *s, const struct part *p, struct kymo_err *err)
{
    json_t *rows;
    int r = rows_of_source(s, p->sums, &p->source, p->head, p->tail, ROWS_MAX, &rows, err);
    if (r < 0)
        return r;
    rows = p->single ? op_first(rows) : rows;
    if (p->single)
        put_rate(s, rows, "transfer_bytes");
    put(s->answer, p->name, rows);
    return 0;
}

/* A statement with its tracks, unless these are all of their kind; the first three values are the ends of parts. */
static int make_tracked(struct summary *s, const struct op_covered *c, const char *text, const char *column,
                        const char *tail)
{
    kymo_buf_reset(&s->text);
    s->n_binds = 3;
    int r = kymo_buf_printf(&s->text, "%s", text);
    if (r == 0 && c->tracks)
        r = add_tracks(s, c->kind, column);
    return r < 0 ? r : kymo_buf_printf(&s->text, "%s", tail);
}

/* Other people's events that tracks of a kind show. */
static int read_foreign(struct summary *s, const struct op_covered *c, const struct op_parts *p, const char *events,
                        struct op_active *ret, struct kymo_err *err)
{
    int r = make_tracked(s, c, events, "track", "");
    return r < 0 ? kymo_err_set(err, r, "no memory for a statement")
                 : op_active_events(s->q, p, (const char *)s->text.data, s->binds + 3, s->n_binds - 3, false, ret, err);
}

/*
 * What tracks of a kind cover, by key: events and sums are statements up to their WHERE, sums NULL where none say it.
 */
static int read_covered(struct summary *s, const struct op_covered *c, enum serve_sums group, const char *events,
                        const char *sums, struct op_active *ret, struct kymo_err *err)
{
    struct op_parts p;
    op_parts_make(s->dir, sums ? group : SERVE_SUMS_MAX, &s->w, &p);
    int r = op_active_open(&p, ret, err);
    if (r == 0)
        r = serve_own_has_events(s->dir, c->kind) ? op_covered_read(s->q, c, &p, ret, err)
                                                  : read_foreign(s, c, &p, events, ret, err);
    if (r < 0 || !sums)
        return r;
    r = make_tracked(s, c, sums, "timeline_track", " GROUP BY ALL");
    return r < 0 ? kymo_err_set(err, r, "no memory for a statement")
                 : op_active_sums(s->q, &p, (const char *)s->text.data, s->binds + 3, s->n_binds - 3, ret, err);
}

static bool has_all(const struct summary *s, enum serve_kind kind)
{
    for (size_t i = 0; s->box && i < s->dir->n_tracks; i++)
        if (s->dir->tracks[i].kind == kind && s->dir->tracks[i].events && !is_chosen(s, &s->dir->tracks[i]))
            return false;
    return true;
}

/* Time in which any packet of the chosen tracks runs. The sums know it of all packets, and of one track. */
static int read_dma_active(struct summary *s, enum serve_kind kind, struct op_active *ret, struct kymo_err *err)
{
    static const char all[] = "SELECT '', sum(busy_ns)::BIGINT" SUMS_OF("dma");
    char events[256], one[256];
    struct op_covered c = {kind, s->chosen, s->n_chosen, OP_COVERED_ALL};
    bool whole = has_all(s, kind);
    if (whole)
        c.tracks = NULL;
    (void)snprintf(events, sizeof events, "SELECT '', start_ts, start_ts, end_ts FROM @row_%s WHERE %s",
                   serve_kinds[kind].name, OP_INSIDE);
    (void)snprintf(one, sizeof one, "SELECT '', sum(busy_ns)::BIGINT FROM k.\"WindowSums\" WHERE kind = '%s' AND %s",
                   serve_kinds[kind].name, BUCKETS);
    return read_covered(s, &c, SERVE_SUMS_PACKETS, events, whole ? all : s->of_kind[kind] == 1 ? one : NULL, ret, err);
}

/* Packets of the engines' tracks, or of the queues' where a box has these. */
static int put_dma(struct summary *s, struct kymo_err *err)
{
#define PACKETS_FROM                                                                                                   \
    "SELECT " COUNTED "::BIGINT AS packets, " BEGUN_BYTES ", CASE WHEN " COUNTED                                       \
    " THEN transfer_bytes END AS all_bytes,"                                                                           \
    " CASE WHEN " COUNTED " AND transfer_bytes IS NOT NULL THEN 1 END AS sized FROM @row_"
#define PACKET_SUMS(kind)                                                                                              \
    "SELECT event_count AS packets, transfer_bytes AS bytes, transfer_bytes AS all_bytes, event_count AS "             \
    "sized" SUMS_OF(kind)
    static const struct source engines = {SERVE_KIND_dma_engine, PACKETS_FROM "dma_engine WHERE " OP_INSIDE,
                                          PACKET_SUMS("dma_engine"), "timeline_track"},
                               queues = {SERVE_KIND_dma_queue, PACKETS_FROM "dma_queue WHERE " OP_INSIDE,
                                         PACKET_SUMS("dma_queue"), "timeline_track"};
    const struct source *source = s->box && !s->of_kind[SERVE_KIND_dma_engine] ? &queues : &engines;
    struct op_active active KYMO_CLEANUP(op_active_done) = {0};
    json_t *rows = NULL;
    int r = rows_of_source(s, SERVE_SUMS_PACKETS, source,
                           "SELECT coalesce(sum(packets), 0)::BIGINT AS packets, coalesce(sum(bytes), 0)::BIGINT AS"
                           " packet_bytes, sum(all_bytes)::DOUBLE / sum(sized) AS average_packet_bytes FROM (",
                           ")", 1, &rows, err);
    if (r < 0)
        return r;
    json_t *dma = op_first(rows);
    put_rate(s, dma, "packet_bytes");
    r = read_dma_active(s, source->kind, &active, err);
    if (r == 0)
        put_active(s, dma, op_active_of(&active, "", 0));
    put(s->answer, "dma", dma);
    return r;
}

static int put_throttling(struct summary *s, struct kymo_err *err)
{
    static const char text[] =
        "SELECT type, pcore_idx AS pcore, count(*) AS count, sum(" OP_PART
        ")::BIGINT AS time_ns FROM (SELECT *, timestamp AS start_ts, timestamp + duration AS end_ts FROM"
        " k.\"Throttle\") WHERE " OP_INSIDE " GROUP BY type, pcore_idx ORDER BY type, pcore_idx";
    json_t *rows = NULL;
    begin(s);
    int r =
        op_has_table(s->q, "Throttle") ? rows_of(s, kymo_buf_printf(&s->text, "%s", text), ROWS_MAX, &rows, err) : 0;
    if (r == 0)
        put(s->answer, "throttling", rows ? rows : json_array());
    return r;
}

static int put_errors(struct summary *s, struct kymo_err *err)
{
    int64_t errors = 0;
    begin(s);
    int r = op_has_table(s->q, "Error")
                ? sql_numbers(serve_sql_of(s->q),
                              "SELECT count(*) FROM k.\"Error\" WHERE timestamp >= $1 AND timestamp < $2", s->binds, 2,
                              &errors, 1, err)
                : 0;
    put(s->answer, "errors", json_integer(errors));
    return r;
}

/* The tracks of a box, one by one */

/* Where the tables of sums have the tracks of a kind; of instructions they are told with what these do. */
static const struct track_sums {
    enum serve_sums group;
    const char *events, *busy; /* kinds of rows */
    const char *column, *bytes;
} track_sums[SERVE_KIND_MAX] = {
    [SERVE_KIND_instruction] = {SERVE_SUMS_INSTRUCTIONS, "operation", "instruction", "timeline_track", "0"},
    [SERVE_KIND_instruction_split] = {SERVE_SUMS_INSTRUCTIONS, "operation", "instruction_split", "split_track", "0"},
    [SERVE_KIND_dma_engine] = {SERVE_SUMS_PACKETS, "dma_engine", "dma_engine", "timeline_track", "transfer_bytes"},
    [SERVE_KIND_dma_queue] = {SERVE_SUMS_PACKETS, "dma_queue", "dma_queue", "timeline_track", "transfer_bytes"},
    [SERVE_KIND_dma_transfer] = {SERVE_SUMS_TRANSFERS, "dma_transfer", "dma_transfer", "timeline_track",
                                 "transfer_bytes"},
    [SERVE_KIND_host_dma] = {SERVE_SUMS_HOST, "host_dma", "host_dma", "timeline_track", "transfer_bytes"},
};

static int read_tracks(struct summary *s, enum serve_kind kind, json_t **ret, struct kymo_err *err)
{
    const struct track_sums *t = &track_sums[kind];
    char events[512], sums[512];
    (void)snprintf(events, sizeof events,
                   "SELECT track, %s::BIGINT AS events, %s AS time_ns, CASE WHEN start_ts >= $1 THEN bytes END AS bytes"
                   " FROM @src_%s WHERE %s",
                   COUNTED, OP_PART, serve_kinds[kind].name, OP_INSIDE);
    (void)snprintf(sums, sizeof sums,
                   "SELECT %s AS track, event_count AS events, time_ns, CASE WHEN event_count > 0 THEN %s END AS bytes"
                   " FROM k.\"WindowSums\" WHERE kind = '%s' AND %s",
                   t->column ? t->column : "", t->bytes ? t->bytes : "", t->events ? t->events : "", BUCKETS);
    const struct source source = {kind, events, sums, t->column};
    return rows_of_source(s, t->column ? t->group : SERVE_SUMS_MAX, &source,
                          "SELECT track, sum(events)::BIGINT AS events, sum(time_ns)::BIGINT AS time_ns,"
                          " sum(bytes)::BIGINT AS bytes FROM (",
                          ") GROUP BY track ORDER BY track", SERVE_TRACKS_MAX, ret, err);
}

static int put_tracks_of(struct summary *s, enum serve_kind kind, json_t *list, json_int_t *events,
                         struct kymo_err *err)
{
    const struct track_sums *t = &track_sums[kind];
    struct op_active active KYMO_CLEANUP(op_active_done) = {0};
    char texts[2][256];
    json_t *rows = NULL;
    int r = read_tracks(s, kind, &rows, err);
    if (r < 0)
        return r;
    (void)snprintf(texts[0], sizeof texts[0],
                   "SELECT track, start_ts, least(start_ts + wait, end_ts), end_ts FROM @src_%s WHERE %s",
                   serve_kinds[kind].name, OP_INSIDE);
    (void)snprintf(texts[1], sizeof texts[1],
                   "SELECT timeline_track, sum(busy_ns)::BIGINT FROM k.\"WindowSums\" WHERE kind = '%s' AND %s",
                   t->busy ? t->busy : "", BUCKETS);
    const struct op_covered c = {kind, s->chosen, s->n_chosen, OP_COVERED_TRACK};
    r = read_covered(s, &c, t->group, texts[0], t->busy ? texts[1] : NULL, &active, err);
    for (size_t i = 0; r == 0 && i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i), *track = json_object_get(row, "track");
        put_active(s, row, op_active_of(&active, json_string_value(track), json_string_length(track)));
        *events += json_integer_value(json_object_get(row, "events"));
    }
    (void)json_array_extend(list, rows);
    json_decref(rows);
    return r;
}

static int put_tracks(struct summary *s, struct kymo_err *err)
{
    json_t *list = json_array();
    json_int_t events = 0;
    int r = 0;
    for (int kind = 0; kind < SERVE_KIND_MAX && r == 0; kind++)
        if (s->of_kind[kind])
            r = put_tracks_of(s, (enum serve_kind)kind, list, &events, err);
    put(s->answer, "events", json_integer(events));
    put(s->answer, "tracks", list);
    return r;
}

static int make(struct summary *s, struct kymo_err *err)
{
    put(s->answer, "from", json_integer(s->w.from));
    put(s->answer, "to", json_integer(s->w.to));
    put(s->answer, "duration_ns", json_integer(s->w.to - s->w.from));
    put(s->answer, "instructions", json_integer(0));
    int r = s->box ? put_tracks(s, err) : 0;
    if (r == 0 && has_instructions(s))
        r = put_instructions(s, err);
    if (r == 0 && has_instructions(s) && op_has_table(s->q, "WaitCause"))
        r = put_waits(s, err);
    if (r == 0 && (wanted(s, SERVE_KIND_dma_engine) || (s->box && s->of_kind[SERVE_KIND_dma_queue])))
        r = put_dma(s, err);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && r == 0; i++)
        if (wanted(s, parts[i].source.kind))
            r = put_part(s, &parts[i], err);
    if (r == 0 && !s->box)
        r = put_throttling(s, err);
    return r == 0 && !s->box ? put_errors(s, err) : r;
}

int op_summary(struct serve_request *q, struct kymo_err *err)
{
    struct summary s = {.q = q, .dir = serve_dir_of(q), .answer = json_object()};
    kymo_buf_init(&s.text, SQL_MAX);
    int r = op_window_read(q, false, &s.w, err);
    if (r == 0)
        r = choose(&s, err);
    if (r == 0)
        r = make(&s, err);
    if (r == 0)
        r = serve_answer_json(q, s.answer, err);
    else
        json_decref(s.answer);
    kymo_buf_done(&s.text);
    kymo_free(s.binds);
    kymo_free(s.chosen);
    return r;
}
