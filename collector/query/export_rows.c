#include "collector/query/export_rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/export_sampler.h"
#include "formats/csv/csv_text.h"

#define TEXT_MAX (512u << 20)

struct writer {
    const struct export_rows *options;
    struct csv_text text;
    struct export_sampler *sampler; /* NULL: complete */
    size_t start, end;              /* columns of the result */
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
    if (w->sampler)
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

/* kymo's tables ascend by start and are sampled as they are read; whoever else wrote some may have another order. */
static int run(struct writer *w, const struct export_profile *p)
{
    const struct export_rows *o = w->options;
    bool sort = o->samples && o->sort;
    int r = run_once(w, p, sort);
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
    *ret = w.figures;
    return r < 0 && !err->code ? kymo_err_set(err, r, "%s: %s", o->source->name, strerror(-r)) : r;
}
