/* What an event waits for, and what waits for it: the edges of Flow around one row. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/op_common.h"
#include "collector/query/query_views.h"
#include "collector/query/serve_ops.h"
#include "collector/query/serve_own_edges.h"

#define EDGES_MAX 500
#define SQL_MAX (1u << 17)
#define EDGES_TEXT_MAX (1u << 20) /* beyond it, DuckDB looks for them */
#define ROWS_MAX 5000             /* of edges, before those of one pair become one */
#define PACKETS_MAX 4000          /* of linked transfers, on all their tracks */

/*
 * All edges of one row, both ways, with the row at the other end. $1: its table in Flow, $2: its key. Of several edges
 * of a pair the first in order of rank is shown. The lookups read both columns of Flow, which has no order.
 */
static const char
    edges_text[] =
        "SELECT 'out' AS direction, out_table AS t, out_id AS id, dependency_type AS kind, gap_time AS gap_ns FROM"
        " k.\"Flow\" WHERE in_id = $2 AND in_table = $1 UNION ALL SELECT 'in', in_table, in_id, dependency_type, "
        "gap_time "
        "FROM k.\"Flow\" WHERE out_id = $2 AND out_table = $1",
    no_edge[] = "SELECT '', '', 0, '', 0 WHERE false",
    rest_text[] =
        "), r AS (SELECT e.*, CASE kind WHEN 'FLOW_DEPENDENCE' THEN 0 WHEN"
        " 'ANTI_DEPENDENCE' THEN 1 WHEN 'OUTPUT_DEPENDENCE' THEN 2 WHEN 'ORDERED_DEPENDENCE' THEN 3 WHEN 'SEMAPHORE' "
        "THEN "
        "4 WHEN"
        " 'DMA_WAIT' THEN 5 WHEN 'DMA_TRIGGER' THEN 6 WHEN 'SAME_PSUM_BANK' THEN 7 ELSE 3 END AS rank FROM e)"
        " , d AS (SELECT 'instruction' AS t, id, pc, engine, pcore_idx, start_ts, end_ts, opcode AS label, track FROM"
        " k.row_instruction WHERE id IN (SELECT id FROM e WHERE t = 'instruction') UNION ALL SELECT 'dma_block', id, "
        "NULL,"
        " NULL, pcore_idx, start_ts, end_ts, coalesce(nullif(variable, ''), queue_name), track FROM k.row_dma_transfer"
        " WHERE id IN (SELECT id FROM e WHERE t = 'dma_block') UNION ALL SELECT 'cc_op', id, NULL, NULL, NULL, "
        "start_ts,"
        " end_ts, operation, track FROM k.row_collective WHERE id IN (SELECT id FROM e WHERE t = 'cc_op')) SELECT"
        " r.direction, r.t AS flow, r.id, r.kind, r.gap_ns, r.rank, d.pc, d.engine, d.pcore_idx AS pcore, d.start_ts,"
        " d.end_ts, d.label, d.track FROM r LEFT JOIN d ON d.t = r.t AND d.id = r.id ORDER BY r.direction, d.start_ts, "
        "r.t,"
        " r.id, r.rank";

static int add_text(struct kymo_buf *b, const struct table_text *t)
{
    char *text KYMO_FREE = t->at ? kymo_strndup(t->at, t->n) : NULL;
    if (!t->at)
        return kymo_buf_printf(b, "NULL");
    return text ? query_views_quote(b, text, '\'') : -ENOMEM;
}

static int add_edge(void *ctx, const struct serve_own_edge *e, struct kymo_err *err)
{
    struct kymo_buf *b = ctx;
    int r = kymo_buf_printf(b, "%s('%s', ", b->len ? ", " : "VALUES ", e->out ? "out" : "in");
    if (r == 0)
        r = add_text(b, &e->table);
    if (r == 0)
        r = kymo_buf_printf(b, ", %" PRId64 ", ", e->id);
    if (r == 0)
        r = add_text(b, &e->kind);
    if (r == 0)
        r = e->gap == TABLE_NULL ? kymo_buf_printf(b, ", NULL)") : kymo_buf_printf(b, ", %" PRId64 ")", e->gap);
    return r < 0 ? kymo_err_set(err, r, "there are too many edges") : 0;
}

