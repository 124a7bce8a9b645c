#include "daemon/rank.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "daemon/host.h"
#include "daemon/jobs_internal.h"
#include "daemon/manifest.h"
#include "daemon/outbox.h"

#define LINGER_MS 2000 /* a connection of a process that has ended may have so much time to say its last words */

struct rank *rank_find(const struct jobs *j, const char *key)
{
    struct rank *r = j->ranks;
    while (r && strcmp(r->key, key) != 0)
        r = r->next;
    return r;
}

/* Jobs */

static void leave_job(struct rank *r)
{
    struct jobs *j = r->jobs;
    struct job *job = r->job;
    r->job = NULL;
    if (!job || --job->nranks > 0)
        return;
    for (struct job **p = &j->jobs; *p; p = &(*p)->next)
        if (*p == job) {
            *p = job->next;
            break;
        }
    kymo_free(job);
    j->njobs--;
}

void rank_set_job(struct rank *r, const char *name)
{
    struct jobs *j = r->jobs;
    struct job *job = j->jobs;
    if (r->job && !strcmp(r->job->name, name))
        return;
    leave_job(r);
    while (job && strcmp(job->name, name) != 0)
        job = job->next;
    if (!job) {
        job = j->njobs < JOBS_MAX ? KYMO_NEW(struct job) : NULL;
        if (!job)
            return; /* it belongs to none, and is not captured by period */
        (void)snprintf(job->name, sizeof job->name, "%s", name);
        struct job **tail = &j->jobs;
        while (*tail)
            tail = &(*tail)->next;
        *tail = job;
        j->njobs++;
    }
    job->nranks++;
    r->job = job;
}

/* Tasks */

static void run_next(struct rank *r);

static void work(uv_work_t *req)
{
    struct rank_task *t = req->data;
    t->work(t);
}

static void after(uv_work_t *req, int status)
{
    struct rank_task *t = req->data;
    struct rank *r = t->rank;
    r->first_task = t->next;
    if (!r->first_task)
        r->last_task = NULL;
    t->done(t, status == 0);
    r->is_working = false;
    run_next(r);
}

static void run_next(struct rank *r)
{
    struct rank_task *t = r->first_task;
    if (!t) {
        rank_check_end(r);
        return;
    }
    t->req.data = t;
    r->is_working = true;
    if (uv_queue_work(r->jobs->config.loop, &t->req, work, after) < 0)
        after(&t->req, UV_ECANCELED);
}

void rank_queue(struct rank *r, struct rank_task *t)
{
    t->rank = r;
    t->next = NULL;
    if (r->first_task)
        r->last_task->next = t;
    else
        r->first_task = t;
    r->last_task = t;
    if (!r->is_working)
        run_next(r);
}

/* Life */

static void on_handle_closed(uv_handle_t *h)
{
    struct rank *r = h->data;
    r->jobs->handles--;
    if (--r->handles > 0)
        return;
    (void)kymo_file_close(r->pidfd);
    kymo_free(r);
}

int rank_new(struct jobs *j, const char *key, uid_t uid, gid_t gid, struct rank **ret, struct kymo_err *err)
{
    if (j->nranks >= JOBS_RANKS_MAX)
        return kymo_err_set(err, -ENOBUFS, "more than %d ranks", JOBS_RANKS_MAX);
    struct rank *r = KYMO_NEW(struct rank);
    if (!r || uv_timer_init(j->config.loop, &r->timer) < 0) {
        kymo_free(r);
        return kymo_err_set(err, -ENOMEM, "no memory for a rank");
    }
    r->jobs = j;
    r->uid = uid;
    r->gid = gid;
    r->pidfd = -1;
    r->handles = 1;
    j->handles++;
    r->timer.data = r;
    (void)snprintf(r->key, sizeof r->key, "%s", key);
    struct rank **tail = &j->ranks;
    while (*tail)
        tail = &(*tail)->next;
    *tail = r;
    j->nranks++;
    *ret = r;
    return 0;
}

