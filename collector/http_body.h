/*
 * Bodies of requests that need not fit into memory: a handler of a body route (http_config.body_routes), which is
 * called when the headers are there, takes what comes piece by piece, with back-pressure. All on the loop's thread.
 */
#ifndef KYMO_COLLECTOR_HTTP_BODY_H
#define KYMO_COLLECTOR_HTTP_BODY_H

#include "collector/http.h"

#define HTTP_BODY_DROP_MAX (16u << 20) /* bytes of a body that are still read after an answer, so that it arrives */
#define HTTP_BODY_SLOWEST (64u << 10)  /* in HTTP_REQUEST_MS: a client that sends less is cut off */

struct http_body_ops {
    /* How many of the n bytes were taken; with fewer no more is read until http_body_resume. */
    size_t (*data)(void *ctx, const void *data, size_t n);
    void (*end)(void *ctx); /* the body is whole; the request is to be answered, now or later */
    /* The client has left before, or was answered in the handler's stead. The request must be answered even so. */
    void (*gone)(void *ctx);
};

/* In the handler, instead of an answer, which may be given at any time. ops must live as long. */
void http_take_body(struct http_request *q, const struct http_body_ops *ops, void *ctx);
void http_body_resume(struct http_request *q); /* one that reads is fine */
/* What the client says it will send; UINT64_MAX: it does not say. */
uint64_t http_body_length(const struct http_request *q);

#endif
