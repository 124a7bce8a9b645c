/* The control socket's server against clients of all kinds, in one process and one thread. */
#include "daemon/control.h"

#include <errno.h>
#include <grp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/sock.h"
#include "proto/session.h"
#include "tests/unit/daemon_parts.h"

#define TURNS 2000

typedef Kymo__Control__CaptureProgress Progress;
typedef Kymo__Control__StatusReply Reply;

struct peer {
    int fd;
    struct session *session;
    unsigned replies, progress, refusals, lasts;
    Progress last_progress;
    char id[80], text[600], refusal[600];
    int why;
    uint64_t refused_id;
    Kymo__Control__StatusReply *reply; /* the last one, packed again and unpacked */
    bool gone;
    int fed;
    struct kymo_err err;
};

struct world {
    char dir[64], path[96];
    uv_loop_t loop;
    struct control *server;
    struct own_cost *cost;
    unsigned notes;
    char note[600];
    uint64_t ahead_ns; /* of the clock */
};

static struct world world;

static uint64_t mono_ns(void)
{
    return uv_hrtime() + world.ahead_ns;
}
static const struct kymo_clock_ops clock_ops = {.mono_ns = mono_ns, .real_ns = mono_ns};
static const struct own_cost_ops cost_ops = {0};

static void on_note(void *ctx, const char *text)
{
    struct world *w = ctx;
    w->notes++;
    (void)snprintf(w->note, sizeof w->note, "%s", text);
}

static int setup(void **state)
{
    struct world *w = &world;
    memset(w, 0, sizeof *w);
    memset(&parts, 0, sizeof parts);
    kymo_clock_set_ops(&clock_ops);
    (void)snprintf(w->dir, sizeof w->dir, "/tmp/kymo-test-control-XXXXXX");
    if (!mkdtemp(w->dir))
        return 1;
    (void)snprintf(w->path, sizeof w->path, "%.60s/%s", w->dir, CONTROL_SOCKET_NAME);
    assert_int_equal(uv_loop_init(&w->loop), 0);
    const struct own_cost_limits limits = {0};
    assert_int_equal(own_cost_new(&w->loop, &limits, &cost_ops, w, &w->cost, NULL), 0);
    const struct control_config config = {
        .path = w->path,
        .listen_fd = -1,
        .sources = {.loop = &w->loop, .cost = w->cost, .since_ns = kymo_clock_mono_ns()},
        .note = on_note,
        .ctx = w};
    struct kymo_err err = {0};
    if (control_start(&w->loop, &config, &w->server, &err) < 0)
        fail_msg("%s", err.text);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    w->server = control_stop(w->server);
    w->cost = own_cost_free(w->cost);
    assert_int_equal(parts_watching(), 0);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    kymo_clock_set_ops(NULL);
    return kymo_file_remove_tree(w->dir, NULL);
}

static int on_message(void *ctx, const struct wire_message *m, const struct frame *f, struct kymo_err *err)
{
    struct peer *p = ctx;
    (void)err;
    if (m->type == CONTROL_STATUS_REPLY) {
        p->replies++;
        if (p->reply)
            kymo__control__status_reply__free_unpacked(p->reply, NULL);
        p->reply = kymo__control__status_reply__unpack(NULL, f->message_len, f->message);
        assert_non_null(p->reply);
    } else if (m->type == CONTROL_CAPTURE_PROGRESS) {
        const Progress *progress = (const Progress *)m->pb;
        p->progress++;
        p->lasts += progress->last != 0;
        p->last_progress = *progress;
        (void)snprintf(p->id, sizeof p->id, "%s", progress->capture_id ? progress->capture_id : "");
        (void)snprintf(p->text, sizeof p->text, "%s", progress->text ? progress->text : "");
    } else {
        const Kymo__Wire__Refusal *r = (const Kymo__Wire__Refusal *)m->pb;
        assert_int_equal(m->type, WIRE_REFUSAL);
        p->refusals++;
        p->why = (int)r->why;
        p->refused_id = r->request_id;
        (void)snprintf(p->refusal, sizeof p->refusal, "%s", r->text ? r->text : "");
    }
    return 0;
}

