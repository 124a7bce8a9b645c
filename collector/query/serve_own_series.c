#include "collector/query/serve_own_series.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/serve_own_events.h"
#include "collector/query/serve_own_rows.h"
#include "collector/query/serve_request.h"

enum { S_TIME, S_CORE, S_SEMAPHORE, S_FIRST };

#define BUCKETS_MAX (1u << 24)
#define GROUPS_OF_TWO 16 /* row groups of a table that two threads make copies of */
#define TAIL 2048        /* samples before the window that are looked at first */

/* The table's column that a part shows; what is computed for others is a column of kymo's. */
static const char *column_of(const struct serve_series_part *p)
{
    return strchr(p->value, '(') ? "cumulative_throughput" : p->value;
}

/* Names of a table's columns that series show, each once. */
static size_t list_columns(enum kymo_table_id table, const char *names[static SERVE_OWN_COLUMNS_MAX])
{
    const struct serve_series_row *row;
    size_t n = S_FIRST;
    names[S_TIME] = "timestamp";
    names[S_CORE] = "pcore_idx";
    names[S_SEMAPHORE] = "id";
    for (size_t i = 0; (row = serve_series_at(i)); i++)
        for (size_t k = 0; row->number == table && k < row->n_parts && n < SERVE_OWN_COLUMNS_MAX; k++) {
            size_t at = S_FIRST;
            while (at < n && strcmp(names[at], column_of(&row->parts[k])) != 0)
                at++;
            if (at == n)
                names[n++] = column_of(&row->parts[k]);
        }
    return n;
}

static bool has_all(const struct table_file *f, enum kymo_table_id table)
{
    const struct serve_series_row *row;
    bool all = f->types[S_TIME] == TABLE_I64;
    for (size_t i = S_FIRST; i < f->n_columns; i++)
        all = all && f->types[i] != TABLE_ABSENT && f->types[i] != TABLE_TEXT;
    for (size_t i = 0; (row = serve_series_at(i)); i++)
        if (row->number == table)
            all = all && (!row->by_core || f->types[S_CORE] == TABLE_I32 || f->types[S_CORE] == TABLE_I64) &&
                  (!row->by_semaphore || f->types[S_SEMAPHORE] == TABLE_TEXT);
    return all;
}

int serve_own_open_samples(struct serve_own *o, const struct query_files *files, const char *place,
                           struct kymo_err *err)
{
    const struct serve_series_row *row;
    for (size_t i = 0; (row = serve_series_at(i)); i++) {
        const char *names[SERVE_OWN_COLUMNS_MAX];
        struct table_file **f = &o->samples[row->number];
        char *path KYMO_FREE = NULL;
        int r = *f ? 0 : query_files_only(files, place, row->table, &path, err);
        if (r < 0)
            return r;
        if (!path)
            continue;
        size_t n = list_columns(row->number, names);
        r = table_file_open(path, names, n, f, NULL);
        if (r == -ENOMEM)
            return kymo_err_set(err, r, "no memory for a table");
        if (r == 0 && !has_all(*f, row->number))
            *f = table_file_free(*f);
    }
    return 0;
}

bool serve_own_has_samples(const struct serve_dir *d, enum kymo_table_id table)
{
    return d->own_levels && d->own->samples[table];
}

uint64_t serve_own_count_samples(const struct serve_dir *d, enum kymo_table_id table)
{
    const struct table_file *f = d->own->samples[table];
    uint64_t n = 0;
    for (size_t g = 0; g < f->n_groups; g++)
        n += f->rows[g];
    return n;
}

/* The rows of a group that are being looked at. */
struct group {
    struct serve_own_samples *s;
    struct serve_own_rows rows;
    double *values[SERVE_OWN_COLUMNS_MAX];
    size_t caps[SERVE_OWN_COLUMNS_MAX];
    size_t places[SERVE_SERIES_MAX][SERVE_PARTS_MAX]; /* columns of the parts of wanted */
    bool needed[SERVE_OWN_COLUMNS_MAX];
    bool all[SERVE_SERIES_MAX]; /* whether all rows of the group are of wanted */
};

static void find_places(struct group *g)
{
    const char *names[SERVE_OWN_COLUMNS_MAX];
    size_t n = list_columns(g->s->table, names);
    g->needed[S_TIME] = true;
    for (size_t i = 0; i < g->s->n; i++) {
        const struct serve_series_row *row = g->s->wanted[i].series->row;
        g->needed[S_CORE] |= row->by_core;
        g->needed[S_SEMAPHORE] |= row->by_semaphore;
        for (size_t k = 0; k < row->n_parts; k++)
            for (size_t c = S_FIRST; c < n; c++)
                if (!strcmp(names[c], column_of(&row->parts[k]))) {
                    g->places[i][k] = c;
                    g->needed[c] = true;
                }
    }
}

