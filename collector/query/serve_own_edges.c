#include "collector/query/serve_own_edges.h"

#include <errno.h>

#include "base/alloc.h"
#include "collector/query/serve_own_events.h"
#include "collector/query/serve_own_rows.h"

#define STRETCHES_MAX 65536 /* of keys, for all groups alike */
#define STRETCH_LEAST 10    /* bits: no shorter than 1,024 keys */

enum { F_IN, F_OUT, F_IN_TABLE, F_OUT_TABLE, F_KIND, F_GAP, F_MAX };
enum { SIDES = 2 }; /* F_IN, F_OUT */

static const char *const columns[F_MAX] = {[F_IN] = "in_id",
                                           [F_OUT] = "out_id",
                                           [F_IN_TABLE] = "in_table",
                                           [F_OUT_TABLE] = "out_table",
                                           [F_KIND] = "dependency_type",
                                           [F_GAP] = "gap_time"};

/* Which stretches of keys each group has, a bit for each. */
struct serve_own_index {
    unsigned shift; /* a key's stretch */
    size_t words;   /* of one group and side */
    uint64_t *bits; /* group by group: side by side */
};

int serve_own_open_edges(struct serve_own *o, const struct query_files *files, const char *place, struct kymo_err *err)
{
    char *path KYMO_FREE = NULL;
    int r = query_files_only(files, place, "Flow", &path, err);
    if (!path)
        return r;
    /* What is wrong with the file DuckDB says better. */
    r = table_file_open(path, columns, F_MAX, &o->flow, NULL);
    for (size_t i = 0; r == 0 && i < F_MAX; i++)
        if (o->flow->types[i] != (i == F_IN || i == F_OUT || i == F_GAP ? TABLE_I64 : TABLE_TEXT))
            r = -ENOTSUP;
    if (r < 0)
        o->flow = table_file_free(o->flow);
    return r == -ENOMEM ? kymo_err_set(err, r, "no memory for a table") : 0;
}

void serve_own_close_edges(struct serve_own *o)
{
    o->flow = table_file_free(o->flow);
    if (o->edges)
        kymo_free(o->edges->bits);
    kymo_free(o->edges);
}

bool serve_own_has_edges(const struct serve_dir *d)
{
    return d->own_levels && d->own->flow;
}

/* Keys below 0, and those behind all that the bounds told of, are in the last stretch. */
static size_t stretch_of(const struct serve_own_index *x, int64_t id)
{
    uint64_t stretch = (uint64_t)id >> x->shift, last = x->words * 64 - 1;
    return (size_t)(stretch < last ? stretch : last);
}

static uint64_t *bits_of(const struct serve_own_index *x, size_t group, size_t side)
{
    return x->bits + (group * SIDES + side) * x->words;
}

static struct serve_own_index *new_index(const struct table_file *f)
{
    struct serve_own_index *x = KYMO_NEW(struct serve_own_index);
    int64_t most = 0;
    for (size_t g = 0; g < f->n_groups; g++)
        for (size_t side = 0; side < SIDES; side++) {
            int64_t greatest = table_file_max(f, g, side, 0);
            most = greatest > most ? greatest : most;
        }
    if (!x)
        return NULL;
    for (x->shift = STRETCH_LEAST; most >> x->shift >= STRETCHES_MAX;)
        x->shift++;
    x->words = (size_t)(most >> x->shift) / 64 + 1;
    x->bits = kymo_calloc(f->n_groups * SIDES * x->words + 1, sizeof *x->bits);
    if (!x->bits) {
        kymo_free(x);
        return NULL;
    }
    return x;
}

static int fill_group(struct serve_own_index *x, struct serve_own_rows *r, size_t group, struct kymo_err *err)
{
    int rc = serve_own_rows_begin(r, group, err);
    for (size_t side = 0; side < SIDES && rc == 0; side++) {
        uint64_t *bits = bits_of(x, group, side);
        rc = serve_own_rows_numbers(r, side, err);
        for (size_t i = 0; i < r->n && rc == 0; i++) {
            size_t stretch = stretch_of(x, r->numbers[side][i]);
            bits[stretch / 64] |= UINT64_C(1) << stretch % 64;
        }
    }
    return rc;
}

