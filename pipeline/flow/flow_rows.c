#include "pipeline/flow/flow_rows.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define EDGES PARQUET_BATCH_MAX /* one page, which the writer takes as it is */
#define WAITS PARQUET_BATCH_MAX

struct edges {
    struct parquet_writer *writer;
    uint32_t in_tables[FLOW_TABLES], out_tables[FLOW_TABLES], types[FLOW_TYPE_MAX]; /* dictionary ids */
    size_t n;
    int64_t in_id[EDGES], out_id[EDGES], gap[EDGES];
    uint32_t in_table[EDGES], out_table[EDGES], type[EDGES];
};

struct waits {
    struct parquet_writer *writer;
    uint32_t engines[KYMO_ENGINE_MAX], types[FLOW_TABLES], tables[FLOW_TABLES], targets[FLOW_TARGETS],
        doubts[FLOW_DOUBT_MAX];
    size_t n;
    int64_t id[WAITS], pcore[WAITS], start[WAITS], end[WAITS], wait[WAITS], cost[WAITS], in_id[WAITS], update[WAITS],
        prior[WAITS];
    uint32_t engine[WAITS], type[WAITS], table[WAITS], target[WAITS], doubt[WAITS];
    uint8_t known[WAITS], has_prior[WAITS], saturated[WAITS], lower_bound[WAITS];
};

struct flow_rows {
    struct edges edges;
    struct waits waits;
};

static int names_of(struct parquet_writer *w, unsigned column, const char *const *names, size_t n, uint32_t *ids,
                    struct kymo_err *err)
{
    for (size_t i = 0; i < n; i++) {
        ids[i] = parquet_writer_string_id(w, column, names[i], strlen(names[i]), err);
        if (ids[i] == PARQUET_NULL)
            return -ENOMEM;
    }
    return 0;
}

static int open_edges(struct edges *t, const char *dir, const struct parquet_options *opt, struct kymo_err *err)
{
    const char *types[FLOW_TYPE_MAX], *tables[FLOW_TABLES];
    for (unsigned i = 0; i < FLOW_TYPE_MAX; i++)
        types[i] = flow_type_name((enum flow_type)i);
    for (unsigned i = 0; i < FLOW_TABLES; i++)
        tables[i] = flow_table_name((enum flow_table)i);
    int r = parquet_writer_open(dir, kymo_schema_table(KYMO_T_FLOW), opt, &t->writer, err);
    if (r == 0)
        r = names_of(t->writer, KYMO_FLOW_IN_TABLE, tables, FLOW_TABLES, t->in_tables, err);
    if (r == 0)
        r = names_of(t->writer, KYMO_FLOW_OUT_TABLE, tables, FLOW_TABLES, t->out_tables, err);
    return r < 0 ? r : names_of(t->writer, KYMO_FLOW_DEPENDENCY_TYPE, types, FLOW_TYPE_MAX, t->types, err);
}

static int name_targets(struct waits *t, struct kymo_err *err)
{
    for (unsigned i = 0; i < FLOW_TARGETS; i++) {
        char name[16];
        int n = snprintf(name, sizeof name, "%c[%u]", i < 256 ? 'S' : 'E', i % 256);
        t->targets[i] = parquet_writer_string_id(t->writer, KYMO_WAIT_CAUSE_SEMAPHORE, name, (size_t)n, err);
        if (t->targets[i] == PARQUET_NULL)
            return -ENOMEM;
    }
    return 0;
}

static int open_waits(struct waits *t, const char *dir, const struct parquet_options *opt, struct kymo_err *err)
{
    const char *engines[KYMO_ENGINE_MAX], *doubts[FLOW_DOUBT_MAX];
    const char *types[FLOW_TABLES], *tables[FLOW_TABLES];
    for (unsigned i = 0; i < FLOW_TABLES; i++) {
        types[i] = flow_type_name(flow_wait_type((enum flow_table)i));
        tables[i] = flow_table_name((enum flow_table)i);
    }
    for (unsigned i = 0; i < KYMO_ENGINE_MAX; i++)
        engines[i] = kymo_engine_name((enum kymo_engine)i);
    for (unsigned i = 0; i < FLOW_DOUBT_MAX; i++)
        doubts[i] = flow_doubt_name((enum flow_doubt)i);
    int r = parquet_writer_open(dir, kymo_schema_table(KYMO_T_WAIT_CAUSE), opt, &t->writer, err);
    if (r == 0)
        r = names_of(t->writer, KYMO_WAIT_CAUSE_ENGINE, engines, KYMO_ENGINE_MAX, t->engines, err);
    if (r == 0)
        r = names_of(t->writer, KYMO_WAIT_CAUSE_DEPENDENCY_TYPE, types, FLOW_TABLES, t->types, err);
    if (r == 0)
        r = names_of(t->writer, KYMO_WAIT_CAUSE_IN_TABLE, tables, FLOW_TABLES, t->tables, err);
    /* The first doubt is none: null. */
    t->doubts[FLOW_DOUBT_NONE] = PARQUET_NULL;
    if (r == 0)
        r = names_of(t->writer, KYMO_WAIT_CAUSE_UNKNOWN_REASON, doubts + 1, FLOW_DOUBT_MAX - 1, t->doubts + 1, err);
    return r < 0 ? r : name_targets(t, err);
}

int flow_rows_open(const char *dir, const struct parquet_options *opt, struct flow_rows **ret, struct kymo_err *err)
{
    struct flow_rows *t = KYMO_NEW(struct flow_rows);
    if (!t)
        return kymo_err_set(err, -ENOMEM, "no memory for the tables of dependencies");
    int r = open_edges(&t->edges, dir, opt, err);
    if (r == 0)
        r = open_waits(&t->waits, dir, opt, err);
    if (r < 0) {
        flow_rows_free(t);
        return r;
    }
    *ret = t;
    return 0;
}

