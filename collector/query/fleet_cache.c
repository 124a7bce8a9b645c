#include "collector/query/fleet_cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "collector/query/fleet_files.h"

#define DAYS_MAX 1024 /* kept; beyond it all are read again */
#define SQL_BYTES_MAX (4u << 20)
#define MEMORY (512u << 20)
#define THREADS 2
#define LOCK_MS 50

/* What is asked of each table: the schema's columns, whatever files hold. */
#define FRONT                                                                                                          \
    "NULL::VARCHAR AS profile, NULL::VARCHAR AS job, NULL::VARCHAR AS host, NULL::BIGINT AS rank, NULL::VARCHAR AS"    \
    " capture_id, NULL::BIGINT AS time_unix_ns, NULL::VARCHAR AS date, NULL::VARCHAR AS cluster"
static const struct {
    const char *name, *columns;
} tables[] = {
    {"Summary", FRONT ", NULL::DOUBLE AS mfu_estimated_percent, NULL::DOUBLE AS hfu_estimated_percent,"
                      " NULL::DOUBLE AS total_time"},
    {"ExecutionInfo", FRONT ", NULL::BIGINT AS execution_start_ts, NULL::BIGINT AS execution_end_ts"},
    {"ThrottleSummary", FRONT ", NULL::VARCHAR AS throttle_type, NULL::DOUBLE AS throttle_active_time_percent"},
    {"LossLedger", FRONT ", NULL::BIGINT AS lost_records, NULL::BOOLEAN AS lost_unknown"},
    {"Metadata", FRONT ", NULL::VARCHAR AS profile_kind, NULL::VARCHAR AS request, NULL::VARCHAR AS instance_type"},
};
#define N_TABLES (sizeof tables / sizeof *tables)

static const char create[] =
    "CREATE TABLE rows(profile VARCHAR, job VARCHAR, host VARCHAR, rank BIGINT, capture_id VARCHAR, time_unix_ns "
    "BIGINT,"
    " day VARCHAR, cluster VARCHAR, instance_type VARCHAR, mfu DOUBLE, hfu DOUBLE, time_s DOUBLE, step_ns DOUBLE,"
    " throttled DOUBLE, lost BIGINT, unknown BOOLEAN, parent VARCHAR)";

/* Behind the tables of a day. A profile of many ranks is of the same request as its members. */
static const char fill[] =
    ", m AS (SELECT profile, any_value(instance_type) AS instance_type, any_value(request) AS request FROM \"Metadata\""
    " GROUP BY profile),"
    "o AS (SELECT request, max(profile) AS parent FROM \"Metadata\" WHERE profile_kind = 'ranks' AND request IS NOT "
    "NULL"
    " GROUP BY request),"
    "x AS (SELECT profile, avg(execution_end_ts - execution_start_ts) AS step_ns FROM \"ExecutionInfo\" GROUP BY "
    "profile),"
    "t AS (SELECT profile, avg(throttle_active_time_percent) AS throttled FROM \"ThrottleSummary\" WHERE throttle_type "
    "="
    " 'all' GROUP BY profile),"
    "l AS (SELECT profile, sum(lost_records)::BIGINT AS lost, coalesce(bool_or(lost_unknown), false) AS unknown FROM"
    " \"LossLedger\" GROUP BY profile)"
    "SELECT s.profile, s.job, s.host, s.rank, s.capture_id, s.time_unix_ns, s.date, s.cluster, m.instance_type,"
    " s.mfu_estimated_percent, s.hfu_estimated_percent, s.total_time, x.step_ns, t.throttled, coalesce(l.lost, 0),"
    " coalesce(l.unknown, false), o.parent FROM \"Summary\" s LEFT JOIN m USING (profile) LEFT JOIN x USING (profile)"
    " LEFT JOIN t USING (profile) LEFT JOIN l USING (profile) LEFT JOIN o ON o.request = m.request";

struct day {
    int64_t day;
    uint64_t mark; /* of its directories when it was read; 0: they were being written to */
};

static struct {
    pthread_mutex_t lock;
    char *path;
    dev_t device;
    ino_t inode;
    struct query_db *db; /* NULL: nothing is kept */
    struct day days[DAYS_MAX];
    size_t n;
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct question {
    int64_t from, to;
    struct fleet_cache_told *told;
    int (*ask)(struct serve_request *q, void *ctx, struct kymo_err *err);
    void *ctx;
};

/* With the lock held. */
static void forget(void)
{
    cache.db = query_db_free(cache.db);
    kymo_free(cache.path);
    cache.path = NULL;
    cache.n = 0;
}

static int make_table(struct serve_request *q, void *ctx, struct kymo_err *err)
{
    (void)ctx;
    return sql_run(serve_sql_of(q), create, NULL, 0, NULL, NULL, err);
}

/* The directory may have been exchanged since: then what is kept is of another. */
static int open_cache(struct serve_request *q, const char *dir, struct kymo_err *err)
{
    const struct query_limits limits = {.memory_bytes = MEMORY, .threads = THREADS};
    struct stat st;
    if (stat(dir, &st) < 0)
        return kymo_err_set(err, -ENOENT, "there are no tables of a fleet here yet");
    if (cache.db && cache.path && !strcmp(cache.path, dir) && st.st_dev == cache.device && st.st_ino == cache.inode)
        return 0;
    forget();
    cache.device = st.st_dev;
    cache.inode = st.st_ino;
    cache.path = kymo_strdup(dir);
    if (!cache.path)
        return kymo_err_set(err, -ENOMEM, "no memory for a path");
    int r = query_db_open_places(&dir, 1, &limits, &cache.db, err);
    if (r == 0 && query_db_place(cache.db, 0) < 0)
        r = kymo_err_set(err, -ENOENT, "there are no tables of a fleet here yet");
    if (r == 0)
        r = serve_visit_db(q, cache.db, make_table, NULL, err);
    if (r < 0)
        forget();
    return r;
}

/* Appends the tables of one day as a WITH. */
static int add_tables(int64_t day, struct kymo_buf *sql, size_t *files, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; i < N_TABLES && r == 0; i++) {
        r = kymo_buf_printf(sql, "%s \"%s\" AS (SELECT %s WHERE false", i ? "," : "WITH", tables[i].name,
                            tables[i].columns);
        size_t before = sql->len;
        if (r == 0)
            r = kymo_buf_printf(sql, " UNION ALL BY NAME ");
        size_t none = sql->len;
        if (r == 0)
            r = fleet_files_source(query_db_place(cache.db, 0), tables[i].name, day, day, sql, files, err);
        if (r == 0 && sql->len == none)
            sql->len = before;
        if (r == 0)
            r = kymo_buf_printf(sql, ")");
    }
    return r;
}

