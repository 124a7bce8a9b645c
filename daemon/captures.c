#include "daemon/captures.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/captures_internal.h"

#define NS_PER_MS 1000000ull
#define MS_PER_S 1000ull
#define COUNT_BY_TIME 1000000u /* steps of a session that ends by its duration */

const char *captures_state_name(enum captures_state s)
{
    static const char *const names[CAPTURES_STATE_COUNT] = {
#define X(symbol, text) [CAPTURES_##symbol] = (text),
        CAPTURES_STATES(X)
#undef X
    };
    return s < CAPTURES_STATE_COUNT ? names[s] : "?";
}

/* Records */

struct capture *captures_add(struct captures *c, struct rank *r, const char *hook_id)
{
    struct capture *p = c->n < CAPTURES_MAX ? KYMO_NEW(struct capture) : NULL;
    if (!p)
        return NULL;
    p->rank = r;
    rank_hold(r);
    (void)snprintf(p->id, sizeof p->id, "%s", hook_id);
    (void)snprintf(p->hook_id, sizeof p->hook_id, "%s", hook_id);
    p->trigger = "";
    struct capture **tail = &c->first;
    while (*tail)
        tail = &(*tail)->next;
    *tail = p;
    c->n++;
    c->counts.under_way++;
    return p;
}

static void let_rank_go(struct captures *c, struct capture *p)
{
    struct rank *r = p->rank;
    if (!r)
        return;
    if (r->current == p)
        r->current = NULL;
    p->rank = NULL;
    c->counts.under_way--;
    rank_release(r);
}

void captures_remove(struct captures *c, struct capture *p)
{
    for (struct capture **at = &c->first; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            c->n--;
            break;
        }
    let_rank_go(c, p);
    (void)intake_capture_free(p->files);
    kymo_free(p);
}

struct capture *captures_find(const struct captures *c, const struct rank *r, const char *hook_id)
{
    struct capture *p = c->first;
    while (p && (p->rank != r || strcmp(p->hook_id, hook_id) != 0))
        p = p->next;
    return p;
}

static void forget_ask(struct captures *c, struct captures_ask *ask)
{
    for (struct captures_ask **at = &c->asks; *at; at = &(*at)->next)
        if (*at == ask) {
            *at = ask->next;
            break;
        }
    kymo_free(ask);
}

static bool is_end(const struct captures_ask *ask, enum captures_state s)
{
    return s == CAPTURES_FAILED || s == CAPTURES_SENT || (s == CAPTURES_SPOOLED && !ask->wait);
}

/* Tells who watches. At the end of its last capture the ask is gone. */
static void tell(struct captures *c, struct capture *p, const char *text)
{
    struct captures_ask *ask = p->ask;
    if (!ask)
        return;
    bool over = is_end(ask, p->state);
    if (over) {
        p->ask = NULL;
        ask->left--;
    }
    bool last = over && ask->left == 0;
    if (ask->watch && !c->stopping)
        ask->watch(ask->ctx, p->id, p->state, text, last);
    /* Before its last word the watcher may have gone in the meantime, and the ask with it. */
    if (last)
        forget_ask(c, ask);
}

void captures_set_state(struct captures *c, struct capture *p, enum captures_state now, const char *text)
{
    p->state = now;
    if (now == CAPTURES_SAVED)
        c->counts.saved++;
    if (now == CAPTURES_SPOOLED)
        c->counts.spooled++;
    tell(c, p, text);
}

