/* From a text to one statement that reads. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "collector/query/query_cell.h"
#include "collector/query/query_internal.h"
#include "collector/query/query_text.h"
#include "collector/query/query_views.h"

#define PIVOTS_MAX 16
#define WRAPPED_MAX (4 * QUERY_SQL_MAX)

/* Everything else would at best change the in-memory catalogue behind the user's back. */
static bool only_reads(duckdb_statement_type type)
{
    return type == DUCKDB_STATEMENT_TYPE_SELECT || type == DUCKDB_STATEMENT_TYPE_EXPLAIN ||
           type == DUCKDB_STATEMENT_TYPE_RELATION;
}

/* For a clear answer alone: DuckDB says of some of these that the table is a view, or that no file may be written. */
static bool begins_to_change(const struct query_text *t)
{
    static const char *const words[] = {"PRAGMA",  "INSERT",  "UPDATE",     "DELETE", "TRUNCATE",   "MERGE",
                                        "COPY",    "EXPORT",  "IMPORT",     "CREATE", "ALTER",      "DROP",
                                        "COMMENT", "ATTACH",  "DETACH",     "LOAD",   "INSTALL",    "SET",
                                        "RESET",   "CALL",    "USE",        "BEGIN",  "COMMIT",     "ROLLBACK",
                                        "PREPARE", "EXECUTE", "DEALLOCATE", "VACUUM", "CHECKPOINT", "ANALYZE"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (query_text_begins(t, words[i]))
            return true;
    return false;
}

static int refuse(struct kymo_err *err)
{
    return kymo_err_set(err, -EPERM, "only statements that read are run here (SELECT, DESCRIBE, SHOW, EXPLAIN)");
}

/* DuckDB's own tables are not what somebody mistyped. */
static void drop_hint(struct kymo_err *err)
{
    static const char *const own[] = {"pg_", "duckdb_", "sqlite_", "pragma_", "information_schema"};
    char *hint = err && strstr(err->text, "Table with name ") ? strstr(err->text, "\nDid you mean \"") : NULL;
    size_t n = hint ? 1 + strcspn(hint + 1, "\n") : 0;
    for (size_t i = 0; hint && i < sizeof own / sizeof *own; i++) {
        const char *at = strcasestr(hint, own[i]);
        if (at && at < hint + n) {
            memmove(hint, hint + n, strlen(hint + n) + 1);
            return;
        }
    }
}

static int say(struct kymo_err *err, const char *text)
{
    int r = kymo_err_lines(err, -EINVAL, text);
    drop_hint(err);
    return r;
}

/* Of a PIVOT without IN: makes the type of its columns, for which it reads the table. */
static int run_before(duckdb_connection c, duckdb_extracted_statements all, idx_t i, struct kymo_err *err)
{
    duckdb_prepared_statement st = NULL;
    duckdb_result result = {0};
    int r = 0;
    if (duckdb_prepare_extracted_statement(c, all, i, &st) == DuckDBError)
        r = say(err, duckdb_prepare_error(st));
    else if (duckdb_prepared_statement_type(st) != DUCKDB_STATEMENT_TYPE_CREATE)
        r = refuse(err);
    else if (duckdb_execute_prepared(st, &result) == DuckDBError)
        r = say(err, duckdb_result_error(&result));
    duckdb_destroy_result(&result);
    duckdb_destroy_prepare(&st);
    return r;
}

static int prepare_last(duckdb_connection c, duckdb_extracted_statements all, idx_t n, duckdb_prepared_statement *ret,
                        struct kymo_err *err)
{
    int r = 0;
    for (idx_t i = 0; i + 1 < n && r == 0; i++)
        r = run_before(c, all, i, err);
    if (r < 0)
        return r;
    if (duckdb_prepare_extracted_statement(c, all, n - 1, ret) == DuckDBError)
        return say(err, duckdb_prepare_error(*ret));
    return only_reads(duckdb_prepared_statement_type(*ret)) ? 0 : refuse(err);
}

static int prepare(duckdb_connection c, const char *sql, duckdb_prepared_statement *ret, struct kymo_err *err)
{
    const struct query_text text = query_text_find(sql);
    duckdb_extracted_statements all = NULL;
    idx_t n = duckdb_extract_statements(c, sql, &all);
    const char *why = n == 0 && all ? duckdb_extract_statements_error(all) : NULL;
    /* One that DuckDB takes apart is a PIVOT. */
    bool pivot = n > 1 && n <= PIVOTS_MAX && !text.more &&
                 (query_text_has(&text, "PIVOT") || query_text_has(&text, "PIVOT_WIDER"));
    int r;
    if (n == 0)
        r = say(err, why ? why : "there is no statement");
    else if (begins_to_change(&text))
        r = refuse(err);
    else if (n > 1 && !pivot)
        r = kymo_err_set(err, -EINVAL, "%llu statements; one at a time, please", (unsigned long long)n);
    else
        r = prepare_last(c, all, n, ret, err);
    duckdb_destroy_extracted(&all);
    if (r < 0)
        duckdb_destroy_prepare(ret);
    return r;
}

static bool is_printable(duckdb_prepared_statement statement, idx_t column)
{
    duckdb_logical_type type = duckdb_prepared_statement_column_logical_type(statement, column);
    bool printable = query_cell_printable(type);
    duckdb_destroy_logical_type(&type);
    return printable;
}

static bool all_printable(duckdb_prepared_statement statement)
{
    idx_t n = duckdb_prepared_statement_column_count(statement), i = 0;
    while (i < n && is_printable(statement, i))
        i++;
    return i == n;
}

/* DuckDB's, which it gives as one that is not to be changed. */
static void free_text(const char *text)
{
    union {
        const char *in;
        void *out;
    } name = {text};
    duckdb_free(name.out);
}

/* By their places: names may be there twice. */
static int list_columns(duckdb_prepared_statement statement, struct kymo_buf *b)
{
    int r = kymo_buf_printf(b, "\n) SELECT ");
    for (idx_t i = 0; i < duckdb_prepared_statement_column_count(statement) && r == 0; i++) {
        const char *name = duckdb_prepared_statement_column_name(statement, i);
        r = kymo_buf_printf(b, "%s#%llu%s AS ", i ? ", " : "", (unsigned long long)i + 1,
                            is_printable(statement, i) ? "" : "::VARCHAR");
        if (r == 0)
            r = query_views_quote(b, name ? name : "", '"');
        free_text(name);
    }
    return r;
}

/* Types that query_cell does not print (decimals, dates, structs, ...) are printed by DuckDB itself. */
int query_db_prepare(duckdb_connection c, const char *sql, struct query_types *types, duckdb_prepared_statement *ret,
                     struct kymo_err *err)
{
    int r = prepare(c, sql, ret, err);
    if (r == 0 && types && (r = query_types_read(*ret, types)) < 0) {
        r = kymo_err_set(err, r, "%s", r == -E2BIG ? "too many columns" : "no memory for columns");
        duckdb_destroy_prepare(ret);
    }
    if (r < 0 || all_printable(*ret))
        return r;
    const struct query_text text = query_text_find(sql);
    struct kymo_buf wrapped;
    kymo_buf_init(&wrapped, WRAPPED_MAX);
    /* The statement first: DuckDB tells of lines in it. */
    r = kymo_buf_printf(&wrapped, "FROM (%.*s", (int)text.n, text.at);
    if (r == 0)
        r = list_columns(*ret, &wrapped);
    duckdb_destroy_prepare(ret);
    r = r < 0 ? kymo_err_set(err, r, "no memory for a statement") : prepare(c, (const char *)wrapped.data, ret, err);
    kymo_buf_done(&wrapped);
    return r;
}
