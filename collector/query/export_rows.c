#include "collector/query/export_rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/export_sampler.h"
#include "formats/csv/csv_text.h"

#define TEXT_MAX (512u << 20)
#define PICKS_MAX 65536u /* of whose keys a statement is made */
#define PICKS_SQL_MAX (4u << 20)

/* A row that stands for others. */
struct pick {
    int64_t key;
    uint64_t events;
};

struct writer {
    const struct export_rows *options;
    struct csv_text text;
    struct export_sampler *sampler; /* NULL: complete */
    size_t start, end;              /* columns of the result */
    struct pick *picks;             /* in the order in which to write them; NULL: rows are written as they come */
    size_t n_picks, cap_picks, n_written;
    struct export_rows_figures figures;
    struct kymo_err *err;
};

static int write_text(struct writer *w, const void *data, size_t n)
{
    return w->options->write(w->options->ctx, data, n, w->err);
}

static int begin(void *ctx, size_t columns, const char *const *names, const enum query_type *types)
{
    struct writer *w = ctx;
    (void)types;
    csv_text_reset(&w->text);
    for (size_t i = 0; i < columns; i++) {
        csv_text_string(&w->text, names[i], strlen(names[i]));
        if (!strcmp(names[i], w->options->source->start))
            w->start = w->end = i;
    }
    for (size_t i = 0; i < columns; i++)
        if (!strcmp(names[i], w->options->source->end))
            w->end = i;
    if (w->options->samples)
        csv_text_string(&w->text, "events_in_sample", strlen("events_in_sample"));
    int r = csv_text_end(&w->text);
    return r < 0 ? r : write_text(w, w->text.buf.data, w->text.buf.len);
}

static void put_value(struct csv_text *c, const struct query_value *v)
{
    switch (v->kind) {
    case QUERY_VALUE_NULL:
        csv_text_null(c);
        return;
    case QUERY_VALUE_BOOL:
        csv_text_bool(c, v->integer != 0);
        return;
    case QUERY_VALUE_INT:
        csv_text_int(c, v->integer);
        return;
    case QUERY_VALUE_FLOAT:
        csv_text_float(c, (float)v->real);
        return;
    case QUERY_VALUE_DOUBLE:
        csv_text_double(c, v->real);
        return;
    default:
        csv_text_string(c, v->text, v->len);
    }
}

static void put_values(struct writer *w, size_t columns, const struct query_value *values)
{
    csv_text_reset(&w->text);
    for (size_t i = 0; i < columns; i++)
        put_value(&w->text, &values[i]);
}

/* The last column of a sampled record is known when its interval is over. */
static int write_sample(void *ctx, const void *record, size_t n, uint64_t events)
{
    struct writer *w = ctx;
    char tail[32];
    int len = snprintf(tail, sizeof tail, ",%" PRIu64 "\r\n", events);
    w->figures.rows++;
    int r = write_text(w, record, n);
    return r < 0 ? r : write_text(w, tail, (size_t)len);
}

static int sample(struct writer *w, size_t columns, const struct query_value *values)
{
    const struct query_value *track = &values[0];
    int64_t start = values[w->start].integer, end = values[w->end].integer;
    bool keep = false;
    int r = export_sampler_event(w->sampler, track->text ? track->text : "", track->len, start, end, &keep);
    if (r < 0 || !keep)
        return r;
    put_values(w, columns, values);
    return w->text.error < 0 ? w->text.error : export_sampler_keep(w->sampler, w->text.buf.data, w->text.buf.len);
}

static int row(void *ctx, size_t columns, const struct query_value *values)
{
    struct writer *w = ctx;
    int r = w->options->check(w->options->ctx, w->err);
    if (r < 0)
        return r;
    w->figures.events++;
    if (w->sampler)
        return sample(w, columns, values);
    w->figures.rows++;
    put_values(w, columns, values);
    r = csv_text_end(&w->text);
    return r < 0 ? r : write_text(w, w->text.buf.data, w->text.buf.len);
}

