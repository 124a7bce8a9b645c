#include "collector/query/serve_sql.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/query_damage.h"
#include "collector/query/query_internal.h"

struct column {
    duckdb_type type;
    void *data;
    uint64_t *validity;
};

static int bind(duckdb_prepared_statement st, const struct sql_bind *binds, size_t n, struct kymo_err *err)
{
    for (size_t i = 0; i < n; i++) {
        duckdb_state state = binds[i].text ? duckdb_bind_varchar_length(st, i + 1, binds[i].text, strlen(binds[i].text))
                                           : duckdb_bind_int64(st, i + 1, binds[i].number);
        if (state == DuckDBError)
            return kymo_err_set(err, -EINVAL, "value %zu of a query is refused", i + 1);
    }
    return 0;
}

static void take_columns(duckdb_data_chunk chunk, struct column *columns, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        duckdb_vector v = duckdb_data_chunk_get_vector(chunk, i);
        duckdb_logical_type type = duckdb_vector_get_column_type(v);
        columns[i] =
            (struct column){duckdb_get_type_id(type), duckdb_vector_get_data(v), duckdb_vector_get_validity(v)};
        duckdb_destroy_logical_type(&type);
    }
}

static struct sql_cell cell_of(const struct column *c, idx_t row)
{
    struct sql_cell cell = {.text = ""};
    if (c->validity && !duckdb_validity_row_is_valid(c->validity, row)) {
        cell.null = true;
    } else if (c->type == DUCKDB_TYPE_BIGINT) {
        cell.i = ((const int64_t *)c->data)[row];
    } else if (c->type == DUCKDB_TYPE_DOUBLE) {
        cell.f = ((const double *)c->data)[row];
    } else if (c->type == DUCKDB_TYPE_VARCHAR) {
        duckdb_string_t *s = &((duckdb_string_t *)c->data)[row];
        cell.text = duckdb_string_t_data(s);
        cell.len = duckdb_string_t_length(*s);
    } else {
        cell.null = true;
    }
    return cell;
}

static int take_chunk(duckdb_data_chunk chunk, size_t n, sql_row row, void *ctx, struct kymo_err *err)
{
    struct column columns[SERVE_SQL_COLUMNS_MAX];
    struct sql_cell cells[SERVE_SQL_COLUMNS_MAX];
    idx_t rows = duckdb_data_chunk_get_size(chunk);
    int r = 0;
    take_columns(chunk, columns, n);
    for (idx_t k = 0; row && k < rows && r == 0; k++) {
        for (size_t i = 0; i < n; i++)
            cells[i] = cell_of(&columns[i], k);
        r = row(ctx, cells, err);
    }
    return r;
}

static int take_result(const struct sql *s, duckdb_result *result, sql_row row, void *ctx, struct kymo_err *err)
{
    size_t n = duckdb_column_count(result);
    int r = n > SERVE_SQL_COLUMNS_MAX ? kymo_err_set(err, -E2BIG, "a query of %zu columns", n) : 0;
    for (duckdb_data_chunk chunk; r == 0 && (chunk = duckdb_fetch_chunk(*result));) {
        r = s->stop && *s->stop ? kymo_err_set(err, -ECANCELED, "nobody wants the answer any more")
                                : take_chunk(chunk, n, row, ctx, err);
        idx_t rows = duckdb_data_chunk_get_size(chunk);
        duckdb_destroy_data_chunk(&chunk);
        if (rows == 0)
            break;
    }
    const char *text = r == 0 ? duckdb_result_error(result) : NULL;
    return text && *text ? kymo_err_lines(err, -EIO, text) : r;
}

/* What takes the rows of a result. */
struct taker {
    const struct sql *sql;
    sql_row row; /* or: */
    void *ctx;
    const struct query_row_sink *sink;
};

/* A file that cannot be read to its end is not the statement's fault. */
static int rows_of(duckdb_result *result, const struct query_row_sink *sink, struct kymo_err *err)
{
    struct kymo_err why = {0};
    int r = query_rows_take(result, sink, &why);
    if (r == -EINVAL && query_damage_may_be(&why))
        r = -EIO;
    return r < 0 && why.code ? kymo_err_lines(err, r, why.text) : r;
}

