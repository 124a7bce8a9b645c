/*
 * A hook says HELLO: within KYMO_HOOK_QUESTION_MS it has its policy. Labels and the intake directory come from a
 * worker, since reading a process's memory and making directories may take as long as they like; when they take too
 * long, a first policy of the operator's general wishes goes out, which decides about buffers, and the whole one
 * follows.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/utf8.h"
#include "daemon/jobs_internal.h"
#include "daemon/policy.h"

#define FIRST_ANSWER_MS 35

struct read_task {
    struct rank_task task;
    struct hook_session *session; /* that it is for; never looked into */
    struct process who;
    bool is_over;
    int code, intake; /* descriptor, or a negative errno */
    struct kymo_err err;
};

static bool is_same(const struct kymo_hook_policy *a, const struct kymo_hook_policy *b)
{
    return a->mode == b->mode && a->flags == b->flags && a->step_model == b->step_model &&
           a->stall_limit_ns == b->stall_limit_ns && a->neff_max_bytes == b->neff_max_bytes &&
           a->neff_total_bytes == b->neff_total_bytes && a->hbm_need_bytes == b->hbm_need_bytes &&
           a->hbm_capacity_bytes == b->hbm_capacity_bytes && a->hbm_device == b->hbm_device &&
           a->hbm_core_first == b->hbm_core_first && a->hbm_core_count == b->hbm_core_count &&
           !memcmp(a->buffer_mb, b->buffer_mb, sizeof a->buffer_mb);
}

void rank_send_policy(struct rank *r, int intake)
{
    struct jobs *j = r->jobs;
    const bool known = r->welcome == RANK_WELCOMED;
    const struct policy_inputs in = {.config = j->config.config,
                                     .host = j->config.host,
                                     .learned = j->config.learned,
                                     .who = known ? &r->who : NULL};
    struct kymo_hook_policy p;
    char note[POLICY_NOTE_MAX];
    policy_make(&in, &p, note);
    if (known)
        p.step_model =
            rank_step_model(r, config_policy_of(in.config, r->who.job, process_label(&r->who, "unit"))->step_model);
    if (r->is_over)
        p.flags |= KYMO_HOOK_POLICY_OFF;
    if (!r->session || (r->policy_sent && intake < 0 && is_same(&p, &r->policy)))
        return;
    if (known && *note && !r->policy_sent)
        kymo_log(KYMO_LOG_INFO, "job %s, process %d: buffers %s", r->who.job, (int)r->who.pid, note);
    if (r->policy_sent) /* the first answer has decided about buffers */
        memcpy(p.buffer_mb, r->policy.buffer_mb, sizeof p.buffer_mb);
    r->policy = p;
    r->policy_sent = true;
    (void)hook_session_send_policy(r->session, &p, intake);
}

static void on_slow(uv_timer_t *t)
{
    struct rank *r = t->data;
    if (r->session && !r->policy_sent)
        rank_send_policy(r, -1);
}

static void find_cores(struct rank *r)
{
    r->ncores = process_parse_cores(process_label(&r->who, "visible_cores"), r->cores, JOBS_CORES_MAX);
}

/* Is the process still the one whose labels were read? */
static bool lives(const struct rank *r)
{
    struct pollfd p = {.fd = r->pidfd, .events = POLLIN};
    return r->pidfd < 0 || poll(&p, 1, 0) == 0;
}

static void finish_reading(struct rank *r, struct read_task *t)
{
    struct kymo_err *err = &t->err;
    if (t->code == 0 && (t->who.start != r->who.start || !lives(r)))
        t->code = kymo_err_set(err, -ESRCH, "process %d has ended", (int)r->who.pid);
    if (t->code == 0) {
        r->who = t->who;
        rank_set_job(r, r->who.job);
        find_cores(r);
    }
    if (t->code < 0 || (t->intake < 0 && !t->is_over)) {
        r->welcome = RANK_REFUSED;
        (void)snprintf(r->reason, sizeof r->reason, "%.150s", err->text);
        say_limited(&r->jobs->say, KYMO_LOG_WARNING, "process %d is not captured: %s", (int)r->who.pid, err->text);
        rank_send_policy(r, -1);
        return;
    }
    r->welcome = RANK_WELCOMED;
    if (!r->is_over)
        r->reason[0] = '\0';
    rank_send_policy(r, t->intake);
    if (!r->session)
        return;
    say_limited(&r->jobs->say, KYMO_LOG_INFO, "job %s: rank %u is process %d (%s)", r->who.job, r->who.rank,
                (int)r->who.pid, r->program);
    rank_save_state(r);
    r->jobs->config.ops->ready(r->jobs->config.ctx, r);
}

static void start_waiting(struct jobs *j);

static void read_work(struct rank_task *task)
{
    struct read_task *t = (struct read_task *)task;
    const struct rank *r = task->rank;
    t->code = process_read(r->who.pid, &t->who, &t->err);
    if (t->code == 0 && !t->is_over)
        t->intake = intake_make(r->jobs->config.intake, r->key, r->uid, r->gid, &t->err);
}

static void read_done(struct rank_task *task, bool ran)
{
    struct read_task *t = (struct read_task *)task;
    struct rank *r = task->rank;
    struct jobs *j = r->jobs;
    j->readers--;
    r->is_reading = false;
    (void)uv_timer_stop(&r->timer);
    if (ran && r->session && r->session == t->session)
        finish_reading(r, t);
    (void)kymo_file_close(t->intake);
    kymo_free(t);
    start_waiting(j);
}

static bool start_reading(struct rank *r)
{
    struct read_task *t = KYMO_NEW(struct read_task);
    if (!t)
        return false;
    t->session = r->session;
    t->intake = -1;
    t->is_over = r->is_over;
    t->task.work = read_work;
    t->task.done = read_done;
    r->waits_for_reader = false;
    r->is_reading = true;
    r->jobs->readers++;
    rank_queue(r, &t->task);
    return true;
}

/* One process of a user at a time, so that nobody keeps others out with processes that cannot be read. */
static bool user_is_reading(const struct jobs *j, uid_t uid)
{
    for (const struct rank *r = j->ranks; r; r = r->next)
        if (r->uid == uid && r->is_reading)
            return true;
    return false;
}

static void start_waiting(struct jobs *j)
{
    for (struct rank *r = j->ranks; r && j->readers < JOBS_READERS_MAX && !j->stopping; r = r->next)
        if (r->waits_for_reader && r->session && !user_is_reading(j, r->uid) && !start_reading(r))
            return;
}

void rank_welcome(struct rank *r, struct hook_session *s, const struct kymo_hook_hello *h)
{
    r->session = s;
    r->welcome = RANK_NEW;
    r->policy_sent = false;
    r->run_state = KYMO_HOOK_RUN_STARTING;
    r->armed = KYMO_HOOK_MODE_NONE;
    r->step_model = 0;
    r->ended = r->is_cleared = false;
    r->came_again = (h->flags & KYMO_HOOK_HELLO_AGAIN) != 0;
    if (!r->came_again)
        rank_forget_models(r);
    kymo_utf8_copy_plain(r->program, sizeof r->program, h->program, sizeof h->program);
    kymo_utf8_copy_plain(r->hook_version, sizeof r->hook_version, h->hook_version, sizeof h->hook_version);
    hook_session_set_data(s, r);
    r->waits_for_reader = true;
    (void)uv_timer_start(&r->timer, on_slow, FIRST_ANSWER_MS, 0);
    start_waiting(r->jobs);
}

void rank_read_again(struct rank *r)
{
    r->waits_for_reader = true;
    start_waiting(r->jobs);
}
