/* Series of a window: least, greatest and last value of each pixel column. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/op_common.h"
#include "collector/query/serve_ops.h"
#include "collector/query/serve_own_series.h"
#include "collector/query/serve_series.h"

#define SQL_MAX (1u << 20)
#define COLUMNS_MAX (1 + 3 * SERVE_PARTS_MAX)
#define COARSE_ROWS 500000     /* a table of more rows is read through a coarser one, which lies in memory */
#define COARSE_BUCKETS 65536   /* of the profile's time */
#define LOOK_BACK_ROWS 4000000 /* of a table that may be read whole for the value before a window */

struct chosen {
    const struct serve_series *series;
    size_t packed, first; /* first: its values' place in the rows of its table */
    bool has_before, begun;
    double before[SERVE_PARTS_MAX];
};

struct series {
    struct serve_request *q;
    const struct sql *sql;
    struct serve_dir *dir;
    struct op_window w;
    struct packed *packed;
    struct chosen *chosen;
    size_t n;
    size_t at, end; /* of one table */
    int64_t rows;   /* that it has */
    bool coarse;    /* it is read through the coarser one */
    bool before;    /* what the rows are */
};

/* Packed columns of a series; their names must outlive the answer. */
static int open_track(struct series *t, struct chosen *c, char (*names)[32], struct kymo_err *err)
{
    static const char *const kinds[] = {"min", "max", "last"};
    const struct serve_series_row *row = c->series->row;
    struct packed_column columns[COLUMNS_MAX] = {{"column", PACKED_U32}};
    size_t n = 1;
    for (size_t i = 0; i < row->n_parts; i++)
        for (size_t k = 0; k < 3; k++, n++) {
            bool one = row->n_parts == 1;
            (void)snprintf(names[n], sizeof names[n], "%s%s%s", kinds[k], one ? "" : ".",
                           one ? "" : row->parts[i].name);
            columns[n] = (struct packed_column){names[n], PACKED_F64};
        }
    c->packed = packed_track(t->packed, c->series->id, "series", 0, columns, n);
    return n <= COLUMNS_MAX ? 0 : kymo_err_set(err, -E2BIG, "a series of %zu columns", n);
}

static int choose(struct series *t, const struct serve_series_list *list, struct kymo_err *err)
{
    const char *tracks = serve_question_text(serve_question_of(t->q), "tracks"),
               *groups = serve_question_text(serve_question_of(t->q), "groups");
    t->chosen = KYMO_NEW_ARRAY(struct chosen, list->n + 1);
    if (!t->chosen)
        return kymo_err_set(err, -ENOMEM, "no memory for series");
    for (size_t i = 0; i < list->n; i++) {
        const struct serve_series *s = &list->items[i];
        /* Semaphores are many: they are asked for by name or by group. */
        bool wanted = tracks   ? serve_question_has(tracks, s->id)
                      : groups ? serve_question_has(groups, s->row->group)
                               : !s->row->by_semaphore;
        if (wanted)
            t->chosen[t->n++] = (struct chosen){.series = s};
    }
    return 0;
}

static void put_row(struct series *t, const struct chosen *c, int64_t column, const double *values)
{
    packed_int(t->packed, c->packed, 0, column);
    for (size_t i = 0; i < 3 * c->series->row->n_parts; i++)
        packed_real(t->packed, c->packed, 1 + i, values[i]);
}

static void put_before(struct series *t, struct chosen *c)
{
    double values[3 * SERVE_PARTS_MAX] = {0};
    for (size_t i = 0; i < 3 * c->series->row->n_parts; i++)
        values[i] = c->before[i / 3];
    put_row(t, c, 0, values);
}

static void take_before(struct chosen *c, const struct sql_cell *cells)
{
    for (size_t i = 0; i < c->series->row->n_parts && !c->has_before; i++)
        c->before[i] = cells[3 * i + 2].null ? NAN : cells[3 * i + 2].f;
    c->has_before = true;
}

