/* The fleet's tables: which jobs, hosts and ranks lost MFU, and which profiles say so. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "collector/query/fleet_cache.h"
#include "collector/query/fleet_files.h"
#include "collector/query/op_common.h"
#include "collector/query/serve_ops.h"

#define PAGE_SIZE 50
#define DAYS_DEFAULT 14
#define DAYS_MAX 92
#define WAIT_MAX 60000
#define WEEK 7
#define DAY_NS (86400 * INT64_C(1000000000))

/* $1, $2: days; $3 to $7: what the rows are of, "" for any; $8: a text in any of these. */
#define CHOSEN                                                                                                         \
    "WITH p AS (SELECT * FROM fleet WHERE day BETWEEN $1 AND $2 AND ($3 = '' OR job = $3) AND ($4 = '' OR host = $4)"  \
    " AND ($5 = '' OR rank::VARCHAR = $5) AND ($6 = '' OR cluster = $6) AND ($7 = '' OR instance_type = $7)"           \
    " AND ($8 = '' OR contains(lower(concat_ws(' ', profile, job, host, cluster, instance_type)), lower($8))))"

#define WEIGHTED(v) "sum(" v " * time_s) FILTER (" v " IS NOT NULL) / nullif(sum(time_s) FILTER (" v " IS NOT NULL), 0)"
#define FIGURES                                                                                                        \
    "{profiles: count(*), mfu_percent: " WEIGHTED("mfu") ", hfu_percent: " WEIGHTED(                                   \
        "hfu") ", time_s: sum(time_s), step_ns: avg(step_ns), throttled_percent: avg(throttled), lost_records: "       \
               "sum(lost)::BIGINT,"                                                                                    \
               " lost_unknown: bool_or(unknown)}"

/* What a group is of, and its name. */
static const char *const group_names[] = {"job", "host", "rank", "cluster", "instance_type", NULL};
static const struct {
    const char *key, *name;
} groups[] = {
    {"{job: job}", "coalesce(job, '')"},
    {"{host: host}", "coalesce(host, '')"},
    {"{job: job, rank: rank}", "concat_ws(' ', job, 'rank ' || rank)"},
    {"{cluster: cluster}", "coalesce(cluster, '')"},
    {"{instance_type: instance_type}", "coalesce(instance_type, '')"},
};

static const char *const sort_names[] = {"loss", "mfu", "name", "step", "lost", NULL};
static const char *const orders[] = {
    "delta.mfu_percent NULLS LAST",  "this_week.mfu_percent NULLS LAST",       "name",
    "delta.step_ns DESC NULLS LAST", "this_week.lost_records DESC NULLS LAST",
};

/* $9: first day to show; $10 to $12: first day of this week and of the week before, and the last of that. */
static const char grouped[] =
    ", g AS (SELECT *, %s AS key, %s AS name FROM p),"
    "d AS (SELECT key, day, " FIGURES " AS f FROM g GROUP BY key, day),"
    "a AS (SELECT key, " FIGURES " AS f FROM g WHERE day >= $10 GROUP BY key),"
    "b AS (SELECT key, " FIGURES " AS f FROM g WHERE day BETWEEN $11 AND $12 GROUP BY key),"
    "k AS (SELECT key, any_value(name) AS name, count(*) FILTER (day >= $9) AS profiles FROM g GROUP BY "
    "key),"
    "days AS (SELECT strftime(unnest(generate_series($9::DATE, $2::DATE, INTERVAL 1 DAY)), '%%Y-%%m-%%d') AS day),"
    "e AS (SELECT k.key, list(d.f ORDER BY days.day) AS days FROM k CROSS JOIN days LEFT JOIN d ON d.key IS NOT "
    "DISTINCT"
    " FROM k.key AND d.day = days.day GROUP BY k.key),"
    "r AS (SELECT k.key, k.name, k.profiles, a.f AS this_week, b.f AS week_before, {mfu_percent: a.f.mfu_percent -"
    " b.f.mfu_percent, hfu_percent: a.f.hfu_percent - b.f.hfu_percent, step_ns: a.f.step_ns - b.f.step_ns,"
    " throttled_percent: a.f.throttled_percent - b.f.throttled_percent, lost_records: a.f.lost_records -"
    " b.f.lost_records} AS delta, e.days FROM k LEFT JOIN a ON a.key IS NOT DISTINCT FROM k.key LEFT JOIN b ON b.key IS"
    " NOT DISTINCT FROM k.key JOIN e ON e.key IS NOT DISTINCT FROM k.key)";