static bool is_real(const struct table_file *f, size_t column)
{
    return f->types[column] == TABLE_F32 || f->types[column] == TABLE_F64;
}

static int read_values(struct group *g, size_t column, struct kymo_err *err)
{
    struct serve_own_rows *r = &g->rows;
    void *values = g->values[column];
    int rc = kymo_grow(&values, &g->caps[column], r->n + 1, TABLE_READER_GROUP_MAX + 1, sizeof(double));
    g->values[column] = values;
    if (rc < 0)
        return kymo_err_set(err, -ENOMEM, "no memory for a column");
    if (is_real(r->file, column))
        return serve_own_rows_reals(r, column, g->values[column], err);
    rc = serve_own_rows_numbers(r, column, err);
    for (size_t i = 0; i < r->n && rc == 0; i++) {
        int64_t v = r->numbers[column][i];
        g->values[column][i] = v == TABLE_NULL ? NAN : (double)v;
    }
    return rc;
}

/* Samples of one group whose time lies from from to to, the last so many of these. */
static int read_group(struct group *g, size_t number, int64_t from, int64_t to, size_t most, struct kymo_err *err)
{
    struct serve_own_rows *r = &g->rows;
    if (g->s->stop && *g->s->stop)
        return kymo_err_set(err, -ECANCELED, "nobody wants the answer any more");
    int rc = serve_own_rows_begin(r, number, err);
    if (rc == 0)
        rc = serve_own_rows_keep(r, S_TIME, from, to, err);
    serve_own_rows_tail(r, most);
    if (rc < 0 || r->n == 0)
        return rc;
    rc = serve_own_rows_numbers(r, S_TIME, err);
    if (rc == 0 && g->needed[S_CORE])
        rc = serve_own_rows_numbers(r, S_CORE, err);
    if (rc == 0 && g->needed[S_SEMAPHORE])
        rc = serve_own_rows_texts(r, S_SEMAPHORE, err);
    for (size_t c = S_FIRST; c < r->file->n_columns && rc == 0; c++)
        if (g->needed[c])
            rc = read_values(g, c, err);
    return rc;
}

static bool is_of(const struct group *g, const struct serve_series *s, size_t row)
{
    int64_t core = s->row->by_core ? g->rows.numbers[S_CORE][row] : TABLE_NULL;
    if (s->row->by_core && s->pcore >= 0 && core != TABLE_NULL && core != s->pcore)
        return false;
    if (s->row->by_core && core == TABLE_NULL && s->pcore > 0)
        return false;
    if (!s->semaphore)
        return true;
    const struct table_text *t = &g->rows.texts[S_SEMAPHORE][row];
    return t->at && t->n == strlen(s->semaphore) && !memcmp(t->at, s->semaphore, t->n);
}

/* Rows come from the last to the first. Of several of one time the first counts, as for arg_max. */
static void take_before(struct group *g, size_t i, size_t row)
{
    struct serve_own_wanted *w = &g->s->wanted[i];
    int64_t ts = g->rows.numbers[S_TIME][row];
    for (size_t k = 0; k < w->series->row->n_parts; k++) {
        double v = g->values[g->places[i][k]][row];
        if (isnan(v) || (w->before_ts[k] != TABLE_NULL && w->before_ts[k] != ts))
            continue;
        w->before[k] = v;
        w->before_ts[k] = ts;
    }
    w->has_before = true;
}

/* Whether all that is looked for before a time is known. */
static bool all_before(const struct serve_own_samples *s, int64_t ts)
{
    for (size_t i = 0; i < s->n; i++) {
        if (!s->wanted[i].has_before)
            return false;
        for (size_t k = 0; k < s->wanted[i].series->row->n_parts; k++)
            if (s->wanted[i].before_ts[k] == TABLE_NULL || s->wanted[i].before_ts[k] <= ts)
                return false;
    }
    return true;
}

static void look_back_in(struct group *g)
{
    const int64_t *times = g->rows.numbers[S_TIME];
    for (size_t row = g->rows.n; row-- > 0;) {
        /* Looking at all series for each row is worth it only now and then. */
        if ((g->rows.n - row) % 64 == 0 && all_before(g->s, times[row]))
            return;
        for (size_t i = 0; i < g->s->n; i++)
            if (is_of(g, g->s->wanted[i].series, row))
                take_before(g, i, row);
    }
}

