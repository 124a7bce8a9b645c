/* What changes the catalogue. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "collector/catalog_impl.h"

static int64_t now_ns(void)
{
    return (int64_t)kymo_clock_real_ns();
}

static int put_capture(struct catalog *c, const Kymo__Manifest__Capture *m, const char *state, const char *source,
                       const char *reason, struct kymo_err *err)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->n_files; i++)
        bytes += m->files[i]->size;
    int r = catalog_run(c, err,
                        "INSERT INTO captures(id,state,reason,job,rank,host,boot_id,mode,trigger,first_execution,"
                        " execution_count,start_unix_ns,end_unix_ns,instance_type,driver_version,runtime_version,"
                        " writer,files,bytes,received_ns,source,request)"
                        " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
                        " ON CONFLICT(id) DO UPDATE SET state=excluded.state, reason=excluded.reason,"
                        " received_ns=excluded.received_ns, source=coalesce(excluded.source,source)"
                        " WHERE state='receiving'",
                        "ttttittttiiiitttt"
                        "iiitt",
                        m->capture_id, state, reason, m->job, (int64_t)m->rank, m->host, m->boot_id, m->mode,
                        m->trigger, (int64_t)m->first_execution, (int64_t)m->execution_count, (int64_t)m->start_unix_ns,
                        (int64_t)m->end_unix_ns, m->instance_type, m->driver_version, m->runtime_version, m->writer,
                        (int64_t)m->n_files, (int64_t)bytes, now_ns(), source, m->request);
    return r < 0 ? r : 0;
}

int catalog_receiving(struct catalog *c, const Kymo__Manifest__Capture *m, const char *source, const char *reason,
                      struct kymo_err *err)
{
    return put_capture(c, m, "receiving", source, reason, err);
}

static int put_labels(struct catalog *c, const Kymo__Manifest__Capture *m, struct kymo_err *err)
{
    for (size_t i = 0; i < m->n_labels; i++) {
        const char *key = m->labels[i]->key, *value = m->labels[i]->value;
        int r = catalog_run(c, err, "INSERT OR REPLACE INTO labels VALUES(?,?,?)", "ttt", m->capture_id, key ? key : "",
                            value ? value : "");
        if (r < 0)
            return r;
    }
    return 0;
}

static int put_profile(struct catalog *c, const Kymo__Manifest__Capture *m, size_t i, const char *name,
                       struct kymo_err *err)
{
    const Kymo__Manifest__File *f = m->files[i];
    return catalog_run(c, err,
                       "INSERT INTO profiles(name,capture,file,file_index,vnc,file_size,state,received_ns)"
                       " VALUES(?,?,?,?,?,?,'received',?) ON CONFLICT(name) DO NOTHING",
                       "tttiiii", name, m->capture_id, f->name, (int64_t)i, (int64_t)f->vnc, (int64_t)f->size,
                       now_ns());
}

/* A core that executed nothing leaves an empty file, of which there is nothing to be made. */
static int put_profiles(struct catalog *c, const Kymo__Manifest__Capture *m, struct kymo_err *err)
{
    for (size_t i = 0; i < m->n_files; i++) {
        const Kymo__Manifest__File *f = m->files[i];
        char name[MANIFEST_PROFILE_NAME_MAX + 1];
        if (!manifest_file_is_profile(f))
            continue;
        manifest_file_profile_name(m, i, name);
        int n = put_profile(c, m, i, name, err);
        if (n == 0) {
            /* Jobs and hosts are free text, so another capture may have made this very name. */
            (void)snprintf(name, sizeof name, "%s-f%zu", m->capture_id, i);
            n = put_profile(c, m, i, name, err);
        }
        if (n <= 0)
            return n < 0 ? n : kymo_err_set(err, -EINVAL, "there is a profile %s already", name);
    }
    return 0;
}

