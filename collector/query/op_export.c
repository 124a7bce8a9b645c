/* Rows of one table in a window as CSV, as they are read. */
#include <errno.h>
#include <string.h>

#include "collector/query/export_rows.h"
#include "collector/query/op_common.h"
#include "collector/query/serve_ops.h"
#include "collector/query/serve_own.h"
#include "formats/schema/schema.h"

#define CSV_TYPE "text/csv; charset=utf-8"

static const char *const mode_names[] = {"sampled", "complete", NULL};

struct export_answer {
    struct serve_request *q;
    struct serve_gather gather;
    bool begun;
    struct export_range range;
    enum serve_kind kind; /* of whose tracks rows are sampled; SERVE_KIND_MAX: by SQL */
};

/* While events are read for a sample. */
struct reading {
    const struct export_range *range;
    export_event_take take;
    void *taker;
};

static int give_event(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    const struct reading *r = ctx;
    const struct export_event e = {.track = c[SERVE_OWN_TRACK].text,
                                   .track_len = c[SERVE_OWN_TRACK].len,
                                   .start = c[SERVE_OWN_START].i,
                                   .end = c[SERVE_OWN_END].i,
                                   .key = c[SERVE_OWN_ID].i};
    /* One that ends where the range begins does not touch it. */
    return e.end > r->range->start || e.start >= r->range->start ? r->take(r->taker, &e, err) : 0;
}

/* From kymo's own file. */
static int give_events(void *ctx, export_event_take take, void *taker, struct kymo_err *err)
{
    const struct export_answer *a = ctx;
    struct reading r = {.range = &a->range, .take = take, .taker = taker};
    const struct serve_own_window w = {.dir = serve_dir_of(a->q),
                                       .kind = a->kind,
                                       .from = a->range.start,
                                       .to = a->range.end - 1,
                                       .stop = serve_sql_of(a->q)->stop,
                                       .given = SERVE_OWN_KEYED,
                                       .row = give_event,
                                       .ctx = &r};
    return serve_own_events(&w, err);
}

/* Of the tables with many events, as their rows have tracks in an export: what is chosen from is a few columns. */
static enum serve_kind kind_of(const struct serve_dir *d, const char *table)
{
    static const enum serve_kind kinds[] = {SERVE_KIND_instruction, SERVE_KIND_dma_engine};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(serve_kinds[kinds[i]].table, table) && serve_own_has_events(d, kinds[i]))
            return kinds[i];
    return SERVE_KIND_MAX;
}

static int run_select(void *ctx, const char *sql, const struct query_row_sink *sink, struct kymo_err *err)
{
    return sql_rows(serve_sql_of(ctx), sql, sink, err);
}

/* The first text says that it will be an answer. */
static int write_text(void *ctx, const void *data, size_t n, struct kymo_err *err)
{
    struct export_answer *a = ctx;
    int r = a->begun ? 0 : serve_head(a->q, 200, CSV_TYPE, err);
    a->begun = true;
    return r < 0 ? r : serve_gather_write(&a->gather, data, n, err);
}

static int check_stop(void *ctx, struct kymo_err *err)
{
    const struct export_answer *a = ctx;
    return *serve_sql_of(a->q)->stop ? kymo_err_set(err, -ECANCELED, "nobody wants the answer any more") : 0;
}

static int read_table(const struct serve_request *q, const char **ret, struct kymo_err *err)
{
    const char *name = serve_question_text(serve_question_of(q), "tables");
    if (!name || strchr(name, ','))
        return kymo_err_set(err, -EINVAL, name ? "one table at a time" : "the parameter tables is missing");
    int r = op_check_table(q, name, err);
    if (r == 0 && (!kymo_schema_find(name) || !op_has_table(q, name)))
        r = kymo_err_set(err, -ENOENT, "there is no table %.64s", name);
    if (r == 0)
        *ret = name;
    return r;
}

static int answer(struct export_answer *a, const struct export_profile *p, const struct export_source *source,
                  const struct op_window *w, bool sampled, struct kymo_err *err)
{
    struct export_rows_figures figures;
    struct export_rows rows = {.source = source,
                               .range = {.start = w->from, .end = w->to},
                               .samples = sampled ? (uint64_t)w->width : 0,
                               .write = write_text,
                               .check = check_stop,
                               .ctx = a};
    a->range = rows.range;
    a->kind = kind_of(serve_dir_of(a->q), source->name);
    if (a->kind < SERVE_KIND_MAX) {
        rows.key = "id";
        rows.events = give_events;
    }
    bool sorted = true;
    int r = 0;
    /* What was sent cannot be taken back, so the order is looked at before. */
    if (sampled && !serve_dir_of(a->q)->own_levels)
        r = export_source_sorted(source, p, &sorted, err);
    rows.sort = !sorted;
    if (r == 0)
        r = export_rows_write(p, &rows, &figures, err);
    return r < 0 ? r : serve_gather_flush(&a->gather, err);
}

int op_export(struct serve_request *q, struct kymo_err *err)
{
    const struct serve_dir *d = serve_dir_of(q);
    const struct export_profile p = {.dir = d->path, .several_cores = d->cores > 1, .run = run_select, .ctx = q};
    struct export_answer a = {.q = q};
    struct export_source source = {0};
    struct op_window w;
    const char *table = NULL;
    int mode = 0;
    int r = serve_question_choice(serve_question_of(q), "mode", mode_names, &mode, err);
    if (r == 0)
        r = read_table(q, &table, err);
    if (r == 0)
        r = op_window_read(q, mode == 0, &w, err);
    if (r < 0)
        return r;
    const struct export_range range = {.start = w.from, .end = w.to};
    serve_gather_init(&a.gather, q);
    r = export_source_open(&source, &p, table, &range, err);
    if (r == 0)
        r = answer(&a, &p, &source, &w, mode == 0, err);
    export_source_done(&source);
    serve_gather_done(&a.gather);
    return r;
}
