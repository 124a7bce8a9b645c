#include "collector/work_queue.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "collector/fleet_store.h"
#include "collector/work_job.h"

#define PLAN_NS 1000000000u
#define PROGRESS_NS 250000000u /* between two notes of progress in the catalogue */

struct slot {
    bool used;
    struct work_job job;
    uint64_t noted_ns; /* when its progress was noted last */
};

struct work_queue {
    struct work_queue_config config;
    int epoll;
    uint64_t planned_ns;                       /* when parents were looked for */
    char swept[MANIFEST_PROFILE_NAME_MAX + 1]; /* the last whose tables were looked for */
    struct slot slots[WORK_QUEUE_CHILDREN_MAX];
};

static int64_t now_ns(void)
{
    return (int64_t)kymo_clock_real_ns();
}

char *work_queue_place(const char *data_path, const char *profile)
{
    return kymo_asprintf("%s/profiles/global/%s@latest", data_path, profile);
}

static char *slot_directory(const struct work_queue *q, size_t i)
{
    return kymo_asprintf("%s/work/%zu", q->config.data_path, i);
}

static void queue_freep(struct work_queue **q)
{
    work_queue_free(*q);
}

static int make_directories(const struct work_queue *q, struct kymo_err *err)
{
    char *work KYMO_FREE = kymo_asprintf("%s/work", q->config.data_path);
    char *place KYMO_FREE = kymo_asprintf("%s/profiles/global", q->config.data_path);
    if (!work || !place)
        return kymo_err_set(err, -ENOMEM, "no memory for the work queue");
    int r = kymo_file_remove_tree(work, err);
    if (r == 0)
        r = kymo_file_mkdirs(work, err);
    return r < 0 ? r : kymo_file_mkdirs(place, err);
}

static int check_config(const struct work_queue_config *config, struct kymo_err *err)
{
    if (!config->children || config->children > WORK_QUEUE_CHILDREN_MAX)
        return kymo_err_set(err, -EINVAL, "%u processors at a time, 1 to %d are possible", config->children,
                            WORK_QUEUE_CHILDREN_MAX);
    int r = config->gather_program ? fleet_store_check_cluster(config->cluster, err) : 0;
    return r == 0 && config->external ? external_check(config->external, err) : r;
}

int work_queue_configure(struct work_queue *q, const struct work_queue_config *config, struct kymo_err *err)
{
    int r = check_config(config, err);
    if (r < 0)
        return r;
    struct work_queue_config *c = &q->config;
    c->process_program = config->process_program;
    c->gather_program = config->gather_program;
    c->cluster = config->cluster;
    c->gather_settle_ms = config->gather_settle_ms;
    c->gather_limit_ms = config->gather_limit_ms;
    c->limits = config->limits;
    c->external = config->external;
    c->children = config->children;
    c->retry_ms = config->retry_ms;
    return 0;
}

int work_queue_open(const struct work_queue_config *config, struct work_queue **ret, struct kymo_err *err)
{
    int r = check_config(config, err);
    if (r < 0)
        return r;
    struct work_queue *q KYMO_CLEANUP(queue_freep) = KYMO_NEW(struct work_queue);
    if (!q)
        return kymo_err_set(err, -ENOMEM, "no memory for the work queue");
    q->config = *config;
    q->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (q->epoll < 0)
        return kymo_err_set(err, -errno, "cannot watch processors: %s", strerror(errno));
    r = make_directories(q, err);
    if (r == 0)
        *ret = KYMO_TAKE(q);
    return r;
}

struct work_queue *work_queue_free(struct work_queue *q)
{
    if (!q)
        return NULL;
    for (size_t i = 0; i < WORK_QUEUE_CHILDREN_MAX; i++)
        if (q->slots[i].used)
            work_job_done(&q->slots[i].job);
    kymo_file_close(q->epoll);
    kymo_free(q);
    return NULL;
}

static int tell(struct work_queue *q, const struct slot *s, struct kymo_err *err)
{
    struct catalog_profile p;
    if (!q->config.changed || s->job.kind == WORK_FLEET)
        return 0; /* rows of the fleet change nothing about the profile */
    int r = catalog_find(q->config.catalog, s->job.profile.name, &p, err);
    if (r == 0)
        q->config.changed(q->config.ctx, &p);
    return r;
}

