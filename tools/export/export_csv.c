#include "tools/export/export_csv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "formats/csv/csv_text.h"
#include "pipeline/output_dir.h"
#include "tools/export/export_file.h"
#include "tools/export/export_sampler.h"

#define TEXT_MAX (512u << 20)
#define NOTE_MAX (1u << 20)

/* One table on its way into its file. */
struct writer {
    const struct export_csv_options *options;
    const struct export_source *source;
    struct export_range range;
    struct export_file file;
    struct csv_text text;
    struct export_sampler *sampler; /* NULL: complete */
    size_t start, end;              /* columns of the result */
    uint64_t events, rows;
    struct kymo_err *err;
};

static int begin(void *ctx, size_t columns, const char *const *names, const enum query_type *types)
{
    struct writer *w = ctx;
    (void)types;
    csv_text_reset(&w->text);
    for (size_t i = 0; i < columns; i++) {
        csv_text_string(&w->text, names[i], strlen(names[i]));
        if (!strcmp(names[i], w->source->start))
            w->start = w->end = i;
    }
    for (size_t i = 0; i < columns; i++)
        if (!strcmp(names[i], w->source->end))
            w->end = i;
    if (w->sampler)
        csv_text_string(&w->text, "events_in_sample", strlen("events_in_sample"));
    int r = csv_text_end(&w->text);
    return r < 0 ? r : export_file_write(&w->file, w->text.buf.data, w->text.buf.len, w->err);
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
    w->rows++;
    int r = export_file_write(&w->file, record, n, w->err);
    return r < 0 ? r : export_file_write(&w->file, tail, (size_t)len, w->err);
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
    if (*w->options->stop)
        return kymo_err_set(w->err, -ECANCELED, "stopped on request; nothing was written to %s", w->options->output);
    w->events++;
    if (w->sampler)
        return sample(w, columns, values);
    w->rows++;
    put_values(w, columns, values);
    int r = csv_text_end(&w->text);
    return r < 0 ? r : export_file_write(&w->file, w->text.buf.data, w->text.buf.len, w->err);
}

static char *make_sql(const struct export_source *s, bool sorted)
{
    return kymo_asprintf("SELECT %s AS timeline_track, *%s FROM \"%s\"%s%s%s%s", s->track,
                         s->has_track_column ? " EXCLUDE (timeline_track)" : "", s->name, s->condition,
                         sorted ? " ORDER BY \"" : "", sorted ? s->start : "", sorted ? "\"" : "");
}

static int run_once(struct writer *w, const struct export_profile *p, bool sorted)
{
    const struct query_row_sink sink = {.begin = begin, .row = row, .ctx = w};
    char *sql KYMO_FREE = make_sql(w->source, sorted);
    int r = sql ? 0 : kymo_err_set(w->err, -ENOMEM, "out of memory");
    w->events = w->rows = 0;
    if (r == 0 && w->options->samples)
        r = export_sampler_new(w->range.start, w->range.end, w->options->samples, write_sample, w, &w->sampler);
    if (r == 0)
        r = query_rows_run(p->db, sql, &sink, w->err);
    if (r == 0 && w->sampler)
        r = export_sampler_finish(w->sampler);
    w->sampler = export_sampler_free(w->sampler);
    return r;
}

/* kymo's tables ascend by start and are sampled as they are read; whoever else wrote some may have another order. */
static int run(struct writer *w, const struct export_profile *p)
{
    int r = run_once(w, p, false);
    if (r != -EDOM)
        return r;
    *w->err = (struct kymo_err){0};
    r = export_file_rewind(&w->file, w->err);
    return r < 0 ? r : run_once(w, p, true);
}

static int write_table(const struct export_profile *p, const struct export_csv_options *o, const char *dir,
                       const struct export_source *s, const struct export_range *range, struct kymo_buf *note,
                       struct kymo_err *err)
{
    struct writer w = {.options = o, .source = s, .range = *range, .err = err};
    char *path KYMO_FREE = kymo_asprintf("%s/%s.csv", dir, s->name);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    csv_text_init(&w.text, TEXT_MAX);
    int r = export_file_open(&w.file, path, err);
    if (r == 0)
        r = run(&w, p);
    if (r == 0)
        r = export_file_finish(&w.file, err);
    export_file_done(&w.file);
    csv_text_done(&w.text);
    if (r < 0 && !err->code)
        r = kymo_err_set(err, r, "%s: %s", s->name, strerror(-r));
    if (r == 0 && kymo_buf_printf(note,
                                  "%s\n    {\"file\": \"%s.csv\", \"table\": \"%s\", \"rows\": %" PRIu64
                                  ", \"events_in_range\": %" PRIu64 ", \"complete\": %s}",
                                  note->data[note->len - 1] == '[' ? "" : ",", s->name, s->name, w.rows, w.events,
                                  w.rows == w.events ? "true" : "false") < 0)
        r = kymo_err_set(err, -ENOMEM, "out of memory");
    return r;
}

