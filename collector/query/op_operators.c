/* One level of the tree of operators: segments of their paths, below them HLO instructions, below these opcodes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/op_parts.h"
#include "collector/query/serve_ops.h"
#include "collector/query/serve_tracks.h"

#define SQL_MAX (1u << 16)
#define ROWS_MAX 20000
#define PAGE_SIZE 100
#define FILTER_MAX 4096
#define NODE_DEPTH 32 /* segments of paths that WindowSums has nodes for (pipeline/lod/window_subjects.h) */
#define PATH_MAX_BYTES (1u << 16)

enum kind { KIND_TOP, KIND_FRAMEWORK, KIND_HLO, KIND_OPCODE, KIND_NONE };

static const char *const kind_names[] = {"", "framework", "hlo", "opcode", "none"};
/* How a row of each kind begins in the column child. */
static const char kind_letters[] = " fhon";

#define BYTES(X)                                                                                                       \
    X("hbm_read_bytes")                                                                                                \
    X("hbm_write_bytes")                                                                                               \
    X("sbuf_read_bytes")                                                                                               \
    X("sbuf_write_bytes")                                                                                              \
    X("psum_read_bytes")                                                                                               \
    X("psum_write_bytes")

/* Columns of a row that it can be sorted by. */
#define FIGURES(X)                                                                                                     \
    X("start_ts")                                                                                                      \
    X("end_ts")                                                                                                        \
    X("instructions")                                                                                                  \
    X("time_ns")                                                                                                       \
    X("wait_ns")                                                                                                       \
    X("hardware_flops")                                                                                                \
    X("transpose_flops")                                                                                               \
    BYTES(X)                                                                                                           \
    X("spill_bytes")                                                                                                   \
    X("tensor")                                                                                                        \
    X("vector")                                                                                                        \
    X("scalar")                                                                                                        \
    X("gpsimd")                                                                                                        \
    X("sync")
#define NAME(name) name,
static const char *const figures[] = {FIGURES(NAME)};
static const char *const sortable[] = {FIGURES(NAME) "name", "path",        "kind",        "active_ns",
                                       "share_percent",      "mfu_percent", "hfu_percent", NULL};

struct operators {
    struct serve_request *q;
    struct op_window w;
    struct op_page page;
    const char *sort, *filter, *parent; /* parent NULL: the top */
    bool falling;
    enum kind kind;   /* of parent */
    char *path, *hlo; /* of parent */
    struct sql_bind binds[6];
    struct kymo_buf text;
    json_t *rows;
    bool truncated;
};

/* Ids: KIND:PATH, or KIND:PATH|HLO, or KIND:PATH|HLO|ENGINE OPCODE; in each part bars, percent signs and control
 * characters are %XX. */

static void add_escaped(struct kymo_buf *b, const char *text)
{
    for (int r = 0; *text && r == 0; text++) {
        unsigned c = (unsigned char)*text;
        bool plain = c != OP_ROW_SEPARATOR && c != '%' && c >= 0x20 && c != 0x7f;
        r = plain ? kymo_buf_append(b, text, 1) : kymo_buf_printf(b, "%%%02X", c);
    }
}

static json_t *make_id(enum kind kind, const char *path, const char *hlo, const char *opcode)
{
    const char *const parts[] = {path, hlo, opcode};
    size_t n = kind == KIND_OPCODE ? 3 : kind == KIND_HLO ? 2 : 1;
    struct kymo_buf b;
    kymo_buf_init(&b, 4 * PATH_MAX_BYTES);
    int r = kymo_buf_printf(&b, "%s:", kind_names[kind]);
    for (size_t i = 0; i < n && r == 0; i++) {
        if (i > 0)
            r = kymo_buf_append(&b, (const char[]){OP_ROW_SEPARATOR}, 1);
        add_escaped(&b, parts[i]);
    }
    json_t *id = r == 0 ? json_stringn((const char *)b.data, b.len) : json_null();
    kymo_buf_done(&b);
    return id;
}