static int run_text(struct serve_request *q, const char *edges, const struct sql_bind *binds, size_t n, json_t **ret,
                    bool *truncated, struct kymo_err *err)
{
    char *text KYMO_FREE = kymo_asprintf("WITH e(direction, t, id, kind, gap_ns) AS (%s%s", edges, rest_text);
    return text ? sql_objects(serve_sql_of(q), text, binds, n, ROWS_MAX, ret, truncated, err)
                : kymo_err_set(err, -ENOMEM, "no memory for a statement");
}

static int read_edges(struct serve_request *q, const char *flow, int64_t id, json_t **ret, bool *truncated,
                      struct kymo_err *err)
{
    const struct sql_bind binds[] = {SQL_TEXT(flow), SQL_INT(id)};
    if (!serve_own_has_edges(serve_dir_of(q)))
        return run_text(q, edges_text, binds, 2, ret, truncated, err);
    struct kymo_buf b;
    struct kymo_err why = {0};
    kymo_buf_init(&b, EDGES_TEXT_MAX);
    int r = serve_own_edges(serve_dir_of(q), flow, id, serve_sql_of(q)->stop, add_edge, &b, &why);
    if (r == 0)
        r = run_text(q, b.len ? (const char *)b.data : no_edge, NULL, 0, ret, truncated, err);
    else if (r == -ENOBUFS)
        r = run_text(q, edges_text, binds, 2, ret, truncated, err);
    else if (err)
        *err = why;
    kymo_buf_done(&b);
    return r;
}

#define IDS(n) "(SELECT unnest(string_split($" #n ", ','))::BIGINT)"
static const char splits_text[] = "SELECT id, track FROM k.row_instruction_split WHERE id IN " IDS(1);
/* $2, $3: packets of these transfers begin in there. A packet is on a track of its engine and on one of its queue. */
#define PACKETS(kind)                                                                                                  \
    "SELECT packet_aggregation_id AS transfer, id, start_ts, end_ts, '" #kind "' AS kind, track FROM k.row_" #kind     \
    " WHERE start_ts >= $2 AND start_ts <= $3 AND packet_aggregation_id IN " IDS(1)
static const char packets_text[] = PACKETS(dma_engine) " UNION ALL " PACKETS(dma_queue) " ORDER BY start_ts, id, kind";

struct lists {
    json_t *predecessors, *successors, *transfers, *starters, *dependents, *previous, *next, *packets;
    bool truncated, packets_truncated;
};

static const char *text_of(const json_t *row, const char *key)
{
    const char *s = json_string_value(json_object_get(row, key));
    return s ? s : "";
}

static const char *table_of(const char *flow)
{
    return !strcmp(flow, "instruction") ? "Instruction" : !strcmp(flow, "cc_op") ? "CcOp" : "DmaPacketAggregated";
}

static enum serve_kind kind_of(const char *flow)
{
    return !strcmp(flow, "instruction") ? SERVE_KIND_instruction
           : !strcmp(flow, "cc_op")     ? SERVE_KIND_collective
                                        : SERVE_KIND_dma_transfer;
}

/* The id of the track of a kind that has this label, or null. */
static json_t *track_of(const struct serve_request *q, enum serve_kind kind, const json_t *label)
{
    const char *name = json_string_value(label);
    const struct serve_track *t =
        name ? op_track_labelled(serve_dir_of(q), kind, name, json_string_length(label)) : NULL;
    return t ? json_string(t->id) : json_null();
}

/* Keys of the rows of a table, joined by commas. */
static int join_ids(struct kymo_buf *b, const json_t *rows, const char *field, const char *value)
{
    int r = 0;
    for (size_t i = 0; i < json_array_size(rows) && r == 0; i++) {
        const json_t *row = json_array_get(rows, i);
        if (!strcmp(text_of(row, field), value))
            r = kymo_buf_printf(b, "%s%lld", b->len ? "," : "",
                                (long long)json_integer_value(json_object_get(row, "id")));
    }
    return r;
}

/* Labels of the tracks of sequencers and of compute, by the key of the instruction. */
static int read_splits(struct serve_request *q, const json_t *rows, json_t *ret, struct kymo_err *err)
{
    struct kymo_buf ids;
    json_t *list = NULL;
    kymo_buf_init(&ids, SQL_MAX);
    int r = serve_dir_of(q)->has_split ? join_ids(&ids, rows, "flow", "instruction") : 0;
    if (r < 0)
        r = kymo_err_set(err, r, "no memory for a statement");
    else if (ids.len)
        r = sql_objects(serve_sql_of(q), splits_text, (struct sql_bind[]){SQL_TEXT((const char *)ids.data)}, 1,
                        ROWS_MAX, &list, NULL, err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        char key[24];
        json_t *row = json_array_get(list, i);
        (void)snprintf(key, sizeof key, "%lld", (long long)json_integer_value(json_object_get(row, "id")));
        (void)json_object_set(ret, key, json_object_get(row, "track"));
    }
    json_decref(list);
    kymo_buf_done(&ids);
    return r;
}