void rank_free(struct rank *r)
{
    struct jobs *j = r->jobs;
    for (struct rank **p = &j->ranks; *p; p = &(*p)->next)
        if (*p == r) {
            *p = r->next;
            break;
        }
    j->nranks--;
    leave_job(r);
    rank_forget_models(r);
    if (r->pidfd >= 0)
        uv_close((uv_handle_t *)&r->exit_poll, on_handle_closed);
    uv_close((uv_handle_t *)&r->timer, on_handle_closed);
}

static void on_lingered(uv_timer_t *t)
{
    struct rank *r = t->data;
    if (r->session)
        hook_session_close(r->session, "its process has ended");
}

static void on_exit_event(uv_poll_t *h, int status, int events)
{
    struct rank *r = h->data;
    (void)status;
    (void)events;
    (void)uv_poll_stop(h);
    r->exited = true;
    if (r->session)
        (void)uv_timer_start(&r->timer, on_lingered, LINGER_MS, 0);
    rank_check_end(r);
}

void rank_watch_exit(struct rank *r, int pidfd)
{
    if (pidfd < 0 || r->pidfd >= 0 || uv_poll_init(r->jobs->config.loop, &r->exit_poll, pidfd) < 0) {
        (void)kymo_file_close(pidfd);
        return;
    }
    r->pidfd = pidfd;
    r->handles++;
    r->jobs->handles++;
    r->exit_poll.data = r;
    (void)uv_poll_start(&r->exit_poll, UV_READABLE, on_exit_event);
}

static void remove_work(struct rank_task *t)
{
    intake_remove(t->rank->jobs->config.intake, t->rank->key);
}

static void remove_done(struct rank_task *t, bool ran)
{
    (void)ran;
    kymo_free(t);
}

static void remove_rank(struct rank *r)
{
    struct rank_task *t = r->removing ? NULL : KYMO_NEW(struct rank_task);
    r->removing = true;
    if (!t) {
        rank_free(r);
        return;
    }
    t->work = remove_work;
    t->done = remove_done;
    rank_queue(r, t);
}

void rank_check_end(struct rank *r)
{
    struct jobs *j = r->jobs;
    if (r->first_task || r->is_working || r->session || j->stopping)
        return;
    if (r->removing) {
        rank_free(r);
        return;
    }
    if (!r->ended && (r->exited || r->pidfd < 0)) {
        r->ended = true;
        j->config.ops->ended(j->config.ctx, r);
    }
}

static void remove_if_over(struct rank *r)
{
    if (r->ended && r->is_cleared && r->ncaptures == 0 && !r->removing && !r->jobs->stopping)
        remove_rank(r);
}

void rank_hold(struct rank *r)
{
    r->ncaptures++;
}

void rank_release(struct rank *r)
{
    r->ncaptures--;
    remove_if_over(r);
}

void rank_cleared(struct rank *r)
{
    r->is_cleared = true;
    remove_if_over(r);
}

/* Models and numbers */

const struct rank_model *rank_find_model(const struct rank *r, uint32_t number)
{
    for (size_t i = 0; i < r->nmodels; i++)
        if (r->models[i].number == number)
            return &r->models[i];
    return NULL;
}

bool rank_can_capture(const struct rank *r)
{
    return r->session && r->welcome == RANK_WELCOMED && !r->ended && r->run_state == KYMO_HOOK_RUN_READY &&
           !(r->policy.flags & KYMO_HOOK_POLICY_OFF);
}

static uint64_t load64(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static uint64_t quantile(const struct kymo_hook_model_slot *slot, uint64_t total, unsigned percent)
{
    uint64_t wanted = total * percent / 100 + 1, sum = 0;
    for (unsigned i = 0; i < KYMO_HOOK_BUCKETS; i++) {
        sum += load64(&slot->buckets[i]);
        if (sum >= wanted) {
            /* The upper end of the bucket: four of them to an octave. */
            uint64_t octave = 1ull << (KYMO_HOOK_BUCKET_SHIFT + i / 4);
            return octave + octave / 4 * (i % 4);
        }
    }
    return 0;
}

static void read_latency(const struct kymo_hook_model_slot *slot, struct rank_numbers *n)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < KYMO_HOOK_BUCKETS; i++)
        total += load64(&slot->buckets[i]);
    if (total == 0 || total > UINT64_MAX / 100)
        return;
    n->p50_ns = quantile(slot, total, 50);
    n->p99_ns = quantile(slot, total, 99);
}