struct sources {
    struct export_source *items;
    size_t count;
};

static int add_source(struct sources *all, const struct export_profile *p, const char *name,
                      const struct export_range *range, struct kymo_err *err)
{
    for (size_t i = 0; i < all->count; i++)
        if (!strcmp(all->items[i].name, name))
            return 0;
    int r = export_source_open(&all->items[all->count], p, name, range, err);
    all->count++;
    return r;
}

static int choose(struct sources *all, const struct export_profile *p, const struct export_csv_options *o,
                  struct kymo_err *err)
{
    int r = 0;
    all->items = KYMO_NEW_ARRAY(struct export_source, EXPORT_TABLES_MAX);
    if (!all->items)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    if (o->table_count > EXPORT_TABLES_MAX)
        return kymo_err_set(err, -E2BIG, "%zu tables, more than %d", o->table_count, EXPORT_TABLES_MAX);
    for (size_t i = 0; i < o->table_count && r == 0; i++)
        r = add_source(all, p, o->tables[i], &o->range, err);
    for (const struct export_table *t = export_tables; !o->table_count && t->name && r == 0; t++)
        if (t->usual && export_profile_has(p, t->name))
            r = add_source(all, p, t->name, &o->range, err);
    if (r == 0 && !all->count)
        r = kymo_err_set(err, -ENODATA, "%s: none of the tables that are exported without --table is there", p->dir);
    return r;
}

static void free_sources(struct sources *all)
{
    for (size_t i = 0; all->items && i < all->count; i++)
        export_source_done(&all->items[i]);
    kymo_free(all->items);
}

/* All files of a sampled export share their intervals, so a whole profile's are those of all its tables together. */
static int span(const struct sources *all, const struct export_profile *p, struct export_range *range,
                struct kymo_err *err)
{
    bool first = true;
    for (size_t i = 0; i < all->count; i++) {
        struct export_range one;
        struct kymo_err why = {0};
        int r = export_source_span(&all->items[i], p, &one, &why);
        if (r == -ENODATA)
            continue;
        if (r < 0)
            return kymo_err_set(err, r, "%s", why.text);
        range->start = first || one.start < range->start ? one.start : range->start;
        range->end = first || one.end >= range->end ? one.end + 1 : range->end;
        first = false;
    }
    return 0;
}

static int begin_note(struct kymo_buf *note, const struct export_csv_options *o, const struct export_range *range)
{
    int r = kymo_buf_printf(note, "{\n  \"start_ns\": ");
    if (r == 0 && (!range->whole || o->samples))
        r = kymo_buf_printf(note, "%" PRId64 ",\n  \"end_ns\": %" PRId64, range->start, range->end);
    else if (r == 0)
        r = kymo_buf_printf(note, "null,\n  \"end_ns\": null");
    if (r == 0 && o->samples)
        r = kymo_buf_printf(note,
                            ",\n  \"sample\": %" PRIu64
                            ",\n  \"kept\": \"of the events of a track that begin in one of "
                            "the sample intervals, the longest; events_in_sample says how many it stands for\"",
                            o->samples);
    return r < 0 ? r : kymo_buf_printf(note, ",\n  \"files\": [");
}

static int write_files(const struct export_profile *p, const struct export_csv_options *o, const struct sources *all,
                       const char *dir, struct kymo_err *err)
{
    struct export_range range = o->range;
    struct kymo_buf note;
    int r = o->samples && range.whole ? span(all, p, &range, err) : 0;
    if (r < 0)
        return r;
    kymo_buf_init(&note, NOTE_MAX);
    if (begin_note(&note, o, &range) < 0)
        r = kymo_err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < all->count && r == 0; i++)
        r = write_table(p, o, dir, &all->items[i], &range, &note, err);
    if (r == 0 && kymo_buf_printf(&note, "\n  ]\n}\n") < 0)
        r = kymo_err_set(err, -ENOMEM, "out of memory");
    char *path KYMO_FREE = r < 0 ? NULL : kymo_asprintf("%s/export.json", dir);
    if (path)
        r = kymo_file_write_atomic(path, note.data, note.len, err);
    else if (r == 0)
        r = kymo_err_set(err, -ENOMEM, "out of memory");
    kymo_buf_done(&note);
    return r;
}

int export_csv(const struct export_profile *p, const struct export_csv_options *o, struct kymo_err *err)
{
    static const struct output_content csv_files = {
        .ending = ".csv", .names = {"export.json"}, .file = "CSV file", .whole = "earlier export"};
    struct sources all = {0};
    struct output_dir dir = {.lock = -1};
    int r = choose(&all, p, o, err);
    if (r == 0)
        r = output_dir_check_input(o->output, p->dir, err);
    if (r == 0)
        r = output_dir_open_for(&dir, o->output, &csv_files, err);
    if (r == 0)
        r = write_files(p, o, &all, dir.work, err);
    if (r == 0)
        r = output_dir_publish(&dir, err);
    output_dir_done(&dir);
    free_sources(&all);
    return r;
}
