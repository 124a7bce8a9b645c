#include "daemon/status.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/utf8.h"

#define CHUNK (32u << 10)
#define NAMES_MAX 64
/* What is kept for everything but the ranks. */
#define MESSAGE_REST (32u << 10)
#define FIELD_OVERHEAD 8u /* tag and length of a message within another, at most */

struct chunk {
    struct chunk *next;
    size_t used;
    _Alignas(max_align_t) uint8_t bytes[CHUNK];
};

struct status {
    struct chunk *chunks;
    Kymo__Control__StatusReply reply;
    Kymo__Control__OwnCost cost;
    Kymo__Control__RankStatus **ranks; /* of all jobs, in their order */
    size_t nranks, ranks_max, jobs_max, packed;
    const char *job; /* wanted; NULL: all */
    bool failed;
};

/* Zeroed memory that lives as long as the status; NULL leaves it failed. */
static void *take(struct status *s, size_t n)
{
    n = (n + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
    if (n > CHUNK || s->failed) {
        s->failed = true;
        return NULL;
    }
    if (!s->chunks || CHUNK - s->chunks->used < n) {
        struct chunk *c = KYMO_NEW(struct chunk);
        if (!c) {
            s->failed = true;
            return NULL;
        }
        c->next = s->chunks;
        s->chunks = c;
    }
    void *p = s->chunks->bytes + s->chunks->used;
    s->chunks->used += n;
    return p;
}

/* A clean copy of at most max bytes; NULL for nothing. */
static char *text(struct status *s, const char *from, size_t max)
{
    if (!from || !*from)
        return NULL;
    size_t n = strlen(from);
    n = n < max ? n : max;
    char *to = take(s, n + 1);
    if (to)
        kymo_utf8_copy_plain(to, n + 1, from, strlen(from));
    return to;
}

static Kymo__Control__Counted **add_counted(struct status *s, Kymo__Control__Counted **list, size_t *n,
                                            const char *name, const uint64_t *count, const uint64_t *bytes)
{
    if (!list)
        list = take(s, NAMES_MAX * sizeof *list);
    Kymo__Control__Counted *c = list && *n < NAMES_MAX ? take(s, sizeof *c) : NULL;
    if (!c)
        return list;
    kymo__control__counted__init(c);
    c->name = text(s, name, WIRE_NAME_MAX);
    c->has_count = 1;
    c->count = *count;
    c->has_bytes = bytes != NULL;
    c->bytes = bytes ? *bytes : 0;
    list[(*n)++] = c;
    return list;
}

#define SET(message, field, value) ((message)->has_##field = 1, (message)->field = (value))

static Kymo__Control__RankStatus *make_rank(struct status *s, const struct jobs_rank *r)
{
    Kymo__Control__RankStatus *to = take(s, sizeof *to);
    if (!to)
        return NULL;
    kymo__control__rank_status__init(to);
    SET(to, pid, r->pid);
    to->has_rank = r->rank_known;
    to->rank = r->rank;
    to->n_cores = r->ncores < JOBS_CORES_MAX ? r->ncores : JOBS_CORES_MAX;
    to->cores = to->n_cores ? take(s, to->n_cores * sizeof *to->cores) : NULL;
    if (to->cores)
        memcpy(to->cores, r->cores, to->n_cores * sizeof *to->cores);
    to->state = text(s, r->state, WIRE_ID_MAX);
    to->reason = text(s, r->reason, WIRE_TEXT_MAX);
    to->mode = text(s, r->mode, WIRE_ID_MAX);
    to->program = text(s, r->program, WIRE_NAME_MAX);
    to->unit = text(s, r->unit, WIRE_NAME_MAX);
    to->runtime_version = text(s, r->runtime_version, WIRE_ID_MAX);
    if (r->step_model)
        SET(to, step_model, r->step_model);
    SET(to, executions, r->executions);
    SET(to, captures, r->captures);
    SET(to, capturing, r->capturing);
    SET(to, is_async, r->is_async);
    SET(to, step, r->step);
    SET(to, failures, r->failures);
    SET(to, stall_ns, r->stall_ns);
    SET(to, uid, r->uid);
    if (r->latency_p50_ns)
        SET(to, latency_p50_ns, r->latency_p50_ns);
    if (r->latency_p99_ns)
        SET(to, latency_p99_ns, r->latency_p99_ns);
    return to;
}

/* The job that the rank belongs to: the last one, or a new one. */
static Kymo__Control__JobStatus *job_of(struct status *s, const struct jobs_rank *r)
{
    Kymo__Control__StatusReply *reply = &s->reply;
    char *name = text(s, r->job && *r->job ? r->job : "?", WIRE_NAME_MAX);
    if (!name)
        return NULL;
    Kymo__Control__JobStatus *last = reply->n_jobs ? reply->jobs[reply->n_jobs - 1] : NULL;
    if (last && !strcmp(last->job, name))
        return last->n_ranks < CONTROL_RANKS_MAX ? last : NULL;
    if (reply->n_jobs == s->jobs_max)
        return NULL;
    Kymo__Control__JobStatus *job = take(s, sizeof *job);
    if (!job)
        return NULL;
    kymo__control__job_status__init(job);
    job->job = name;
    job->has_step = 1;
    job->ranks = s->ranks + s->nranks;
    reply->jobs[reply->n_jobs++] = job;
    s->packed += strlen(name) + 2 * FIELD_OVERHEAD;
    return job;
}

static int add_rank(void *ctx, const struct jobs_rank *r)
{
    struct status *s = ctx;
    if (s->job && (!r->job || strcmp(s->job, r->job) != 0))
        return 0;
    if (s->packed >= CONTROL_MESSAGE_MAX - MESSAGE_REST || s->nranks == s->ranks_max) {
        s->reply.ranks_left_out++;
        return 0;
    }
    Kymo__Control__RankStatus *rank = make_rank(s, r);
    Kymo__Control__JobStatus *job = rank ? job_of(s, r) : NULL;
    if (!job) {
        s->reply.ranks_left_out++;
        return s->failed ? -ENOMEM : 0;
    }
    s->ranks[s->nranks++] = rank;
    job->n_ranks++;
    job->step = r->step > job->step ? r->step : job->step;
    s->packed += protobuf_c_message_get_packed_size(&rank->base) + FIELD_OVERHEAD;
    return 0;
}

static void add_jobs(struct status *s, const struct jobs *jobs)
{
    size_t nranks = jobs_rank_count(jobs);
    size_t njobs = jobs_count(jobs) + 1; /* and one for ranks whose labels are not known yet */
    s->ranks_max = nranks < JOBS_RANKS_MAX ? nranks : JOBS_RANKS_MAX;
    s->jobs_max = njobs < CONTROL_JOBS_MAX ? njobs : CONTROL_JOBS_MAX;
    s->ranks = take(s, s->ranks_max * sizeof *s->ranks);
    s->reply.jobs = take(s, s->jobs_max * sizeof *s->reply.jobs);
    if (s->failed || jobs_each(jobs, add_rank, s) < 0)
        s->failed = true;
    s->reply.has_ranks_left_out = s->reply.ranks_left_out > 0;
}

static void add_captures(struct status *s, struct captures *captures)
{
    Kymo__Control__StatusReply *r = &s->reply;
    struct captures_counts c;
    captures_get_counts(captures, &c);
    const struct {
        const char *name;
        uint64_t count;
    } rows[] = {{"asked", c.asked},     {"under-way", c.under_way}, {"saved", c.saved},
                {"spooled", c.spooled}, {"sent", c.sent},           {"failed", c.failed}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        r->states = add_counted(s, r->states, &r->n_states, rows[i].name, &rows[i].count, NULL);
    static const char *const reasons[] = {
#define X(symbol, number, why) [number] = why,
        KYMO_HOOK_REASON_MAP(X)
#undef X
    };
    for (size_t i = KYMO_HOOK_REASON_NONE; i < KYMO_HOOK_REASON_COUNT; i++)
        if (c.refused[i])
            r->refusals = add_counted(s, r->refusals, &r->n_refusals, i ? reasons[i] : "unknown", &c.refused[i], NULL);
    for (int i = 0; i < CAPTURES_FAILURE_COUNT; i++)
        if (c.failed_by[i])
            r->failures = add_counted(s, r->failures, &r->n_failures, captures_failure_name((enum captures_failure)i),
                                      &c.failed_by[i], NULL);
    if (c.skipped) {
        r->has_skipped = 1;
        r->skipped = c.skipped;
    }
    SET(r, captures, c.spooled);
    SET(r, ring_records_lost, c.ring_records_lost);
    SET(r, stall_ns, c.stall_ns);
}

const char *status_link_state(enum outbox_link l)
{
    static const char *const names[] = {[OUTBOX_LINK_OFF] = "off",
                                        [OUTBOX_LINK_CONNECTING] = "connecting",
                                        [OUTBOX_LINK_UP] = "up",
                                        [OUTBOX_LINK_WAITING] = "waiting"};
    return names[l];
}

static Kymo__Control__CollectorStatus *make_link(struct status *s, const struct outbox_status *o, size_t i,
                                                 uint64_t now_ms)
{
    const struct outbox_link_status *l = &o->links[i];
    Kymo__Control__CollectorStatus *to = take(s, sizeof *to);
    if (!to)
        return NULL;
    kymo__control__collector_status__init(to);
    to->address = text(s, l->address[0] ? l->address : "?", WIRE_NAME_MAX);
    to->state = text(s, status_link_state(l->state), WIRE_ID_MAX);
    to->reason = text(s, l->reason, WIRE_TEXT_MAX);
    SET(to, lag_bytes, o->lag_bytes);
    SET(to, sent_bytes, l->sent_bytes);
    SET(to, connections, l->connections);
    if (l->state == OUTBOX_LINK_WAITING)
        SET(to, retry_in_ms, l->retry_at_ms > now_ms ? l->retry_at_ms - now_ms : 0);
    return to;
}

/* Why the spool is not as it should be; "": it is. */
static void add_outbox(struct status *s, struct outbox *outbox, uint64_t now_ms)
{
    Kymo__Control__StatusReply *r = &s->reply;
    struct outbox_status o;
    char reason[OUTBOX_REASON_SIZE];
    outbox_get_status(outbox, &o);
    outbox_spool_reason(&o, reason);
    SET(r, spool_bytes, o.spool.used_bytes);
    SET(r, spool_max_bytes, o.spool_bytes_max);
    SET(r, spool_pending, o.spool.pending.captures);
    r->spool_state = text(s, outbox_spool_state(&o), WIRE_ID_MAX);
    r->spool_reason = text(s, reason, WIRE_TEXT_MAX);
    for (uint32_t cause = 1; cause <= SPOOL_CAUSES_N; cause++) {
        const struct spool_amount *lost = &o.spool.lost_since_open[cause];
        if (lost->captures)
            r->losses = add_counted(s, r->losses, &r->n_losses, spool_cause_name(cause), &lost->captures, &lost->bytes);
    }
    r->collectors = take(s, OUTBOX_COLLECTORS_MAX * sizeof *r->collectors);
    for (size_t i = 0; r->collectors && i < o.nlinks && i < OUTBOX_COLLECTORS_MAX; i++) {
        r->collectors[i] = make_link(s, &o, i, now_ms);
        r->n_collectors += r->collectors[i] != NULL;
    }
}

static void add_cost(struct status *s, struct own_cost *cost)
{
    struct own_cost_figures f;
    own_cost_get(cost, &f);
    Kymo__Control__OwnCost *c = &s->cost;
    kymo__control__own_cost__init(c);
    SET(c, cpu_ms, f.last.cpu_ns / 1000000);
    SET(c, cpu_ppm, f.cpu_percent > 0 ? (uint64_t)(f.cpu_percent * 10000) : 0);
    SET(c, rss_bytes, f.last.rss_bytes);
    SET(c, disk_bytes, f.last.written_bytes);
    SET(c, net_bytes, f.last.sent_bytes);
    SET(c, disk_bytes_s, f.disk_bytes_s);
    SET(c, net_bytes_s, f.net_bytes_s);
    if (f.rung != OWN_COST_ALL) {
        c->shedding = text(s, own_cost_rung_name(f.rung), WIRE_ID_MAX);
        c->reason = text(s, f.why, WIRE_TEXT_MAX);
    }
    s->reply.cost = c;
}

int status_make(const struct status_sources *sources, const char *job, struct status **ret, struct kymo_err *err)
{
    struct status *s = KYMO_NEW(struct status);
    if (!s)
        return kymo_err_set(err, -ENOMEM, "status: out of memory");
    kymo__control__status_reply__init(&s->reply);
    s->job = job;
    s->reply.version = text(s, KYMO_VERSION, WIRE_ID_MAX);
    SET(&s->reply, uptime_ms, (kymo_clock_mono_ns() - sources->since_ns) / 1000000);
    add_jobs(s, sources->jobs);
    add_captures(s, sources->captures);
    add_outbox(s, sources->outbox, uv_now(sources->loop));
    add_cost(s, sources->cost);
    if (s->failed) {
        status_free(s);
        return kymo_err_set(err, -ENOMEM, "status: out of memory");
    }
    *ret = s;
    return 0;
}

struct status *status_free(struct status *s)
{
    while (s && s->chunks) {
        struct chunk *c = s->chunks;
        s->chunks = c->next;
        kymo_free(c);
    }
    kymo_free(s);
    return NULL;
}

Kymo__Control__StatusReply *status_message(struct status *s)
{
    return &s->reply;
}
