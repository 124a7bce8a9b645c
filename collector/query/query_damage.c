#include "collector/query/query_damage.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "collector/query/query_files.h"
#include "collector/query/query_views.h"

#define SQL_MAX 65536
#define INTERRUPTED "INTERRUPT"

bool query_damage_may_be(const struct kymo_err *err)
{
    static const char *const kinds[] = {"IO Error", "Invalid Error", "Invalid Input Error", "INTERNAL Error"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strncmp(err->text, kinds[i], strlen(kinds[i])))
            return true;
    return false;
}

/* FNV-1a */
static uint64_t mix(uint64_t stamp, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        stamp = (stamp ^ (value >> 8 * i & 0xff)) * 0x100000001b3;
    return stamp;
}

uint64_t query_damage_stamp(const char *dir)
{
    struct query_files files;
    struct stat st;
    uint64_t stamp = 0xcbf29ce484222325;
    if (query_files_list(dir, &files, NULL) < 0)
        return stamp;
    for (size_t i = 0; i < files.n; i++) {
        char *path KYMO_FREE = kymo_asprintf("%s/%s", dir, files.items[i].name);
        if (!path || stat(path, &st) < 0)
            continue;
        stamp = mix(mix(stamp, (uint64_t)st.st_ino), (uint64_t)st.st_size);
        stamp = mix(mix(stamp, (uint64_t)st.st_ctim.tv_sec), (uint64_t)st.st_ctim.tv_nsec);
    }
    query_files_done(&files);
    return stamp;
}

struct looker {
    const char *dir;
    const struct query_limits *limits;
    const struct query_damage_watch *watch;
    struct query_db *db; /* NULL: to be opened */
};

static void leave(struct looker *l)
{
    if (l->db && l->watch)
        l->watch->end(l->watch->ctx);
    l->db = query_db_free(l->db);
}

static int enter(struct looker *l, struct kymo_err *err)
{
    if (l->db)
        return 0;
    int r = query_db_open_places(&l->dir, 1, l->limits, &l->db, err);
    if (r == 0 && query_db_place(l->db, 0) < 0)
        r = kymo_err_set(err, -ENOENT, "%s: cannot be opened", l->dir);
    return r == 0 && l->watch ? l->watch->begin(l->watch->ctx, l->db, err) : r;
}

static int drop_row(void *ctx, size_t columns, const char *const *values)
{
    (void)ctx;
    (void)columns;
    (void)values;
    return 0;
}

/* Reads all values of a column (NULL: of all); what comes out of it is no matter. */
static int make_statement(const struct looker *l, const char *file, const char *column, struct kymo_buf *b)
{
    int r = kymo_buf_printf(b, "SELECT bit_xor(hash(");
    if (r == 0)
        r = column ? query_views_quote(b, column, '"') : kymo_buf_printf(b, "COLUMNS(*)");
    return r < 0 ? r
                 : kymo_buf_printf(b, ")) FROM read_parquet('/proc/self/fd/%d/%s')", query_db_place(l->db, 0), file);
}

static int read_values(struct looker *l, const char *file, const char *column, struct kymo_err *err)
{
    const struct query_sink sink = {.row = drop_row};
    struct kymo_buf sql;
    int r = enter(l, err);
    if (r < 0)
        return r;
    kymo_buf_init(&sql, SQL_MAX);
    r = make_statement(l, file, column, &sql);
    r = r < 0 ? kymo_err_set(err, r, "%s: no memory for a statement", file)
              : query_db_run(l->db, (const char *)sql.data, &sink, err);
    kymo_buf_done(&sql);
    return r;
}

struct names {
    char **items;
    size_t n;
};

static int keep_names(void *ctx, size_t n, const char *const *texts, const enum query_type *types)
{
    struct names *names = ctx;
    (void)types;
    if (!(names->items = KYMO_NEW_ARRAY(char *, n)))
        return -ENOMEM;
    for (names->n = 0; names->n < n; names->n++)
        if (!(names->items[names->n] = kymo_strdup(texts[names->n])))
            return -ENOMEM;
    return 0;
}

