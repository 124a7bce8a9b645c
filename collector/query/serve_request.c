#include "collector/query/serve_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "collector/json_text.h"
#include "collector/query/query_files.h"
#include "collector/query/serve_frame.h"
#include "collector/query/serve_impl.h"

#define PATIENT 10 /* nice value; query_pool.c has the same for the process of long requests */

#define JSON_MAX (64u << 20)

const struct serve_question *serve_question_of(const struct serve_request *q)
{
    return &q->question;
}

struct serve_dir *serve_dir_of(const struct serve_request *q)
{
    return q->dir;
}

const struct sql *serve_sql_of(const struct serve_request *q)
{
    return &q->sql;
}

/* All of it, or the process ends: half a frame cannot be taken back. */
static void write_frame(struct serve *s, enum serve_frame_type type, uint32_t id, const void *data, size_t n)
{
    uint8_t head[SERVE_FRAME_HEAD];
    union {
        const void *in;
        void *out;
    } payload = {data};
    struct iovec v[2] = {{head, sizeof head}, {payload.out, n}};
    size_t left = sizeof head + n;
    serve_frame_head(head, type, id, n);
    (void)pthread_mutex_lock(&s->out_lock);
    while (left) {
        ssize_t w = writev(s->fd, v, 2);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            _exit(1);
        left -= (size_t)w;
        for (int i = 0; i < 2; i++) {
            size_t part = (size_t)w < v[i].iov_len ? (size_t)w : v[i].iov_len;
            v[i].iov_base = (uint8_t *)v[i].iov_base + part;
            v[i].iov_len -= part;
            w -= (ssize_t)part;
        }
    }
    (void)pthread_mutex_unlock(&s->out_lock);
}

static const struct {
    int error;
    unsigned status;
    const char *code;
} statuses[] = {
    {-ENOENT, 404, "not_found"},   {-ENOTDIR, 404, "not_found"}, {-EINVAL, 400, "bad_request"},
    {-E2BIG, 400, "bad_request"},  {-ENOBUFS, 400, "too_long"},  {-EBUSY, 503, "busy"},
    {-EAGAIN, 503, "busy"},        {-ENOMEM, 503, "no_memory"},  {-ETIMEDOUT, 504, "timeout"},
    {-ECANCELED, 499, "canceled"}, {-EACCES, 403, "forbidden"},  {-ENOTSUP, 501, "unsupported"},
    {-EBADMSG, 500, "unreadable"}, {-ENOMSG, 500, "unreadable"},
};

void serve_end(struct serve *s, uint32_t id, const struct kymo_err *err)
{
    unsigned status = 500;
    const char *code = "internal";
    for (size_t i = 0; err && i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].error == err->code) {
            status = statuses[i].status;
            code = statuses[i].code;
        }
    struct kymo_buf text;
    struct kymo_err told = err ? *err : (struct kymo_err){0};
    kymo_buf_init(&text, SERVE_DATA_MAX);
    query_files_hide_places(told.text);
    json_t *root =
        err ? json_pack("{s:i, s:s, s:o}", "status", (int)status, "code", code, "message", json_text(told.text))
            : json_object();
    bool whole = json_print(root, &text) == 0;
    write_frame(s, SERVE_END, id, whole ? text.data : (const void *)"{}", whole ? text.len : 2);
    kymo_buf_done(&text);
    json_decref(root);
}

int serve_head(struct serve_request *q, unsigned status, const char *type, struct kymo_err *err)
{
    char text[160 + SERVE_LEFT_OUT_MAX];
    const char *left_out = q->dir ? q->dir->left_out : NULL;
    int n = left_out ? snprintf(text, sizeof text, "{\"status\":%u,\"type\":\"%s\",\"left_out\":\"%s\"}", status, type,
                                left_out)
                     : snprintf(text, sizeof text, "{\"status\":%u,\"type\":\"%s\"}", status, type);
    if (q->stop)
        return kymo_err_set(err, -ECANCELED, "nobody wants the answer any more");
    q->begun = true;
    write_frame(q->serve, SERVE_HEAD, q->id, text, (size_t)n);
    return 0;
}

/* Waits for credit for some of n bytes; how many. 0: stopped. */
static size_t take_credit(struct serve_request *q, size_t n)
{
    struct serve *s = q->serve;
    (void)pthread_mutex_lock(&s->lock);
    while (!q->stop && q->credit == 0)
        (void)pthread_cond_wait(&q->changed, &s->lock);
    size_t part = q->stop ? 0 : n < q->credit ? n : (size_t)q->credit;
    q->credit -= part;
    (void)pthread_mutex_unlock(&s->lock);
    return part;
}

int serve_data(struct serve_request *q, const void *data, size_t n, struct kymo_err *err)
{
    const uint8_t *at = data;
    while (n) {
        size_t part = take_credit(q, n < SERVE_DATA_MAX ? n : SERVE_DATA_MAX);
        if (part == 0)
            return kymo_err_set(err, -ECANCELED, "nobody wants the answer any more");
        write_frame(q->serve, SERVE_DATA, q->id, at, part);
        at += part;
        n -= part;
    }
    return 0;
}

int serve_answer_json(struct serve_request *q, json_t *body, struct kymo_err *err)
{
    struct kymo_buf text;
    kymo_buf_init(&text, JSON_MAX);
    int r = json_print(body, &text);
    json_decref(body);
    if (r < 0)
        r = kymo_err_set(err, r, "no memory for the answer, or it is too long");
    if (r == 0)
        r = serve_head(q, 200, "application/json", err);
    if (r == 0)
        r = serve_data(q, text.data, text.len, err);
    kymo_buf_done(&text);
    return r;
}

void serve_gather_init(struct serve_gather *g, struct serve_request *q)
{
    g->q = q;
    kymo_buf_init(&g->buf, 2 * SERVE_DATA_MAX);
}

int serve_gather_flush(struct serve_gather *g, struct kymo_err *err)
{
    int r = serve_data(g->q, g->buf.data, g->buf.len, err);
    kymo_buf_reset(&g->buf);
    return r;
}

int serve_gather_write(void *ctx, const void *data, size_t n, struct kymo_err *err)
{
    struct serve_gather *g = ctx;
    int r = g->buf.len + n > SERVE_DATA_MAX ? serve_gather_flush(g, err) : 0;
    if (r == 0 && n > SERVE_DATA_MAX / 2)
        return serve_gather_flush(g, err) < 0 ? err->code : serve_data(g->q, data, n, err);
    return r < 0                                   ? r
           : kymo_buf_append(&g->buf, data, n) < 0 ? kymo_err_set(err, -ENOMEM, "no memory for an answer")
                                                   : 0;
}

void serve_gather_done(struct serve_gather *g)
{
    kymo_buf_done(&g->buf);
}

int serve_answer_packed(struct serve_request *q, struct packed *p, struct kymo_err *err)
{
    struct serve_gather g;
    serve_gather_init(&g, q);
    int r = serve_head(q, 200, PACKED_TYPE, err);
    if (r == 0)
        r = packed_write(p, serve_gather_write, &g, err);
    if (r == 0)
        r = serve_gather_flush(&g, err);
    serve_gather_done(&g);
    return r;
}

void serve_give_way(void)
{
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), PATIENT);
}
