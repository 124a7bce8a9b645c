#include "collector/http_body.h"

#include "collector/http_impl.h"

void http_take_body(struct http_request *q, const struct http_body_ops *ops, void *ctx)
{
    q->body_ops = ops;
    q->body_ctx = ctx;
}

uint64_t http_body_length(const struct http_request *q)
{
    return q->length;
}

void http_body_resume(struct http_request *q)
{
    if (!q->suspended || q->body_over || !q->http)
        return;
    http_conn_phase(q->http, q->conn, HTTP_READING);
    http_request_wake(q);
}

void http_body_begin(struct http *h, struct http_request *q)
{
    q->kept_ms = uv_now(h->loop);
    q->owed = true;
    q->route->handle(h->config.ctx, q);
}

/* Whoever sends something worth it has its time anew, and so has its handler. */
static void note_progress(struct http *h, struct http_request *q, size_t n)
{
    q->kept_ms = uv_now(h->loop);
    q->body_seen += n;
    if (q->body_seen < HTTP_BODY_SLOWEST)
        return;
    q->body_seen = 0;
    http_conn_phase(h, q->conn, HTTP_READING);
}

void http_body_feed(struct http *h, struct http_request *q, const char *data, size_t *n)
{
    size_t taken = q->body_ops->data(q->body_ctx, data, *n);
    note_progress(h, q, taken);
    *n -= taken;
    if (q->answered) {
        *n = 0;
    } else if (*n > 0) {
        http_conn_phase(h, q->conn, HTTP_KEPT);
        http_request_suspend(q);
    }
}

void http_body_end(struct http *h, struct http_request *q)
{
    http_conn_phase(h, q->conn, HTTP_KEPT);
    q->kept_ms = uv_now(h->loop);
    q->body_over = true;
    if (q->body_ops)
        q->body_ops->end(q->body_ctx);
}

void http_body_lost(struct http_request *q)
{
    if (!q->owed || !q->body_ops || q->body_over)
        return;
    q->body_over = true;
    q->body_ops->gone(q->body_ctx);
}