static int watch(struct work_queue *q, const struct slot *s, struct kymo_err *err)
{
    int fds[3];
    size_t n = runner_fds(s->job.runner, fds);
    for (size_t i = 0; i < n; i++) {
        struct epoll_event e = {.events = EPOLLIN};
        if (epoll_ctl(q->epoll, EPOLL_CTL_ADD, fds[i], &e) < 0)
            return kymo_err_set(err, -errno, "cannot watch a processor: %s", strerror(errno));
    }
    return 0;
}

/* A processor that cannot even be started has failed for reasons of this machine: later. So have ready tables without
 * room; what else keeps them from their place will not go away. */
static void start(struct work_queue *q, struct slot *s)
{
    struct kymo_err err = {0};
    int r = work_job_start(&s->job, &q->config, &err);
    /* Ready tables need nobody to make them. */
    if (r == 0 && s->job.runner)
        r = watch(q, s, &err);
    if (r == 0)
        return;
    bool later = !s->job.tables || s->job.kind != WORK_PROFILE || r == -ENOSPC || r == -EDQUOT || r == -ENOMEM;
    s->job.outcome = later ? WORK_LATER : WORK_FAILED;
    memcpy(s->job.reason, err.text, sizeof s->job.reason);
}

static void processor_name(const struct work_queue *q, bool external, char *out, size_t n)
{
    if (external)
        external_name(q->config.external, out, n);
    else
        (void)snprintf(out, n, "kymo %s", KYMO_VERSION);
}

/* Another processor takes over, in the same slot. */
static int hand_over(struct work_queue *q, struct slot *s, struct kymo_err *err)
{
    char name[64];
    if (!q->config.external) {
        /* It was taken out of the configuration meanwhile. */
        s->job.outcome = WORK_FAILED;
        return 0;
    }
    processor_name(q, true, name, sizeof name);
    int r = catalog_hand_over(q->config.catalog, s->job.profile.name, name, err);
    if (r < 0)
        return r;
    s->job.runner = runner_free(s->job.runner);
    s->job.external = true;
    start(q, s);
    return tell(q, s, err);
}

/* Made again in vain: what is to be had is not lost. */
static void tell_old_tables(const struct work_queue *q, struct work_job *j)
{
    char *place KYMO_FREE = work_queue_place(q->config.data_path, j->profile.name);
    size_t n = strlen(j->reason);
    if (place && access(place, F_OK) == 0)
        (void)snprintf(j->reason + n, sizeof j->reason - n, "; the tables made before are still there");
}

static int record_fleet(struct work_queue *q, const struct work_job *j, struct kymo_err *err)
{
    struct catalog *c = q->config.catalog;
    const char *name = j->profile.name;
    int64_t later = now_ns() + (int64_t)q->config.retry_ms * 1000000;
    if (j->outcome == WORK_KILLED)
        return catalog_fleet_killed(c, name, j->reason, later, WORK_QUEUE_KILLS_MAX, err);
    const char *state = j->outcome == WORK_READY ? "ready" : j->outcome == WORK_LATER ? "waiting" : "failed";
    return catalog_fleet_end(c, name, state, j->outcome == WORK_READY ? NULL : j->reason, later, err);
}

static int record(struct work_queue *q, struct slot *s, struct kymo_err *err)
{
    struct work_job *j = &s->job;
    if (j->kind == WORK_FLEET)
        return record_fleet(q, j, err);
    struct catalog *c = q->config.catalog;
    const struct catalog_result result = {j->schema_version, j->records, j->counts.tables, j->counts.bytes};
    const struct runner_report *report = j->runner ? runner_report(j->runner) : NULL;
    int64_t later = now_ns() + (int64_t)q->config.retry_ms * 1000000;
    int r;
    switch (j->outcome) {
    case WORK_READY:
        /* In this order: what a crash leaves between them is made again. */
        r = catalog_set_losses(c, j->profile.name, report ? report->losses : NULL, report ? report->loss_count : 0,
                               err);
        return r < 0 ? r : catalog_ready(c, j->profile.name, &result, err);
    case WORK_FAILED:
        tell_old_tables(q, j);
        return catalog_fail(c, j->profile.name, j->reason, j->offset, err);
    case WORK_LATER:
        return catalog_put_back(c, j->profile.name, j->reason, later, err);
    case WORK_KILLED:
        return catalog_killed(c, j->profile.name, j->reason, later, WORK_QUEUE_KILLS_MAX, err);
    case WORK_RUNNING:
    case WORK_HAND_OVER:
        break;
    }
    return 0;
}

