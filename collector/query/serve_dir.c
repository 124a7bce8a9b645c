#include "collector/query/serve_dir.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "collector/query/query_internal.h"
#include "collector/query/query_views.h"
#include "collector/query/serve_frame.h"
#include "collector/query/serve_own_scan.h"
#include "collector/query/serve_series.h"
#include "collector/query/serve_tracks.h"
#include "collector/query/serve_waits.h"

#define SQL_MAX (1u << 20)
#define COLUMNS_MAX 65536

const struct serve_kind_row serve_kinds[SERVE_KIND_MAX] = {
#define X(name, group, dma, split, table, levels) {#name, group, dma, split, table, levels},
    SERVE_KINDS(X)
#undef X
};

struct found_column {
    char *table, *name, *type;
};

struct found {
    struct found_column *columns;
    size_t n, cap;
};

static int keep_column(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    struct found *f = ctx;
    void *list = f->columns;
    if (kymo_grow(&list, &f->cap, f->n + 1, COLUMNS_MAX, sizeof *f->columns) < 0)
        return kymo_err_set(err, -E2BIG, "more than %d columns in all tables", COLUMNS_MAX);
    f->columns = list;
    struct found_column *k = &f->columns[f->n++];
    *k = (struct found_column){kymo_strndup(c[0].text, c[0].len), kymo_strndup(c[1].text, c[1].len),
                               kymo_strndup(c[2].text, c[2].len)};
    return k->table && k->name && k->type ? 0 : kymo_err_set(err, -ENOMEM, "no memory for columns");
}

static void free_found(struct found *f)
{
    for (size_t i = 0; i < f->n; i++) {
        kymo_free(f->columns[i].table);
        kymo_free(f->columns[i].name);
        kymo_free(f->columns[i].type);
    }
    kymo_free(f->columns);
}

static const char *type_of(const struct found *f, const char *table, const char *column)
{
    for (size_t i = 0; i < f->n; i++)
        if (!strcasecmp(f->columns[i].table, table) && !strcasecmp(f->columns[i].name, column))
            return f->columns[i].type;
    return NULL;
}

/* A view in the schema's shape. Values of another type are cast; those that cannot be are null. */
static int shape_table(const struct kymo_table *t, const struct found *f, struct kymo_buf *b)
{
    int r = kymo_buf_printf(b, "CREATE VIEW k.\"%s\" AS SELECT ", t->name);
    for (size_t i = 0; i < t->column_count && r == 0; i++) {
        const char *name = t->columns[i].name, *want = query_views_type(t->columns[i].type);
        const char *have = type_of(f, t->name, name), *comma = i ? ", " : "";
        if (!have)
            r = kymo_buf_printf(b, "%sNULL::%s AS \"%s\"", comma, want, name);
        else if (!strcmp(have, want))
            r = kymo_buf_printf(b, "%s\"%s\"", comma, name);
        else
            r = kymo_buf_printf(b, "%sTRY_CAST(\"%s\" AS %s) AS \"%s\"", comma, name, want, name);
    }
    return r < 0 ? r : kymo_buf_printf(b, " FROM main.\"%s\"", t->name);
}

/* Times and their like are numbers, or texts of such; what else a column may be tells nothing. */
static bool is_number(const char *type)
{
    static const char *const types[] = {"BIGINT",  "INTEGER",  "SMALLINT",  "TINYINT",  "HUGEINT",
                                        "UBIGINT", "UINTEGER", "USMALLINT", "UTINYINT", "UHUGEINT",
                                        "DOUBLE",  "FLOAT",    "VARCHAR"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i], type))
            return true;
    return !strncmp(type, "DECIMAL(", 8);
}