static char *make_sql(const struct export_source *s, bool sorted)
{
    return kymo_asprintf("SELECT %s AS timeline_track, *%s FROM \"%s\"%s%s%s%s", s->track,
                         s->has_track_column ? " EXCLUDE (timeline_track)" : "", s->name, s->condition,
                         sorted ? " ORDER BY \"" : "", sorted ? s->start : "", sorted ? "\"" : "");
}

static int run_once(struct writer *w, const struct export_profile *p, bool sorted)
{
    const struct export_rows *o = w->options;
    const struct query_row_sink sink = {.begin = begin, .row = row, .ctx = w};
    char *sql KYMO_FREE = make_sql(o->source, sorted);
    int r = sql ? 0 : kymo_err_set(w->err, -ENOMEM, "out of memory");
    w->figures = (struct export_rows_figures){0};
    if (r == 0 && o->samples)
        r = export_sampler_new(o->range.start, o->range.end, o->samples, write_sample, w, &w->sampler);
    if (r == 0)
        r = p->run(p->ctx, sql, &sink, w->err);
    if (r == 0 && w->sampler)
        r = export_sampler_finish(w->sampler);
    w->sampler = export_sampler_free(w->sampler);
    return r;
}

/* Most of the time of a sampled table would go into columns of rows that nobody sees: first the rows to show are
 * chosen by what that takes, then these are read. */

static int keep_pick(void *ctx, const void *record, size_t n, uint64_t events)
{
    struct writer *w = ctx;
    struct pick p = {.events = events};
    void *list = w->picks;
    if (n != sizeof p.key)
        return -EINVAL;
    memcpy(&p.key, record, n);
    int r = kymo_grow(&list, &w->cap_picks, w->n_picks + 1, PICKS_MAX, sizeof *w->picks);
    w->picks = list;
    if (r == 0)
        w->picks[w->n_picks++] = p;
    return r;
}

static int choose_event(void *ctx, const struct export_event *e, struct kymo_err *err)
{
    struct writer *w = ctx;
    bool keep = false;
    int r = w->options->check(w->options->ctx, err);
    w->figures.events++;
    if (r == 0)
        r = export_sampler_event(w->sampler, e->track, e->track_len, e->start, e->end, &keep);
    return r < 0 || !keep ? r : export_sampler_keep(w->sampler, &e->key, sizeof e->key);
}

/* timeline_track, start, end, key. */
static int choose_row(void *ctx, size_t columns, const struct query_value *values)
{
    struct writer *w = ctx;
    if (columns != 4)
        return -EINVAL;
    const struct export_event e = {.track = values[0].text ? values[0].text : "",
                                   .track_len = values[0].len,
                                   .start = values[1].integer,
                                   .end = values[2].integer,
                                   .key = values[3].integer};
    return choose_event(w, &e, w->err);
}

static int choose_by_sql(struct writer *w, const struct export_profile *p)
{
    const struct export_rows *o = w->options;
    const struct query_row_sink sink = {.row = choose_row, .ctx = w};
    char *sql KYMO_FREE =
        kymo_asprintf("SELECT %s AS timeline_track, \"%s\", \"%s\", \"%s\" FROM \"%s\"%s", o->source->track,
                      o->source->start, o->source->end, o->key, o->source->name, o->source->condition);
    return sql ? p->run(p->ctx, sql, &sink, w->err) : -ENOMEM;
}

static int choose_rows(struct writer *w, const struct export_profile *p)
{
    const struct export_rows *o = w->options;
    int r = export_sampler_new(o->range.start, o->range.end, o->samples, keep_pick, w, &w->sampler);
    if (r == 0)
        r = o->events ? o->events(o->ctx, choose_event, w, w->err) : choose_by_sql(w, p);
    if (r == 0)
        r = export_sampler_finish(w->sampler);
    w->sampler = export_sampler_free(w->sampler);
    return r;
}

