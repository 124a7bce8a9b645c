#include "collector/gather/gather_fleet.h"

#include <errno.h>

#include "base/alloc.h"

#define FRONT "profile, job, host, rank, capture_id, time_unix_ns"

/* A word of WaitCause, which an older file may lack: then the view is empty. */
static const char waits[] =
    "WITH w AS (SELECT pcore_idx, engine, dependency_type, in_table, in_id, unknown_reason, count(*) n,"
    " sum(wait_ns) wait_ns, sum(cost_ns) cost_ns, max(cost_ns) worst, bool_or(lower_bound) low"
    " FROM \"WaitCause\" GROUP BY ALL),"
    "i AS (SELECT id, engine || ' ' || opcode AS word FROM \"Instruction\" WHERE id IN"
    " (SELECT in_id FROM w WHERE in_table = 'instruction')),"
    "d AS (SELECT id, queue_name AS word FROM \"DmaPacketAggregated\" WHERE id IN"
    " (SELECT in_id FROM w WHERE in_table = 'dma_block')),"
    "c AS (SELECT id, operation AS word FROM \"CcOp\" WHERE id IN (SELECT in_id FROM w WHERE in_table = 'cc_op'))"
    "SELECT w.pcore_idx, w.engine, w.dependency_type, w.in_table, coalesce(i.word, d.word, c.word) AS cause,"
    " w.unknown_reason,"
    " sum(n) AS waits, sum(w.wait_ns) AS wait_ns, sum(w.cost_ns) AS cost_ns, max(worst) AS longest_cost_ns,"
    " bool_or(low) AS lower_bound FROM w"
    " LEFT JOIN i ON w.in_table = 'instruction' AND i.id = w.in_id"
    " LEFT JOIN d ON w.in_table = 'dma_block' AND d.id = w.in_id"
    " LEFT JOIN c ON w.in_table = 'cc_op' AND c.id = w.in_id"
    " GROUP BY w.pcore_idx, w.engine, w.dependency_type, w.in_table, cause, w.unknown_reason";

/*
 * One row per profile: what a fleet is looked at by, as one text. Of its own in the fleet's tables: whoever asks about
 * thousands of profiles reads one small file of each instead of five with hundreds of columns, and what a small file
 * takes to read grows with its columns.
 */
static const struct kymo_column profile_columns[] = {{.name = "profile", .type = KYMO_TYPE_STRING},
                                                     {.name = "row", .type = KYMO_TYPE_STRING}};
static const struct kymo_table profile_table = {.name = "FleetProfile", .columns = profile_columns, .column_count = 2};

/* A profile of many ranks has no Summary; its row says which request it is of. JSON has no word for what is not finite.
 */
#define FINITE(v) "CASE WHEN isfinite(" v ") THEN " v "::DOUBLE END"
static const char profile_rows[] =
    "SELECT f.profile, to_json({profile: f.profile, job: f.job, host: f.host, rank: f.rank, capture_id: f.capture_id,"
    " time_unix_ns: f.time_unix_ns, kind: m.profile_kind, request: m.request, instance_type: m.instance_type,"
    " mfu: " FINITE("s.mfu_estimated_percent") ", hfu: " FINITE("s.hfu_estimated_percent") ", time_s: " FINITE(
        "s.total_time") ", step_ns: x.step_ns, throttled: " FINITE("t.throttled") ", lost: coalesce(l.lost, 0),"
                                                                                  " unknown: coalesce(l.unknown, "
                                                                                  "false)})::VARCHAR AS row FROM front "
                                                                                  "f LEFT JOIN (SELECT *, true AS "
                                                                                  "there FROM"
                                                                                  " \"Summary\") s ON true,"
                                                                                  " (SELECT any_value(profile_kind) AS "
                                                                                  "profile_kind, any_value(request) AS "
                                                                                  "request, any_value(instance_type) AS"
                                                                                  " instance_type FROM \"Metadata\") m,"
                                                                                  " (SELECT avg(execution_end_ts - "
                                                                                  "execution_start_ts) AS step_ns FROM "
                                                                                  "\"ExecutionInfo\") x,"
                                                                                  " (SELECT "
                                                                                  "avg(throttle_active_time_percent) "
                                                                                  "AS throttled FROM "
                                                                                  "\"ThrottleSummary\" WHERE "
                                                                                  "throttle_type = 'all') t,"
                                                                                  " (SELECT sum(lost_records)::BIGINT "
                                                                                  "AS lost, bool_or(lost_unknown) AS "
                                                                                  "unknown FROM \"LossLedger\") l"
                                                                                  " WHERE s.there OR m.profile_kind = "
                                                                                  "'ranks'";

