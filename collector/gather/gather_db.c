#include "collector/gather/gather_db.h"

#include <duckdb.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "collector/query/query_views.h"

#define SQL_MAX (1u << 20)
#define COLUMNS_MAX 64
#define PARTS_MAX 4096 /* of a split table */

struct gather_db {
    duckdb_database database;
    duckdb_connection connection;
    int dir;
};

static int no_memory(struct kymo_err *err)
{
    return kymo_err_set(err, -ENOMEM, "no memory to put tables together");
}

/* DuckDB has its own words for what an errno says. */
static int fail(struct kymo_err *err, const char *text)
{
    static const struct {
        const char *word;
        int code;
    } known[] = {
        {"No space left on device", -ENOSPC},
        {"Disk quota exceeded", -EDQUOT},
        {"Out of Memory", -ENOMEM},
        {"failed to offload", -ENOMEM},
    };
    int code = -EINVAL;
    for (size_t i = 0; text && i < sizeof known / sizeof *known && code == -EINVAL; i++)
        if (strstr(text, known[i].word))
            code = known[i].code;
    return kymo_err_set(err, code, "%.400s", text ? text : "no reason given");
}

int gather_db_script(struct gather_db *db, const char *sql, struct kymo_err *err)
{
    duckdb_result result;
    int r = 0;
    if (duckdb_query(db->connection, sql, &result) == DuckDBError)
        r = fail(err, duckdb_result_error(&result));
    duckdb_destroy_result(&result);
    return r;
}

static bool bind_all(duckdb_prepared_statement s, const char *types, va_list args)
{
    bool fine = true;
    for (idx_t i = 1; fine && *types; i++, types++) {
        const char *text = *types == 't' ? va_arg(args, const char *) : NULL;
        if (*types == 'i')
            fine = duckdb_bind_int64(s, i, va_arg(args, int64_t)) == DuckDBSuccess;
        else if (*types == 'd')
            fine = duckdb_bind_double(s, i, va_arg(args, double)) == DuckDBSuccess;
        else
            fine = (text ? duckdb_bind_varchar(s, i, text) : duckdb_bind_null(s, i)) == DuckDBSuccess;
    }
    return fine;
}

int gather_db_run(struct gather_db *db, struct kymo_err *err, const char *sql, const char *types, ...)
{
    duckdb_prepared_statement s = NULL;
    duckdb_result result = {0};
    va_list args;
    va_start(args, types);
    int r = 0;
    if (duckdb_prepare(db->connection, sql, &s) == DuckDBError)
        r = fail(err, duckdb_prepare_error(s));
    else if (!bind_all(s, types, args))
        r = fail(err, "a value is not taken");
    else if (duckdb_execute_prepared(s, &result) == DuckDBError)
        r = fail(err, duckdb_result_error(&result));
    va_end(args);
    duckdb_destroy_result(&result);
    duckdb_destroy_prepare(&s);
    return r;
}

static int give_row(duckdb_result *result, idx_t row, size_t n,
                    int (*each)(void *ctx, const char *const *values, struct kymo_err *err), void *ctx,
                    struct kymo_err *err)
{
    char *values[COLUMNS_MAX] = {NULL};
    for (size_t i = 0; i < n; i++)
        values[i] = duckdb_value_is_null(result, i, row) ? NULL : duckdb_value_varchar(result, i, row);
    int r = each(ctx, (const char *const *)values, err);
    for (size_t i = 0; i < n; i++)
        duckdb_free(values[i]);
    return r;
}

int gather_db_rows(struct gather_db *db, const char *sql, size_t n,
                   int (*each)(void *ctx, const char *const *values, struct kymo_err *err), void *ctx,
                   struct kymo_err *err)
{
    duckdb_result result;
    int r = 0;
    if (duckdb_query(db->connection, sql, &result) == DuckDBError)
        r = fail(err, duckdb_result_error(&result));
    else if (duckdb_column_count(&result) < n || n > COLUMNS_MAX)
        r = kymo_err_set(err, -EINVAL, "a statement gives %llu columns",
                         (unsigned long long)duckdb_column_count(&result));
    idx_t rows = r < 0 ? 0 : duckdb_row_count(&result);
    for (idx_t i = 0; i < rows && r == 0; i++)
        r = give_row(&result, i, n, each, ctx, err);
    duckdb_destroy_result(&result);
    return r;
}

/* Views and tables over files */

struct names {
    const struct kymo_table *table;
    bool has[256]; /* by column of the table */
};

