#include "collector/query/op_covered.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collector/query/serve_own.h"

#define KEY_MAX 128

struct covered {
    const struct op_covered *question;
    struct busy *busy;
    const struct serve_track *last; /* that was asked for */
};

static bool is_labelled(const struct serve_track *t, const struct sql_cell *label)
{
    return strlen(t->label) == label->len && !memcmp(t->label, label->text, label->len);
}

static const struct serve_track *find(struct covered *c, const struct sql_cell *label)
{
    const struct op_covered *q = c->question;
    if (c->last && is_labelled(c->last, label))
        return c->last;
    for (size_t i = 0; i < q->n; i++)
        if (q->tracks[i]->kind == q->kind && is_labelled(q->tracks[i], label))
            return c->last = q->tracks[i];
    return NULL;
}

static bool is_wanted(void *ctx, const struct sql_cell *track)
{
    return find(ctx, track) != NULL;
}

static int take(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    struct covered *k = ctx;
    const char *key = c[SERVE_OWN_TRACK].text;
    size_t n = c[SERVE_OWN_TRACK].len;
    char text[KEY_MAX];
    int64_t start = c[SERVE_OWN_START].i, end = c[SERVE_OWN_END].i, begin = start + c[SERVE_OWN_WAIT].i;
    if (k->question->key == OP_COVERED_ENGINE) {
        const struct serve_track *t = find(k, &c[SERVE_OWN_TRACK]);
        int len = snprintf(text, sizeof text, "%.100s %" PRId64, t && t->engine ? t->engine : "", t ? t->pcore : -1);
        key = text;
        n = (size_t)len;
    } else if (k->question->key == OP_COVERED_ALL) {
        n = 0;
    }
    return busy_add(k->busy, key, n, start, begin < end ? begin : end, end, err);
}

int op_covered_read(const struct serve_request *q, const struct op_covered *c, const struct op_parts *p,
                    struct op_active *ret, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; i < p->n && r == 0; i++) {
        struct covered ctx = {.question = c, .busy = ret->pieces[i]};
        const struct serve_own_window w = {.dir = serve_dir_of(q),
                                           .kind = c->kind,
                                           .from = p->pieces[i].from,
                                           .to = p->pieces[i].to - 1,
                                           .stop = serve_sql_of(q)->stop,
                                           .wanted = c->tracks ? is_wanted : NULL,
                                           .given = SERVE_OWN_BARE,
                                           .row = take,
                                           .ctx = &ctx};
        r = serve_own_events(&w, err);
    }
    return r;
}