static void take_column(struct series *t, struct chosen *c, int64_t column, const struct sql_cell *cells)
{
    double values[3 * SERVE_PARTS_MAX] = {0};
    for (size_t i = 0; i < 3 * c->series->row->n_parts; i++)
        values[i] = cells[i].null ? NAN : cells[i].f;
    if (!c->begun && c->has_before && column > 0)
        put_before(t, c);
    for (size_t i = 0; !c->begun && c->has_before && column == 0 && i < c->series->row->n_parts; i++) {
        values[3 * i] = fmin(values[3 * i], c->before[i]);
        values[3 * i + 1] = fmax(values[3 * i + 1], c->before[i]);
    }
    c->begun = true;
    put_row(t, c, column, values);
}

static bool is_of(const struct chosen *c, const struct sql_cell *cells)
{
    const struct serve_series *s = c->series;
    if (s->row->by_core && s->pcore >= 0 && !cells[0].null && cells[0].i != s->pcore)
        return false;
    if (s->row->by_core && cells[0].null && s->pcore > 0)
        return false;
    return !s->semaphore ||
           (strlen(s->semaphore) == cells[1].len && !memcmp(s->semaphore, cells[1].text, cells[1].len));
}

/* pcore, semaphore, column, then three values for each part of each row of the table that is asked for. */
static int take_row(void *ctx, const struct sql_cell *cells, struct kymo_err *err)
{
    struct series *t = ctx;
    (void)err;
    for (size_t i = t->at; i < t->end; i++) {
        struct chosen *c = &t->chosen[i];
        if (!is_of(c, cells))
            continue;
        if (t->before)
            take_before(c, cells + 3 + c->first);
        else
            take_column(t, c, cells[2].i, cells + 3 + c->first);
    }
    return 0;
}

/* Three columns for each value of a row. */
static int add_row_values(const struct series *t, const struct serve_series_row *row, struct kymo_buf *b)
{
    int r = 0;
    for (size_t k = 0; k < row->n_parts && r == 0; k++) {
        const char *value = row->parts[k].value;
        if (t->coarse)
            r = kymo_buf_printf(
                b, ", min(\"min %s\")::DOUBLE, max(\"max %s\")::DOUBLE, arg_max(\"last %s\", timestamp)::DOUBLE",
                row->label, row->label, row->label);
        else
            r = kymo_buf_printf(b, ", min(%s)::DOUBLE, max(%s)::DOUBLE, arg_max(%s, timestamp)::DOUBLE", value, value,
                                value);
    }
    return r;
}

/* Each row that is asked for once: those of one table stand together. */
static int add_values(struct series *t, struct kymo_buf *b)
{
    const struct serve_series_row *last = NULL;
    size_t n = 0, begin = 0;
    int r = 0;
    for (size_t i = t->at; i < t->end && r == 0; i++) {
        const struct serve_series_row *row = t->chosen[i].series->row;
        if (row != last) {
            begin = n;
            n += 3 * row->n_parts;
            r = add_row_values(t, row, b);
        }
        last = row;
        t->chosen[i].first = begin;
    }
    return r;
}

static int run(struct series *t, int64_t from, int64_t to, struct kymo_err *err)
{
    const struct serve_series_row *row = t->chosen[t->at].series->row;
    struct sql_bind binds[] = {SQL_INT(from), SQL_INT(to), SQL_INT(t->w.from), SQL_INT(t->w.to - t->w.from),
                               SQL_INT(t->w.width)};
    struct kymo_buf b;
    kymo_buf_init(&b, SQL_MAX);
    int r = kymo_buf_printf(
        &b, "SELECT %s, %s, greatest(least(floor((timestamp - $3)::DOUBLE * $5 / $4)::BIGINT, $5 - 1), 0) AS c",
        row->by_core ? "pcore_idx" : "NULL::BIGINT", row->by_semaphore ? "id" : "''");
    if (r == 0)
        r = add_values(t, &b);
    if (r == 0)
        r = kymo_buf_printf(&b, " FROM k.\"%s%s\" WHERE timestamp >= $1 AND timestamp <= $2 GROUP BY ALL ORDER BY c",
                            t->coarse ? "coarse_" : "", row->table);
    r = r < 0 ? kymo_err_set(err, r, "no memory for a statement")
              : sql_run(t->sql, (const char *)b.data, binds, 5, take_row, t, err);
    kymo_buf_done(&b);
    return r;
}

