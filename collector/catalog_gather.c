/* Parents of requests, and rows of fleet tables, in the catalogue. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/catalog_impl.h"

/* System profiles are of no core: they have neither collectives to compare nor rows for the fleet. */
#define OF_A_CORE " AND p.file NOT LIKE '%ntrace.pb' "
#define COLUMNS "SELECT " CATALOG_PROFILE_COLUMNS " FROM profiles p JOIN captures c ON c.id = p.capture "
#define PLANS_MAX 64 /* requests of one look; the others have the next */

struct plan {
    char request[MANIFEST_ID_MAX + 1], job[MANIFEST_TEXT_MAX + 1];
    int64_t first_ns, captured_ns;
};

/* The next request, by name, whose time has come: all that were known are at their end, or the limit is over. */
static int next_plan(struct catalog *c, const char *after, int64_t now_ns, int64_t settle_ns, int64_t limit_ns,
                     struct plan *ret, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    int r = catalog_prepare(c, &s, err,
                            "SELECT q.request, coalesce(min(c.job), ''), q.first_ns, min(coalesce(nullif("
                            "c.start_unix_ns, 0), c.received_ns)) FROM requests q JOIN captures c ON"
                            " c.request = q.request AND c.kind = 'capture' LEFT JOIN profiles p ON p.capture = c.id"
                            " WHERE q.changed_ns <= ?2 AND q.request > ?1 GROUP BY q.request HAVING"
                            " (q.first_ns <= ?3 OR NOT (max(c.state = 'receiving') OR max(coalesce(p.state IN"
                            " ('received','queued','processing'), 0)))) ORDER BY q.request LIMIT 1",
                            "tii", after, now_ns - settle_ns, now_ns - limit_ns);
    if (r == 0)
        r = catalog_step(c, s, err);
    if (r != 1)
        return r;
    catalog_text(s, 0, ret->request, sizeof ret->request);
    catalog_text(s, 1, ret->job, sizeof ret->job);
    ret->first_ns = sqlite3_column_int64(s, 2);
    ret->captured_ns = sqlite3_column_int64(s, 3);
    return 1;
}

static int number(struct catalog *c, const char *sql, const char *a, const char *b, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    int r = catalog_prepare(c, &s, err, sql, "tt", a, b);
    if (r == 0)
        r = catalog_step(c, s, err);
    return r == 1 ? sqlite3_column_int(s, 0) : r;
}

static void parent_name(const struct plan *plan, bool plain, char out[static MANIFEST_PROFILE_NAME_MAX + 1])
{
    static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    if (plain)
        (void)snprintf(out, MANIFEST_PROFILE_NAME_MAX + 1, "%s-ranks", plan->request);
    else
        (void)snprintf(out, MANIFEST_PROFILE_NAME_MAX + 1, "%.100s-%s-ranks", *plan->job ? plan->job : "job",
                       plan->request);
    for (char *p = out; *p; p++)
        if (!strchr(characters, *p) || (p == out && *p == '.'))
            *p = '_';
}

static int put_parent(struct catalog *c, const struct plan *plan, const char *id, int64_t now_ns, struct kymo_err *err)
{
    char name[MANIFEST_PROFILE_NAME_MAX + 1];
    int r = catalog_run(c, err,
                        "INSERT INTO captures(id,state,kind,request,job,rank,files,bytes,received_ns,start_unix_ns)"
                        " VALUES(?,'received','ranks',?,nullif(?,''),0,0,0,?,?) ON CONFLICT(id) DO NOTHING",
                        "tttii", id, plan->request, plan->job, now_ns, plan->captured_ns);
    /* Jobs are free text, so a capture's profile may have this very name. */
    for (int plain = 0; r >= 0 && plain < 2; plain++) {
        parent_name(plan, plain, name);
        r = catalog_run(c, err,
                        "INSERT INTO profiles(name,capture,file,file_index,vnc,file_size,state,received_ns,queued_ns)"
                        " VALUES(?,?,'',0,0,0,'queued',?,?) ON CONFLICT(name) DO NOTHING",
                        "ttii", name, id, now_ns, now_ns);
        if (r > 0)
            return 1;
    }
    return r;
}

/* 1: the parent is queued; 0: there is none to make; -EAGAIN: it is being made, and must be made again. */
static int carry_out(struct catalog *c, const struct plan *plan, int64_t now_ns, struct kymo_err *err)
{
    char id[CATALOG_CAPTURE_MAX + 1];
    (void)snprintf(id, sizeof id, CATALOG_PARENT "%s", plan->request);
    int n = number(c,
                   "SELECT iif(sum(p.state='ready') > 0, count(*), 0) FROM profiles p JOIN captures c"
                   " ON c.id=p.capture WHERE c.request=?1 AND c.kind='capture' AND ?2 IS NOT NULL" OF_A_CORE,
                   plan->request, "", err);
    if (n < 2)
        return n < 0 ? n : 0;
    n = number(c, "SELECT iif(state='processing', 2, 1) FROM profiles WHERE capture=?1 AND ?2 IS NOT NULL", id, "",
               err);
    if (n == 2)
        return -EAGAIN;
    if (n <= 0)
        return n < 0 ? n : put_parent(c, plan, id, now_ns, err);
    int r = catalog_run(c, err,
                        "UPDATE profiles SET state='queued', reason=NULL, stage=NULL, done=0, total=0, attempts=0,"
                        " kills=0, queued_ns=?2, started_ns=NULL, finished_ns=NULL WHERE capture=?1",
                        "ti", id, now_ns);
    return r < 0 ? r : 1;
}