static int look_back_at(struct group *g, size_t number, int64_t first, struct kymo_err *err)
{
    int rc = read_group(g, number, INT64_MIN + 1, g->s->from - 1, TAIL, err);
    if (rc == 0)
        look_back_in(g);
    if (rc < 0 || g->rows.n < TAIL ||
        all_before(g->s, first > g->rows.numbers[S_TIME][0] ? first : g->rows.numbers[S_TIME][0]))
        return rc;
    rc = read_group(g, number, INT64_MIN + 1, g->s->from - 1, SIZE_MAX, err);
    if (rc == 0)
        look_back_in(g);
    return rc;
}

/* Backwards, from the group that has the last sample before the window. */
static int look_back(struct group *g, struct kymo_err *err)
{
    const struct table_file *f = g->rows.file;
    struct serve_own_samples *s = g->s;
    uint64_t rows = serve_own_count_samples(s->dir, s->table), looked = 0;
    int rc = 0;
    for (size_t number = f->n_groups; number-- > 0 && rc == 0;) {
        int64_t first = table_file_min(f, number, S_TIME, INT64_MIN + 1);
        if (first >= s->from)
            continue;
        if (looked && (all_before(s, first) || (rows > s->look_back && looked > s->look_back / 4)))
            break;
        rc = look_back_at(g, number, first, err);
        looked += f->rows[number];
        if (all_before(s, first))
            break;
    }
    return rc;
}

static void begin_column(struct serve_own_wanted *w, int64_t column)
{
    w->column = column;
    for (size_t k = 0; k < w->series->row->n_parts; k++) {
        w->least[k] = w->greatest[k] = w->last[k] = NAN;
        w->last_ts[k] = TABLE_NULL;
    }
}

/* Of rows of a column that a series has, the last with a value; of several of one time the first counts. */
static void take_last(const struct group *g, struct serve_own_wanted *w, size_t k, const double *values, size_t from,
                      size_t to)
{
    const int64_t *times = g->rows.numbers[S_TIME];
    size_t row = to, found = to;
    while (row > from && (found == to || times[row - 1] == times[found])) {
        row--;
        if (!isnan(values[row]) && is_of(g, w->series, row))
            found = row;
    }
    if (found == to || (w->last_ts[k] != TABLE_NULL && times[found] <= w->last_ts[k]))
        return;
    w->last_ts[k] = times[found];
    w->last[k] = values[found];
}

/* Rows from..to lie in one column. all: they are all of the series. */
static void take_part(struct group *g, size_t i, size_t k, size_t from, size_t to, bool all)
{
    struct serve_own_wanted *w = &g->s->wanted[i];
    const double *values = g->values[g->places[i][k]];
    double least = INFINITY, greatest = -INFINITY;
    for (size_t row = from; row < to; row++) {
        if (!all && !is_of(g, w->series, row))
            continue;
        /* False for what is no number. */
        least = values[row] < least ? values[row] : least;
        greatest = values[row] > greatest ? values[row] : greatest;
    }
    if (least > greatest)
        return; /* no value */
    w->least[k] = fmin(w->least[k], least);
    w->greatest[k] = fmax(w->greatest[k], greatest);
    take_last(g, w, k, values, from, to);
}

static void take_rows(struct group *g, size_t i, size_t from, size_t to, int64_t column, bool all)
{
    struct serve_own_samples *s = g->s;
    struct serve_own_wanted *w = &s->wanted[i];
    while (!all && from < to && !is_of(g, w->series, from))
        from++;
    if (from == to)
        return;
    if (w->column != column) {
        if (w->column >= 0)
            s->column(s->ctx, i);
        begin_column(w, column);
    }
    for (size_t k = 0; k < w->series->row->n_parts; k++)
        take_part(g, i, k, from, to, all);
}

static int64_t column_at(const struct serve_own_samples *s, int64_t ts)
{
    if (s->step > 0)
        return ts / s->step;
    int64_t c = (int64_t)floor((double)(ts - s->from) * (double)s->width / (double)(s->to - s->from));
    return c >= s->width ? s->width - 1 : c < 0 ? 0 : c;
}

/* Whether all rows of a group are of a series, by its bounds; without a core they are the first's (is_of). */
static bool all_of(const struct group *g, const struct serve_series *s)
{
    const struct table_file *f = g->rows.file;
    if (s->semaphore)
        return false;
    if (!s->row->by_core || s->pcore < 0)
        return true;
    return (s->pcore == 0 || !f->optional[S_CORE]) &&
           table_file_min(f, g->rows.group, S_CORE, TABLE_NULL) == s->pcore &&
           table_file_max(f, g->rows.group, S_CORE, TABLE_NULL) == s->pcore;
}

