/* One event with all that is known of it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/query/op_parts.h"
#include "collector/query/serve_ops.h"

#define FRAMES_MAX 256
#define SQL_MAX 4096

struct event {
    struct serve_request *q;
    const struct op_table *table;
    int64_t id;
    json_t *fields, *answer;
    const struct serve_track *track, *split; /* that show it, the second with other settings; NULL: none does */
};

static const char *field(const struct event *e, const char *name)
{
    const char *text = json_string_value(json_object_get(e->fields, name));
    return text && *text ? text : NULL;
}

static void put(struct event *e, const char *key, json_t *value)
{
    if (json_object_set_new(e->answer, key, value) < 0)
        return;
}

static int rows(struct event *e, const char *text, int64_t id, size_t max, json_t **ret, struct kymo_err *err)
{
    return sql_objects(serve_sql_of(e->q), text, (struct sql_bind[]){SQL_INT(id)}, 1, max, ret, NULL, err);
}

static int read_fields(struct event *e, struct kymo_err *err)
{
    char text[128];
    json_t *list;
    (void)snprintf(text, sizeof text, "SELECT * FROM main.\"%s\" WHERE id = $1", e->table->name);
    int r = rows(e, text, e->id, 1, &list, err);
    if (r < 0)
        return r;
    e->fields = op_first(list);
    if (json_is_object(e->fields))
        return 0;
    return kymo_err_set(err, -ENOENT, "%s has no row %lld", e->table->name, (long long)e->id);
}

/* The operator's path from the outside in. */
static json_t *hierarchy(const char *path)
{
    json_t *list = json_array();
    while (path && *path) {
        size_t n = strcspn(path, "/");
        if (n)
            (void)json_array_append_new(list, json_stringn(path, n));
        path += n + (path[n] == '/');
    }
    return list;
}

static const char *operator_of(const struct event *e)
{
    static const char *const names[] = {"operator", "layer", "hlo_name"};
    const char *text = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !text; i++)
        text = field(e, names[i]);
    return text;
}

/* Runs a text in which @src_KIND is what a piece has of it, and values follow from $4. */
static int rows_in(struct event *e, const char *text, const struct op_piece *p, const struct sql_bind *binds, size_t n,
                   json_t **ret, struct kymo_err *err)
{
    struct kymo_buf b;
    kymo_buf_init(&b, SQL_MAX);
    int r = op_parts_text(&b, text, p);
    r = r < 0 ? kymo_err_set(err, r, "no memory for a statement")
              : sql_objects(serve_sql_of(e->q), (const char *)b.data, binds, n, 1, ret, NULL, err);
    kymo_buf_done(&b);
    return r;
}

/* The track of a kind that shows the event; NULL: none does. */
static int find_track(struct event *e, enum serve_kind kind, const struct serve_track **ret, struct kymo_err *err)
{
    char text[128];
    json_t *list;
    const json_t *start = json_object_get(e->fields, "start_ts");
    int64_t at = json_integer_value(start);
    const struct op_piece p = json_is_integer(start) ? op_piece_make(serve_dir_of(e->q), at, at + 1, true)
                                                     : (struct op_piece){0}; /* anywhere */
    (void)snprintf(text, sizeof text, "SELECT track FROM @src_%s WHERE id = $4", serve_kinds[kind].name);
    int r = rows_in(e, text, &p, (struct sql_bind[]){SQL_INT(e->id)}, 1, &list, err);
    if (r < 0)
        return r;
    const json_t *label = json_object_get(json_array_get(list, 0), "track");
    *ret = json_is_string(label)
               ? op_track_labelled(serve_dir_of(e->q), kind, json_string_value(label), json_string_length(label))
               : NULL;
    json_decref(list);
    return 0;
}

