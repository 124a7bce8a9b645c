#include "daemon/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/utf8.h"
#include "daemon/config.h"
#include "daemon/host.h"
#include "daemon/jobs_internal.h"
#include "daemon/outbox.h"

#define HELLO_BURST 16u /* of one process */
#define HELLO_EVERY_MS 500u

/* Packets */

static void send_neff(struct rank *r, struct rank_model *m, int fd)
{
    const int sealed = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    struct jobs *j = r->jobs;
    struct kymo_err err = {0};
    char name[96];
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    /* Nobody may change the bytes once they are hashed, or make us wait for them. */
    if (seals < 0 || (seals & sealed) != sealed || fstat(fd, &st) < 0 || (uint64_t)st.st_size != m->bytes) {
        hook_session_close(r->session, "a NEFF that is not sealed, or of another size than said");
        (void)kymo_file_close(fd);
        return;
    }
    rank_read_neff_name(fd, m->name);
    (void)snprintf(name, sizeof name, "program %u of process %d", m->number, (int)r->who.pid);
    if (m->bytes > j->config.config->spool_neff_bytes) {
        (void)kymo_file_close(fd);
        say_limited(&j->say, KYMO_LOG_WARNING, "%s: not kept: larger than spool-neff-bytes", name);
    } else if (!j->outbox) {
        (void)kymo_file_close(fd);
    } else if (outbox_add_neff(j->outbox, fd, name, &m->ticket, &err) < 0) {
        m->ticket = 0;
        say_limited(&j->say, KYMO_LOG_WARNING, "%s: not kept: %s", name, err.text);
    }
}

static void drop_neff(struct rank *r, struct rank_model *m)
{
    if (!m->has_neff)
        return;
    m->has_neff = false;
    pins_release(&r->jobs->pins, r->uid, m->sha256);
    if (r->jobs->outbox)
        outbox_drop_neff(r->jobs->outbox, m->sha256);
}

/* Another program of the same process counts its models anew. */
void rank_forget_models(struct rank *r)
{
    for (size_t i = 0; i < r->nmodels; i++)
        drop_neff(r, &r->models[i]);
    r->nmodels = 0;
}

static struct rank_model *model_for(struct rank *r, uint32_t number)
{
    for (size_t i = 0; i < r->nmodels; i++)
        if (r->models[i].number == number)
            return &r->models[i];
    if (r->nmodels < RANK_MODELS_MAX)
        return &r->models[r->nmodels++];
    /* The first that is not loaded any more makes room. */
    for (size_t i = 0; i < r->nmodels; i++)
        if (!r->models[i].is_loaded && !r->models[i].ticket) {
            drop_neff(r, &r->models[i]);
            return &r->models[i];
        }
    return NULL;
}

static void take_loaded(struct rank *r, const struct kymo_hook_loaded *l, int fd)
{
    struct rank_model *m = model_for(r, l->model);
    if (!m) {
        (void)kymo_file_close(fd);
        return;
    }
    /* Announced again after a reconnection, it is what it was. */
    if (m->number != l->model || m->bytes != l->neff_bytes) {
        drop_neff(r, m);
        *m = (struct rank_model){.number = l->model, .bytes = l->neff_bytes};
    }
    m->vnc = l->vnc;
    m->vnc_count = l->vnc_count;
    m->slot = l->slot;
    m->is_loaded = true;
    m->is_awaited = fd >= 0;
    if (fd >= 0 && (m->has_neff || m->ticket))
        (void)kymo_file_close(fd);
    else if (fd >= 0)
        send_neff(r, m, fd);
    if (m->has_neff && m->is_awaited)
        rank_save_state(r); /* The hook hears of it once that is on disk. */
    else
        rank_tell_neffs(r, false);
    rank_check_step_model(r);
}

static void take_unloaded(struct rank *r, const struct kymo_hook_unloaded *u)
{
    for (size_t i = 0; i < r->nmodels; i++)
        if (r->models[i].number == u->model && r->models[i].is_loaded) {
            r->models[i].is_loaded = false;
            r->executions += u->executions;
        }
    rank_check_step_model(r);
}

static void note_version(struct rank *r, const uint32_t v[4])
{
    char text[RANK_VERSION_MAX] = "";
    if (v[0] || v[1] || v[2] || v[3])
        (void)snprintf(text, sizeof text, "%u.%u.%u.%u", v[0], v[1], v[2], v[3]);
    if (!strcmp(text, r->runtime_version))
        return;
    memcpy(r->runtime_version, text, sizeof text);
    if (r->welcome == RANK_WELCOMED)
        rank_save_state(r);
}