static int note_name(void *ctx, const char *const *values, struct kymo_err *err)
{
    struct names *n = ctx;
    int i = values[0] ? kymo_schema_column(n->table, values[0]) : -1;
    (void)err;
    if (i >= 0 && i < (int)(sizeof n->has / sizeof *n->has))
        n->has[i] = true;
    return 0;
}

static int find_names(struct gather_db *db, const char *query, struct names *n, struct kymo_err *err)
{
    char *sql KYMO_FREE = kymo_asprintf("SELECT column_name FROM (DESCRIBE %s)", query);
    return sql ? gather_db_rows(db, sql, 1, note_name, n, err) : no_memory(err);
}

static int add_empty(struct kymo_buf *b, const struct kymo_column *c)
{
    const char *type = query_views_type(c->type);
    if (c->type >= KYMO_TYPE_LIST_INT32)
        return kymo_buf_printf(b, "[]::%s", type);
    return kymo_buf_printf(b, "'%s'::%s", c->empty, type);
}

/* "column" AS it should be, of one that may be there. */
static int add_column(struct kymo_buf *b, const struct kymo_column *c, bool there, bool fill)
{
    const char *type = query_views_type(c->type);
    fill = fill && c->required && c->empty;
    int r = kymo_buf_printf(b, fill && there ? "coalesce(" : "");
    if (r == 0 && there)
        r = kymo_buf_printf(b, "TRY_CAST(\"%s\" AS %s)", c->name, type);
    else if (r == 0 && !fill)
        r = kymo_buf_printf(b, "NULL::%s", type);
    if (r == 0 && fill && there)
        r = kymo_buf_printf(b, ", ");
    if (r == 0 && fill)
        r = add_empty(b, c);
    if (r == 0 && fill && there)
        r = kymo_buf_printf(b, ")");
    return r < 0 ? r : kymo_buf_printf(b, " AS \"%s\"", c->name);
}

static bool is_in_front(const char *front, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = front; (p = strstr(p, name)); p += n)
        if ((p == front || p[-1] == ' ') && (p[n] == '\0' || p[n] == ','))
            return true;
    return false;
}

static int add_columns(struct kymo_buf *b, const struct kymo_table *t, const bool *has, const char *front, bool fill)
{
    int r = kymo_buf_printf(b, "%s", front);
    for (size_t i = 0, n = *front ? 1 : 0; i < t->column_count && r == 0; i++) {
        if (is_in_front(front, t->columns[i].name))
            continue;
        r = kymo_buf_printf(b, n++ ? ", " : "");
        if (r == 0)
            r = add_column(b, &t->columns[i], has[i], fill);
    }
    return r;
}

