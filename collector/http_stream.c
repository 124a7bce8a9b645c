#include "collector/http_stream.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "collector/http_impl.h"

#define BLOCK (64u << 10)

struct http_stream {
    struct http_request *request; /* NULL: it is no more */
    const struct http_stream_ops *ops;
    void *ctx; /* of the writer; its calls end with owned */
    struct kymo_buf waiting;
    size_t at; /* taken of it */
    bool held; /* by libmicrohttpd, which may let go of it after the request */
    bool owned, ended, whole, suspended;
};

static void free_stream(struct http_stream *s)
{
    if (s->held || s->owned)
        return;
    kymo_buf_done(&s->waiting);
    kymo_free(s);
}

/* Something has changed for who takes. */
static void go_on(struct http_stream *s)
{
    if (!s->suspended || !s->request)
        return;
    s->suspended = false;
    MHD_resume_connection(s->request->mhd);
    if (s->request->http)
        http_wake(s->request->http);
}

static void tell_gone(struct http_stream *s)
{
    if (!s->owned)
        return;
    s->owned = false;
    s->ops->gone(s->ctx);
}

/* libmicrohttpd wants up to max bytes. */
static ssize_t take(void *cls, uint64_t pos, char *buf, size_t max)
{
    struct http_stream *s = cls;
    size_t n = s->waiting.len - s->at;
    (void)pos;
    if (n == 0 && s->ended)
        return s->whole ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
    if (n == 0) {
        s->suspended = true;
        MHD_suspend_connection(s->request->mhd);
        return 0;
    }
    n = n < max ? n : max;
    memcpy(buf, s->waiting.data + s->at, n);
    s->at += n;
    if (s->at == s->waiting.len) {
        kymo_buf_reset(&s->waiting);
        s->at = 0;
    }
    if (s->request->http)
        http_conn_phase(s->request->http, s->request->conn, HTTP_SENDING);
    if (s->owned)
        s->ops->taken(s->ctx, n);
    return (ssize_t)n;
}

/* The response is of no more use to libmicrohttpd. */
static void leave(void *cls)
{
    struct http_stream *s = cls;
    if (s->request)
        s->request->stream = NULL;
    s->request = NULL;
    s->held = false;
    tell_gone(s);
    free_stream(s);
}

void http_stream_forget(struct http_stream *s)
{
    s->request = NULL;
}

void http_on_gone(struct http_request *q, void (*gone)(void *ctx), void *ctx)
{
    q->gone = gone;
    q->gone_ctx = ctx;
}

struct http_stream *http_answer_stream(struct http_request *q, const struct http_stream_head *head,
                                       const struct http_stream_ops *ops, void *ctx)
{
    struct http_stream *s = NULL;
    q->gone = NULL;
    if (q->attached && !q->answered && q->http)
        s = KYMO_NEW(struct http_stream);
    struct MHD_Response *response = NULL;
    if (s)
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, take, s, leave);
    if (!response) {
        kymo_free(s);
        http_answer_error(q, 503, "no_memory", "no memory for the answer");
        return NULL;
    }
    *s = (struct http_stream){.request = q, .ops = ops, .ctx = ctx, .held = true, .owned = true};
    kymo_buf_init(&s->waiting, HTTP_STREAM_MAX);
    q->stream = s;
    if (head->value)
        (void)MHD_add_response_header(response, head->name, head->value);
    http_request_answer(q, head->status, head->type, response);
    return s;
}

int http_stream_write(struct http_stream *s, const void *data, size_t n)
{
    if (s->at && s->at >= s->waiting.len / 2) {
        s->waiting.len -= s->at;
        memmove(s->waiting.data, s->waiting.data + s->at, s->waiting.len);
        s->at = 0;
    }
    int r = kymo_buf_append(&s->waiting, data, n);
    if (r == 0 && s->request && s->request->http)
        http_conn_phase(s->request->http, s->request->conn, HTTP_SENDING);
    if (r == 0)
        go_on(s);
    return r;
}

void http_stream_end(struct http_stream *s, bool whole)
{
    s->ended = true;
    s->whole = whole;
    s->owned = false;
    go_on(s);
    free_stream(s);
}

void http_stream_cut(struct http_stream *s)
{
    s->ended = true;
    s->whole = false;
    s->at = s->waiting.len;
    tell_gone(s);
    go_on(s);
}

bool http_stream_is_idle(const struct http_stream *s)
{
    return s->suspended;
}