static void take_state(struct rank *r, const struct kymo_hook_state_msg *m)
{
    r->run_state = m->state;
    r->armed = m->armed;
    r->step_model = m->step_model;
    note_version(r, m->runtime_version);
    r->jobs->config.ops->ready(r->jobs->config.ctx, r);
}

static void take_captured(struct rank *r, const struct kymo_hook_captured *m)
{
    r->captures++;
    r->stall_ns += m->stall_ns;
    r->jobs->config.ops->captured(r->jobs->config.ctx, r, m);
}

static void take_refused(struct rank *r, const struct kymo_hook_refused *m)
{
    char text[sizeof m->text];
    kymo_utf8_copy_plain(text, sizeof text, m->text, sizeof m->text);
    if (!m->id[0]) {
        (void)snprintf(r->reason, sizeof r->reason, "%s: %s", hook_packet_reason(m->reason), text);
        say_limited(&r->jobs->say, KYMO_LOG_WARNING, "job %s, process %d is not armed: %s", r->who.job, (int)r->who.pid,
                    r->reason);
    }
    r->jobs->config.ops->refused(r->jobs->config.ctx, r, m);
}

static void on_packet(void *ctx, struct hook_session *s, const union hook_packet *p, int fd)
{
    struct rank *r = hook_session_data(s);
    (void)ctx;
    if (r && p->header.type == KYMO_HOOK_LOADED) {
        take_loaded(r, &p->loaded, fd);
        return;
    }
    (void)kymo_file_close(fd);
    if (!r)
        return;
    switch (p->header.type) {
    case KYMO_HOOK_STATE:
        take_state(r, &p->state);
        break;
    case KYMO_HOOK_UNLOADED:
        take_unloaded(r, &p->unloaded);
        break;
    case KYMO_HOOK_CAPTURED:
        take_captured(r, &p->captured);
        break;
    case KYMO_HOOK_REFUSED:
        take_refused(r, &p->refused);
        break;
    default:
        break;
    }
}

/* Sessions */

static int find_rank(struct jobs *j, const struct hook_peer_id *peer, uint64_t start, struct rank **ret,
                     struct kymo_err *err)
{
    char key[INTAKE_KEY_MAX];
    intake_key(peer->pid, start, key);
    struct rank *r = rank_find(j, key);
    if (r && (r->removing || r->uid != peer->uid))
        return kymo_err_set(err, -EBUSY, "process %d: an earlier hook of it is still being seen to", (int)peer->pid);
    if (r && r->session)
        hook_session_close(r->session, ""); /* it has executed another program, whose hook is the one that counts */
    if (!r) {
        int code = rank_new(j, key, peer->uid, peer->gid, &r, err);
        if (code < 0)
            return code;
        r->who.pid = peer->pid;
        r->who.start = start;
    }
    if (r->pidfd < 0)
        rank_watch_exit(r, peer->pidfd >= 0 ? fcntl(peer->pidfd, F_DUPFD_CLOEXEC, 3) : -1);
    *ret = r;
    return 0;
}

/* Each HELLO costs a look into the process; a hook comes again after half a second at the soonest. */
static bool comes_too_often(struct rank *r)
{
    uint64_t now = uv_now(r->jobs->config.loop), gained = (now - r->hellos_since_ms) / HELLO_EVERY_MS;
    if (gained > 0) {
        r->hellos = r->hellos > gained ? r->hellos - (unsigned)gained : 0;
        r->hellos_since_ms = now;
    }
    if (r->hellos >= HELLO_BURST)
        return true;
    r->hellos++;
    return false;
}

static void on_hello(void *ctx, struct hook_session *s, const struct kymo_hook_hello *hello)
{
    struct jobs *j = ctx;
    const struct hook_peer_id *peer = hook_session_peer(s);
    struct kymo_err err = {0};
    struct rank *r;
    uint64_t start;
    if (peer->pid <= 0) {
        (void)kymo_err_set(&err, -ESRCH, "a process of a namespace that kymod does not see into");
    } else if (process_start(peer->pid, &start, &err) == 0 && find_rank(j, peer, start, &r, &err) == 0) {
        if (!comes_too_often(r))
            rank_welcome(r, s, hello);
        else
            (void)kymo_err_set(&err, -EBUSY, "HELLO too often");
    }
    if (err.code < 0)
        hook_session_close(s, err.text);
}

/* What the page counted would be gone with it. */
static void keep_numbers(struct rank *r)
{
    struct rank_numbers n;
    rank_read_numbers(r, &n);
    r->executions = n.executions;
    r->failures = n.failures;
}