int catalog_has_capture(struct catalog *c, const char *capture, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    int r = catalog_prepare(c, &s, err, "SELECT 1 FROM captures WHERE id=? AND state='received'", "t", capture);
    if (r < 0)
        return r;
    int code = sqlite3_step(s);
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        return code == SQLITE_ROW;
    return catalog_error(c, "cannot read", err);
}

static int put_owner(struct catalog *c, const char *capture, const char *owner, struct kymo_err *err)
{
    int r = catalog_run(c, err, "UPDATE captures SET owner=?2 WHERE id=?1", "tt", capture, owner);
    return r < 0 ? r : 0;
}

int catalog_received(struct catalog *c, const Kymo__Manifest__Capture *m, struct kymo_err *err)
{
    return catalog_received_of(c, m, NULL, err);
}

int catalog_received_of(struct catalog *c, const Kymo__Manifest__Capture *m, const char *owner, struct kymo_err *err)
{
    int r = catalog_script(c, "BEGIN IMMEDIATE", err);
    if (r < 0)
        return r;
    int known = catalog_has_capture(c, m->capture_id, err);
    r = known < 0 ? known : 0;
    if (known == 0) {
        r = put_capture(c, m, "received", NULL, NULL, err);
        if (r == 0 && owner)
            r = put_owner(c, m->capture_id, owner, err);
        if (r == 0)
            r = put_labels(c, m, err);
        if (r == 0)
            r = put_profiles(c, m, err);
    }
    return catalog_end(c, r, err);
}

int catalog_forget(struct catalog *c, const char *capture, struct kymo_err *err)
{
    int r = catalog_run(c, err, "DELETE FROM captures WHERE id=? AND state='receiving'", "t", capture);
    return r < 0 ? r : 0;
}

/* r: rows that a transition changed. None: says why. */
static int moved(struct catalog *c, const char *profile, const char *verb, int r, struct kymo_err *err)
{
    struct catalog_profile p;
    if (r != 0)
        return r < 0 ? r : 0;
    r = catalog_find(c, profile, &p, err);
    return r < 0 ? r
                 : kymo_err_set(err, -EINVAL, "profile %s is %s and cannot be %s", profile, catalog_state_name(p.state),
                                verb);
}

#define QUEUE                                                                                                          \
    "UPDATE profiles SET state='queued', reason=NULL, file_offset=NULL, stage=NULL, done=0, total=0, attempts=0,"      \
    " kills=0, queued_ns=?2, started_ns=NULL, finished_ns=NULL "

int catalog_queue_all(struct catalog *c, const char *capture, struct kymo_err *err)
{
    int known = capture ? catalog_has_capture(c, capture, err) : 1;
    if (known <= 0)
        return known < 0 ? known : kymo_err_set(err, -ENOENT, "there is no capture %.100s", capture);
    return catalog_run(c, err,
                       QUEUE "WHERE (state='failed' AND ?1 IS NULL) OR (state IN ('ready','failed') AND capture=?1)",
                       "ti", capture, now_ns());
}

int catalog_queue(struct catalog *c, const char *profile, struct kymo_err *err)
{
    int r =
        catalog_run(c, err, QUEUE "WHERE name=?1 AND state IN ('received','ready','failed')", "ti", profile, now_ns());
    return moved(c, profile, "queued", r, err);
}

int catalog_queue_received(struct catalog *c, const char *capture, struct kymo_err *err)
{
    int r =
        catalog_run(c, err, "UPDATE profiles SET state='queued', queued_ns=?2 WHERE capture=?1 AND state='received'",
                    "ti", capture, now_ns());
    return r < 0 ? r : 0;
}

int catalog_start(struct catalog *c, const char *profile, const char *processor, struct kymo_err *err)
{
    int r = catalog_run(c, err,
                        "UPDATE profiles SET state='processing', reason=NULL, file_offset=NULL, stage=NULL, done=0,"
                        " total=0, attempts=attempts+1, processor=?2, started_ns=?3, finished_ns=NULL"
                        " WHERE name=?1 AND state='queued'",
                        "tti", profile, processor, now_ns());
    return moved(c, profile, "started", r, err);
}

