/* The members of a profile of many ranks: clocks, who came last how often, and who is out of line. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/op_common.h"
#include "collector/query/ranks_sql.h"
#include "collector/query/serve_ops.h"

#define PAGE_SIZE 256
#define OPERATIONS_MAX 1000
#define WARNINGS_MAX 1000
#define OUTLIER_SCORE "3.0"   /* standard deviations of chance, ... */
#define OUTLIER_SHARE "0.001" /* ... and so much of the extent was spent waiting for it */
#define MEMORY (128u << 20)

int ranks_check(const struct serve_request *q, struct kymo_err *err)
{
    return op_has_table(q, "Member") ? 0 : kymo_err_set(err, -ENOENT, "this is no profile of many ranks");
}

int ranks_zero(const struct serve_request *q, int64_t *ret, struct kymo_err *err)
{
    return sql_numbers(serve_sql_of(q), "SELECT " RANKS_ZERO, NULL, 0, ret, 1, err);
}

json_t *ranks_zero_json(int64_t zero)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRId64, zero);
    return json_string(text);
}

/* "outlier", ...: how the ranks come. */
static const char *const sort_names[] = {"outlier", "rank", "wait", NULL};
static const char *const orders[] = {
    "outlier DESC, CASE WHEN outlier THEN -score END, m.rank NULLS LAST, m.worker, m.profile",
    "m.rank NULLS LAST, m.worker, m.profile",
    "s.wait_ns DESC NULLS LAST, m.rank, m.worker, m.profile",
};

static const char head[] =
    "SELECT coalesce(max(m.last_unix_ns), 0) - " RANKS_ZERO ", count(*), count(DISTINCT coalesce(m.boot_id, m.host,"
    " m.profile)) FILTER (m.state = 'ready'), (SELECT count(*) FROM k.\"CollectiveSkew\"),"
    " (SELECT count(*) FROM " RANKS_SKEW " WHERE counted), (SELECT count(significant) FROM k.\"CollectiveSkew\"),"
    " (SELECT max(spread_ns) FROM k.\"CollectiveSkew\"), (SELECT coalesce(max(end_ns), 0) - " RANKS_ZERO
    " FROM k.\"CollectiveSkew\") FROM k.\"Member\" m";

/*
 * $1: ns of the extent; $2: 1 where all share a clock. By chance each of n who come is the last once in n: the expected
 * number and its variance.
 */
static const char members[] =
    "WITH came AS (SELECT a.profile, count(*) FILTER (s.counted) AS counted, sum(a.wait_ns)::BIGINT AS wait_ns,"
    " sum(1.0 / s.arrived) FILTER (s.counted) AS expected,"
    " sum((1.0 / s.arrived) * (1 - 1.0 / s.arrived)) FILTER (s.counted) AS variance,"
    " count(*) FILTER (s.counted AND s.last_profile = a.profile) AS last_arrivals,"
    " coalesce(sum(s.spread_ns) FILTER (s.counted AND s.last_profile = a.profile), 0)::BIGINT AS caused_wait_ns,"
    " max(s.spread_ns) FILTER (s.counted AND s.last_profile = a.profile) AS worst_ns"
    " FROM k.\"CollectiveArrival\" a JOIN " RANKS_SKEW " s ON s.id = a.collective_id GROUP BY a.profile),"
    "scored AS (SELECT *, CASE WHEN variance > 0 THEN (last_arrivals - expected) / sqrt(variance) END::DOUBLE AS score"
    " FROM came)"
    "SELECT m.profile, m.state, m.reason, m.rank, m.vnc, m.worker, m.host, m.job, m.capture_id, m.instance_type,"
    " m.first_execution, m.warnings, m.lost_records, m.first_unix_ns - " RANKS_ZERO " AS \"from\","
    " m.last_unix_ns - " RANKS_ZERO " AS \"to\", c.offset_ns - " RANKS_ZERO " AS offset_ns, c.drift_ppm, c.method,"
    " c.device_error_ns, c.host_error_ns, c.error_bound_ns, c.contradict,"
    " CASE WHEN $2 = 1 THEN c.device_error_ns ELSE c.error_bound_ns END AS error_ns,"
    " NULL::DOUBLE AS mfu_percent, NULL::DOUBLE AS hfu_percent, NULL::DOUBLE AS total_time, m.collectives, s.wait_ns,"
    " m.late_ns, coalesce(s.last_arrivals, 0) AS last_arrivals, coalesce(s.counted, 0) AS counted,"
    " s.expected::DOUBLE AS expected, coalesce(s.caused_wait_ns, 0) AS caused_wait_ns, s.worst_ns, s.score,"
    " coalesce(s.score >= " OUTLIER_SCORE " AND s.caused_wait_ns >= " OUTLIER_SHARE " * $1, false) AS outlier,"
    " NULL::VARCHAR AS why FROM k.\"Member\" m LEFT JOIN k.\"ClockMap\" c USING (profile)"
    " LEFT JOIN scored s USING (profile)";

