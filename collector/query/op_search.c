/* Events whose field has a value: a page of them, or where they are in a window. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/op_common.h"
#include "collector/query/serve_ops.h"
#include "collector/query/serve_tracks.h"
#include "formats/schema/schema.h"

#define VALUE_MAX 4096
#define SQL_MAX (1u << 16)
#define PAGE_SIZE 20

enum category { CATEGORY_OPERATOR, CATEGORY_INSTRUCTION, CATEGORY_DMA };

static const char *const category_names[] = {"operator", "instruction", "dma", NULL};
static const char *const match_names[] = {"exact", "partial", NULL};

struct search {
    struct serve_request *q;
    int category;
    enum serve_kind kind; /* whose rows are looked through */
    char field[160];      /* SQL */
    bool exact, number;   /* number: it is compared as one */
    bool in_packets;      /* packets have the field too, with their transfer's value */
    struct sql_bind value;
    const char *row; /* condition for a row of operators; NULL: it is a field that is looked at */
    char *row_key;   /* owned: what the condition compares with */
};

/* What the ids of op_operators.c say, which name path, HLO instruction, and engine and opcode, with tabs between. */
#define ROW_HLO                                                                                                        \
    SERVE_OPERATOR " || chr(9) || CASE WHEN hlo_name = " SERVE_OPERATOR " THEN '' ELSE coalesce(hlo_name, '') END"
static const struct {
    const char *kind, *condition;
} rows[] = {{"framework:", "(" SERVE_OPERATOR " = $1 OR starts_with(" SERVE_OPERATOR ", $1 || '/'))"},
            {"none:", SERVE_OPERATOR " = $1"},
            {"hlo:", ROW_HLO " = $1"},
            {"opcode:", ROW_HLO " || chr(9) || " SERVE_ENGINE " || ' ' || coalesce(opcode, '') = $1"}};

static int read_row(struct search *s, struct kymo_err *err)
{
    const char *id = s->value.text;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n = strlen(rows[i].kind);
        if (strncmp(id, rows[i].kind, n) != 0)
            continue;
        s->row_key = op_row_unescaped(id + n, strlen(id + n));
        if (!s->row_key)
            return kymo_err_set(err, -ENOMEM, "no memory for a path");
        s->value.text = s->row_key;
        s->row = rows[i].condition;
        (void)snprintf(s->field, sizeof s->field, "nullif(%s, '')", SERVE_OPERATOR);
        return 0;
    }
    return kymo_err_set(err, -EINVAL, "the value is not the id of a row");
}

/* The way a number is written in its text: only then does comparing numbers give the same rows, by way of statistics.
 */
static bool plain_number(const char *text, int64_t *ret)
{
    char again[32];
    errno = 0;
    *ret = strtoll(text, NULL, 10);
    (void)snprintf(again, sizeof again, "%" PRId64, *ret);
    return !errno && !strcmp(again, text);
}

static int read_field(struct search *s, struct kymo_err *err)
{
    const struct kymo_table *table = kymo_schema_find(serve_kinds[s->kind].table);
    const char *name = serve_question_text(serve_question_of(s->q), "field");
    if (s->category == CATEGORY_OPERATOR && name && !strcmp(name, "row"))
        return read_row(s, err);
    int at = name ? kymo_schema_column(table, name) : -1;
    if (at < 0)
        return kymo_err_set(err, -EINVAL, "%s has no column %.64s", table->name, name ? name : "");
    const struct kymo_column *c = &table->columns[at];
    if (!strcmp(c->name, "operator"))
        (void)snprintf(s->field, sizeof s->field, "nullif(%s, '')", SERVE_OPERATOR);
    else
        (void)snprintf(s->field, sizeof s->field, "\"%s\"", c->name);
    s->number = s->exact && (c->type == KYMO_TYPE_INT64 || c->type == KYMO_TYPE_INT32) &&
                plain_number(s->value.text, &s->value.number);
    if (s->number)
        s->value.text = NULL;
    s->in_packets =
        serve_dir_of(s->q)->own_levels && (!strcmp(c->name, "queue_name") || !strcmp(c->name, "queue_type"));
    return 0;
}

static int read_search(struct search *s, struct kymo_err *err)
{
    const struct serve_question *q = serve_question_of(s->q);
    int match = 1;
    s->category = -1;
    int r = serve_question_choice(q, "category", category_names, &s->category, err);
    if (r == 0)
        r = serve_question_choice(q, "match", match_names, &match, err);
    s->value.text = serve_question_text(q, "value");
    if (r == 0 && (s->category < 0 || !s->value.text))
        r = kymo_err_set(err, -EINVAL, "the parameter %s is missing", s->category < 0 ? "category" : "value");
    if (r == 0 && strlen(s->value.text) > VALUE_MAX)
        r = kymo_err_set(err, -EINVAL, "the value is longer than %d bytes", VALUE_MAX);
    s->exact = match == 0;
    s->kind = s->category == CATEGORY_DMA ? SERVE_KIND_dma_transfer : SERVE_KIND_instruction;
    return r < 0 ? r : read_field(s, err);
}

