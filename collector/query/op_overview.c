/* What a directory has: extent, tracks, tables, operators, settings, and what is not there and why. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/json_text.h"
#include "collector/query/op_common.h"
#include "collector/query/query_files.h"
#include "collector/query/query_views.h"
#include "collector/query/serve_ops.h"
#include "collector/query/serve_series.h"
#include "formats/schema/schema.h"

#define OPERATORS_MAX 20000
#define SQL_MAX (1u << 20)
#define NOTES_MAX 100
#define NOTE_CHARACTERS "2000"

static json_t *text_or_null(const char *text)
{
    return text ? json_string(text) : json_null();
}

static json_t *track_json(const char *id, const char *group, const char *kind, const char *label)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:n, s:n, s:n, s:n, s:n, s:n, s:n, s:n}", "id", id, "group", group, "kind",
                     kind, "label", label, "engine", "pcore", "table", "dma", "split", "unit", "parts", "absent");
}

static void put(json_t *o, const char *key, json_t *value)
{
    if (!o || json_object_set_new(o, key, value) < 0)
        return;
}

static json_t *event_track(const struct serve_track *t)
{
    const struct serve_kind_row *k = &serve_kinds[t->kind];
    json_t *o = track_json(t->id, k->group, k->name, t->label);
    put(o, "form", json_string("events"));
    put(o, "events", json_integer(t->events));
    put(o, "engine", text_or_null(t->engine));
    put(o, "pcore", t->pcore < 0 ? json_null() : json_integer(t->pcore));
    put(o, "table", text_or_null(k->table));
    put(o, "dma", text_or_null(k->dma));
    put(o, "split", text_or_null(t->split));
    return o;
}

static int add_events(const struct serve_dir *d, const char *group, json_t *list)
{
    int r = 0;
    for (size_t i = 0; i < d->n_tracks && r == 0; i++)
        if (!strcmp(serve_kinds[d->tracks[i].kind].group, group))
            r = json_array_append_new(list, event_track(&d->tracks[i]));
    return r;
}

static json_t *series_track(const struct serve_series *s)
{
    json_t *o = track_json(s->id, s->row->group, "series", s->label);
    put(o, "form", json_string("series"));
    put(o, "unit", json_string(s->row->unit));
    put(o, "pcore", s->pcore < 0 ? json_null() : json_integer(s->pcore));
    put(o, "table", json_string(s->row->table));
    if (s->row->n_parts > 1) {
        json_t *parts = json_array();
        for (size_t i = 0; i < s->row->n_parts; i++)
            (void)json_array_append_new(parts, json_string(s->row->parts[i].name));
        put(o, "parts", parts);
    }
    put(o, "absent", text_or_null(s->absent));
    return o;
}

static int add_series(const struct serve_series_list *series, const char *group, json_t *list)
{
    int r = 0;
    for (size_t i = 0; i < series->n && r == 0; i++)
        if (!strcmp(series->items[i].row->group, group))
            r = json_array_append_new(list, series_track(&series->items[i]));
    return r;
}

/* Where nothing was captured of host-device DMA, one track says why. */
static int add_absent_host(struct serve_request *q, json_t *list, struct kymo_err *err)
{
    const struct serve_dir *d = serve_dir_of(q);
    for (size_t i = 0; i < d->n_tracks; i++)
        if (d->tracks[i].kind == SERVE_KIND_host_dma)
            return 0;
    json_t *rows;
    int r = sql_objects(serve_sql_of(q),
                        "SELECT details AS why FROM k.\"TimelineWarning\" WHERE kind = 'host_dma_not_captured' LIMIT 1",
                        NULL, 0, 1, &rows, NULL, err);
    if (r < 0)
        return r;
    const char *why = json_string_value(json_object_get(json_array_get(rows, 0), "why"));
    json_t *o = track_json("host_dma:Host-device DMA", "host_dma", "host_dma", "Host-device DMA");
    put(o, "form", json_string("events"));
    put(o, "events", json_integer(0));
    put(o, "table", json_string("HostDmaTransfer"));
    put(o, "absent",
        json_string(why ? why : "This profile has no trace of host-device DMA engines, and does not say why."));
    json_decref(rows);
    return json_array_append_new(list, o) < 0 ? kymo_err_set(err, -ENOMEM, "no memory for tracks") : 0;
}

