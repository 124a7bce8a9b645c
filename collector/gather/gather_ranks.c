#include "collector/gather/gather_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/gather/clock_map.h"
#include "collector/gather/gather_skew.h"

#define SYNCS_MAX 131072 /* of one member; kymo-process writes half as many */

static const char create[] =
    "CREATE TABLE member(idx INTEGER, profile VARCHAR, state VARCHAR, reason VARCHAR, rank BIGINT, vnc BIGINT,"
    " host VARCHAR, boot_id VARCHAR, job VARCHAR, capture_id VARCHAR, request VARCHAR, instance_type VARCHAR,"
    " cores BIGINT, world_size BIGINT, first_execution BIGINT, executions BIGINT, neffs VARCHAR, span_ns BIGINT,"
    " host_error_ns BIGINT, host_synchronised BOOLEAN, warnings BIGINT, lost_records BIGINT, lost_unknown BOOLEAN,"
    " first_ts VARCHAR);"
    "CREATE TABLE sync(idx INTEGER, ts BIGINT, host_ns BIGINT, error_ns BIGINT, source VARCHAR);"
    "CREATE TABLE op(idx INTEGER, cc_op_id BIGINT, start_ts BIGINT, end_ts BIGINT, operation VARCHAR, op_id BIGINT,"
    " stream BIGINT, replica_group VARCHAR, invocation BIGINT, num_elements BIGINT, dtype VARCHAR, worker BIGINT);"
    "CREATE TABLE clock(idx INTEGER, method VARCHAR, syncs BIGINT, offset_ns BIGINT, drift DOUBLE,"
    " device_error_ns BIGINT, contradict BOOLEAN);"
    "CREATE TABLE note(category VARCHAR, message VARCHAR)";

/* A member's numbers may be anything: those that no sum of many could hold are taken as not known (SANE is 12 years).
 */
#define SANE "400000000000000000"
#define WITHIN(value, max) "CASE WHEN " value " BETWEEN 0 AND " max " THEN " value " END"
static const char take_member[] = "INSERT INTO member SELECT ?::INTEGER, ?, 'ready', NULL, " WITHIN(
    "m.rank",
    "4294967295") ", m.vnc, m.host,"
                  " m.boot_id, m.job, m.capture_id, m.request, m.instance_type, m.num_physical_cores, m.world_size,"
                  " " WITHIN(
                      "m.first_execution",
                      "1000000000000") ", (SELECT nullif(count(*), 0) FROM \"ExecutionInfo\"),"
                                       " (SELECT string_agg(DISTINCT uuid, ',' ORDER BY uuid) FROM \"NeffHeader\"),"
                                       " least(greatest(m.last_hw_timestamp - m.first_hw_timestamp, 0), " SANE "),"
                                       " " WITHIN("m.host_clock_error_ns",
                                                  SANE) ", m.host_clock_synchronised,"
                                                        " (SELECT count(*) FROM \"Warning\"), (SELECT "
                                                        "sum(lost_records) FROM \"LossLedger\"),"
                                                        " (SELECT bool_or(lost_unknown) FROM \"LossLedger\"), "
                                                        "m.first_ts FROM \"Metadata\" m LIMIT 1";
static const char take_syncs[] =
    "INSERT INTO sync SELECT ?::INTEGER, ts, host_unix_ns, error_bound_ns, source FROM \"ClockSync\""
    " WHERE ts IS NOT NULL AND host_unix_ns IS NOT NULL";

static const char take_ops[] =
    "INSERT INTO op SELECT ?::INTEGER, id, start_ts, end_ts, operation, op_id, stream_index, replica_group, invocation,"
    " num_elements, dtype, rank FROM \"CcOp\" WHERE abs(start_ts) < " SANE " AND abs(end_ts) < " SANE;

static int stopped(struct kymo_err *err)
{
    return kymo_err_set(err, -ECANCELED, "stopped on request; nothing was written");
}

static int read_member(struct gather_db *db, const struct gather_member *m, size_t i, struct kymo_err *err)
{
    static const char *const tables[] = {"Metadata",   "ExecutionInfo", "NeffHeader", "Warning",
                                         "LossLedger", "ClockSync",     "CcOp"};
    int dir KYMO_CLOSE = kymo_file_open(m->dir, O_RDONLY | O_DIRECTORY, 0, err), r = dir < 0 ? dir : 0;
    for (size_t t = 0; t < sizeof tables / sizeof *tables && r == 0; t++) {
        int there = gather_db_view(db, dir, kymo_schema_find(tables[t]), err);
        r = there < 0 ? there : !there && t == 0 ? kymo_err_set(err, -ENOENT, "no Metadata: no profile") : 0;
    }
    if (r == 0)
        r = gather_db_script(db, "BEGIN", err);
    if (r < 0)
        return r;
    r = gather_db_run(db, err, take_member, "it", (int64_t)i, m->name);
    if (r == 0)
        r = gather_db_run(db, err, take_syncs, "i", (int64_t)i);
    if (r == 0)
        r = gather_db_run(db, err, take_ops, "i", (int64_t)i);
    if (r == 0)
        return gather_db_script(db, "COMMIT", err);
    /* The first error is the one to tell. */
    int undone = gather_db_script(db, "ROLLBACK", NULL);
    (void)undone;
    return r;
}

static bool is_ours(int code)
{
    return code == -ENOSPC || code == -EDQUOT || code == -ENOMEM || code == -ECANCELED;
}

