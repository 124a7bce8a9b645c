#include "tools/export/perfetto_flows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/export/export_perfetto.h"

#define TABLES 3
#define SIDES (2 * TABLES) /* of each table, leaving and entering */
#define ROW_MAX 65536      /* arrows of one row and direction; a compiler's graph has a few */

static const struct {
    const char *table, *called; /* called: by Flow */
} drawn[TABLES] = {{"Instruction", "instruction"}, {"DmaPacketAggregated", "dma_block"}, {"CcOp", "cc_op"}};

struct end {
    int64_t id;
    uint64_t flow;
};

struct side {
    struct end *ends;
    size_t count, cap;
};

struct perfetto_flows {
    struct side sides[SIDES];
    uint64_t count, max;
    uint64_t *found[2];
};

/* Other names than those of drawn are not asked for. */
static size_t side_of(const char *called, size_t n, bool enter)
{
    size_t i = TABLES - 1;
    while (i && (n != strlen(drawn[i].called) || memcmp(called, drawn[i].called, n)))
        i--;
    return 2 * i + enter;
}

static int add(struct side *s, int64_t id, uint64_t flow)
{
    void *p = s->ends;
    int r = kymo_grow(&p, &s->cap, s->count + 1, EXPORT_FLOWS_MAX, sizeof *s->ends);
    s->ends = p;
    if (r == 0)
        s->ends[s->count++] = (struct end){.id = id, .flow = flow};
    return r;
}

static int row(void *ctx, size_t columns, const struct query_value *v)
{
    struct perfetto_flows *f = ctx;
    (void)columns;
    uint64_t flow = ++f->count;
    if (flow > f->max)
        return 0;
    int r = add(&f->sides[side_of(v[0].text, v[0].len, false)], v[1].integer, flow);
    return r < 0 ? r : add(&f->sides[side_of(v[2].text, v[2].len, true)], v[3].integer, flow);
}

static int by_id(const void *a, const void *b)
{
    const struct end *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return (x->flow > y->flow) - (x->flow < y->flow);
}

static void drop(struct perfetto_flows *f)
{
    for (int i = 0; i < SIDES; i++) {
        kymo_free(f->sides[i].ends);
        f->sides[i] = (struct side){0};
    }
}

/* Rows of one table in the range, as Flow names them. */
static char *rows_sql(const struct export_profile *p, const char *table, const char *called,
                      const struct export_range *range, struct kymo_err *err)
{
    struct export_source s;
    char *sql = NULL;
    int r = export_source_open(&s, p, table, range, err);
    if (r == 0)
        sql = kymo_asprintf("SELECT '%s' AS t, id FROM \"%s\"%s", called, table, s.condition);
    else if (r == -ENODATA)
        sql = kymo_asprintf("SELECT '%s' AS t, 0::BIGINT AS id WHERE false", called);
    export_source_done(&s);
    return sql;
}

/* 'instruction', 'dma_block' */
static char *names_sql(const struct perfetto_flows_scope *scope)
{
    const bool wanted[TABLES] = {scope->instructions, scope->transfers, scope->collectives};
    char *names = kymo_strdup("''");
    for (size_t i = 0; i < TABLES && names; i++) {
        char *before KYMO_FREE = names;
        names = wanted[i] ? kymo_asprintf("%s, '%s'", before, drawn[i].called) : KYMO_TAKE(before);
    }
    return names;
}

static char *edges_sql(const struct export_profile *p, const struct perfetto_flows_scope *scope, struct kymo_err *err)
{
    char *names KYMO_FREE = names_sql(scope);
    char *edges KYMO_FREE = names ? kymo_asprintf("SELECT in_table, in_id, out_table, out_id FROM Flow WHERE in_table "
                                                  "IN (%s) AND out_table IN (%s)",
                                                  names, names)
                                  : NULL;
    if (!edges || scope->range->whole)
        return KYMO_TAKE(edges);
    char *rows = NULL;
    for (size_t i = 0; i < TABLES && (rows || !i); i++) {
        char *before KYMO_FREE = rows, *one KYMO_FREE = rows_sql(p, drawn[i].table, drawn[i].called, scope->range, err);
        rows = one ? kymo_asprintf("%s%s%s", i ? before : "", i ? " UNION ALL " : "", one) : NULL;
    }
    char *all KYMO_FREE = rows;
    return all ? kymo_asprintf("WITH drawn AS (%s) %s AND (in_table, in_id) IN (SELECT (t, id) FROM drawn) "
                               "AND (out_table, out_id) IN (SELECT (t, id) FROM drawn)",
                               all, edges)
               : NULL;
}

int perfetto_flows_read(const struct export_profile *p, const struct perfetto_flows_scope *scope, uint64_t max,
                        struct perfetto_flows **ret, uint64_t *ret_left_out, struct kymo_err *err)
{
    struct kymo_err why = {0};
    struct perfetto_flows *f = KYMO_NEW(struct perfetto_flows);
    char *sql KYMO_FREE = f ? edges_sql(p, scope, &why) : NULL;
    int r = sql ? 0 : kymo_err_set(err, why.code ? why.code : -ENOMEM, "%s", why.code ? why.text : "out of memory");
    const struct query_row_sink sink = {.row = row, .ctx = f};
    if (r == 0) {
        f->max = max;
        f->found[0] = KYMO_NEW_ARRAY(uint64_t, ROW_MAX);
        f->found[1] = KYMO_NEW_ARRAY(uint64_t, ROW_MAX);
        r = f->found[0] && f->found[1] ? query_rows_run(p->db, sql, &sink, err)
                                       : kymo_err_set(err, -ENOMEM, "out of memory");
    }
    if (r < 0) {
        (void)perfetto_flows_free(f);
        return r;
    }
    *ret_left_out = f->count > max ? f->count : 0;
    if (*ret_left_out)
        drop(f);
    for (int i = 0; i < SIDES; i++)
        if (f->sides[i].count)
            qsort(f->sides[i].ends, f->sides[i].count, sizeof *f->sides[i].ends, by_id);
    *ret = f;
    return 0;
}

struct perfetto_flows *perfetto_flows_free(struct perfetto_flows *f)
{
    if (f) {
        drop(f);
        kymo_free(f->found[0]);
        kymo_free(f->found[1]);
    }
    kymo_free(f);
    return NULL;
}

const uint64_t *perfetto_flows_of(struct perfetto_flows *f, const char *table, int64_t id, bool enter, size_t *ret_n)
{
    const struct side *s = &f->sides[side_of(table, strlen(table), enter)];
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (s->ends[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    *ret_n = 0;
    for (; low < s->count && s->ends[low].id == id && *ret_n < ROW_MAX; low++)
        f->found[enter][(*ret_n)++] = s->ends[low].flow;
    return f->found[enter];
}