static int read_parent(struct operators *o, struct kymo_err *err)
{
    const char *id = o->parent = serve_question_text(serve_question_of(o->q), "parent");
    if (!id)
        return 0;
    const char *colon = strchr(id, ':');
    for (enum kind k = KIND_FRAMEWORK; colon && k <= KIND_NONE; k++)
        if (strlen(kind_names[k]) == (size_t)(colon - id) && !strncmp(id, kind_names[k], (size_t)(colon - id)))
            o->kind = k;
    if (!colon || o->kind == KIND_TOP || strlen(id) > PATH_MAX_BYTES)
        return kymo_err_set(err, -EINVAL, "parent is not the id of a row");
    static const char bar[] = {OP_ROW_SEPARATOR, '\0'};
    size_t n = strcspn(colon + 1, bar);
    const char *hlo = colon[1 + n] ? colon + 1 + n + 1 : "";
    o->path = op_row_unescaped(colon + 1, n);
    o->hlo = op_row_unescaped(hlo, strcspn(hlo, bar));
    return o->path && o->hlo ? 0 : kymo_err_set(err, -ENOMEM, "no memory for a path");
}

static int read_window(struct operators *o, struct kymo_err *err)
{
    const struct serve_question *q = serve_question_of(o->q);
    const struct serve_dir *d = serve_dir_of(o->q);
    if (serve_question_text(q, "from") || serve_question_text(q, "to"))
        return op_window_read(o->q, false, &o->w, err);
    o->w = (struct op_window){.from = d->from, .to = d->to + 1};
    return 0;
}

static int read_question(struct operators *o, struct kymo_err *err)
{
    const struct serve_question *q = serve_question_of(o->q);
    const char *sort = serve_question_text(q, "sort");
    int column = 0, r = read_window(o, err);
    if (r == 0)
        r = op_page_read(o->q, PAGE_SIZE, &o->page, err);
    if (r == 0)
        r = read_parent(o, err);
    if (r < 0)
        return r;
    o->falling = sort && *sort == '-';
    sort = sort ? sort + o->falling : "start_ts";
    while (sortable[column] && strcmp(sortable[column], sort) != 0)
        column++;
    if (!sortable[column])
        return kymo_err_set(err, -EINVAL, "rows cannot be sorted by %.64s", sort);
    o->sort = sortable[column];
    o->filter = serve_question_text(q, "filter");
    o->filter = o->filter && *o->filter ? o->filter : NULL;
    if (o->filter && strlen(o->filter) > FILTER_MAX)
        return kymo_err_set(err, -EINVAL, "the filter is longer than %d bytes", FILTER_MAX);
    return 0;
}

/* Instructions below the parent ($4, and $5 its HLO instruction), with the row of this level that each is in: its
 * kind's letter and its name. */
#define OPCODE "'o' || engine || ' ' || opcode"
static const char top[] = "CASE WHEN op = '' THEN 'n' ELSE 'f' || split_part(op, '/', 1) END AS child FROM i",
                  below_path[] =
                      "CASE WHEN op <> $4 THEN 'f' || split_part(substr(op, length($4::VARCHAR) + 2), '/', 1) WHEN hlo"
                      " = '' OR hlo = op THEN " OPCODE " ELSE 'h' || hlo END AS child FROM i WHERE (op = $4 AND op <>"
                      " '') OR starts_with(op, $4 || '/')",
                  below_hlo[] = OPCODE " AS child FROM i WHERE op = $4 AND hlo = $5",
                  below_none[] = OPCODE " AS child FROM i WHERE op = ''";
static const char *const children[] = {[KIND_TOP] = top,
                                       [KIND_FRAMEWORK] = below_path,
                                       [KIND_HLO] = below_hlo,
                                       [KIND_OPCODE] = "'' AS child FROM i WHERE false",
                                       [KIND_NONE] = below_none};

/* The same rows as the table of sums has them: nodes of the tree, with the time in which they are busy. */
#define BUCKETS "start_ts >= $1 AND start_ts < $2"
#define NODES " AS child, busy_ns FROM k.\"WindowSums\" WHERE " BUCKETS " AND kind = "
static const char nodes_top[] = "SELECT CASE WHEN operator IS NULL THEN 'n' ELSE 'f' || operator END" NODES
                                "'operator' AND NOT contains(coalesce(operator, ''), '/')",
                  nodes_path[] = "SELECT 'f' || substr(operator, length($4::VARCHAR) + 2)" NODES
                                 "'operator' AND starts_with(operator, $4 || '/') AND NOT contains(substr(operator,"
                                 " length($4::VARCHAR) + 2), '/') UNION ALL SELECT 'h' || hlo_name" NODES
                                 "'hlo' AND operator = $4 UNION ALL SELECT " OPCODE NODES
                                 "'opcode' AND operator = $4 AND hlo_name IS NULL",
                  nodes_hlo[] = "SELECT " OPCODE NODES "'opcode' AND operator = $4 AND hlo_name = $5",
                  nodes_none[] = "SELECT " OPCODE NODES "'opcode' AND operator IS NULL";
