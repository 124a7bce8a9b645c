#include "collector/query/serve_own.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/serve_own_edges.h"
#include "collector/query/serve_own_events.h"
#include "collector/query/serve_own_rows.h"

enum level_column {
    L_KIND,
    L_BUCKET,
    L_TRACK,
    L_START,
    L_FIRST,
    L_LAST,
    L_COUNT,
    L_BUSY,
    L_BYTES,
    L_ID,
    L_LONGEST,
    L_LABEL,
    L_OPERATOR,
    L_PCORE,
    L_MAX
};

static const char *const level_columns[L_MAX] = {
    [L_KIND] = "kind",         [L_BUCKET] = "bucket_ns",   [L_TRACK] = "timeline_track",
    [L_START] = "start_ts",    [L_FIRST] = "first_ts",     [L_LAST] = "last_ts",
    [L_COUNT] = "event_count", [L_BUSY] = "busy_ns",       [L_BYTES] = "transfer_bytes",
    [L_ID] = "longest_id",     [L_LONGEST] = "longest_ns", [L_LABEL] = "label",
    [L_OPERATOR] = "operator", [L_PCORE] = "pcore_idx",
};

static int open_events(struct serve_own *o, const struct query_files *files, const char *place, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; i < SERVE_OWN_MAX && r == 0; i++) {
        const struct serve_own_source *s = serve_own_source_of((enum serve_own_table)i);
        char *path KYMO_FREE = NULL;
        r = query_files_only(files, place, i == SERVE_OWN_LEVELS ? "LevelOfDetail" : s->table, &path, err);
        if (!path)
            continue;
        r = i == SERVE_OWN_LEVELS ? table_file_open(path, level_columns, L_MAX, &o->files[i], NULL)
                                  : table_file_open(path, s->columns, s->n, &o->files[i], NULL);
        /* What is wrong with a file DuckDB says better, when it is asked for. */
        r = r == -ENOMEM ? kymo_err_set(err, r, "no memory for a table") : 0;
    }
    return r;
}

static void leave_out(struct query_files *files, const struct query_bad *bad)
{
    size_t kept = 0;
    for (size_t i = 0; i < files->n; i++)
        if (query_bad_why(bad, files->items[i].table, files->items[i].n))
            kymo_free(files->items[i].name);
        else
            files->items[kept++] = files->items[i];
    files->n = kept;
}

int serve_own_open(struct serve_own *o, const char *place, const struct query_bad *bad, struct kymo_err *err)
{
    struct query_files files;
    int r = query_files_list(place, &files, err);
    if (r < 0)
        return r;
    leave_out(&files, bad);
    r = open_events(o, &files, place, err);
    if (r == 0)
        r = serve_own_open_edges(o, &files, place, err);
    if (r == 0)
        r = serve_own_open_samples(o, &files, place, err);
    query_files_done(&files);
    return r;
}

void serve_own_done(struct serve_own *o)
{
    for (size_t i = 0; i < SERVE_OWN_MAX; i++)
        o->files[i] = table_file_free(o->files[i]);
    for (size_t i = 0; i < KYMO_T_MAX; i++)
        o->samples[i] = table_file_free(o->samples[i]);
    for (size_t i = 0; i < o->n_coarse; i++)
        kymo_free(o->coarse[i].buckets);
    kymo_free(o->coarse);
    serve_own_close_edges(o);
}

bool serve_own_has_levels(const struct serve_dir *d)
{
    return d->own_levels && d->own->files[SERVE_OWN_LEVELS];
}

bool serve_own_has_events(const struct serve_dir *d, enum serve_kind kind)
{
    int table = serve_own_table_of(kind);
    return d->own_levels && table >= 0 && d->own->files[table];
}

