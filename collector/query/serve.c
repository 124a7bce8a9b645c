#include "collector/query/serve.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "collector/query/query_internal.h"
#include "collector/query/serve_dirs.h"
#include "collector/query/serve_frame.h"
#include "collector/query/serve_impl.h"
#include "collector/query/serve_ops.h"

#define AGAIN_MAX 16 /* directories of a request whose damaged tables are left out */
#define AGAIN_MS 20  /* what is to end is interrupted again and again: an interrupt counts for what runs at the time */
#define STACK (8u << 20) /* DuckDB plans and runs statements on it */

static bool has_stop(const struct serve *s)
{
    for (const struct serve_request *q = s->requests; q; q = q->next)
        if (q->stop)
            return true;
    return false;
}

static struct serve_request *find(const struct serve *s, uint32_t id)
{
    struct serve_request *q = s->requests;
    while (q && q->id != id)
        q = q->next;
    return q;
}

static void stop(struct serve_request *q, bool late)
{
    q->late |= late;
    q->stop = true;
    if (q->sql.connection)
        duckdb_interrupt(q->sql.connection);
    if (q->own)
        query_db_interrupt(q->own);
    (void)pthread_cond_broadcast(&q->changed);
}

/* With the lock held. What was stopped is interrupted once more, and what takes too long is stopped. */
static void look_after(struct serve *s)
{
    uint64_t now = kymo_clock_mono_ns();
    for (struct serve_request *q = s->requests; q; q = q->next)
        if (q->stop || (q->deadline_ns && now >= q->deadline_ns))
            stop(q, !q->stop);
}

static void free_request(struct serve_request *q)
{
    json_decref(q->root);
    (void)pthread_cond_destroy(&q->changed);
    kymo_free(q);
}

/* From here on, who stops the request ends what runs on the connection. */
static void set_connection(struct serve_request *q, struct serve_dir *dir, duckdb_connection connection)
{
    (void)pthread_mutex_lock(&q->serve->lock);
    q->dir = dir;
    q->sql.connection = connection;
    (void)pthread_mutex_unlock(&q->serve->lock);
}

static int watch_begin(void *ctx, struct query_db *db, struct kymo_err *err)
{
    return serve_own_db(ctx, db, err);
}

static void watch_end(void *ctx)
{
    serve_own_db_done(ctx);
}

struct query_damage_watch serve_watch(struct serve_request *q)
{
    return (struct query_damage_watch){watch_begin, watch_end, q};
}

/* What a directory says after a failure in it: of damaged files, if that is why. */
static int doubt(struct serve_request *q, struct serve_dir *dir, int failed, struct kymo_err *err)
{
    const struct query_damage_watch watch = serve_watch(q);
    struct kymo_err found = {0};
    bool again = false;
    /* Of DuckDB's errors, those that no file is to blame for. */
    if (!serve_dir_failed(failed) || (failed == -EIO && !query_damage_may_be(err)) || q->stop ||
        serve_dirs_doubt(q->serve->dirs, dir, &watch, &again, &found) != -EBADMSG)
        return failed;
    /* It knows its file, which is another one. */
    if (!again && strstr(err->text, ".parquet") && !strstr(err->text, "Instruction"))
        return failed;
    q->again |= again;
    return kymo_err_set(err, -EBADMSG, "%s", found.text);
}

int serve_visit(struct serve_request *q, const char *path,
                int (*visit)(struct serve_request *q, void *ctx, struct kymo_err *err), void *ctx, struct kymo_err *err)
{
    struct serve_dir *dir = NULL;
    duckdb_connection connection = NULL;
    int r = serve_dirs_get(q->serve->dirs, path, &dir, err);
    if (r < 0)
        return r;
    r = serve_dir_connect(dir, &connection, err);
    if (r == 0) {
        set_connection(q, dir, connection);
        r = visit(q, ctx, err);
        set_connection(q, NULL, NULL);
        duckdb_disconnect(&connection);
        r = doubt(q, dir, r, err);
    }
    serve_dirs_put(q->serve->dirs, dir);
    return r;
}