static int write_pick(void *ctx, size_t columns, const struct query_value *values)
{
    struct writer *w = ctx;
    char tail[32];
    /* The key comes once more behind the columns. */
    const struct pick *p = &w->picks[w->n_written];
    int r = w->options->check(w->options->ctx, w->err);
    if (r == 0 && (w->n_written == w->n_picks || values[columns - 1].integer != p->key))
        r = kymo_err_set(w->err, -EIO, "%s: its rows do not come in the same order twice", w->options->source->name);
    if (r < 0)
        return r;
    w->n_written++;
    w->figures.rows++;
    put_values(w, columns - 1, values);
    int len = snprintf(tail, sizeof tail, ",%" PRIu64 "\r\n", p->events);
    r = w->text.error < 0 ? w->text.error : write_text(w, w->text.buf.data, w->text.buf.len);
    return r < 0 ? r : write_text(w, tail, (size_t)len);
}

static int begin_picks(void *ctx, size_t columns, const char *const *names, const enum query_type *types)
{
    return begin(ctx, columns - 1, names, types);
}

static int add_keys(const struct writer *w, struct kymo_buf *b)
{
    int r = 0;
    for (size_t i = 0; i < w->n_picks && r == 0; i++)
        r = kymo_buf_printf(b, "%s%" PRId64, i ? "," : "", w->picks[i].key);
    return r < 0 ? r : kymo_buf_printf(b, "%s)", w->n_picks ? "" : "NULL");
}

static int write_picks(struct writer *w, const struct export_profile *p)
{
    const struct export_source *s = w->options->source;
    const struct query_row_sink sink = {.begin = begin_picks, .row = write_pick, .ctx = w};
    struct kymo_buf b;
    kymo_buf_init(&b, PICKS_SQL_MAX);
    int r = kymo_buf_printf(&b, "SELECT %s AS timeline_track, *%s, \"%s\" AS chosen FROM \"%s\" WHERE \"%s\" IN (",
                            s->track, s->has_track_column ? " EXCLUDE (timeline_track)" : "", w->options->key, s->name,
                            w->options->key);
    if (r == 0)
        r = add_keys(w, &b);
    if (r == 0)
        r = kymo_buf_printf(&b, " ORDER BY chosen");
    if (r == 0)
        r = p->run(p->ctx, (const char *)b.data, &sink, w->err);
    if (r == 0 && w->n_written != w->n_picks)
        r = kymo_err_set(w->err, -EIO, "%s: %zu of its rows are not there a second time", s->name,
                         w->n_picks - w->n_written);
    kymo_buf_done(&b);
    return r;
}

/* 1: there are too many of them, or their keys do not ascend as they do. */
static int run_picks(struct writer *w, const struct export_profile *p)
{
    int r = choose_rows(w, p);
    if (r == -ENOBUFS && !w->err->code)
        return 1;
    for (size_t i = 1; i < w->n_picks && r == 0; i++)
        if (w->picks[i].key <= w->picks[i - 1].key)
            return 1;
    return r < 0 ? r : write_picks(w, p);
}

/* kymo's tables ascend by start and are sampled as they are read; whoever else wrote some may have another order. */
static int run(struct writer *w, const struct export_profile *p)
{
    const struct export_rows *o = w->options;
    bool sort = o->samples && o->sort;
    int r = o->samples && o->key && !sort ? run_picks(w, p) : 1;
    if (r <= 0)
        return r;
    r = run_once(w, p, sort);
    if (r != -EDOM || sort || !o->rewind)
        return r;
    *w->err = (struct kymo_err){0};
    r = o->rewind(o->ctx, w->err);
    return r < 0 ? r : run_once(w, p, true);
}

int export_rows_write(const struct export_profile *p, const struct export_rows *o, struct export_rows_figures *ret,
                      struct kymo_err *err)
{
    struct writer w = {.options = o, .err = err};
    csv_text_init(&w.text, TEXT_MAX);
    int r = run(&w, p);
    csv_text_done(&w.text);
    kymo_free(w.picks);
    *ret = w.figures;
    return r < 0 && !err->code ? kymo_err_set(err, r, "%s: %s", o->source->name, strerror(-r)) : r;
}
