#include "collector/gather/gather_skew.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * Numbers of replica groups are workers: what CcOp calls the rank, where it tells; else ranks where a rank has one
 * logical core, or rank * cores + place of the core in its rank. Members without rank are numbered as they come.
 */
static const char workers[] =
    "CREATE TABLE worker AS SELECT idx, coalesce(o.worker, rank * (max(place) OVER () + 1) + place, idx) AS worker FROM"
    " (SELECT idx, rank, dense_rank() OVER (PARTITION BY rank ORDER BY vnc) - 1 AS place FROM member"
    "  WHERE state = 'ready') LEFT JOIN (SELECT idx, min(worker) AS worker FROM op GROUP BY idx) o USING (idx)";

/* The group that a member of it belongs to; 'all' where the text names none with its number. */
static const char groups[] =
    "CREATE TABLE grp AS SELECT idx, worker, replica_group, g AS ranks, coalesce(g::VARCHAR, 'all') AS name FROM"
    " (SELECT idx, worker, replica_group, list_filter(coalesce(TRY_CAST(replica_group AS BIGINT[][]), []),"
    "  lambda x: list_contains(x, worker))[1] AS g"
    "  FROM (SELECT DISTINCT idx, replica_group FROM op) JOIN worker USING (idx))";

/*
 * What is the same operation on all ranks: the same number and stream in the same programs; between different programs
 * (MPMD) the same kind, size and type, in the same order.
 */
static const char keys[] =
    "CREATE TABLE keyed AS SELECT o.* EXCLUDE (worker), g.worker, g.ranks, g.name AS grp, p.same,"
    " CASE WHEN p.same AND o.op_id >= 0 THEN concat(o.operation, ' #', o.op_id, ' on ', o.stream)"
    "      ELSE concat_ws(' ', o.operation, o.num_elements, o.dtype) END AS key"
    " FROM op o JOIN grp g ON g.idx = o.idx AND g.replica_group IS NOT DISTINCT FROM o.replica_group"
    " JOIN (SELECT name, count(DISTINCT neffs) = 1 AND count(neffs) = count(*) AS same FROM grp JOIN member USING (idx)"
    "       GROUP BY name) p ON p.name = g.name";

/*
 * The place of an operation among its like: in equal programs the device's own count, where that is one; else the order
 * of start, and members that began at a later execution begin at a later place, where all tell it and executions hold
 * equally many.
 */
static const char places[] =
    "CREATE TABLE placed AS WITH c AS (SELECT *,"
    " row_number() OVER (PARTITION BY idx, grp, key ORDER BY start_ts) - 1 AS nth,"
    " count(*) OVER (PARTITION BY idx, grp, key) AS n,"
    " count(*) OVER (PARTITION BY idx, grp, key, invocation) AS twins FROM keyed),"
    "u AS (SELECT grp, key, bool_and(same) AND max(twins) = 1 AND count(invocation) = count(*) AS counted FROM c"
    " GROUP BY ALL),"
    "f AS (SELECT min(first_execution) AS low, count(first_execution) = count(*) AS told FROM member"
    " WHERE state = 'ready')"
    "SELECT c.* EXCLUDE (nth, n, twins, invocation, same), CASE WHEN u.counted THEN c.invocation"
    " WHEN f.told AND c.n % m.executions = 0 THEN c.nth + (m.first_execution - f.low) * (c.n // m.executions)"
    " ELSE c.nth END AS invocation FROM c JOIN u USING (grp, key) JOIN member m USING (idx), f";

/* Where the clocks differ in host, what the hosts' clocks may be off comes on top. */
static const char arrivals[] =
    "CREATE TABLE arrival AS SELECT p.*, m.profile, m.rank, m.host, k.device_error_ns,"
    " k.device_error_ns + m.host_error_ns AS error_ns, coalesce(m.boot_id, m.host, 'member ' || m.idx) AS boot,"
    " k.offset_ns + p.start_ts + CAST(round(coalesce(k.drift, 0) * p.start_ts) AS BIGINT) AS came_at,"
    " k.offset_ns + p.end_ts + CAST(round(coalesce(k.drift, 0) * p.end_ts) AS BIGINT) AS done_at"
    " FROM placed p JOIN member m USING (idx) JOIN clock k USING (idx)";