static int neighbour(struct event *e, bool next, json_t **ret, struct kymo_err *err)
{
    char text[512];
    const struct serve_dir *d = serve_dir_of(e->q);
    json_t *list;
    if (!e->track) {
        *ret = json_null();
        return 0;
    }
    (void)snprintf(
        text, sizeof text,
        "SELECT id, start_ts, end_ts, label FROM @src_%s WHERE track = $7 AND start_ts %s $5::BIGINT AND start_ts %s"
        " $6::BIGINT AND (start_ts <> $5 OR id %s $4::BIGINT) ORDER BY start_ts %s, id %s LIMIT 1",
        serve_kinds[e->table->kind].name, next ? ">=" : "<=", next ? "<=" : ">=", next ? ">" : "<",
        next ? "ASC" : "DESC", next ? "ASC" : "DESC");
    int64_t start = json_integer_value(json_object_get(e->fields, "start_ts"));
    /* Near first: the table is in order of time, and a search without an end reads all of it. */
    for (int64_t reach = 100000;; reach *= 32) {
        int64_t far = next ? start + reach : start - reach;
        bool last = next ? far >= d->to : far <= d->from;
        struct sql_bind binds[] = {SQL_INT(e->id), SQL_INT(start), SQL_INT(far), SQL_TEXT(e->track->label)};
        const struct op_piece p = op_piece_make(d, next ? start : far, (next ? far : start) + 1, true);
        int r = rows_in(e, text, &p, binds, 4, &list, err);
        if (r < 0)
            return r;
        if (json_array_size(list) || last)
            break;
        json_decref(list);
    }
    *ret = op_first(list);
    return 0;
}

static int put_neighbours(struct event *e, struct kymo_err *err)
{
    json_t *previous = NULL, *next = NULL;
    int r = neighbour(e, false, &previous, err);
    if (r == 0)
        r = neighbour(e, true, &next, err);
    if (r < 0) {
        json_decref(previous);
        return r;
    }
    put(e, "neighbours", json_pack("{s:o, s:o}", "previous", previous, "next", next));
    return 0;
}

static int put_row(struct event *e, const char *key, const char *text, int64_t id, struct kymo_err *err)
{
    json_t *list;
    int r = rows(e, text, id, 1, &list, err);
    if (r == 0)
        put(e, key, op_first(list));
    return r;
}

static int put_transfer(struct event *e, struct kymo_err *err)
{
    if (strcmp(e->table->name, "DmaPacket") != 0) {
        put(e, "transfer", json_null());
        return 0;
    }
    return put_row(e, "transfer", "SELECT * FROM main.\"DmaPacketAggregated\" WHERE id = $1",
                   json_integer_value(json_object_get(e->fields, "packet_aggregation_id")), err);
}

static int put_wait(struct event *e, struct kymo_err *err)
{
    if (strcmp(e->table->name, "Instruction") != 0) {
        put(e, "wait", json_null());
        return 0;
    }
    return put_row(e, "wait", "SELECT * FROM k.\"WaitCause\" WHERE instruction_id = $1", e->id, err);
}

/* Where it comes from in source text */

static void add_place(json_t *list, const char *text, const char *kind)
{
    const char *colon = text ? strrchr(text, ':') : NULL;
    bool numbered = colon && colon[1] && strspn(colon + 1, "0123456789") == strlen(colon + 1);
    if (!text)
        return;
    size_t n = numbered ? (size_t)(colon - text) : strlen(text);
    json_t *line = numbered ? json_integer(strtol(colon + 1, NULL, 10)) : json_null();
    (void)json_array_append_new(list, json_pack("{s:s%, s:o, s:n, s:s, s:i}", "file", text, n, "line", line, "function",
                                                "kind", kind, "depth", 0));
}

static int add_rows(json_t *list, json_t *more)
{
    int r = json_array_extend(list, more);
    json_decref(more);
    return r;
}

static int add_kernel(struct event *e, json_t *list, struct kymo_err *err)
{
    static const char text[] =
        "WITH RECURSIVE f AS (SELECT s.*, 0 AS depth FROM k.\"KernelInstructions\" i JOIN k.\"KernelStackFrames\" s"
        " ON s.stack_frame_id = i.stack_frame_id AND s.pcore_idx IS NOT DISTINCT FROM i.pcore_idx"
        " WHERE i.kernel_instruction_name = $1 AND (i.pcore_idx IS NULL OR $2::BIGINT < 0 OR i.pcore_idx = $2)"
        " UNION ALL SELECT s.*, depth + 1 FROM f JOIN k.\"KernelStackFrames\" s ON s.stack_frame_id = "
        "f.parent_stack_frame_id"
        " AND s.pcore_idx IS NOT DISTINCT FROM f.pcore_idx WHERE depth < 64) SELECT DISTINCT file_path AS file,"
        " line_number AS line, fully_qualified_function_name AS function, 'nki' AS kind, depth FROM f ORDER BY depth";
    const char *name = field(e, "kernel_instruction_name");
    json_t *core = json_object_get(e->fields, "pcore_idx"), *more;
    if (!name)
        return 0;
    struct sql_bind binds[] = {SQL_TEXT(name), SQL_INT(json_is_integer(core) ? json_integer_value(core) : -1)};
    int r = sql_objects(serve_sql_of(e->q), text, binds, 2, FRAMES_MAX, &more, NULL, err);
    return r < 0 ? r : add_rows(list, more) < 0 ? kymo_err_set(err, -ENOMEM, "no memory for sources") : 0;
}