static int make_tracks(struct serve_request *q, json_t **ret, struct kymo_err *err)
{
    static const char *const groups[] = {"engine", "flops",   "dma",       "throughput", "host_dma", "collective",
                                         "memory", "pending", "semaphore", "throttle",   "error"};
    const struct serve_dir *d = serve_dir_of(q);
    json_t *list = json_array();
    int r = 0;
    for (size_t i = 0; i < sizeof groups / sizeof *groups && r == 0; i++) {
        r = add_events(d, groups[i], list) < 0 ? kymo_err_set(err, -ENOMEM, "no memory for tracks") : 0;
        if (r == 0 && !strcmp(groups[i], "host_dma"))
            r = add_absent_host(q, list, err);
        if (r == 0 && add_series(d->series, groups[i], list) < 0)
            r = kymo_err_set(err, -ENOMEM, "no memory for tracks");
    }
    if (r < 0)
        json_decref(list);
    else
        *ret = list;
    return r;
}

/* A file's name and its rows, to those of its table. */
static int add_rows(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    char *path KYMO_FREE = kymo_strndup(c[0].text, c[0].len);
    const char *file = path ? strrchr(path, '/') : NULL, *table;
    size_t n;
    if (!path)
        return kymo_err_set(err, -ENOMEM, "no memory for a table");
    if (!file || !query_files_is_table(file + 1, &table, &n))
        return 0;
    json_t *rows = json_object_getn(ctx, table, n);
    if (rows)
        (void)json_integer_set(rows, json_integer_value(rows) + c[1].i);
    return 0;
}

/* The files of tables that can be read, as a list of DuckDB's. */
static int list_files(const struct query_files *files, const char *place, json_t *tables, struct kymo_buf *b)
{
    int r = kymo_buf_printf(b, "SELECT file_name, num_rows::BIGINT FROM parquet_file_metadata([");
    const char *comma = "";
    for (size_t i = 0; i < files->n && r == 0; i++) {
        const struct query_file *f = &files->items[i];
        if (!json_object_getn(tables, f->table, f->n))
            continue;
        r = kymo_buf_printf(b, "%s'%s/%s'", comma, place, f->name);
        comma = ", ";
    }
    return r < 0 ? r : kymo_buf_printf(b, "])");
}

/* By the files' ends alone. */
static int count_by_ends(struct serve_request *q, json_t *tables, struct kymo_err *err)
{
    char place[32];
    struct query_files files;
    struct kymo_buf b;
    (void)snprintf(place, sizeof place, "/proc/self/fd/%d", query_db_place(serve_dir_of(q)->db, 0));
    int r = json_object_size(tables) ? query_files_list(place, &files, err) : -ENODATA;
    if (r < 0)
        return r;
    kymo_buf_init(&b, SQL_MAX);
    r = list_files(&files, place, tables, &b);
    if (r == 0)
        r = sql_run(serve_sql_of(q), (const char *)b.data, NULL, 0, add_rows, tables, err);
    kymo_buf_done(&b);
    query_files_done(&files);
    return r;
}

