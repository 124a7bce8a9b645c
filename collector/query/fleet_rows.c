#include "collector/query/fleet_rows.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/buf.h"

#define SQL_BYTES_MAX (4u << 20)

/* What is asked of each table: the schema's columns, whatever files hold. */
#define FRONT                                                                                                          \
    "NULL::VARCHAR AS profile, NULL::VARCHAR AS job, NULL::VARCHAR AS host, NULL::BIGINT AS rank, NULL::VARCHAR AS"    \
    " capture_id, NULL::BIGINT AS time_unix_ns"
#define MEMBERSHIP                                                                                                     \
    ", NULL::VARCHAR AS profile_kind, NULL::VARCHAR AS request, NULL::VARCHAR AS instance_type, NULL::VARCHAR AS "     \
    "filename"
static const char *const columns[FLEET_TABLES] = {
    [FLEET_PROFILE] = "NULL::VARCHAR AS row, NULL::VARCHAR AS filename",
    [FLEET_SUMMARY] = FRONT ", NULL::DOUBLE AS mfu_estimated_percent, NULL::DOUBLE AS hfu_estimated_percent,"
                            " NULL::DOUBLE AS total_time, NULL::VARCHAR AS filename",
    [FLEET_METADATA] = FRONT MEMBERSHIP,
    [FLEET_EXECUTIONS] = "NULL::BIGINT AS execution_start_ts, NULL::BIGINT AS execution_end_ts, NULL::VARCHAR AS "
                         "filename",
    [FLEET_THROTTLES] = "NULL::VARCHAR AS throttle_type, NULL::DOUBLE AS throttle_active_time_percent, NULL::VARCHAR AS"
                        " filename",
    [FLEET_LOSSES] = "NULL::BIGINT AS lost_records, NULL::BOOLEAN AS lost_unknown, NULL::VARCHAR AS filename",
};

static const char create[] =
    "CREATE TABLE rows(part VARCHAR, profile VARCHAR, job VARCHAR, host VARCHAR, rank BIGINT, capture_id VARCHAR,"
    " time_unix_ns BIGINT, day VARCHAR, cluster VARCHAR, instance_type VARCHAR, mfu DOUBLE, hfu DOUBLE, time_s DOUBLE,"
    " step_ns DOUBLE, throttled DOUBLE, lost BIGINT, unknown BOOLEAN, kind VARCHAR, request VARCHAR)";
/* A profile of many ranks is of the same request as its members. */
static const char create_view[] =
    "CREATE VIEW fleet AS SELECT r.* EXCLUDE (kind, request), o.parent FROM rows r LEFT JOIN (SELECT request,"
    " max(profile) AS parent FROM rows WHERE kind = 'ranks' AND request IS NOT NULL GROUP BY request) o"
    " ON o.request = r.request WHERE r.kind IS DISTINCT FROM 'ranks'";

/* As the part's place has it. */
#define DAY "split_part(part[6:], '/', 1)"
#define CLUSTER "split_part(split_part(part, '/', 2), '=', 2)"
static const char of_whole[] =
    "SELECT part, v.profile, v.job, v.host, v.rank, v.capture_id, v.time_unix_ns, " DAY ", " CLUSTER
    ", v.instance_type, v.mfu, v.hfu, v.time_s, v.step_ns, v.throttled,"
    " v.lost, v.unknown, v.kind, v.request FROM (SELECT part, from_json(row, "
    "'{\"profile\":\"VARCHAR\",\"job\":\"VARCHAR\","
    "\"host\":\"VARCHAR\",\"rank\":\"BIGINT\",\"capture_id\":\"VARCHAR\",\"time_unix_ns\":\"BIGINT\",\"kind\":"
    "\"VARCHAR\","
    "\"request\":\"VARCHAR\",\"instance_type\":\"VARCHAR\",\"mfu\":\"DOUBLE\",\"hfu\":\"DOUBLE\",\"time_s\":\"DOUBLE\","
    "\"step_ns\":\"DOUBLE\",\"throttled\":\"DOUBLE\",\"lost\":\"BIGINT\",\"unknown\":\"BOOLEAN\"}') AS v FROM "
    "\"FleetProfile\")";
static const char of_others[] =
    ", m AS (SELECT part, any_value(profile) AS profile, any_value(job) AS job, any_value(host) AS host, "
    "any_value(rank)"
    " AS rank, any_value(capture_id) AS capture_id, any_value(time_unix_ns) AS time_unix_ns, any_value(instance_type) "
    "AS instance_type, any_value(request) AS request,"
    " any_value(profile_kind) AS profile_kind FROM \"Metadata\" GROUP BY part),"
    "x AS (SELECT part, avg(execution_end_ts - execution_start_ts) AS step_ns FROM \"ExecutionInfo\" GROUP BY part),"
    "t AS (SELECT part, avg(throttle_active_time_percent) AS throttled FROM \"ThrottleSummary\" WHERE throttle_type ="
    " 'all' GROUP BY part),"
    "l AS (SELECT part, sum(lost_records)::BIGINT AS lost, bool_or(lost_unknown) AS unknown FROM \"LossLedger\""
    " GROUP BY part)"
    "SELECT part, coalesce(s.profile, m.profile), coalesce(s.job, m.job), coalesce(s.host, m.host),"
    " coalesce(s.rank, m.rank), coalesce(s.capture_id, m.capture_id), coalesce(s.time_unix_ns, m.time_unix_ns),"
    " " DAY ", " CLUSTER ", m.instance_type, s.mfu_estimated_percent,"
    " s.hfu_estimated_percent, s.total_time, x.step_ns, t.throttled, coalesce(l.lost, 0), coalesce(l.unknown, false),"
    " m.profile_kind, m.request FROM (SELECT *, true AS there FROM \"Summary\") s FULL JOIN m USING (part)"
    " LEFT JOIN x USING (part) LEFT JOIN t USING (part) LEFT JOIN l USING (part)"
    " WHERE s.there OR m.profile_kind = 'ranks'";

