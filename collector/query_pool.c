#include "collector/query_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/le.h"
#include "base/log.h"
#include "collector/json_text.h"
#include "collector/query/serve_frame.h"
#include "collector/runner_child.h"

#define BACKOFF_MIN_MS 100
#define BACKOFF_MAX_MS 10000
#define STEADY_MS 30000 /* a child that lived so long begins anew with the least wait */
#define OUT_MAX (32u << 20)
#define READ_BLOCK (256u << 10)
#define MEMORY "--memory=1G" /* of one directory, and 2 threads */

struct query_call {
    struct query_call *next;
    struct child *child;
    uint32_t id; /* 0: it waits */
    struct kymo_buf question;
    const struct query_call_ops *ops; /* NULL: canceled */
    void *ctx;
    bool begun;
};

/* A handle outlives its process: libuv closes it later. */
struct watch {
    uv_poll_t poll;      /* first */
    struct child *child; /* NULL: it is being closed */
};

/* The process of one class. */
struct child {
    struct query_pool *pool;
    enum query_class class;
    pid_t pid; /* 0: none */
    int fd;
    struct watch *watch;
    uv_timer_t timer; /* until the next start */
    bool backing_off;
    uint64_t started_ms, backoff_ms;
    struct kymo_buf in, out;
    struct query_call *calls; /* those that run, then those that wait, in order */
    uint32_t next_id;
    struct query_pool_figures figures;
};

struct query_pool {
    uv_loop_t *loop;
    char *program;
    void (*say)(void *ctx, int level, const char *text);
    void *ctx;
    struct child children[QUERY_CLASSES];
    int handles;
    bool closing;
};

static const struct {
    const char *name, *timeout_s;
    int nice; /* what takes long gives way to what somebody moves the timeline with */
} classes[QUERY_CLASSES] = {[QUERY_QUICK] = {"quick", "25", 0}, [QUERY_LONG] = {"long", "300", 10}};

static void say(struct query_pool *p, int level, const char *text)
{
    if (p->say)
        p->say(p->ctx, level, text);
}

static void free_call(struct query_call *c)
{
    kymo_buf_done(&c->question);
    kymo_free(c);
}

static void take_out(struct query_call *c)
{
    for (struct query_call **at = &c->child->calls; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    if (c->id)
        c->child->figures.running--;
    else
        c->child->figures.waiting--;
}

/* The call is over: its owner hears of it, if there still is one. */
static void end_call(struct query_call *c, const struct query_failure *why)
{
    take_out(c);
    c->child->figures.failed += why != NULL && c->ops != NULL;
    if (c->ops)
        c->ops->end(c->ctx, why);
    free_call(c);
}

static void watch(struct child *k);

static void on_watch_closed(uv_handle_t *handle)
{
    kymo_free(handle);
}

static int put_frame(struct child *k, enum serve_frame_type type, uint32_t id, const void *data, size_t n)
{
    uint8_t head[SERVE_FRAME_HEAD];
    serve_frame_head(head, type, id, n);
    int r = kymo_buf_reserve(&k->out, sizeof head + n);
    if (r == 0)
        r = kymo_buf_append(&k->out, head, sizeof head);
    if (r == 0 && n)
        r = kymo_buf_append(&k->out, data, n);
    return r;
}

static void stop_child(struct child *k)
{
    if (k->watch) {
        k->watch->child = NULL;
        uv_close((uv_handle_t *)&k->watch->poll, on_watch_closed);
        k->watch = NULL;
    }
    if (k->pid > 0) {
        (void)kill(-k->pid, SIGKILL);
        (void)kill(k->pid, SIGKILL);
        while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    k->pid = 0;
    k->fd = kymo_file_close(k->fd);
    kymo_buf_reset(&k->in);
    kymo_buf_reset(&k->out);
}

static void run_waiting(struct child *k);

static void on_again(uv_timer_t *timer)
{
    struct child *k = timer->data;
    k->backing_off = false;
    run_waiting(k);
}

/* The process has ended, or said what it may not. Those that wait are asked again when there is another. */
static void lose_child(struct child *k, const char *why)
{
    char text[KYMO_ERR_TEXT_MAX + 64];
    const struct query_failure failure = {503, "restarting", "the query process has ended; ask again"};
    (void)snprintf(text, sizeof text, "kymo-query (%s): %s", classes[k->class].name, why);
    say(k->pool, KYMO_LOG_WARNING, text);
    bool steady = uv_now(k->pool->loop) - k->started_ms > STEADY_MS;
    stop_child(k);
    k->backoff_ms = steady || !k->backoff_ms             ? BACKOFF_MIN_MS
                    : 2 * k->backoff_ms < BACKOFF_MAX_MS ? 2 * k->backoff_ms
                                                         : BACKOFF_MAX_MS;
    k->backing_off = true;
    (void)uv_timer_start(&k->timer, on_again, k->backoff_ms, 0);
    for (struct query_call *c = k->calls, *next; c; c = next) {
        next = c->next;
        if (c->id)
            end_call(c, &failure);
    }
}

static bool flush(struct child *k)
{
    while (k->out.len) {
        ssize_t n = send(k->fd, k->out.data, k->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK;
        memmove(k->out.data, k->out.data + n, k->out.len - (size_t)n);
        k->out.len -= (size_t)n;
    }
    return true;
}

static struct query_call *find(struct child *k, uint32_t id)
{
    struct query_call *c = k->calls;
    while (c && (c->id != id || !id))
        c = c->next;
    return c;
}

/* What a process of ours that may have been taken over can say of an answer's kind. */
static const char *known_type(const char *type)
{
    static const char *const types[] = {"application/json", "application/vnd.kymo.packed", "text/csv; charset=utf-8",
                                        "application/zip", "text/plain; charset=utf-8"};
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i], type))
            return types[i];
    return NULL;
}

