#include "collector/query/query_rows.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "collector/query/query_cell.h"
#include "collector/query/query_internal.h"

#define ROW_TEXT_MAX (256u << 20)

/* What is the same for all rows of a chunk. */
struct column {
    duckdb_vector vector;
    duckdb_type type;
    void *data;
    uint64_t *validity;
};

struct reader {
    const struct query_row_sink *sink;
    struct column *columns;
    struct query_value *values;
    size_t *at; /* of printed values in text */
    size_t count;
    struct kymo_buf text;
};

static int begin(duckdb_result *result, struct reader *r)
{
    const char **names KYMO_FREE = KYMO_NEW_ARRAY(const char *, r->count);
    enum query_type *types KYMO_FREE = KYMO_NEW_ARRAY(enum query_type, r->count);
    if (!names || !types)
        return -ENOMEM;
    for (size_t i = 0; i < r->count; i++) {
        names[i] = duckdb_column_name(result, i);
        types[i] = query_cell_kind(duckdb_column_type(result, i));
    }
    return r->sink->begin ? r->sink->begin(r->sink->ctx, r->count, names, types) : 0;
}

static void take_chunk(struct reader *r, duckdb_data_chunk chunk)
{
    for (size_t i = 0; i < r->count; i++) {
        struct column *c = &r->columns[i];
        c->vector = duckdb_data_chunk_get_vector(chunk, i);
        duckdb_logical_type type = duckdb_vector_get_column_type(c->vector);
        c->type = duckdb_get_type_id(type);
        duckdb_destroy_logical_type(&type);
        c->data = duckdb_vector_get_data(c->vector);
        c->validity = duckdb_vector_get_validity(c->vector);
    }
}

static struct query_value integer(int64_t v)
{
    return (struct query_value){.kind = QUERY_VALUE_INT, .integer = v};
}

static int print(struct reader *r, size_t i, idx_t row, enum query_value_kind kind)
{
    size_t before = r->text.len;
    int code = query_cell_print(&r->text, r->columns[i].vector, row);
    r->at[i] = before;
    r->values[i] = (struct query_value){.kind = kind, .len = r->text.len - before};
    return code;
}

static int take_value(struct reader *r, size_t i, idx_t row)
{
    const struct column *c = &r->columns[i];
    struct query_value *v = &r->values[i];
    r->at[i] = SIZE_MAX;
    if (c->validity && !duckdb_validity_row_is_valid(c->validity, row)) {
        *v = (struct query_value){.kind = QUERY_VALUE_NULL};
        return 0;
    }
    switch (c->type) {
    case DUCKDB_TYPE_BOOLEAN:
        *v = (struct query_value){.kind = QUERY_VALUE_BOOL, .integer = ((bool *)c->data)[row]};
        return 0;
    case DUCKDB_TYPE_INTEGER:
        *v = integer(((int32_t *)c->data)[row]);
        return 0;
    case DUCKDB_TYPE_BIGINT:
        *v = integer(((int64_t *)c->data)[row]);
        return 0;
    case DUCKDB_TYPE_FLOAT:
        *v = (struct query_value){.kind = QUERY_VALUE_FLOAT, .real = (double)((float *)c->data)[row]};
        return 0;
    case DUCKDB_TYPE_DOUBLE:
        *v = (struct query_value){.kind = QUERY_VALUE_DOUBLE, .real = ((double *)c->data)[row]};
        return 0;
    case DUCKDB_TYPE_VARCHAR: {
        duckdb_string_t *s = &((duckdb_string_t *)c->data)[row];
        *v = (struct query_value){
            .kind = QUERY_VALUE_TEXT, .text = duckdb_string_t_data(s), .len = duckdb_string_t_length(*s)};
        return 0;
    }
    case DUCKDB_TYPE_LIST:
        return print(r, i, row, QUERY_VALUE_LIST);
    default:
        /* The schema has no other type; a foreign file's small or wide integers come as text. */
        return print(r, i, row, QUERY_VALUE_TEXT);
    }
}

/* Printed text may move while it grows, so offsets become pointers when the row is whole. */
static int take_row(struct reader *r, idx_t row)
{
    kymo_buf_reset(&r->text);
    for (size_t i = 0; i < r->count; i++) {
        int code = take_value(r, i, row);
        if (code < 0)
            return code;
    }
    for (size_t i = 0; i < r->count; i++)
        if (r->at[i] != SIZE_MAX)
            r->values[i].text = (const char *)r->text.data + r->at[i];
    return r->sink->row(r->sink->ctx, r->count, r->values);
}

static int take_chunks(duckdb_result *result, struct reader *r)
{
    int code = 0;
    for (duckdb_data_chunk chunk; code == 0 && (chunk = duckdb_fetch_chunk(*result));) {
        idx_t n = duckdb_data_chunk_get_size(chunk);
        take_chunk(r, chunk);
        for (idx_t row = 0; row < n && code == 0; row++)
            code = take_row(r, row);
        duckdb_destroy_data_chunk(&chunk);
        if (n == 0)
            break;
    }
    return code;
}

int query_rows_take(duckdb_result *result, const void *sink, struct kymo_err *err)
{
    struct reader r = {.sink = sink, .count = duckdb_column_count(result)};
    if (r.count > QUERY_COLUMNS_MAX)
        return kymo_err_set(err, -E2BIG, "%zu columns, more than %d", r.count, QUERY_COLUMNS_MAX);
    struct column *columns KYMO_FREE = r.columns = KYMO_NEW_ARRAY(struct column, r.count);
    struct query_value *values KYMO_FREE = r.values = KYMO_NEW_ARRAY(struct query_value, r.count);
    size_t *at KYMO_FREE = r.at = KYMO_NEW_ARRAY(size_t, r.count);
    if (!columns || !values || !at)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    kymo_buf_init(&r.text, ROW_TEXT_MAX);
    int code = begin(result, &r);
    if (code == 0)
        code = take_chunks(result, &r);
    kymo_buf_done(&r.text);
    const char *text = code == 0 ? duckdb_result_error(result) : NULL;
    if (text && *text)
        return kymo_err_lines(err, -EINVAL, text);
    /* A callback that said why keeps its text. */
    return code < 0 && err && !err->code ? kymo_err_set(err, code, "reading the result: %s", strerror(-code)) : code;
}

int query_rows_run(struct query_db *db, const char *sql, const struct query_row_sink *sink, struct kymo_err *err)
{
    return query_db_stream(db, sql, NULL, query_rows_take, sink, err);
}

int query_rows_run_typed(struct query_db *db, const char *sql, struct query_types *types,
                         const struct query_row_sink *sink, struct kymo_err *err)
{
    return query_db_stream(db, sql, types, query_rows_take, sink, err);
}