void captures_fail(struct captures *c, struct capture *p, enum captures_failure cause, const char *fmt, ...)
{
    char text[KYMO_ERR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    c->counts.failed++;
    c->counts.failed_by[cause]++;
    if (p->rank)
        say_limited(&c->say, KYMO_LOG_WARNING, "capture %s of job %s, process %d: %s", p->id, p->rank->who.job,
                    (int)p->rank->who.pid, text);
    captures_set_state(c, p, CAPTURES_FAILED, text);
    captures_remove(c, p);
    captures_kick(c);
}

/* Timers */

static void on_soon(uv_timer_t *t)
{
    struct captures *c = t->data;
    captures_arm(c);
    captures_plan(c);
}

static void on_tick(uv_timer_t *t)
{
    struct captures *c = t->data;
    captures_watch_hooks(c);
    captures_give_waiting(c);
    captures_tell_shed(c);
    captures_check_started(c);
    if (!captures_want_tick(c))
        (void)uv_timer_stop(t);
}

void captures_kick(struct captures *c)
{
    if (c->stopping || !c->is_started)
        return;
    (void)uv_timer_start(&c->soon, on_soon, 0, 0);
    if (!uv_is_active((uv_handle_t *)&c->tick) && captures_want_tick(c))
        (void)uv_timer_start(&c->tick, on_tick, CAPTURES_TICK_MS, CAPTURES_TICK_MS);
}

/* Asks */

static bool has_core(const struct rank *r, const struct captures_wish *w)
{
    for (size_t i = 0; i < w->ncores; i++)
        for (size_t k = 0; k < r->ncores; k++)
            if (r->cores[k] == w->cores[i])
                return true;
    return w->ncores == 0;
}

static bool is_meant(const struct rank *r, const struct captures_wish *w)
{
    return r->session && !r->ended && (!w->job || !strcmp(w->job, r->who.job)) &&
           (w->pid == 0 || w->pid == (uint32_t)r->who.pid) && has_core(r, w);
}

/* The first of ranks_one_in that are meant, and so on. */
static bool is_its_turn(const struct rank *r, const struct captures_wish *w, size_t *meant)
{
    return is_meant(r, w) && (*meant)++ % (w->ranks_one_in ? w->ranks_one_in : 1) == 0;
}

#define WHY_SIZE 224

/* Why it cannot be asked now; NULL: it can. A rank that only begins is asked as soon as it is ready. */
static const char *why_not(const struct captures *c, const struct rank *r, const struct captures_wish *w,
                           char text[static WHY_SIZE])
{
    const struct capture *p = r->current;
    if (r->welcome == RANK_REFUSED)
        return r->reason;
    if (r->is_over)
        return r->reason;
    if (r->policy.flags & KYMO_HOOK_POLICY_OFF)
        return "switched off by the policy";
    if (r->run_state == KYMO_HOOK_RUN_CLOSED)
        return "its runtime is closed";
    if (!p || (captures_may_replace(p) && strcmp(w->trigger, "periodic") != 0))
        return NULL;
    uint64_t now = uv_now(c->loop), until = p->state == CAPTURES_ARMED ? p->begin_by_ms : p->deadline_ms;
    int n = snprintf(text, WHY_SIZE, "a capture is under way: %s, %s", p->id, captures_state_name(p->state));
    if (p->step)
        n += snprintf(text + n, WHY_SIZE - (size_t)n, " for step %llu", (unsigned long long)p->step);
    (void)snprintf(text + n, WHY_SIZE - (size_t)n, ", given up in %llu s at the latest",
                   (unsigned long long)(until > now ? (until - now) / MS_PER_S : 0));
    return text;
}

void captures_make_id(struct captures *c, const char *trigger, char ret[static KYMO_HOOK_ID_MAX])
{
    /* The letter tells the trigger again to a kymod that finds the capture after a restart. */
    char letter = !strcmp(trigger, "periodic") ? 'p' : !strcmp(trigger, "collector") ? 'c' : 'd';
    (void)snprintf(ret, KYMO_HOOK_ID_MAX, "%c-%llx-%s-%llx", letter,
                   (unsigned long long)(kymo_clock_real_ns() / NS_PER_MS), c->host->mark,
                   (unsigned long long)++c->number);
}

static const char *constant_trigger(const char *trigger)
{
    static const char *const known[] = {"periodic", "on-demand", "collector"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i], trigger))
            return known[i];
    return "on-demand";
}

static struct capture *start_one(struct captures *c, struct rank *r, const struct captures_wish *w,
                                 enum kymo_hook_mode mode)
{
    const struct config_policy *policy = config_policy_of(c->config, r->who.job, process_label(&r->who, "unit"));
    char id[KYMO_HOOK_ID_MAX];
    captures_make_id(c, w->trigger, id);
    struct capture *p = captures_add(c, r, id);
    if (!p)
        return NULL;
    p->trigger = constant_trigger(w->trigger);
    p->mode = mode != KYMO_HOOK_MODE_NONE ? mode : config_mode(policy);
    p->step = w->step;
    p->duration_ns = w->duration_ms * NS_PER_MS;
    p->count = w->count ? w->count : w->duration_ms ? COUNT_BY_TIME : (uint32_t)policy->count;
    p->deadline_ms = uv_now(c->loop) + c->config->capture_timeout_s * MS_PER_S + w->duration_ms;
    r->current = p;
    c->counts.asked++;
    return p;
}

