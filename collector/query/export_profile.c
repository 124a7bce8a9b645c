#include "collector/query/export_profile.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "collector/query/query_files.h"
#include "formats/schema/schema.h"

#define SQL_MAX (1u << 20)

static int run_own(void *ctx, const char *sql, const struct query_row_sink *sink, struct kymo_err *err)
{
    return query_rows_run(ctx, sql, sink, err);
}

int export_profile_open(struct export_profile *p, const char *dir, const struct query_limits *limits,
                        struct kymo_err *err)
{
    *p = (struct export_profile){.dir = dir};
    int r = query_db_open(dir, limits, &p->db, err);
    if (r < 0)
        return r;
    p->run = run_own;
    p->ctx = p->db;
    int64_t cores = 0;
    /* A system profile has no Metadata, and no cores in its tracks. */
    r = query_db_integers(p->db, "SELECT coalesce(max(num_physical_cores), 1)::BIGINT FROM Metadata", &cores, 1, err);
    p->several_cores = cores > 1;
    return r;
}

void export_profile_done(struct export_profile *p)
{
    p->db = query_db_free(p->db);
}

bool export_profile_has(const struct export_profile *p, const char *table)
{
    DIR *dir = opendir(p->dir);
    bool found = false;
    const char *name;
    size_t n;
    for (const struct dirent *e; dir && !found && (e = readdir(dir));)
        found = query_files_is_table(e->d_name, &name, &n) && n == strlen(table) && !memcmp(name, table, n);
    if (dir)
        (void)closedir(dir);
    return found;
}

int export_profile_lacks(const struct export_profile *p, const char *table, struct kymo_err *err)
{
    return kymo_err_set(err, -ENODATA, "%s: no table %s there: %s", p->dir, table,
                        kymo_schema_find(table) ? "the profile holds no such activity" : "the schema has none either");
}

struct names {
    char list[EXPORT_TABLES_MAX][EXPORT_NAME_MAX];
    size_t count;
};