static const char *const nodes[] = {[KIND_TOP] = nodes_top,
                                    [KIND_FRAMEWORK] = nodes_path,
                                    [KIND_HLO] = nodes_hlo,
                                    [KIND_OPCODE] = "SELECT '', 0::BIGINT AS busy_ns WHERE false",
                                    [KIND_NONE] = nodes_none};

#define BEGUN(name) ", CASE WHEN start_ts >= $1 THEN " name " END AS " name
#define SUMMED(name) ", " name
#define COPIED(name) "sum(" name ")::BIGINT AS " name ", "
#define OF_ENGINE(name, column) "coalesce(sum(n) FILTER (engine = '" name "'), 0)::BIGINT AS " column ", "
#define COUNTED "($3 OR start_ts >= $1)"
#define SPILLED                                                                                                        \
    "CASE WHEN coalesce(spill_save_bytes, spill_reload_bytes) IS NOT NULL THEN coalesce(spill_save_bytes, 0) +"        \
    " coalesce(spill_reload_bytes, 0) END"
#define NAMES SERVE_OPERATOR " AS op, coalesce(hlo_name, '') AS hlo, " SERVE_ENGINE " AS engine, coalesce(opcode, '')"

/* Rows that are added up, of instructions and of their sums. */
static const char of_instructions[] =
    "SELECT " NAMES " AS opcode, pcore_idx, CASE WHEN " COUNTED " THEN start_ts END AS first, CASE WHEN " COUNTED
    " THEN end_ts END AS last, " COUNTED "::BIGINT AS n, " OP_PART " AS part, " OP_WAIT " AS wait, " OP_SHARE
    " * raw_flops AS hardware, " OP_SHARE
    " * flops_transpose AS moved" BYTES(BEGUN) ", CASE WHEN start_ts >= $1 THEN " SPILLED
                                               " END AS spill_bytes FROM @row_instruction WHERE " OP_INSIDE;
static const char of_sums[] =
    "SELECT coalesce(operator, '') AS op, coalesce(hlo_name, '') AS hlo, engine, opcode, pcore_idx, first_ts AS first,"
    " last_ts AS last, event_count AS n, time_ns AS part, wait_ns AS wait, raw_flops AS hardware, flops_transpose AS"
    " moved" BYTES(SUMMED) ", " SPILLED " AS spill_bytes FROM k.\"WindowSums\" WHERE kind = 'operation' AND " BUCKETS;

static size_t bind_parent(struct operators *o)
{
    size_t n = 0;
    if (o->kind == KIND_FRAMEWORK || o->kind == KIND_HLO)
        o->binds[n++] = SQL_TEXT(o->path);
    if (o->kind == KIND_HLO)
        o->binds[n++] = SQL_TEXT(o->hlo);
    return n;
}

/* "WITH i AS (...), c AS (...) ": all parts of the window. */
static int add_children(struct operators *o)
{
    struct op_parts p;
    const char *between = "WITH i AS (";
    int r = 0;
    op_parts_make(serve_dir_of(o->q), SERVE_SUMS_INSTRUCTIONS, &o->w, &p);
    kymo_buf_reset(&o->text);
    for (size_t i = 0; i < p.n && r == 0; i++, between = " UNION ALL ") {
        r = kymo_buf_printf(&o->text, "%s", between);
        if (r == 0)
            r = op_parts_text(&o->text, of_instructions, &p.pieces[i]);
    }
    if (r == 0 && p.from < p.to) {
        r = kymo_buf_printf(&o->text, "%s", between);
        if (r == 0)
            r = op_parts_sums(&o->text, of_sums, &p);
    }
    if (r == 0)
        r = kymo_buf_printf(&o->text, "), c AS (SELECT *, ");
    if (r == 0)
        r = op_parts_sums(&o->text, children[o->kind], &p);
    return r < 0 ? r : kymo_buf_printf(&o->text, ") ");
}