static int view(struct gather_db *db, int dir, const char *name, struct kymo_err *err)
{
    const struct kymo_table *t = kymo_schema_find(name);
    return t ? gather_db_view(db, dir, t, err) : 0;
}

/* A column of the front that the table has too is the front's. */
static int write_rows(struct gather_db *db, const struct kymo_table *to, const char *from, struct kymo_err *err)
{
    char *query KYMO_FREE = kymo_asprintf("SELECT f.*, t.* FROM front f, (%s) t", from);
    return query ? gather_db_write(db, to, FRONT, query, err) : kymo_err_set(err, -ENOMEM, "no memory for a statement");
}

static int write_table(struct gather_db *db, int dir, const char *name, struct kymo_err *err)
{
    int there = view(db, dir, name, err);
    if (there <= 0)
        return there;
    char *all KYMO_FREE = kymo_asprintf("SELECT * FROM \"%s\"", name);
    return all ? write_rows(db, kymo_schema_find(name), all, err)
               : kymo_err_set(err, -ENOMEM, "no memory for a statement");
}

static int write_waits(struct gather_db *db, int dir, struct kymo_err *err)
{
    static const char *const others[] = {"Instruction", "DmaPacketAggregated", "CcOp"};
    int there = view(db, dir, "WaitCause", err), r = there < 0 ? there : 0;
    for (size_t i = 0; i < sizeof others / sizeof *others && there > 0 && r == 0; i++) {
        r = view(db, dir, others[i], err);
        r = r > 0 ? 0 : r;
    }
    return there > 0 && r == 0 ? write_rows(db, kymo_schema_find("WaitCauseSummary"), waits, err) : r;
}

/* What nobody told is the profile's own word, where it has one. */
static int make_front(struct gather_db *db, int dir, const struct gather_fleet *g, struct kymo_err *err)
{
    int r = view(db, dir, "Metadata", err);
    if (r >= 0)
        r = gather_db_run(db, err,
                          "CREATE TEMP TABLE front AS SELECT coalesce(?1, m.profile_name) AS profile,"
                          " coalesce(?2, m.job) AS job, coalesce(?3, m.host) AS host,"
                          " coalesce(?4::BIGINT, m.rank) AS rank, coalesce(?5, m.capture_id) AS capture_id,"
                          " ?6::BIGINT AS time_unix_ns FROM (SELECT 1) LEFT JOIN"
                          " (SELECT * FROM \"Metadata\" LIMIT 1) m ON true",
                          "tttttt", g->profile, g->job, g->host, g->rank, g->capture, g->time_unix_ns);
    return r;
}

int gather_fleet_run(struct gather_db *db, int dir, const struct gather_fleet *g, struct kymo_err *err)
{
    static const char *const tables[] = {"Summary",
                                         "Metadata",
                                         "OpcodeSummary",
                                         "ThrottleSummary",
                                         "Warning",
                                         "LossLedger",
                                         "HbmUsageSummaryByType",
                                         "TimelineWarning",
                                         "NeffHeader",
                                         "ExecutionInfo",
                                         "Member"};
    int r = make_front(db, dir, g, err);
    for (size_t i = 0; i < sizeof tables / sizeof *tables && r == 0; i++)
        r = write_table(db, dir, tables[i], err);
    if (r == 0)
        r = write_waits(db, dir, err);
    return r < 0 ? r : gather_db_write(db, &profile_table, "", profile_rows, err);
}