static void make_peer(struct world *w, struct peer *p, uint32_t version_max)
{
    memset(p, 0, sizeof *p);
    const struct session_config config = {.protocol = &control_protocol,
                                          .side = WIRE_CLIENT,
                                          .versions = {1, version_max},
                                          .writer = "test",
                                          .on_message = on_message,
                                          .ctx = p};
    assert_int_equal(session_new(&config, &p->session, NULL), 0);
    p->fd = kymo_sock_connect_stream(w->path, &p->err);
    assert_true(p->fd >= 0);
}

static void free_peer(struct peer *p)
{
    if (p->fd >= 0)
        (void)close(p->fd);
    if (p->reply)
        kymo__control__status_reply__free_unpacked(p->reply, NULL);
    p->session = session_free(p->session);
    p->fd = -1;
    p->reply = NULL;
}

static void turn_peer(struct peer *p)
{
    const uint8_t *data;
    uint8_t bytes[65536];
    size_t n;
    session_out(p->session, &data, &n);
    ssize_t put = n ? send(p->fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
    if (put > 0)
        session_consume(p->session, (size_t)put);
    ssize_t got = recv(p->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN))
        p->gone = true;
    else if (got > 0)
        p->fed = session_feed(p->session, bytes, (size_t)got, &p->err);
}

/* Both sides, until cond holds. */
#define UNTIL(w, p, cond)                                                                                              \
    do {                                                                                                               \
        int turns_ = 0;                                                                                                \
        while (!(cond) && turns_++ < TURNS) {                                                                          \
            (void)uv_run(&(w)->loop, UV_RUN_NOWAIT);                                                                   \
            turn_peer(p);                                                                                              \
            if (!(cond))                                                                                               \
                (void)usleep(200);                                                                                     \
        }                                                                                                              \
        assert_true(cond);                                                                                             \
    } while (0)

/* Lets so much time pass for the server, and its tick come. */
static void pass(struct world *w, struct peer *p, uint64_t ms)
{
    w->ahead_ns += ms * 1000000;
    for (int i = 0; i < 70; i++) {
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
        if (p)
            turn_peer(p);
        (void)usleep(10000);
    }
}

static void ready(struct world *w, struct peer *p, uint32_t version_max)
{
    make_peer(w, p, version_max);
    UNTIL(w, p, session_is_ready(p->session));
    assert_int_equal(session_version(p->session), version_max);
}

static void ask_status(struct peer *p, uint64_t id, char *job)
{
    Kymo__Control__StatusRequest q = KYMO__CONTROL__STATUS_REQUEST__INIT;
    q.has_request_id = 1;
    q.request_id = id;
    q.job = job;
    assert_int_equal(session_send(p->session, CONTROL_STATUS_REQUEST, &q.base, NULL), 0);
}

static Kymo__Control__CaptureRequest capture_request(uint64_t id, uint64_t wait_ms)
{
    Kymo__Control__CaptureRequest q = KYMO__CONTROL__CAPTURE_REQUEST__INIT;
    q.has_request_id = 1;
    q.request_id = id;
    q.has_wait_ms = wait_ms > 0;
    q.wait_ms = wait_ms;
    return q;
}

static void ask_capture(struct peer *p, const Kymo__Control__CaptureRequest *q)
{
    assert_int_equal(session_send(p->session, CONTROL_CAPTURE_REQUEST, &q->base, NULL), 0);
}

static const uint32_t some_cores[] = {0, 1, 2};