static int count_by_table(struct serve_request *q, json_t **ret, struct kymo_err *err)
{
    const struct serve_dir *d = serve_dir_of(q);
    struct kymo_buf b;
    const char *comma = "SELECT ";
    kymo_buf_init(&b, SQL_MAX);
    int r = 0;
    for (int t = 0; t < KYMO_T_MAX && r == 0; t++) {
        const char *name = kymo_schema_table((enum kymo_table_id)t)->name;
        if (!d->has_table[t])
            continue;
        r = kymo_buf_printf(&b, "%s(SELECT count(*) FROM main.\"%s\") AS \"%s\"", comma, name, name);
        comma = ", ";
    }
    json_t *rows = NULL;
    r = r < 0 ? kymo_err_set(err, r, "no memory for a statement")
              : sql_objects(serve_sql_of(q), b.len ? (const char *)b.data : "SELECT 1", NULL, 0, 1, &rows, NULL, err);
    kymo_buf_done(&b);
    if (r == 0)
        *ret = op_first(rows);
    return r;
}

/* Rows of each table that has a file. */
static int make_tables(struct serve_request *q, json_t **ret, struct kymo_err *err)
{
    const struct serve_dir *d = serve_dir_of(q);
    json_t *tables = json_object();
    for (int t = 0; t < KYMO_T_MAX; t++)
        if (d->has_table[t])
            (void)json_object_set_new(tables, kymo_schema_table((enum kymo_table_id)t)->name, json_integer(0));
    int r = count_by_ends(q, tables, NULL);
    if (r == 0) {
        *ret = tables;
        return 0;
    }
    json_decref(tables);
    return r == -ECANCELED ? kymo_err_set(err, r, "nobody wants the answer any more") : count_by_table(q, ret, err);
}

static int make_operators(struct serve_request *q, json_t **ret, struct kymo_err *err)
{
    /* The sums have the first instruction of each operator in each stretch of time. */
    static const char sums[] =
        "SELECT operator AS color FROM k.\"WindowSums\" WHERE kind = 'operation' AND operator <> ''"
        " GROUP BY color HAVING min(first_ts) IS NOT NULL ORDER BY min(first_ts), color",
                      events[] = "SELECT color FROM k.src_instruction WHERE color <> '' GROUP BY color ORDER BY"
                                 " min(start_ts), color";
    json_t *rows, *names = json_array();
    int r = sql_objects(serve_sql_of(q), serve_dir_of(q)->sums[SERVE_SUMS_INSTRUCTIONS] ? sums : events, NULL, 0,
                        OPERATORS_MAX, &rows, NULL, err);
    if (r < 0) {
        json_decref(names);
        return r;
    }
    for (size_t i = 0; i < json_array_size(rows); i++)
        (void)json_array_append(names, json_object_get(json_array_get(rows, i), "color"));
    json_decref(rows);
    *ret = names;
    return 0;
}

static void miss(json_t *list, const char *what, const char *why)
{
    (void)json_array_append_new(list, json_pack("{s:s, s:s}", "what", what, "why", why));
}

static json_t *make_missing(const struct serve_dir *d)
{
    static const struct {
        enum kymo_table_id table;
        const char *what, *why;
    } rows[] = {
        {KYMO_T_INSTRUCTION, "instructions",
         "There is no table Instruction: engines, operators and waits are not known."},
        {KYMO_T_FLOPS_USAGE, "flops",
         "There is no table FlopsUsage, which holds MFU and HFU over time; kymo process makes it."},
        {KYMO_T_WAIT_CAUSE, "why",
         "There is no table WaitCause, which holds what each wait was for; kymo process makes it."},
        {KYMO_T_FLOW, "dependencies",
         "There is no table Flow: the program carried no dependencies, or they were left out."},
        {KYMO_T_LOSS_LEDGER, "losses", "There is no table LossLedger: nobody counted what was lost."},
        {KYMO_T_TIMELINE_WARNING, "bands", "There is no table TimelineWarning; kymo process makes it."},
    };
    const struct query_bad *bad = query_db_bad(d->db);
    json_t *list = json_array();
    for (size_t i = 0; i < bad->n; i++)
        miss(list, bad->items[i].table, bad->items[i].why);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *name = kymo_schema_table(rows[i].table)->name, *why = query_bad_why(bad, name, strlen(name));
        if (!d->has_table[rows[i].table])
            miss(list, rows[i].what, why ? why : rows[i].why);
    }
    if (d->has_table[KYMO_T_INSTRUCTION] && d->summed[SERVE_SUMS_INSTRUCTIONS] == 0)
        miss(list, "instructions", "The table Instruction has no rows: engines, operators and waits are not known.");
    if (!d->has_split && d->has_table[KYMO_T_INSTRUCTION])
        miss(list, "split", "Instruction has no column executed_by: sequencer and compute side cannot be told apart.");
    return list;
}