enum { HEAD_TO, HEAD_TOTAL, HEAD_CLOCKS, HEAD_COLLECTIVES, HEAD_COUNTED, HEAD_BOUNDED, HEAD_SPREAD, HEAD_END, HEAD_N };

struct answer {
    int64_t head[HEAD_N], zero, extent, outliers;
    struct op_page page;
    int sort;
    bool figures;
    json_t *ranks, *operations, *warnings;
};

/* MFU of each member, from its own Summary */

struct places {
    const char **dirs;
    json_t **rows; /* those of answer->ranks, borrowed */
    size_t n;
    struct query_db *db;
    json_t *row; /* that is being read */
};

static int keep_summary(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    static const char *const names[] = {"mfu_percent", "hfu_percent", "total_time"};
    struct places *p = ctx;
    (void)err;
    for (size_t i = 0; i < 3; i++)
        if (!c[i].null && isfinite(c[i].f))
            (void)json_object_set_new(p->row, names[i], json_real(c[i].f));
    return 0;
}

/* A member that cannot be read costs its own figures. */
static int read_summaries(struct serve_request *q, void *ctx, struct kymo_err *err)
{
    static const char text[] =
        "SELECT mfu_estimated_percent::DOUBLE, hfu_estimated_percent::DOUBLE, total_time::DOUBLE FROM (SELECT "
        "NULL::DOUBLE"
        " AS mfu_estimated_percent, NULL::DOUBLE AS hfu_estimated_percent, NULL::DOUBLE AS total_time WHERE false"
        " UNION ALL BY NAME SELECT * FROM read_parquet('/proc/self/fd/%d/Summary.parquet')) LIMIT 1";
    struct places *p = ctx;
    char statement[sizeof text + 16];
    int r = 0;
    for (size_t i = 0; i < p->n && r != -ECANCELED; i++) {
        struct kymo_err ignored = {0};
        if (query_db_place(p->db, i) < 0)
            continue;
        (void)snprintf(statement, sizeof statement, text, query_db_place(p->db, i));
        p->row = p->rows[i];
        r = sql_run(serve_sql_of(q), statement, NULL, 0, keep_summary, p, &ignored);
    }
    return r == -ECANCELED ? kymo_err_set(err, r, "nobody wants the answer any more") : 0;
}

static int read_figures(struct serve_request *q, const struct answer *a, const json_t *dirs, struct kymo_err *err)
{
    size_t n = json_array_size(a->ranks);
    const char **paths KYMO_FREE = KYMO_NEW_ARRAY(const char *, n + 1);
    json_t **rows KYMO_FREE = KYMO_NEW_ARRAY(json_t *, n + 1);
    struct places p = {.dirs = paths, .rows = rows};
    if (!paths || !rows)
        return kymo_err_set(err, -ENOMEM, "no memory for the members' figures");
    for (size_t i = 0; i < n && p.n < QUERY_PLACES_MAX; i++) {
        json_t *row = json_array_get(a->ranks, i);
        const char *name = json_string_value(json_object_get(row, "profile")),
                   *dir = name ? json_string_value(json_object_get(dirs, name)) : NULL;
        if (dir && *dir == '/') {
            paths[p.n] = dir;
            rows[p.n++] = row;
        }
    }
    const struct query_limits limits = {.memory_bytes = MEMORY, .threads = 1};
    int r = p.n ? query_db_open_places(paths, p.n, &limits, &p.db, err) : 0;
    if (r == 0 && p.db)
        r = serve_visit_db(q, p.db, read_summaries, &p, err);
    query_db_free(p.db);
    return r;
}

