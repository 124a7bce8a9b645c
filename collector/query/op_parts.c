#include "collector/query/op_parts.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define SQL_MAX (1u << 20)
#define TAKEN 3 /* values that op_parts_text puts in itself */

static int64_t floor_to(int64_t t, int64_t width)
{
    int64_t into = t % width;
    return t - (into < 0 ? into + width : into);
}

static int64_t ceil_to(int64_t t, int64_t width)
{
    return floor_to(t + width - 1, width);
}

void op_parts_make(const struct serve_dir *d, enum serve_sums sums, const struct op_window *w, struct op_parts *ret)
{
    int64_t width = sums < SERVE_SUMS_MAX ? d->sums[sums] : 0;
    *ret = (struct op_parts){.n = 1, .pieces = {{w->from, w->to, true}}};
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
        ret->pieces[ret->n++] = (struct op_piece){w->from, from, true};
    if (behind && to < w->to)
        ret->pieces[ret->n++] = (struct op_piece){to, w->to, false};
}

int op_parts_text(struct kymo_buf *b, const char *text, int64_t from, int64_t to, bool first)
{
    int r = 0;
    while (r == 0 && *text) {
        size_t n = strcspn(text, "$");
        r = kymo_buf_printf(b, "%.*s", (int)n, text);
        text += n;
        if (r < 0 || !*text)
            break;
        char *end;
        long number = strtol(text + 1, &end, 10);
        if (number == TAKEN)
            r = kymo_buf_printf(b, first ? "true" : "false");
        else if (number < TAKEN)
            r = kymo_buf_printf(b, "(%" PRId64 ")", number == 1 ? from : to);
        else
            r = kymo_buf_printf(b, "$%ld", number - TAKEN);
        text = end;
    }
    return r;
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

int op_active_read(const struct serve_request *q, const struct op_parts *p, const char *events, const char *sums,
                   const struct sql_bind *binds, size_t n, struct op_active *ret, struct kymo_err *err)
{
    struct kymo_buf b;
    kymo_buf_init(&b, SQL_MAX);
    int r = 0;
    for (size_t i = 0; i < p->n && r == 0; i++) {
        const struct op_piece *one = &p->pieces[i];
        kymo_buf_reset(&b);
        r = op_parts_text(&b, events, one->from, one->to, one->first);
        r = r < 0 ? kymo_err_set(err, r, "no memory for a statement")
                  : op_busy_read(q, (const char *)b.data, binds, n, ret->pieces[i], err);
    }
    if (r == 0 && p->from < p->to) {
        kymo_buf_reset(&b);
        r = op_parts_text(&b, sums, p->from, p->to, false);
        r = r < 0 ? kymo_err_set(err, r, "no memory for a statement")
                  : sql_run(serve_sql_of(q), (const char *)b.data, binds, n, keep_sum, ret->pieces[0], err);
    }
    kymo_buf_done(&b);
    return r;
}

int64_t op_active_of(struct op_active *a, const char *key, size_t n)
{
    return busy_of(a->pieces[0], key, n) + busy_of(a->pieces[1], key, n);
}
