/* A user's statement over the tables of some profiles, on a DuckDB of its own. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "collector/json_text.h"
#include "collector/query/query_rows.h"
#include "collector/query/query_types.h"
#include "collector/query/query_views.h"
#include "collector/query/serve_ops.h"

#define ROWS_MAX 10000
#define ROWS_DEFAULT 1000
#define BYTES_MAX (16u << 20)
#define MEMORY (512u << 20)
#define THREADS 2
#define TIMEOUT_MS 30000
#define DECIMAL_DIGITS 15
#define FLOAT_DIGITS 9

struct answer {
    json_t *columns, *rows;
    size_t limit, bytes;
    struct query_types types;
    bool truncated;
    size_t too_long; /* bytes of the first row, which an answer does not hold */
};

static bool is_type(const char *type, const char *const *names)
{
    while (*names && strcmp(*names, type) != 0)
        names++;
    return *names;
}

/* A number, where a double and JSON's readers keep every digit of every value of the type. */
static bool is_short_decimal(const char *type)
{
    return !strncmp(type, "DECIMAL(", 8) && strtol(type + 8, NULL, 10) <= DECIMAL_DIGITS;
}

/* A number that was printed. Whole ones beyond 64 bits are no JSON number to most readers: those stay text. */
static json_t *number_of(const char *text, size_t n)
{
    json_error_t why;
    json_t *value = json_loadb(text, n, JSON_DECODE_ANY, &why);
    if (json_is_number(value))
        return value;
    json_decref(value);
    return json_stringn(text, n);
}

static json_t *real_of(const char *text, size_t n)
{
    char copy[64], *end;
    (void)snprintf(copy, sizeof copy, "%.*s", (int)n, text);
    double real = strtod(copy, &end);
    return end > copy && *end == '\0' && isfinite(real) ? json_real(real) : json_null();
}

/* DuckDB prints DECIMAL(n,n) without a digit before the point, which JSON wants. */
static json_t *decimal_of(const char *text, size_t n)
{
    bool bare = n > 0 && (text[0] == '.' || (n > 1 && text[0] == '-' && text[1] == '.'));
    return bare ? real_of(text, n) : number_of(text, n);
}

static json_t *text_of(const char *type, const char *text, size_t n)
{
    static const char *const whole[] = {"HUGEINT", "UHUGEINT", "UBIGINT", "UINTEGER", "USMALLINT", "UTINYINT", NULL};
    if (is_short_decimal(type))
        return decimal_of(text, n);
    return is_type(type, whole) ? number_of(text, n) : json_stringn(text, n);
}

/* The shortest text that is read as the same FLOAT, of which a double has more digits. */
static json_t *float_of(double real)
{
    char text[32];
    int digits = 6;
    do
        (void)snprintf(text, sizeof text, "%.*g", digits, real);
    while (strtof(text, NULL) != (float)real && ++digits <= FLOAT_DIGITS);
    return json_real(strtod(text, NULL));
}

static json_t *value_of(const struct answer *a, size_t column, const struct query_value *v)
{
    const char *type = column < a->types.n ? a->types.names[column] : "";
    switch (v->kind) {
    case QUERY_VALUE_NULL:
        return json_null();
    case QUERY_VALUE_BOOL:
        return json_boolean(v->integer != 0);
    case QUERY_VALUE_INT:
        return json_integer(v->integer);
    case QUERY_VALUE_FLOAT:
        return isfinite(v->real) ? float_of(v->real) : json_null();
    case QUERY_VALUE_DOUBLE:
        return isfinite(v->real) ? json_real(v->real) : json_null();
    default:
        break;
    }
    json_t *text = v->kind == QUERY_VALUE_TEXT ? text_of(type, v->text, v->len) : json_stringn(v->text, v->len);
    return text ? text : json_string("?");
}