#define TWO_WORST(e) "CASE WHEN count(" e ") = count(*) THEN list_sum(max(" e ", 2))::BIGINT END"

static const char skews[] =
    "CREATE TABLE skew AS WITH e AS (SELECT grp, list_sort(list(DISTINCT worker)) AS workers FROM keyed GROUP BY grp),"
    "s AS (SELECT grp, key, invocation, any_value(operation) AS operation, CASE WHEN min(op_id) = max(op_id)"
    " THEN min(op_id) END AS op_id, any_value(num_elements) AS num_elements, any_value(dtype) AS dtype,"
    " any_value(ranks) AS ranks, list(worker) AS came, count(*) AS arrived, count(came_at) AS timed,"
    " min(came_at) AS first_at, max(came_at) AS last_at, min(done_at) AS first_until, max(done_at) AS last_until,"
    " arg_min(idx, came_at) AS first_idx, arg_max(idx, came_at) AS last_idx, count(DISTINCT boot) = 1 AS one_clock,"
    " " TWO_WORST("device_error_ns") " AS near_ns, " TWO_WORST(
        "error_ns") " AS far_ns FROM arrival GROUP BY ALL),"
                    "t AS (SELECT s.*, coalesce(s.ranks, e.workers) AS expected, CASE WHEN one_clock THEN near_ns ELSE "
                    "far_ns END"
                    " AS bound FROM s JOIN e USING (grp))"
                    "SELECT row_number() OVER (ORDER BY first_at, grp, key, invocation) - 1 AS id, *,"
                    " CASE WHEN arrived < len(expected) THEN list_filter(expected, lambda x: NOT list_contains(came, "
                    "x)) END "
                    "AS missing,"
                    " CASE WHEN timed > 1 THEN last_at - first_at END AS spread,"
                    /* Nobody can be done before the last has come. */
                    " CASE WHEN timed > 1 THEN first_until + coalesce(bound, 0) >= last_at END AS consistent FROM t";

static const char *const steps[] = {workers, groups, keys, places, arrivals, skews};

int gather_skew_run(struct gather_db *db, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && r == 0; i++)
        r = gather_db_script(db, steps[i], err);
    return r;
}

/* Warnings: one row per cause. */
static const char *const notes[] = {
    "SELECT 'Missing member', 'profile ' || profile || ' is ' || state || coalesce(': ' || reason, '') ||"
    " ': its rows are not here' FROM member WHERE state <> 'ready'",

    "SELECT 'Missing member', 'the job has ' || max(world_size) || ' ranks, and ' || count(DISTINCT rank) ||"
    " ' of them are here: what the others did is not known' FROM member WHERE state = 'ready'"
    " HAVING max(world_size) > count(DISTINCT rank)",

    "SELECT 'Clock', 'no moment was read from device and host together in ' || count(*) || ' members (' ||"
    " left(string_agg(profile, ', ' ORDER BY idx), 300) || '): their arrivals have no time' FROM clock"
    " JOIN member USING (idx) WHERE method = 'none' HAVING count(*) > 0",

    "SELECT 'Clock', 'the moments read from device and host contradict each other in ' || count(*) || ' members (' ||"
    " left(string_agg(profile, ', ' ORDER BY idx), 300) || '): a clock was set meanwhile, or one runs wrong; their "
    "times"
    " have no error bound' FROM clock JOIN member USING (idx) WHERE contradict HAVING count(*) > 0",

    "SELECT 'Clock', 'how far the clocks of ' || count(DISTINCT coalesce(boot_id, host)) || ' hosts are from each other"
    " is not known (' || count(*) FILTER (host_synchronised = false) || ' of ' || count(*) || ' members come from a "
    "clock"
    " that is not synchronised): skews between hosts have no error bound' FROM member WHERE state = 'ready' AND"
    " host_error_ns IS NULL AND (SELECT count(DISTINCT coalesce(boot_id, host)) FROM member) > 1 HAVING count(*) > 0",

    "SELECT 'Missing collectives', count(*) || ' collectives lack arrivals of workers ' ||"
    " left((SELECT string_agg(DISTINCT x::VARCHAR, ', ' ORDER BY x::VARCHAR) FROM (SELECT unnest(missing) x FROM "
    "skew)),"
    " 300) || ': their last arriver may be one of those' FROM skew WHERE len(missing) > 0 HAVING count(*) > 0",

    "SELECT 'Collectives', count(*) || ' collectives ended on one member before another had come: they are not the same"
    " operation, or the clocks are farther apart than their bounds' FROM skew WHERE NOT consistent HAVING count(*) > 0",

    "SELECT 'Collectives', 'members began at executions ' || min(first_execution) || ' to ' || max(first_execution) ||"
    " ': collectives are matched by their place, counted from the earliest' FROM member WHERE state = 'ready'"
    " HAVING min(first_execution) < max(first_execution)",

    "SELECT 'Records lost', 'records are missing in ' || count(*) || ' members (' || left(string_agg(profile, ', '"
    " ORDER BY idx), 300) || '): collectives of theirs may be missing or matched with their neighbours; numbers of"
    " collectives are lower bounds' FROM member WHERE lost_records > 0 OR lost_unknown HAVING count(*) > 0",
};