int serve_visit_db(struct serve_request *q, struct query_db *db,
                   int (*visit)(struct serve_request *q, void *ctx, struct kymo_err *err), void *ctx,
                   struct kymo_err *err)
{
    duckdb_connection before = q->sql.connection, connection = NULL;
    int r = query_db_connect(db, &connection, err);
    if (r < 0)
        return r;
    set_connection(q, q->dir, connection);
    r = visit(q, ctx, err);
    set_connection(q, q->dir, before);
    duckdb_disconnect(&connection);
    return r;
}

int serve_own_db(struct serve_request *q, struct query_db *db, struct kymo_err *err)
{
    (void)pthread_mutex_lock(&q->serve->lock);
    q->own = db;
    bool stopped = q->stop;
    (void)pthread_mutex_unlock(&q->serve->lock);
    return stopped ? kymo_err_set(err, -ECANCELED, "nobody wants the answer any more") : 0;
}

void serve_own_db_done(struct serve_request *q)
{
    (void)pthread_mutex_lock(&q->serve->lock);
    q->own = NULL;
    (void)pthread_mutex_unlock(&q->serve->lock);
}

static int run_op(struct serve_request *q, void *ctx, struct kymo_err *err)
{
    (void)ctx;
    return q->op->run(q, err);
}

static int run(struct serve_request *q, struct kymo_err *err)
{
    return q->op->alone ? q->op->run(q, err) : serve_visit(q, q->question.dir, run_op, NULL, err);
}

static void *work(void *arg)
{
    struct serve_request *q = arg;
    struct serve *s = q->serve;
    struct kymo_err err = {0};
    if (q->op->patient)
        serve_give_way();
    int r = run(q, &err);
    /* An operation on several directories meets one after the other. */
    for (int i = 0; i < AGAIN_MAX && r < 0 && q->again && !q->begun && !q->stop; i++) {
        q->again = false;
        err = (struct kymo_err){0};
        r = run(q, &err);
    }
    (void)pthread_mutex_lock(&s->lock);
    if (r < 0 && q->late)
        r = kymo_err_set(&err, -ETIMEDOUT, "the answer took longer than %u ms", s->limits.timeout_ms);
    else if (r < 0 && q->stop)
        r = kymo_err_set(&err, -ECANCELED, "nobody wants the answer any more");
    (void)pthread_mutex_unlock(&s->lock);
    /* The id is free again when END is read, so the request goes first. */
    (void)pthread_mutex_lock(&s->lock);
    for (struct serve_request **at = &s->requests; *at; at = &(*at)->next)
        if (*at == q) {
            *at = q->next;
            break;
        }
    s->running--;
    (void)pthread_mutex_unlock(&s->lock);
    serve_end(s, q->id, r < 0 ? &err : NULL);
    free_request(q);
    return NULL;
}

static int start(struct serve *s, struct serve_request *q, struct kymo_err *err)
{
    pthread_t thread;
    pthread_attr_t attr;
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attr, STACK);
    (void)pthread_mutex_lock(&s->lock);
    q->next = s->requests;
    s->requests = q;
    s->running++;
    int r = pthread_create(&thread, &attr, work, q);
    if (r != 0) {
        s->requests = q->next;
        s->running--;
    }
    (void)pthread_mutex_unlock(&s->lock);
    (void)pthread_attr_destroy(&attr);
    return r ? kymo_err_set(err, -EAGAIN, "no thread for the request: %s", strerror(r)) : 0;
}

