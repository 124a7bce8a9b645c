#include "collector/query/serve_own_rows.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

int serve_own_rows_open(struct serve_own_rows *r, const struct table_file *f, struct kymo_err *err)
{
    *r = (struct serve_own_rows){.file = f, .reader = table_reader_new(f)};
    return r->reader ? 0 : kymo_err_set(err, -ENOMEM, "no memory for a table");
}

void serve_own_rows_done(struct serve_own_rows *r)
{
    r->reader = table_reader_free(r->reader);
    kymo_free(r->rows);
    for (size_t i = 0; i < SERVE_OWN_COLUMNS_MAX; i++) {
        kymo_free(r->numbers[i]);
        kymo_free(r->texts[i]);
    }
}

/* Room for the rows that are left: few of a group, mostly. */
static int room(void **p, size_t *cap, size_t n, size_t size, struct kymo_err *err)
{
    return kymo_grow(p, cap, n + 1, TABLE_READER_GROUP_MAX + 1, size) < 0
               ? kymo_err_set(err, -ENOMEM, "no memory for the rows of a table")
               : 0;
}

int serve_own_rows_begin(struct serve_own_rows *r, size_t group, struct kymo_err *err)
{
    size_t n = r->file->rows[group];
    void *rows = r->rows;
    table_reader_forget(r->reader);
    r->group = group;
    r->n = 0;
    int rc = room(&rows, &r->cap, n, sizeof *r->rows, err);
    r->rows = rows;
    if (rc < 0)
        return rc;
    r->n = n;
    for (size_t i = 0; i < n; i++)
        r->rows[i] = (uint32_t)i;
    return 0;
}

/* All rows are read faster without their list. */
static const uint32_t *wanted(const struct serve_own_rows *r)
{
    return r->n == r->file->rows[r->group] ? NULL : r->rows;
}

int serve_own_rows_numbers(struct serve_own_rows *r, size_t column, struct kymo_err *err)
{
    void *values = r->numbers[column];
    int rc = room(&values, &r->caps[column], r->n, sizeof(int64_t), err);
    r->numbers[column] = values;
    if (rc < 0)
        return rc;
    return table_reader_ints(r->reader, r->group, column, wanted(r), r->n, r->numbers[column], err);
}

int serve_own_rows_texts(struct serve_own_rows *r, size_t column, struct kymo_err *err)
{
    void *values = r->texts[column];
    int rc = room(&values, &r->caps[column], r->n, sizeof(struct table_text), err);
    r->texts[column] = values;
    if (rc < 0)
        return rc;
    return table_reader_texts(r->reader, r->group, column, wanted(r), r->n, r->texts[column], err);
}

int serve_own_rows_reals(struct serve_own_rows *r, size_t column, double *ret, struct kymo_err *err)
{
    return table_reader_reals(r->reader, r->group, column, wanted(r), r->n, ret, err);
}

void serve_own_rows_tail(struct serve_own_rows *r, size_t n)
{
    if (r->n <= n)
        return;
    memmove(r->rows, r->rows + (r->n - n), n * sizeof *r->rows);
    r->n = n;
}

/* Whether the bounds of a group say that all of its rows have what is asked for. */
static bool all_have(const struct serve_own_rows *r, size_t column, int64_t low, int64_t high)
{
    return !r->file->optional[column] && table_file_min(r->file, r->group, column, INT64_MIN) >= low &&
           table_file_max(r->file, r->group, column, INT64_MAX) <= high;
}

int serve_own_rows_keep(struct serve_own_rows *r, size_t column, int64_t low, int64_t high, struct kymo_err *err)
{
    size_t kept = 0;
    if (all_have(r, column, low, high))
        return 0;
    int rc = serve_own_rows_numbers(r, column, err);
    if (rc < 0)
        return rc;
    const int64_t *v = r->numbers[column];
    for (size_t i = 0; i < r->n; i++) {
        r->rows[kept] = r->rows[i];
        kept += v[i] != TABLE_NULL && v[i] >= low && v[i] <= high;
    }
    r->n = kept;
    return 0;
}

int serve_own_rows_keep_text(struct serve_own_rows *r, size_t column, const char *text, struct kymo_err *err)
{
    const struct table_chunk *c = &r->file->chunks[r->group * r->file->n_columns + column];
    size_t len = strlen(text), kept = 0;
    if (!r->file->optional[column] && c->min_n == len && c->max_n == len && !memcmp(c->min, text, len) &&
        !memcmp(c->max, text, len))
        return 0;
    int rc = serve_own_rows_texts(r, column, err);
    if (rc < 0)
        return rc;
    const struct table_text *v = r->texts[column];
    for (size_t i = 0; i < r->n; i++) {
        r->rows[kept] = r->rows[i];
        kept += v[i].at && v[i].n == len && !memcmp(v[i].at, text, len);
    }
    r->n = kept;
    return 0;
}

struct sql_cell serve_own_number(int64_t v)
{
    return v == TABLE_NULL ? (struct sql_cell){.null = true, .text = ""} : (struct sql_cell){.i = v, .text = ""};
}

struct sql_cell serve_own_text(const struct table_text *t)
{
    return t->at ? (struct sql_cell){.text = t->at, .len = t->n} : (struct sql_cell){.null = true, .text = ""};
}