bool serve_own_extent(const struct serve_dir *d, int64_t *ret_from, int64_t *ret_to)
{
    const struct table_file *f = serve_own_has_levels(d) ? d->own->files[SERVE_OWN_LEVELS] : NULL;
    int64_t from = INT64_MAX, to = INT64_MIN;
    for (size_t g = 0; f && g < f->n_groups; g++) {
        int64_t first = table_file_min(f, g, L_FIRST, TABLE_NULL), last = table_file_max(f, g, L_LAST, TABLE_NULL);
        if (first == TABLE_NULL || last == TABLE_NULL)
            return false;
        from = first < from ? first : from;
        to = last > to ? last : to;
    }
    if (from > to)
        return false;
    *ret_from = from;
    *ret_to = to;
    return true;
}

static bool is_name(enum serve_kind kind, const void *text, size_t n)
{
    const char *name = serve_kinds[kind].name;
    return strlen(name) == n && !memcmp(name, text, n);
}

/* SERVE_KIND_MAX: none of these. */
static enum serve_kind kind_of(const void *text, size_t n)
{
    int kind = 0;
    while (kind < SERVE_KIND_MAX && !is_name((enum serve_kind)kind, text, n))
        kind++;
    return (enum serve_kind)kind;
}

/* Into a list that ascends; what has no room is left out, as a level that nobody needs. */
static void add_width(int64_t widths[SERVE_LEVELS_MAX], int64_t width)
{
    size_t n = 0, at = 0;
    while (n < SERVE_LEVELS_MAX && widths[n])
        n++;
    while (at < n && widths[at] < width)
        at++;
    if (n == SERVE_LEVELS_MAX || (at < n && widths[at] == width))
        return;
    memmove(widths + at + 1, widths + at, (n - at) * sizeof *widths);
    widths[at] = width;
}

/* A group of one kind and width, as nearly all are, by its bounds. */
static bool add_by_bounds(const struct table_file *f, size_t g, int64_t ret[SERVE_KIND_MAX][SERVE_LEVELS_MAX])
{
    const struct table_chunk *c = &f->chunks[g * f->n_columns + L_KIND];
    int64_t width = table_file_min(f, g, L_BUCKET, 0);
    if (c->min_n == 0 || c->min_n != c->max_n || memcmp(c->min, c->max, c->min_n) != 0 || width <= 0 ||
        width != table_file_max(f, g, L_BUCKET, 0))
        return false;
    enum serve_kind kind = kind_of(c->min, c->min_n);
    if (kind < SERVE_KIND_MAX)
        add_width(ret[kind], width);
    return true;
}

static int add_by_rows(struct serve_own_rows *r, size_t g, int64_t ret[SERVE_KIND_MAX][SERVE_LEVELS_MAX],
                       struct kymo_err *err)
{
    int rc = serve_own_rows_begin(r, g, err);
    if (rc == 0)
        rc = serve_own_rows_texts(r, L_KIND, err);
    if (rc == 0)
        rc = serve_own_rows_numbers(r, L_BUCKET, err);
    for (size_t i = 0; i < r->n && rc == 0; i++) {
        const struct table_text *t = &r->texts[L_KIND][i];
        enum serve_kind kind = t->at ? kind_of(t->at, t->n) : SERVE_KIND_MAX;
        if (kind < SERVE_KIND_MAX && r->numbers[L_BUCKET][i] > 0)
            add_width(ret[kind], r->numbers[L_BUCKET][i]);
    }
    return rc;
}

int serve_own_widths(const struct serve_dir *d, int64_t ret[SERVE_KIND_MAX][SERVE_LEVELS_MAX], struct kymo_err *err)
{
    const struct table_file *f = d->own->files[SERVE_OWN_LEVELS];
    struct serve_own_rows r;
    int rc = serve_own_rows_open(&r, f, err);
    for (size_t g = 0; g < f->n_groups && rc == 0; g++)
        if (!add_by_bounds(f, g, ret))
            rc = add_by_rows(&r, g, ret, err);
    serve_own_rows_done(&r);
    return rc;
}

static bool may_have(const struct table_file *f, size_t g, const struct serve_own_window *w, int64_t bucket)
{
    return table_file_may_have(f, g, L_BUCKET, bucket, bucket) &&
           table_file_may_have(f, g, L_START, INT64_MIN + 1, w->to) &&
           table_file_may_have(f, g, L_LAST, w->from, INT64_MAX) &&
           table_file_may_have_text(f, g, L_KIND, serve_kinds[w->kind].name);
}

