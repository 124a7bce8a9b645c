/* From a text to one statement that reads. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "collector/query/query_cell.h"
#include "collector/query/query_internal.h"
#include "collector/query/query_text.h"

#define PIVOTS_MAX 16

/* Everything else would at best change the in-memory catalogue behind the user's back. */
static bool only_reads(duckdb_statement_type type)
{
    return type == DUCKDB_STATEMENT_TYPE_SELECT || type == DUCKDB_STATEMENT_TYPE_EXPLAIN ||
           type == DUCKDB_STATEMENT_TYPE_RELATION;
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
    else if (query_text_begins(&text, "PRAGMA"))
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

static bool all_printable(duckdb_prepared_statement statement)
{
    idx_t n = duckdb_prepared_statement_column_count(statement);
    bool all = true;
    for (idx_t i = 0; i < n && all; i++) {
        duckdb_logical_type type = duckdb_prepared_statement_column_logical_type(statement, i);
        all = query_cell_printable(type);
        duckdb_destroy_logical_type(&type);
    }
    return all;
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
    char *wrapped KYMO_FREE = kymo_asprintf("SELECT COLUMNS(*)::VARCHAR FROM (%.*s\n)", (int)text.n, text.at);
    duckdb_destroy_prepare(ret);
    if (!wrapped)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    return prepare(c, wrapped, ret, err);
}
