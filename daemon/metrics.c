#include "daemon/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/prom.h"

#define FIRST_OCTAVE 14
#define OTHER "other"

struct histogram {
    uint64_t buckets[METRICS_BUCKETS + 1]; /* the last: all beyond */
    uint64_t sum_ns;
};

struct job_series {
    char name[JOBS_TEXT_MAX + 1];
    uint64_t round; /* last seen in */
    uint64_t ranks, step;
    struct histogram latency;
};

struct rank_series {
    uint64_t start, round;
    uint32_t pid, model;
    struct histogram last;
};

struct metrics {
    struct metrics_sources sources;
    uint64_t round;
    size_t njobs, nranks, ranks_cap, turn;
    struct job_series jobs[METRICS_JOBS_MAX + 1]; /* the first: others */
    struct rank_series *ranks;
};

/* Latencies of jobs */

static uint64_t load64(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}

/* Where a bucket of the hook's page, an octave's quarter, goes. */
static size_t place_of(size_t bucket)
{
    /* Bucket 0 ends at 2^10, the next four at 2^11 at last. */
    size_t octave = KYMO_HOOK_BUCKET_SHIFT + (bucket + 3) / 4;
    if (octave <= FIRST_OCTAVE)
        return 0;
    octave -= FIRST_OCTAVE;
    return octave < METRICS_BUCKETS ? octave : METRICS_BUCKETS;
}

static void read_slot(const struct kymo_hook_model_slot *slot, struct histogram *ret)
{
    *ret = (struct histogram){.sum_ns = load64(&slot->total_ns)};
    for (size_t i = 0; i < KYMO_HOOK_BUCKETS; i++)
        ret->buckets[place_of(i)] += load64(&slot->buckets[i]);
}

/* What is new since last; all of it when something went back, since then it is not the same page any more. */
static void add_growth(struct histogram *to, struct histogram *last, const struct histogram *now)
{
    bool back = now->sum_ns < last->sum_ns;
    for (size_t i = 0; i <= METRICS_BUCKETS; i++)
        back |= now->buckets[i] < last->buckets[i];
    if (back)
        *last = (struct histogram){0};
    for (size_t i = 0; i <= METRICS_BUCKETS; i++)
        to->buckets[i] += now->buckets[i] - last->buckets[i];
    to->sum_ns += now->sum_ns - last->sum_ns;
    *last = *now;
}

static struct rank_series *rank_of(struct metrics *m, const struct jobs_rank *r)
{
    /* They come in the order of the last round, mostly. */
    for (size_t i = 0; i < m->nranks; i++) {
        struct rank_series *s = &m->ranks[(m->turn + i) % m->nranks];
        if (s->pid != r->pid || s->start != r->start)
            continue;
        m->turn = (size_t)(s - m->ranks) + 1;
        return s;
    }
    if (kymo_grow((void **)&m->ranks, &m->ranks_cap, m->nranks + 1, 2 * JOBS_RANKS_MAX, sizeof *m->ranks) < 0)
        return NULL;
    struct rank_series *s = &m->ranks[m->nranks++];
    *s = (struct rank_series){.pid = r->pid, .start = r->start};
    return s;
}

static struct job_series *job_of(struct metrics *m, const char *name)
{
    for (size_t i = 0; i < m->njobs; i++)
        if (!strcmp(m->jobs[i].name, name))
            return &m->jobs[i];
    /* A job that has gone leaves its place. */
    for (size_t i = 1; i < m->njobs; i++)
        if (m->jobs[i].round + 1 < m->round) {
            m->jobs[i] = (struct job_series){.round = m->round};
            (void)snprintf(m->jobs[i].name, sizeof m->jobs[i].name, "%s", name);
            return &m->jobs[i];
        }
    if (m->njobs > METRICS_JOBS_MAX)
        return &m->jobs[0];
    struct job_series *j = &m->jobs[m->njobs++];
    *j = (struct job_series){0};
    (void)snprintf(j->name, sizeof j->name, "%s", name);
    return j;
}

