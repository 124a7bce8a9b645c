#include "collector/query/serve_waits.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"

#define MACRO(value) "CREATE MACRO k.waited(id, counted) AS coalesce(" value ", 0)"

struct wait {
    int64_t id, ns;
};

struct serve_waits {
    struct wait *rows; /* in the order of id */
    size_t n, cap;
};

static int keep(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    struct serve_waits *w = ctx;
    void *list = w->rows;
    if (kymo_grow(&list, &w->cap, w->n + 1, SERVE_WAITS_MAX, sizeof *w->rows) < 0)
        return kymo_err_set(err, -ENOMEM, "no memory for waits");
    w->rows = list;
    w->rows[w->n++] = (struct wait){c[0].i, c[1].i};
    return 0;
}

static int compare(const void *x, const void *y)
{
    const struct wait *a = x, *b = y;
    return (a->id > b->id) - (a->id < b->id);
}

static void freep(struct serve_waits **w)
{
    *w = serve_waits_free(*w);
}

int serve_waits_read(const struct sql *s, struct serve_waits **ret, struct kymo_err *err)
{
    static const char text[] = "SELECT instruction_id, wait_ns FROM k.\"WaitCause\" WHERE saturated AND NOT"
                               " coalesce(lower_bound, false) AND instruction_id IS NOT NULL AND wait_ns IS NOT NULL"
                               " ORDER BY wait_ns DESC LIMIT $1";
    struct serve_waits *w KYMO_CLEANUP(freep) = KYMO_NEW(struct serve_waits);
    *ret = NULL;
    if (!w)
        return kymo_err_set(err, -ENOMEM, "no memory for waits");
    int r = sql_run(s, text, (struct sql_bind[]){SQL_INT(SERVE_WAITS_MAX)}, 1, keep, w, err);
    if (r < 0 || !w->n)
        return r;
    qsort(w->rows, w->n, sizeof *w->rows, compare);
    *ret = KYMO_TAKE(w);
    return 0;
}

struct serve_waits *serve_waits_free(struct serve_waits *w)
{
    if (w)
        kymo_free(w->rows);
    kymo_free(w);
    return NULL;
}

int64_t serve_waits_of(const struct serve_waits *w, int64_t id, int64_t counted)
{
    size_t low = 0, high = w ? w->n : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->rows[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return w && low < w->n && w->rows[low].id == id ? w->rows[low].ns : counted;
}

static bool is_null(uint64_t *validity, idx_t row)
{
    return validity && !duckdb_validity_row_is_valid(validity, row);
}

/* kymo_waited(id, counted) */
static void run(duckdb_function_info info, duckdb_data_chunk input, duckdb_vector output)
{
    const struct serve_waits *w = duckdb_scalar_function_get_extra_info(info);
    duckdb_vector in[] = {duckdb_data_chunk_get_vector(input, 0), duckdb_data_chunk_get_vector(input, 1)};
    const int64_t *ids = duckdb_vector_get_data(in[0]), *counted = duckdb_vector_get_data(in[1]);
    uint64_t *no_ids = duckdb_vector_get_validity(in[0]), *no_counts = duckdb_vector_get_validity(in[1]);
    int64_t *to = duckdb_vector_get_data(output);
    for (idx_t i = 0; i < duckdb_data_chunk_get_size(input); i++) {
        to[i] = is_null(no_counts, i) ? 0 : counted[i];
        if (!is_null(no_ids, i))
            to[i] = serve_waits_of(w, ids[i], to[i]);
    }
}

static int register_function(const struct serve_waits *w, const struct sql *s, struct kymo_err *err)
{
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_logical_type number = duckdb_create_logical_type(DUCKDB_TYPE_BIGINT);
    union {
        const struct serve_waits *in;
        void *out;
    } extra = {.in = w}; /* only read */
    duckdb_scalar_function_set_name(f, "kymo_waited");
    duckdb_scalar_function_add_parameter(f, number);
    duckdb_scalar_function_add_parameter(f, number);
    duckdb_scalar_function_set_return_type(f, number);
    duckdb_scalar_function_set_special_handling(f); /* a null says that nothing was counted */
    duckdb_scalar_function_set_extra_info(f, extra.out, NULL);
    duckdb_scalar_function_set_function(f, run);
    int r = duckdb_register_scalar_function(s->connection, f) == DuckDBError
                ? kymo_err_set(err, -EIO, "DuckDB refuses the function kymo_waited")
                : 0;
    duckdb_destroy_logical_type(&number);
    duckdb_destroy_scalar_function(&f);
    return r;
}

int serve_waits_register(const struct serve_waits *w, const struct sql *s, struct kymo_err *err)
{
    int r = w ? register_function(w, s, err) : 0;
    return r < 0 ? r : sql_run(s, w ? MACRO("kymo_waited(id, counted)") : MACRO("counted"), NULL, 0, NULL, NULL, err);
}