/* Least, greatest and last value of each row of the table, in each bucket of time, kept with the directory. */
static int make_coarse(struct series *t, int64_t bucket, struct kymo_err *err)
{
    const struct serve_series_row *row = t->chosen[t->at].series->row, *each;
    struct kymo_buf b;
    kymo_buf_init(&b, SQL_MAX);
    int r = kymo_buf_printf(&b, "CREATE TABLE k.\"coarse_%s\" AS SELECT %s%s, max(timestamp) AS timestamp", row->table,
                            row->by_core ? "pcore_idx" : "NULL::BIGINT AS pcore_idx", row->by_semaphore ? ", id" : "");
    for (size_t i = 0; r == 0 && (each = serve_series_at(i)); i++)
        if (each->number == row->number)
            r = kymo_buf_printf(&b,
                                ", min(%s) AS \"min %s\", max(%s) AS \"max %s\", arg_max(%s, timestamp) AS \"last %s\"",
                                each->parts[0].value, each->label, each->parts[0].value, each->label,
                                each->parts[0].value, each->label);
    if (r == 0)
        r = kymo_buf_printf(&b, " FROM k.\"%s\" GROUP BY pcore_idx%s, timestamp // %lld", row->table,
                            row->by_semaphore ? ", id" : "", (long long)bucket);
    r = r < 0 ? kymo_err_set(err, r, "no memory for a statement")
              : sql_run(t->sql, (const char *)b.data, NULL, 0, NULL, NULL, err);
    kymo_buf_done(&b);
    return r;
}

/* Semaphores are many: SQL sorts their samples apart. */
static bool is_own(const struct series *t)
{
    const struct serve_series_row *row = t->chosen[t->at].series->row;
    return !row->by_semaphore && serve_own_has_samples(t->dir, row->number) && t->dir->from >= 0;
}

/* Where a pixel is wider than its buckets and the table is long, the coarser one is as good. */
static int choose_table(struct series *t, struct kymo_err *err)
{
    const struct serve_series_row *row = t->chosen[t->at].series->row;
    int64_t bucket = (t->dir->to - t->dir->from) / COARSE_BUCKETS;
    t->coarse =
        row->n_parts == 1 && t->rows > COARSE_ROWS && bucket > 0 && (t->w.to - t->w.from) / t->w.width >= bucket;
    if (!t->coarse)
        return 0;
    (void)pthread_mutex_lock(&t->dir->lock);
    int r = t->dir->has_coarse[row->number] ? 0
            : is_own(t)                     ? serve_own_make_coarse(t->dir, row->number, bucket, t->sql->stop, err)
                                            : make_coarse(t, bucket, err);
    t->dir->has_coarse[row->number] |= r == 0;
    (void)pthread_mutex_unlock(&t->dir->lock);
    return r;
}

static bool all_before(const struct series *t)
{
    for (size_t i = t->at; i < t->end; i++)
        if (!t->chosen[i].has_before)
            return false;
    return true;
}

static int count_rows(struct series *t, struct kymo_err *err)
{
    char text[128];
    enum kymo_table_id table = t->chosen[t->at].series->row->number;
    if (serve_own_has_samples(t->dir, table)) {
        t->rows = (int64_t)serve_own_count_samples(t->dir, table);
        return 0;
    }
    (void)snprintf(text, sizeof text, "SELECT count(*) FROM k.\"%s\"", t->chosen[t->at].series->row->table);
    return sql_numbers(t->sql, text, NULL, 0, &t->rows, 1, err);
}

/* The values that hold when the window begins: near it first, since a table may have more rows than can be read for
 * that. */
static int look_back(struct series *t, struct kymo_err *err)
{
    int64_t span = t->w.to - t->w.from, far = t->dir->from - 1;
    t->before = true;
    int r = 0;
    for (int64_t reach = 1; reach <= 64 && r == 0 && !all_before(t); reach *= 64) {
        int64_t from = span > OP_TIME_MAX / 64 ? far : t->w.from - span * reach;
        r = run(t, from, t->w.from - 1, err);
    }
    if (r == 0 && (t->coarse || t->rows <= LOOK_BACK_ROWS) && !all_before(t))
        r = run(t, far, t->w.from - 1, err);
    t->before = false;
    return r;
}

struct own_reading {
    struct series *t;
    struct serve_own_samples s;
};

