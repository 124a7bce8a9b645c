#include "collector/query/query_views.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "formats/schema/schema.h"

#define SUFFIX ".parquet"
#define SQL_MAX (64u << 20)

struct table_file {
    char *name;  /* of the file */
    size_t stem; /* length of the table's name in it */
    long part;   /* -1: not split */
};

struct file_list {
    struct table_file *files;
    size_t n, cap;
};

int query_views_quote(struct kymo_buf *b, const char *text, char quote)
{
    int r = kymo_buf_printf(b, "%c", quote);
    for (; *text && r == 0; text++)
        r = *text == quote ? kymo_buf_printf(b, "%c%c", quote, quote) : kymo_buf_printf(b, "%c", *text);
    return r < 0 ? r : kymo_buf_printf(b, "%c", quote);
}

/* Name.parquet or Name_<digits>.parquet; a glob would mix up DmaPacket and DmaPacketAggregated. */
static bool parse_name(const char *name, size_t *ret_stem, long *ret_part)
{
    size_t n = strlen(name), suffix = strlen(SUFFIX);
    if (n <= suffix || strcmp(name + n - suffix, SUFFIX) != 0)
        return false;
    size_t stem = n - suffix, digits = stem;
    while (digits > 0 && isdigit((unsigned char)name[digits - 1]))
        digits--;
    *ret_part = -1;
    if (digits < stem && stem - digits < 10 && digits > 1 && name[digits - 1] == '_') {
        *ret_part = strtol(name + digits, NULL, 10);
        stem = digits - 1;
    }
    for (size_t i = 0; i < stem; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_')
            return false;
    *ret_stem = stem;
    return true;
}

bool query_views_is_table(const char *file, size_t *ret_len)
{
    long part;
    return parse_name(file, ret_len, &part);
}

static int add_file(struct file_list *list, const char *name, struct kymo_err *err)
{
    struct table_file f;
    if (!parse_name(name, &f.stem, &f.part))
        return 0;
    void *p = list->files;
    int r = kymo_grow(&p, &list->cap, list->n + 1, QUERY_FILES_MAX, sizeof *list->files);
    if (r < 0)
        return kymo_err_set(err, r, "more than %d table files", QUERY_FILES_MAX);
    list->files = p;
    f.name = kymo_strdup(name);
    if (!f.name)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    list->files[list->n++] = f;
    return 0;
}

static int by_table_and_part(const void *a, const void *b)
{
    const struct table_file *x = a, *y = b;
    size_t n = x->stem < y->stem ? x->stem : y->stem;
    int c = memcmp(x->name, y->name, n);
    if (c == 0 && x->stem != y->stem)
        c = x->stem < y->stem ? -1 : 1;
    return c ? c : (x->part > y->part) - (x->part < y->part);
}

static int list_files(const char *dir, struct file_list *list, struct kymo_err *err)
{
    DIR *d = opendir(dir);
    if (!d) {
        int code = -errno;
        return kymo_err_set(err, code, "%s: cannot list: %s", dir, strerror(-code));
    }
    int r = 0;
    for (const struct dirent *e; r == 0 && (e = readdir(d));)
        r = add_file(list, e->d_name, err);
    (void)closedir(d);
    if (r == 0 && list->n == 0)
        r = kymo_err_set(err, -ENOENT, "%s: no table (NAME.parquet) in this directory", dir);
    if (r == 0)
        qsort(list->files, list->n, sizeof *list->files, by_table_and_part);
    return r;
}

static void free_files(struct file_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        kymo_free(list->files[i].name);
    kymo_free(list->files);
}

static bool same_table(const struct table_file *a, const struct table_file *b)
{
    return a->stem == b->stem && !memcmp(a->name, b->name, a->stem);
}

/* CREATE VIEW "Name" over files [first, end), all of one table. */
static int view_of_files(struct kymo_buf *b, const char *dir, const struct table_file *first,
                         const struct table_file *end)
{
    int r = kymo_buf_printf(b, "CREATE VIEW \"%.*s\" AS SELECT * FROM read_parquet([", (int)first->stem, first->name);
    for (const struct table_file *f = first; f < end && r == 0; f++) {
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

static int view_of_nothing(struct kymo_buf *b, const struct kymo_table *table)
{
    int r = kymo_buf_printf(b, "CREATE VIEW \"%s\" AS SELECT ", table->name);
    for (size_t i = 0; i < table->column_count && r == 0; i++)
        r = kymo_buf_printf(b, "%sNULL::%s AS \"%s\"", i ? ", " : "", query_views_type(table->columns[i].type),
                            table->columns[i].name);
    return r < 0 ? r : kymo_buf_printf(b, " WHERE false");
}

static bool has_table(const struct file_list *list, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < list->n; i++)
        if (list->files[i].stem == n && !memcmp(list->files[i].name, name, n))
            return true;
    return false;
}

/* Whether a name of n bytes stands in a text, whatever the case of letters; a text that is NULL has all. */
static bool is_named(const char *text, const char *name, size_t n)
{
    for (; text && *text; text++)
        if (!strncasecmp(text, name, n))
            return true;
    return !text;
}

static int make_views(const char *dir, const struct file_list *list, const char *named, struct kymo_buf *sql,
                      int (*run)(void *ctx, const char *sql, struct kymo_err *err), void *ctx, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0, end; i < list->n && r == 0; i = end) {
        for (end = i + 1; end < list->n && same_table(&list->files[i], &list->files[end]);)
            end++;
        if (!is_named(named, list->files[i].name, list->files[i].stem))
            continue;
        kymo_buf_reset(sql);
        r = view_of_files(sql, dir, &list->files[i], &list->files[end]);
        r = r < 0 ? kymo_err_set(err, r, "%s: the statement for a table is too long", dir)
                  : run(ctx, (const char *)sql->data, err);
    }
    for (int t = 0; t < KYMO_T_MAX && r == 0; t++) {
        const struct kymo_table *table = kymo_schema_table((enum kymo_table_id)t);
        if (has_table(list, table->name) || !is_named(named, table->name, strlen(table->name)))
            continue;
        kymo_buf_reset(sql);
        r = view_of_nothing(sql, table);
        r = r < 0 ? kymo_err_set(err, r, "out of memory") : run(ctx, (const char *)sql->data, err);
    }
    return r;
}

int query_views_each(const char *dir, const char *named, int (*run)(void *ctx, const char *sql, struct kymo_err *err),
                     void *ctx, struct kymo_err *err)
{
    struct file_list list = {0};
    struct kymo_buf sql;
    kymo_buf_init(&sql, SQL_MAX);
    int r = list_files(dir, &list, err);
    if (r == 0)
        r = make_views(dir, &list, named, &sql, run, ctx, err);
    kymo_buf_done(&sql);
    free_files(&list);
    return r;
}