int catalog_hand_over(struct catalog *c, const char *profile, const char *processor, struct kymo_err *err)
{
    int r = catalog_run(c, err,
                        "UPDATE profiles SET processor=?2, stage=NULL, done=0, total=0"
                        " WHERE name=?1 AND state='processing'",
                        "tt", profile, processor);
    return moved(c, profile, "handed over", r, err);
}

int catalog_progress(struct catalog *c, const char *profile, const char *stage, uint64_t done, uint64_t total,
                     struct kymo_err *err)
{
    int r = catalog_run(c, err, "UPDATE profiles SET stage=?2, done=?3, total=?4 WHERE name=?1 AND state='processing'",
                        "ttii", profile, stage, (int64_t)done, (int64_t)total);
    return moved(c, profile, "going on", r, err);
}

int catalog_ready(struct catalog *c, const char *profile, const struct catalog_result *result, struct kymo_err *err)
{
    int r = catalog_run(c, err,
                        "UPDATE profiles SET state='ready', stage=NULL, done=0, total=0, finished_ns=?2,"
                        " schema_version=?3, records=?4, tables=?5, bytes=?6 WHERE name=?1 AND state='processing'",
                        "titiii", profile, now_ns(), result->schema_version, (int64_t)result->records,
                        (int64_t)result->tables, (int64_t)result->bytes);
    return moved(c, profile, "ready", r, err);
}

int catalog_fail(struct catalog *c, const char *profile, const char *reason, int64_t offset, struct kymo_err *err)
{
    int r = catalog_run(c, err,
                        "UPDATE profiles SET state='failed', reason=?2, file_offset=nullif(?3,-1), finished_ns=?4"
                        " WHERE name=?1 AND state='processing'",
                        "ttii", profile, reason, offset, now_ns());
    return moved(c, profile, "failed", r, err);
}

int catalog_put_back(struct catalog *c, const char *profile, const char *reason, int64_t not_before_ns,
                     struct kymo_err *err)
{
    int r = catalog_run(c, err,
                        "UPDATE profiles SET state='queued', reason=?2, stage=NULL, done=0, total=0, queued_ns=?3"
                        " WHERE name=?1 AND state='processing'",
                        "tti", profile, reason, not_before_ns);
    return moved(c, profile, "put back", r, err);
}

int catalog_killed(struct catalog *c, const char *profile, const char *reason, int64_t not_before_ns, uint32_t max,
                   struct kymo_err *err)
{
    int r = catalog_run(c, err,
                        "UPDATE profiles SET kills=kills+1, stage=NULL, done=0, total=0,"
                        " reason=?2 || ' (try ' || (kills+1) || ' of ' || ?4 || ')',"
                        " state=iif(kills+1<?4,'queued','failed'), queued_ns=iif(kills+1<?4,?3,queued_ns),"
                        " finished_ns=iif(kills+1<?4,NULL,?5) WHERE name=?1 AND state='processing'",
                        "ttiii", profile, reason, not_before_ns, (int64_t)max, now_ns());
    return moved(c, profile, "put back", r, err);
}

int catalog_recover(struct catalog *c, struct kymo_err *err)
{
    int r = catalog_run(c, err,
                        "UPDATE profiles SET reason=iif(state='processing','interrupted',reason), state='queued',"
                        " stage=NULL, done=0, total=0, queued_ns=min(coalesce(queued_ns,?1),?1)"
                        " WHERE state IN ('received','queued','processing')",
                        "i", now_ns());
    if (r >= 0)
        r = catalog_run(c, err, "UPDATE profiles SET fleet='waiting', fleet_ns=0 WHERE fleet='working'", "");
    return r < 0 ? r : 0;
}