static const char member_rows[] =
    "SELECT m.*, m.cores AS num_physical_cores, w.worker, k.offset_ns AS first_unix_ns,"
    " k.offset_ns + m.span_ns + CAST(round(coalesce(k.drift, 0) * m.span_ns) AS BIGINT) AS last_unix_ns,"
    " coalesce(a.n, 0) AS collectives, coalesce(l.n, 0) AS last_arrivals, coalesce(l.cost, 0) AS caused_wait_ns,"
    " a.late AS late_ns FROM member m LEFT JOIN worker w USING (idx) LEFT JOIN clock k USING (idx)"
    " LEFT JOIN (SELECT idx, count(*) AS n, sum(came_at - first_at) AS late FROM arrival JOIN skew"
    "  USING (grp, key, invocation) GROUP BY idx) a USING (idx)"
    " LEFT JOIN (SELECT last_idx AS idx, count(*) AS n, sum(spread) AS cost FROM skew WHERE spread > bound"
    "  GROUP BY last_idx) l USING (idx) ORDER BY m.rank, m.vnc, m.idx";
static const char clock_rows[] =
    "SELECT m.profile, m.rank, m.host, k.method, k.syncs, k.offset_ns, k.drift * 1e6 AS drift_ppm, k.device_error_ns,"
    " m.host_error_ns, k.device_error_ns + m.host_error_ns AS error_bound_ns,"
    " k.contradict FROM clock k JOIN member m USING (idx) ORDER BY m.rank, m.vnc, m.idx";
static const char skew_rows[] =
    "SELECT s.*, s.grp AS replica_group, len(expected) AS members, first_at AS first_arrival_ns, last_at AS"
    " last_arrival_ns, last_until AS end_ns, spread AS spread_ns, f.profile AS first_profile, f.rank AS first_rank,"
    " l.profile AS last_profile, l.rank AS last_rank, last_until - first_at AS duration_ns, last_until - last_at AS"
    " transfer_ns, bound AS error_bound_ns, spread > bound AS significant,"
    " CASE WHEN len(missing) > 0 THEN missing::VARCHAR END AS missing_workers"
    " FROM skew s LEFT JOIN member f ON f.idx = first_idx LEFT JOIN member l ON l.idx = last_idx";
static const char arrival_rows[] =
    "SELECT s.id AS collective_id, a.profile, a.rank, a.worker, a.host, a.came_at AS arrival_ns, a.done_at AS end_ns,"
    " a.cc_op_id, a.start_ts, a.end_ts - a.start_ts AS duration_ns, a.came_at - s.first_at AS late_ns, s.last_at - "
    "a.came_at AS "
    "wait_ns,"
    " CASE WHEN s.one_clock THEN a.device_error_ns ELSE a.error_ns END AS error_bound_ns"
    " FROM arrival a JOIN skew s USING (grp, key, invocation)";