static int read_rows(struct operators *o, struct kymo_err *err)
{
    size_t n = bind_parent(o);
    int r = add_children(o);
    if (r == 0)
        r = kymo_buf_printf(
            &o->text, "%s",
            "SELECT child, min(first) AS start_ts, max(last) AS end_ts, sum(n)::BIGINT AS instructions,"
            " sum(part)::BIGINT AS time_ns, sum(wait)::BIGINT AS wait_ns, TRY_CAST(round(sum(hardware)) AS BIGINT) AS"
            " hardware_flops, TRY_CAST(round(sum(moved)) AS BIGINT) AS transpose_flops, " BYTES(COPIED)
                COPIED("spill_bytes") OF_ENGINE("Tensor", "tensor") OF_ENGINE("Vector", "vector")
                    OF_ENGINE("Scalar", "scalar") OF_ENGINE("GpSimd", "gpsimd")
                        OF_ENGINE("Sync", "sync") "CASE WHEN min(pcore_idx) <> max(pcore_idx) THEN 2 ELSE 1 END AS "
                                                  "cores FROM c GROUP BY child");
    if (r == 0 && o->filter) {
        o->binds[n++] = SQL_TEXT(o->filter);
        r = kymo_buf_printf(&o->text,
                            " HAVING bool_or(contains(lower(op), lower($%zu)) OR contains(lower(hlo), lower($%zu)) OR"
                            " contains(lower(engine || ' ' || opcode), lower($%zu)))",
                            n, n, n);
    }
    if (r == 0)
        r = kymo_buf_printf(&o->text, " ORDER BY time_ns DESC, child");
    return r < 0 ? kymo_err_set(err, r, "no memory for a statement")
                 : sql_objects(serve_sql_of(o->q), (const char *)o->text.data, o->binds, n, ROWS_MAX, &o->rows,
                               &o->truncated, err);
}

/* Whether the sums have a node for each row below the parent. */
static bool has_nodes(const struct operators *o)
{
    size_t depth = 1;
    for (const char *at = o->kind == KIND_FRAMEWORK ? o->path : ""; *at; at++)
        depth += *at == '/';
    return depth < NODE_DEPTH;
}

static int read_busy(struct operators *o, struct op_active *active, struct kymo_err *err)
{
    struct op_parts p;
    char *sums KYMO_FREE = kymo_asprintf("SELECT child, sum(busy_ns)::BIGINT FROM (%s) GROUP BY child", nodes[o->kind]);
    op_parts_make(serve_dir_of(o->q), has_nodes(o) ? SERVE_SUMS_INSTRUCTIONS : SERVE_SUMS_MAX, &o->w, &p);
    int r = op_active_open(&p, active, err);
    if (r < 0)
        return r;
    size_t n = bind_parent(o);
    kymo_buf_reset(&o->text);
    r = kymo_buf_printf(&o->text,
                        "WITH i AS (SELECT " NAMES " AS opcode, start_ts, " OP_BEGIN
                        " AS begin_ts, end_ts FROM @row_instruction WHERE " OP_INSIDE
                        "), c AS (SELECT *, %s) SELECT child, start_ts, begin_ts, end_ts FROM c",
                        children[o->kind]);
    return r < 0 || !sums ? kymo_err_set(err, -ENOMEM, "no memory for a statement")
                          : op_active_read(o->q, &p, (const char *)o->text.data, sums, o->binds, n, active, err);
}

static void put(json_t *row, const char *name, json_t *value)
{
    (void)json_object_set_new(row, name, value);
}

static json_t *percent(double part, double whole)
{
    return whole > 0 ? json_real(100 * part / whole) : json_null();
}

/* Who the row is. */
static void put_names(const struct operators *o, json_t *row, const char *child)
{
    enum kind kind = KIND_FRAMEWORK;
    while (kind < KIND_NONE && kind_letters[kind] != *child)
        kind++;
    const char *name = *child ? child + 1 : child, *path = o->path ? o->path : "",
               *hlo = kind == KIND_HLO ? name
                      : o->hlo         ? o->hlo
                                       : "";
    bool inner = kind == KIND_FRAMEWORK && o->kind == KIND_FRAMEWORK;
    char *below KYMO_FREE = inner ? kymo_asprintf("%s/%s", path, name) : NULL;
    if (kind == KIND_FRAMEWORK)
        path = inner ? (below ? below : "") : name;
    put(row, "id", make_id(kind, path, hlo, name));
    put(row, "parent", o->parent ? json_string(o->parent) : json_null());
    put(row, "kind", json_string(kind_names[kind]));
    put(row, "name", json_string(kind == KIND_NONE ? "no operator" : name));
    put(row, "path", json_string(path));
    put(row, "hlo", *hlo ? json_string(hlo) : json_null());
    put(row, "expandable", json_boolean(kind != KIND_OPCODE));
}