static const char *const profile_sort_names[] = {"time", "mfu", "step", "lost", NULL};
static const char *const profile_orders[] = {"p.time_unix_ns DESC NULLS LAST", "mfu NULLS LAST",
                                             "p.step_ns DESC NULLS LAST", "lost DESC"};
static const char profile_rows[] =
    "SELECT profile, job, host, rank, cluster, instance_type, day, time_unix_ns::VARCHAR AS time_unix_ns, capture_id,"
    " mfu AS mfu_percent, hfu AS hfu_percent, time_s, step_ns, throttled AS throttled_percent, lost AS lost_records,"
    " unknown AS lost_unknown, parent FROM p";

#define FILTER_BINDS 8
#define BINDS 12
struct fleet {
    struct op_page page;
    int64_t from, to, read_from; /* days */
    int64_t wait_ms;
    int group, sort;
    char days[6][FLEET_DAY_MAX];
    struct sql_bind binds[BINDS];
    struct fleet_cache_told told;
    int64_t total, profiles;
    json_t *rows;
};

static int read_day(const struct serve_request *q, const char *name, int64_t *ret, struct kymo_err *err)
{
    const char *text = serve_question_text(serve_question_of(q), name);
    return text ? fleet_day_parse(text, ret, err) : 0;
}

static const char *any(const struct serve_request *q, const char *name)
{
    const char *text = serve_question_text(serve_question_of(q), name);
    return text ? text : "";
}

static struct sql_bind day_of(struct fleet *f, size_t i, int64_t day)
{
    fleet_day_text(day, f->days[i]);
    return SQL_TEXT(f->days[i]);
}

/* weeks: the rows of both weeks are needed, whatever from is. */
static int read_question(const struct serve_request *q, struct fleet *f, bool weeks, struct kymo_err *err)
{
    f->to = (int64_t)kymo_clock_real_ns() / DAY_NS;
    int r = read_day(q, "to", &f->to, err);
    f->from = f->to - (DAYS_DEFAULT - 1);
    if (r == 0)
        r = read_day(q, "from", &f->from, err);
    if (r == 0 && (f->from > f->to || f->to - f->from >= DAYS_MAX))
        r = kymo_err_set(err, -EINVAL, "from to to are 1 to %d days", DAYS_MAX);
    if (r == 0)
        r = op_page_read(q, PAGE_SIZE, &f->page, err);
    f->wait_ms = FLEET_WAIT_ALL;
    if (r == 0)
        r = serve_question_int(serve_question_of(q), "wait", 0, WAIT_MAX, false, &f->wait_ms, err);
    int64_t before = f->to - (2 * WEEK - 1);
    f->read_from = weeks && before < f->from ? before : f->from;
    const struct sql_bind binds[BINDS] = {
        day_of(f, 0, f->read_from),        day_of(f, 1, f->to),      SQL_TEXT(any(q, "job")),
        SQL_TEXT(any(q, "host")),          SQL_TEXT(any(q, "rank")), SQL_TEXT(any(q, "cluster")),
        SQL_TEXT(any(q, "instance_type")), SQL_TEXT(any(q, "text")), day_of(f, 2, f->from),
        day_of(f, 3, f->to - (WEEK - 1)),  day_of(f, 4, before),     day_of(f, 5, f->to - WEEK)};
    memcpy(f->binds, binds, sizeof binds);
    return r;
}

static json_t *day_json(const struct fleet *f, int64_t day)
{
    char text[FLEET_DAY_MAX];
    fleet_day_text(day, text);
    return f->told.any ? json_string(text) : json_null();
}

/* null: all of it is there. */
static json_t *loading_json(const struct fleet_cache_told *told)
{
    return told->left ? json_pack("{s:I, s:I}", "read", (json_int_t)(told->of - told->left), "of", (json_int_t)told->of)
                      : json_null();
}

static json_t *answer_of(struct fleet *f)
{
    char from[FLEET_DAY_MAX], to[FLEET_DAY_MAX];
    fleet_day_text(f->from, from);
    fleet_day_text(f->to, to);
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:o, s:I, s:O}", "from", from, "to", to, "total", (json_int_t)f->total,
                     "page", (json_int_t)f->page.page, "size", (json_int_t)f->page.size, "loading",
                     loading_json(&f->told), "unreadable", (json_int_t)f->told.unreadable, "rows", f->rows);
}