/* What it says becomes a header of HTTP. */
static bool are_names(const char *text)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_,";
    return strlen(text) <= SERVE_LEFT_OUT_MAX && text[strspn(text, letters)] == '\0';
}

static int take_head(struct query_call *c, const struct serve_frame *f)
{
    json_t *root = json_loadb((const char *)f->payload, f->n, JSON_REJECT_DUPLICATES, NULL);
    json_int_t status = json_integer_value(json_object_get(root, "status"));
    const struct query_head head = {(unsigned)status, known_type(json_string_value(json_object_get(root, "type"))),
                                    json_string_value(json_object_get(root, "left_out"))};
    bool valid =
        !c->begun && head.type && status >= 200 && status <= 599 && (!head.left_out || are_names(head.left_out));
    c->begun |= valid;
    if (valid && c->ops)
        c->ops->head(c->ctx, &head);
    json_decref(root);
    return valid ? 0 : -EPROTO;
}

static int take_end(struct query_call *c, const struct serve_frame *f)
{
    json_t *root = json_loadb((const char *)f->payload, f->n, JSON_REJECT_DUPLICATES, NULL);
    const char *code = json_string_value(json_object_get(root, "code")),
               *message = json_string_value(json_object_get(root, "message"));
    json_int_t status = json_integer_value(json_object_get(root, "status"));
    bool whole = json_is_object(root) && json_object_size(root) == 0;
    const struct query_failure why = {status >= 400 && status < 600 ? (unsigned)status : 500, code ? code : "internal",
                                      message ? message : "the query failed"};
    if (whole && !c->begun) {
        json_decref(root);
        return -EPROTO;
    }
    end_call(c, whole ? NULL : &why);
    json_decref(root);
    return 0;
}

static int take_frame(struct child *k, const struct serve_frame *f)
{
    struct query_call *c = find(k, f->id);
    if (!c)
        return -EPROTO;
    switch (f->type) {
    case SERVE_HEAD:
        return take_head(c, f);
    case SERVE_DATA:
        if (!c->begun)
            return -EPROTO;
        if (c->ops)
            c->ops->data(c->ctx, f->payload, f->n);
        return 0;
    case SERVE_END:
        return take_end(c, f);
    default:
        return -EPROTO;
    }
}