/* Without these nothing can be shown of instructions, and what is told of them elsewhere would stand alone. */
static int check_instructions(const struct serve_dir *d, const struct found *f, struct kymo_err *err)
{
    static const char *const needed[] = {"start_ts", "end_ts"};
    for (size_t i = 0; d->has_table[KYMO_T_INSTRUCTION] && i < sizeof needed / sizeof *needed; i++) {
        const char *type = type_of(f, "Instruction", needed[i]);
        if (!type)
            return kymo_err_set(err, -ENOMSG, "Instruction.parquet: has no column %s", needed[i]);
        if (!is_number(type))
            return kymo_err_set(err, -ENOMSG,
                                "Instruction.parquet: the column %s is of type %.64s, where numbers belong", needed[i],
                                type);
    }
    return 0;
}

static int shape_tables(const struct sql *s, const struct found *f, struct kymo_err *err)
{
    struct kymo_buf b;
    kymo_buf_init(&b, SQL_MAX);
    int r = sql_run(s, "CREATE SCHEMA k", NULL, 0, NULL, NULL, err);
    for (int t = 0; t < KYMO_T_MAX && r == 0; t++) {
        kymo_buf_reset(&b);
        r = shape_table(kymo_schema_table((enum kymo_table_id)t), f, &b);
        r = r < 0 ? kymo_err_set(err, r, "no memory for a view")
                  : sql_run(s, (const char *)b.data, NULL, 0, NULL, NULL, err);
    }
    kymo_buf_done(&b);
    return r;
}

static int keep_table(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    struct serve_dir *d = ctx;
    (void)err;
    for (int t = 0; t < KYMO_T_MAX; t++) {
        const char *name = kymo_schema_table((enum kymo_table_id)t)->name;
        if (strlen(name) == c[0].len && !memcmp(name, c[0].text, c[0].len))
            d->has_table[t] = true;
    }
    return 0;
}

static int find_cores(struct serve_dir *d, const struct sql *s, struct kymo_err *err)
{
    static const char told[] = "SELECT max(num_physical_cores)::BIGINT FROM k.\"Metadata\"";
    static const char seen[] = "SELECT greatest((SELECT max(pcore_idx) + 1 FROM k.\"Instruction\"),"
                               " (SELECT max(pcore_idx) + 1 FROM k.\"DmaPacketAggregated\"), 1)";
    int64_t n;
    int r = sql_numbers(s, told, NULL, 0, &n, 1, err);
    if (r == 0 && n < 1)
        r = sql_numbers(s, seen, NULL, 0, &n, 1, err);
    if (r == 0)
        d->cores = n < 1 ? 1 : n > SERVE_CORES_MAX ? SERVE_CORES_MAX : (int)n;
    return r;
}

/* LevelOfDetail knows of the long tables, and is shorter; kymo's own tells without being read. */
static int find_extent(struct serve_dir *d, const struct sql *s, struct kymo_err *err)
{
    static const char rest[] = "SELECT min(f), max(t) FROM (SELECT min(start_ts) f, max(end_ts) t FROM k.\"CcOp\""
                               " UNION ALL SELECT min(timestamp), max(timestamp) FROM k.\"Error\""
                               " UNION ALL SELECT $1, $2)";
    static const char levels[] =
        "SELECT min(f), max(t) FROM (SELECT min(first_ts) f, max(last_ts) t FROM k.\"LevelOfDetail\""
        " UNION ALL SELECT min(start_ts), max(end_ts) FROM k.\"CcOp\""
        " UNION ALL SELECT min(timestamp), max(timestamp) FROM k.\"Error\")";
    static const char events[] =
        "SELECT min(f), max(t) FROM (SELECT min(start_ts) f, max(end_ts) t FROM k.\"Instruction\""
        " UNION ALL SELECT min(start_ts), max(end_ts) FROM k.\"DmaPacket\""
        " UNION ALL SELECT min(start_ts), max(end_ts) FROM k.\"DmaPacketAggregated\""
        " UNION ALL SELECT min(start_ts), max(end_ts) FROM k.\"HostDmaTransfer\""
        " UNION ALL SELECT min(start_ts), max(end_ts) FROM k.\"CcOp\""
        " UNION ALL SELECT min(timestamp), max(timestamp) FROM k.\"Error\")";
    int64_t v[2], from, to;
    int r = serve_own_extent(d, &from, &to)
                ? sql_numbers(s, rest, (struct sql_bind[]){SQL_INT(from), SQL_INT(to)}, 2, v, 2, err)
                : sql_numbers(s, d->own_levels ? levels : events, NULL, 0, v, 2, err);
    if (r < 0)
        return r;
    d->from = v[0] == INT64_MIN || v[0] > 0 ? 0 : v[0];
    d->to = v[1] == INT64_MIN || v[1] < d->from ? d->from : v[1];
    return find_cores(d, s, err);
}