static void on_closed(void *ctx, struct hook_session *s, const char *why)
{
    struct rank *r = hook_session_data(s);
    (void)ctx;
    (void)why;
    if (!r || r->session != s)
        return;
    keep_numbers(r);
    r->session = NULL;
    r->waits_for_reader = false;
    (void)uv_timer_stop(&r->timer);
    for (size_t i = 0; i < r->nmodels; i++)
        r->models[i].is_loaded = false;
    rank_check_end(r);
}

static void on_gone(void *ctx, struct hook_session *s, const char *why)
{
    (void)ctx;
    (void)s;
    (void)why;
}

const struct hook_session_ops jobs_session_ops = {
    .hello = on_hello, .packet = on_packet, .closed = on_closed, .gone = on_gone};

/* NEFFs */

/* One more for this user? It is dropped when not. */
static bool keep_neff(struct rank *r, const struct rank_model *m, const uint8_t *sha256)
{
    struct jobs *j = r->jobs;
    struct kymo_err err = {0};
    if (pins_hold(&j->pins, r->uid, sha256, m->bytes, j->config.config->neff_user_bytes, &err) == 0)
        return true;
    say_limited(&j->say, KYMO_LOG_WARNING, "program %u of process %d: not kept: %s (neff-user-bytes)", m->number,
                (int)r->who.pid, err.text);
    if (j->outbox)
        outbox_drop_neff(j->outbox, sha256);
    return false;
}

bool jobs_neff(struct jobs *j, uint64_t ticket, int code, const uint8_t *sha256, const struct kymo_err *err)
{
    for (struct rank *r = j->ranks; r; r = r->next)
        for (size_t i = 0; i < r->nmodels; i++) {
            struct rank_model *m = &r->models[i];
            if (m->ticket != ticket)
                continue;
            m->ticket = 0;
            m->has_neff = code == 0 && keep_neff(r, m, sha256);
            if (m->has_neff)
                memcpy(m->sha256, sha256, KYMO_SHA256_SIZE);
            else if (code < 0)
                say_limited(&j->say, KYMO_LOG_WARNING, "program %u of process %d: not kept: %s", m->number,
                            (int)r->who.pid, err ? err->text : "");
            if (m->has_neff && r->welcome == RANK_WELCOMED)
                rank_save_state(r);
            rank_tell_neffs(r, false);
            rank_check_step_model(r);
            return true;
        }
    return false;
}

void jobs_set_outbox(struct jobs *j, struct outbox *o)
{
    j->outbox = o;
}

/* What a former kymod left */

/* A descriptor of the process, if it still is the one. */
static int open_process(const struct intake_process *p)
{
    uint64_t start;
    int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    if (fd >= 0 && (process_start(p->pid, &start, NULL) < 0 || start != p->start))
        fd = kymo_file_close(fd);
    return fd;
}

static int adopt(void *ctx, const struct intake_process *p)
{
    struct jobs *j = ctx;
    struct rank *r;
    Kymo__Manifest__Capture *who = intake_load_state(j->config.intake, p->key);
    /* Numbers of another boot name nobody who lives. */
    bool this_boot = !who || !who->boot_id || !strcmp(who->boot_id, j->config.host->boot_id);
    if (rank_new(j, p->key, p->uid, 0, &r, NULL) == 0) {
        r->who.pid = p->pid;
        r->who.start = p->start;
        rank_load_state(r, who);
        rank_watch_exit(r, this_boot ? open_process(p) : -1);
        if (r->pidfd < 0)
            rank_check_end(r);
    }
    if (who)
        kymo__manifest__capture__free_unpacked(who, NULL);
    return 0;
}

int jobs_adopt(struct jobs *j, struct kymo_err *err)
{
    return intake_each(j->config.intake, adopt, j, err);
}

/* Views */

static const char *state_of(const struct rank *r)
{
    static const char *const states[] = {"starting", "ready", "closed"};
    if (!r->session)
        return "closed";
    if (r->welcome == RANK_REFUSED)
        return "refused";
    if (r->policy.flags & KYMO_HOOK_POLICY_OFF)
        return "off";
    return r->welcome == RANK_NEW ? "starting" : states[r->run_state];
}

