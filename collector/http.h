/*
 * The collector's HTTP server: libmicrohttpd under a libuv loop, all on the loop's thread. A table of routes says what
 * there is; 404 and 405 come from it. A handler answers at once or later; nothing waits for it but its own client.
 *
 * Loopback by default. Elsewhere it wants a token, and TLS unless plain was chosen. Checked before any handler: the
 * token, or the cookie that a browser gets for one (POST /login); the Host header on loopback (DNS rebinding); for all
 * but GET and HEAD that the page that sends it came from here (CSRF). Errors are
 * {"error":{"code":TEXT,"message":TEXT}}, but for what cannot be read as HTTP at all, which libmicrohttpd itself
 * answers with 400, 413, 414 or 431 and its own text.
 */
#ifndef KYMO_COLLECTOR_HTTP_H
#define KYMO_COLLECTOR_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <uv.h>

#include "base/err.h"
#include "base/net.h"
#include "base/tls.h"

#define HTTP_HEAD_MAX (32u << 10)   /* bytes of a request's line and headers, and of memory for one connection */
#define HTTP_BODY_MAX (64u << 10)   /* bytes of a request's body */
#define HTTP_ANSWER_MAX (16u << 20) /* bytes of an answer made in memory */
#define HTTP_CONNECTIONS_MAX 512    /* by default; one more ends the one that has been idle longest */
#define HTTP_REQUEST_MS 20000       /* to send a request, its headers and again its body; an idle connection ends so */
#define HTTP_ANSWER_MS 30000        /* for a handler that answers later; then 504 */
#define HTTP_SEND_MS 120000         /* for the client to take an answer; 20 s without taking anything end it too */

struct http;
struct http_request;

struct http_route {
    const char *method;  /* GET answers HEAD too */
    const char *pattern; /* "/api/v1/profiles/{name}" */
    /* Answers now, or keeps the request and answers later, once, on the loop's thread. */
    void (*handle)(void *ctx, struct http_request *request);
};

/* Strings, routes and TLS must live as long as the server. */
struct http_config {
    const char *address; /* numeric host and port; port 0: any free one. With adopt, a name for errors */
    bool adopt;          /* socket listens already, as systemd hands it over; the server's from then on */
    int socket;
    struct tls_context *tls; /* NULL: plain. See http_set_tls */
    bool plain_anywhere;     /* plain on other addresses than loopback: an explicit choice */
    /* Lines "TOKEN" or "NAME TOKEN". NULL: everybody on this machine may; needed on other addresses than loopback. */
    const char *token;
    const char *const *names; /* more hosts that a Host header may name */
    size_t n_names;
    unsigned max_connections;                /* 0: HTTP_CONNECTIONS_MAX */
    uint64_t request_ms, answer_ms, send_ms; /* 0: those above */
    const struct http_route *routes;
    size_t n_routes;
    /* Routes whose handlers come before the body, which they take piece by piece (http_body.h). NULL: none. */
    const struct http_route *body_routes;
    size_t n_body_routes;
    void *ctx; /* of the handlers */
};

/*
 * -EPERM: not on loopback, and without a token, or without TLS where plain was not chosen. What is to be adopted stays
 * the caller's on failure only with that, and with -EINVAL.
 */
int http_new(uv_loop_t *loop, struct net *net, const struct http_config *config, struct http **ret,
             struct kymo_err *err) KYMO_MUST_CHECK;
/*
 * Who still waits gets 503. Requests that a handler keeps stay its own: each must be answered even so. The loop must
 * run once more before it is closed. NULL is fine; returns NULL.
 */
struct http *http_close(struct http *h);
int http_port(const struct http *h);
/* For connections from now on, such as after new certificates, of a server with TLS; the former context may be freed.
 */
void http_set_tls(struct http *h, struct tls_context *tls);
/* -EINVAL, -EPERM: a token, or NULL, that this server cannot have. */
int http_check_token(const struct http *h, const char *token, struct kymo_err *err) KYMO_MUST_CHECK;
/* One that was checked, for requests from now on; the former may be freed. */
void http_set_token(struct http *h, const char *token);

/* Why requests and connections were turned away, as the label of a metric. */
#define HTTP_REFUSALS(X)                                                                                               \
    X(TOKEN, "token")                                                                                                  \
    X(ATTEMPTS, "attempts")                                                                                            \
    X(HOST, "host")                                                                                                    \
    X(ORIGIN, "origin")                                                                                                \
    X(MALFORMED, "malformed")                                                                                          \
    X(BODY, "body")                                                                                                    \
    X(SLOW, "slow")                                                                                                    \
    X(CROWDED, "crowded")

enum http_refusal {
#define X(name, text) HTTP_REFUSED_##name,
    HTTP_REFUSALS(X)
#undef X
        HTTP_REFUSAL_MAX
};
const char *http_refusal_name(enum http_refusal r);

struct http_figures {
    uint64_t connections, accepted, answers[6]; /* open now; ever; by the first digit of the status */
    uint64_t refused[HTTP_REFUSAL_MAX];
};
void http_figures(const struct http *h, struct http_figures *ret);

/* What a handler may ask. Strings are valid UTF-8 without control characters and live until it answers. */
const char *http_path(const struct http_request *q, const char *name);  /* of the pattern's {name} */
const char *http_param(const struct http_request *q, const char *name); /* of the query; NULL: not there */
/* The first parameter whose name is not in the list, which ends with NULL; NULL: there is none. */
const char *http_unknown_param(const struct http_request *q, const char *const *known);
const char *http_header(const struct http_request *q, const char *name); /* as sent; NULL: not there */
/* Who asks: the name of the token, "token" where it has none, "local" where none is needed. */
const char *http_user(const struct http_request *q);
bool http_has_login(const struct http_request *q); /* by a browser's cookie */
void http_body(const struct http_request *q, const void **ret_data, size_t *ret_n);

/* Answers; the request is not the handler's any more. Nothing happens when the client has gone. */
void http_answer_json(struct http_request *q, unsigned status, json_t *body); /* takes body; NULL: no memory, 500 */
void http_answer_text(struct http_request *q, unsigned status, const char *type, const void *text, size_t n);
void http_answer_error(struct http_request *q, unsigned status, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* A file of the page, which lives as long as the server. Clients that have it get 304. */
struct http_file {
    const char *type, *etag; /* etag in quotes */
    const void *data;
    size_t n;
};
void http_answer_file(struct http_request *q, const struct http_file *file);
/* As http_answer_error, for an error from below: its status and code by its errno. */
void http_answer_err(struct http_request *q, const struct kymo_err *err);

#endif
