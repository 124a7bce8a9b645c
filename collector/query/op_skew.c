/* Collectives of a profile of many ranks: how far apart the ranks came, and who came last. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/op_common.h"
#include "collector/query/ranks_sql.h"
#include "collector/query/serve_ops.h"

#define PAGE_SIZE 100
#define ARRIVALS_MAX 65536

static const char *const sort_names[] = {"-spread_ns",  "spread_ns",    "-first",      "first", "-duration_ns",
                                         "duration_ns", "-transfer_ns", "transfer_ns", NULL};
static const char *const orders[] = {"spread_ns DESC NULLS LAST",        "spread_ns NULLS LAST",
                                     "first_arrival_ns DESC NULLS LAST", "first_arrival_ns NULLS LAST",
                                     "duration_ns DESC NULLS LAST",      "duration_ns NULLS LAST",
                                     "transfer_ns DESC NULLS LAST",      "transfer_ns NULLS LAST"};

/* $1, $2: the window; $3: operation, $4: last profile, "" for any; $5: 1 for significant ones only; $6: id, -1: any. */
static const char chosen[] =
    "SELECT * FROM k.\"CollectiveSkew\" WHERE coalesce(end_ns, $1) >= $1 AND coalesce(first_arrival_ns, $2) <= $2 AND "
    "($3 = '' OR"
    " operation = $3) AND ($4 = '' OR last_profile = $4) AND ($5 = 0 OR significant) AND ($6 = -1 OR id = $6)";

static const char rows[] =
    "SELECT id, operation, op_id, replica_group, invocation, num_elements, dtype, members, arrived,"
    " first_arrival_ns - $7 AS first, last_arrival_ns - $7 AS last, end_ns - $7 AS \"end\", spread_ns, duration_ns,"
    " transfer_ns, error_bound_ns, significant, consistent, missing_workers, first_profile, first_rank, last_profile,"
    " last_rank FROM p";

/*
 * Behind p: one row per collective of the page, its id and its arrivals. Only as many collectives as can have some are
 * joined with theirs, and of these so many rows are kept, so that what a question costs has a bound. %s: the order.
 */
static const char arrivals[] =
    ", o AS (SELECT id, arrived, row_number() OVER (ORDER BY %s, first_arrival_ns, id) AS place FROM p),"
    "b AS (SELECT id, place, sum(coalesce(arrived, 0)) OVER (ORDER BY place) - coalesce(arrived, 0) AS before FROM o),"
    "c AS (SELECT b.place, a.* FROM (SELECT * FROM b WHERE before < %d) b JOIN k.\"CollectiveArrival\" a"
    " ON a.collective_id = b.id ORDER BY b.place, a.arrival_ns NULLS LAST, a.rank, a.profile LIMIT %d)"
    "SELECT collective_id AS id, list({profile: profile, rank: rank, worker: worker, host: host, \"at\": arrival_ns - "
    "$7,"
    " \"end\": end_ns - $7, late_ns: late_ns, wait_ns: wait_ns, error_bound_ns: error_bound_ns,"
    " cc_op_id: cc_op_id} ORDER BY arrival_ns NULLS LAST, rank, profile) AS arrivals FROM c GROUP BY collective_id";

struct skew {
    int64_t zero, total, with_arrivals;
    struct op_page page;
    int sort;
    struct sql_bind binds[7];
    json_t *rows;
    bool truncated;
};

static int read_question(const struct serve_request *q, struct skew *s, struct kymo_err *err)
{
    const struct serve_question *question = serve_question_of(q);
    const char *operation = serve_question_text(question, "operation"), *last = serve_question_text(question, "last");
    int64_t from = -OP_TIME_MAX, to = OP_TIME_MAX, significant = 0, id = -1;
    int r = serve_question_int(question, "from", -OP_TIME_MAX, OP_TIME_MAX, false, &from, err);
    if (r == 0)
        r = serve_question_int(question, "to", -OP_TIME_MAX, OP_TIME_MAX, false, &to, err);
    if (r == 0)
        r = serve_question_int(question, "significant", 0, 1, false, &significant, err);
    if (r == 0)
        r = serve_question_int(question, "id", 0, INT64_MAX, false, &id, err);
    if (r == 0)
        r = serve_question_int(question, "arrivals", 0, 1, false, &s->with_arrivals, err);
    if (r == 0)
        r = serve_question_choice(question, "sort", sort_names, &s->sort, err);
    if (r == 0)
        r = op_page_read(q, PAGE_SIZE, &s->page, err);
    if (r == 0 && from >= to)
        r = kymo_err_set(err, -EINVAL, "from is not before to");
    const struct sql_bind binds[] = {SQL_INT(from + s->zero),
                                     SQL_INT(to + s->zero),
                                     SQL_TEXT(operation ? operation : ""),
                                     SQL_TEXT(last ? last : ""),
                                     SQL_INT(significant),
                                     SQL_INT(id),
                                     SQL_INT(s->zero)};
    memcpy(s->binds, binds, sizeof binds);
    return r;
}