static int show(const struct rank *r, int (*each)(void *ctx, const struct jobs_rank *r), void *ctx)
{
    struct rank_numbers n;
    const struct kymo_hook_page *page = r->session ? hook_session_page(r->session) : NULL;
    rank_read_numbers(r, &n);
    const struct jobs_rank view = {
        .job = r->job ? r->job->name : r->who.job,
        .pid = (uint32_t)r->who.pid,
        .rank = r->who.rank,
        .uid = r->uid,
        .rank_known = r->who.rank_known,
        .ncores = r->ncores,
        .cores = r->cores,
        .state = state_of(r),
        .reason = r->reason,
        .mode = hook_packet_mode(r->armed),
        .capturing = page && __atomic_load_n(&page->capturing, __ATOMIC_RELAXED) != 0,
        .is_async = n.is_async,
        .step = n.steps,
        .executions = n.executions,
        .failures = n.failures,
        .captures = r->captures,
        .stall_ns = r->stall_ns,
        .latency_p50_ns = n.p50_ns,
        .latency_p99_ns = n.p99_ns,
        .start = r->who.start,
        .slot = n.slot,
        .unit = process_label(&r->who, "unit"),
        .slice = process_label(&r->who, "slice"),
        .program = r->program,
        .runtime_version = r->runtime_version,
        .step_model = n.step ? n.step->number : 0,
    };
    return each(ctx, &view);
}

/* Ranks of processes that have ended are seen to, but nobody's to see. */
static bool is_shown(const struct rank *r)
{
    return r->session && !r->ended;
}

int jobs_each(const struct jobs *j, int (*each)(void *ctx, const struct jobs_rank *r), void *ctx)
{
    int code = 0;
    for (const struct job *job = j->jobs; job && code == 0; job = job->next)
        for (const struct rank *r = j->ranks; r && code == 0; r = r->next)
            if (r->job == job && is_shown(r))
                code = show(r, each, ctx);
    for (const struct rank *r = j->ranks; r && code == 0; r = r->next)
        if (!r->job && is_shown(r))
            code = show(r, each, ctx);
    return code;
}

size_t jobs_count(const struct jobs *j)
{
    size_t n = 0;
    for (const struct job *job = j->jobs; job; job = job->next)
        for (const struct rank *r = j->ranks; r; r = r->next)
            if (r->job == job && is_shown(r)) {
                n++;
                break;
            }
    return n;
}

size_t jobs_rank_count(const struct jobs *j)
{
    size_t n = 0;
    for (const struct rank *r = j->ranks; r; r = r->next)
        n += is_shown(r);
    return n;
}

struct rank *jobs_first(const struct jobs *j)
{
    return j->ranks;
}

struct job *jobs_first_job(const struct jobs *j)
{
    return j->jobs;
}

void jobs_reconfigure(struct jobs *j, const struct config *config)
{
    j->config.config = config;
    for (struct rank *r = j->ranks; r; r = r->next)
        if (r->is_over) { /* the operator has thought about it */
            r->is_over = false;
            if (r->session)
                rank_read_again(r);
        } else if (r->session && r->welcome == RANK_WELCOMED) {
            rank_send_policy(r, -1);
            if (r->session)
                j->config.ops->ready(j->config.ctx, r);
        }
}

/* Life */

int jobs_new(const struct jobs_config *config, struct jobs **ret, struct kymo_err *err)
{
    int r = intake_open(config->intake, err);
    if (r < 0)
        return r;
    struct jobs *j = KYMO_NEW(struct jobs);
    if (!j)
        return kymo_err_set(err, -ENOMEM, "no memory for jobs");
    j->config = *config;
    r = quota_new(j, &j->quota, err);
    if (r < 0) {
        kymo_free(j);
        return r;
    }
    *ret = j;
    return 0;
}

/* Tasks that run are waited for, but not those that hang in another process's memory. */
struct jobs *jobs_free(struct jobs *j)
{
    if (!j)
        return NULL;
    j->stopping = true;
    for (int turns = 0; turns < 100; turns++) {
        bool busy = quota_is_busy(j->quota);
        for (const struct rank *r = j->ranks; r; r = r->next)
            busy = busy || r->is_working;
        if (!busy)
            break;
        (void)uv_run(j->config.loop, UV_RUN_NOWAIT);
        (void)usleep(10000);
    }
    for (struct rank *r = j->ranks, *next; r; r = next) {
        next = r->next;
        if (!r->is_working)
            rank_free(r);
    }
    bool is_left = quota_is_busy(j->quota); /* what hangs on a disk or in a process ends with us */
    if (!is_left)
        j->quota = quota_free(j->quota);
    for (int turns = 0; turns < 100 && j->handles > 0; turns++)
        (void)uv_run(j->config.loop, UV_RUN_NOWAIT);
    if (!j->ranks && !is_left) {
        pins_clear(&j->pins);
        kymo_free(j);
    }
    return NULL;
}