/* Why a rank stands where it stands */

static int64_t number_of(const json_t *row, const char *name)
{
    return json_integer_value(json_object_get(row, name));
}

static const char *text_of(const json_t *row, const char *name)
{
    const char *text = json_string_value(json_object_get(row, name));
    return text ? text : "";
}

static void time_text(int64_t ns, char *ret, size_t n)
{
    static const struct {
        double by;
        const char *name;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "\u00b5s"}, {1, "ns"}};
    size_t i = 0;
    while (i < 3 && (double)ns < units[i].by)
        i++;
    (void)snprintf(ret, n, "%.3g %s", (double)ns / units[i].by, units[i].name);
}

static void tell_why(const struct answer *a, json_t *row)
{
    char text[512], waited[32], worst[32];
    const char *state = text_of(row, "state"), *reason = text_of(row, "reason");
    *text = '\0';
    time_text(number_of(row, "caused_wait_ns"), waited, sizeof waited);
    time_text(number_of(row, "worst_ns"), worst, sizeof worst);
    if (strcmp(state, "ready") != 0)
        (void)snprintf(text, sizeof text, "Its tables are not here: it is %s%s%.300s.", state, *reason ? ", " : "",
                       reason);
    else if (json_is_true(json_object_get(row, "outlier")))
        (void)snprintf(
            text, sizeof text,
            "Came last to %" PRId64 " of %" PRId64 " collectives%s, where chance would give %.0f. The first"
            " to come waited %s for it in all, %.2g %% of the time, %s at the most.",
            number_of(row, "last_arrivals"), number_of(row, "counted"),
            a->head[HEAD_BOUNDED] > 0 ? " by more than the clocks may be off" : ", how far clocks are off is not known",
            json_number_value(json_object_get(row, "expected")), waited,
            a->extent > 0 ? 100.0 * (double)number_of(row, "caused_wait_ns") / (double)a->extent : 0.0, worst);
    else if (json_is_true(json_object_get(row, "contradict")))
        (void)snprintf(text, sizeof text, "Its clocks contradict each other: its times have no bound.");
    else if (json_is_null(json_object_get(row, "from")))
        (void)snprintf(text, sizeof text,
                       "No moment was read from its device and its host together: it has no place on the axis.");
    if (*text)
        (void)json_object_set_new(row, "why", json_string(text));
}

/* The answer */

static int read_members(struct serve_request *q, struct answer *a, const json_t *dirs, struct kymo_err *err)
{
    const struct sql_bind binds[] = {SQL_INT(a->extent), SQL_INT(a->head[HEAD_CLOCKS] == 1)};
    char *text KYMO_FREE = kymo_asprintf("%s ORDER BY %s LIMIT %" PRId64 " OFFSET %" PRId64, members, orders[a->sort],
                                         a->page.size, a->page.page * a->page.size);
    char *outliers KYMO_FREE = kymo_asprintf("SELECT count(*) FROM (%s) WHERE outlier", members);
    if (!text || !outliers)
        return kymo_err_set(err, -ENOMEM, "no memory for a statement");
    int r = sql_numbers(serve_sql_of(q), outliers, binds, 2, &a->outliers, 1, err);
    if (r == 0)
        r = sql_objects(serve_sql_of(q), text, binds, 2, (size_t)a->page.size, &a->ranks, NULL, err);
    if (r == 0)
        r = read_figures(q, a, dirs, err);
    for (size_t i = 0; r == 0 && i < json_array_size(a->ranks); i++)
        tell_why(a, json_array_get(a->ranks, i));
    return r;
}