static char *paged(const struct skew *s, const char *what)
{
    return kymo_asprintf("WITH p AS (%s ORDER BY %s, first_arrival_ns, id LIMIT %" PRId64 " OFFSET %" PRId64 ") %s",
                         chosen, orders[s->sort], s->page.size, s->page.page * s->page.size, what);
}

static json_t *row_of(const struct skew *s, json_int_t id)
{
    for (size_t i = 0; i < json_array_size(s->rows); i++) {
        json_t *row = json_array_get(s->rows, i);
        if (json_integer_value(json_object_get(row, "id")) == id)
            return row;
    }
    return NULL;
}

/* Rows from which on all are cut have none. */
static void begin_arrivals(struct skew *s)
{
    json_int_t all = 0;
    for (size_t i = 0; i < json_array_size(s->rows); i++) {
        json_t *row = json_array_get(s->rows, i);
        all += json_integer_value(json_object_get(row, "arrived"));
        (void)json_object_set_new(row, "arrivals", json_array());
    }
    s->truncated = all > ARRIVALS_MAX;
}

static int add_arrivals(const struct serve_request *q, struct skew *s, struct kymo_err *err)
{
    json_t *list = NULL;
    char *what KYMO_FREE = kymo_asprintf(arrivals, orders[s->sort], ARRIVALS_MAX, ARRIVALS_MAX);
    char *text KYMO_FREE = what ? paged(s, what) : NULL;
    if (!text)
        return kymo_err_set(err, -ENOMEM, "no memory for a statement");
    begin_arrivals(s);
    int r = sql_objects(serve_sql_of(q), text, s->binds, 7, OP_PAGE_SIZE_MAX, &list, NULL, err);
    for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        json_t *row = row_of(s, json_integer_value(json_object_get(one, "id")));
        if (row)
            (void)json_object_set(row, "arrivals", json_object_get(one, "arrivals"));
    }
    json_decref(list);
    return r;
}

static int read_rows(const struct serve_request *q, struct skew *s, struct kymo_err *err)
{
    char *count KYMO_FREE = kymo_asprintf("SELECT count(*) FROM (%s)", chosen), *text KYMO_FREE = paged(s, rows);
    char *ordered KYMO_FREE =
        text ? kymo_asprintf("%s ORDER BY %s, first_arrival_ns, id", text, orders[s->sort]) : NULL;
    if (!count || !ordered)
        return kymo_err_set(err, -ENOMEM, "no memory for a statement");
    int r = sql_numbers(serve_sql_of(q), count, s->binds, 6, &s->total, 1, err);
    if (r == 0)
        r = sql_objects(serve_sql_of(q), ordered, s->binds, 7, (size_t)s->page.size, &s->rows, NULL, err);
    return r == 0 && s->with_arrivals ? add_arrivals(q, s, err) : r;
}

int op_skew(struct serve_request *q, struct kymo_err *err)
{
    struct skew s = {0};
    int r = ranks_check(q, err);
    if (r == 0)
        r = ranks_zero(q, &s.zero, err);
    if (r == 0)
        r = read_question(q, &s, err);
    if (r == 0)
        r = read_rows(q, &s, err);
    if (r == 0)
        r = serve_answer_json(q,
                              json_pack("{s:o, s:I, s:I, s:I, s:b, s:O}", "zero_unix_ns", ranks_zero_json(s.zero),
                                        "total", (json_int_t)s.total, "page", (json_int_t)s.page.page, "size",
                                        (json_int_t)s.page.size, "truncated", s.truncated, "rows", s.rows),
                              err);
    json_decref(s.rows);
    return r;
}