static int select_rows(struct serve_own_rows *r, size_t g, const struct serve_own_window *w, int64_t bucket,
                       struct kymo_err *err)
{
    int rc = serve_own_rows_begin(r, g, err);
    if (rc == 0)
        rc = serve_own_rows_keep(r, L_BUCKET, bucket, bucket, err);
    if (rc == 0)
        rc = serve_own_rows_keep(r, L_START, INT64_MIN + 1, w->to, err);
    if (rc == 0)
        rc = serve_own_rows_keep(r, L_LAST, w->from, INT64_MAX, err);
    if (rc == 0)
        rc = serve_own_rows_keep_text(r, L_KIND, serve_kinds[w->kind].name, err);
    return rc;
}

static const struct {
    size_t column;
    bool text, counted; /* counted: it is wanted where rows are only counted */
} level_cells[SERVE_OWN_LEVEL_CELLS] = {
    [SERVE_OWN_L_TRACK] = {L_TRACK, true, true},       [SERVE_OWN_L_START] = {L_START, false, false},
    [SERVE_OWN_L_FIRST] = {L_FIRST, false, false},     [SERVE_OWN_L_LAST] = {L_LAST, false, false},
    [SERVE_OWN_L_COUNT] = {L_COUNT, false, true},      [SERVE_OWN_L_BUSY] = {L_BUSY, false, false},
    [SERVE_OWN_L_BYTES] = {L_BYTES, false, false},     [SERVE_OWN_L_ID] = {L_ID, false, false},
    [SERVE_OWN_L_LONGEST] = {L_LONGEST, false, false}, [SERVE_OWN_L_LABEL] = {L_LABEL, true, false},
    [SERVE_OWN_L_COLOR] = {L_OPERATOR, true, false},   [SERVE_OWN_L_PCORE] = {L_PCORE, false, true},
};

static int read_columns(struct serve_own_rows *r, bool counts, struct kymo_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < SERVE_OWN_LEVEL_CELLS && rc == 0; i++)
        if (!counts || level_cells[i].counted)
            rc = level_cells[i].text ? serve_own_rows_texts(r, level_cells[i].column, err)
                                     : serve_own_rows_numbers(r, level_cells[i].column, err);
    return rc;
}

static int give_rows(const struct serve_own_rows *r, const struct serve_own_window *w, bool counts,
                     struct kymo_err *err)
{
    bool instructions = w->kind == SERVE_KIND_instruction || w->kind == SERVE_KIND_instruction_split;
    struct sql_cell cells[SERVE_OWN_LEVEL_CELLS] = {{0}};
    int rc = 0;
    for (size_t k = 0; k < r->n && rc == 0; k++) {
        for (size_t i = 0; i < SERVE_OWN_LEVEL_CELLS; i++)
            if (!counts || level_cells[i].counted)
                cells[i] = level_cells[i].text ? serve_own_text(&r->texts[level_cells[i].column][k])
                                               : serve_own_number(r->numbers[level_cells[i].column][k]);
        if (!instructions)
            cells[SERVE_OWN_L_COLOR] = cells[SERVE_OWN_L_LABEL];
        rc = w->row(w->ctx, cells, err);
    }
    return rc;
}

int serve_own_levels(const struct serve_own_window *w, int64_t bucket, bool counts, struct kymo_err *err)
{
    const struct table_file *f = w->dir->own->files[SERVE_OWN_LEVELS];
    struct serve_own_rows r;
    int rc = serve_own_rows_open(&r, f, err);
    for (size_t g = 0; g < f->n_groups && rc == 0; g++) {
        if (!may_have(f, g, w, bucket))
            continue;
        rc = w->stop && *w->stop ? kymo_err_set(err, -ECANCELED, "nobody wants the answer any more")
                                 : select_rows(&r, g, w, bucket, err);
        if (rc == 0)
            rc = read_columns(&r, counts, err);
        if (rc == 0)
            rc = give_rows(&r, w, counts, err);
    }
    serve_own_rows_done(&r);
    return rc;
}