static int begin(void *ctx, size_t n, const char *const *names, const enum query_type *types)
{
    struct answer *a = ctx;
    (void)types;
    for (size_t i = 0; i < n; i++) {
        const char *type = i < a->types.n ? a->types.names[i] : "VARCHAR";
        json_t *column = json_pack("{s:o, s:o}", "name", json_text(names[i]), "type", json_text(type));
        if (json_array_append_new(a->columns, column) < 0)
            return -ENOMEM;
    }
    return 0;
}

static bool has_room(struct answer *a, size_t n, const struct query_value *values)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += 16 + values[i].len;
    if (bytes > BYTES_MAX && !json_array_size(a->rows))
        a->too_long = bytes;
    a->bytes += bytes;
    return a->bytes <= BYTES_MAX && json_array_size(a->rows) < a->limit;
}

static int keep_row(void *ctx, size_t n, const struct query_value *values)
{
    struct answer *a = ctx;
    if (!has_room(a, n, values)) {
        a->truncated = true;
        return -ECANCELED;
    }
    json_t *row = json_array();
    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(row, value_of(a, i, &values[i])) < 0) {
            json_decref(row);
            return -ENOMEM;
        }
    return json_array_append_new(a->rows, row) < 0 ? -ENOMEM : 0;
}

static int run(struct query_db *db, const char *sql, struct answer *a, struct kymo_err *err)
{
    const struct query_row_sink sink = {.begin = begin, .row = keep_row, .ctx = a};
    int r = query_rows_run_typed(db, sql, &a->types, &sink, err);
    if (r < 0 && a->too_long)
        return kymo_err_set(err, -ENOBUFS, "the first row has %zu bytes; an answer holds %u", a->too_long, BYTES_MAX);
    if (r < 0 && a->truncated)
        return 0;
    if (r == -EPERM)
        return kymo_err_set(err, -EINVAL, "only statements that read are run here (SELECT, DESCRIBE, SHOW, EXPLAIN)");
    return r;
}

/* The profiles' names beside their schemas. */
static json_t *told_profiles(const json_t *names)
{
    json_t *list = json_array();
    char schema[32] = "main";
    for (size_t i = 0; i < json_array_size(names); i++) {
        if (json_array_size(names) > 1)
            (void)snprintf(schema, sizeof schema, "p%zu", i + 1);
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:O}", "schema", schema, "profile", json_array_get(names, i)));
    }
    return list;
}

/* Statements about the tables themselves, whose names need not stand in them. */
static bool is_about_tables(const char *sql)
{
    static const char *const words[] = {"information_schema", "duckdb_", "pg_", "sqlite_", "show", "pragma",
                                        "summarize",          "describe"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasestr(sql, words[i]))
            return true;
    return false;
}

static const struct query_limits limits = {
    .memory_bytes = MEMORY, .threads = THREADS, .timeout_ms = TIMEOUT_MS, .skip_bad = true};

/* sql: only the tables that it names; NULL: all. */
static int open_tables(const json_t *dirs, const char *sql, struct query_db **ret, struct kymo_err *err)
{
    const char *paths[QUERY_DIRS_MAX];
    size_t n = json_array_size(dirs);
    if (n == 0 || n > QUERY_DIRS_MAX)
        return kymo_err_set(err, -EINVAL, "a statement is over 1 to %d profiles", QUERY_DIRS_MAX);
    for (size_t i = 0; i < n; i++)
        if (!(paths[i] = json_string_value(json_array_get(dirs, i))) || *paths[i] != '/')
            return kymo_err_set(err, -EINVAL, "dirs has something that is no path");
    return query_db_open_many(paths, n, sql, &limits, ret, err);
}

/* A table that was left out is one that does not exist to DuckDB. */
static int say_why(const struct query_db *db, int code, struct kymo_err *err)
{
    const struct query_bad *bad = query_db_bad(db);
    for (size_t i = 0; i < bad->n; i++) {
        char *text KYMO_FREE = kymo_asprintf("Table with name %s does not exist", bad->items[i].table);
        if (text && strcasestr(err->text, text))
            return kymo_err_set(err, code, "%s", bad->items[i].why);
    }
    return code;
}

