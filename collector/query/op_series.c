/* Series of a window: least, greatest and last value of each pixel column. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/op_common.h"
#include "collector/query/serve_ops.h"
#include "collector/query/serve_series.h"

#define SQL_MAX (1u << 20)
#define COLUMNS_MAX (1 + 3 * SERVE_PARTS_MAX)
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
    const struct serve_dir *dir;
    struct op_window w;
    struct packed *packed;
    struct chosen *chosen;
    size_t n;
    size_t at, end; /* of one table */
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
    double values[3 * SERVE_PARTS_MAX];
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
    double values[3 * SERVE_PARTS_MAX];
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

static int add_values(struct series *t, struct kymo_buf *b)
{
    const struct serve_series_row *last = NULL;
    size_t n = 0, begin = 0;
    int r = 0;
    for (size_t i = t->at; i < t->end && r == 0; i++) {
        const struct serve_series_row *row = t->chosen[i].series->row;
        if (row != last) {
            begin = n;
            for (size_t k = 0; k < row->n_parts && r == 0; k++, n += 3)
                r = kymo_buf_printf(b, ", min(%s)::DOUBLE, max(%s)::DOUBLE, arg_max(%s, timestamp)::DOUBLE",
                                    row->parts[k].value, row->parts[k].value, row->parts[k].value);
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
        r = kymo_buf_printf(&b, " FROM k.\"%s\" WHERE timestamp >= $1 AND timestamp <= $2 GROUP BY ALL ORDER BY c",
                            row->table);
    r = r < 0 ? kymo_err_set(err, r, "no memory for a statement")
              : sql_run(t->sql, (const char *)b.data, binds, 5, take_row, t, err);
    kymo_buf_done(&b);
    return r;
}

static bool all_before(const struct series *t)
{
    for (size_t i = t->at; i < t->end; i++)
        if (!t->chosen[i].has_before)
            return false;
    return true;
}

static int count_rows(struct series *t, int64_t *ret, struct kymo_err *err)
{
    char text[128];
    (void)snprintf(text, sizeof text, "SELECT count(*) FROM k.\"%s\"", t->chosen[t->at].series->row->table);
    return sql_numbers(t->sql, text, NULL, 0, ret, 1, err);
}

/* The values that hold when the window begins: near it first, since a table may have more rows than can be read for
 * that. */
static int look_back(struct series *t, struct kymo_err *err)
{
    int64_t span = t->w.to - t->w.from, far = t->dir->from - 1, rows = 0;
    t->before = true;
    int r = 0;
    for (int64_t reach = 1; reach <= 64 && r == 0 && !all_before(t); reach *= 64) {
        int64_t from = span > OP_TIME_MAX / 64 ? far : t->w.from - span * reach;
        r = run(t, from, t->w.from - 1, err);
    }
    if (r == 0 && !all_before(t))
        r = count_rows(t, &rows, err);
    if (r == 0 && rows <= LOOK_BACK_ROWS && !all_before(t))
        r = run(t, far, t->w.from - 1, err);
    t->before = false;
    return r;
}

static int read_table(struct series *t, struct kymo_err *err)
{
    int r = t->w.from > t->dir->from ? look_back(t, err) : 0;
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
    struct serve_series_list list = {0};
    struct packed *packed KYMO_CLEANUP(packed_freep) = NULL;
    int r = op_window_read(q, true, &t.w, err);
    if (r == 0)
        r = serve_series_find(t.dir, t.sql, &list, err);
    if (r == 0)
        r = choose(&t, &list, err);
    if (r == 0 && !(t.packed = packed = packed_new(t.w.from, t.w.to, t.w.width)))
        r = kymo_err_set(err, -ENOMEM, "no memory for an answer");
    if (r == 0)
        r = read_all(&t, err);
    kymo_free(t.chosen);
    serve_series_done(&list);
    return r;
}
