#include "tools/export/export_csv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/query/export_rows.h"
#include "pipeline/output_dir.h"
#include "tools/export/export_file.h"

#define NOTE_MAX (1u << 20)

/* One table on its way into its file. */
struct writer {
    const struct export_csv_options *options;
    struct export_file file;
};

static int write_rows(void *ctx, const void *data, size_t n, struct kymo_err *err)
{
    struct writer *w = ctx;
    return export_file_write(&w->file, data, n, err);
}

static int rewind_file(void *ctx, struct kymo_err *err)
{
    struct writer *w = ctx;
    return export_file_rewind(&w->file, err);
}

static int check_stop(void *ctx, struct kymo_err *err)
{
    const struct writer *w = ctx;
    return *w->options->stop
               ? kymo_err_set(err, -ECANCELED, "stopped on request; nothing was written to %s", w->options->output)
               : 0;
}

static int write_table(const struct export_profile *p, const struct export_csv_options *o, const char *dir,
                       const struct export_source *s, const struct export_range *range, struct kymo_buf *note,
                       struct kymo_err *err)
{
    struct writer w = {.options = o};
    const struct export_rows rows = {.source = s,
                                     .range = *range,
                                     .samples = o->samples,
                                     .write = write_rows,
                                     .rewind = rewind_file,
                                     .check = check_stop,
                                     .ctx = &w};
    struct export_rows_figures n = {0};
    char *path KYMO_FREE = kymo_asprintf("%s/%s.csv", dir, s->name);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    int r = export_file_open(&w.file, path, err);
    if (r == 0)
        r = export_rows_write(p, &rows, &n, err);
    if (r == 0)
        r = export_file_finish(&w.file, err);
    export_file_done(&w.file);
    if (r == 0 && kymo_buf_printf(note,
                                  "%s\n    {\"file\": \"%s.csv\", \"table\": \"%s\", \"rows\": %" PRIu64
                                  ", \"events_in_range\": %" PRIu64 ", \"complete\": %s}",
                                  note->data[note->len - 1] == '[' ? "" : ",", s->name, s->name, n.rows, n.events,
                                  n.rows == n.events ? "true" : "false") < 0)
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