static int take_request(struct serve *s, const struct serve_frame *f, struct kymo_err *err)
{
    struct kymo_err why = {0};
    struct serve_request *q = KYMO_NEW(struct serve_request);
    if (!q)
        return kymo_err_set(err, -ENOMEM, "no memory for a request");
    (void)pthread_cond_init(&q->changed, NULL);
    q->serve = s;
    q->id = f->id;
    q->credit = SERVE_WINDOW;
    q->sql.stop = &q->stop;
    if (s->limits.timeout_ms)
        q->deadline_ns = kymo_clock_mono_ns() + (uint64_t)s->limits.timeout_ms * 1000000;
    int r = serve_question_parse(f->payload, f->n, &q->root, &q->question, &why);
    if (r == 0 && !(q->op = serve_op_find(q->question.op)))
        r = kymo_err_set(&why, -ENOENT, "there is no operation %.64s", q->question.op);
    if (r == 0)
        r = start(s, q, &why);
    if (r == 0)
        return 0;
    free_request(q);
    serve_end(s, f->id, &why);
    return 0;
}

static int take_frame(struct serve *s, const struct serve_frame *f, struct kymo_err *err)
{
    (void)pthread_mutex_lock(&s->lock);
    struct serve_request *q = find(s, f->id);
    bool full = s->running >= SERVE_RUNNING_MAX;
    if (q && f->type == SERVE_CANCEL) {
        stop(q, false);
    } else if (q && f->type == SERVE_CREDIT) {
        q->credit += serve_frame_credit(f);
        (void)pthread_cond_broadcast(&q->changed);
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (f->type == SERVE_CANCEL || f->type == SERVE_CREDIT)
        return 0; /* of an id that has just ended */
    if (f->type != SERVE_REQUEST)
        return kymo_err_set(err, -EPROTO, "a frame of type %d, which only this side sends", (int)f->type);
    if (q || full)
        return kymo_err_set(err, -EPROTO, q ? "request %u is there already" : "request %u is one too many", f->id);
    return take_request(s, f, err);
}

static int take_bytes(struct serve *s, struct kymo_buf *in, struct kymo_err *err)
{
    size_t at = 0;
    struct serve_frame f;
    long n;
    while ((n = serve_frame_parse(in->data + at, in->len - at, &f, err)) > 0) {
        int r = take_frame(s, &f, err);
        if (r < 0)
            return r;
        at += (size_t)n;
    }
    if (n < 0)
        return (int)n;
    memmove(in->data, in->data + at, in->len - at);
    in->len -= at;
    return 0;
}

/* 1: more may come; 0: the other side has closed. */
static int read_more(struct serve *s, struct kymo_buf *in, struct kymo_err *err)
{
    (void)pthread_mutex_lock(&s->lock);
    look_after(s);
    int wait = has_stop(s) ? AGAIN_MS : s->requests ? 100 : -1;
    (void)pthread_mutex_unlock(&s->lock);
    struct pollfd p = {.fd = s->fd, .events = POLLIN};
    int r = poll(&p, 1, wait);
    if (r == 0 || (r < 0 && errno == EINTR))
        return 1;
    if (r < 0 || kymo_buf_reserve(in, 64u << 10) < 0)
        return kymo_err_set(err, -ENOMEM, "no memory for requests");
    ssize_t n = read(s->fd, in->data + in->len, 64u << 10);
    if (n < 0)
        return errno == EINTR ? 1 : kymo_err_set(err, -errno, "requests cannot be read: %s", strerror(errno));
    in->len += (size_t)n;
    return n == 0 ? 0 : take_bytes(s, in, err) < 0 ? err->code : 1;
}

int serve_run(int fd, const struct query_limits *limits, struct kymo_err *err)
{
    struct serve s = {.fd = fd, .limits = *limits};
    struct query_limits each = *limits;
    struct kymo_buf in;
    int r;
    each.timeout_ms = 0; /* requests have it, not statements */
    s.dirs = serve_dirs_new(&each);
    if (!s.dirs)
        return kymo_err_set(err, -ENOMEM, "no memory for directories");
    (void)pthread_mutex_init(&s.lock, NULL);
    (void)pthread_mutex_init(&s.out_lock, NULL);
    kymo_buf_init(&in, 2 * (SERVE_REQUEST_MAX + SERVE_FRAME_HEAD));
    do
        r = read_more(&s, &in, err);
    while (r == 1);
    /* Threads may still be at work on what nobody will read; the process ends with them. */
    (void)fflush(NULL);
    _exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}