static int note_progress(struct work_queue *q, struct slot *s, struct kymo_err *err)
{
    const struct runner_report *report = runner_report(s->job.runner);
    struct catalog_profile *p = &s->job.profile;
    uint64_t now = kymo_clock_mono_ns();
    if (s->job.kind == WORK_FLEET || !*report->stage || now - s->noted_ns < PROGRESS_NS ||
        (p->done == report->done && p->total == report->total && !strcmp(p->stage, report->stage)))
        return 0;
    int r = catalog_progress(q->config.catalog, p->name, report->stage, report->done, report->total, err);
    if (r < 0)
        return r;
    s->noted_ns = now;
    memcpy(p->stage, report->stage, sizeof p->stage);
    p->done = report->done;
    p->total = report->total;
    return tell(q, s, err);
}

static int turn_slot(struct work_queue *q, struct slot *s, struct kymo_err *err)
{
    work_job_turn(&s->job, &q->config);
    if (s->job.outcome == WORK_RUNNING)
        return note_progress(q, s, err);
    if (s->job.outcome == WORK_HAND_OVER)
        return hand_over(q, s, err);
    int r = record(q, s, err);
    if (r < 0)
        return r;
    r = tell(q, s, err);
    work_job_done(&s->job);
    s->used = false;
    return r;
}

/* What cannot be opened has failed by itself, such as a capture whose manifest is damaged. */
static int take(struct work_queue *q, size_t i, const struct catalog_profile *p, bool fleet, struct kymo_err *err)
{
    struct slot *s = &q->slots[i];
    struct kymo_err why = {0};
    char name[64];
    processor_name(q, false, name, sizeof name);
    char *directory KYMO_FREE = slot_directory(q, i);
    if (!directory)
        return kymo_err_set(err, -ENOMEM, "no memory for the work queue");
    int r = fleet ? catalog_fleet_start(q->config.catalog, p->name, err)
                  : catalog_start(q->config.catalog, p->name, name, err);
    if (r < 0)
        return r;
    int opened = work_job_open(&s->job, &q->config, p, fleet, directory, &why);
    s->used = true;
    s->noted_ns = 0;
    s->job.profile = *p;
    s->job.kind = fleet ? WORK_FLEET : p->is_parent ? WORK_PARENT : WORK_PROFILE;
    if (opened == 0) {
        start(q, s);
    } else {
        s->job.outcome = opened == -ENOSPC || opened == -ENOMEM ? WORK_LATER : WORK_FAILED;
        s->job.offset = -1;
        memcpy(s->job.reason, why.text, sizeof s->job.reason);
    }
    return tell(q, s, err);
}

static int at_work(const struct work_queue *q)
{
    int n = 0;
    for (size_t i = 0; i < WORK_QUEUE_CHILDREN_MAX; i++)
        n += q->slots[i].used;
    return n;
}

bool work_queue_has(const struct work_queue *q, const char *profile)
{
    for (size_t i = 0; i < WORK_QUEUE_CHILDREN_MAX; i++)
        if (q->slots[i].used && !strcmp(q->slots[i].job.profile.name, profile))
            return true;
    return false;
}

/* A profile that is at work in some way waits: its tables are about to be exchanged, or its rows are. */
static int next_fleet(struct work_queue *q, struct catalog_profile *p, struct kymo_err *err)
{
    int r = q->config.gather_program ? catalog_next_fleet(q->config.catalog, now_ns(), p, err) : 0;
    return r == 1 && work_queue_has(q, p->name) ? 0 : r;
}