/* DuckDB does not always say which file it could not read. */
static int look_for_damage(struct serve_request *q, const json_t *dirs, const char *named, int code,
                           struct kymo_err *err)
{
    const struct query_damage_watch watch = serve_watch(q);
    struct query_bad found = {0};
    char schema[32] = "";
    for (size_t i = 0; i < json_array_size(dirs) && !found.n; i++) {
        const char *dir = json_string_value(json_array_get(dirs, i));
        if (query_damage_find(dir, named, NULL, &limits, &watch, NULL, &found, NULL) < 0)
            break;
        if (json_array_size(dirs) > 1)
            (void)snprintf(schema, sizeof schema, "p%zu: ", i + 1);
    }
    int r = found.n ? kymo_err_set(err, -EBADMSG, "%s%s", schema, found.items[0].why) : code;
    query_bad_done(&found);
    return r;
}

static int run_on(struct serve_request *q, const json_t *dirs, const char *named, struct answer *a,
                  struct kymo_err *err)
{
    struct query_db *db KYMO_CLEANUP(query_db_freep) = NULL;
    int r = open_tables(dirs, named, &db, err);
    if (r == 0)
        r = serve_own_db(q, db, err);
    if (r == 0)
        r = run(db, serve_question_text(serve_question_of(q), "sql"), a, err);
    if (db)
        serve_own_db_done(q);
    if (r < 0 && db)
        r = say_why(db, r, err);
    return r == -EINVAL && query_damage_may_be(err) ? look_for_damage(q, dirs, named, r, err) : r;
}

/* A table may be named in ways that its text does not show; then all are opened, and the error is about all. */
static bool lacks_table(int r, const struct answer *a, const struct kymo_err *err)
{
    return r == -EINVAL && json_array_size(a->columns) == 0 && strstr(err->text, "does not exist");
}

static int answer(struct serve_request *q, const json_t *dirs, const json_t *names, size_t limit, struct kymo_err *err)
{
    struct answer a = {.columns = json_array(), .rows = json_array(), .limit = limit};
    const char *sql = serve_question_text(serve_question_of(q), "sql"), *named = is_about_tables(sql) ? NULL : sql;
    uint64_t begun = kymo_clock_mono_ns();
    int r = run_on(q, dirs, named, &a, err);
    if (named && lacks_table(r, &a, err)) {
        *err = (struct kymo_err){0};
        r = run_on(q, dirs, NULL, &a, err);
    }
    query_types_done(&a.types);
    json_t *o = json_pack("{s:o, s:o, s:b, s:o, s:I}", "columns", a.columns, "rows", a.rows, "truncated", a.truncated,
                          "profiles", told_profiles(names), "elapsed_ms",
                          (json_int_t)((kymo_clock_mono_ns() - begun) / 1000000));
    if (r == 0)
        return serve_answer_json(q, o, err);
    json_decref(o);
    return r;
}

int op_sql(struct serve_request *q, struct kymo_err *err)
{
    const struct serve_question *w = serve_question_of(q);
    int64_t limit = ROWS_DEFAULT;
    json_t *dirs = NULL, *names = NULL;
    int r = serve_question_int(w, "limit", 1, ROWS_MAX, false, &limit, err);
    if (r == 0 && !serve_question_text(w, "sql"))
        r = kymo_err_set(err, -EINVAL, "the parameter sql is missing");
    if (r == 0)
        r = serve_question_json(w, "dirs", &dirs, err);
    if (r == 0)
        r = serve_question_json(w, "names", &names, err);
    if (r == 0)
        r = answer(q, dirs, names, (size_t)limit, err);
    json_decref(dirs);
    json_decref(names);
    return r;
}