static const struct {
    const char *kind, *table;
} sums_of[SERVE_SUMS_MAX] = {
    [SERVE_SUMS_PACKETS] = {"dma_engine", "DmaPacket"},
    [SERVE_SUMS_TRANSFERS] = {"dma_transfer", "DmaPacketAggregated"},
    [SERVE_SUMS_HOST] = {"host_dma", "HostDmaTransfer"},
    [SERVE_SUMS_INSTRUCTIONS] = {"operation", "Instruction"},
    [SERVE_SUMS_WAITS] = {"wait", "WaitCause"}, /* of a table of its own */
};

static int keep_peak(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    double *peak = ctx;
    (void)err;
    *peak = c[0].null || !(c[0].f > 0) ? 0 : c[0].f;
    return 0;
}

static int find_peak(struct serve_dir *d, const struct sql *s, struct kymo_err *err)
{
    static const char text[] = "SELECT 2.0::DOUBLE * tensor_engine_num_rows * tensor_engine_num_cols *"
                               " tensor_engine_clock_freq::DOUBLE FROM k.\"Metadata\" LIMIT 1";
    return sql_run(s, text, NULL, 0, keep_peak, &d->peak, err);
}

static int keep_sums(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    struct serve_dir *d = ctx;
    (void)err;
    for (size_t i = 0; i < SERVE_SUMS_MAX; i++)
        /* Of other events than those that are there, they tell nothing. */
        if (strlen(sums_of[i].kind) == c[0].len && !memcmp(sums_of[i].kind, c[0].text, c[0].len))
            d->sums[i] = c[1].null || c[2].null || c[2].i != d->summed[i] ? 0 : c[1].i;
    return 0;
}

/* Rows of the tables that the sums are about. */
static int count_summed(struct serve_dir *d, const struct sql *s, struct kymo_err *err)
{
    struct kymo_buf b;
    kymo_buf_init(&b, SQL_MAX);
    int r = 0;
    for (size_t i = 0; i < SERVE_SUMS_MAX && r == 0; i++)
        r = kymo_buf_printf(&b, "%s(SELECT count(*) FROM k.\"%s\")", i ? ", " : "SELECT ", sums_of[i].table);
    r = r < 0 ? kymo_err_set(err, r, "no memory for a statement")
              : sql_numbers(s, (const char *)b.data, NULL, 0, d->summed, SERVE_SUMS_MAX, err);
    kymo_buf_done(&b);
    return r;
}

/* Before 1.2.0 the sums had the counter's word for all waits: where that is wrong, events are read instead. */
static int check_sums(struct serve_dir *d, const struct sql *s, struct kymo_err *err)
{
    static const char text[] = "SELECT (max(TRY_CAST(split_part(v, '.', 1) AS INTEGER) * 1000 +"
                               " TRY_CAST(split_part(v, '.', 2) AS INTEGER)) >= 1002)::BIGINT"
                               " FROM (SELECT kymo_schema_version AS v FROM k.\"Metadata\")";
    int64_t current = 1;
    int r = d->waits ? sql_numbers(s, text, NULL, 0, &current, 1, err) : 0;
    if (r == 0 && current != 1)
        d->sums[SERVE_SUMS_INSTRUCTIONS] = 0;
    return r;
}