/* Is m rather the step model than best? As the hook decides. */
static bool is_step(const struct rank *r, const struct rank_model *m, uint64_t count, const struct rank_numbers *best)
{
    if (!best->step || m->number == r->step_model)
        return true;
    if (best->step->number == r->step_model)
        return false;
    return count > best->steps || (count == best->steps && m->number < best->step->number);
}

void rank_read_numbers(const struct rank *r, struct rank_numbers *ret)
{
    const struct kymo_hook_page *page = r->session ? hook_session_page(r->session) : NULL;
    const struct kymo_hook_model_slot *step = NULL;
    struct rank_numbers n = {.executions = r->executions, .failures = r->failures};
    for (size_t i = 0; page && i < r->nmodels; i++) {
        const struct rank_model *m = &r->models[i];
        if (!m->is_loaded || m->slot >= KYMO_HOOK_MODELS)
            continue;
        const struct kymo_hook_model_slot *slot = &page->slots[m->slot];
        uint64_t count = load64(&slot->executions) + load64(&slot->schedules);
        if (__atomic_load_n(&slot->model, __ATOMIC_RELAXED) != m->number)
            continue;
        n.executions += count;
        n.failures += load64(&slot->failures);
        if (is_step(r, m, count, &n)) {
            n.step = m;
            n.steps = count;
            step = slot;
        }
    }
    if (page)
        n.is_async = __atomic_load_n(&page->is_async, __ATOMIC_RELAXED) != 0;
    if (step)
        read_latency(step, &n);
    n.slot = step;
    *ret = n;
}

/* State on disk */

struct save_task {
    struct rank_task task;
    uint8_t *packed;
    size_t n;
    int code;
    struct kymo_err err;
};

static void save_work(struct rank_task *t)
{
    struct save_task *s = (struct save_task *)t;
    s->code = intake_save_state(t->rank->jobs->config.intake, t->rank->key, s->packed, s->n, &s->err);
}

void rank_tell_neffs(struct rank *r, bool saved)
{
    for (size_t i = 0; r->session && i < r->nmodels; i++) {
        struct rank_model *m = &r->models[i];
        if (!m->is_awaited || m->ticket || (m->has_neff && !saved))
            continue;
        m->is_awaited = false;
        if (hook_session_send_neff_done(r->session, m->number) < 0)
            return;
    }
}

static void save_done(struct rank_task *t, bool ran)
{
    struct save_task *s = (struct save_task *)t;
    struct rank *r = t->rank;
    if (ran && s->code < 0)
        say_limited(&r->jobs->say, KYMO_LOG_WARNING, "%s; a restart would not know process %s", s->err.text, r->key);
    const bool saved = ran && s->code == 0;
    kymo_free(s->packed);
    kymo_free(s);
    if (r->removing)
        return;
    if (r->is_dirty)
        rank_save_state(r);
    else if (saved)
        rank_tell_neffs(r, true);
}

void rank_save_state(struct rank *r)
{
    for (const struct rank_task *t = r->first_task; t; t = t->next)
        if (t->done == save_done) {
            r->is_dirty = true;
            return;
        }
    struct save_task *s = KYMO_NEW(struct save_task);
    if (!s || manifest_pack_rank(r, r->jobs->config.host, &s->packed, &s->n) < 0) {
        kymo_free(s);
        return;
    }
    r->is_dirty = false;
    s->task.work = save_work;
    s->task.done = save_done;
    rank_queue(r, &s->task);
}

void rank_load_state(struct rank *r, const Kymo__Manifest__Capture *who)
{
    if (!who)
        return;
    manifest_read_rank(who, r);
    rank_set_job(r, who->job && *who->job ? who->job : "unknown");
}
