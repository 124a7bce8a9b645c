#include "daemon/quota.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <uv.h>

#include "base/alloc.h"
#include "daemon/config.h"
#include "daemon/jobs_internal.h"

#define LOOK_MS 2000
#define SHARE 100 /* measuring takes at most one part in so many of a worker's time */

struct item {
    char key[INTAKE_KEY_MAX];
    uint64_t bytes;
    size_t entries;
};

struct quota {
    struct jobs *jobs;
    uv_timer_t timer;
    uv_work_t work;
    bool is_busy;
    size_t n;
    struct item *items;
    uint64_t took_ns, not_before_ms;
};

static void measure(uv_work_t *w)
{
    struct quota *q = w->data;
    uint64_t begin = uv_hrtime();
    for (size_t i = 0; i < q->n; i++)
        intake_measure(q->jobs->config.intake, q->items[i].key, &q->items[i].bytes, &q->items[i].entries);
    q->took_ns = uv_hrtime() - begin;
}

static bool is_of(const struct rank *r, const struct job *job, uid_t uid)
{
    return r->job == job && r->uid == uid;
}

static void empty_work(struct rank_task *t)
{
    intake_empty(t->rank->jobs->config.intake, t->rank->key);
}

static void empty_done(struct rank_task *t, bool ran)
{
    (void)ran;
    kymo_free(t);
}

static void switch_off(struct rank *r, const char *why)
{
    struct rank_task *t = r->removing ? NULL : KYMO_NEW(struct rank_task);
    r->is_over = true;
    (void)snprintf(r->reason, sizeof r->reason, "%s", why);
    if (t) {
        t->work = empty_work;
        t->done = empty_done;
        rank_queue(r, t);
    }
    if (r->session && r->welcome == RANK_WELCOMED)
        rank_send_policy(r, -1);
}

/* All ranks of one user's job. */
static void switch_job_off(struct jobs *j, const struct job *job, uid_t uid, const char *why)
{
    kymo_log(KYMO_LOG_WARNING, "job %s is switched off: %s", job ? job->name : "?", why);
    for (struct rank *r = j->ranks; r; r = r->next)
        if (is_of(r, job, uid) && !r->is_over)
            switch_off(r, why);
}

static uint64_t sum(const struct jobs *j, uid_t uid)
{
    uint64_t n = 0;
    for (const struct rank *r = j->ranks; r; r = r->next)
        n += r->uid == uid ? r->intake_bytes : 0;
    return n;
}

static uint64_t sum_of_job(const struct jobs *j, const struct job *job, uid_t uid)
{
    uint64_t n = 0;
    for (const struct rank *r = j->ranks; r; r = r->next)
        n += is_of(r, job, uid) && !r->is_over ? r->intake_bytes : 0;
    return n;
}

/* The job of this user that has most and is not switched off; NULL: none has anything. */
static const struct rank *largest(const struct jobs *j, uid_t uid)
{
    const struct rank *found = NULL;
    uint64_t most = 0;
    for (const struct rank *r = j->ranks; r; r = r->next) {
        uint64_t n = r->uid == uid && !r->is_over ? sum_of_job(j, r->job, uid) : 0;
        if (n > most) {
            most = n;
            found = r;
        }
    }
    return found;
}

static void check_user(struct jobs *j, uid_t uid, uint64_t limit)
{
    char why[160];
    uint64_t all = sum(j, uid);
    const struct rank *r = all > limit ? largest(j, uid) : NULL;
    if (!r)
        return;
    (void)snprintf(why, sizeof why, "user %u has %llu bytes in the intake, the limit is %llu (intake-bytes)",
                   (unsigned)uid, (unsigned long long)all, (unsigned long long)limit);
    switch_job_off(j, r->job, uid, why);
}

static void check(struct quota *q)
{
    struct jobs *j = q->jobs;
    uint64_t limit = j->config.config->intake_bytes;
    char why[160];
    for (struct rank *r = j->ranks; r; r = r->next)
        if (r->intake_entries > INTAKE_ENTRIES_MAX && !r->is_over) {
            (void)snprintf(why, sizeof why, "process %d has more than %d files in the intake", (int)r->who.pid,
                           INTAKE_ENTRIES_MAX);
            switch_job_off(j, r->job, r->uid, why);
        }
    for (const struct rank *r = j->ranks; r && limit > 0; r = r->next) {
        const struct rank *first = j->ranks;
        while (first->uid != r->uid)
            first = first->next;
        if (first == r) /* each user once */
            check_user(j, r->uid, limit);
    }
}

static void measured(uv_work_t *w, int status)
{
    struct quota *q = w->data;
    q->is_busy = false;
    for (size_t i = 0; i < q->n && status == 0; i++) {
        struct rank *r = rank_find(q->jobs, q->items[i].key);
        if (!r)
            continue;
        r->intake_bytes = q->items[i].bytes;
        r->intake_entries = q->items[i].entries;
    }
    kymo_free(q->items);
    q->items = NULL;
    q->not_before_ms = uv_now(q->jobs->config.loop) + q->took_ns / 1000000 * SHARE;
    if (status == 0 && !q->jobs->stopping)
        check(q);
}

static void on_timer(uv_timer_t *t)
{
    struct quota *q = t->data;
    struct jobs *j = q->jobs;
    if (q->is_busy || j->nranks == 0 || uv_now(j->config.loop) < q->not_before_ms)
        return;
    q->items = KYMO_NEW_ARRAY(struct item, j->nranks);
    q->n = 0;
    for (const struct rank *r = j->ranks; r && q->items; r = r->next)
        memcpy(q->items[q->n++].key, r->key, sizeof r->key);
    q->work.data = q;
    q->is_busy = q->items && uv_queue_work(j->config.loop, &q->work, measure, measured) == 0;
    if (!q->is_busy) {
        kymo_free(q->items);
        q->items = NULL;
    }
}

int quota_new(struct jobs *j, struct quota **ret, struct kymo_err *err)
{
    struct quota *q = KYMO_NEW(struct quota);
    if (!q || uv_timer_init(j->config.loop, &q->timer) < 0) {
        kymo_free(q);
        return kymo_err_set(err, -ENOMEM, "no memory to watch the intake");
    }
    q->jobs = j;
    q->timer.data = q;
    (void)uv_timer_start(&q->timer, on_timer, LOOK_MS, LOOK_MS);
    *ret = q;
    return 0;
}

bool quota_is_busy(const struct quota *q)
{
    return q && q->is_busy;
}

static void on_closed(uv_handle_t *h)
{
    struct quota *q = h->data;
    q->jobs->handles--;
    kymo_free(q);
}

struct quota *quota_free(struct quota *q)
{
    if (!q)
        return NULL;
    q->jobs->handles++;
    uv_close((uv_handle_t *)&q->timer, on_closed);
    return NULL;
}
