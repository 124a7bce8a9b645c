#include "collector/query/serve_own_scan.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/serve_own_events.h"
#include "collector/query/serve_own_rows.h"

#define ROW_COLUMNS SERVE_OWN_COLUMNS_MAX
#define PARAMETERS 3

/* Of a statement, from when it is planned. */
struct plan {
    const struct table_file *file;
    const struct serve_own_source *source;
    int64_t from, to;
};

/* While it runs. */
struct scan {
    struct serve_own_rows rows;
    size_t columns[ROW_COLUMNS]; /* of the table, for each that is wanted; SERVE_OWN_COLUMNS_MAX: of no row's values */
    size_t n_columns, group, at; /* group: the next one; at: row of those that are left of the one before */
};

static void free_plan(void *plan)
{
    kymo_free(plan);
}

static void free_scan(void *ctx)
{
    struct scan *s = ctx;
    serve_own_rows_done(&s->rows);
    kymo_free(s);
}

/* -1: it is none of these, or has no file that is read here. */
static int find(const struct serve_dir *d, const char *table)
{
    for (int i = 0; i < SERVE_OWN_MAX && d->own_levels; i++) {
        const char *name = serve_own_source_of((enum serve_own_table)i)->table;
        if (name && d->own->files[i] && !strcmp(name, table))
            return i;
    }
    return -1;
}

static void add_columns(duckdb_bind_info info, const struct serve_own_source *source)
{
    for (size_t i = 0; i < source->n; i++) {
        duckdb_logical_type type =
            duckdb_create_logical_type(serve_own_is_text(source, i) ? DUCKDB_TYPE_VARCHAR : DUCKDB_TYPE_BIGINT);
        duckdb_bind_add_result_column(info, source->columns[i], type);
        duckdb_destroy_logical_type(&type);
    }
}

static bool may_touch(const struct plan *p, size_t group)
{
    return p->to > INT64_MIN + 1 && table_file_may_have(p->file, group, SERVE_OWN_C_START, INT64_MIN + 1, p->to - 1) &&
           table_file_may_have(p->file, group, SERVE_OWN_C_END, p->from, INT64_MAX);
}

static idx_t most_rows(const struct plan *p)
{
    idx_t n = 0;
    for (size_t g = 0; g < p->file->n_groups; g++)
        n += may_touch(p, g) ? p->file->rows[g] : 0;
    return n;
}

/* DuckDB throws where a null is asked for its text. */
static bool has_nulls(duckdb_bind_info info)
{
    bool nulls = false;
    for (idx_t i = 0; i < PARAMETERS; i++) {
        duckdb_value v = duckdb_bind_get_parameter(info, i);
        nulls |= duckdb_is_null_value(v);
        duckdb_destroy_value(&v);
    }
    return nulls;
}

static int table_of(duckdb_bind_info info)
{
    duckdb_value v = duckdb_bind_get_parameter(info, 0);
    char *table = duckdb_get_varchar(v);
    int found = table ? find(duckdb_bind_get_extra_info(info), table) : -1;
    duckdb_free(table);
    duckdb_destroy_value(&v);
    return found;
}

static int64_t number_of(duckdb_bind_info info, idx_t i)
{
    duckdb_value v = duckdb_bind_get_parameter(info, i);
    int64_t number = duckdb_get_int64(v);
    duckdb_destroy_value(&v);
    return number;
}

static void plan_scan(duckdb_bind_info info)
{
    const struct serve_dir *d = duckdb_bind_get_extra_info(info);
    int found = has_nulls(info) ? -1 : table_of(info);
    struct plan *p = found < 0 ? NULL : KYMO_NEW(struct plan);
    if (!p) {
        duckdb_bind_set_error(info, found < 0 ? "kymo_rows does not read this table" : "no memory for a statement");
        return;
    }
    *p = (struct plan){.file = d->own->files[found],
                       .source = serve_own_source_of((enum serve_own_table)found),
                       .from = number_of(info, 1),
                       .to = number_of(info, 2)};
    add_columns(info, p->source);
    duckdb_bind_set_cardinality(info, most_rows(p), false);
    duckdb_bind_set_bind_data(info, p, free_plan);
}

static void begin_scan(duckdb_init_info info)
{
    const struct plan *p = duckdb_init_get_bind_data(info);
    struct scan *s = KYMO_NEW(struct scan);
    struct kymo_err err = {0};
    if (!s || serve_own_rows_open(&s->rows, p->file, &err) < 0) {
        kymo_free(s);
        duckdb_init_set_error(info, "no memory for a table");
        return;
    }
    for (idx_t i = 0; i < duckdb_init_get_column_count(info) && i < ROW_COLUMNS; i++) {
        idx_t column = duckdb_init_get_column_index(info, i);
        s->columns[s->n_columns++] = column < p->source->n ? (size_t)column : SERVE_OWN_COLUMNS_MAX;
    }
    duckdb_init_set_max_threads(info, 1);
    duckdb_init_set_init_data(info, s, free_scan);
}

