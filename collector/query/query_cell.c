#include "collector/query/query_cell.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"

#define ROW_TEXT_MAX (256u << 20)
#define LIST_DEPTH_MAX 4

static bool printable_scalar(duckdb_type id)
{
    switch (id) {
    case DUCKDB_TYPE_BOOLEAN:
    case DUCKDB_TYPE_TINYINT:
    case DUCKDB_TYPE_SMALLINT:
    case DUCKDB_TYPE_INTEGER:
    case DUCKDB_TYPE_BIGINT:
    case DUCKDB_TYPE_UTINYINT:
    case DUCKDB_TYPE_USMALLINT:
    case DUCKDB_TYPE_UINTEGER:
    case DUCKDB_TYPE_UBIGINT:
    case DUCKDB_TYPE_HUGEINT:
    case DUCKDB_TYPE_FLOAT:
    case DUCKDB_TYPE_DOUBLE:
    case DUCKDB_TYPE_VARCHAR:
        return true;
    default:
        return false;
    }
}

static bool printable(duckdb_logical_type type, int depth)
{
    duckdb_type id = duckdb_get_type_id(type);
    if (id != DUCKDB_TYPE_LIST)
        return printable_scalar(id);
    if (depth == LIST_DEPTH_MAX)
        return false;
    duckdb_logical_type child = duckdb_list_type_child_type(type);
    bool result = printable(child, depth + 1);
    duckdb_destroy_logical_type(&child);
    return result;
}

bool query_cell_printable(duckdb_logical_type type)
{
    return printable(type, 0);
}

static int print_hugeint(struct kymo_buf *b, duckdb_hugeint h)
{
    unsigned __int128 u = ((unsigned __int128)(uint64_t)h.upper << 64) | h.lower;
    bool negative = h.upper < 0;
    u = negative ? -u : u;
    char digits[48];
    size_t n = sizeof digits;
    do
        digits[--n] = (char)('0' + (int)(u % 10));
    while ((u /= 10) != 0);
    if (negative)
        digits[--n] = '-';
    return kymo_buf_append(b, digits + n, sizeof digits - n);
}

/* The shortest text that reads back as the same number. */
static int print_real(struct kymo_buf *b, double v, bool single)
{
    char text[40];
    for (int precision = single ? 6 : 15; precision <= 17; precision++) {
        (void)snprintf(text, sizeof text, "%.*g", precision, v);
        double back = strtod(text, NULL);
        if (single ? (float)back == (float)v : back == v)
            break;
    }
    return kymo_buf_append(b, text, strlen(text));
}

static int print_string(struct kymo_buf *b, duckdb_string_t *s)
{
    return kymo_buf_append(b, duckdb_string_t_data(s), duckdb_string_t_length(*s));
}

static int print_scalar(struct kymo_buf *b, duckdb_type id, void *data, idx_t row)
{
    switch (id) {
    case DUCKDB_TYPE_BOOLEAN:
        return kymo_buf_printf(b, "%s", ((bool *)data)[row] ? "true" : "false");
    case DUCKDB_TYPE_TINYINT:
        return kymo_buf_printf(b, "%d", ((int8_t *)data)[row]);
    case DUCKDB_TYPE_SMALLINT:
        return kymo_buf_printf(b, "%d", ((int16_t *)data)[row]);
    case DUCKDB_TYPE_INTEGER:
        return kymo_buf_printf(b, "%" PRId32, ((int32_t *)data)[row]);
    case DUCKDB_TYPE_BIGINT:
        return kymo_buf_printf(b, "%" PRId64, ((int64_t *)data)[row]);
    case DUCKDB_TYPE_UTINYINT:
        return kymo_buf_printf(b, "%u", ((uint8_t *)data)[row]);
    case DUCKDB_TYPE_USMALLINT:
        return kymo_buf_printf(b, "%u", ((uint16_t *)data)[row]);
    case DUCKDB_TYPE_UINTEGER:
        return kymo_buf_printf(b, "%" PRIu32, ((uint32_t *)data)[row]);
    case DUCKDB_TYPE_UBIGINT:
        return kymo_buf_printf(b, "%" PRIu64, ((uint64_t *)data)[row]);
    case DUCKDB_TYPE_HUGEINT:
        return print_hugeint(b, ((duckdb_hugeint *)data)[row]);
    case DUCKDB_TYPE_FLOAT:
        return print_real(b, (double)((float *)data)[row], true);
    case DUCKDB_TYPE_DOUBLE:
        return print_real(b, ((double *)data)[row], false);
    default:
        return print_string(b, &((duckdb_string_t *)data)[row]);
    }
}

static bool is_valid(duckdb_vector v, idx_t row)
{
    uint64_t *mask = duckdb_vector_get_validity(v);
    return !mask || duckdb_validity_row_is_valid(mask, row);
}

static int print_value(struct kymo_buf *b, duckdb_vector v, idx_t row, int depth);

/* In a list, text is quoted as JSON has it: a comma in it would else look like two elements. */
static int print_quoted(struct kymo_buf *b, duckdb_string_t *s)
{
    const char *text = duckdb_string_t_data(s);
    uint32_t n = duckdb_string_t_length(*s);
    int r = kymo_buf_append(b, "\"", 1);
    for (uint32_t i = 0; i < n && r == 0; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20) {
            r = kymo_buf_printf(b, "\\u%04x", c);
            continue;
        }
        if (c == '"' || c == '\\')
            r = kymo_buf_append(b, "\\", 1);
        if (r == 0)
            r = kymo_buf_append(b, text + i, 1);
    }
    return r < 0 ? r : kymo_buf_append(b, "\"", 1);
}