/* When the waits have been read. */
static int find_sums(struct serve_dir *d, const struct sql *s, struct kymo_err *err)
{
    static const char text[] =
        "SELECT kind, max(bucket_ns), sum(event_count)::BIGINT FROM k.\"WindowSums\" GROUP BY kind UNION ALL"
        " SELECT 'wait', max(bucket_ns), sum(event_count)::BIGINT FROM k.\"WaitSums\"";
    /* With the order of kymo's own tables, which the pieces of a window need. */
    int r = count_summed(d, s, err);
    if (r == 0 && d->own_levels)
        r = sql_run(s, text, NULL, 0, keep_sums, d, err);
    return r < 0 ? r : check_sums(d, s, err);
}

/* Tables that cannot be read are as those that are not there; without instructions there is nothing to show. */
static int stand_in(const struct serve_dir *d, const struct sql *s, struct kymo_err *err)
{
    const struct query_bad *bad = query_db_bad(d->db);
    struct kymo_buf b;
    int r = 0;
    kymo_buf_init(&b, SQL_MAX);
    for (size_t i = 0; i < bad->n && r == 0; i++) {
        const struct kymo_table *table = kymo_schema_find(bad->items[i].table);
        if (table == kymo_schema_table(KYMO_T_INSTRUCTION))
            r = kymo_err_set(err, -ENOMSG, "%s", bad->items[i].why);
        if (r < 0 || !table)
            continue;
        kymo_buf_reset(&b);
        r = query_views_nothing(&b, table);
        r = r < 0 ? kymo_err_set(err, r, "no memory for a view")
                  : sql_run(s, (const char *)b.data, NULL, 0, NULL, NULL, err);
    }
    kymo_buf_done(&b);
    return r;
}

/* Somebody has looked, and no file is damaged: then they cannot be read for another reason, and what was counted is all
 * that is known. */
static int read_waits(struct serve_dir *d, const struct sql *s, struct kymo_err *err)
{
    int r = serve_waits_read(s, &d->waits, err);
    return serve_dir_failed(r) && d->looked_stamp ? 0 : r;
}

static int prepare(struct serve_dir *d, const struct sql *s, struct kymo_err *err)
{
    struct found f = {0};
    int r = stand_in(d, s, err);
    if (r == 0)
        r = sql_run(s, "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE schema_name = 'main'",
                    NULL, 0, keep_column, &f, err);
    if (r == 0)
        r = shape_tables(s, &f, err);
    d->has_split = type_of(&f, "Instruction", "executed_by") != NULL;
    if (r == 0)
        r = sql_run(
            s, "SELECT view_name FROM duckdb_views() WHERE schema_name = 'main' AND contains(sql, 'read_parquet(')",
            NULL, 0, keep_table, d, err);
    if (r == 0)
        r = check_instructions(d, &f, err);
    free_found(&f);
    d->own_levels = d->has_table[KYMO_T_LEVEL_OF_DETAIL];
    d->has_split = d->has_split && d->has_table[KYMO_T_INSTRUCTION];
    if (r == 0)
        r = find_extent(d, s, err);
    if (r == 0)
        r = find_peak(d, s, err);
    if (r == 0)
        r = serve_own_scan_register(d, s->connection, err);
    if (r == 0)
        r = read_waits(d, s, err);
    if (r == 0)
        r = find_sums(d, s, err);
    if (r == 0)
        r = serve_waits_register(d->waits, s, err);
    if (r == 0)
        r = serve_tracks_views(d, s, err);
    if (r == 0)
        r = serve_tracks_find(d, s, err);
    if (r == 0 && !(d->series = KYMO_NEW(struct serve_series_list)))
        r = kymo_err_set(err, -ENOMEM, "no memory for series");
    return r < 0 ? r : serve_series_find(d, s, d->series, err);
}