static struct jobs_rank rank_of(const char *job, uint32_t pid)
{
    return (struct jobs_rank){.job = job,
                              .pid = pid,
                              .uid = 1000,
                              .ncores = 3,
                              .cores = some_cores,
                              .state = "ready",
                              .reason = "",
                              .mode = "none",
                              .step = 10 + pid,
                              .unit = "train.service",
                              .slice = "",
                              .program = "python3"};
}

static void test_status(void **state)
{
    struct world *w = *state;
    struct jobs_rank ranks[3] = {rank_of("a", 1), rank_of("a", 2), rank_of("b", 3)};
    ranks[1].rank_known = true;
    ranks[1].rank = 7;
    ranks[1].latency_p50_ns = 5000;
    ranks[1].reason = "too little\x01 device \xff memory";
    parts.ranks = ranks;
    parts.nranks = 3;
    parts.njobs = 2;
    parts.counts.spooled = 4;
    parts.counts.refused[KYMO_HOOK_REASON_MEMORY] = 9;
    parts.outbox.nlinks = 2;
    parts.outbox.links[0] = (struct outbox_link_status){
        .address = "c:3002", .state = OUTBOX_LINK_WAITING, .reason = "refused", .retry_at_ms = uv_now(&w->loop) + 5000};
    parts.outbox.links[1].state = OUTBOX_LINK_UP;
    parts.outbox.spool.lost_since_open[SPOOL_FULL] = (struct spool_amount){3, 300};
    parts.outbox.spool.full = true;
    struct peer p;
    ready(w, &p, 2);
    ask_status(&p, 5, NULL);
    UNTIL(w, &p, p.replies == 1);
    const Reply *r = p.reply;
    assert_int_equal(r->request_id, 5);
    assert_string_equal(r->version, KYMO_VERSION);
    assert_int_equal(r->n_jobs, 2);
    assert_int_equal(r->jobs[0]->n_ranks, 2);
    assert_int_equal(r->jobs[0]->step, 12);
    const Kymo__Control__RankStatus *rank = r->jobs[0]->ranks[1];
    assert_int_equal(rank->rank, 7);
    assert_string_equal(rank->reason, "too little? device ? memory");
    assert_int_equal(rank->n_cores, 3);
    assert_int_equal(rank->latency_p50_ns, 5000);
    assert_false(r->jobs[0]->ranks[0]->has_rank);
    assert_false(rank->has_latency_p99_ns);
    assert_string_equal(r->jobs[1]->job, "b");
    assert_int_equal(r->captures, 4);
    assert_int_equal(r->n_refusals, 1);
    assert_string_equal(r->refusals[0]->name, "too little device memory");
    assert_string_equal(r->losses[0]->name, "full");
    assert_int_equal(r->losses[0]->bytes, 300);
    assert_string_equal(r->spool_state, "full");
    assert_int_equal(r->n_collectors, 2);
    assert_string_equal(r->collectors[0]->state, "waiting");
    assert_in_range(r->collectors[0]->retry_in_ms, 1000, 5000);
    assert_string_equal(r->collectors[1]->address, "?");
    assert_true(r->cost->rss_bytes > 0);
    assert_null(r->cost->shedding);
    char job[] = "b", none[] = "none";
    ask_status(&p, 6, job);
    UNTIL(w, &p, p.replies == 2);
    assert_int_equal(p.reply->n_jobs, 1);
    assert_string_equal(p.reply->jobs[0]->job, "b");
    ask_status(&p, 7, none);
    UNTIL(w, &p, p.replies == 3);
    assert_int_equal(p.reply->n_jobs, 0);
    free_peer(&p);
}