static void put_rates(const struct operators *o, json_t *row, const json_t *from, int64_t active)
{
    double flops = json_number_value(json_object_get(from, "hardware_flops")),
           moved = json_number_value(json_object_get(from, "transpose_flops")),
           could = serve_dir_of(o->q)->peak * (double)active * json_number_value(json_object_get(from, "cores"));
    put(row, "active_ns", json_integer(active));
    put(row, "share_percent", percent((double)active, (double)(o->w.to - o->w.from)));
    put(row, "mfu_percent", flops > 0 ? percent(flops - moved, could) : json_null());
    put(row, "hfu_percent", flops > 0 ? percent(flops, could) : json_null());
}

static json_t *make_row(const struct operators *o, const json_t *from, struct op_active *active)
{
    const json_t *child = json_object_get(from, "child");
    const char *text = json_string_value(child);
    json_t *row = json_object();
    put_names(o, row, text ? text : "");
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        put(row, figures[i], json_incref(json_object_get(from, figures[i])));
    put_rates(o, row, from, text ? op_active_of(active, text, json_string_length(child)) : 0);
    return row;
}

/* Sorting */

struct place {
    json_t *row;
    size_t before; /* its number before */
};

static int compare_values(const json_t *a, const json_t *b)
{
    if (json_is_string(a) && json_is_string(b))
        return strcmp(json_string_value(a), json_string_value(b));
    double x = json_number_value(a), y = json_number_value(b);
    return (x > y) - (x < y);
}

static int compare(const void *x, const void *y, void *ctx)
{
    const struct place *a = x, *b = y;
    const struct operators *o = ctx;
    const json_t *v = json_object_get(a->row, o->sort), *w = json_object_get(b->row, o->sort);
    if (json_is_null(v) != json_is_null(w))
        return json_is_null(v) ? 1 : -1;
    int c = json_is_null(v) ? 0 : compare_values(v, w);
    if (c)
        return o->falling ? -c : c;
    return (a->before > b->before) - (a->before < b->before);
}

/* The page's rows, sorted; takes the rows as they were read. */
static json_t *make_page(struct operators *o, struct op_active *active)
{
    size_t n = json_array_size(o->rows);
    struct place *places KYMO_FREE = KYMO_NEW_ARRAY(struct place, n + 1);
    json_t *page = json_array();
    for (size_t i = 0; places && i < n; i++)
        places[i] = (struct place){make_row(o, json_array_get(o->rows, i), active), i};
    if (places && n)
        qsort_r(places, n, sizeof *places, compare, o);
    for (size_t i = 0; places && i < n; i++) {
        bool here = (int64_t)i / o->page.size == o->page.page;
        if (here)
            (void)json_array_append_new(page, places[i].row);
        else
            json_decref(places[i].row);
    }
    return page;
}

static int answer(struct operators *o, struct op_active *active, struct kymo_err *err)
{
    json_t *body = json_object(), *page = make_page(o, active);
    put(body, "parent", o->parent ? json_string(o->parent) : json_null());
    put(body, "from", json_integer(o->w.from));
    put(body, "to", json_integer(o->w.to));
    put(body, "total", json_integer((json_int_t)json_array_size(o->rows)));
    put(body, "truncated", json_boolean(o->truncated));
    put(body, "page", json_integer(o->page.page));
    put(body, "size", json_integer(o->page.size));
    put(body, "rows", page);
    return serve_answer_json(o->q, body, err);
}

int op_operators(struct serve_request *q, struct kymo_err *err)
{
    struct operators o = {.q = q};
    struct op_active active KYMO_CLEANUP(op_active_done) = {0};
    kymo_buf_init(&o.text, SQL_MAX);
    int r = read_question(&o, err);
    if (r == 0)
        r = read_rows(&o, err);
    if (r == 0 && json_array_size(o.rows))
        r = read_busy(&o, &active, err);
    if (r == 0)
        r = answer(&o, &active, err);
    json_decref(o.rows);
    kymo_buf_done(&o.text);
    kymo_free(o.path);
    kymo_free(o.hlo);
    return r;
}