/* The value is $1. */
static int add_condition(const struct search *s, struct kymo_buf *b)
{
    if (s->row)
        return kymo_buf_printf(b, "%s", s->row);
    if (s->number)
        return kymo_buf_printf(b, "%s = $1", s->field);
    return kymo_buf_printf(b, s->exact ? "%s::VARCHAR = $1" : "contains(lower(%s::VARCHAR), lower($1))", s->field);
}

static int count(const struct search *s, int64_t *ret, struct kymo_err *err)
{
    struct kymo_buf b;
    kymo_buf_init(&b, SQL_MAX);
    int r = kymo_buf_printf(&b, "SELECT count(*) FROM k.\"%s\" WHERE ", serve_kinds[s->kind].table);
    if (r == 0)
        r = add_condition(s, &b);
    r = r < 0 ? kymo_err_set(err, r, "no memory for a statement")
              : sql_numbers(serve_sql_of(s->q), (const char *)b.data, &s->value, 1, ret, 1, err);
    kymo_buf_done(&b);
    return r;
}

static int read_page(const struct search *s, const struct op_page *p, json_t **ret, struct kymo_err *err)
{
    const char *label = s->category == CATEGORY_DMA ? "coalesce(nullif(variable, ''), queue_name, '')" : "opcode",
               *engine = s->category == CATEGORY_DMA ? "NULL::VARCHAR" : "engine";
    struct kymo_buf b;
    kymo_buf_init(&b, SQL_MAX);
    int r = kymo_buf_printf(&b,
                            "SELECT '%s' AS \"table\", id, start_ts, end_ts, %s AS label, track, %s::VARCHAR AS value,"
                            " %s AS engine, pcore_idx AS pcore FROM k.row_%s WHERE ",
                            serve_kinds[s->kind].table, label, s->field, engine, serve_kinds[s->kind].name);
    if (r == 0)
        r = add_condition(s, &b);
    if (r == 0)
        r = kymo_buf_printf(&b, " ORDER BY start_ts, id LIMIT $2 OFFSET $3");
    const struct sql_bind binds[] = {s->value, SQL_INT(p->size), SQL_INT(p->page * p->size)};
    r = r < 0 ? kymo_err_set(err, r, "no memory for a statement")
              : sql_objects(serve_sql_of(s->q), (const char *)b.data, binds, 3, (size_t)p->size, ret, NULL, err);
    kymo_buf_done(&b);
    return r;
}

/* Rows have labels of tracks; the page knows them by id. */
static void name_tracks(const struct search *s, json_t *hits)
{
    for (size_t i = 0; i < json_array_size(hits); i++) {
        json_t *hit = json_array_get(hits, i), *label = json_object_get(hit, "track");
        const char *text = json_string_value(label);
        const struct serve_track *t =
            text ? op_track_labelled(serve_dir_of(s->q), s->kind, text, json_string_length(label)) : NULL;
        (void)json_object_set_new(hit, "track", t ? json_string(t->id) : json_null());
    }
}

static int answer_page(const struct search *s, struct kymo_err *err)
{
    struct op_page p;
    int64_t total = 0;
    json_t *hits = NULL;
    int r = op_page_read(s->q, PAGE_SIZE, &p, err);
    if (r == 0)
        r = count(s, &total, err);
    if (r == 0)
        r = read_page(s, &p, &hits, err);
    if (r < 0)
        return r;
    name_tracks(s, hits);
    return serve_answer_json(s->q,
                             json_pack("{s:I, s:b, s:I, s:I, s:o}", "total", (json_int_t)total, "more", 0, "page",
                                       (json_int_t)p.page, "size", (json_int_t)p.size, "hits", hits),
                             err);
}

/* Marks: where matches are on the tracks of a window */

#define OF_TRANSFERS                                                                                                   \
    "packet_aggregation_id IN (SELECT id FROM k.\"DmaPacketAggregated\" WHERE end_ts >= $2 AND start_ts <= $3 AND "

/* A row of packets' marks: of which kind its track is, too. */
static int keep_packets(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    struct op_marks *m = ctx;
    enum serve_kind kind = c[4].i ? SERVE_KIND_dma_queue : SERVE_KIND_dma_engine;
    m->track = kind == m->kind ? m->track : NULL;
    m->kind = kind;
    return op_marks_keep(m, c, err);
}