/* The longest texts of the most ranks do not fit a message: those left out are counted. */
static void test_status_full(void **state)
{
    struct world *w = *state;
    static struct jobs_rank ranks[JOBS_RANKS_MAX];
    static uint32_t cores[JOBS_CORES_MAX];
    static char name[256];
    memset(name, 'n', 255);
    for (size_t i = 0; i < JOBS_CORES_MAX; i++)
        cores[i] = 1000;
    for (uint32_t i = 0; i < JOBS_RANKS_MAX; i++) {
        ranks[i] = rank_of(i < 600 ? name : name + i % 2, i + 1);
        ranks[i].reason = ranks[i].unit = ranks[i].program = name;
        ranks[i].cores = cores;
        ranks[i].ncores = JOBS_CORES_MAX;
    }
    parts.ranks = ranks;
    parts.nranks = JOBS_RANKS_MAX;
    parts.njobs = JOBS_MAX;
    struct peer p;
    ready(w, &p, 2);
    ask_status(&p, 1, NULL);
    UNTIL(w, &p, p.replies == 1);
    assert_true(p.reply->ranks_left_out > 0);
    size_t told = 0;
    for (size_t i = 0; i < p.reply->n_jobs; i++)
        told += p.reply->jobs[i]->n_ranks;
    assert_int_equal(told + p.reply->ranks_left_out, JOBS_RANKS_MAX);
    assert_true(told > 100);
    free_peer(&p);
}

static void test_capture(void **state)
{
    struct world *w = *state;
    struct peer p;
    parts.nids = 3;
    ready(w, &p, 2);
    char job[] = "train", mode[] = "session";
    uint32_t cores[] = {4, 5};
    Kymo__Control__CaptureRequest q = capture_request(9, 0);
    q.job = job;
    q.mode = mode;
    q.n_cores = 2;
    q.cores = cores;
    q.has_pid = q.has_step = q.has_count = q.has_duration_ms = q.has_ranks_one_in = 1;
    q.pid = 44;
    q.step = 1000;
    q.count = 6;
    q.duration_ms = 7000;
    q.ranks_one_in = 8;
    ask_capture(&p, &q);
    UNTIL(w, &p, p.lasts == 1);
    assert_int_equal(p.progress, 3);
    assert_string_equal(p.id, "capture-1-2");
    assert_string_equal(parts.job, "train");
    assert_string_equal(parts.mode, "session");
    assert_string_equal(parts.trigger, "on-demand");
    assert_int_equal(parts.wish.pid, 44);
    assert_int_equal(parts.wish.step, 1000);
    assert_int_equal(parts.wish.count, 6);
    assert_int_equal(parts.wish.duration_ms, 7000);
    assert_int_equal(parts.wish.ranks_one_in, 8);
    assert_int_equal(parts.wish.ncores, 2);
    assert_memory_equal(parts.cores, cores, sizeof cores);
    assert_false(parts.wish.wait);
    assert_int_equal(parts_watching(), 0);
    assert_non_null(strstr(w->note, "job train: 3 begun"));
    /* Some could not: told at the end. */
    parts.text = "rank 3: \xff busy";
    q.request_id = 10;
    ask_capture(&p, &q);
    UNTIL(w, &p, p.lasts == 2);
    assert_int_equal(p.progress, 7);
    assert_string_equal(p.id, "");
    assert_string_equal(p.text, "rank 3: \\xff busy");
    /* None could. */
    static const struct {
        int answer, why;
    } rows[] = {{-ENOENT, KYMO__WIRE__REFUSAL__REASON__NOT_FOUND}, {-EBUSY, KYMO__WIRE__REFUSAL__REASON__BUSY},
                {-EINVAL, KYMO__WIRE__REFUSAL__REASON__INVALID},   {-EPERM, KYMO__WIRE__REFUSAL__REASON__UNSUPPORTED},
                {-ENOSPC, KYMO__WIRE__REFUSAL__REASON__FULL},      {-EIO, KYMO__WIRE__REFUSAL__REASON__IO}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        parts.answer = rows[i].answer;
        parts.text = "because";
        q.request_id = 20 + i;
        ask_capture(&p, &q);
        UNTIL(w, &p, p.refusals == i + 1);
        assert_int_equal(p.why, rows[i].why);
        assert_int_equal(p.refused_id, 20 + i);
        assert_string_equal(p.refusal, "because");
    }
    parts.answer = 0;
    q.has_until = 1;
    q.until = KYMO__CONTROL__CAPTURE_PROGRESS__STATE__ARMED;
    ask_capture(&p, &q);
    UNTIL(w, &p, p.refusals == 7);
    assert_int_equal(p.why, KYMO__WIRE__REFUSAL__REASON__INVALID);
    free_peer(&p);
}