static int one_row(struct serve_request *q, const char *text, json_t **ret, struct kymo_err *err)
{
    json_t *rows;
    int r = sql_objects(serve_sql_of(q), text, NULL, 0, 1, &rows, NULL, err);
    if (r == 0)
        *ret = op_first(rows);
    return r;
}

/* What the table Warning says: how many, and the first of them in full. */
static int add_warnings(struct serve_request *q, json_t *o, struct kymo_err *err)
{
    static const char text[] = "SELECT left(replace(coalesce(category, ''), chr(0), ' '), " NOTE_CHARACTERS
                               ") AS category, left(replace(coalesce(message, ''), chr(0), ' '), " NOTE_CHARACTERS
                               ") AS message FROM k.\"Warning\" ORDER BY category, message";
    json_t *part = NULL, *notes;
    int r = one_row(q, "SELECT count(*) AS n FROM k.\"Warning\"", &part, err);
    if (r < 0)
        return r;
    put(o, "warnings", json_incref(json_object_get(part, "n")));
    json_decref(part);
    r = sql_objects(serve_sql_of(q), text, NULL, 0, NOTES_MAX, &notes, NULL, err);
    if (r == 0)
        put(o, "notes", notes);
    return r;
}

static int make(struct serve_request *q, json_t **ret, struct kymo_err *err)
{
    const struct serve_dir *d = serve_dir_of(q);
    json_t *o = json_pack("{s:{s:I, s:I}, s:b}", "extent", "from", (json_int_t)d->from, "to", (json_int_t)d->to,
                          "own_levels", d->own_levels);
    json_t *part = NULL, *cores = json_array();
    for (int i = 0; i < d->cores; i++)
        (void)json_array_append_new(cores, json_integer(i));
    put(o, "cores", cores);
    int r = make_tables(q, &part, err);
    if (r == 0) {
        put(o, "tables", part);
        r = make_tracks(q, &part, err);
    }
    if (r == 0) {
        put(o, "tracks", part);
        r = make_operators(q, &part, err);
    }
    if (r == 0) {
        put(o, "operators", part);
        r = add_warnings(q, o, err);
    }
    if (r == 0)
        r = one_row(q, "SELECT * FROM main.\"Metadata\"", &part, err);
    if (r == 0) {
        put(o, "settings", part);
        r = one_row(q, "SELECT * FROM main.\"Summary\"", &part, err);
    }
    if (r == 0) {
        put(o, "summary", part);
        put(o, "missing", make_missing(d));
        *ret = o;
        return 0;
    }
    json_decref(o);
    return r;
}

/* It does not change while the directory is the same. */
int op_overview(struct serve_request *q, struct kymo_err *err)
{
    struct serve_dir *d = serve_dir_of(q);
    json_t *o = NULL;
    int r = 0;
    (void)pthread_mutex_lock(&d->lock);
    if (!d->overview.len) {
        r = make(q, &o, err);
        if (r == 0 && json_print(o, &d->overview) < 0) {
            r = kymo_err_set(err, -ENOMEM, "no memory for an overview");
            kymo_buf_reset(&d->overview);
        }
        json_decref(o);
    }
    (void)pthread_mutex_unlock(&d->lock);
    if (r == 0)
        r = serve_head(q, 200, "application/json", err);
    return r < 0 ? r : serve_data(q, d->overview.data, d->overview.len, err);
}
