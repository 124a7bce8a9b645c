#include "pipeline/series/series_table.h"

#include <errno.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "pipeline/formulas/formulas.h"
#include "pipeline/input.h"

#define BATCH 32768 /* the least that is a page of its own */
#define COLUMNS_MAX 16

union cells {
    int64_t *int64;
    int32_t *int32;
    float *single;
    double *real;
    void *any;
};

struct series_table {
    struct parquet_writer *writer;
    const struct kymo_table *table;
    union cells cells[COLUMNS_MAX];
    uint32_t *core; /* physical core by row */
    uint32_t core_ids[INPUT_CORES_MAX];
    unsigned pcore;
    size_t n;
    struct { /* series_table_rate's columns */
        int64_t *at, *total;
        float *current, *cumulative;
    } rate;
};

static size_t size_of(enum kymo_type type)
{
    return type == KYMO_TYPE_INT32 || type == KYMO_TYPE_FLOAT ? 4 : 8;
}

static bool is_number(enum kymo_type type)
{
    return type == KYMO_TYPE_INT64 || type == KYMO_TYPE_INT32 || type == KYMO_TYPE_FLOAT || type == KYMO_TYPE_DOUBLE;
}

static int allocate(struct series_table *t, struct kymo_err *err)
{
    t->core = KYMO_NEW_ARRAY(uint32_t, BATCH);
    bool ok = t->core != NULL;
    for (size_t i = 0; ok && i < t->table->column_count; i++) {
        enum kymo_type type = t->table->columns[i].type;
        if (i == t->pcore || !is_number(type))
            continue;
        t->cells[i].any = kymo_calloc(BATCH, size_of(type));
        ok = t->cells[i].any != NULL;
    }
    return ok ? 0 : kymo_err_set(err, -ENOMEM, "table %s: no memory", t->table->name);
}

int series_table_open(const char *dir, const struct parquet_options *opt, enum kymo_table_id table, unsigned pcore,
                      struct series_table **ret, struct kymo_err *err)
{
    struct series_table *t = KYMO_NEW(struct series_table);
    if (!t)
        return kymo_err_set(err, -ENOMEM, "no memory for a table");
    t->table = kymo_schema_table(table);
    t->pcore = pcore;
    int r = t->table->column_count <= COLUMNS_MAX ? 0 : kymo_err_set(err, -E2BIG, "%s: too wide", t->table->name);
    if (r == 0)
        r = allocate(t, err);
    if (r == 0)
        r = parquet_writer_open(dir, t->table, opt, &t->writer, err);
    for (unsigned i = 0; i < INPUT_CORES_MAX && r == 0 && pcore < t->table->column_count; i++) {
        t->core_ids[i] = parquet_writer_int_id(t->writer, pcore, i, err);
        r = t->core_ids[i] == PARQUET_NULL ? -ENOMEM : 0;
    }
    if (r < 0) {
        series_table_discard(t);
        return r;
    }
    *ret = t;
    return 0;
}

void series_table_int(struct series_table *t, unsigned column, int64_t v)
{
    if (t->table->columns[column].type == KYMO_TYPE_INT32)
        t->cells[column].int32[t->n] = (int32_t)v;
    else
        t->cells[column].int64[t->n] = v;
}

void series_table_real(struct series_table *t, unsigned column, double v)
{
    if (t->table->columns[column].type == KYMO_TYPE_FLOAT)
        t->cells[column].single[t->n] = (float)v;
    else
        t->cells[column].real[t->n] = v;
}

void series_table_core(struct series_table *t, unsigned pcore)
{
    t->core[t->n] = pcore;
}

void series_table_rates(struct series_table *t, const struct series_rate_columns *c)
{
    t->rate.at = t->cells[c->at].int64;
    t->rate.total = t->cells[c->total].int64;
    t->rate.current = t->cells[c->current].single;
    t->rate.cumulative = t->cells[c->cumulative].single;
}

static int flush(struct series_table *t, struct kymo_err *err)
{
    struct parquet_column c[COLUMNS_MAX] = {0};
    for (size_t i = 0; i < t->table->column_count; i++)
        c[i].values = t->cells[i].any;
    if (t->pcore < t->table->column_count)
        c[t->pcore] = (struct parquet_column){.index = t->core, .map = t->core_ids, .map_len = INPUT_CORES_MAX};
    int r = t->n ? parquet_writer_batch(t->writer, c, t->n, err) : 0;
    t->n = 0;
    return r;
}

int series_table_end(struct series_table *t, struct kymo_err *err)
{
    return ++t->n == BATCH ? flush(t, err) : 0;
}

int series_table_rate(struct series_table *t, int64_t at, unsigned pcore, double rate, uint64_t total,
                      struct kymo_err *err)
{
    size_t i = t->n;
    t->rate.at[i] = at;
    t->rate.total[i] = (int64_t)total;
    t->rate.current[i] = (float)rate;
    t->rate.cumulative[i] = (float)formulas_bytes_per_second(total, at);
    t->core[i] = pcore;
    return series_table_end(t, err);
}

uint64_t series_table_rows(const struct series_table *t)
{
    return parquet_writer_rows(t->writer) + t->n;
}

static void release(struct series_table *t)
{
    for (size_t i = 0; i < COLUMNS_MAX; i++)
        kymo_free(t->cells[i].any);
    kymo_free(t->core);
    kymo_free(t);
}

int series_table_finish(struct series_table *t, struct kymo_err *err)
{
    int r = flush(t, err);
    if (r < 0)
        t->writer = parquet_writer_discard(t->writer);
    else
        r = parquet_writer_finish(t->writer, err);
    release(t);
    return r;
}

struct series_table *series_table_discard(struct series_table *t)
{
    if (!t)
        return NULL;
    parquet_writer_discard(t->writer);
    release(t);
    return NULL;
}
