#include "collector/query/figures.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

struct row {
    char *key;
    const char *field, *unit;
    double values[FIGURES_CAPTURES_MAX]; /* NAN: none */
    double weight;                       /* by what rows are put in order */
    size_t number;
};

struct figures {
    size_t sides[FIGURES_CAPTURES_MAX], n_sides, captures;
    struct row *rows;
    size_t n, cap;
    json_t *index; /* field and key: the row's number */
};

struct figures *figures_new(const size_t *sides, size_t n)
{
    struct figures *f = KYMO_NEW(struct figures);
    if (!f || !(f->index = json_object()))
        return figures_free(f);
    for (size_t i = 0; i < n && i < FIGURES_CAPTURES_MAX; i++, f->n_sides++) {
        f->sides[i] = sides[i];
        f->captures += sides[i];
    }
    return f;
}

struct figures *figures_free(struct figures *f)
{
    if (!f)
        return NULL;
    for (size_t i = 0; i < f->n; i++)
        kymo_free(f->rows[i].key);
    kymo_free(f->rows);
    json_decref(f->index);
    kymo_free(f);
    return NULL;
}

static int add_row(struct figures *f, const char *key, const char *field, const char *unit, const char *name,
                   struct kymo_err *err)
{
    void *list = f->rows;
    if (kymo_grow(&list, &f->cap, f->n + 1, FIGURES_ROWS_MAX, sizeof *f->rows) < 0)
        return kymo_err_set(err, -E2BIG, "more than %d rows are to be compared", FIGURES_ROWS_MAX);
    f->rows = list;
    struct row *row = &f->rows[f->n];
    *row = (struct row){.key = kymo_strdup(key), .field = field, .unit = unit, .number = f->n};
    for (size_t i = 0; i < FIGURES_CAPTURES_MAX; i++)
        row->values[i] = NAN;
    if (!row->key || json_object_set_new(f->index, name, json_integer((json_int_t)f->n)) < 0) {
        kymo_free(row->key);
        return kymo_err_set(err, -ENOMEM, "no memory for a row");
    }
    f->n++;
    return 0;
}

int figures_add(struct figures *f, const char *key, const char *field, const char *unit, size_t capture, double value,
                struct kymo_err *err)
{
    char *name KYMO_FREE = kymo_asprintf("%s %s", field, key);
    if (!name)
        return kymo_err_set(err, -ENOMEM, "no memory for a row");
    const json_t *at = json_object_get(f->index, name);
    size_t number = at ? (size_t)json_integer_value(at) : f->n;
    int r = at ? 0 : add_row(f, key, field, unit, name, err);
    if (r == 0 && capture < f->captures && isfinite(value))
        f->rows[number].values[capture] = value;
    return r;
}

struct side {
    size_t n;
    double sum, min, max;
};

static struct side side_of(const double *values, size_t n)
{
    struct side s = {.min = INFINITY, .max = -INFINITY};
    for (size_t i = 0; i < n; i++) {
        if (isnan(values[i]))
            continue;
        s.n++;
        s.sum += values[i];
        s.min = fmin(s.min, values[i]);
        s.max = fmax(s.max, values[i]);
    }
    return s;
}

/* A whole number is one. */
static json_t *number_of(double v)
{
    return isnan(v) ? json_null() : v == floor(v) && fabs(v) < 9e15 ? json_integer((json_int_t)v) : json_real(v);
}

static json_t *side_json(const struct side *s, const double *values, size_t n)
{
    if (s->n == 0)
        return json_null();
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(list, number_of(values[i]));
    return json_pack("{s:I, s:o, s:o, s:o, s:o}", "n", (json_int_t)s->n, "mean", number_of(s->sum / (double)s->n),
                     "min", number_of(s->min), "max", number_of(s->max), "values", list);
}

/* A difference is one only if it is greater than what captures of one side differ by, where that is known. */
static json_t *delta_json(const struct side *base, const struct side *s)
{
    if (base->n == 0 || s->n == 0)
        return json_null();
    double from = base->sum / (double)base->n, by = s->sum / (double)s->n - from;
    bool known = base->n > 1 && s->n > 1;
    double spread = fmax(base->max - base->min, s->max - s->min);
    return json_pack("{s:o, s:o, s:o, s:o}", "abs", number_of(by), "rel",
                     from != 0 ? json_real(by / fabs(from)) : json_null(), "spread",
                     known ? number_of(spread) : json_null(), "differs",
                     known ? json_boolean(fabs(by) > spread) : json_null());
}

static json_t *row_json(const struct figures *f, const struct row *row, bool zero)
{
    double values[FIGURES_CAPTURES_MAX];
    struct side base = {0};
    json_t *sides = json_array(), *deltas = json_array();
    for (size_t i = 0; i < FIGURES_CAPTURES_MAX; i++)
        values[i] = isnan(row->values[i]) && zero ? 0 : row->values[i];
    for (size_t i = 0, at = 0; i < f->n_sides; at += f->sides[i++]) {
        struct side s = side_of(values + at, f->sides[i]);
        base = i == 0 ? s : base;
        (void)json_array_append_new(sides, side_json(&s, values + at, f->sides[i]));
        (void)json_array_append_new(deltas, i == 0 ? json_null() : delta_json(&base, &s));
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "key", row->key, "field", row->field, "unit", row->unit, "sides",
                     sides, "deltas", deltas);
}

static int by_weight(const void *a, const void *b)
{
    const struct row *x = *(const struct row *const *)a, *y = *(const struct row *const *)b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    int order = strcmp(x->key, y->key);
    return order ? order : x->number < y->number ? -1 : 1;
}

/* All rows of a key have the weight of its row of that field. */
static void weigh(const struct figures *f, struct row **rows, const char *by)
{
    for (size_t i = 0; i < f->n; i++) {
        char *name KYMO_FREE = kymo_asprintf("%s %s", by, rows[i]->key);
        const json_t *at = name ? json_object_get(f->index, name) : NULL;
        const struct row *row = at ? &f->rows[json_integer_value(at)] : rows[i];
        rows[i]->weight = side_of(row->values, f->captures).max;
    }
    qsort(rows, f->n, sizeof(struct row *), by_weight);
}

json_t *figures_rows(const struct figures *f, const char *by, bool zero, size_t max, bool *more)
{
    json_t *list = json_array();
    struct row **rows KYMO_FREE = KYMO_NEW_ARRAY(struct row *, f->n + 1);
    *more = f->n > max;
    if (!rows)
        return list;
    for (size_t i = 0; i < f->n; i++)
        rows[i] = &f->rows[i];
    if (by)
        weigh(f, rows, by);
    for (size_t i = 0; i < f->n && i < max; i++)
        (void)json_array_append_new(list, row_json(f, rows[i], zero));
    return list;
}
