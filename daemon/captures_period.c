/* Periodic captures: each job has its own time, jittered, and takes one rank in k in turn. */
#include <stdio.h>

#include "daemon/captures_internal.h"

#define MS_PER_S 1000ull
#define NEVER UINT64_MAX

/* 0 to 1; spreads captures, decides nothing. */
static double next_random(struct captures *c)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return (double)(c->random >> 11) / (double)(1ull << 53);
}

static const struct rank *ready_rank(const struct captures *c, const struct job *job)
{
    for (const struct rank *r = jobs_first(c->jobs); r; r = r->next)
        if (r->job == job && rank_can_capture(r))
            return r;
    return NULL;
}

static const struct config_policy *policy_of(const struct captures *c, const struct rank *r)
{
    return config_policy_of(c->config, r->who.job, process_label(&r->who, "unit"));
}

static void ask_rank(struct captures *c, const struct rank *r)
{
    const struct captures_wish wish = {.trigger = "periodic", .pid = (uint32_t)r->who.pid};
    char ids[CAPTURES_IDS_MAX][KYMO_HOOK_ID_MAX];
    struct kymo_err err = {0};
    size_t n;
    if (captures_ask(c, &wish, NULL, NULL, ids, &n, NULL, &err) < 0)
        kymo_log(KYMO_LOG_DEBUG, "job %s, process %d: no periodic capture: %s", r->who.job, (int)r->who.pid, err.text);
}

static void capture_job(struct captures *c, struct job *job, uint64_t one_in)
{
    const char *why = NULL;
    uint64_t i = 0, shed = 0;
    bool allowed = !c->cost || own_cost_allows_turn(c->cost, job->dues++, &why);
    for (const struct rank *r = jobs_first(c->jobs); r; r = r->next) {
        if (r->job != job || !rank_can_capture(r))
            continue;
        uint64_t number = r->who.rank_known ? r->who.rank : i++;
        if ((number + job->turn) % one_in != 0)
            continue;
        if (r->current)
            c->counts.skipped++;
        else if (allowed)
            ask_rank(c, r);
        else
            shed++;
    }
    job->turn += allowed;
    if (shed > 0) {
        say_limited(&c->say, KYMO_LOG_INFO, "job %s: no periodic capture: %s", job->name, why ? why : "");
        captures_shed(c, shed);
    }
}

/* When it is due next; captures what is due now. */
static uint64_t visit(struct captures *c, struct job *job)
{
    const struct rank *r = ready_rank(c, job);
    const struct config_policy *p = r ? policy_of(c, r) : NULL;
    uint64_t now = uv_now(c->loop);
    if (!p || p->period_s == 0 || p->off || c->config->off) {
        job->due_ms = 0;
        return NEVER;
    }
    double period = (double)(p->period_s * MS_PER_S);
    if (job->due_ms == 0) {
        /* Jobs that start together shall not be captured together. */
        job->due_ms = now + 1 + (uint64_t)(period * (p->jitter > 0 ? next_random(c) : 1));
    } else if (now >= job->due_ms) {
        capture_job(c, job, p->ranks_one_in);
        job->due_ms = now + 1 + (uint64_t)(period * (1 + p->jitter * (2 * next_random(c) - 1)));
    }
    return job->due_ms;
}

static void on_due(uv_timer_t *t)
{
    captures_plan(t->data);
}

void captures_plan(struct captures *c)
{
    uint64_t next = NEVER, now = uv_now(c->loop);
    if (c->stopping)
        return;
    for (struct job *job = jobs_first_job(c->jobs); job; job = job->next) {
        uint64_t due = visit(c, job);
        next = due < next ? due : next;
    }
    if (next == NEVER)
        (void)uv_timer_stop(&c->period);
    else
        (void)uv_timer_start(&c->period, on_due, next > now ? next - now : 0, 0);
}