static int read_rest(const struct serve_request *q, struct answer *a, struct kymo_err *err)
{
    json_t *rows = NULL;
    int r = sql_objects(serve_sql_of(q), "SELECT DISTINCT operation FROM k.\"CollectiveSkew\" ORDER BY 1", NULL, 0,
                        OPERATIONS_MAX, &rows, NULL, err);
    for (size_t i = 0; r == 0 && i < json_array_size(rows); i++)
        (void)json_array_append(a->operations, json_object_get(json_array_get(rows, i), "operation"));
    json_decref(rows);
    return r < 0
               ? r
               : sql_objects(serve_sql_of(q), "SELECT category, message FROM k.\"Warning\" ORDER BY category, message",
                             NULL, 0, WARNINGS_MAX, &a->warnings, NULL, err);
}

static json_t *answer_of(struct answer *a)
{
    const int64_t *h = a->head;
    int64_t left = h[HEAD_TOTAL] - a->page.page * a->page.size - (int64_t)json_array_size(a->ranks);
    json_t *o = json_pack("{s:o, s:{s:i, s:I}, s:b, s:I, s:I, s:I, s:I, s:b}", "zero_unix_ns", ranks_zero_json(a->zero),
                          "extent", "from", 0, "to", (json_int_t)a->extent, "one_clock", h[HEAD_CLOCKS] == 1, "total",
                          (json_int_t)h[HEAD_TOTAL], "page", (json_int_t)a->page.page, "size", (json_int_t)a->page.size,
                          "left_out", (json_int_t)(left > 0 ? left : 0), "figures", a->figures);
    (void)json_object_set_new(o, "collectives", json_integer(h[HEAD_COLLECTIVES]));
    (void)json_object_set_new(o, "counted", json_integer(h[HEAD_COUNTED]));
    (void)json_object_set_new(o, "certain", json_boolean(h[HEAD_BOUNDED] > 0));
    (void)json_object_set_new(o, "spread_ns", h[HEAD_SPREAD] == INT64_MIN ? json_null() : json_integer(h[HEAD_SPREAD]));
    (void)json_object_set_new(o, "outliers", json_integer(a->outliers));
    (void)json_object_set(o, "operations", a->operations);
    (void)json_object_set(o, "warnings", a->warnings);
    (void)json_object_set(o, "ranks", a->ranks);
    return o;
}

static int run(struct serve_request *q, struct answer *a, struct kymo_err *err)
{
    json_error_t why;
    const char *text = serve_question_text(serve_question_of(q), "members");
    json_t *dirs = text ? json_loads(text, 0, &why) : NULL;
    int r = ranks_zero(q, &a->zero, err);
    a->figures = dirs != NULL;
    if (r == 0)
        r = sql_numbers(serve_sql_of(q), head, NULL, 0, a->head, HEAD_N, err);
    a->extent = a->head[HEAD_TO] > a->head[HEAD_END] ? a->head[HEAD_TO] : a->head[HEAD_END];
    if (a->extent < 0)
        a->extent = 0;
    if (r == 0)
        r = read_members(q, a, dirs, err);
    json_decref(dirs);
    if (r == 0)
        r = read_rest(q, a, err);
    return r < 0 ? r : serve_answer_json(q, answer_of(a), err);
}

int op_ranks(struct serve_request *q, struct kymo_err *err)
{
    struct answer a = {.operations = json_array()};
    int r = ranks_check(q, err);
    if (r == 0)
        r = op_page_read(q, PAGE_SIZE, &a.page, err);
    if (r == 0 && a.page.size > PAGE_SIZE)
        r = kymo_err_set(err, -EINVAL, "size is a number from 1 to %d", PAGE_SIZE);
    if (r == 0)
        r = serve_question_choice(serve_question_of(q), "sort", sort_names, &a.sort, err);
    if (r == 0)
        r = run(q, &a, err);
    json_decref(a.ranks);
    json_decref(a.operations);
    json_decref(a.warnings);
    return r;
}