int64_t serve_dir_bucket(const struct serve_dir *d, enum serve_kind kind, int64_t most)
{
    const int64_t *widths = d->buckets[kind];
    int64_t best = widths[0] ? widths[0] : -1;
    for (int i = 1; i < SERVE_LEVELS_MAX && widths[i] && widths[i] <= most; i++)
        best = widths[i];
    return best;
}

static void dir_freep(struct serve_dir **d)
{
    *d = serve_dir_free(*d);
}

int serve_dir_connect(struct serve_dir *d, duckdb_connection *ret, struct kymo_err *err)
{
    return query_db_connect(d->db, ret, err);
}

static int open_own(struct serve_dir *d, struct kymo_err *err)
{
    char place[32];
    (void)snprintf(place, sizeof place, "/proc/self/fd/%d", query_db_place(d->db, 0));
    if (!(d->own = KYMO_NEW(struct serve_own)))
        return kymo_err_set(err, -ENOMEM, "no memory for tables");
    return serve_own_open(d->own, place, query_db_bad(d->db), err);
}

bool serve_dir_failed(int error)
{
    return error == -EIO || error == -EBADMSG;
}

static int add_found(struct serve_dir *d, struct query_bad *found, struct kymo_err *err)
{
    char *instructions = query_bad_take(found, kymo_schema_table(KYMO_T_INSTRUCTION)->name);
    int r = 0;
    if (instructions) {
        kymo_free(d->bad_instructions);
        d->bad_instructions = instructions;
    }
    for (size_t i = 0; i < found->n && r == 0; i++)
        r = query_bad_add(&d->damage, found->items[i].table, strlen(found->items[i].table), found->items[i].why, err);
    return r;
}

static int look(struct serve_dir *d, const struct query_limits *limits, const struct query_damage_watch *watch,
                struct kymo_err *err)
{
    struct query_bad found = {0};
    uint64_t stamp = query_damage_stamp(d->path);
    if (d->damage.n > d->n_left_out || (stamp == d->looked_stamp && d->look_at == SIZE_MAX))
        return 0;
    if (stamp != d->looked_stamp) {
        d->look_at = 0;
        kymo_free(d->bad_instructions);
        d->bad_instructions = NULL;
    }
    d->looked_stamp = stamp;
    int r =
        query_damage_find(d->path, NULL, d->db ? query_db_bad(d->db) : NULL, limits, watch, &d->look_at, &found, err);
    if (r == 0)
        d->look_at = SIZE_MAX;
    /* What was found before the search was stopped is true, too. */
    int added = add_found(d, &found, r < 0 ? NULL : err);
    query_bad_done(&found);
    return r < 0 && d->damage.n == d->n_left_out ? r : added;
}

int serve_dir_look(struct serve_dir *d, const struct query_limits *limits, const struct query_damage_watch *watch,
                   bool *ret_more, struct kymo_err *err)
{
    (void)pthread_mutex_lock(&d->damage_lock);
    int r = look(d, limits, watch, err);
    *ret_more = d->damage.n > d->n_left_out;
    const char *why = *ret_more ? d->damage.items[d->n_left_out].why : d->bad_instructions ? d->bad_instructions : NULL;
    if (r == 0 && why)
        r = kymo_err_set(err, -EBADMSG, "%s", why);
    (void)pthread_mutex_unlock(&d->damage_lock);
    return r;
}

/* As many as an answer can tell. */
static int list_names(struct serve_dir *d, const struct query_bad *damage, struct kymo_err *err)
{
    struct kymo_buf names;
    int r = 0;
    kymo_buf_init(&names, SERVE_LEFT_OUT_MAX);
    for (size_t i = 0; i < damage->n && r == 0; i++)
        r = kymo_buf_printf(&names, "%s%s", i ? "," : "", damage->items[i].table);
    if (names.len && !(d->left_out = kymo_strndup((const char *)names.data, names.len)))
        r = kymo_err_set(err, -ENOMEM, "no memory for a directory");
    kymo_buf_done(&names);
    return r == -ENOBUFS ? 0 : r;
}