/* Behind the rows of the same column as this one: samples ascend. */
static size_t end_of_column(const struct group *g, size_t row, int64_t column)
{
    const int64_t *times = g->rows.numbers[S_TIME];
    if (g->s->step > 0) {
        int64_t end = (column + 1) * g->s->step;
        while (row < g->rows.n && times[row] < end)
            row++;
        return row;
    }
    do
        row++;
    while (row < g->rows.n && column_at(g->s, times[row]) == column);
    return row;
}

static void take_group(struct group *g)
{
    struct serve_own_samples *s = g->s;
    for (size_t row = 0, end; row < g->rows.n; row = end) {
        int64_t column = column_at(s, g->rows.numbers[S_TIME][row]);
        end = end_of_column(g, row, column);
        for (size_t i = 0; i < s->n; i++)
            take_rows(g, i, row, end, column, g->all[i]);
    }
}

static int read_window(struct group *g, struct kymo_err *err)
{
    const struct table_file *f = g->rows.file;
    struct serve_own_samples *s = g->s;
    int rc = 0;
    for (size_t number = 0; number < f->n_groups && rc == 0; number++) {
        if (!table_file_may_have(f, number, S_TIME, s->from, s->to))
            continue;
        rc = read_group(g, number, s->from, s->to, SIZE_MAX, err);
        for (size_t i = 0; i < s->n; i++)
            g->all[i] = all_of(g, s->wanted[i].series);
        if (rc == 0)
            take_group(g);
    }
    for (size_t i = 0; i < s->n && rc == 0; i++)
        if (s->wanted[i].column >= 0)
            s->column(s->ctx, i);
    return rc;
}

static void begin(struct serve_own_samples *s)
{
    for (size_t i = 0; i < s->n; i++) {
        s->wanted[i].column = -1;
        for (size_t k = 0; k < SERVE_PARTS_MAX; k++) {
            s->wanted[i].before[k] = NAN;
            s->wanted[i].before_ts[k] = TABLE_NULL;
        }
    }
}

int serve_own_samples(struct serve_own_samples *s, struct kymo_err *err)
{
    struct group *g KYMO_FREE = KYMO_NEW(struct group);
    if (!g)
        return kymo_err_set(err, -ENOMEM, "no memory for series");
    g->s = s;
    begin(s);
    find_places(g);
    int rc = serve_own_rows_open(&g->rows, s->dir->own->samples[s->table], err);
    if (rc == 0)
        rc = look_back(g, err);
    if (rc == 0)
        rc = read_window(g, err);
    serve_own_rows_done(&g->rows);
    for (size_t c = 0; c < SERVE_OWN_COLUMNS_MAX; c++)
        kymo_free(g->values[c]);
    return rc;
}

/* A part of the time, which a thread makes copies of. */
struct making {
    struct serve_own_samples s;
    struct serve_own_coarse *made; /* of each that is wanted */
    int r;
    struct kymo_err err;
};

static void keep_bucket(void *ctx, size_t i)
{
    struct making *m = ctx;
    const struct serve_own_wanted *w = &m->s.wanted[i];
    struct serve_own_coarse *c = &m->made[i];
    void *list = c->buckets;
    int r = w->last_ts[0] == TABLE_NULL ? 0 : kymo_grow(&list, &c->cap, c->n + 1, BUCKETS_MAX, sizeof *c->buckets);
    c->buckets = list;
    if (r < 0)
        m->r = r;
    else if (w->last_ts[0] != TABLE_NULL)
        c->buckets[c->n++] = (struct serve_own_bucket){w->last_ts[0], w->least[0], w->greatest[0], w->last[0]};
}

static void *make_part(void *ctx)
{
    struct making *m = ctx;
    /* It takes whole processors for a while, in which the events are wanted that are seen first. */
    serve_give_way();
    int r = serve_own_samples(&m->s, &m->err);
    if (r == 0 && m->r < 0)
        r = kymo_err_set(&m->err, m->r, "no memory for series");
    m->r = r;
    return NULL;
}

/* A bucket's begin near the middle of the table; 0: it is too short for two threads. */
static int64_t middle_of(const struct table_file *f, int64_t step)
{
    return f->n_groups < GROUPS_OF_TWO ? 0 : table_file_min(f, f->n_groups / 2, S_TIME, 0) / step * step;
}

/* Both parts; the second on a thread of its own, where there is one. */
static void make_parts(struct making parts[2], int64_t middle)
{
    pthread_t thread;
    int r = -1;
    if (middle > 0) {
        parts[0].s.to = middle - 1;
        parts[1].s.from = middle;
        r = pthread_create(&thread, NULL, make_part, &parts[1]);
    }
    (void)make_part(&parts[0]);
    if (r == 0)
        (void)pthread_join(thread, NULL);
    else if (middle > 0)
        (void)make_part(&parts[1]);
}