/* Names of the tracks that show a row: the first is the one that the page shows by default. */
static void name_tracks(const struct serve_request *q, json_t *row, const json_t *splits)
{
    char key[24];
    const char *flow = text_of(row, "flow");
    json_t *tracks = json_array(), *track = track_of(q, kind_of(flow), json_object_get(row, "track"));
    (void)snprintf(key, sizeof key, "%lld", (long long)json_integer_value(json_object_get(row, "id")));
    if (json_is_string(track))
        (void)json_array_append(tracks, track);
    json_t *split = strcmp(flow, "instruction") != 0
                        ? json_null()
                        : track_of(q, SERVE_KIND_instruction_split, json_object_get(splits, key));
    if (json_is_string(split))
        (void)json_array_append(tracks, split);
    json_decref(split);
    (void)json_object_set_new(row, "track", track);
    (void)json_object_set_new(row, "tracks", tracks);
}

static bool same_pair(const json_t *a, const json_t *b)
{
    return !strcmp(text_of(a, "direction"), text_of(b, "direction")) &&
           !strcmp(text_of(a, "flow"), text_of(b, "flow")) &&
           json_integer_value(json_object_get(a, "id")) == json_integer_value(json_object_get(b, "id"));
}

static void append(struct lists *l, json_t *list, json_t *dep)
{
    if (json_array_size(list) >= EDGES_MAX)
        l->truncated = true;
    else
        (void)json_array_append(list, dep);
}

static bool is_bank(const json_t *row)
{
    return !strcmp(text_of(row, "kind"), "SAME_PSUM_BANK");
}

/* Which lists a pair belongs to. bank: one of its edges is of that kind. */
static void place(struct lists *l, json_t *dep, bool in, bool from_instruction, bool to_instruction, bool bank)
{
    const char *kind = text_of(dep, "kind");
    if (from_instruction && to_instruction)
        append(l, in ? l->predecessors : l->successors, dep);
    else if (from_instruction)
        append(l, l->transfers, dep);
    else if (in && !strcmp(kind, "DMA_TRIGGER"))
        append(l, l->starters, dep);
    else if (!in && to_instruction)
        append(l, l->dependents, dep);
    else
        append(l, in ? l->predecessors : l->successors, dep);
    if (bank)
        append(l, in ? l->previous : l->next, dep);
}

/* rows[i .. end) are the edges of one pair, the one to show first. */
static void take_pair(struct lists *l, json_t *rows, size_t i, size_t end, bool from_instruction)
{
    json_t *dep = json_deep_copy(json_array_get(rows, i)), *also = json_array();
    bool bank = is_bank(dep), in = !strcmp(text_of(dep, "direction"), "in");
    bool instruction = !strcmp(text_of(dep, "flow"), "instruction");
    for (size_t k = i + 1; k < end; k++) {
        json_t *row = json_array_get(rows, k);
        bank |= is_bank(row);
        (void)json_array_append_new(also, json_pack("{s:O, s:O}", "kind", json_object_get(row, "kind"), "gap_ns",
                                                    json_object_get(row, "gap_ns")));
    }
    (void)json_object_set_new(dep, "bank", json_boolean(is_bank(dep)));
    (void)json_object_set_new(dep, "also", also);
    (void)json_object_set_new(dep, "table", json_string(table_of(text_of(dep, "flow"))));
    (void)json_object_del(dep, "rank");
    (void)json_object_del(dep, "flow");
    place(l, dep, in, from_instruction, instruction, bank);
    json_decref(dep);
}

/* The times between which the linked transfers lie. */
static void span_of(const json_t *transfers, int64_t *from, int64_t *to)
{
    for (size_t i = 0; i < json_array_size(transfers); i++) {
        const json_t *row = json_array_get(transfers, i);
        int64_t start = json_integer_value(json_object_get(row, "start_ts")),
                end = json_integer_value(json_object_get(row, "end_ts"));
        *from = start < *from ? start : *from;
        *to = end > *to ? end : *to;
    }
}