/* more: what comes behind p. counts: SELECT of two numbers, all of it and its profiles. */
static int read_rows(struct serve_request *q, struct fleet *f, const char *more, const char *counts, const char *select,
                     const char *order, struct kymo_err *err)
{
    int64_t numbers[2];
    const size_t n = *more ? BINDS : FILTER_BINDS;
    char *count KYMO_FREE = kymo_asprintf(CHOSEN "%s %s", more, counts);
    char *rows KYMO_FREE = kymo_asprintf(CHOSEN "%s %s ORDER BY %s LIMIT %" PRId64 " OFFSET %" PRId64, more, select,
                                         order, f->page.size, f->page.page * f->page.size);
    if (!count || !rows)
        return kymo_err_set(err, -ENOMEM, "no memory for a statement");
    int r = sql_numbers(serve_sql_of(q), count, f->binds, n, numbers, 2, err);
    f->total = numbers[0];
    f->profiles = numbers[1];
    return r < 0 ? r : sql_objects(serve_sql_of(q), rows, f->binds, n, (size_t)f->page.size, &f->rows, NULL, err);
}

static int read_groups(struct serve_request *q, void *ctx, struct kymo_err *err)
{
    struct fleet *f = ctx;
    char *more KYMO_FREE = kymo_asprintf(grouped, groups[f->group].key, groups[f->group].name);
    char *order KYMO_FREE = kymo_asprintf("%s, name, key", orders[f->sort]);
    if (!more || !order)
        return kymo_err_set(err, -ENOMEM, "no memory for a statement");
    return read_rows(q, f, more, "SELECT count(*), coalesce(sum(profiles), 0)::BIGINT FROM r",
                     "SELECT key, name, profiles, this_week, week_before, delta, days FROM r", order, err);
}

static int read_profiles(struct serve_request *q, void *ctx, struct kymo_err *err)
{
    struct fleet *f = ctx;
    char *order KYMO_FREE = kymo_asprintf("%s, p.time_unix_ns DESC, profile", profile_orders[f->sort]);
    return order ? read_rows(q, f, "", "SELECT count(*), count(*) FROM p", profile_rows, order, err)
                 : kymo_err_set(err, -ENOMEM, "no memory for a statement");
}

static int run(struct serve_request *q, struct fleet *f, bool weeks,
               int (*read)(struct serve_request *q, void *ctx, struct kymo_err *err), struct kymo_err *err)
{
    int r = read_question(q, f, weeks, err);
    return r < 0
               ? r
               : fleet_cache_ask(q, serve_question_of(q)->dir, f->read_from, f->to, f->wait_ms, &f->told, read, f, err);
}

int op_fleet(struct serve_request *q, struct kymo_err *err)
{
    struct fleet f = {0};
    char text[FLEET_DAY_MAX];
    int r = serve_question_choice(serve_question_of(q), "group", group_names, &f.group, err);
    if (r == 0)
        r = serve_question_choice(serve_question_of(q), "sort", sort_names, &f.sort, err);
    if (r == 0)
        r = run(q, &f, true, read_groups, err);
    if (r == 0) {
        json_t *o = answer_of(&f), *days = json_array();
        for (int64_t day = f.from; day <= f.to; day++) {
            fleet_day_text(day, text);
            (void)json_array_append_new(days, json_string(text));
        }
        (void)json_object_set_new(o, "group", json_string(group_names[f.group]));
        (void)json_object_set_new(o, "days", days);
        (void)json_object_set_new(o, "first_day", day_json(&f, f.told.first));
        (void)json_object_set_new(o, "last_day", day_json(&f, f.told.last));
        (void)json_object_set_new(o, "profiles", json_integer(f.profiles));
        (void)json_object_set_new(o, "files", json_integer((json_int_t)f.told.files));
        r = serve_answer_json(q, o, err);
    }
    json_decref(f.rows);
    return r;
}

int op_fleet_profiles(struct serve_request *q, struct kymo_err *err)
{
    struct fleet f = {0};
    int r = serve_question_choice(serve_question_of(q), "sort", profile_sort_names, &f.sort, err);
    if (r == 0)
        r = run(q, &f, false, read_profiles, err);
    if (r == 0)
        r = serve_answer_json(q, answer_of(&f), err);
    json_decref(f.rows);
    return r;
}