static int append(struct serve_own_coarse *to, const struct serve_own_coarse *from)
{
    void *list = to->buckets;
    int r = kymo_grow(&list, &to->cap, to->n + from->n + 1, BUCKETS_MAX, sizeof *to->buckets);
    to->buckets = list;
    if (r == 0 && from->n)
        memcpy(to->buckets + to->n, from->buckets, from->n * sizeof *from->buckets);
    to->n += r == 0 ? from->n : 0;
    return r;
}

static int begin_part(struct making *m, struct serve_dir *d, enum kymo_table_id table)
{
    m->s.wanted = KYMO_NEW_ARRAY(struct serve_own_wanted, d->series->n + 1);
    m->made = KYMO_NEW_ARRAY(struct serve_own_coarse, d->series->n + 1);
    for (size_t i = 0; m->s.wanted && i < d->series->n; i++)
        if (d->series->items[i].row->number == table)
            m->s.wanted[m->s.n++].series = &d->series->items[i];
    return m->s.wanted && m->made ? 0 : -ENOMEM;
}

static void end_part(struct making *m)
{
    for (size_t i = 0; m->made && i < m->s.n; i++)
        kymo_free(m->made[i].buckets);
    kymo_free(m->made);
    kymo_free(m->s.wanted);
}

/* Room for all series of the directory. */
static int make_room(struct serve_dir *d)
{
    struct serve_own *o = d->own;
    if (!o->coarse && !(o->coarse = KYMO_NEW_ARRAY(struct serve_own_coarse, d->series->n + 1)))
        return -ENOMEM;
    o->n_coarse = d->series->n;
    return 0;
}

static int keep_parts(struct serve_dir *d, const struct making parts[2])
{
    int r = 0;
    for (size_t i = 0; i < parts[0].s.n && r == 0; i++) {
        struct serve_own_coarse *c = &d->own->coarse[parts[0].s.wanted[i].series - d->series->items];
        c->n = 0;
        r = append(c, &parts[0].made[i]);
        if (r == 0)
            r = append(c, &parts[1].made[i]);
    }
    return r;
}

int serve_own_make_coarse(struct serve_dir *d, enum kymo_table_id table, int64_t step, const volatile bool *stop,
                          struct kymo_err *err)
{
    struct making parts[2] = {{.r = 0}, {.r = 0}};
    int r = make_room(d);
    for (size_t i = 0; i < 2; i++) {
        parts[i].s = (struct serve_own_samples){
            .dir = d, .table = table, .to = INT64_MAX, .step = step, .stop = stop, .column = keep_bucket};
        parts[i].s.ctx = &parts[i];
        r = r < 0 ? r : begin_part(&parts[i], d, table);
    }
    if (r == 0)
        make_parts(parts, middle_of(d->own->samples[table], step));
    for (size_t i = 0; i < 2 && r == 0; i++)
        if ((r = parts[i].r) < 0 && err)
            *err = parts[i].err;
    if (r == 0 && (r = keep_parts(d, parts)) < 0)
        r = kymo_err_set(err, r, "no memory for series");
    for (size_t i = 0; i < 2; i++)
        end_part(&parts[i]);
    return r < 0 && err && !err->code ? kymo_err_set(err, r, "no memory for series") : r;
}

static void take_bucket(struct serve_own_samples *s, size_t i, const struct serve_own_bucket *b)
{
    struct serve_own_wanted *w = &s->wanted[i];
    int64_t column = column_at(s, b->ts);
    if (w->column != column) {
        if (w->column >= 0)
            s->column(s->ctx, i);
        begin_column(w, column);
    }
    w->least[0] = fmin(w->least[0], b->least);
    w->greatest[0] = fmax(w->greatest[0], b->greatest);
    w->last[0] = b->last;
}

void serve_own_coarse_samples(struct serve_own_samples *s)
{
    begin(s);
    for (size_t i = 0; i < s->n; i++) {
        struct serve_own_wanted *w = &s->wanted[i];
        const struct serve_own_coarse *c = &s->dir->own->coarse[w->series - s->dir->series->items];
        for (size_t k = 0; k < c->n && c->buckets[k].ts <= s->to; k++) {
            if (c->buckets[k].ts >= s->from) {
                take_bucket(s, i, &c->buckets[k]);
                continue;
            }
            w->before[0] = c->buckets[k].last;
            w->has_before = true;
        }
        if (w->column >= 0)
            s->column(s->ctx, i);
    }
}