static int list_columns(struct looker *l, const char *file, struct names *ret, struct kymo_err *err)
{
    const struct query_sink sink = {.begin = keep_names, .row = drop_row, .ctx = ret};
    int r = enter(l, err);
    if (r < 0)
        return r;
    char *sql KYMO_FREE =
        kymo_asprintf("SELECT * FROM read_parquet('/proc/self/fd/%d/%s') LIMIT 0", query_db_place(l->db, 0), file);
    return sql ? query_db_run(l->db, sql, &sink, err) : kymo_err_set(err, -ENOMEM, "%s: no memory for columns", file);
}

static void free_names(struct names *names)
{
    for (size_t i = 0; i < names->n; i++)
        kymo_free(names->items[i]);
    kymo_free(names->items);
}

/* -EBADMSG: a file cannot be read; -ENOMEM: not with the memory that is allowed; others say nothing about it. */
static int judge(int r, const struct kymo_err *said)
{
    if (r != -EINVAL)
        return r;
    if (!strncmp(said->text, INTERRUPTED, strlen(INTERRUPTED)))
        return -ECANCELED;
    if (strstr(said->text, strerror(EMFILE)) || strstr(said->text, strerror(ENFILE)))
        return -EMFILE;
    return query_damage_may_be(said) ? -EBADMSG : -ENOMEM;
}

/* After an error, DuckDB may refuse whatever else it is asked: the next file gets a fresh one. */
static int try_values(struct looker *l, const char *file, const char *column, struct kymo_err *err)
{
    int r = read_values(l, file, column, err);
    if (r == 0)
        return 0;
    leave(l);
    return judge(r, err);
}

/* -EBADMSG: the first column that cannot be read, and why. -ENODATA: each can be, as far as memory goes. */
static int find_column(struct looker *l, const char *file, struct kymo_err *why)
{
    struct names names = {0};
    struct kymo_err one = {0};
    int r = list_columns(l, file, &names, &one);
    for (size_t i = 0; i < names.n && (r == 0 || r == -ENOMEM); i++) {
        r = try_values(l, file, names.items[i], &one);
        if (r == -EBADMSG)
            (void)kymo_err_set(why, -EBADMSG, "column %.64s: %s", names.items[i], one.text);
    }
    free_names(&names);
    return r == 0 || r == -ENOMEM || r == -EINVAL ? -ENODATA : r;
}

/* 0: all of it can be read, or nobody can tell. */
static int look_at(struct looker *l, const char *file, struct kymo_err *err)
{
    struct kymo_err why = {0};
    int whole = try_values(l, file, NULL, &why), r = whole;
    if (whole == -EBADMSG || whole == -ENOMEM)
        r = find_column(l, file, &why);
    if (r == -ENODATA)
        r = whole == -EBADMSG ? whole : 0;
    if (r == -EBADMSG)
        query_bad_say(file, &why);
    return r < 0 ? kymo_err_set(err, r, "%s", why.text) : 0;
}

static int look(struct looker *l, const char *named, const struct query_bad *known, size_t *at, struct query_bad *ret,
                struct kymo_err *err)
{
    struct query_files files;
    int r = query_files_list(l->dir, &files, err);
    if (r < 0)
        return r;
    for (; *at < files.n && r == 0; *at += r == 0) {
        const struct query_file *f = &files.items[*at];
        struct kymo_err why = {0};
        if (!query_views_named(named, f) || query_bad_why(known, f->table, f->n) || query_bad_why(ret, f->table, f->n))
            continue;
        r = look_at(l, f->name, &why);
        r = r == -EBADMSG ? query_bad_add(ret, f->table, f->n, why.text, err)
            : r < 0       ? kymo_err_set(err, r, "%s", why.text)
                          : 0;
    }
    query_files_done(&files);
    return r;
}

int query_damage_find(const char *dir, const char *named, const struct query_bad *known,
                      const struct query_limits *limits, const struct query_damage_watch *watch, size_t *at,
                      struct query_bad *ret, struct kymo_err *err)
{
    struct query_limits own = *limits;
    own.read_once = true;
    struct looker l = {.dir = dir, .limits = &own, .watch = watch};
    size_t begin = 0;
    int r = look(&l, named, known, at ? at : &begin, ret, err);
    leave(&l);
    return r;
}