static int replace_rows(struct serve_request *q, int64_t day, const char *select, struct kymo_err *err)
{
    char text[FLEET_DAY_MAX];
    fleet_day_text(day, text);
    char *insert KYMO_FREE = kymo_asprintf("INSERT INTO rows %s", select);
    if (!insert)
        return kymo_err_set(err, -ENOMEM, "no memory for a statement");
    int r = sql_run(serve_sql_of(q), "BEGIN", NULL, 0, NULL, NULL, err);
    if (r < 0)
        return r;
    r = sql_run(serve_sql_of(q), "DELETE FROM rows WHERE day = $1", (struct sql_bind[]){SQL_TEXT(text)}, 1, NULL, NULL,
                err);
    if (r == 0)
        r = sql_run(serve_sql_of(q), insert, NULL, 0, NULL, NULL, err);
    if (r == 0)
        return sql_run(serve_sql_of(q), "COMMIT", NULL, 0, NULL, NULL, err);
    /* Without it the next question's statements would be part of this transaction; it ends with the connection too. */
    struct kymo_err ignored = {0};
    int undone = sql_run(serve_sql_of(q), "ROLLBACK", NULL, 0, NULL, NULL, &ignored);
    (void)undone;
    return r;
}

static int read_day(struct serve_request *q, int64_t day, size_t *files, struct kymo_err *err)
{
    struct kymo_buf sql;
    size_t n = 0;
    kymo_buf_init(&sql, SQL_BYTES_MAX);
    int r = add_tables(day, &sql, &n, err);
    if (r == 0)
        r = kymo_buf_printf(&sql, "%s", fill);
    if (r < 0 && err->code == 0)
        (void)kymo_err_set(err, r, "no memory for a statement");
    if (r == 0)
        r = replace_rows(q, day, (const char *)sql.data, err);
    kymo_buf_done(&sql);
    *files += n;
    return r;
}

/* The place of a day among those that are kept; a new one has a mark that no directory has. */
static struct day *day_of(int64_t day)
{
    for (size_t i = 0; i < cache.n; i++)
        if (cache.days[i].day == day)
            return &cache.days[i];
    struct day *d = &cache.days[cache.n++];
    *d = (struct day){day, 0};
    return d;
}

static int refresh(struct serve_request *q, void *ctx, struct kymo_err *err)
{
    const struct question *c = ctx;
    int fd = query_db_place(cache.db, 0), r = 0;
    for (int64_t day = c->from; day <= c->to && r == 0; day++) {
        uint64_t mark = FLEET_MARK_NONE;
        bool calm = true;
        for (size_t t = 0; t < N_TABLES; t++)
            mark = fleet_files_mark(fd, tables[t].name, day, mark, &calm);
        struct day *d = day_of(day);
        if (d->mark == mark)
            continue;
        d->mark = 0;
        r = read_day(q, day, &c->told->files, err);
        if (r == 0 && calm)
            d->mark = mark;
    }
    return r;
}

static int visit(struct serve_request *q, void *ctx, struct kymo_err *err)
{
    const struct question *c = ctx;
    int r = refresh(q, ctx, err);
    return r < 0 ? r : c->ask(q, c->ctx, err);
}

/* Whoever has gone waits no longer. */
static int take_lock(const struct serve_request *q, struct kymo_err *err)
{
    for (;;) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOCK_MS * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_mutex_timedlock(&cache.lock, &until) == 0)
            return 0;
        if (*serve_sql_of(q)->stop)
            return kymo_err_set(err, -ECANCELED, "nobody wants the answer any more");
    }
}

int fleet_cache_ask(struct serve_request *q, const char *dir, int64_t from, int64_t to, struct fleet_cache_told *ret,
                    int (*ask)(struct serve_request *q, void *ctx, struct kymo_err *err), void *ctx,
                    struct kymo_err *err)
{
    struct question c = {from, to, ret, ask, ctx};
    int r = take_lock(q, err);
    if (r < 0)
        return r;
    if (cache.n + (size_t)(to - from + 1) > DAYS_MAX)
        forget();
    r = open_cache(q, dir, err);
    if (r == 0)
        r = serve_visit_db(q, cache.db, visit, &c, err);
    /* Without room for more, what is held may be in the way; a question that took too long goes on from it. */
    if (r < 0 && r != -ECANCELED && r != -ETIMEDOUT)
        forget();
    if (r == 0)
        ret->any = fleet_files_days(query_db_place(cache.db, 0), tables[0].name, &ret->first, &ret->last);
    (void)pthread_mutex_unlock(&cache.lock);
    return r;
}
