/* The chain of binding waits back from an event. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/op_common.h"
#include "collector/query/serve_ops.h"
#include "formats/schema/schema.h"

#define STEPS_MAX 200
#define WAITS_MAX (1u << 20) /* read in one go, to walk back through */
#define REACH_NS 1000000     /* how far the first look back goes; each further one 8 times as far */
#define SQL_MAX (1u << 16)

struct wait {
    int64_t id, prior, end;
};

struct walk {
    const struct sql *sql;
    struct wait *waits; /* in order of id */
    size_t n, cap;
    int64_t chain[STEPS_MAX];
    size_t steps;
    int64_t next;  /* INT64_MIN: the walk is over */
    int64_t until; /* when the wait to look at next was over at the latest */
    bool more;
};

/* The wait that an event's own begin rests on: that of its instruction, or of a transfer's trigger. */
static int first_wait(struct serve_request *q, const struct op_table *table, int64_t id, int64_t *ret,
                      struct kymo_err *err)
{
    const struct sql *s = serve_sql_of(q);
    *ret = id;
    if (!strcmp(table->name, "Instruction"))
        return 0;
    int r = 0;
    if (!strcmp(table->name, "DmaPacket"))
        r = sql_numbers(s, "SELECT packet_aggregation_id FROM k.\"DmaPacket\" WHERE id = $1",
                        (struct sql_bind[]){SQL_INT(id)}, 1, &id, 1, err);
    else if (!table->flow)
        return kymo_err_set(err, -EINVAL, "rows of %s have no waits", table->name);
    if (r == 0)
        r = sql_numbers(s,
                        "SELECT in_id FROM k.\"Flow\" WHERE out_table = $2 AND out_id = $1 AND dependency_type = "
                        "'DMA_TRIGGER' LIMIT 1",
                        (struct sql_bind[]){SQL_INT(id), SQL_TEXT(table->flow ? table->flow : "dma_block")}, 2, ret, 1,
                        err);
    return r;
}

static int keep_wait(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    struct walk *w = ctx;
    void *list = w->waits;
    if (w->n == WAITS_MAX)
        return 0;
    if (kymo_grow(&list, &w->cap, w->n + 1, WAITS_MAX, sizeof *w->waits) < 0)
        return kymo_err_set(err, -ENOMEM, "no memory for waits");
    w->waits = list;
    w->waits[w->n++] = (struct wait){c[0].i, c[1].null ? INT64_MIN : c[1].i, c[2].i};
    return 0;
}

