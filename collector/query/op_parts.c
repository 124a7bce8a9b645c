#include "collector/query/op_parts.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define SQL_MAX (1u << 20)
#define TAKEN 3   /* values that op_parts_text puts in itself */
#define NARROW 64 /* of a profile: below this part of it, a thread alone reads faster than DuckDB plans */

static int64_t floor_to(int64_t t, int64_t width)
{
    int64_t into = t % width;
    return t - (into < 0 ? into + width : into);
}

static int64_t ceil_to(int64_t t, int64_t width)
{
    return floor_to(t + width - 1, width);
}

struct op_piece op_piece_make(const struct serve_dir *d, int64_t from, int64_t to, bool first)
{
    return (struct op_piece){from, to, first, (to - from) <= (d->to - d->from) / NARROW};
}

void op_parts_make(const struct serve_dir *d, enum serve_sums sums, const struct op_window *w, struct op_parts *ret)
{
    int64_t width = sums < SERVE_SUMS_MAX ? d->sums[sums] : 0;
    *ret = (struct op_parts){.n = 1, .pieces = {op_piece_make(d, w->from, w->to, true)}};
    if (width <= 0)
        return;
    /* Nothing is before the profile, and nothing behind it. */
    bool before = w->from > d->from, behind = w->to <= d->to;
    int64_t from = before ? ceil_to(w->from, width) : floor_to(d->from, width),
            to = behind ? floor_to(w->to, width) : floor_to(d->to, width) + width;
    if (from >= to)
        return;
    ret->from = from;
    ret->to = to;
    ret->n = 0;
    if (before)
        ret->pieces[ret->n++] = op_piece_make(d, w->from, from, true);
    if (behind && to < w->to)
        ret->pieces[ret->n++] = op_piece_make(d, to, w->to, false);
}

static int add_value(struct kymo_buf *b, long number, const struct op_piece *p)
{
    if (number == TAKEN)
        return kymo_buf_printf(b, p->first ? "true" : "false");
    return number < TAKEN ? kymo_buf_printf(b, "(%" PRId64 ")", number == 1 ? p->from : p->to)
                          : kymo_buf_printf(b, "$%ld", number - TAKEN);
}

/* The name of a view at text; *text is behind it then. */
static int add_view(struct kymo_buf *b, const char **text, const struct op_piece *p)
{
    size_t n = 0;
    while (isalnum((unsigned char)(*text)[n]) || (*text)[n] == '_')
        n++;
    int r = p->narrow ? kymo_buf_printf(b, "k.in_%.*s((%" PRId64 "), (%" PRId64 "))", (int)n, *text, p->from, p->to)
                      : kymo_buf_printf(b, "k.%.*s", (int)n, *text);
    *text += n;
    return r;
}

int op_parts_text(struct kymo_buf *b, const char *text, const struct op_piece *p)
{
    int r = 0;
    while (r == 0 && *text) {
        size_t n = strcspn(text, "$@");
        r = kymo_buf_printf(b, "%.*s", (int)n, text);
        text += n;
        if (r < 0 || !*text)
            break;
        if (*text++ == '@') {
            r = add_view(b, &text, p);
            continue;
        }
        char *end;
        r = add_value(b, strtol(text, &end, 10), p);
        text = end;
    }
    return r;
}

int op_parts_sums(struct kymo_buf *b, const char *text, const struct op_parts *p)
{
    return op_parts_text(b, text, &(struct op_piece){.from = p->from, .to = p->to});
}

int op_active_open(const struct op_parts *p, struct op_active *ret, struct kymo_err *err)
{
    for (size_t i = 0; i < OP_PIECES_MAX; i++) {
        *ret = i ? *ret : (struct op_active){0};
        ret->pieces[i] = busy_new(p->pieces[i].from, p->pieces[i].to);
        if (!ret->pieces[i])
            return kymo_err_set(err, -ENOMEM, "no memory for times covered");
    }
    return 0;
}

void op_active_done(struct op_active *a)
{
    for (size_t i = 0; i < OP_PIECES_MAX; i++)
        a->pieces[i] = busy_free(a->pieces[i]);
}

static int keep_sum(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    return c[1].null ? 0 : busy_add_sum(ctx, c[0].text, c[0].len, c[1].i, err);
}

int op_active_events(const struct serve_request *q, const struct op_parts *p, const char *text,
                     const struct sql_bind *binds, size_t n, bool ordered, struct op_active *ret, struct kymo_err *err)
{
    struct kymo_buf b;
    kymo_buf_init(&b, SQL_MAX);
    int r = 0;
    for (size_t i = 0; i < p->n && r == 0; i++) {
        kymo_buf_reset(&b);
        r = op_parts_text(&b, text, &p->pieces[i]);
        r = r < 0 ? kymo_err_set(err, r, "no memory for a statement")
                  : op_busy_read(q, (const char *)b.data, binds, n, ordered, ret->pieces[i], err);
    }
    kymo_buf_done(&b);
    return r;
}

int op_active_sums(const struct serve_request *q, const struct op_parts *p, const char *text,
                   const struct sql_bind *binds, size_t n, struct op_active *ret, struct kymo_err *err)
{
    if (p->from >= p->to)
        return 0;
    struct kymo_buf b;
    kymo_buf_init(&b, SQL_MAX);
    int r = op_parts_sums(&b, text, p);
    r = r < 0 ? kymo_err_set(err, r, "no memory for a statement")
              : sql_run(serve_sql_of(q), (const char *)b.data, binds, n, keep_sum, ret->pieces[0], err);
    kymo_buf_done(&b);
    return r;
}

int op_active_read(const struct serve_request *q, const struct op_parts *p, const char *events, const char *sums,
                   const struct sql_bind *binds, size_t n, struct op_active *ret, struct kymo_err *err)
{
    int r = op_active_events(q, p, events, binds, n, true, ret, err);
    return r < 0 ? r : op_active_sums(q, p, sums, binds, n, ret, err);
}

int64_t op_active_of(struct op_active *a, const char *key, size_t n)
{
    return busy_of(a->pieces[0], key, n) + busy_of(a->pieces[1], key, n);
}
