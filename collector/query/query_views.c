#include "collector/query/query_views.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "formats/schema/schema.h"

#define SQL_MAX (64u << 20)

int query_views_quote(struct kymo_buf *b, const char *text, char quote)
{
    int r = kymo_buf_printf(b, "%c", quote);
    for (; *text && r == 0; text++)
        r = *text == quote ? kymo_buf_printf(b, "%c%c", quote, quote) : kymo_buf_printf(b, "%c", *text);
    return r < 0 ? r : kymo_buf_printf(b, "%c", quote);
}

/* CREATE VIEW "Name" over files [first, end), all of one table. */
static int view_of_files(struct kymo_buf *b, const char *dir, const struct query_file *first,
                         const struct query_file *end)
{
    int r = kymo_buf_printf(b, "CREATE VIEW \"%.*s\" AS SELECT * FROM read_parquet([", (int)first->n, first->table);
    for (const struct query_file *f = first; f < end && r == 0; f++) {
        char *path KYMO_FREE = kymo_asprintf("%s/%s", dir, f->name);
        if (!path)
            return -ENOMEM;
        if (f > first)
            r = kymo_buf_printf(b, ", ");
        if (r == 0)
            r = query_views_quote(b, path, '\'');
    }
    return r < 0 ? r : kymo_buf_printf(b, "])");
}

const char *query_views_type(enum kymo_type type)
{
    switch (type) {
    case KYMO_TYPE_INT64:
        return "BIGINT";
    case KYMO_TYPE_INT32:
        return "INTEGER";
    case KYMO_TYPE_FLOAT:
        return "FLOAT";
    case KYMO_TYPE_DOUBLE:
        return "DOUBLE";
    case KYMO_TYPE_BOOL:
        return "BOOLEAN";
    case KYMO_TYPE_LIST_INT32:
        return "INTEGER[]";
    case KYMO_TYPE_LIST_STRING:
        return "VARCHAR[]";
    case KYMO_TYPE_LIST_INT64:
        return "BIGINT[]";
    default:
        return "VARCHAR";
    }
}

int query_views_nothing(struct kymo_buf *b, const struct kymo_table *table)
{
    int r = kymo_buf_printf(b, "CREATE VIEW \"%s\" AS SELECT ", table->name);
    for (size_t i = 0; i < table->column_count && r == 0; i++)
        r = kymo_buf_printf(b, "%sNULL::%s AS \"%s\"", i ? ", " : "", query_views_type(table->columns[i].type),
                            table->columns[i].name);
    return r < 0 ? r : kymo_buf_printf(b, " WHERE false");
}

static bool has_table(const struct query_files *list, const char *name)
{
    const struct query_file wanted = {.table = name, .n = strlen(name)};
    for (size_t i = 0; i < list->n; i++)
        if (query_files_same_table(&list->items[i], &wanted))
            return true;
    return false;
}

static bool is_named(const char *text, const char *name, size_t n)
{
    for (; text && *text; text++)
        if (!strncasecmp(text, name, n))
            return true;
    return !text;
}

bool query_views_named(const char *named, const struct query_file *f)
{
    return is_named(named, f->table, f->n);
}

struct maker {
    const char *dir, *named;
    const struct query_bad *known;
    struct query_files files;
    struct kymo_buf sql;
    struct query_bad *bad;
    int (*run)(void *ctx, const char *sql, struct kymo_err *err);
    void *ctx;
};

/* Of the kind that another try does not mend: -EBADMSG. */
static bool is_bad(int code)
{
    return code == -EBADMSG || code == -ENOENT || code == -EACCES || code == -ELOOP || code == -EIO;
}

static int make_view(struct maker *m, size_t begin, size_t end, struct kymo_err *err)
{
    const char *known = query_bad_why(m->known, m->files.items[begin].table, m->files.items[begin].n);
    int r = known ? kymo_err_set(err, -EBADMSG, "%s", known) : 0;
    for (size_t i = begin; i < end && r == 0; i++)
        r = query_files_check(m->dir, m->files.items[i].name, err);
    if (r < 0)
        return r;
    kymo_buf_reset(&m->sql);
    r = view_of_files(&m->sql, m->dir, &m->files.items[begin], &m->files.items[end]);
    if (r < 0)
        return kymo_err_set(err, r, "%s: the statement for a table is too long", m->dir);
    r = m->run(m->ctx, (const char *)m->sql.data, err);
    if (r != -EINVAL)
        return r;
    query_bad_say(m->files.items[begin].name, err);
    return -EBADMSG;
}

/* The table is left out if that is wanted. */
static int keep_bad(struct maker *m, const struct query_file *f, const struct kymo_err *why, struct kymo_err *err)
{
    if (!m->bad || !is_bad(why->code))
        return kymo_err_set(err, why->code, "%s", why->text);
    return query_bad_add(m->bad, f->table, f->n, why->text, err);
}

static int make_views(struct maker *m, struct kymo_err *err)
{
    const struct query_files *list = &m->files;
    int r = 0;
    for (size_t i = 0, end; i < list->n && r == 0; i = end) {
        struct kymo_err why = {0};
        for (end = i + 1; end < list->n && query_files_same_table(&list->items[i], &list->items[end]);)
            end++;
        if (!query_views_named(m->named, &list->items[i]))
            continue;
        if (make_view(m, i, end, &why) < 0)
            r = keep_bad(m, &list->items[i], &why, err);
    }
    for (int t = 0; t < KYMO_T_MAX && r == 0; t++) {
        const struct kymo_table *table = kymo_schema_table((enum kymo_table_id)t);
        if (has_table(list, table->name) || !is_named(m->named, table->name, strlen(table->name)))
            continue;
        kymo_buf_reset(&m->sql);
        r = query_views_nothing(&m->sql, table);
        r = r < 0 ? kymo_err_set(err, r, "out of memory") : m->run(m->ctx, (const char *)m->sql.data, err);
    }
    return r;
}

int query_views_each(const char *dir, const char *named, const struct query_bad *known, struct query_bad *bad,
                     int (*run)(void *ctx, const char *sql, struct kymo_err *err), void *ctx, struct kymo_err *err)
{
    struct maker m = {.dir = dir, .named = named, .known = known, .bad = bad, .run = run, .ctx = ctx};
    int r = query_files_list(dir, &m.files, err);
    if (r == 0 && m.files.n == 0)
        r = kymo_err_set(err, -ENOENT, "%s: no table (NAME.parquet) in this directory", dir);
    if (r < 0)
        return r;
    kymo_buf_init(&m.sql, SQL_MAX);
    r = make_views(&m, err);
    kymo_buf_done(&m.sql);
    query_files_done(&m.files);
    return r;
}
