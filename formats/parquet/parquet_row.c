/* Row at a time, for small tables: rows gather in columns and go to the writer in batches. Declared in
 * parquet_writer.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/parquet/parquet_chunk.h"
#include "formats/parquet/parquet_writer.h"

#define BATCH 4096

/* One column's rows: a value or, for strings and lists, a dictionary number. */
struct cells {
    uint8_t *values;
    uint32_t *ids;
    uint8_t *valid;
};

struct parquet_row {
    struct parquet_writer *writer;
    const struct kymo_table *table;
    struct cells *cells;
    struct parquet_column *columns;
    size_t n, cap;
    uint64_t count;
    int failed;
    struct kymo_err err; /* of the failure */
};

static bool by_id(const struct kymo_column *c)
{
    return c->type == KYMO_TYPE_STRING || c->type >= KYMO_TYPE_LIST_INT32;
}

static void free_row(struct parquet_row *r)
{
    for (size_t i = 0; r->cells && i < r->table->column_count; i++) {
        kymo_free(r->cells[i].values);
        kymo_free(r->cells[i].ids);
        kymo_free(r->cells[i].valid);
    }
    kymo_free(r->cells);
    kymo_free(r->columns);
    kymo_free(r);
}

static int fail(struct parquet_row *r, int rc, const char *what)
{
    if (r->failed == 0) {
        r->failed = rc;
        (void)kymo_err_set(&r->err, rc, "table %s: %s", r->table->name, what);
    }
    return rc;
}

/* Room for twice the rows: most of these tables have few. */
static int grow(struct parquet_row *r)
{
    size_t cap = r->cap ? r->cap * 2 : 16;

    for (size_t i = 0; i < r->table->column_count; i++) {
        struct cells *c = &r->cells[i];
        const struct kymo_column *k = &r->table->columns[i];
        size_t size = by_id(k) ? sizeof *c->ids : parquet_type_size(k->type);
        void *p = kymo_realloc_array(by_id(k) ? (void *)c->ids : (void *)c->values, cap, size);
        if (!p)
            return -ENOMEM;
        if (by_id(k))
            c->ids = p;
        else
            c->values = p;
        uint8_t *valid = kymo_realloc_array(c->valid, cap, 1);
        if (!valid)
            return -ENOMEM;
        memset(valid + r->cap, 0, cap - r->cap);
        c->valid = valid;
    }
    r->cap = cap;
    return 0;
}

int parquet_row_open(const char *dir, const struct kymo_table *table, const struct parquet_options *opt,
                     struct parquet_row **ret, struct kymo_err *err)
{
    struct parquet_row *r = KYMO_NEW(struct parquet_row);
    if (!r)
        return kymo_err_set(err, -ENOMEM, "table %s: no memory", table->name);
    r->table = table;
    r->cells = KYMO_NEW_ARRAY(struct cells, table->column_count);
    r->columns = KYMO_NEW_ARRAY(struct parquet_column, table->column_count);
    int rc = r->cells && r->columns ? grow(r) : -ENOMEM;
    if (rc < 0)
        (void)kymo_err_set(err, rc, "table %s: no memory", table->name);
    else
        rc = parquet_writer_open(dir, table, opt, &r->writer, err);
    if (rc < 0) {
        free_row(r);
        return rc;
    }
    *ret = r;
    return 0;
}

/* The column when it is one and of the wanted kind, and nothing failed before. */
static const struct kymo_column *column_of(struct parquet_row *r, unsigned column)
{
    if (r->failed < 0)
        return NULL;
    if (column >= r->table->column_count) {
        (void)fail(r, -EINVAL, "no such column");
        return NULL;
    }
    return &r->table->columns[column];
}

void parquet_row_int(struct parquet_row *r, unsigned column, int64_t v)
{
    const struct kymo_column *k = column_of(r, column);
    if (!k)
        return;
    struct cells *c = &r->cells[column];
    if (k->type == KYMO_TYPE_INT64)
        ((int64_t *)(void *)c->values)[r->n] = v;
    else if (k->type == KYMO_TYPE_INT32 && v >= INT32_MIN && v <= INT32_MAX)
        ((int32_t *)(void *)c->values)[r->n] = (int32_t)v;
    else if (k->type == KYMO_TYPE_BOOL)
        c->values[r->n] = v != 0;
    else
        (void)fail(r, -EINVAL, "an integer does not fit its column");
    c->valid[r->n] = 1;
}