static int check_stop(const volatile bool *stop, struct kymo_err *err)
{
    return stop && *stop ? kymo_err_set(err, -ECANCELED, "nobody wants the answer any more") : 0;
}

static int make_index(const struct table_file *f, const volatile bool *stop, struct serve_own_index **ret,
                      struct kymo_err *err)
{
    struct serve_own_index *x = new_index(f);
    struct serve_own_rows r;
    int rc = x ? serve_own_rows_open(&r, f, err) : kymo_err_set(err, -ENOMEM, "no memory for keys");
    if (!x)
        return rc;
    for (size_t g = 0; g < f->n_groups && rc == 0; g++) {
        rc = check_stop(stop, err);
        if (rc == 0)
            rc = fill_group(x, &r, g, err);
    }
    serve_own_rows_done(&r);
    if (rc == 0) {
        *ret = x;
        return 0;
    }
    kymo_free(x->bits);
    kymo_free(x);
    return rc;
}

struct search {
    const struct table_file *file;
    struct serve_own_rows rows;
    const char *table;
    int64_t id;
    int (*edge)(void *ctx, const struct serve_own_edge *e, struct kymo_err *err);
    void *ctx;
};

/* The rows of a group whose key on this side is the one that is asked for. */
static int look_in(struct search *s, size_t group, size_t side, struct kymo_err *err)
{
    struct serve_own_rows *r = &s->rows;
    size_t id = side == F_IN ? F_OUT : F_IN, table = side == F_IN ? F_OUT_TABLE : F_IN_TABLE;
    int rc = serve_own_rows_begin(r, group, err);
    if (rc == 0)
        rc = serve_own_rows_keep(r, side, s->id, s->id, err);
    if (rc == 0 && r->n)
        rc = serve_own_rows_keep_text(r, side == F_IN ? F_IN_TABLE : F_OUT_TABLE, s->table, err);
    if (rc < 0 || r->n == 0)
        return rc;
    rc = serve_own_rows_numbers(r, id, err);
    if (rc == 0)
        rc = serve_own_rows_texts(r, table, err);
    if (rc == 0)
        rc = serve_own_rows_texts(r, F_KIND, err);
    if (rc == 0)
        rc = serve_own_rows_numbers(r, F_GAP, err);
    for (size_t i = 0; i < r->n && rc == 0; i++) {
        const struct serve_own_edge e = {.out = side == F_IN,
                                         .table = r->texts[table][i],
                                         .kind = r->texts[F_KIND][i],
                                         .id = r->numbers[id][i],
                                         .gap = r->numbers[F_GAP][i]};
        rc = s->edge(s->ctx, &e, err);
    }
    return rc;
}

static int look(struct search *s, const struct serve_own_index *x, const volatile bool *stop, struct kymo_err *err)
{
    size_t stretch = stretch_of(x, s->id);
    int rc = serve_own_rows_open(&s->rows, s->file, err);
    for (size_t side = 0; side < SIDES; side++)
        for (size_t g = 0; g < s->file->n_groups && rc == 0; g++) {
            if (!(bits_of(x, g, side)[stretch / 64] >> stretch % 64 & 1))
                continue;
            rc = check_stop(stop, err);
            if (rc == 0)
                rc = look_in(s, g, side, err);
        }
    serve_own_rows_done(&s->rows);
    return rc;
}

int serve_own_edges(struct serve_dir *d, const char *table, int64_t id, const volatile bool *stop,
                    int (*edge)(void *ctx, const struct serve_own_edge *e, struct kymo_err *err), void *ctx,
                    struct kymo_err *err)
{
    struct search s = {.file = d->own->flow, .table = table, .id = id, .edge = edge, .ctx = ctx};
    (void)pthread_mutex_lock(&d->lock);
    int r = d->own->edges ? 0 : make_index(s.file, stop, &d->own->edges, err);
    (void)pthread_mutex_unlock(&d->lock);
    return r < 0 ? r : look(&s, d->own->edges, stop, err);
}