static int take_frames(struct child *k, struct kymo_err *err)
{
    struct serve_frame f;
    size_t at = 0;
    long n;
    int r = 0;
    while (r == 0 && (n = serve_frame_parse(k->in.data + at, k->in.len - at, &f, err)) > 0) {
        at += (size_t)n;
        r = take_frame(k, &f);
        if (r < 0)
            return kymo_err_set(err, r, "it broke the protocol with a frame of type %d", (int)f.type);
    }
    if (n < 0)
        return (int)n;
    memmove(k->in.data, k->in.data + at, k->in.len - at);
    k->in.len -= at;
    return 0;
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct child *k = ((struct watch *)poll)->child;
    struct kymo_err err = {0};
    ssize_t n = 0;
    (void)status;
    if (!k)
        return;
    if ((events & UV_WRITABLE) && !flush(k)) {
        lose_child(k, "it does not listen");
        return;
    }
    if (kymo_buf_reserve(&k->in, READ_BLOCK) < 0) {
        lose_child(k, "no memory for what it says");
        return;
    }
    n = recv(k->fd, k->in.data + k->in.len, READ_BLOCK, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        lose_child(k, "it has ended");
        return;
    }
    if (n > 0) {
        k->in.len += (size_t)n;
        if (take_frames(k, &err) < 0) {
            lose_child(k, err.text);
            return;
        }
    }
    run_waiting(k);
    watch(k);
}

/* What is to be sent may have come or gone. */
static void watch(struct child *k)
{
    if (k->watch)
        (void)uv_poll_start(&k->watch->poll, UV_READABLE | (k->out.len ? UV_WRITABLE : 0), on_ready);
}

static int watch_child(struct child *k, struct kymo_err *err)
{
    struct watch *w = KYMO_NEW(struct watch);
    if (!w)
        return kymo_err_set(err, -ENOMEM, "no memory for a process");
    int r = uv_poll_init(k->pool->loop, &w->poll, k->fd);
    if (r < 0) {
        kymo_free(w);
        return kymo_err_set(err, r, "a process cannot be watched: %s", uv_strerror(r));
    }
    w->child = k;
    k->watch = w;
    watch(k);
    return 0;
}

static int start_child(struct child *k, struct kymo_err *err)
{
    char *argv[] = {k->pool->program, "--serve", MEMORY, "--threads=2", "--timeout", NULL, NULL};
    char timeout[16], *envp[] = {"LANG=C.UTF-8", NULL};
    const struct runner_spec spec = {.argv = argv, .envp = envp, .limits = {.descriptors = 4096}};
    int ends[2];
    (void)snprintf(timeout, sizeof timeout, "%s", classes[k->class].timeout_s);
    argv[5] = timeout;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return kymo_err_set(err, -errno, "no socket for a process: %s", strerror(errno));
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        (void)setpriority(PRIO_PROCESS, 0, classes[k->class].nice);
        runner_child(&spec, parent, ends[1], STDERR_FILENO);
    }
    int code = -errno;
    kymo_file_close(ends[1]);
    if (pid < 0) {
        kymo_file_close(ends[0]);
        return kymo_err_set(err, code, "cannot start a process: %s", strerror(-code));
    }
    (void)setpgid(pid, pid);
    k->pid = pid;
    k->fd = ends[0];
    k->started_ms = uv_now(k->pool->loop);
    k->figures.starts++;
    return watch_child(k, err);
}

static int send_question(struct child *k, struct query_call *c)
{
    c->id = k->next_id++;
    if (k->next_id == 0)
        k->next_id = 1;
    k->figures.waiting--;
    k->figures.running++;
    return put_frame(k, SERVE_REQUEST, c->id, c->question.data, c->question.len);
}

/* Whose turn it is, for as many as may run. */
static void run_waiting(struct child *k)
{
    struct kymo_err err = {0};
    if (k->backing_off || k->pool->closing || !k->figures.waiting)
        return;
    if (k->pid <= 0 && start_child(k, &err) < 0) {
        lose_child(k, err.text);
        return;
    }
    for (struct query_call *c = k->calls; c && k->figures.running < QUERY_POOL_RUNNING; c = c->next)
        if (!c->id && send_question(k, c) < 0) {
            lose_child(k, "no memory for what it is asked");
            return;
        }
    watch(k);
}

