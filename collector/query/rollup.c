#include "collector/query/rollup.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define NAME(name) name,
static const char *const sum_names[] = {ROLLUP_SUMS(NAME)};
static const char *const real_names[] = {ROLLUP_REALS(NAME)};
#define N_SUMS (sizeof sum_names / sizeof *sum_names)
#define N_REALS (sizeof real_names / sizeof *real_names)
enum { C_ENGINE, C_PCORE, C_OPCODE, C_OPERATOR, C_SUMS, C_REALS = C_SUMS + N_SUMS };
enum { S_COUNT, S_TIME };
#define FLOPS_MAX 9.2e18 /* of a whole number */

struct group {
    char *engine, *opcode, *operator;
    int64_t pcore; /* INT64_MAX: null, and so the last */
    int64_t sums[N_SUMS];
    double reals[N_REALS];
    bool has_sum[N_SUMS], has_real[N_REALS];
};

struct rollup {
    struct group *groups; /* names are theirs */
    size_t n, cap;
    struct group none; /* what no instruction adds up to */
};

struct rollup *rollup_new(void)
{
    return KYMO_NEW(struct rollup);
}

struct rollup *rollup_free(struct rollup *r)
{
    if (!r)
        return NULL;
    for (size_t i = 0; i < r->n; i++) {
        kymo_free(r->groups[i].engine);
        kymo_free(r->groups[i].opcode);
        kymo_free(r->groups[i].operator);
    }
    kymo_free(r->groups);
    kymo_free(r);
    return NULL;
}

void rollup_freep(struct rollup **r)
{
    *r = rollup_free(*r);
}

int rollup_add(struct rollup *r, const struct sql_cell *c, struct kymo_err *err)
{
    void *list = r->groups;
    if (kymo_grow(&list, &r->cap, r->n + 1, ROLLUP_GROUPS_MAX, sizeof *r->groups) < 0)
        return kymo_err_set(err, -E2BIG, "more than %u kinds of instructions", ROLLUP_GROUPS_MAX);
    r->groups = list;
    struct group *g = &r->groups[r->n++];
    *g = (struct group){.engine = kymo_strndup(c[C_ENGINE].text, c[C_ENGINE].len),
                        .opcode = kymo_strndup(c[C_OPCODE].text, c[C_OPCODE].len),
                        .operator= kymo_strndup(c[C_OPERATOR].text, c[C_OPERATOR].len),
                        .pcore = c[C_PCORE].null ? INT64_MAX : c[C_PCORE].i};
    for (size_t i = 0; i < N_SUMS; i++) {
        g->has_sum[i] = !c[C_SUMS + i].null;
        g->sums[i] = c[C_SUMS + i].null ? 0 : c[C_SUMS + i].i;
    }
    for (size_t i = 0; i < N_REALS; i++) {
        g->has_real[i] = !c[C_REALS + i].null;
        g->reals[i] = c[C_REALS + i].null ? 0 : c[C_REALS + i].f;
    }
    return g->engine && g->opcode && g->operator? 0 : kymo_err_set(err, -ENOMEM, "no memory for sums");
}

static int compare_engines(const void *x, const void *y)
{
    const struct group *a = x, *b = y;
    return a->pcore != b->pcore ? (a->pcore < b->pcore ? -1 : 1) : strcmp(a->engine, b->engine);
}

static int compare_opcodes(const void *x, const void *y)
{
    const struct group *a = x, *b = y;
    int c = strcmp(a->engine, b->engine);
    return c ? c : strcmp(a->opcode, b->opcode);
}

static int compare_operators(const void *x, const void *y)
{
    return strcmp(((const struct group *)x)->operator,((const struct group *)y)->operator);
}

static int compare_none(const void *x, const void *y)
{
    (void)x;
    (void)y;
    return 0;
}

typedef int (*compare)(const void *x, const void *y);
static const compare compares[] = {[ROLLUP_ENGINE] = compare_engines,
                                   [ROLLUP_OPCODE] = compare_opcodes,
                                   [ROLLUP_OPERATOR] = compare_operators,
                                   [ROLLUP_ALL] = compare_none};

static void merge(struct group *into, const struct group *g)
{
    for (size_t i = 0; i < N_SUMS; i++) {
        into->has_sum[i] |= g->has_sum[i];
        if (__builtin_add_overflow(into->sums[i], g->sums[i], &into->sums[i]))
            into->sums[i] = INT64_MAX;
    }
    for (size_t i = 0; i < N_REALS; i++) {
        into->has_real[i] |= g->has_real[i];
        into->reals[i] += g->reals[i];
    }
}

/* Sorted groups, equal ones of which become one in ret; returns how many. */
static size_t merge_all(const struct group *sorted, size_t n, compare order, struct group *ret)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (kept > 0 && order(&ret[kept - 1], &sorted[i]) == 0)
            merge(&ret[kept - 1], &sorted[i]);
        else
            ret[kept++] = sorted[i];
    return kept;
}

/* The order among equal times is that of names, which they have already. */
static int compare_times(const void *x, const void *y)
{
    const struct group *const *a = x, *const *b = y;
    if ((*a)->sums[S_TIME] != (*b)->sums[S_TIME])
        return (*a)->sums[S_TIME] > (*b)->sums[S_TIME] ? -1 : 1;
    return (*a > *b) - (*a < *b);
}

static json_t *row_of(const struct group *g, enum rollup_by by)
{
    json_t *row = json_object();
    if (by == ROLLUP_ENGINE || by == ROLLUP_OPCODE)
        (void)json_object_set_new(row, "engine", json_string(g->engine));
    if (by == ROLLUP_ENGINE)
        (void)json_object_set_new(row, "pcore", g->pcore == INT64_MAX ? json_null() : json_integer(g->pcore));
    if (by == ROLLUP_OPCODE)
        (void)json_object_set_new(row, "opcode", json_string(g->opcode));
    if (by == ROLLUP_OPERATOR)
        (void)json_object_set_new(row, "operator", json_string(g->operator));
    for (size_t i = 0; i < N_SUMS; i++)
        (void)json_object_set_new(row, sum_names[i],
                                  g->has_sum[i] || i == S_COUNT ? json_integer(g->sums[i]) : json_null());
    for (size_t i = 0; i < N_REALS; i++) {
        double real = round(g->reals[i]);
        (void)json_object_set_new(row, real_names[i],
                                  g->has_real[i] && fabs(real) < FLOPS_MAX ? json_integer((json_int_t)real)
                                                                           : json_null());
    }
    return row;
}

json_t *rollup_rows(struct rollup *r, enum rollup_by by, size_t max)
{
    json_t *rows = json_array();
    struct group *merged KYMO_FREE = KYMO_NEW_ARRAY(struct group, r->n + 1);
    const struct group **order KYMO_FREE = KYMO_NEW_ARRAY(const struct group *, r->n + 1);
    if (!rows || !merged || !order) {
        json_decref(rows);
        return NULL;
    }
    if (r->n)
        qsort(r->groups, r->n, sizeof *r->groups, compares[by]);
    size_t n = merge_all(r->groups, r->n, compares[by], merged);
    if (by == ROLLUP_ALL && n == 0)
        merged[n++] = r->none;
    for (size_t i = 0; i < n; i++)
        order[i] = &merged[i];
    if (n && (by == ROLLUP_OPCODE || by == ROLLUP_OPERATOR))
        qsort(order, n, sizeof *order, compare_times);
    for (size_t i = 0; i < n && i < max; i++)
        (void)json_array_append_new(rows, row_of(order[i], by));
    return rows;
}
