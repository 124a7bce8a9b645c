/* Figures of a window, or of a box: of some tracks in a window. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/op_common.h"
#include "collector/query/serve_ops.h"
#include "collector/query/serve_tracks.h"

#define SQL_MAX (4u << 20)
#define ROWS_MAX 2000
#define TOP "20" /* of queues, opcodes, operators: those with the most time */

/* Sets of columns that instructions are grouped by, as grouping() numbers them. */
enum set { SET_ENGINE = 3, SET_OPCODE = 5, SET_OPERATOR = 14, SET_ALL = 15 };

struct summary {
    struct serve_request *q;
    const struct serve_dir *dir;
    struct op_window w;
    double peak;
    json_t *answer;
    bool box;
    const struct serve_track **chosen;
    size_t n_chosen;
    size_t of_kind[SERVE_KIND_MAX]; /* how many are chosen */
    struct sql_bind *binds;
    size_t n_binds;
    struct kymo_buf text;
};

static int choose(struct summary *s, struct kymo_err *err)
{
    const char *tracks = serve_question_text(serve_question_of(s->q), "tracks");
    s->box = tracks != NULL;
    s->chosen = KYMO_NEW_ARRAY(const struct serve_track *, s->dir->n_tracks + 1);
    s->binds = KYMO_NEW_ARRAY(struct sql_bind, 2 * s->dir->n_tracks + 2);
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

/* The condition of events of this kind, behind WHERE. */
static int add_condition(struct summary *s, enum serve_kind kind)
{
    int r = kymo_buf_printf(&s->text, "%s%s", OP_INSIDE, s->box ? " AND track IN (NULL" : "");
    for (size_t i = 0; i < s->n_chosen && r == 0; i++) {
        if (s->chosen[i]->kind != kind)
            continue;
        s->binds[s->n_binds++] = SQL_TEXT(s->chosen[i]->label);
        r = kymo_buf_printf(&s->text, ", $%zu", s->n_binds);
    }
    return r == 0 && s->box ? kymo_buf_printf(&s->text, ")") : r;
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
    return op_busy_read(s->q, (const char *)s->text.data, s->binds, s->n_binds, ret, err);
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

#define COPIED(name) ", sum(" name ")::BIGINT AS " name
#define BYTES(X)                                                                                                       \
    X("hbm_read_bytes")                                                                                                \
    X("hbm_write_bytes")                                                                                               \
    X("sbuf_read_bytes")                                                                                               \
    X("sbuf_write_bytes")                                                                                              \
    X("psum_read_bytes")                                                                                               \
    X("psum_write_bytes")                                                                                              \
    X("spill_save_bytes")                                                                                              \
    X("spill_reload_bytes")
#define BEGUN(name) ", CASE WHEN start_ts >= $1 THEN " name " END AS " name
#define NAME(name) name,
static const char *const byte_columns[] = {BYTES(NAME)};

/* One pass over the table for all that is told of instructions. */
static int read_instructions(struct summary *s, json_t **ret, struct kymo_err *err)
{
    begin(s);
    int r = kymo_buf_printf(&s->text, "%s",
                            "WITH i AS (SELECT " SERVE_ENGINE " AS engine, pcore_idx AS pcore, coalesce(opcode, '') AS"
                            " opcode, " SERVE_OPERATOR " AS operator, " OP_PART " AS part, " OP_WAIT
                            " AS wait, " OP_SHARE " AS share, raw_flops, flops_transpose" BYTES(BEGUN) " FROM ");
    if (r == 0)
        r = add_instructions(s);
    if (r == 0)
        r = kymo_buf_printf(
            &s->text, "%s",
            "), g AS (SELECT grouping(engine, pcore, opcode, operator)::BIGINT AS kind, engine, pcore, opcode,"
            " operator, count(*) AS instructions, sum(part)::BIGINT AS time_ns, sum(wait)::BIGINT AS wait_ns,"
            " TRY_CAST(round(sum(share * raw_flops)) AS BIGINT) AS hardware_flops,"
            " TRY_CAST(round(sum(share * flops_transpose)) AS BIGINT) AS transpose_flops" BYTES(
                COPIED) " FROM i GROUP BY GROUPING SETS ((engine, pcore), (engine, opcode), (operator), ())) SELECT * "
                        "FROM g"
                        " QUALIFY kind IN (3, 15) OR row_number() OVER (PARTITION BY kind ORDER BY time_ns DESC, "
                        "engine, opcode,"
                        " operator) <= " TOP
                        " ORDER BY kind, CASE WHEN kind = 3 THEN pcore END, CASE WHEN kind <> 3 THEN -time_ns"
                        " END, engine, opcode, operator");
    return rows_of(s, r, ROWS_MAX, ret, err);
}

static json_t *field(const json_t *row, const char *name)
{
    json_t *value = json_object_get(row, name);
    return value ? json_incref(value) : json_null();
}

static void put_flops(const struct summary *s, json_t *o, const json_t *row, bool transposes)
{
    double all = json_number_value(json_object_get(row, "hardware_flops")),
           moved = json_number_value(json_object_get(row, "transpose_flops")), could = s->peak * duration(s);
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

static int put_totals(struct summary *s, const json_t *row)
{
    json_t *flops = json_object();
    put(s->answer, "instructions", field(row, "instructions"));
    put_flops(s, flops, row, true);
    put(s->answer, "flops", flops);
    put(s->answer, "memory", copy(row, byte_columns, sizeof byte_columns / sizeof *byte_columns));
    return 0;
}

/* ActiveTime has what an engine's instructions cover, merged already; boxes may have a part of an engine only. */
static int read_active(struct summary *s, struct busy *busy, struct kymo_err *err)
{
    int r;
    begin(s);
    if (!s->box && op_has_table(s->q, "ActiveTime")) {
        r = kymo_buf_printf(&s->text, "%s",
                            "SELECT " SERVE_ENGINE " || ' ' || coalesce(pcore_idx, -1), start_ts, start_ts, end_ts FROM"
                            " k.\"ActiveTime\" WHERE end_ts >= $1 AND start_ts < $2");
        return busy_of_rows(s, r, busy, err);
    }
    r = kymo_buf_printf(&s->text, "%s",
                        "SELECT " SERVE_ENGINE " || ' ' || coalesce(pcore_idx, -1), start_ts, " OP_BEGIN
                        ", end_ts FROM ");
    return busy_of_rows(s, r < 0 ? r : add_instructions(s), busy, err);
}

static int put_engine(struct summary *s, struct busy *busy, json_t *list, const json_t *row)
{
    static const char *const names[] = {"engine", "pcore", "instructions", "time_ns"};
    char key[128];
    const json_t *pcore = json_object_get(row, "pcore");
    json_t *o = copy(row, names, sizeof names / sizeof *names);
    int n = snprintf(key, sizeof key, "%.100s %lld", json_string_value(json_object_get(row, "engine")),
                     json_is_integer(pcore) ? (long long)json_integer_value(pcore) : -1LL);
    put_active(s, o, busy_of(busy, key, (size_t)n));
    put(o, "wait_ns", field(row, "wait_ns"));
    put_flops(s, o, row, false);
    return json_array_append_new(list, o);
}

static int put_instructions(struct summary *s, struct kymo_err *err)
{
    static const char *const opcode[] = {"engine", "opcode", "instructions", "time_ns"}, *const operator[] = {
                                                                                             "operator", "instructions",
                                                                                             "time_ns"};
    json_t *rows = NULL, *engines = json_array(), *opcodes = json_array(), *operators = json_array();
    struct busy *busy KYMO_CLEANUP(busy_freep) = busy_new(s->w.from, s->w.to);
    int r = busy ? read_instructions(s, &rows, err) : kymo_err_set(err, -ENOMEM, "no memory for a summary");
    if (r == 0)
        r = read_active(s, busy, err);
    for (size_t i = 0; r == 0 && i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        json_int_t set = json_integer_value(json_object_get(row, "kind"));
        int added = set == SET_ENGINE     ? put_engine(s, busy, engines, row)
                    : set == SET_OPCODE   ? json_array_append_new(opcodes, copy(row, opcode, 4))
                    : set == SET_OPERATOR ? json_array_append_new(operators, copy(row, operator, 3))
                                          : put_totals(s, row);
        if (added < 0)
            r = kymo_err_set(err, -ENOMEM, "no memory for a summary");
    }
    json_decref(rows);
    put(s->answer, "engines", engines);
    put(s->answer, "opcodes", opcodes);
    put(s->answer, "operators", operators);
    return r;
}

/* Why they waited. */
static int put_waits(struct summary *s, struct kymo_err *err)
{
    json_t *rows;
    begin(s);
    int r = kymo_buf_printf(
        &s->text, "%s",
        "SELECT dependency_type, count(*) AS count, sum(" OP_PART ")::BIGINT AS wait_ns,"
        " sum(cost_ns) FILTER (start_ts >= $1)::BIGINT AS cost_ns FROM k.\"WaitCause\" WHERE " OP_INSIDE);
    if (r == 0 && s->box) {
        r = kymo_buf_printf(&s->text, " AND instruction_id IN (SELECT id FROM ");
        if (r == 0)
            r = add_instructions(s);
        if (r == 0)
            r = kymo_buf_printf(&s->text, ")");
    }
    if (r == 0)
        r = kymo_buf_printf(&s->text, " GROUP BY dependency_type ORDER BY wait_ns DESC, dependency_type");
    r = rows_of(s, r, ROWS_MAX, &rows, err);
    if (r == 0)
        put(s->answer, "waits", rows);
    return r;
}

/* Everything else */

#define PER_SECOND(bytes) bytes " * 1e9 / ($2 - $1) AS bytes_per_second"
#define BEGUN_BYTES "coalesce(sum(transfer_bytes) FILTER (start_ts >= $1), 0)::BIGINT"

static const struct part {
    const char *name;
    enum serve_kind kind;
    bool single;             /* one row, not a list */
    const char *head, *tail; /* around the table and the condition */
} parts[] = {
    {"queues", SERVE_KIND_dma_transfer, false,
     "SELECT queue_name AS queue, pcore_idx AS pcore, count(*) AS transfers, " BEGUN_BYTES
     " AS transfer_bytes, sum(" OP_PART ")::BIGINT AS time_ns",
     " GROUP BY queue_name, pcore_idx ORDER BY time_ns DESC, queue, pcore LIMIT " TOP},
    {"host_dma", SERVE_KIND_host_dma, true,
     "SELECT count(*) AS transfers, " BEGUN_BYTES " AS transfer_bytes, " PER_SECOND(BEGUN_BYTES), ""},
    {"collectives", SERVE_KIND_collective, false,
     "SELECT operation, count(*) AS count, sum(" OP_PART ")::BIGINT AS time_ns, sum(greatest(coalesce(input_size, 0),"
     " coalesce(output_size, 0))) FILTER (start_ts >= $1)::BIGINT AS bytes",
     " GROUP BY operation ORDER BY time_ns DESC, operation"},
};

static int put_part(struct summary *s, const struct part *p, struct kymo_err *err)
{
    json_t *rows;
    begin(s);
    int r = kymo_buf_printf(&s->text, "%s FROM k.row_%s WHERE ", p->head, serve_kinds[p->kind].name);
    if (r == 0)
        r = add_condition(s, p->kind);
    if (r == 0)
        r = kymo_buf_printf(&s->text, "%s", p->tail);
    r = rows_of(s, r, ROWS_MAX, &rows, err);
    if (r == 0)
        put(s->answer, p->name, p->single ? op_first(rows) : rows);
    return r;
}

/* Packets of the engines' tracks, or of the queues' where a box has these. */
static int put_dma(struct summary *s, struct kymo_err *err)
{
    enum serve_kind kind = s->box && !s->of_kind[SERVE_KIND_dma_engine] ? SERVE_KIND_dma_queue : SERVE_KIND_dma_engine;
    struct busy *busy KYMO_CLEANUP(busy_freep) = busy_new(s->w.from, s->w.to);
    json_t *rows = NULL;
    if (!busy)
        return kymo_err_set(err, -ENOMEM, "no memory for a summary");
    begin(s);
    int r = kymo_buf_printf(&s->text,
                            "SELECT count(*) AS packets, %s AS packet_bytes, avg(transfer_bytes) AS"
                            " average_packet_bytes, %s FROM k.row_%s WHERE ",
                            BEGUN_BYTES, PER_SECOND(BEGUN_BYTES), serve_kinds[kind].name);
    r = rows_of(s, r < 0 ? r : add_condition(s, kind), 1, &rows, err);
    if (r < 0)
        return r;
    begin(s);
    r = kymo_buf_printf(&s->text, "SELECT '', start_ts, start_ts, end_ts FROM k.row_%s WHERE ", serve_kinds[kind].name);
    r = busy_of_rows(s, r < 0 ? r : add_condition(s, kind), busy, err);
    json_t *dma = op_first(rows);
    if (r == 0)
        put_active(s, dma, busy_of(busy, "", 0));
    put(s->answer, "dma", dma);
    return r;
}

static int put_whole(struct summary *s, struct kymo_err *err)
{
    static const char throttling[] =
        "SELECT type, pcore_idx AS pcore, count(*) AS count, sum(" OP_PART
        ")::BIGINT AS time_ns FROM (SELECT *, timestamp AS start_ts, timestamp + duration AS end_ts FROM"
        " k.\"Throttle\") WHERE " OP_INSIDE " GROUP BY type, pcore_idx ORDER BY type, pcore_idx";
    json_t *rows;
    int64_t errors;
    begin(s);
    int r = rows_of(s, kymo_buf_printf(&s->text, "%s", throttling), ROWS_MAX, &rows, err);
    if (r < 0)
        return r;
    put(s->answer, "throttling", rows);
    r = sql_numbers(serve_sql_of(s->q), "SELECT count(*) FROM k.\"Error\" WHERE timestamp >= $1 AND timestamp < $2",
                    s->binds, 2, &errors, 1, err);
    put(s->answer, "errors", json_integer(errors));
    return r;
}

/* The tracks of a box, one by one */

static int put_tracks_of(struct summary *s, enum serve_kind kind, json_t *list, json_int_t *events,
                         struct kymo_err *err)
{
    struct busy *busy KYMO_CLEANUP(busy_freep) = busy_new(s->w.from, s->w.to);
    json_t *rows = NULL;
    if (!busy)
        return kymo_err_set(err, -ENOMEM, "no memory for a summary");
    begin(s);
    int r = kymo_buf_printf(&s->text,
                            "SELECT track, count(*) AS events, sum(%s)::BIGINT AS time_ns, sum(bytes) FILTER (start_ts"
                            " >= $1)::BIGINT AS bytes FROM k.src_%s WHERE ",
                            OP_PART, serve_kinds[kind].name);
    if (r == 0)
        r = add_condition(s, kind);
    r = rows_of(s, r < 0 ? r : kymo_buf_printf(&s->text, " GROUP BY track ORDER BY track"), SERVE_TRACKS_MAX, &rows,
                err);
    if (r < 0)
        return r;
    begin(s);
    r = kymo_buf_printf(&s->text, "SELECT track, start_ts, least(start_ts + wait, end_ts), end_ts FROM k.src_%s WHERE ",
                        serve_kinds[kind].name);
    r = busy_of_rows(s, r < 0 ? r : add_condition(s, kind), busy, err);
    for (size_t i = 0; r == 0 && i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i), *track = json_object_get(row, "track");
        put_active(s, row, busy_of(busy, json_string_value(track), json_string_length(track)));
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
        if (wanted(s, parts[i].kind))
            r = put_part(s, &parts[i], err);
    return r == 0 && !s->box ? put_whole(s, err) : r;
}

int op_summary(struct serve_request *q, struct kymo_err *err)
{
    struct summary s = {.q = q, .dir = serve_dir_of(q), .answer = json_object()};
    kymo_buf_init(&s.text, SQL_MAX);
    int r = op_window_read(q, false, &s.w, err);
    if (r == 0)
        r = choose(&s, err);
    if (r == 0)
        r = op_peak_read(q, &s.peak, err);
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