static int add_packets(const struct search *s, struct kymo_buf *b)
{
    static const enum serve_kind kinds[] = {SERVE_KIND_dma_engine, SERVE_KIND_dma_queue};
    int r = kymo_buf_printf(
        b,
        "WITH g AS MATERIALIZED (SELECT engine_idx, pcore_idx, queue_name, queue_idx, (start_ts - $2) // $4 AS b,"
        " CASE WHEN end_ts - start_ts >= $4 THEN id END AS i, min(start_ts) AS s, max(end_ts) AS e, count(*) AS n FROM"
        " k.\"DmaPacket\" WHERE end_ts >= $2 AND start_ts <= $3 AND %s",
        s->in_packets ? "" : OF_TRANSFERS);
    if (r == 0)
        r = add_condition(s, b);
    if (r == 0)
        r = kymo_buf_printf(b, "%s GROUP BY ALL) SELECT track, min(s) AS s, max(e), sum(n)::BIGINT, kind FROM (",
                            s->in_packets ? "" : ")");
    for (int i = 0; i < 2 && r == 0; i++) {
        r = kymo_buf_printf(b, "%sSELECT ", i ? " UNION ALL " : "");
        if (r == 0)
            r = serve_tracks_label(serve_dir_of(s->q), kinds[i], b);
        if (r == 0)
            r = kymo_buf_printf(b, " AS track, b, i, s, e, n, %d::BIGINT AS kind FROM g", i);
    }
    return r < 0 ? r : kymo_buf_printf(b, ") GROUP BY kind, track, b, i ORDER BY kind, track, s");
}

/* Packets match when their transfer does. They are read once for both of their tracks, whose names take long to make:
 * first those of one queue and pixel become one. */
static int read_packets(const struct search *s, const struct op_window *w, struct op_marks *m, struct kymo_err *err)
{
    int64_t pixel = (w->to - w->from) / w->width;
    const struct sql_bind binds[] = {s->value, SQL_INT(w->from), SQL_INT(w->to), SQL_INT(pixel > 0 ? pixel : 1)};
    struct kymo_buf b;
    kymo_buf_init(&b, SQL_MAX);
    m->kind = SERVE_KIND_dma_engine;
    m->track = NULL;
    int r = add_packets(s, &b);
    r = r < 0 ? kymo_err_set(err, r, "no memory for a statement")
              : sql_run(serve_sql_of(s->q), (const char *)b.data, binds, 4, keep_packets, m, err);
    kymo_buf_done(&b);
    return r;
}

static int read_marks(const struct search *s, const struct op_window *w, enum serve_kind kind, struct op_marks *m,
                      struct kymo_err *err)
{
    int64_t pixel = (w->to - w->from) / w->width;
    const struct sql_bind binds[] = {s->value, SQL_INT(w->from), SQL_INT(w->to), SQL_INT(pixel > 0 ? pixel : 1)};
    struct kymo_buf b;
    kymo_buf_init(&b, SQL_MAX);
    m->kind = kind;
    m->track = NULL;
    int r =
        kymo_buf_printf(&b,
                        "SELECT track, min(start_ts) AS s, max(end_ts), count(*) FROM k.row_%s WHERE end_ts >= $2 AND"
                        " start_ts <= $3 AND ",
                        serve_kinds[kind].name);
    if (r == 0)
        r = add_condition(s, &b);
    if (r == 0)
        r = kymo_buf_printf(&b, " GROUP BY track, (start_ts - $2) // $4, CASE WHEN end_ts - start_ts >= $4 THEN id END"
                                " ORDER BY track, s");
    r = r < 0 ? kymo_err_set(err, r, "no memory for a statement")
              : sql_run(serve_sql_of(s->q), (const char *)b.data, binds, 4, op_marks_keep, m, err);
    kymo_buf_done(&b);
    return r;
}

static int answer_marks(const struct search *s, struct kymo_err *err)
{
    static const enum serve_kind instructions[] = {SERVE_KIND_instruction, SERVE_KIND_instruction_split},
                                 transfers[] = {SERVE_KIND_dma_transfer};
    bool dma = s->category == CATEGORY_DMA;
    size_t n = dma ? 1 : serve_dir_of(s->q)->has_split ? 2 : 1;
    struct op_window w;
    struct op_marks m = {.dir = serve_dir_of(s->q)};
    struct packed *packed KYMO_CLEANUP(packed_freep) = NULL;
    int r = op_window_read(s->q, true, &w, err);
    if (r == 0 && !(m.packed = packed = packed_new(w.from, w.to, w.width)))
        r = kymo_err_set(err, -ENOMEM, "no memory for an answer");
    if (r == 0 && dma)
        r = read_packets(s, &w, &m, err);
    for (size_t i = 0; i < n && r == 0; i++)
        r = read_marks(s, &w, dma ? transfers[i] : instructions[i], &m, err);
    return r < 0 ? r : serve_answer_packed(s->q, packed, err);
}

int op_search(struct serve_request *q, struct kymo_err *err)
{
    struct search s = {.q = q};
    int64_t marks = 0;
    int r = read_search(&s, err);
    if (r == 0)
        r = serve_question_int(serve_question_of(q), "marks", 0, 1, false, &marks, err);
    if (r == 0)
        r = marks ? answer_marks(&s, err) : answer_page(&s, err);
    kymo_free(s.row_key);
    return r;
}