static const struct wait *find(const struct walk *w, int64_t id)
{
    size_t low = 0, high = w->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->waits[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < w->n && w->waits[low].id == id ? &w->waits[low] : NULL;
}

/* As far as what was read goes. A step never leads forward, so that a damaged table makes no circle. */
static void go_back(struct walk *w)
{
    const struct wait *at;
    while (w->next != INT64_MIN && (at = find(w, w->next)) && at->end <= w->until) {
        if (w->steps == STEPS_MAX) {
            w->more = true;
            w->next = INT64_MIN;
            return;
        }
        w->chain[w->steps++] = at->id;
        w->until = at->end;
        w->next = at->prior == at->id ? INT64_MIN : at->prior;
    }
}

/* Waits lie near one another in time, so that a stretch of the table holds many steps. */
static int walk(struct walk *w, int64_t from, struct kymo_err *err)
{
    int r = 0;
    for (int64_t reach = REACH_NS; w->next != INT64_MIN && r == 0; reach *= 8) {
        int64_t since = w->until - reach;
        size_t before = w->steps;
        w->n = 0;
        r = sql_run(
            w->sql,
            "SELECT instruction_id, prior_wait_id, end_ts FROM k.\"WaitCause\" WHERE end_ts >= $1 AND end_ts <= $2"
            " ORDER BY instruction_id",
            (struct sql_bind[]){SQL_INT(since), SQL_INT(w->until)}, 2, keep_wait, w, err);
        if (r == 0)
            go_back(w);
        if (w->steps == before && since < from)
            w->next = INT64_MIN; /* the table has no such row */
        if (w->steps != before)
            reach = REACH_NS / 8;
    }
    return r;
}

static int read_chain(struct serve_request *q, int64_t id, struct walk *w, struct kymo_err *err)
{
    int64_t end;
    int r = sql_numbers(serve_sql_of(q), "SELECT end_ts FROM k.\"WaitCause\" WHERE instruction_id = $1",
                        (struct sql_bind[]){SQL_INT(id)}, 1, &end, 1, err);
    if (r < 0 || end == INT64_MIN)
        return r;
    w->next = id;
    w->until = end;
    return walk(w, serve_dir_of(q)->from, err);
}

/* $1 to $n are the chain. */
static int describe(const struct walk *w, json_t **ret, struct kymo_err *err)
{
    static const char rest[] =
        ") v(step, id)), c AS (SELECT ids.step::BIGINT AS step, w.* FROM ids JOIN k.\"WaitCause\" w ON"
        " w.instruction_id = ids.id), i AS (SELECT id, pc, opcode, engine, start_ts, end_ts FROM k.\"Instruction\""
        " WHERE id IN (SELECT instruction_id FROM c UNION SELECT in_id FROM c WHERE in_table = 'instruction')), d"
        " AS (SELECT id, coalesce(nullif(variable, ''), queue_name) AS label, queue_name, start_ts, end_ts FROM"
        " k.\"DmaPacketAggregated\" WHERE id IN (SELECT in_id FROM c WHERE in_table = 'dma_block')), o AS (SELECT"
        " id, operation, algorithm, start_ts, end_ts FROM k.\"CcOp\" WHERE id IN (SELECT in_id FROM c WHERE"
        " in_table = 'cc_op')) SELECT step, c.instruction_id, c.engine, c.pcore_idx, i.pc, i.opcode, c.start_ts,"
        " c.end_ts, c.wait_ns, c.cost_ns, c.dependency_type, c.semaphore, c.in_table, c.in_id, coalesce(f.engine,"
        " d.queue_name, o.algorithm) AS in_engine, coalesce(f.opcode, d.label, o.operation) AS in_label,"
        " coalesce(f.start_ts, d.start_ts, o.start_ts) AS in_start_ts, coalesce(f.end_ts, d.end_ts, o.end_ts) AS"
        " in_end_ts, c.prior_wait_id, c.unknown_reason, c.lower_bound FROM c LEFT JOIN i ON i.id ="
        " c.instruction_id LEFT JOIN i f ON c.in_table = 'instruction' AND f.id = c.in_id LEFT JOIN d ON"
        " c.in_table = 'dma_block' AND d.id = c.in_id LEFT JOIN o ON c.in_table = 'cc_op' AND o.id = c.in_id ORDER"
        " BY step";
    struct sql_bind binds[STEPS_MAX];
    struct kymo_buf b;
    kymo_buf_init(&b, SQL_MAX);
    int r = kymo_buf_printf(&b, "WITH ids AS (SELECT * FROM (VALUES ");
    for (size_t i = 0; i < w->steps && r == 0; i++) {
        binds[i] = SQL_INT(w->chain[i]);
        r = kymo_buf_printf(&b, "%s(%zu, $%zu::BIGINT)", i ? ", " : "", i, i + 1);
    }
    if (r == 0)
        r = kymo_buf_printf(&b, "%s", rest);
    r = r < 0 ? kymo_err_set(err, r, "no memory for a statement")
              : sql_objects(w->sql, (const char *)b.data, binds, w->steps, STEPS_MAX, ret, NULL, err);
    kymo_buf_done(&b);
    return r;
}

static const char *end_of(const struct serve_dir *d, json_t *chain, bool more)
{
    size_t n = json_array_size(chain);
    json_t *last = n ? json_array_get(chain, n - 1) : NULL;
    if (!d->has_table[KYMO_T_WAIT_CAUSE])
        return "absent";
    if (more)
        return "limit";
    return last && json_is_string(json_object_get(last, "unknown_reason")) ? "unknown" : "no_wait";
}

int op_why(struct serve_request *q, struct kymo_err *err)
{
    const struct op_table *table;
    int64_t id, from = INT64_MIN;
    json_t *chain = NULL;
    struct walk w = {.sql = serve_sql_of(q), .next = INT64_MIN};
    int r = op_event_read(q, &table, &id, err);
    if (r == 0)
        r = first_wait(q, table, id, &from, err);
    if (r == 0 && from != INT64_MIN)
        r = read_chain(q, from, &w, err);
    kymo_free(w.waits);
    if (r == 0 && w.steps)
        r = describe(&w, &chain, err);
    if (r < 0)
        return r;
    if (!chain)
        chain = json_array();
    json_t *o = json_pack("{s:s, s:I, s:o, s:s}", "table", table->name, "id", (json_int_t)id, "chain", chain, "end",
                          end_of(serve_dir_of(q), chain, w.more));
    return serve_answer_json(q, o, err);
}
