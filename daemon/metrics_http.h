/*
 * GET /metrics over HTTP/1.1, and nothing else: small enough to stay without a library of its own (libmicrohttpd brings
 * 13 of them and 3 MB into the daemon). Plain, one request per connection; heads, clients and times are bounded.
 */
#ifndef KYMO_DAEMON_METRICS_HTTP_H
#define KYMO_DAEMON_METRICS_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/net.h"

#define METRICS_HTTP_HEAD_MAX 8192
#define METRICS_HTTP_CLIENTS_MAX 16 /* then the oldest that has not asked yet makes room */
#define METRICS_HTTP_HEAD_MS 5000   /* for the request */
#define METRICS_HTTP_SEND_MS 30000  /* for taking the answer */

struct metrics_http;

struct metrics_http_config {
    const char *address; /* numeric host and port; port 0: any. Beyond loopback it is the operator's explicit choice */
    /* Appends the answer's body. */
    int (*write)(void *ctx, struct kymo_buf *text, struct kymo_err *err);
    void *ctx;
};

int metrics_http_start(uv_loop_t *loop, const struct metrics_http_config *config, struct metrics_http **ret,
                       struct kymo_err *err) KYMO_MUST_CHECK;
/* The loop must run until its handles are closed. NULL is fine; returns NULL. */
struct metrics_http *metrics_http_stop(struct metrics_http *s);
/* Whether only this host reaches that address. */
bool metrics_http_is_local(const char *address);
int metrics_http_port(const struct metrics_http *s);

/*
 * Status for the head of n bytes (up to its empty line), as 200, 400, 403, 404 or 405; 0: it is not whole yet. 403: its
 * Host is a name: pages of others reach this machine by names that they made lead here. *ret_head_only: without a body.
 * Pure.
 */
int metrics_http_judge(const char *head, size_t n, bool *ret_head_only);

#endif