static int copy_damage(struct serve_dir *d, const struct serve_dir *before, struct kymo_err *err)
{
    int r = list_names(d, &before->damage, err);
    for (size_t i = 0; i < before->damage.n && r == 0; i++) {
        const struct query_bad_table *t = &before->damage.items[i];
        r = query_bad_add(&d->damage, t->table, strlen(t->table), t->why, err);
    }
    if (before->bad_instructions && !(d->bad_instructions = kymo_strdup(before->bad_instructions)))
        r = kymo_err_set(err, -ENOMEM, "no memory for a directory");
    d->n_left_out = d->damage.n;
    d->opened_stamp = query_damage_stamp(d->path);
    d->looked_stamp = before->looked_stamp;
    d->look_at = before->look_at;
    return r;
}

static struct serve_dir *make(const char *path)
{
    struct serve_dir *d = KYMO_NEW(struct serve_dir);
    if (!d)
        return NULL;
    (void)pthread_mutex_init(&d->lock, NULL);
    (void)pthread_mutex_init(&d->damage_lock, NULL);
    kymo_buf_init(&d->overview, SERVE_OVERVIEW_MAX);
    return (d->path = kymo_strdup(path)) ? d : serve_dir_free(d);
}

static int fill(struct serve_dir *d, const struct query_limits *limits, struct kymo_err *err)
{
    struct query_limits own = *limits;
    own.skip_bad = true;
    own.known_bad = &d->damage;
    int r = query_db_open(d->path, &own, &d->db, err);
    struct sql s = {0};
    if (r == 0)
        r = open_own(d, err);
    if (r == 0)
        r = serve_dir_connect(d, &s.connection, err);
    if (r == 0)
        r = prepare(d, &s, err);
    if (s.connection)
        duckdb_disconnect(&s.connection);
    return r;
}

int serve_dir_open(const char *path, const struct query_limits *limits, const struct serve_dir *before,
                   struct serve_dir **ret, struct kymo_err *err)
{
    struct serve_dir *d KYMO_CLEANUP(dir_freep) = make(path);
    struct kymo_err why = {0}, found = {0};
    bool more = false;
    int r = !d ? kymo_err_set(err, -ENOMEM, "no memory for a directory") : before ? copy_damage(d, before, err) : 0;
    if (r < 0)
        return r;
    r = fill(d, limits, &why);
    int looked = serve_dir_failed(r) ? serve_dir_look(d, limits, NULL, &more, &found) : 0;
    /* Where nothing is damaged, the second time goes without what can be done without. */
    if (serve_dir_failed(r) && !before && (more || looked == 0))
        return serve_dir_open(path, limits, d, ret, err);
    if (looked == -EBADMSG)
        return kymo_err_set(err, -EBADMSG, "%s", found.text);
    if (r < 0)
        return kymo_err_lines(err, r, why.text);
    *ret = KYMO_TAKE(d);
    return 0;
}

struct serve_dir *serve_dir_free(struct serve_dir *d)
{
    if (!d)
        return NULL;
    for (size_t i = 0; i < d->n_tracks; i++) {
        kymo_free(d->tracks[i].label);
        kymo_free(d->tracks[i].id);
        kymo_free(d->tracks[i].engine);
    }
    kymo_free(d->tracks);
    if (d->series)
        serve_series_done(d->series);
    kymo_free(d->series);
    if (d->own)
        serve_own_done(d->own);
    kymo_free(d->own);
    kymo_buf_done(&d->overview);
    query_bad_done(&d->damage);
    kymo_free(d->bad_instructions);
    kymo_free(d->left_out);
    (void)pthread_mutex_destroy(&d->lock);
    (void)pthread_mutex_destroy(&d->damage_lock);
    query_db_free(d->db);
    serve_waits_free(d->waits);
    kymo_free(d->path);
    kymo_free(d);
    return NULL;
}