struct chunk {
    int fd;
    const struct fleet_part *const *parts;
    size_t n;
};

int fleet_rows_create(const struct sql *s, struct kymo_err *err)
{
    int r = sql_run(s, create, NULL, 0, NULL, NULL, err);
    return r < 0 ? r : sql_run(s, create_view, NULL, 0, NULL, NULL, err);
}

/*
 * Files of one writer's are alike: what one has all have, and only the first is looked at for it. Where that is not so
 * the statement fails, and whoever reads fewer at once (fleet_cache.c) reads them all the same.
 */
static int add_files(const struct chunk *c, enum fleet_table table, struct kymo_buf *sql)
{
    bool any = false;
    int r = 0;
    for (size_t i = 0; i < c->n && r == 0; i++) {
        if (!fleet_files_has(c->fd, table, c->parts[i]->key))
            continue;
        r = kymo_buf_printf(sql, "%s'/proc/self/fd/%d/%s/%s'",
                            any ? ", " : " UNION ALL BY NAME SELECT * FROM read_parquet([", c->fd, fleet_tables[table],
                            c->parts[i]->key);
        any = true;
    }
    return r == 0 && any ? kymo_buf_printf(sql, "], filename = true, hive_partitioning = false)") : r;
}

/* A table as part of a WITH; as text that is put where it is used, so that only what is used of its columns is read. */
static int add_table(const struct chunk *c, enum fleet_table table, bool first, struct kymo_buf *sql)
{
    int r =
        kymo_buf_printf(sql,
                        "%s \"%s\" AS NOT MATERIALIZED (SELECT split_part(filename, '/%s/', 2) AS part, * FROM (SELECT"
                        " %s WHERE false",
                        first ? "WITH" : ",", fleet_tables[table], fleet_tables[table], columns[table]);
    if (r == 0)
        r = add_files(c, table, sql);
    return r == 0 ? kymo_buf_printf(sql, "))") : r;
}

static int add_tables(const struct chunk *c, struct kymo_buf *sql)
{
    int r = 0;
    if (c->parts[0]->whole)
        return add_table(c, FLEET_PROFILE, true, sql);
    for (int t = FLEET_SUMMARY; t < FLEET_TABLES && r == 0; t++)
        r = add_table(c, (enum fleet_table)t, t == FLEET_SUMMARY, sql);
    return r;
}

int fleet_rows_read(const struct sql *s, int fd, const struct fleet_part *const *parts, size_t n, struct kymo_err *err)
{
    const struct chunk c = {fd, parts, n};
    struct kymo_buf sql;
    kymo_buf_init(&sql, SQL_BYTES_MAX);
    int r = kymo_buf_printf(&sql, "INSERT INTO rows ");
    if (r == 0)
        r = add_tables(&c, &sql);
    if (r == 0)
        r = kymo_buf_printf(&sql, "%s", parts[0]->whole ? of_whole : of_others);
    r = r < 0 ? kymo_err_set(err, -ENOMEM, "no memory for a statement")
              : sql_run(s, (const char *)sql.data, NULL, 0, NULL, NULL, err);
    kymo_buf_done(&sql);
    return r;
}

int fleet_rows_delete(const struct sql *s, const struct fleet_part *const *parts, size_t n, struct kymo_err *err)
{
    struct kymo_buf keys;
    int r = 0;
    kymo_buf_init(&keys, SQL_BYTES_MAX);
    for (size_t i = 0; i < n && r == 0; i++)
        r = kymo_buf_printf(&keys, "%s%s", i ? "\n" : "", parts[i]->key);
    const struct sql_bind bind = SQL_TEXT((const char *)keys.data);
    if (r < 0)
        r = kymo_err_set(err, -ENOMEM, "no memory for the names of parts");
    else if (n)
        r = sql_run(s, "DELETE FROM rows WHERE part IN (SELECT unnest(string_split($1, chr(10))))", &bind, 1, NULL,
                    NULL, err);
    kymo_buf_done(&keys);
    return r;
}

/* Who is stopped in between closes the connection, and all is as before. */
int fleet_rows_renew(const struct sql *s, struct kymo_err *err)
{
    static const char *const steps[] = {"BEGIN", "CREATE TABLE renewed AS SELECT * FROM rows", "DROP TABLE rows",
                                        "ALTER TABLE renewed RENAME TO rows", "COMMIT"};
    int r = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && r == 0; i++)
        r = sql_run(s, steps[i], NULL, 0, NULL, NULL, err);
    return r;
}