/* question becomes the call's. */
static int ask(struct query_pool *p, enum query_class class, struct kymo_buf *question,
               const struct query_call_ops *ops, void *ctx, struct query_call **ret, struct kymo_err *err)
{
    struct child *k = &p->children[class];
    if (!p->program)
        return kymo_err_set(err, -ENOTSUP, "there is no kymo-query beside kymo-collector: it was built without DuckDB");
    if (p->closing)
        return kymo_err_set(err, -EBUSY, "the collector is stopping");
    if (k->figures.waiting >= QUERY_POOL_WAITING)
        return kymo_err_set(err, -EBUSY, "%u requests wait already", k->figures.waiting);
    struct query_call *c = KYMO_NEW(struct query_call);
    if (!c)
        return kymo_err_set(err, -ENOMEM, "no memory for a request");
    *c = (struct query_call){.child = k, .question = *question, .ops = ops, .ctx = ctx};
    *question = (struct kymo_buf){.max = question->max};
    struct query_call **at = &k->calls;
    while (*at)
        at = &(*at)->next;
    *at = c;
    k->figures.waiting++;
    k->figures.asked++;
    *ret = c;
    /* Not now: who asks has not seen the call yet. */
    if (!k->backing_off)
        (void)uv_timer_start(&k->timer, on_again, 0, 0);
    return 0;
}

int query_pool_ask(struct query_pool *p, enum query_class class, const char *dir, const char *op, json_t *params,
                   const struct query_call_ops *ops, void *ctx, struct query_call **ret, struct kymo_err *err)
{
    struct kymo_buf question;
    json_t *root = json_pack("{s:o, s:s, s:o}", "dir", json_text(dir), "op", op, "params", params);
    kymo_buf_init(&question, SERVE_REQUEST_MAX);
    int r = json_print(root, &question);
    json_decref(root);
    if (r == 0)
        r = ask(p, class, &question, ops, ctx, ret, err);
    else
        r = kymo_err_set(err, r == -ENOBUFS ? -E2BIG : r, "the question is too long");
    kymo_buf_done(&question);
    return r;
}

void query_call_took(struct query_call *c, size_t n)
{
    uint8_t credit[4];
    struct child *k = c->child;
    kymo_put_le32(credit, (uint32_t)n);
    if (c->id && put_frame(k, SERVE_CREDIT, c->id, credit, sizeof credit) == 0)
        watch(k);
}

void query_call_cancel(struct query_call *c)
{
    struct child *k = c->child;
    c->ops = NULL;
    k->figures.canceled++;
    if (!c->id) {
        take_out(c);
        free_call(c);
        return;
    }
    /* Without memory it runs to its end, and nobody listens. */
    if (put_frame(k, SERVE_CANCEL, c->id, NULL, 0) == 0)
        watch(k);
}

void query_pool_figures(const struct query_pool *p, enum query_class class, struct query_pool_figures *ret)
{
    *ret = p->children[class].figures;
}

int query_pool_new(const struct query_pool_config *config, struct query_pool **ret, struct kymo_err *err)
{
    struct query_pool *p = KYMO_NEW(struct query_pool);
    if (!p || (config->program && !(p->program = kymo_strdup(config->program)))) {
        kymo_free(p);
        return kymo_err_set(err, -ENOMEM, "no memory for queries");
    }
    p->loop = config->loop;
    p->say = config->say;
    p->ctx = config->ctx;
    for (int i = 0; i < QUERY_CLASSES; i++) {
        struct child *k = &p->children[i];
        k->pool = p;
        k->class = (enum query_class)i;
        k->fd = -1;
        k->next_id = 1;
        kymo_buf_init(&k->in, SERVE_FRAME_HEAD + SERVE_REQUEST_MAX + READ_BLOCK);
        kymo_buf_init(&k->out, OUT_MAX);
        (void)uv_timer_init(p->loop, &k->timer);
        k->timer.data = k;
        p->handles++;
    }
    *ret = p;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct child *k = handle->data;
    struct query_pool *p = k->pool;
    if (--p->handles > 0)
        return;
    kymo_free(p->program);
    kymo_free(p);
}

struct query_pool *query_pool_free(struct query_pool *p)
{
    const struct query_failure failure = {503, "stopping", "the collector is stopping"};
    if (!p)
        return NULL;
    p->closing = true;
    for (int i = 0; i < QUERY_CLASSES; i++) {
        struct child *k = &p->children[i];
        stop_child(k);
        while (k->calls)
            end_call(k->calls, &failure);
        kymo_buf_done(&k->in);
        kymo_buf_done(&k->out);
    }
    for (int i = 0; i < QUERY_CLASSES; i++)
        uv_close((uv_handle_t *)&p->children[i].timer, on_closed);
    return NULL;
}