static bool is_file(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* read_parquet([...]) of what there is of a table; nothing appended: none. */
static int add_files(struct kymo_buf *b, int dir, const struct kymo_table *t, size_t *ret_n)
{
    char name[128];
    int r = 0;
    (void)snprintf(name, sizeof name, "%s.parquet", t->name);
    *ret_n = 0;
    if (is_file(dir, name)) {
        *ret_n = 1;
        return kymo_buf_printf(b, "SELECT * FROM read_parquet(['/proc/self/fd/%d/%s'])", dir, name);
    }
    for (unsigned part = 0; r == 0 && part < PARTS_MAX; part++) {
        (void)snprintf(name, sizeof name, "%s_%u.parquet", t->name, part);
        if (!is_file(dir, name))
            break;
        r = kymo_buf_printf(b, "%s'/proc/self/fd/%d/%s'", part ? ", " : "SELECT * FROM read_parquet([", dir, name);
        ++*ret_n;
    }
    return r == 0 && *ret_n ? kymo_buf_printf(b, "])") : r;
}

int gather_db_view(struct gather_db *db, int dir, const struct kymo_table *table, struct kymo_err *err)
{
    struct kymo_buf files, sql;
    struct names names = {.table = table};
    size_t n = 0;
    kymo_buf_init(&files, SQL_MAX);
    kymo_buf_init(&sql, SQL_MAX);
    int r = add_files(&files, dir, table, &n);
    if (r < 0)
        r = no_memory(err);
    if (r == 0 && n)
        r = find_names(db, (const char *)files.data, &names, err);
    if (r == 0 && (kymo_buf_printf(&sql, "CREATE OR REPLACE TEMP VIEW \"%s\" AS SELECT ", table->name) < 0 ||
                   add_columns(&sql, table, names.has, "", false) < 0 ||
                   (n ? kymo_buf_printf(&sql, " FROM (%s)", (const char *)files.data)
                      : kymo_buf_printf(&sql, " WHERE false")) < 0))
        r = no_memory(err);
    if (r == 0)
        r = gather_db_script(db, (const char *)sql.data, err);
    kymo_buf_done(&files);
    kymo_buf_done(&sql);
    return r < 0 ? r : n > 0;
}

static int note_any(void *ctx, const char *const *values, struct kymo_err *err)
{
    bool *any = ctx;
    (void)values;
    (void)err;
    *any = true;
    return 0;
}

static int has_rows(struct gather_db *db, const char *query, struct kymo_err *err)
{
    bool any = false;
    char *sql KYMO_FREE = kymo_asprintf("SELECT 1 FROM (%s) LIMIT 1", query);
    int r = sql ? gather_db_rows(db, sql, 1, note_any, &any, err) : no_memory(err);
    return r < 0 ? r : any;
}

int gather_db_write(struct gather_db *db, const struct kymo_table *table, const char *front, const char *query,
                    struct kymo_err *err)
{
    struct names names = {.table = table};
    struct kymo_buf sql;
    int r = has_rows(db, query, err);
    if (r <= 0)
        return r;
    r = find_names(db, query, &names, err);
    kymo_buf_init(&sql, SQL_MAX);
    if (r == 0 && (kymo_buf_printf(&sql, "COPY (SELECT ") < 0 || add_columns(&sql, table, names.has, front, true) < 0 ||
                   kymo_buf_printf(&sql, " FROM (%s)", query) < 0 ||
                   (table->sort_column && kymo_buf_printf(&sql, " ORDER BY \"%s\"", table->sort_column) < 0) ||
                   kymo_buf_printf(&sql, ") TO '/proc/self/fd/%d/%s.parquet' (FORMAT parquet, COMPRESSION zstd)",
                                   db->dir, table->name) < 0))
        r = no_memory(err);
    if (r == 0)
        r = gather_db_script(db, (const char *)sql.data, err);
    kymo_buf_done(&sql);
    if (r < 0)
        kymo_err_prefix(err, "table %s", table->name);
    return r;
}

/* Life */

static int configure(const char *const (*settings)[2], size_t n, duckdb_database *ret, struct kymo_err *err)
{
    duckdb_config config;
    char *text = NULL;
    int r = duckdb_create_config(&config) == DuckDBError ? no_memory(err) : 0;
    for (size_t i = 0; i < n && r == 0; i++)
        if (duckdb_set_config(config, settings[i][0], settings[i][1]) == DuckDBError)
            r = kymo_err_set(err, -EINVAL, "DuckDB refuses %s = %s", settings[i][0], settings[i][1]);
    if (r == 0 && duckdb_open_ext(NULL, ret, config, &text) == DuckDBError)
        r = fail(err, text);
    duckdb_free(text);
    duckdb_destroy_config(&config);
    return r;
}

int gather_db_open(int dir, uint64_t memory, struct gather_db **ret, struct kymo_err *err)
{
    char limit[32], spill[64];
    (void)snprintf(limit, sizeof limit, "%lluKiB", (unsigned long long)(memory / 1024));
    (void)snprintf(spill, sizeof spill, "/proc/self/fd/%d/.spill", dir);
    /* One thread is the one that is there: the sandbox allows no other. */
    const char *const settings[][2] = {
        {"memory_limit", limit},
        {"threads", "1"},
        {"temp_directory", spill},
        {"autoinstall_known_extensions", "false"},
        {"autoload_known_extensions", "false"},
        {"allow_community_extensions", "false"},
    };
    struct gather_db *db KYMO_CLEANUP(gather_db_freep) = KYMO_NEW(struct gather_db);
    if (!db)
        return no_memory(err);
    db->dir = dir;
    int r = configure(settings, sizeof settings / sizeof *settings, &db->database, err);
    if (r == 0 && duckdb_connect(db->database, &db->connection) == DuckDBError)
        r = kymo_err_set(err, -EIO, "cannot connect to DuckDB");
    if (r == 0)
        r = gather_db_script(db,
                             "SET preserve_insertion_order = false; SET allowed_directories = ['/proc/self/fd/'];"
                             " SET enable_external_access = false; SET lock_configuration = true",
                             err);
    if (r == 0)
        *ret = KYMO_TAKE(db);
    return r;
}

struct gather_db *gather_db_free(struct gather_db *db)
{
    if (!db)
        return NULL;
    if (db->connection)
        duckdb_disconnect(&db->connection);
    if (db->database)
        duckdb_close(&db->database);
    kymo_free(db);
    return NULL;
}

void gather_db_freep(struct gather_db **db)
{
    *db = gather_db_free(*db);
}