static int check_wish(const struct captures *c, const struct captures_wish *w, enum kymo_hook_mode *ret_mode,
                      struct kymo_err *err)
{
    *ret_mode = w->mode ? hook_packet_mode_of(w->mode) : KYMO_HOOK_MODE_NONE;
    if (w->mode && (*ret_mode == KYMO_HOOK_MODE_COUNT || *ret_mode == KYMO_HOOK_MODE_NONE ||
                    *ret_mode == KYMO_HOOK_MODE_ON_FAILURE))
        return kymo_err_set(err, -EINVAL, "mode \"%.40s\": one of model, continuous and session can be asked for",
                            w->mode);
    if (c->config->off)
        return kymo_err_set(err, -EPERM, "captures are switched off");
    if (!c->is_started || c->stopping)
        return kymo_err_set(err, -EBUSY, "kymod is starting or ending");
    return 0;
}

struct asking {
    size_t meant, started;
    char why[WHY_SIZE]; /* of the last that could not */
    int pid;
};

static void ask_rank(struct captures *c, struct rank *r, const struct captures_wish *w, enum kymo_hook_mode mode,
                     struct captures_ask *ask, char ids[][KYMO_HOOK_ID_MAX], struct asking *a)
{
    char text[WHY_SIZE];
    const char *why = why_not(c, r, w, text);
    if (!why && r->current && a->started < CAPTURES_IDS_MAX) {
        captures_take_back(r->current);
        captures_fail(c, r->current, CAPTURES_REPLACED, "replaced by a capture that was asked for (%s)", w->trigger);
    }
    struct capture *p = why || a->started == CAPTURES_IDS_MAX ? NULL : start_one(c, r, w, mode);
    if (!p) {
        (void)snprintf(a->why, sizeof a->why, "%s", why ? why : "too many captures");
        a->pid = (int)r->who.pid;
        return;
    }
    memcpy(ids[a->started++], p->id, KYMO_HOOK_ID_MAX);
    (void)snprintf(p->request, sizeof p->request, "%s", w->request ? w->request : ids[0]);
    if (ask) {
        p->ask = ask;
        ask->left++;
    }
}

static struct captures_ask *new_ask(struct captures *c, captures_watch *watch, void *ctx, bool wait)
{
    struct captures_ask *ask = KYMO_NEW(struct captures_ask);
    if (!ask)
        return NULL;
    *ask = (struct captures_ask){.next = c->asks, .watch = watch, .ctx = ctx, .wait = wait};
    c->asks = ask;
    return ask;
}

int captures_ask(struct captures *c, const struct captures_wish *wish, captures_watch *watch, void *ctx,
                 char ids[][KYMO_HOOK_ID_MAX], size_t *ret_n, struct captures_ask **ret_ask, struct kymo_err *err)
{
    struct captures_ask *ask = NULL;
    enum kymo_hook_mode mode;
    struct asking a = {0};
    int code = check_wish(c, wish, &mode, err);
    if (code < 0)
        return code;
    if (watch && !(ask = new_ask(c, watch, ctx, wish->wait)))
        return kymo_err_set(err, -ENOMEM, "no memory for a capture");
    for (struct rank *r = jobs_first(c->jobs); r; r = r->next) {
        if (is_its_turn(r, wish, &a.meant))
            ask_rank(c, r, wish, mode, ask, ids, &a);
    }
    if (a.started == 0) {
        if (ask)
            forget_ask(c, ask);
        return a.meant == 0 ? kymo_err_set(err, -ENOENT, "no rank of this host is meant")
                            : kymo_err_set(err, -EBUSY, "process %d: %s", a.pid, a.why);
    }
    if (a.why[0])
        (void)kymo_err_set(err, -EBUSY, "process %d: %s", a.pid, a.why);
    *ret_n = a.started;
    if (ask && ret_ask)
        *ret_ask = ask;
    captures_kick(c);
    return 0;
}

