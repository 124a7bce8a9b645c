/*
 * Answers of http.h whose bodies come piece by piece, with back-pressure: what was written and not taken yet waits in
 * memory, and the writer hears of what was taken, so that it bounds what waits. All on the loop's thread.
 */
#ifndef KYMO_COLLECTOR_HTTP_STREAM_H
#define KYMO_COLLECTOR_HTTP_STREAM_H

#include "collector/http.h"

#define HTTP_STREAM_MAX (4u << 20) /* bytes that may wait */

struct http_stream;

struct http_stream_ops {
    void (*taken)(void *ctx, size_t n); /* n bytes more have gone to the client */
    void (*gone)(void *ctx);            /* nobody reads on; the stream is no more. Not after http_stream_end */
};

/* The client of a request that a handler keeps may leave: then gone is called, and the request must still be answered.
 */
void http_on_gone(struct http_request *q, void (*gone)(void *ctx), void *ctx);

struct http_stream_head {
    unsigned status;
    const char *type;
    const char *name, *value; /* one more header, or value NULL */
};

/*
 * Answers; the request is not the handler's any more. NULL: the client has gone, or has been answered in the handler's
 * stead, or there is no memory; nothing is called then. ops must live as long.
 */
struct http_stream *http_answer_stream(struct http_request *q, const struct http_stream_head *head,
                                       const struct http_stream_ops *ops, void *ctx);
/* Copies. -ENOBUFS beyond HTTP_STREAM_MAX, -ENOMEM. */
int http_stream_write(struct http_stream *s, const void *data, size_t n) KYMO_MUST_CHECK;
/* The body is whole, or the connection is cut so that the client sees that it is not. The stream is no more. */
void http_stream_end(struct http_stream *s, bool whole);

#endif