/* Several files of one table are one name. */
static void add_name(struct names *names, const char *file, bool (*is_shown)(const char *table))
{
    char name[EXPORT_NAME_MAX];
    const char *table;
    size_t n;
    if (!query_files_is_table(file, &table, &n) || n >= sizeof name || names->count == EXPORT_TABLES_MAX)
        return;
    (void)snprintf(name, sizeof name, "%.*s", (int)n, table);
    for (size_t i = 0; i < names->count; i++)
        if (!strcmp(names->list[i], name))
            return;
    if (is_shown(name))
        memcpy(names->list[names->count++], name, sizeof name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

int export_profile_list(const char *dir, bool (*is_shown)(const char *table), struct kymo_buf *out)
{
    struct names *names KYMO_FREE = KYMO_NEW(struct names);
    DIR *d = names ? opendir(dir) : NULL;
    int r = names ? 0 : -ENOMEM;
    for (const struct dirent *e; d && (e = readdir(d));)
        add_name(names, e->d_name, is_shown);
    if (d)
        (void)closedir(d);
    if (names && names->count)
        qsort(names->list, names->count, sizeof *names->list, by_name);
    for (size_t i = 0; names && i < names->count && r == 0; i++)
        r = kymo_buf_printf(out, "%s%s", i ? ", " : "", names->list[i]);
    return r;
}

static int take_columns(void *ctx, size_t columns, const char *const *names, const enum query_type *types)
{
    struct export_source *s = ctx;
    (void)types;
    s->columns = KYMO_NEW_ARRAY(char *, columns);
    for (size_t i = 0; s->columns && i < columns; i++) {
        s->columns[i] = kymo_strdup(names[i]);
        if (!s->columns[i])
            return -ENOMEM;
        s->column_count = i + 1;
    }
    return s->columns ? 0 : -ENOMEM;
}

static int no_row(void *ctx, size_t columns, const struct query_value *values)
{
    (void)ctx, (void)columns, (void)values;
    return 0;
}

static int read_columns(struct export_source *s, const struct export_profile *p, struct kymo_err *err)
{
    char sql[2 * EXPORT_NAME_MAX];
    const struct query_row_sink sink = {.begin = take_columns, .row = no_row, .ctx = s};
    (void)snprintf(sql, sizeof sql, "SELECT * FROM \"%s\" LIMIT 0", s->name);
    return p->run(p->ctx, sql, &sink, err);
}

bool export_source_has(const struct export_source *s, const char *column)
{
    for (size_t i = 0; i < s->column_count; i++)
        if (!strcmp(s->columns[i], column))
            return true;
    return false;
}

/* All of the words are columns. */
static bool has_all(const struct export_source *s, const char *words)
{
    char word[EXPORT_NAME_MAX];
    while (*words) {
        size_t n = strcspn(words, " ");
        (void)snprintf(word, sizeof word, "%.*s", (int)n, words);
        if (!export_source_has(s, word))
            return false;
        words += n + strspn(words + n, " ");
    }
    return true;
}

/* A table that the list does not know is shown by its times, on a track of its name. */
static const struct export_table *facts_of(const struct export_source *s, struct export_table *unknown)
{
    const struct export_table *known = export_tables_find(s->name);
    if (known)
        return known;
    *unknown = (struct export_table){
        .name = s->name,
        .start = export_source_has(s, "start_ts") ? "start_ts" : "timestamp",
        .end = export_source_has(s, "end_ts") ? "end_ts" : NULL,
    };
    return unknown;
}

static int put_track(struct kymo_buf *b, const char *template, const char *core)
{
    int r = 0;
    for (const char *at; r == 0 && (at = strstr(template, "$NC")); template = at + 3)
        r = kymo_buf_printf(b, "%.*s%s", (int)(at - template), template, core);
    return r < 0 ? r : kymo_buf_printf(b, "%s", template);
}

static int make_track(struct export_source *s, const struct export_profile *p, const struct export_table *t)
{
    bool core = p->several_cores && export_source_has(s, "pcore_idx"), named = t->track && has_all(s, t->columns);
    struct kymo_buf b;
    kymo_buf_init(&b, SQL_MAX);
    s->has_track_column = export_source_has(s, "timeline_track");
    int r = kymo_buf_printf(&b, "coalesce(%s", s->has_track_column ? "timeline_track, " : "");
    if (r == 0 && named)
        r = put_track(&b, t->track, core ? "coalesce('(nc' || pcore_idx || ')', '')" : "''");
    if (r == 0)
        r = kymo_buf_printf(&b, named ? ", '%s')" : "'%s')", s->name);
    s->track = r < 0 ? NULL : kymo_strdup((const char *)b.data);
    kymo_buf_done(&b);
    return s->track ? 0 : -ENOMEM;
}

/* What the range touches: an event that lasts counts when a part of it does, an instant when it lies within. */
static int make_condition(struct export_source *s, const struct export_range *range)
{
    if (range->whole)
        s->condition = kymo_strdup("");
    else if (*s->end)
        s->condition = kymo_asprintf(" WHERE \"%s\" < %" PRId64 " AND (\"%s\" > %" PRId64 " OR \"%s\" >= %" PRId64 ")",
                                     s->start, range->end, s->end, range->start, s->start, range->start);
    else
        s->condition = kymo_asprintf(" WHERE \"%s\" >= %" PRId64 " AND \"%s\" < %" PRId64, s->start, range->start,
                                     s->start, range->end);
    return s->condition ? 0 : -ENOMEM;
}

static bool is_table_name(const char *name)
{
    size_t n = 0;
    while (isalnum((unsigned char)name[n]) || name[n] == '_')
        n++;
    return n > 0 && !name[n] && n < EXPORT_NAME_MAX;
}

int export_source_open(struct export_source *s, const struct export_profile *p, const char *table,
                       const struct export_range *range, struct kymo_err *err)
{
    *s = (struct export_source){0};
    if (!is_table_name(table))
        return kymo_err_set(err, -EINVAL, "%s: not the name of a table", table);
    (void)snprintf(s->name, sizeof s->name, "%s", table);
    if (!export_profile_has(p, table))
        return export_profile_lacks(p, table, err);
    int r = read_columns(s, p, err);
    if (r < 0)
        return r;
    struct export_table unknown;
    const struct export_table *t = facts_of(s, &unknown);
    (void)snprintf(s->start, sizeof s->start, "%s", t->start);
    (void)snprintf(s->end, sizeof s->end, "%s", t->end ? t->end : "");
    if (!export_source_has(s, s->start) || (*s->end && !export_source_has(s, s->end)))
        return kymo_err_set(err, -EINVAL,
                            "%s has no times, so it is on no timeline; kymo query DIR --format csv '...' "
                            "writes it",
                            table);
    r = make_track(s, p, t);
    if (r == 0)
        r = make_condition(s, range);
    return r < 0 ? kymo_err_set(err, r, "out of memory") : 0;
}

void export_source_done(struct export_source *s)
{
    for (size_t i = 0; i < s->column_count; i++)
        kymo_free(s->columns[i]);
    kymo_free(s->columns);
    kymo_free(s->track);
    kymo_free(s->condition);
    *s = (struct export_source){0};
}

static int take_count(void *ctx, size_t columns, const struct query_value *values)
{
    int64_t *n = ctx;
    if (columns == 1)
        *n = values[0].integer;
    return 0;
}

int export_source_sorted(const struct export_source *s, const struct export_profile *p, bool *ret, struct kymo_err *err)
{
    int64_t n = 0;
    const struct query_row_sink sink = {.row = take_count, .ctx = &n};
    char *sql KYMO_FREE = kymo_asprintf(
        "SELECT count(*)::BIGINT FROM (SELECT \"%s\" AS begun, lag(\"%s\") OVER () AS last_begun FROM \"%s\"%s) "
        "WHERE begun < last_begun",
        s->start, s->start, s->name, s->condition);
    int r = sql ? p->run(p->ctx, sql, &sink, err) : kymo_err_set(err, -ENOMEM, "out of memory");
    *ret = n == 0;
    return r;
}

int export_source_span(const struct export_source *s, const struct export_profile *p, struct export_range *ret,
                       struct kymo_err *err)
{
    char sql[4 * EXPORT_NAME_MAX];
    int64_t span[2];
    (void)snprintf(sql, sizeof sql, "SELECT min(\"%s\")::BIGINT, max(\"%s\")::BIGINT FROM \"%s\"", s->start,
                   *s->end ? s->end : s->start, s->name);
    int r = query_db_integers(p->db, sql, span, 2, err);
    if (r < 0)
        return r;
    if (span[0] == INT64_MIN || span[1] == INT64_MIN)
        return kymo_err_set(err, -ENODATA, "%s: has no rows", s->name);
    *ret = (struct export_range){.start = span[0], .end = span[1]};
    return 0;
}