static int plan_one(struct catalog *c, const struct plan *plan, int64_t now_ns, struct kymo_err *err)
{
    int r = catalog_script(c, "BEGIN IMMEDIATE", err);
    if (r < 0)
        return r;
    int made = carry_out(c, plan, now_ns, err);
    if (made == -EAGAIN)
        return catalog_end(c, 0, err);
    r = made < 0 ? made
                 : catalog_run(c, err, "UPDATE requests SET changed_ns=NULL WHERE request=?", "t", plan->request);
    r = catalog_end(c, r < 0 ? r : 0, err);
    return r < 0 ? r : made;
}

int catalog_plan_parents(struct catalog *c, int64_t now_ns, int64_t settle_ns, int64_t limit_ns, struct kymo_err *err)
{
    struct plan plan = {0};
    int made = 0;
    for (unsigned i = 0; i < PLANS_MAX; i++) {
        char after[sizeof plan.request];
        memcpy(after, plan.request, sizeof after);
        int r = next_plan(c, after, now_ns, settle_ns, limit_ns, &plan, err);
        if (r == 1)
            r = plan_one(c, &plan, now_ns, err);
        else
            return r < 0 ? r : made;
        if (r < 0)
            return r;
        made += r;
    }
    return made;
}

static int list(struct catalog *c, sqlite3_stmt *s, int (*each)(void *ctx, const struct catalog_profile *p), void *ctx,
                struct kymo_err *err)
{
    struct catalog_profile p;
    int r;
    while ((r = catalog_step(c, s, err)) == 1) {
        catalog_read_profile(s, &p);
        r = each(ctx, &p);
        if (r != 0)
            return r;
    }
    return r;
}

int catalog_list_members(struct catalog *c, const char *request,
                         int (*each)(void *ctx, const struct catalog_profile *p), void *ctx, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    int r = catalog_prepare(
        c, &s, err, COLUMNS "WHERE c.request=? AND c.kind='capture'" OF_A_CORE "ORDER BY c.rank, p.name", "t", request);
    return r < 0 ? r : list(c, s, each, ctx, err);
}

int catalog_list_fleet(struct catalog *c, const char *after, unsigned max,
                       int (*each)(void *ctx, const struct catalog_profile *p), void *ctx, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    int r = catalog_prepare(c, &s, err,
                            COLUMNS "WHERE p.state='ready' AND p.fleet='ready' AND p.name>? ORDER BY p.name LIMIT ?",
                            "ti", after, (int64_t)max);
    return r < 0 ? r : list(c, s, each, ctx, err);
}

int catalog_next_fleet(struct catalog *c, int64_t before_ns, struct catalog_profile *ret, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    int r = catalog_prepare(c, &s, err,
                            COLUMNS "WHERE p.fleet='waiting' AND p.state='ready' AND p.fleet_ns < ?" OF_A_CORE
                                    "ORDER BY p.fleet_ns, p.name LIMIT 1",
                            "i", before_ns);
    if (r == 0)
        r = catalog_step(c, s, err);
    if (r == 1)
        catalog_read_profile(s, ret);
    return r;
}

int catalog_fleet_start(struct catalog *c, const char *profile, struct kymo_err *err)
{
    return catalog_run(c, err, "UPDATE profiles SET fleet='working' WHERE name=? AND fleet='waiting'", "t", profile);
}

int catalog_fleet_end(struct catalog *c, const char *profile, const char *state, const char *reason,
                      int64_t not_before_ns, struct kymo_err *err)
{
    int r = catalog_run(c, err,
                        "UPDATE profiles SET fleet=?2, fleet_reason=?3, fleet_ns=?4 WHERE name=?1 AND fleet='working'",
                        "ttti", profile, state, reason, not_before_ns);
    return r < 0 ? r : 0;
}

int catalog_fleet_killed(struct catalog *c, const char *profile, const char *reason, int64_t not_before_ns,
                         uint32_t max, struct kymo_err *err)
{
    int r = catalog_run(c, err,
                        "UPDATE profiles SET fleet_kills=fleet_kills+1, fleet_ns=?3, fleet_reason=?2 || ' (try ' ||"
                        " (fleet_kills+1) || ' of ' || ?4 || ')', fleet=iif(fleet_kills+1<?4,'waiting','failed')"
                        " WHERE name=?1 AND fleet='working'",
                        "ttii", profile, reason, not_before_ns, (int64_t)max);
    return r < 0 ? r : 0;
}

int catalog_fleet_gone(struct catalog *c, const char *profile, struct kymo_err *err)
{
    int r = catalog_run(c, err, "UPDATE profiles SET fleet='gone' WHERE name=? AND fleet='ready'", "t", profile);
    return r < 0 ? r : 0;
}