size_t captures_count_meant(const struct captures *c, const struct captures_wish *wish)
{
    size_t n = 0, meant = 0;
    char text[WHY_SIZE];
    for (const struct rank *r = c->jobs ? jobs_first(c->jobs) : NULL; r; r = r->next)
        n += is_its_turn(r, wish, &meant) && !why_not(c, r, wish, text);
    return n;
}

void captures_unwatch(struct captures *c, struct captures_ask *ask)
{
    for (struct capture *p = c->first; p; p = p->next)
        if (p->ask == ask)
            p->ask = NULL;
    forget_ask(c, ask);
}

void captures_get_counts(const struct captures *c, struct captures_counts *ret)
{
    *ret = c->counts;
}

/* Life */

const struct rank_ops captures_rank_ops = {.ready = captures_on_ready,
                                           .captured = captures_on_captured,
                                           .refused = captures_on_refused,
                                           .ended = captures_on_ended};
static void on_changed(void *ctx)
{
    struct captures *c = ctx;
    if (c->outbox && !c->stopping)
        outbox_say_changes(&c->said, c->outbox);
}

const struct outbox_ops captures_outbox_ops = {.taken = captures_on_taken,
                                               .neff = captures_on_neff,
                                               .sent = captures_on_sent,
                                               .request = captures_on_request,
                                               .ring_losses = captures_on_ring_losses,
                                               .changed = on_changed};

int captures_new(const struct captures_config *config, struct captures **ret, struct kymo_err *err)
{
    struct captures *c = KYMO_NEW(struct captures);
    if (!c)
        return kymo_err_set(err, -ENOMEM, "no memory for captures");
    c->loop = config->loop;
    c->config = config->config;
    c->host = config->host;
    c->learned = config->learned;
    c->learned_path = config->learned_path;
    c->intake = config->intake;
    c->cost = config->cost;
    (void)uv_timer_init(c->loop, &c->tick);
    (void)uv_timer_init(c->loop, &c->soon);
    (void)uv_timer_init(c->loop, &c->period);
    c->tick.data = c->soon.data = c->period.data = c;
    c->handles = 3;
    if (getrandom(&c->random, sizeof c->random, GRND_NONBLOCK) != (ssize_t)sizeof c->random)
        c->random = kymo_clock_real_ns();
    *ret = c;
    return 0;
}

int captures_start(struct captures *c, struct jobs *jobs, struct outbox *outbox, struct kymo_err *err)
{
    c->jobs = jobs;
    c->outbox = outbox;
    c->is_started = true;
    jobs_set_outbox(jobs, outbox);
    outbox_say_changes(&c->said, outbox); /* a spool without room is told at once */
    c->starting++;
    int r = jobs_adopt(jobs, err);
    for (struct rank *k = jobs_first(jobs); k && r == 0; k = k->next)
        if (!k->ended)
            captures_look(c, k);
    c->starting--;
    captures_check_started(c);
    captures_kick(c);
    return r;
}

void captures_reconfigure(struct captures *c, const struct config *config)
{
    c->config = config;
    for (struct rank *r = jobs_first(c->jobs); r; r = r->next)
        if (r->job)
            r->job->due_ms = 0; /* another period may hold from now on */
    captures_kick(c);
}

void captures_stop(struct captures *c)
{
    c->stopping = true;
    (void)uv_timer_stop(&c->tick);
    (void)uv_timer_stop(&c->soon);
    (void)uv_timer_stop(&c->period);
}

static void on_handle_closed(uv_handle_t *h)
{
    struct captures *c = h->data;
    if (--c->handles == 0)
        kymo_free(c);
}

struct captures *captures_free(struct captures *c)
{
    if (!c)
        return NULL;
    c->stopping = true;
    for (struct capture *p = c->first, *next; p; p = next) {
        next = p->next;
        (void)intake_capture_free(p->files);
        kymo_free(p);
    }
    while (c->asks)
        forget_ask(c, c->asks);
    uv_close((uv_handle_t *)&c->tick, on_handle_closed);
    uv_close((uv_handle_t *)&c->soon, on_handle_closed);
    uv_close((uv_handle_t *)&c->period, on_handle_closed);
    return NULL;
}