static int take_rank(void *ctx, const struct jobs_rank *r)
{
    struct metrics *m = ctx;
    struct job_series *j = job_of(m, r->job ? r->job : "");
    struct rank_series *s = rank_of(m, r);
    if (j->round != m->round)
        j->ranks = j->step = 0;
    j->round = m->round;
    j->ranks++;
    j->step = r->step > j->step ? r->step : j->step;
    if (!s)
        return 0;
    s->round = m->round;
    if (!r->slot)
        return 0;
    struct histogram now;
    uint32_t model = __atomic_load_n(&r->slot->model, __ATOMIC_RELAXED);
    read_slot(r->slot, &now);
    if (model != s->model)
        s->last = (struct histogram){0};
    s->model = model;
    add_growth(&j->latency, &s->last, &now);
    return 0;
}

static void take_jobs(struct metrics *m)
{
    m->round++;
    m->turn = 0;
    (void)jobs_each(m->sources.status.jobs, take_rank, m);
    size_t kept = 0;
    for (size_t i = 0; i < m->nranks; i++)
        if (m->ranks[i].round == m->round)
            m->ranks[kept++] = m->ranks[i];
    m->nranks = kept;
}

static void write_histogram(struct prom *p, const struct job_series *j)
{
    uint64_t sum = 0;
    char le[32];
    for (size_t i = 0; i < METRICS_BUCKETS; i++) {
        sum += j->latency.buckets[i];
        uint64_t ns = 1ull << (FIRST_OCTAVE + i);
        (void)snprintf(le, sizeof le, "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
        prom_bucket(p, sum, "job_name", j->name, le);
    }
    sum += j->latency.buckets[METRICS_BUCKETS];
    prom_bucket(p, sum, "job_name", j->name, "+Inf");
    prom_sum(p, j->latency.sum_ns, sum, "job_name", j->name);
}

static void write_jobs(struct metrics *m, struct prom *p)
{
    const struct jobs *jobs = m->sources.status.jobs;
    prom_gauge(p, "kymod_jobs", jobs_count(jobs), "Jobs with the hook.");
    prom_gauge(p, "kymod_ranks", jobs_rank_count(jobs), "Their ranks.");
    take_jobs(m);
    prom_family(p, "kymod_job_ranks", "gauge", "Ranks of each job.");
    for (size_t i = 0; i < m->njobs; i++)
        if (m->jobs[i].round == m->round)
            prom_value(p, m->jobs[i].ranks, "job_name", m->jobs[i].name);
    prom_family(p, "kymod_job_step", "gauge", "Executions of the step model of the furthest rank of each job.");
    for (size_t i = 0; i < m->njobs; i++)
        if (m->jobs[i].round == m->round)
            prom_value(p, m->jobs[i].step, "job_name", m->jobs[i].name);
    prom_family(p, "kymod_step_latency_seconds", "histogram",
                "Executions of the step model by how long they took, over the ranks of each job.");
    for (size_t i = 0; i < m->njobs; i++)
        if (m->jobs[i].round == m->round)
            write_histogram(p, &m->jobs[i]);
}

/* Captures and losses */

static void write_captures(const struct metrics *m, struct prom *p)
{
    struct captures_counts c;
    captures_get_counts(m->sources.status.captures, &c);
    prom_family(p, "kymod_captures_total", "counter", "Captures that came so far.");
    prom_value(p, c.asked, "state", "asked");
    prom_value(p, c.saved, "state", "saved");
    prom_value(p, c.spooled, "state", "spooled");
    prom_value(p, c.sent, "state", "sent");
    prom_value(p, c.failed, "state", "failed");
    prom_gauge(p, "kymod_captures_under_way", c.under_way, "Captures begun and not over yet.");
    prom_family(p, "kymod_captures_failed_total", "counter", "Captures that failed, by cause.");
    for (int i = 0; i < CAPTURES_FAILURE_COUNT; i++)
        prom_value(p, c.failed_by[i], "cause", captures_failure_name((enum captures_failure)i));
    prom_family(p, "kymod_captures_skipped_total", "counter", "Periodic captures that were due and not begun.");
    prom_value(p, c.skipped, "cause", "busy");
    static const char *const names[] = {
#define X(symbol, number, why) [number] = why,
        KYMO_HOOK_REASON_MAP(X)
#undef X
    };
    prom_family(p, "kymod_capture_refusals_total", "counter", "Captures that a job's hook refused.");
    for (size_t i = KYMO_HOOK_REASON_NONE + 1; i < KYMO_HOOK_REASON_COUNT; i++)
        prom_value(p, c.refused[i], "reason", names[i]);
    prom_value(p, c.refused[KYMO_HOOK_REASON_NONE], "reason", "unknown");
    prom_family(p, "kymod_capture_stall_seconds_total", "counter", "What captures held jobs up.");
    prom_seconds(p, c.stall_ns, NULL, NULL);
    prom_counter(p, "kymod_capture_bytes_total", c.bytes, "Bytes of captures taken over.");
    prom_counter(p, "kymod_ring_records_lost_total", c.ring_records_lost,
                 "Records that found a ring full, as the collector counted them.");
}

static void write_lost(const struct spool_status *s, struct prom *p)
{
    prom_family(p, "kymod_spool_lost_captures_total", "counter", "Captures given up, by cause.");
    for (uint32_t i = 1; i <= SPOOL_CAUSES_N; i++)
        prom_value(p, s->lost_since_open[i].captures, "cause", spool_cause_name(i));
    prom_family(p, "kymod_spool_lost_bytes_total", "counter", "Bytes of captures given up, by cause.");
    for (uint32_t i = 1; i <= SPOOL_CAUSES_N; i++)
        prom_value(p, s->lost_since_open[i].bytes, "cause", spool_cause_name(i));
}

static void write_spool(const struct outbox_status *o, struct prom *p)
{
    static const char *const states[] = {"ok", "full", "stopped", "broken"};
    const struct spool_status *s = &o->spool;
    write_lost(s, p);
    prom_gauge(p, "kymod_spool_bytes", s->used_bytes, "Bytes that wait in the spool.");
    prom_gauge(p, "kymod_spool_limit_bytes", o->spool_bytes_max, "Bytes that may wait there.");
    prom_gauge(p, "kymod_spool_pending_captures", s->pending.captures, "Captures that wait there.");
    prom_gauge(p, "kymod_spool_orders_waiting", o->orders_waiting, "Work that waits for the spool's thread.");
    prom_counter(p, "kymod_spool_failed_syncs_total", s->failed_syncs, "Syncs to disk that failed.");
    prom_family(p, "kymod_spool_state", "gauge", "1 for the state that the spool is in.");
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        prom_value(p, !strcmp(states[i], outbox_spool_state(o)), "state", states[i]);
}

static void write_links(const struct outbox_status *o, struct prom *p)
{
    const struct outbox_link_status *l = o->links;
    size_t n = o->nlinks < OUTBOX_COLLECTORS_MAX ? o->nlinks : OUTBOX_COLLECTORS_MAX;
    prom_gauge(p, "kymod_uplink_lag_bytes", o->lag_bytes, "Bytes in the spool that no collector has acknowledged.");
    prom_family(p, "kymod_uplink_up", "gauge", "1 while the connection to a collector stands.");
    for (size_t i = 0; i < n; i++)
        prom_value(p, l[i].state == OUTBOX_LINK_UP, "collector", l[i].address);
    prom_family(p, "kymod_uplink_sent_bytes_total", "counter", "Bytes sent to a collector.");
    for (size_t i = 0; i < n; i++)
        prom_value(p, l[i].sent_bytes, "collector", l[i].address);
    prom_family(p, "kymod_uplink_connections_total", "counter", "Connections made to a collector.");
    for (size_t i = 0; i < n; i++)
        prom_value(p, l[i].connections, "collector", l[i].address);
}

/* Sockets and own cost */

static void write_sockets(const struct metrics *m, struct prom *p)
{
    struct control_counts c;
    struct hook_server_counts h = hook_server_get_counts(m->sources.hooks);
    control_get_counts(m->sources.control, &c);
    prom_gauge(p, "kymod_hook_sessions", h.sessions, "Processes with the hook that are connected.");
    prom_counter(p, "kymod_hook_connections_total", h.accepted, "Connections to the hook's socket.");
    prom_family(p, "kymod_hook_connections_refused_total", "counter", "Of these, turned away or closed.");
    prom_value(p, h.refused, "reason", "limit");
    prom_value(p, h.hostile, "reason", "protocol");
    prom_gauge(p, "kymod_control_clients", c.clients, "Clients on the control socket.");
    prom_counter(p, "kymod_control_requests_total", c.requests, "Requests of theirs.");
    prom_family(p, "kymod_control_refused_total", "counter", "Clients and requests turned away there.");
    prom_value(p, c.refused, "what", "client");
    prom_value(p, c.turned_down, "what", "request");
    prom_value(p, c.broken, "what", "protocol");
}

static void write_cost(const struct metrics *m, struct prom *p)
{
    struct own_cost_figures f;
    own_cost_get(m->sources.status.cost, &f);
    prom_family(p, "process_cpu_seconds_total", "counter", "CPU time of kymod.");
    prom_seconds(p, f.last.cpu_ns, NULL, NULL);
    prom_gauge(p, "process_resident_memory_bytes", f.last.rss_bytes, "Memory of kymod.");
    uint64_t up = kymo_clock_mono_ns() - m->sources.status.since_ns;
    prom_family(p, "process_start_time_seconds", "gauge", "When kymod began, Unix time.");
    prom_seconds(p, kymo_clock_real_ns() - up, NULL, NULL);
    prom_counter(p, "kymod_disk_written_bytes_total", f.last.written_bytes, "Bytes that kymod wrote to disk.");
    prom_counter(p, "kymod_network_sent_bytes_total", f.last.sent_bytes, "Bytes that kymod sent to collectors.");
    prom_family(p, "kymod_shedding", "gauge", "1 for what is still done while the operator's limits hold.");
    for (int i = 0; i < OWN_COST_RUNG_COUNT; i++)
        prom_value(p, f.rung == (enum own_cost_rung)i, "rung", own_cost_rung_name((enum own_cost_rung)i));
    prom_family(p, "kymod_shedding_decisions_total", "counter", "Changes of it, by what was gone to.");
    for (int i = 0; i < OWN_COST_RUNG_COUNT; i++)
        prom_value(p, f.decisions[i], "rung", own_cost_rung_name((enum own_cost_rung)i));
    prom_family(p, "kymod_captures_shed_total", "counter", "Captures not begun because of it.");
    for (int i = OWN_COST_LONGER; i < OWN_COST_RUNG_COUNT; i++)
        prom_value(p, f.skipped[i], "rung", own_cost_rung_name((enum own_cost_rung)i));
}

int metrics_new(const struct metrics_sources *sources, struct metrics **ret, struct kymo_err *err)
{
    struct metrics *m = KYMO_NEW(struct metrics);
    if (!m)
        return kymo_err_set(err, -ENOMEM, "metrics: out of memory");
    m->sources = *sources;
    m->njobs = 1;
    (void)snprintf(m->jobs[0].name, sizeof m->jobs[0].name, OTHER);
    *ret = m;
    return 0;
}

struct metrics *metrics_free(struct metrics *m)
{
    if (m)
        kymo_free(m->ranks);
    kymo_free(m);
    return NULL;
}

int metrics_write(struct metrics *m, struct kymo_buf *text, struct kymo_err *err)
{
    struct prom p = {.buf = text};
    struct outbox_status o;
    outbox_get_status(m->sources.status.outbox, &o);
    prom_family(&p, "kymod_build_info", "gauge", "The version that runs.");
    prom_value(&p, 1, "version", KYMO_VERSION);
    write_captures(m, &p);
    write_spool(&o, &p);
    write_links(&o, &p);
    write_jobs(m, &p);
    write_sockets(m, &p);
    write_cost(m, &p);
    return p.failed ? kymo_err_set(err, p.failed, "metrics: %s",
                                   p.failed == -ENOBUFS ? "too long an answer" : "out of memory")
                    : 0;
}