void parquet_row_real(struct parquet_row *r, unsigned column, double v)
{
    const struct kymo_column *k = column_of(r, column);
    if (!k)
        return;
    struct cells *c = &r->cells[column];
    if (k->type == KYMO_TYPE_FLOAT)
        ((float *)(void *)c->values)[r->n] = (float)v;
    else if (k->type == KYMO_TYPE_DOUBLE)
        ((double *)(void *)c->values)[r->n] = v;
    else
        (void)fail(r, -EINVAL, "a real number in another kind of column");
    c->valid[r->n] = 1;
}

static void put_id(struct parquet_row *r, unsigned column, uint32_t id, const struct kymo_err *err)
{
    if (id == PARQUET_NULL) {
        if (r->failed == 0) {
            r->failed = err->code;
            r->err = *err;
        }
        return;
    }
    r->cells[column].ids[r->n] = id;
    r->cells[column].valid[r->n] = 1;
}

void parquet_row_string(struct parquet_row *r, unsigned column, const char *s)
{
    struct kymo_err err = {0};

    if (column_of(r, column) && s)
        put_id(r, column, parquet_writer_string_id(r->writer, column, s, strlen(s), &err), &err);
}

void parquet_row_list(struct parquet_row *r, unsigned column, const int64_t *v, size_t n)
{
    struct kymo_err err = {0};

    if (column_of(r, column))
        put_id(r, column, parquet_writer_list_id(r->writer, column, v, n, &err), &err);
}

void parquet_row_string_list(struct parquet_row *r, unsigned column, const char *const *v, size_t n)
{
    struct kymo_err err = {0};

    if (column_of(r, column))
        put_id(r, column, parquet_writer_string_list_id(r->writer, column, v, n, &err), &err);
}

static void put_empty(struct parquet_row *r, unsigned column)
{
    const struct kymo_column *k = &r->table->columns[column];

    if (k->type == KYMO_TYPE_STRING)
        parquet_row_string(r, column, k->empty);
    else if (k->type == KYMO_TYPE_LIST_STRING)
        parquet_row_string_list(r, column, NULL, 0);
    else if (k->type >= KYMO_TYPE_LIST_INT32)
        parquet_row_list(r, column, NULL, 0);
    else if (k->type == KYMO_TYPE_FLOAT || k->type == KYMO_TYPE_DOUBLE)
        parquet_row_real(r, column, strtod(k->empty, NULL));
    else
        parquet_row_int(r, column, strtoll(k->empty, NULL, 10));
}

static int flush(struct parquet_row *r)
{
    if (r->n == 0 || r->failed < 0)
        return r->failed;
    for (size_t i = 0; i < r->table->column_count; i++) {
        struct cells *c = &r->cells[i];
        r->columns[i] = (struct parquet_column){0};
        if (!by_id(&r->table->columns[i])) {
            r->columns[i].values = c->values;
            r->columns[i].valid = c->valid;
            continue;
        }
        for (size_t k = 0; k < r->n; k++)
            c->ids[k] = c->valid[k] ? c->ids[k] : PARQUET_NULL;
        r->columns[i].index = c->ids;
    }
    struct kymo_err err = {0};
    int rc = parquet_writer_batch(r->writer, r->columns, r->n, &err);
    if (rc < 0) {
        r->failed = rc;
        r->err = err;
    }
    for (size_t i = 0; i < r->table->column_count; i++)
        memset(r->cells[i].valid, 0, r->n);
    r->n = 0;
    return rc;
}

int parquet_row_end(struct parquet_row *r, struct kymo_err *err)
{
    for (unsigned i = 0; r->failed == 0 && i < r->table->column_count; i++) {
        if (r->table->columns[i].required && !r->cells[i].valid[r->n])
            put_empty(r, i);
    }
    if (r->failed == 0) {
        r->n++;
        r->count++;
        if (r->n == BATCH)
            (void)flush(r);
        else if (r->n == r->cap && grow(r) < 0)
            (void)fail(r, -ENOMEM, "no memory");
    }
    return r->failed < 0 ? kymo_err_set(err, r->failed, "%s", r->err.text) : 0;
}

uint64_t parquet_row_count(const struct parquet_row *r)
{
    return r->count;
}

int parquet_row_finish(struct parquet_row *r, struct kymo_err *err)
{
    int rc = flush(r);

    if (rc < 0) {
        (void)kymo_err_set(err, rc, "%s", r->err.text);
        (void)parquet_writer_discard(r->writer);
    } else {
        rc = parquet_writer_finish(r->writer, err);
    }
    free_row(r);
    return rc;
}

struct parquet_row *parquet_row_discard(struct parquet_row *r)
{
    if (r) {
        (void)parquet_writer_discard(r->writer);
        free_row(r);
    }
    return NULL;
}