static int read_columns(const struct plan *p, struct scan *s, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; i < s->n_columns && r == 0; i++)
        if (s->columns[i] < p->source->n)
            r = serve_own_is_text(p->source, s->columns[i]) ? serve_own_rows_texts(&s->rows, s->columns[i], err)
                                                            : serve_own_rows_numbers(&s->rows, s->columns[i], err);
    return r;
}

/* Reads on until there are rows to give, or no more groups. */
static int fill(const struct plan *p, struct scan *s, struct kymo_err *err)
{
    int r = 0;
    while (r == 0 && s->at == s->rows.n && s->group < p->file->n_groups) {
        size_t group = s->group++;
        if (!may_touch(p, group))
            continue;
        s->at = 0;
        r = serve_own_rows_begin(&s->rows, group, err);
        if (r == 0)
            r = serve_own_rows_keep(&s->rows, SERVE_OWN_C_START, INT64_MIN + 1, p->to - 1, err);
        if (r == 0)
            r = serve_own_rows_keep(&s->rows, SERVE_OWN_C_END, p->from, INT64_MAX, err);
        if (r == 0)
            r = read_columns(p, s, err);
    }
    return r;
}

static void set_null(duckdb_vector v, size_t row)
{
    duckdb_vector_ensure_validity_writable(v);
    duckdb_validity_set_row_invalid(duckdb_vector_get_validity(v), row);
}

static void give_numbers(duckdb_vector v, const int64_t *from, size_t n)
{
    int64_t *to = duckdb_vector_get_data(v);
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i];
        if (from[i] == TABLE_NULL)
            set_null(v, i);
    }
}

static void give_texts(duckdb_vector v, const struct table_text *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (from[i].at)
            duckdb_vector_assign_string_element_len(v, i, from[i].at, from[i].n);
        else
            set_null(v, i);
}

static void give_rows(const struct plan *p, struct scan *s, duckdb_data_chunk output)
{
    size_t left = s->rows.n - s->at, most = duckdb_vector_size(), n = left < most ? left : most;
    for (size_t i = 0; i < s->n_columns; i++) {
        size_t column = s->columns[i];
        duckdb_vector v = duckdb_data_chunk_get_vector(output, i);
        if (column >= p->source->n)
            continue; /* rows are only counted */
        if (serve_own_is_text(p->source, column))
            give_texts(v, s->rows.texts[column] + s->at, n);
        else
            give_numbers(v, s->rows.numbers[column] + s->at, n);
    }
    s->at += n;
    duckdb_data_chunk_set_size(output, n);
}

static void run_scan(duckdb_function_info info, duckdb_data_chunk output)
{
    const struct plan *p = duckdb_function_get_bind_data(info);
    struct scan *s = duckdb_function_get_init_data(info);
    struct kymo_err err = {0};
    if (fill(p, s, &err) < 0)
        duckdb_function_set_error(info, err.text);
    else
        give_rows(p, s, output);
}

int serve_own_scan_register(const struct serve_dir *d, duckdb_connection c, struct kymo_err *err)
{
    duckdb_table_function f = duckdb_create_table_function();
    duckdb_logical_type text = duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR),
                        number = duckdb_create_logical_type(DUCKDB_TYPE_BIGINT);
    union {
        const struct serve_dir *in;
        void *out;
    } extra = {.in = d}; /* only read */
    duckdb_table_function_set_name(f, "kymo_rows");
    duckdb_table_function_add_parameter(f, text);
    duckdb_table_function_add_parameter(f, number);
    duckdb_table_function_add_parameter(f, number);
    duckdb_table_function_set_extra_info(f, extra.out, NULL);
    duckdb_table_function_set_bind(f, plan_scan);
    duckdb_table_function_set_init(f, begin_scan);
    duckdb_table_function_set_function(f, run_scan);
    duckdb_table_function_supports_projection_pushdown(f, true);
    int r = duckdb_register_table_function(c, f) == DuckDBError
                ? kymo_err_set(err, -EIO, "DuckDB refuses the function kymo_rows")
                : 0;
    duckdb_destroy_logical_type(&text);
    duckdb_destroy_logical_type(&number);
    duckdb_destroy_table_function(&f);
    return r;
}

bool serve_own_scan_has(const struct serve_dir *d, const char *table)
{
    return find(d, table) >= 0;
}
