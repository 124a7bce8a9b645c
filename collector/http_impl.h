/* What the files of the HTTP server share. */
#ifndef KYMO_COLLECTOR_HTTP_IMPL_H
#define KYMO_COLLECTOR_HTTP_IMPL_H

#include <microhttpd.h>

#include "base/buf.h"
#include "collector/http.h"
#include "collector/http_body.h"
#include "collector/http_login.h"
#include "collector/http_route.h"
#include "collector/http_stream.h"
#include "collector/http_target.h"
#include "collector/http_wrong.h"

#define HTTP_LOGIN_COOKIE "kymo"
#define HTTP_LOGIN_COOKIE_TLS "__Host-kymo" /* browsers take it only with Secure, and from this host alone */

enum http_phase { HTTP_READING, HTTP_KEPT, HTTP_SENDING };

/* One connection: what it is at, since when. Ended from outside by shutting its socket down. */
struct http_conn {
    struct http_conn *prev, *next;
    int fd;
    enum http_phase phase;
    uint64_t since_ms;
    bool ended, served; /* served: an answer was given, so that it may as well be idle */
};

struct http_request {
    struct http *http; /* NULL once that is closed */
    struct http_request *prev, *next;
    struct MHD_Connection *mhd;
    struct http_conn *conn;
    struct http_target target;
    struct kymo_err bad; /* of the target */
    const struct http_route *route;
    struct kymo_buf body;
    struct MHD_Response *response; /* made, not queued yet */
    unsigned status;
    uint64_t kept_ms;
    size_t dropped;               /* bytes of a body that nobody wants */
    bool begun, suspended, login; /* login: by its cookie */
    char user[HTTP_USER_MAX + 1]; /* whose token it has; empty: nobody's */
    bool attached;                /* libmicrohttpd has it */
    bool owed;                    /* a handler has it */
    bool answered;
    void (*gone)(void *ctx); /* NULL: the handler does not care whether the client leaves */
    void *gone_ctx;
    struct http_stream *stream; /* that answers it */
    bool takes_body;            /* of a body route */
    bool body_over;             /* all has come, or the handler was told that no more will */
    const struct http_body_ops *body_ops;
    void *body_ctx;
    uint64_t length;  /* of the body, as its header says; UINT64_MAX: it does not say */
    size_t body_seen; /* bytes since the connection's time began anew */
};

struct http {
    uv_loop_t *loop;
    struct http_config config;
    bool loopback, ending, closing; /* ending: no handler gets a request any more */
    uint8_t login_key[HTTP_LOGIN_KEY];
    struct http_wrong wrong; /* who sent wrong tokens */
    struct MHD_Daemon *daemon;
    struct net_listener *listener; /* with TLS */
    int port;
    uv_poll_t poll;
    uv_timer_t timer, sweep; /* libmicrohttpd's, ours */
    int handles;             /* open ones */
    struct http_conn *conns;
    struct http_request *requests;
    struct http_figures figures;
};

#define HTTP_LIST_ADD(head, item)                                                                                      \
    do {                                                                                                               \
        (item)->prev = NULL;                                                                                           \
        (item)->next = (head);                                                                                         \
        if (head)                                                                                                      \
            (head)->prev = (item);                                                                                     \
        (head) = (item);                                                                                               \
    } while (0)
#define HTTP_LIST_REMOVE(head, item)                                                                                   \
    do {                                                                                                               \
        if ((item)->next)                                                                                              \
            (item)->next->prev = (item)->prev;                                                                         \
        if ((item)->prev)                                                                                              \
            (item)->prev->next = (item)->next;                                                                         \
        else                                                                                                           \
            (head) = (item)->next;                                                                                     \
    } while (0)

void http_conn_phase(struct http *h, struct http_conn *c, enum http_phase phase);
/* libmicrohttpd has something to do that its descriptor does not show, such as a connection resumed. */
void http_wake(struct http *h);
void http_refuse(struct http *h, enum http_refusal why);

/* libmicrohttpd's callbacks for requests; cls is the server. */
void *http_request_begin(void *cls, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result http_request_turn(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **con_cls);
void http_request_end(void *cls, struct MHD_Connection *mhd, void **con_cls, enum MHD_RequestTerminationCode code);
/* Seconds until its client may try a token; 0: now. And: it tried a wrong one. */
unsigned http_request_wait(const struct http_request *q);
void http_request_wrong(struct http_request *q);
/* The handler of a body route, and what comes for it; *n becomes what was not taken. */
void http_body_begin(struct http *h, struct http_request *q);
void http_body_feed(struct http *h, struct http_request *q, const char *data, size_t *n);
void http_body_end(struct http *h, struct http_request *q);
void http_body_lost(struct http_request *q); /* the connection is gone */
void http_request_suspend(struct http_request *q);
void http_request_wake(struct http_request *q);
/* Gives those that handlers keep for too long, or all, an answer from us. */
void http_request_expire(struct http *h, uint64_t before_ms, unsigned status, const char *code, const char *text);

/* Answers with a response that has neither headers nor a place yet. */
void http_request_answer(struct http_request *q, unsigned status, const char *type, struct MHD_Response *response);
/* The headers of every answer. */
void http_request_headers(struct MHD_Response *response, const char *type, const char *policy);
/* Answers with a response that has its headers; NULL: there was no memory for one. */
void http_request_finish(struct http_request *q, unsigned status, struct MHD_Response *response);
/* Clients that have left while somebody is at work for them: the worker is told. */
void http_request_sweep(struct http *h);
/* Ends the streams of all requests, so that no connection stays suspended. */
void http_request_cut(struct http *h);
bool http_has_left(const struct http_conn *c);

/* Nobody takes or writes on; the connection is closed. */
void http_stream_cut(struct http_stream *s);
void http_stream_forget(struct http_stream *s);        /* its request goes */
bool http_stream_is_idle(const struct http_stream *s); /* waits for its writer */

/* The server goes; what handlers still keep is theirs alone. */
void http_request_orphan(struct http *h);

/* Listens with TLS, and hands what it decrypts to libmicrohttpd through socket pairs. */
int http_tls_listen(struct http *h, struct net *net, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