struct flow_rows *flow_rows_free(struct flow_rows *t)
{
    if (!t)
        return NULL;
    parquet_writer_discard(t->edges.writer);
    parquet_writer_discard(t->waits.writer);
    kymo_free(t);
    return NULL;
}

static int flush_edges(struct edges *t, struct kymo_err *err)
{
    struct parquet_column c[KYMO_FLOW_MAX] = {0};
    c[KYMO_FLOW_IN_ID].values = t->in_id;
    c[KYMO_FLOW_OUT_ID].values = t->out_id;
    c[KYMO_FLOW_IN_TABLE] = (struct parquet_column){.index = t->in_table, .map = t->in_tables, .map_len = FLOW_TABLES};
    c[KYMO_FLOW_OUT_TABLE] =
        (struct parquet_column){.index = t->out_table, .map = t->out_tables, .map_len = FLOW_TABLES};
    c[KYMO_FLOW_DEPENDENCY_TYPE] = (struct parquet_column){.index = t->type, .map = t->types, .map_len = FLOW_TYPE_MAX};
    c[KYMO_FLOW_GAP_TIME].values = t->gap;
    int r = t->n ? parquet_writer_batch(t->writer, c, t->n, err) : 0;
    t->n = 0;
    return r;
}

int flow_rows_edge(struct flow_rows *rows, const struct flow_edge *e, struct kymo_err *err)
{
    struct edges *t = &rows->edges;
    size_t i = t->n++;
    t->in_id[i] = e->in_id;
    t->out_id[i] = e->out_id;
    t->gap[i] = e->gap;
    t->in_table[i] = e->in_table;
    t->out_table[i] = e->out_table;
    t->type[i] = e->type;
    return t->n == EDGES ? flush_edges(t, err) : 0;
}

static int flush_waits(struct waits *t, struct kymo_err *err)
{
    struct parquet_column c[KYMO_WAIT_CAUSE_MAX] = {0};
    c[KYMO_WAIT_CAUSE_INSTRUCTION_ID].values = t->id;
    c[KYMO_WAIT_CAUSE_PCORE_IDX].values = t->pcore;
    c[KYMO_WAIT_CAUSE_ENGINE] =
        (struct parquet_column){.index = t->engine, .map = t->engines, .map_len = KYMO_ENGINE_MAX};
    c[KYMO_WAIT_CAUSE_START_TS].values = t->start;
    c[KYMO_WAIT_CAUSE_END_TS].values = t->end;
    c[KYMO_WAIT_CAUSE_WAIT_NS].values = t->wait;
    c[KYMO_WAIT_CAUSE_COST_NS].values = t->cost;
    c[KYMO_WAIT_CAUSE_DEPENDENCY_TYPE].index = t->type;
    c[KYMO_WAIT_CAUSE_IN_TABLE].index = t->table;
    c[KYMO_WAIT_CAUSE_IN_ID] = (struct parquet_column){.values = t->in_id, .valid = t->known};
    c[KYMO_WAIT_CAUSE_UPDATE_TS] = (struct parquet_column){.values = t->update, .valid = t->known};
    c[KYMO_WAIT_CAUSE_PRIOR_WAIT_ID] = (struct parquet_column){.values = t->prior, .valid = t->has_prior};
    c[KYMO_WAIT_CAUSE_SEMAPHORE].index = t->target;
    c[KYMO_WAIT_CAUSE_SATURATED].values = t->saturated;
    c[KYMO_WAIT_CAUSE_LOWER_BOUND].values = t->lower_bound;
    c[KYMO_WAIT_CAUSE_UNKNOWN_REASON].index = t->doubt;
    int r = t->n ? parquet_writer_batch(t->writer, c, t->n, err) : 0;
    t->n = 0;
    return r;
}

int flow_rows_wait(struct flow_rows *rows, const struct flow_wait *w, struct kymo_err *err)
{
    struct waits *t = &rows->waits;
    size_t i = t->n++;
    bool known = w->doubt == FLOW_DOUBT_NONE;
    t->id[i] = w->id;
    t->pcore[i] = w->pcore;
    t->engine[i] = w->engine;
    t->start[i] = w->start;
    t->end[i] = w->end;
    t->wait[i] = w->wait;
    t->cost[i] = w->cost;
    t->known[i] = known;
    t->in_id[i] = w->in_id;
    t->update[i] = w->update;
    t->prior[i] = w->prior;
    t->has_prior[i] = known && w->prior >= 0;
    t->type[i] = known ? t->types[w->in_table] : PARQUET_NULL;
    t->table[i] = known ? t->tables[w->in_table] : PARQUET_NULL;
    t->target[i] = w->target >= 0 ? t->targets[w->target] : PARQUET_NULL;
    t->doubt[i] = t->doubts[w->doubt];
    t->saturated[i] = w->saturated;
    t->lower_bound[i] = w->lower_bound;
    return t->n == WAITS ? flush_waits(t, err) : 0;
}

int flow_rows_finish(struct flow_rows *t, struct kymo_err *err)
{
    int r = flush_edges(&t->edges, err);
    if (r == 0)
        r = flush_waits(&t->waits, err);
    if (r < 0)
        return r;
    r = parquet_writer_finish(t->edges.writer, err);
    t->edges.writer = NULL;
    if (r < 0)
        return r;
    r = parquet_writer_finish(t->waits.writer, err);
    t->waits.writer = NULL;
    return r;
}