/* A member that cannot be read costs its own rows; what is wrong with this machine is not its fault. */
static int take(struct gather_db *db, const struct gather_ranks *g, size_t i, bool *ret_usable, struct kymo_err *err)
{
    const struct gather_member *m = &g->members->list[i];
    struct kymo_err why = {0};
    const char *state = m->state, *reason = m->reason;
    if (!strcmp(state, "ready")) {
        int r = read_member(db, m, i, &why);
        if (r == 0) {
            *ret_usable = true;
            return 0;
        }
        if (is_ours(r)) {
            *err = why;
            return r;
        }
        state = "unreadable";
        reason = why.text;
        if (g->unreadable)
            g->unreadable(m->name, reason);
    }
    return gather_db_run(db, err, "INSERT INTO member(idx, profile, state, reason) VALUES (?, ?, ?, nullif(?, ''))",
                         "ittt", (int64_t)i, m->name, state, reason);
}

/* Clocks */

struct syncs {
    struct gather_db *db;
    double drift_max;
    struct clock_map_sync *list;
    size_t n, cap;
    int64_t idx, span_ns;
};

static int fit(struct syncs *s, struct kymo_err *err)
{
    struct clock_map map;
    if (s->idx < 0)
        return 0;
    clock_map_fit(s->list, s->n, s->span_ns, s->drift_max, &map);
    s->n = 0;
    return gather_db_run(s->db, err,
                         "INSERT INTO clock VALUES (?, ?, ?, CASE WHEN ?2 <> 'none' THEN ?4 END,"
                         " CASE WHEN ?2 = 'line' THEN ?5 END, CASE WHEN ?6 >= 0 THEN ?6 END, ?7::BOOLEAN)",
                         "itiidii", s->idx, clock_map_method_name(map.method), (int64_t)map.used, map.offset_ns,
                         map.drift, map.error_ns, (int64_t)map.contradict);
}

static int64_t number(const char *text, int64_t none)
{
    return text ? strtoll(text, NULL, 10) : none;
}

static int add_sync(void *ctx, const char *const *v, struct kymo_err *err)
{
    struct syncs *s = ctx;
    int64_t idx = number(v[0], -1);
    if (idx != s->idx) {
        int r = fit(s, err);
        if (r < 0)
            return r;
        s->idx = idx;
        s->span_ns = number(v[1], 0);
    }
    void *p = s->list;
    if (!v[2] || s->n == SYNCS_MAX)
        return 0;
    int r = kymo_grow(&p, &s->cap, s->n + 1, SYNCS_MAX, sizeof *s->list);
    s->list = p;
    if (r < 0)
        return kymo_err_set(err, r, "more than %d moments read from a member's clocks, or no memory", SYNCS_MAX);
    s->list[s->n++] = (struct clock_map_sync){number(v[2], 0), number(v[3], 0), number(v[4], -1)};
    return 0;
}

static int fit_clocks(struct gather_db *db, double drift_max, struct kymo_err *err)
{
    struct syncs s = {.db = db, .drift_max = drift_max, .idx = -1};
    /* The runtime's moments where it has any: the manifest's are farther from the device. */
    int r = gather_db_rows(db,
                           "SELECT m.idx, m.span_ns, s.ts, s.host_ns, s.error_ns FROM member m LEFT JOIN"
                           " (SELECT *, bool_or(source = 'sync_point') OVER (PARTITION BY idx) runtime FROM sync) s"
                           " ON s.idx = m.idx AND (s.source = 'sync_point' OR NOT s.runtime)"
                           " WHERE m.state = 'ready' ORDER BY m.idx, s.ts, s.host_ns",
                           5, add_sync, &s, err);
    if (r == 0)
        r = fit(&s, err);
    kymo_free(s.list);
    return r;
}

struct first_reason {
    char text[256];
};

static int keep_reason(void *ctx, const char *const *v, struct kymo_err *err)
{
    struct first_reason *first = ctx;
    (void)err;
    if (!*first->text)
        (void)snprintf(first->text, sizeof first->text, "%s: %s", v[0] ? v[0] : "", v[1] ? v[1] : "");
    return 0;
}

/* A parent of nobody says nothing: whoever asked for it named the wrong directories. */
static int refuse_empty(struct gather_db *db, size_t members, struct kymo_err *err)
{
    struct first_reason first = {0};
    int r = gather_db_rows(db, "SELECT profile, coalesce(reason, state) FROM member ORDER BY idx LIMIT 1", 2,
                           keep_reason, &first, err);
    return r < 0 ? r
                 : kymo_err_set(err, -ENODATA, "none of %zu members has tables that can be read; %s", members,
                                *first.text ? first.text : "no member is listed");
}

static int take_all(struct gather_db *db, const struct gather_ranks *g, struct kymo_err *err)
{
    bool usable = false;
    int r = 0;
    for (size_t i = 0; i < g->members->n && r == 0; i++) {
        r = take(db, g, i, &usable, err);
        if (r == 0 && g->progress && g->progress(g->ctx, "members", i + 1, g->members->n))
            r = stopped(err);
    }
    return r < 0 || usable ? r : refuse_empty(db, g->members->n, err);
}

int gather_ranks_run(struct gather_db *db, const struct gather_ranks *g, uint64_t *ret_rows, struct kymo_err *err)
{
    int r = gather_db_script(db, create, err);
    if (r == 0)
        r = take_all(db, g, err);
    if (r == 0)
        r = fit_clocks(db, g->drift_max, err);
    if (r == 0 && g->progress && g->progress(g->ctx, "collectives", 0, 0))
        r = stopped(err);
    if (r == 0)
        r = gather_skew_run(db, err);
    return r < 0 ? r : gather_skew_write(db, g->name, ret_rows, err);
}