static void word(size_t ask, enum captures_state now, const char *text, bool last)
{
    struct captures_ask a = parts.asks[ask];
    assert_non_null(a.watch);
    if (last)
        parts.asks[ask].watch = NULL;
    a.watch(a.ctx, "capture-1-0", now, text, last);
}

static void test_wait(void **state)
{
    struct world *w = *state;
    struct peer p;
    parts.nids = 1;
    ready(w, &p, 2);
    Kymo__Control__CaptureRequest q = capture_request(1, 60000);
    ask_capture(&p, &q);
    UNTIL(w, &p, p.progress == 1);
    assert_int_equal(p.lasts, 0);
    /* Without a collector the spool is where it ends. */
    assert_false(parts.wish.wait);
    word(0, CAPTURES_RUNNING, "step 7", false);
    UNTIL(w, &p, p.progress == 2);
    assert_int_equal(p.last_progress.now, KYMO__CONTROL__CAPTURE_PROGRESS__STATE__RUNNING);
    assert_string_equal(p.text, "step 7");
    word(0, CAPTURES_FAILED, "too little device memory", true);
    UNTIL(w, &p, p.lasts == 1);
    assert_int_equal(p.last_progress.now, KYMO__CONTROL__CAPTURE_PROGRESS__STATE__FAILED);
    assert_int_equal(parts.unwatched, 0);
    parts.outbox.nlinks = 1;
    q.request_id = 2;
    ask_capture(&p, &q);
    UNTIL(w, &p, p.progress == 4);
    assert_true(parts.wish.wait);
    q.has_until = 1;
    q.until = KYMO__CONTROL__CAPTURE_PROGRESS__STATE__SPOOLED;
    q.request_id = 3;
    ask_capture(&p, &q);
    UNTIL(w, &p, p.progress == 5);
    assert_false(parts.wish.wait);
    assert_int_equal(parts_watching(), 2);
    for (uint64_t i = 4; i <= 6; i++) {
        q.request_id = i;
        ask_capture(&p, &q);
    }
    UNTIL(w, &p, p.refusals == 1);
    assert_int_equal(p.refused_id, 6);
    assert_int_equal(p.why, KYMO__WIRE__REFUSAL__REASON__BUSY);
    assert_int_equal(parts_watching(), CONTROL_ASKS_MAX);
    /* Who waits is not idle, but not for ever. */
    pass(w, &p, 58000);
    assert_int_equal(p.refusals, 1);
    assert_false(p.gone);
    pass(w, &p, 3000);
    assert_int_equal(p.refusals, 5);
    assert_int_equal(p.why, KYMO__WIRE__REFUSAL__REASON__TIMEOUT);
    assert_int_equal(parts_watching(), 0);
    assert_int_equal(parts.unwatched, 4);
    assert_false(p.gone);
    free_peer(&p);
}

static void test_gone_while_waiting(void **state)
{
    struct world *w = *state;
    struct peer p, other;
    struct control_counts counts;
    parts.nids = 2;
    ready(w, &p, 2);
    ready(w, &other, 2);
    Kymo__Control__CaptureRequest q = capture_request(1, 60000);
    ask_capture(&p, &q);
    UNTIL(w, &p, p.progress == 2);
    ask_capture(&other, &q);
    UNTIL(w, &other, other.progress == 2);
    free_peer(&p);
    UNTIL(w, &other, parts.unwatched == 1);
    word(1, CAPTURES_SPOOLED, NULL, true);
    UNTIL(w, &other, other.lasts == 1);
    control_get_counts(w->server, &counts);
    assert_int_equal(counts.clients, 1);
    free_peer(&other);
}