/* Where the packets of linked transfers are, so that the page need not guess which they are. */
static int read_packets(struct serve_request *q, struct lists *l, struct kymo_err *err)
{
    struct kymo_buf ids;
    int64_t from = INT64_MAX, to = INT64_MIN;
    kymo_buf_init(&ids, SQL_MAX);
    span_of(l->transfers, &from, &to);
    int r = join_ids(&ids, l->transfers, "table", "DmaPacketAggregated");
    const struct sql_bind binds[] = {SQL_TEXT((const char *)ids.data), SQL_INT(from), SQL_INT(to)};
    if (r < 0)
        r = kymo_err_set(err, r, "no memory for a statement");
    else if (ids.len)
        r = sql_objects(serve_sql_of(q), packets_text, binds, 3, PACKETS_MAX, &l->packets, &l->packets_truncated, err);
    kymo_buf_done(&ids);
    if (r == 0 && !l->packets)
        l->packets = json_array();
    for (size_t i = 0; r == 0 && i < json_array_size(l->packets); i++) {
        json_t *row = json_array_get(l->packets, i);
        enum serve_kind kind =
            !strcmp(text_of(row, "kind"), "dma_engine") ? SERVE_KIND_dma_engine : SERVE_KIND_dma_queue;
        (void)json_object_set_new(row, "track", track_of(q, kind, json_object_get(row, "track")));
        (void)json_object_del(row, "kind");
    }
    return r;
}

static json_t *answer(const struct op_table *table, int64_t id, struct lists *l)
{
    return json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o}, s:o, s:b, s:b}", "table", table->name, "id",
                     (json_int_t)id, "predecessors", l->predecessors, "successors", l->successors, "transfers",
                     l->transfers, "starters", l->starters, "dependents", l->dependents, "same_bank", "previous",
                     l->previous, "next", l->next, "packets", l->packets, "packets_truncated", l->packets_truncated,
                     "truncated", l->truncated);
}

/* A packet has its transfer's edges. */
static int find_block(struct serve_request *q, const struct op_table *table, int64_t *id, const char **flow,
                      struct kymo_err *err)
{
    char statement[160];
    int64_t there[2];
    bool packet = !strcmp(table->name, "DmaPacket");
    (void)snprintf(statement, sizeof statement, "SELECT id, %s FROM k.\"%s\" WHERE id = $1",
                   packet ? "packet_aggregation_id" : "id", table->name);
    int r = sql_numbers(serve_sql_of(q), statement, (struct sql_bind[]){SQL_INT(*id)}, 1, there, 2, err);
    if (r == 0 && there[0] == INT64_MIN)
        r = kymo_err_set(err, -ENOENT, "%s has no row %lld", table->name, (long long)*id);
    if (r == 0 && packet) {
        *id = there[1];
        *flow = "dma_block";
    }
    return r;
}

static int make_lists(struct serve_request *q, json_t *rows, bool from_instruction, struct lists *l,
                      struct kymo_err *err)
{
    json_t **const all[] = {&l->predecessors, &l->successors, &l->transfers, &l->starters,
                            &l->dependents,   &l->previous,   &l->next};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = json_array();
    json_t *splits = json_object();
    int r = read_splits(q, rows, splits, err);
    size_t n = json_array_size(rows);
    for (size_t i = 0, end; r == 0 && i < n; i = end) {
        for (end = i + 1; end < n && same_pair(json_array_get(rows, i), json_array_get(rows, end));)
            end++;
        name_tracks(q, json_array_get(rows, i), splits);
        take_pair(l, rows, i, end, from_instruction);
    }
    json_decref(splits);
    if (r == 0)
        r = read_packets(q, l, err);
    if (!l->packets)
        l->packets = json_array();
    return r;
}

int op_dependencies(struct serve_request *q, struct kymo_err *err)
{
    const struct op_table *table;
    int64_t id, asked;
    json_t *rows = NULL;
    struct lists l = {0};
    int r = op_event_read(q, &table, &asked, err);
    if (r < 0)
        return r;
    const char *flow = table->flow;
    id = asked;
    r = find_block(q, table, &id, &flow, err);
    if (r == 0)
        r = read_edges(q, flow ? flow : "none", id, &rows, &l.truncated, err);
    if (r < 0)
        return r;
    r = make_lists(q, rows, flow && !strcmp(flow, "instruction"), &l, err);
    json_decref(rows);
    if (r == 0)
        return serve_answer_json(q, answer(table, asked, &l), err);
    json_decref(answer(table, asked, &l));
    return r;
}