static const char metadata_rows[] =
    "SELECT 'ranks' AS profile_kind, min(request) AS request, min(job) AS job, max(world_size) AS world_size,"
    " min(instance_type) AS instance_type, coalesce(min(first_ts), '') AS first_ts, coalesce(max(first_ts), '') AS "
    "last_ts,"
    " ? AS profile_name, ? AS profile_schema_version, ? AS kymo_schema_version, ? AS explorer_version"
    " FROM member WHERE state = 'ready'";

static int count(void *ctx, const char *const *values, struct kymo_err *err)
{
    uint64_t *n = ctx;
    (void)err;
    *n = values[0] ? strtoull(values[0], NULL, 10) : 0;
    return 0;
}

static int write_metadata(struct gather_db *db, const char *name, struct kymo_err *err)
{
    char sql[sizeof metadata_rows + 64];
    (void)snprintf(sql, sizeof sql, "CREATE TABLE meta AS %s", metadata_rows);
    int r =
        gather_db_run(db, err, sql, "tttt", name, KYMO_SCHEMA_VERSION, KYMO_SCHEMA_OWN_VERSION, "kymo " KYMO_VERSION);
    return r < 0 ? r : gather_db_write(db, kymo_schema_find("Metadata"), "", "SELECT * FROM meta", err);
}

static int add_field(struct gather_db *db, const struct kymo_table *t, const struct kymo_column *c,
                     struct kymo_err *err)
{
    return gather_db_run(db, err,
                         "INSERT INTO field VALUES (?, ?, ?, ?, nullif(?, ''), ?, ?::BOOLEAN, nullif(?, ''),"
                         " nullif(?, ''), nullif(?, ''))",
                         "ttttttittt", t->name, t->description, c->name, c->description, c->example, c->openapi_type,
                         (int64_t)c->required, c->openapi_format, c->unit, c->enum_values);
}

static int write_fields(struct gather_db *db, const char *const *tables, size_t n, struct kymo_err *err)
{
    int r = gather_db_script(db,
                             "CREATE TABLE field(table_name VARCHAR, table_description VARCHAR, field_name VARCHAR,"
                             " field_description VARCHAR, field_example VARCHAR, field_type VARCHAR,"
                             " field_required BOOLEAN, field_format VARCHAR, field_unit VARCHAR,"
                             " field_enum_values VARCHAR)",
                             err);
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct kymo_table *t = kymo_schema_find(tables[i]);
        for (size_t c = 0; c < t->column_count && r == 0; c++)
            r = add_field(db, t, &t->columns[c], err);
    }
    return r < 0 ? r : gather_db_write(db, kymo_schema_find("SchemaFields"), "", "SELECT * FROM field", err);
}

int gather_skew_write(struct gather_db *db, const char *name, uint64_t *ret_rows, struct kymo_err *err)
{
    static const char *const tables[] = {"Member",  "ClockMap", "CollectiveSkew", "CollectiveArrival",
                                         "Warning", "Metadata", "SchemaFields"};
    static const char *const queries[] = {member_rows, clock_rows, skew_rows, arrival_rows, "SELECT * FROM note"};
    int r = 0;
    for (size_t i = 0; i < sizeof notes / sizeof *notes && r == 0; i++) {
        char sql[2048];
        (void)snprintf(sql, sizeof sql, "INSERT INTO note %s", notes[i]);
        r = gather_db_script(db, sql, err);
    }
    for (size_t i = 0; i < sizeof queries / sizeof *queries && r == 0; i++)
        r = gather_db_write(db, kymo_schema_find(tables[i]), "", queries[i], err);
    if (r == 0)
        r = write_metadata(db, name, err);
    if (r == 0)
        r = write_fields(db, tables, sizeof tables / sizeof *tables, err);
    return r < 0 ? r : gather_db_rows(db, "SELECT count(*) FROM skew", 1, count, ret_rows, err);
}