/* A client of version 1 gets no state that it does not know, and what it cannot mean is not taken for granted. */
static void test_version_1(void **state)
{
    struct world *w = *state;
    struct peer p;
    parts.nids = 1;
    ready(w, &p, 1);
    Kymo__Control__CaptureRequest q = capture_request(1, 60000);
    q.has_count = 1;
    q.count = 5;
    ask_capture(&p, &q);
    UNTIL(w, &p, p.progress == 1);
    assert_int_equal(parts.wish.count, 0);
    word(0, CAPTURES_FAILED, "lost", true);
    UNTIL(w, &p, p.lasts == 1);
    assert_int_equal(p.last_progress.now, KYMO__CONTROL__CAPTURE_PROGRESS__STATE__UNKNOWN);
    assert_string_equal(p.text, "lost");
    free_peer(&p);
}

static int dial(const struct world *w)
{
    int fd = kymo_sock_connect_stream(w->path, NULL);
    assert_true(fd >= 0);
    return fd;
}

/* Garbage, silence, floods and a reader that does not read: each is closed, and the one who behaves is served. */
static void test_hostile(void **state)
{
    struct world *w = *state;
    struct peer good, flood, deaf;
    struct control_counts counts;
    ready(w, &good, 2);
    ready(w, &flood, 2);
    ready(w, &deaf, 2);
    int garbage = dial(w), silent = dial(w);
    uint8_t bytes[3000];
    memset(bytes, 0xa5, sizeof bytes);
    assert_int_equal(send(garbage, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
    for (uint64_t i = 1; i <= 3 * CONTROL_REQUESTS_S; i++)
        ask_status(&flood, i, NULL);
    UNTIL(w, &flood, flood.replies + flood.refusals == 3 * CONTROL_REQUESTS_S);
    assert_true(flood.refusals > 0);
    assert_int_equal(flood.why, KYMO__WIRE__REFUSAL__REASON__BUSY);
    ask_status(&good, 1, NULL);
    UNTIL(w, &good, good.replies == 1);
    assert_in_range(recv(garbage, bytes, sizeof bytes, MSG_DONTWAIT), 20, sizeof bytes);
    assert_int_equal(recv(garbage, bytes, sizeof bytes, MSG_DONTWAIT), 0);
    /* The deaf one asks until the socket is full of answers, and then is not read from any more. */
    static struct jobs_rank ranks[JOBS_RANKS_MAX];
    for (uint32_t i = 0; i < JOBS_RANKS_MAX; i++)
        ranks[i] = rank_of("j", i + 1);
    parts.ranks = ranks;
    parts.nranks = JOBS_RANKS_MAX;
    parts.njobs = 1;
    for (uint64_t i = 0; i < 40; i++)
        ask_status(&deaf, i + 1, NULL);
    const uint8_t *data;
    size_t n;
    session_out(deaf.session, &data, &n);
    assert_int_equal(send(deaf.fd, data, n, MSG_NOSIGNAL), (ssize_t)n);
    pass(w, &good, 6000);
    assert_int_equal(recv(silent, bytes, sizeof bytes, MSG_DONTWAIT), 0);
    pass(w, &good, CONTROL_STALL_MS);
    control_get_counts(w->server, &counts);
    assert_int_equal(counts.clients, 2);
    assert_int_equal(counts.broken, 3);
    assert_false(good.gone);
    ask_status(&good, 2, NULL);
    UNTIL(w, &good, good.replies == 2);
    /* Idle ones go at last. */
    pass(w, &good, CONTROL_IDLE_MS + 1000);
    UNTIL(w, &good, good.gone);
    (void)close(garbage);
    (void)close(silent);
    free_peer(&good);
    free_peer(&flood);
    free_peer(&deaf);
}

static void test_too_many(void **state)
{
    struct world *w = *state;
    int fds[CONTROL_CLIENTS_MAX + 5];
    struct control_counts counts;
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        fds[i] = dial(w);
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    }
    for (int i = 0; i < 20; i++)
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    control_get_counts(w->server, &counts);
    assert_int_equal(counts.clients, CONTROL_CLIENTS_MAX);
    assert_int_equal(counts.refused, 5);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        (void)close(fds[i]);
    struct peer p;
    for (int i = 0; i < 20; i++)
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    ready(w, &p, 2);
    control_get_counts(w->server, &counts);
    assert_int_equal(counts.clients, 1);
    free_peer(&p);
}

/* In a process of another user: connects, says hello, and returns the reason of the refusal; 100: none. */
static int try_as(const struct world *w, uid_t uid, gid_t gid, gid_t extra)
{
    struct peer p;
    if (setgroups(extra ? 1 : 0, &extra) < 0 || setgid(gid) < 0 || setuid(uid) < 0)
        return 101;
    memset(&p, 0, sizeof p);
    const struct session_config config = {
        .protocol = &control_protocol, .side = WIRE_CLIENT, .versions = {1, 2}, .on_message = on_message, .ctx = &p};
    if (session_new(&config, &p.session, NULL) < 0)
        return 102;
    p.fd = kymo_sock_connect_stream(w->path, &p.err);
    if (p.fd < 0)
        return p.err.code == -EACCES ? 103 : 104;
    for (int i = 0; i < 2000 && !p.gone && !session_is_ready(p.session); i++) {
        turn_peer(&p);
        (void)usleep(1000);
    }
    return session_is_ready(p.session) ? 100 : strstr(p.err.text, "only root") ? 1 : 105;
}

static int as_user(struct world *w, uid_t uid, gid_t gid, gid_t extra)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(try_as(w, uid, gid, extra));
    int status = 0;
    for (int i = 0; i < 5000 && waitpid(child, &status, WNOHANG) == 0; i++) {
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
        (void)usleep(1000);
    }
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_who_may(void **state)
{
    struct world *w = *state;
    struct stat st;
    assert_int_equal(stat(w->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    if (geteuid() != 0)
        skip();
    assert_int_equal(chmod(w->dir, 0755), 0);
    assert_int_equal(as_user(w, 0, 0, 0), 100);
    /* The file's mode keeps strangers off; where it is wider, their credentials do. */
    assert_int_equal(as_user(w, 4711, 4711, 0), 103);
    assert_int_equal(chmod(w->path, 0666), 0);
    assert_int_equal(as_user(w, 4711, 4711, 0), 1);
    assert_non_null(strstr(w->note, "user 4711"));
    assert_int_equal(as_user(w, 4711, 0, 0), 1);
    assert_int_equal(chown(w->path, 0, 4712), 0);
    assert_int_equal(as_user(w, 4711, 4711, 0), 1);
    assert_int_equal(as_user(w, 4711, 4711, 4712), 100);
    assert_int_equal(as_user(w, 4711, 4712, 0), 100);
}

static void test_second_server(void **state)
{
    struct world *w = *state;
    struct control *second = NULL;
    struct kymo_err err = {0};
    struct control_config config = {.path = w->path, .listen_fd = -1};
    assert_int_equal(control_start(&w->loop, &config, &second, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, w->path));
    config.listen_fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(config.listen_fd >= 0);
    kymo_alloc_fail_after(0);
    assert_int_equal(control_start(&w->loop, &config, &second, &err), -ENOMEM);
    kymo_alloc_fail_after(-1);
    assert_null(control_stop(NULL));
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_status),    T(test_status_full), T(test_capture),  T(test_wait),    T(test_gone_while_waiting),
        T(test_version_1), T(test_hostile),     T(test_too_many), T(test_who_may), T(test_second_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