static int run_prepared(const struct taker *t, duckdb_prepared_statement st, struct kymo_err *err)
{
    duckdb_pending_result pending = NULL;
    duckdb_result result = {0};
    const char *text = NULL;
    int r = 0;
    if (duckdb_pending_prepared_streaming(st, &pending) == DuckDBError)
        text = duckdb_pending_error(pending);
    else if (duckdb_execute_pending(pending, &result) == DuckDBError)
        text = duckdb_result_error(&result);
    if (text)
        r = kymo_err_lines(err, -EIO, text);
    else if (t->sink)
        r = rows_of(&result, t->sink, err);
    else
        r = take_result(t->sql, &result, t->row, t->ctx, err);
    duckdb_destroy_result(&result);
    duckdb_destroy_pending(&pending);
    return r;
}

static int check_stop(const struct sql *s, struct kymo_err *err)
{
    return s->stop && *s->stop ? kymo_err_set(err, -ECANCELED, "nobody wants the answer any more") : 0;
}

/* An interrupted statement fails with a text of DuckDB's own. */
static int end(const struct sql *s, int r, struct kymo_err *err)
{
    return r < 0 && r != -ECANCELED && check_stop(s, err) < 0 ? -ECANCELED : r;
}

int sql_run(const struct sql *s, const char *text, const struct sql_bind *binds, size_t n, sql_row row, void *ctx,
            struct kymo_err *err)
{
    duckdb_prepared_statement st = NULL;
    const struct taker t = {.sql = s, .row = row, .ctx = ctx};
    int r = check_stop(s, err);
    if (r < 0)
        return r;
    if (duckdb_prepare(s->connection, text, &st) == DuckDBError)
        r = kymo_err_lines(err, -EIO, duckdb_prepare_error(st));
    if (r == 0)
        r = bind(st, binds, n, err);
    if (r == 0)
        r = run_prepared(&t, st, err);
    duckdb_destroy_prepare(&st);
    return end(s, r, err);
}

int sql_rows(const struct sql *s, const char *text, const struct query_row_sink *sink, struct kymo_err *err)
{
    duckdb_prepared_statement st = NULL;
    const struct taker t = {.sql = s, .sink = sink};
    int r = check_stop(s, err);
    if (r == 0)
        r = query_db_prepare(s->connection, text, NULL, &st, err);
    if (r == 0)
        r = run_prepared(&t, st, err);
    duckdb_destroy_prepare(&st);
    return end(s, r, err);
}

struct numbers {
    int64_t *values;
    size_t n, rows;
};

static int keep_numbers(void *ctx, const struct sql_cell *cells, struct kymo_err *err)
{
    struct numbers *k = ctx;
    (void)err;
    for (size_t i = 0; k->rows == 0 && i < k->n; i++)
        k->values[i] = cells[i].null ? INT64_MIN : cells[i].i;
    k->rows++;
    return 0;
}

int sql_numbers(const struct sql *s, const char *text, const struct sql_bind *binds, size_t n_binds, int64_t *ret,
                size_t n, struct kymo_err *err)
{
    struct numbers k = {.values = ret, .n = n};
    for (size_t i = 0; i < n; i++)
        ret[i] = INT64_MIN;
    return sql_run(s, text, binds, n_binds, keep_numbers, &k, err);
}

struct objects {
    json_t *list;
    size_t max;
    bool more;
};

static int keep_object(void *ctx, const struct sql_cell *cells, struct kymo_err *err)
{
    struct objects *o = ctx;
    json_error_t why;
    if (json_array_size(o->list) >= o->max) {
        o->more = true;
        return 0;
    }
    json_t *row = json_loadb(cells[0].text, cells[0].len, JSON_DECODE_ANY, &why);
    if (!row)
        return kymo_err_set(err, -EIO, "a row cannot be told as JSON: %s", why.text);
    return json_array_append_new(o->list, row) < 0 ? kymo_err_set(err, -ENOMEM, "no memory for rows") : 0;
}

int sql_objects(const struct sql *s, const char *text, const struct sql_bind *binds, size_t n, size_t max, json_t **ret,
                bool *more, struct kymo_err *err)
{
    char *whole KYMO_FREE = kymo_asprintf("SELECT to_json(t)::VARCHAR FROM (%s) t LIMIT %zu", text, max + 1);
    struct objects o = {.list = json_array(), .max = max};
    if (!whole || !o.list) {
        json_decref(o.list);
        return kymo_err_set(err, -ENOMEM, "no memory for rows");
    }
    int r = sql_run(s, whole, binds, n, keep_object, &o, err);
    if (r < 0) {
        json_decref(o.list);
        return r;
    }
    if (more)
        *more = o.more;
    *ret = o.list;
    return 0;
}