/* Frames of the framework. */
static int add_framework(struct event *e, json_t *list, struct kymo_err *err)
{
    static const char text[] =
        "WITH ids AS (SELECT unnest(string_split(trim($1, '[] '), ',')) AS id), w AS (SELECT trim(id, ' \"''') AS id,"
        " row_number() OVER () - 1 AS depth FROM ids) SELECT n.name AS file, l.line_number AS line, f.name AS function"
        ", 'framework' AS kind, w.depth::BIGINT AS depth FROM w JOIN k.\"StackFrame\" s ON s.id = w.id JOIN"
        " k.\"StackFrameFileLocation\" l ON l.id = s.file_location_id::VARCHAR LEFT JOIN k.\"StackFrameFileName\" n ON "
        "n.id ="
        " l.file_name_id::VARCHAR LEFT JOIN k.\"StackFrameFunctionName\" f ON f.id = l.function_name_id::VARCHAR ORDER "
        "BY depth";
    const char *ids = field(e, "stack_frame_ids");
    json_t *more;
    if (!ids)
        return 0;
    int r = sql_objects(serve_sql_of(e->q), text, (struct sql_bind[]){SQL_TEXT(ids)}, 1, FRAMES_MAX, &more, NULL, err);
    return r < 0 ? r : add_rows(list, more) < 0 ? kymo_err_set(err, -ENOMEM, "no memory for sources") : 0;
}

static int put_sources(struct event *e, struct kymo_err *err)
{
    json_t *list = json_array();
    int r = 0;
    add_place(list, field(e, "nki_source_location"), "nki");
    if (!strcmp(e->table->name, "Instruction")) {
        r = add_kernel(e, list, err);
        if (r == 0)
            r = add_framework(e, list, err);
    }
    add_place(list, field(e, "bir_debug_info_source_location"), "compiler");
    put(e, "sources", list);
    return r;
}

static json_t *tracks_of(const struct event *e)
{
    json_t *list = json_array();
    if (e->track)
        (void)json_array_append_new(list, json_string(e->track->id));
    if (e->split)
        (void)json_array_append_new(list, json_string(e->split->id));
    return list;
}

static int answer(struct event *e, struct kymo_err *err)
{
    int r = read_fields(e, err);
    if (r == 0)
        r = find_track(e, e->table->kind, &e->track, err);
    if (r == 0 && e->table->kind == SERVE_KIND_instruction && serve_dir_of(e->q)->has_split)
        r = find_track(e, SERVE_KIND_instruction_split, &e->split, err);
    else if (r == 0 && e->table->kind == SERVE_KIND_dma_engine)
        r = find_track(e, SERVE_KIND_dma_queue, &e->split, err);
    if (r < 0)
        return r;
    const char *op = operator_of(e);
    put(e, "table", json_string(e->table->name));
    put(e, "id", json_integer(e->id));
    put(e, "track", e->track ? json_string(e->track->id) : json_null());
    put(e, "tracks", tracks_of(e));
    put(e, "operator", op ? json_string(op) : json_null());
    put(e, "hierarchy", hierarchy(op));
    r = put_neighbours(e, err);
    if (r == 0)
        r = put_transfer(e, err);
    if (r == 0)
        r = put_wait(e, err);
    if (r == 0)
        r = put_sources(e, err);
    put(e, "fields", json_incref(e->fields));
    return r;
}

int op_event(struct serve_request *q, struct kymo_err *err)
{
    struct event e = {.q = q, .answer = json_object()};
    int r = op_event_read(q, &e.table, &e.id, err);
    if (r == 0)
        r = answer(&e, err);
    json_decref(e.fields);
    if (r == 0)
        return serve_answer_json(q, e.answer, err);
    json_decref(e.answer);
    return r;
}