/* After a change of configuration there may be more at work than are to be. */
static int start_waiting(struct work_queue *q, struct kymo_err *err)
{
    struct catalog_profile p;
    for (size_t i = 0; i < WORK_QUEUE_CHILDREN_MAX && at_work(q) < (int)q->config.children; i++) {
        if (q->slots[i].used)
            continue;
        bool fleet = false;
        int r = catalog_next(q->config.catalog, now_ns(), &p, err);
        if (r == 0) {
            r = next_fleet(q, &p, err);
            fleet = true;
        }
        if (r == 1)
            r = take(q, i, &p, fleet, err);
        else
            return r;
        if (r < 0)
            return r;
    }
    return 0;
}

#define SWEEP_MAX 64

struct sweep {
    struct work_queue *q;
    struct kymo_err *err;
    unsigned n;
};

/* Rows of tables that somebody removed go as well. */
static int sweep_one(void *ctx, const struct catalog_profile *p)
{
    struct sweep *s = ctx;
    struct work_queue_config *c = &s->q->config;
    char *place KYMO_FREE = work_queue_place(c->data_path, p->name);
    memcpy(s->q->swept, p->name, sizeof s->q->swept);
    s->n++;
    if (!place)
        return kymo_err_set(s->err, -ENOMEM, "no memory for the work queue");
    if (access(place, F_OK) == 0 || errno != ENOENT)
        return 0;
    int r = fleet_store_remove(c->data_path, p->name, p->captured_ns, s->err);
    return r < 0 ? r : catalog_fleet_gone(c->catalog, p->name, s->err);
}

/* About once a second: parents whose time has come, and a few profiles whose tables may be gone. */
static int plan(struct work_queue *q, struct kymo_err *err)
{
    const struct work_queue_config *c = &q->config;
    uint64_t now = kymo_clock_mono_ns();
    bool settles = c->gather_settle_ms > 0;
    if (!c->gather_program || (settles && q->planned_ns && now - q->planned_ns < PLAN_NS))
        return 0;
    q->planned_ns = now;
    int r = catalog_plan_parents(c->catalog, now_ns(), (int64_t)c->gather_settle_ms * 1000000,
                                 (int64_t)c->gather_limit_ms * 1000000, err);
    struct sweep s = {.q = q, .err = err};
    if (r >= 0)
        r = catalog_list_fleet(c->catalog, q->swept, SWEEP_MAX, sweep_one, &s, err);
    if (s.n < SWEEP_MAX)
        q->swept[0] = '\0';
    return r < 0 ? r : 0;
}

int work_queue_turn(struct work_queue *q, struct kymo_err *err)
{
    int running, failed = 0;
    struct kymo_err *first = err;
    for (size_t i = 0; i < WORK_QUEUE_CHILDREN_MAX; i++) {
        if (!q->slots[i].used)
            continue;
        int r = turn_slot(q, &q->slots[i], first);
        if (r < 0 && failed == 0) {
            failed = r;
            first = NULL;
        }
    }
    if (failed == 0)
        failed = plan(q, err);
    if (failed == 0)
        failed = start_waiting(q, err);
    running = at_work(q);
    return failed < 0 ? failed : running;
}

int work_queue_fd(const struct work_queue *q)
{
    return q->epoll;
}

int work_queue_timeout_ms(const struct work_queue *q)
{
    int64_t least = -1;
    for (size_t i = 0; i < WORK_QUEUE_CHILDREN_MAX; i++) {
        const struct slot *s = &q->slots[i];
        if (!s->used)
            continue;
        int64_t left = s->job.runner && s->job.outcome == WORK_RUNNING ? runner_left_ms(s->job.runner) : 0;
        if (left >= 0 && (least < 0 || left < least))
            least = left;
    }
    return least > 1 << 30 ? 1 << 30 : (int)least;
}

void work_queue_wait(const struct work_queue *q, int max_ms)
{
    int ms = work_queue_timeout_ms(q);
    struct pollfd p = {.fd = q->epoll, .events = POLLIN};
    (void)poll(&p, 1, ms >= 0 && ms < max_ms ? ms : max_ms);
}