static void put_own_column(void *ctx, size_t i)
{
    struct own_reading *o = ctx;
    const struct serve_own_wanted *w = &o->s.wanted[i];
    struct chosen *c = &o->t->chosen[o->t->at + i];
    struct sql_cell cells[3 * SERVE_PARTS_MAX] = {{0}};
    for (size_t k = 0; k < c->series->row->n_parts; k++) {
        cells[3 * k].f = w->least[k];
        cells[3 * k + 1].f = w->greatest[k];
        cells[3 * k + 2].f = w->last[k];
        c->before[k] = w->before[k];
    }
    c->has_before = w->has_before;
    take_column(o->t, c, w->column, cells);
}

/* The table itself, where it is kymo's. */
static int read_own_table(struct series *t, struct kymo_err *err)
{
    size_t n = t->end - t->at;
    struct serve_own_wanted *wanted KYMO_FREE = KYMO_NEW_ARRAY(struct serve_own_wanted, n);
    if (!wanted)
        return kymo_err_set(err, -ENOMEM, "no memory for series");
    struct own_reading o = {.t = t};
    o.s = (struct serve_own_samples){.dir = t->dir,
                                     .table = t->chosen[t->at].series->row->number,
                                     .wanted = wanted,
                                     .n = n,
                                     .from = t->w.from,
                                     .to = t->w.to,
                                     .width = t->w.width,
                                     .look_back = LOOK_BACK_ROWS,
                                     .stop = t->sql->stop,
                                     .column = put_own_column,
                                     .ctx = &o};
    for (size_t i = 0; i < n; i++)
        wanted[i].series = t->chosen[t->at + i].series;
    int r = t->coarse ? 0 : serve_own_samples(&o.s, err);
    if (t->coarse)
        serve_own_coarse_samples(&o.s);
    for (size_t i = 0; i < n && r == 0; i++) {
        struct chosen *c = &t->chosen[t->at + i];
        c->has_before = wanted[i].has_before;
        memcpy(c->before, wanted[i].before, sizeof c->before);
        if (!c->begun && c->has_before)
            put_before(t, c);
    }
    return r;
}

static int read_table(struct series *t, struct kymo_err *err)
{
    int r = count_rows(t, err);
    if (r == 0)
        r = choose_table(t, err);
    if (r == 0 && is_own(t))
        return read_own_table(t, err);
    if (r == 0 && t->w.from > t->dir->from)
        r = look_back(t, err);
    if (r == 0)
        r = run(t, t->w.from, t->w.to, err);
    for (size_t i = t->at; i < t->end && r == 0; i++)
        if (!t->chosen[i].begun && t->chosen[i].has_before)
            put_before(t, &t->chosen[i]);
    return r;
}

static int read_all(struct series *t, struct kymo_err *err)
{
    char(*names)[32] KYMO_FREE = (char(*)[32])kymo_calloc(t->n + 1, COLUMNS_MAX * sizeof *names);
    int r = names ? 0 : kymo_err_set(err, -ENOMEM, "no memory for series");
    for (size_t i = 0; i < t->n && r == 0; i++)
        r = open_track(t, &t->chosen[i], names + i * COLUMNS_MAX, err);
    for (t->at = 0; t->at < t->n && r == 0; t->at = t->end) {
        const struct serve_series_row *row = t->chosen[t->at].series->row;
        for (t->end = t->at + 1; t->end < t->n && t->chosen[t->end].series->row->number == row->number;)
            t->end++;
        if (t->dir->has_table[row->number])
            r = read_table(t, err);
    }
    return r < 0 ? r : serve_answer_packed(t->q, t->packed, err);
}

int op_series(struct serve_request *q, struct kymo_err *err)
{
    struct series t = {.q = q, .sql = serve_sql_of(q), .dir = serve_dir_of(q)};
    struct packed *packed KYMO_CLEANUP(packed_freep) = NULL;
    int r = op_window_read(q, true, &t.w, err);
    if (r == 0)
        r = choose(&t, t.dir->series, err);
    if (r == 0 && !(t.packed = packed = packed_new(t.w.from, t.w.to, t.w.width)))
        r = kymo_err_set(err, -ENOMEM, "no memory for an answer");
    if (r == 0)
        r = read_all(&t, err);
    kymo_free(t.chosen);
    return r;
}