static int print_list(struct kymo_buf *b, duckdb_vector v, idx_t row, int depth)
{
    duckdb_list_entry entry = ((duckdb_list_entry *)duckdb_vector_get_data(v))[row];
    duckdb_vector child = duckdb_list_vector_get_child(v);
    int r = kymo_buf_append(b, "[", 1);
    for (idx_t i = 0; i < entry.length && r == 0; i++) {
        if (i > 0)
            r = kymo_buf_append(b, ", ", 2);
        if (r == 0)
            r = is_valid(child, entry.offset + i) ? print_value(b, child, entry.offset + i, depth + 1)
                                                  : kymo_buf_append(b, "null", 4);
    }
    return r < 0 ? r : kymo_buf_append(b, "]", 1);
}

static int print_value(struct kymo_buf *b, duckdb_vector v, idx_t row, int depth)
{
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    duckdb_type id = duckdb_get_type_id(type);
    duckdb_destroy_logical_type(&type);
    if (id == DUCKDB_TYPE_LIST && depth < LIST_DEPTH_MAX)
        return print_list(b, v, row, depth);
    if (id == DUCKDB_TYPE_VARCHAR && depth > 0)
        return print_quoted(b, &((duckdb_string_t *)duckdb_vector_get_data(v))[row]);
    return print_scalar(b, id, duckdb_vector_get_data(v), row);
}

int query_cell_print(struct kymo_buf *b, duckdb_vector v, idx_t row)
{
    return print_value(b, v, row, 0);
}

struct row_text {
    struct kymo_buf text;
    size_t *at; /* offset of each value in text; SIZE_MAX: null */
    const char **values;
};

/* Text may move while it grows, so offsets become pointers only when the row is whole. */
static int print_row(struct row_text *t, duckdb_data_chunk chunk, idx_t row, idx_t columns)
{
    kymo_buf_reset(&t->text);
    for (idx_t c = 0; c < columns; c++) {
        duckdb_vector v = duckdb_data_chunk_get_vector(chunk, c);
        t->at[c] = SIZE_MAX;
        if (!is_valid(v, row))
            continue;
        t->at[c] = t->text.len;
        int r = print_value(&t->text, v, row, 0);
        if (r == 0)
            r = kymo_buf_append(&t->text, "", 1);
        if (r < 0)
            return r;
    }
    for (idx_t c = 0; c < columns; c++)
        t->values[c] = t->at[c] == SIZE_MAX ? NULL : (const char *)t->text.data + t->at[c];
    return 0;
}

enum query_type query_cell_kind(duckdb_type id)
{
    switch (id) {
    case DUCKDB_TYPE_BOOLEAN:
        return QUERY_BOOL;
    case DUCKDB_TYPE_LIST:
        return QUERY_LIST;
    case DUCKDB_TYPE_VARCHAR:
        return QUERY_TEXT;
    default:
        return QUERY_NUMBER;
    }
}

static int begin(duckdb_result *result, const struct query_sink *sink, idx_t columns)
{
    if (!sink->begin)
        return 0;
    const char **names KYMO_FREE = KYMO_NEW_ARRAY(const char *, columns);
    enum query_type *types KYMO_FREE = KYMO_NEW_ARRAY(enum query_type, columns);
    if (!names || !types)
        return -ENOMEM;
    for (idx_t c = 0; c < columns; c++) {
        names[c] = duckdb_column_name(result, c);
        types[c] = query_cell_kind(duckdb_column_type(result, c));
    }
    return sink->begin(sink->ctx, columns, names, types);
}

static int stream_chunks(duckdb_result *result, const struct query_sink *sink, struct row_text *t, idx_t columns,
                         struct kymo_err *err)
{
    int r = 0;
    for (duckdb_data_chunk chunk; r == 0 && (chunk = duckdb_fetch_chunk(*result));) {
        idx_t n = duckdb_data_chunk_get_size(chunk);
        for (idx_t row = 0; row < n && r == 0; row++) {
            r = print_row(t, chunk, row, columns);
            if (r == 0)
                r = sink->row(sink->ctx, columns, t->values);
        }
        duckdb_destroy_data_chunk(&chunk);
        if (n == 0)
            break;
    }
    if (r < 0)
        return kymo_err_set(err, r, "writing the result: %s", strerror(-r));
    const char *text = duckdb_result_error(result);
    return text && *text ? kymo_err_lines(err, -EINVAL, text) : 0;
}

int query_cell_stream(duckdb_result *result, const struct query_sink *sink, struct kymo_err *err)
{
    idx_t columns = duckdb_column_count(result);
    if (columns > QUERY_COLUMNS_MAX)
        return kymo_err_set(err, -E2BIG, "%llu columns, more than %d", (unsigned long long)columns, QUERY_COLUMNS_MAX);
    int r = begin(result, sink, columns);
    if (r < 0)
        return kymo_err_set(err, r, "writing the result: %s", strerror(-r));
    size_t *at KYMO_FREE = KYMO_NEW_ARRAY(size_t, columns);
    const char **values KYMO_FREE = KYMO_NEW_ARRAY(const char *, columns);
    if (!at || !values)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    struct row_text t = {.at = at, .values = values};
    kymo_buf_init(&t.text, ROW_TEXT_MAX);
    r = stream_chunks(result, sink, &t, columns, err);
    kymo_buf_done(&t.text);
    return r;
}
