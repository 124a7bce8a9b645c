/* One request: from its line to its answer. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "collector/http_guard.h"
#include "collector/http_impl.h"
#include "collector/json_text.h"

/* Bytes of a body that is too long which are still read and dropped, so that the client gets to read why. */
#define DROP_MAX (1u << 20)

static void free_request(struct http_request *q)
{
    if (q->attached || q->owed)
        return;
    if (q->http)
        HTTP_LIST_REMOVE(q->http->requests, q);
    if (q->stream)
        http_stream_forget(q->stream);
    if (q->response)
        MHD_destroy_response(q->response);
    http_target_done(&q->target);
    kymo_buf_done(&q->body);
    kymo_free(q);
}

void *http_request_begin(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    struct http *h = cls;
    struct http_request *q = KYMO_NEW(struct http_request);
    if (!q)
        return NULL;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    q->http = h;
    q->mhd = mhd;
    q->conn = info ? info->socket_context : NULL;
    q->attached = true;
    if (q->conn)
        q->conn->served = false;
    kymo_buf_init(&q->body, HTTP_BODY_MAX);
    if (http_target_parse(uri, &q->target, &q->bad) == 0)
        q->bad.code = 0;
    HTTP_LIST_ADD(h->requests, q);
    return q;
}

void http_request_end(void *cls, struct MHD_Connection *mhd, void **con_cls, enum MHD_RequestTerminationCode code)
{
    struct http_request *q = *con_cls;
    (void)cls;
    (void)mhd;
    (void)code;
    if (!q)
        return;
    *con_cls = NULL;
    http_body_lost(q);
    q->attached = false;
    if (q->http)
        http_conn_phase(q->http, q->conn, HTTP_READING);
    if (q->conn)
        q->conn->served = true;
    q->conn = NULL; /* it may end before an answer that is still owed */
    free_request(q);
}

void http_request_headers(struct MHD_Response *response, const char *type, const char *policy)
{
    static const char *const rows[][2] = {
        {"Cache-Control", "no-store"},      {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Referrer-Policy", "no-referrer"}, {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
    };
    (void)MHD_add_response_header(response, "Content-Type", type);
    (void)MHD_add_response_header(response, "Content-Security-Policy", policy);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        (void)MHD_add_response_header(response, rows[i][0], rows[i][1]);
}

static void add_headers(struct MHD_Response *response, const char *type)
{
    http_request_headers(response, type, "default-src 'none'; frame-ancestors 'none'");
}

/* buf is emptied. NULL without memory. */
static struct MHD_Response *make_response(struct kymo_buf *buf, const char *type)
{
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback(buf->len, buf->data, kymo_free);
    if (!response)
        return NULL;
    *buf = (struct kymo_buf){.max = buf->max};
    add_headers(response, type);
    return response;
}

void http_request_suspend(struct http_request *q)
{
    q->suspended = true;
    MHD_suspend_connection(q->mhd);
}

void http_request_wake(struct http_request *q)
{
    q->suspended = false;
    MHD_resume_connection(q->mhd);
    http_wake(q->http);
}

/* response NULL: there was no memory for one; the connection ends. */
static void finish(struct http_request *q, unsigned status, struct MHD_Response *response)
{
    if (!q->attached || q->answered) {
        if (response)
            MHD_destroy_response(response);
        return;
    }
    q->answered = true;
    q->response = response;
    q->status = status;
    if (q->http)
        q->http->figures.answers[status / 100 % 6]++;
    if (q->suspended)
        http_request_wake(q);
}

static void answer(struct http_request *q, unsigned status, struct MHD_Response *response)
{
    q->owed = false;
    q->gone = NULL;
    finish(q, status, response);
    free_request(q);
}

static int append_json(const char *data, size_t n, void *ctx)
{
    return kymo_buf_append(ctx, data, n);
}

static struct MHD_Response *json_response(json_t *body)
{
    struct kymo_buf buf;
    struct MHD_Response *response = NULL;
    kymo_buf_init(&buf, HTTP_ANSWER_MAX);
    if (body && json_dump_callback(body, append_json, &buf, JSON_COMPACT) == 0)
        response = make_response(&buf, "application/json");
    kymo_buf_done(&buf);
    return response;
}

static struct MHD_Response *error_response(const char *code, const char *message)
{
    json_t *root = json_pack("{s:{s:s, s:o}}", "error", "code", code, "message", json_text(message));
    struct MHD_Response *response = json_response(root);
    json_decref(root);
    return response;
}

void http_request_answer(struct http_request *q, unsigned status, const char *type, struct MHD_Response *response)
{
    add_headers(response, type);
    answer(q, status, response);
}

void http_request_finish(struct http_request *q, unsigned status, struct MHD_Response *response)
{
    answer(q, status, response);
}

void http_answer_json(struct http_request *q, unsigned status, json_t *body)
{
    struct MHD_Response *response = json_response(body);
    json_decref(body);
    if (response)
        answer(q, status, response);
    else
        answer(q, 500, error_response("no_memory", "no memory for the answer, or it is too long"));
}

void http_answer_text(struct http_request *q, unsigned status, const char *type, const void *text, size_t n)
{
    struct kymo_buf buf;
    struct MHD_Response *response = NULL;
    kymo_buf_init(&buf, HTTP_ANSWER_MAX);
    if (kymo_buf_append(&buf, text, n) == 0)
        response = make_response(&buf, type);
    kymo_buf_done(&buf);
    answer(q, response ? status : 500, response ? response : error_response("no_memory", "no memory for the answer"));
}

void http_answer_error(struct http_request *q, unsigned status, const char *code, const char *fmt, ...)
{
    char text[KYMO_ERR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    answer(q, status, error_response(code, text));
}

void http_answer_err(struct http_request *q, const struct kymo_err *err)
{
    static const struct {
        int error;
        unsigned status;
        const char *code;
    } rows[] = {
        {-ENOENT, 404, "not_found"},    {-EINVAL, 400, "bad_request"}, {-E2BIG, 400, "bad_request"},
        {-EBUSY, 503, "busy"},          {-EAGAIN, 503, "busy"},        {-ENOMEM, 503, "no_memory"},
        {-ENOSPC, 507, "no_space"},     {-EPERM, 403, "forbidden"},    {-EACCES, 403, "forbidden"},
        {-EEXIST, 409, "conflict"},     {-EALREADY, 409, "conflict"},  {-ETIMEDOUT, 504, "timeout"},
        {-ENOTSUP, 501, "unsupported"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].error == err->code) {
            http_answer_error(q, rows[i].status, rows[i].code, "%s", err->text);
            return;
        }
    http_answer_error(q, 500, "internal", "%s", err->text);
}

/* Not made for one client, so that it may be kept; and a page, so that it says what it may load. */
void http_answer_file(struct http_request *q, const struct http_file *file)
{
    static const char policy[] = "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
                                 "form-action 'none'; frame-ancestors 'none'";
    const char *known = http_header(q, "If-None-Match");
    bool same = known && strstr(known, file->etag);
    union {
        const void *in;
        void *out;
    } data = {file->data};
    struct MHD_Response *response =
        MHD_create_response_from_buffer(same ? 0 : file->n, same ? NULL : data.out, MHD_RESPMEM_PERSISTENT);
    if (!response) {
        http_answer_error(q, 503, "no_memory", "no memory for the answer");
        return;
    }
    http_request_headers(response, file->type, policy);
    (void)MHD_del_response_header(response, "Cache-Control", "no-store");
    (void)MHD_add_response_header(response, "Cache-Control", "no-cache");
    (void)MHD_add_response_header(response, "Cross-Origin-Opener-Policy", "same-origin");
    (void)MHD_add_response_header(response, "ETag", file->etag);
    answer(q, same ? 304 : 200, response);
}

const char *http_path(const struct http_request *q, const char *name)
{
    return http_route_value(q->route, &q->target, name);
}

const char *http_param(const struct http_request *q, const char *name)
{
    return http_target_param(&q->target, name);
}

const char *http_unknown_param(const struct http_request *q, const char *const *known)
{
    for (size_t i = 0; i < q->target.n_params; i++) {
        size_t k = 0;
        while (known[k] && strcmp(known[k], q->target.params[i].name) != 0)
            k++;
        if (!known[k])
            return q->target.params[i].name;
    }
    return NULL;
}

const char *http_user(const struct http_request *q)
{
    return *q->user ? q->user : HTTP_USER_LOCAL;
}

bool http_has_login(const struct http_request *q)
{
    return q->login;
}

const char *http_header(const struct http_request *q, const char *name)
{
    return MHD_lookup_connection_value(q->mhd, MHD_HEADER_KIND, name);
}

void http_body(const struct http_request *q, const void **ret_data, size_t *ret_n)
{
    *ret_data = q->body.data;
    *ret_n = q->body.len;
}

static enum MHD_Result queue(struct http_request *q)
{
    if (!q->response)
        return MHD_NO;
    if (q->http)
        http_conn_phase(q->http, q->conn, HTTP_SENDING);
    enum MHD_Result r = MHD_queue_response(q->mhd, q->status, q->response);
    MHD_destroy_response(q->response);
    q->response = NULL;
    return r;
}

/* Why this request is turned away, before its body is read. header: of the answer, with its value. */
struct refusal {
    unsigned status;
    const char *code, *header, *value;
    bool form; /* a browser gets the form to log in */
    char number[16], text[KYMO_ERR_TEXT_MAX];
};

static void refuse(struct http_request *q, const struct refusal *why)
{
    struct MHD_Response *response =
        why->form ? http_login_form(q->target.n_segments == 0, why->status == 429 ? why->text : NULL)
                  : error_response(why->code, why->text);
    if (response && why->header)
        (void)MHD_add_response_header(response, why->header, why->value);
    finish(q, why->status, response);
}

static bool set(struct refusal *ret, unsigned status, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static bool set(struct refusal *ret, unsigned status, const char *code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    ret->status = status;
    ret->code = code;
    (void)vsnprintf(ret->text, sizeof ret->text, fmt, args);
    va_end(args);
    return true;
}

struct headers {
    const char *host, *origin, *site, *authorization, *cookie, *accept, *length, *encoding;
    unsigned hosts, lengths;
};

static enum MHD_Result note_header(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
    struct headers *h = cls;
    const char *text = value ? value : "";
    (void)kind;
    if (!strcasecmp(key, "Host")) {
        h->host = text;
        h->hosts++;
    } else if (!strcasecmp(key, "Content-Length")) {
        h->length = text;
        h->lengths++;
    } else if (!strcasecmp(key, "Origin")) {
        h->origin = text;
    } else if (!strcasecmp(key, "Sec-Fetch-Site")) {
        h->site = text;
    } else if (!strcasecmp(key, "Authorization")) {
        h->authorization = text;
    } else if (!strcasecmp(key, "Cookie")) {
        h->cookie = text;
    } else if (!strcasecmp(key, "Accept")) {
        h->accept = text;
    } else if (!strcasecmp(key, "Transfer-Encoding")) {
        h->encoding = text;
    }
    return MHD_YES;
}

static bool is_read(const char *method)
{
    return !strcmp(method, "GET") || !strcmp(method, "HEAD");
}

/* Two hosts, or two lengths of one body, are read differently by a proxy before us. */
static bool is_malformed(const struct headers *headers, const struct http_request *q, struct refusal *ret)
{
    if (headers->hosts != 1)
        return set(ret, 400, "bad_request", "a request has one Host header");
    if (headers->lengths + (headers->encoding != NULL) > 1)
        return set(ret, 400, "bad_request", "a request's body has one length");
    if (q->bad.code)
        return set(ret,
                   q->bad.code == -ENOENT   ? 404
                   : q->bad.code == -ENOMEM ? 503
                                            : 400,
                   q->bad.code == -ENOENT   ? "not_found"
                   : q->bad.code == -ENOMEM ? "no_memory"
                                            : "bad_request",
                   "%s", q->bad.text);
    return false;
}

/* Whoever has the token in a cookie did not have to mean it: then its page must be known to be ours. */
static bool is_foreign(const struct headers *headers, bool login)
{
    if (login && !headers->origin && !headers->site)
        return true;
    if (headers->origin && !http_guard_origin(headers->origin, headers->host))
        return true;
    return headers->site && strcmp(headers->site, "same-origin") != 0 && strcmp(headers->site, "none") != 0;
}

static const struct http_route login_routes[] = {
    {"POST", "/login", http_login_post},
    {"POST", "/", http_login_post},
    {"POST", "/logout", http_logout_post},
};

static bool is_login(const struct http_request *q, const char *method)
{
    return !strcmp(method, "POST") && !q->bad.code &&
           (q->target.n_segments == 0 || (q->target.n_segments == 1 && !strcmp(q->target.segments[0], "login")));
}

static struct http_peer peer_of(const struct http_request *q)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(q->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    return http_wrong_peer(info ? info->client_addr : NULL);
}

unsigned http_request_wait(const struct http_request *q)
{
    const struct http_peer peer = peer_of(q);
    return http_wrong_wait(&q->http->wrong, &peer, kymo_clock_mono_ns() / 1000000);
}

void http_request_wrong(struct http_request *q)
{
    const struct http_peer peer = peer_of(q);
    http_wrong_note(&q->http->wrong, &peer, kymo_clock_mono_ns() / 1000000);
}

/* Notes whose token it is. A cookie is a hash that nobody tries: it is looked at also where tokens are not. */
static bool is_somebody(const struct http *h, struct http_request *q, const struct headers *headers, bool tokens)
{
    struct http_token t;
    if (tokens && http_guard_authorized(headers->authorization, h->config.token, &t)) {
        (void)snprintf(q->user, sizeof q->user, "%.*s", (int)t.name_n, t.name);
        return true;
    }
    q->login = http_login_find(h->login_key, headers->cookie, h->config.tls ? HTTP_LOGIN_COOKIE_TLS : HTTP_LOGIN_COOKIE,
                               h->config.token, kymo_clock_real_ns() / 1000000000, q->user);
    return q->login;
}

static bool is_nobody(struct http *h, struct http_request *q, const struct headers *headers, const char *method,
                      struct refusal *ret)
{
    bool bearer = http_guard_has_bearer(headers->authorization), login = is_login(q, method);
    unsigned wait = bearer || login ? http_request_wait(q) : 0;
    if (is_somebody(h, q, headers, wait == 0) || (login && wait == 0)) {
        /* Somebody by cookie alone, whose token is wrong, may be trying other people's. */
        if (bearer && wait == 0 && q->login)
            http_request_wrong(q);
        return false;
    }
    ret->form = headers->accept && strstr(headers->accept, "text/html") && (login || !strcmp(method, "GET"));
    if (wait > 0) {
        http_refuse(h, HTTP_REFUSED_ATTEMPTS);
        (void)snprintf(ret->number, sizeof ret->number, "%u", wait);
        ret->header = "Retry-After";
        ret->value = ret->number;
        return set(ret, 429, "attempts", "Too many wrong tokens came from here. Try again in %u s.", wait);
    }
    http_refuse(h, HTTP_REFUSED_TOKEN);
    if (bearer)
        http_request_wrong(q);
    ret->header = "WWW-Authenticate";
    ret->value = "Bearer realm=\"kymo\"";
    return set(ret, 401, "token", "a bearer token is needed (Authorization: Bearer TOKEN)");
}

static bool must_refuse(struct http *h, struct http_request *q, const struct headers *headers, const char *method,
                        struct refusal *ret)
{
    if (h->loopback && headers->hosts == 1 && !http_guard_host(headers->host, h->config.names, h->config.n_names)) {
        http_refuse(h, HTTP_REFUSED_HOST);
        return set(ret, 403, "host", "the Host header names none of this collector's names");
    }
    if (h->config.token && is_nobody(h, q, headers, method, ret))
        return true;
    if (is_malformed(headers, q, ret)) {
        if (ret->status == 400)
            http_refuse(h, HTTP_REFUSED_MALFORMED);
        return true;
    }
    if (!is_read(method) && is_foreign(headers, q->login)) {
        http_refuse(h, HTTP_REFUSED_ORIGIN);
        return set(ret, 403, "origin", "a page from elsewhere may not do this");
    }
    return false;
}

static bool is_too_late(const struct http *h, struct http_request *q)
{
    struct refusal why = {0};
    if (h->ending) {
        (void)set(&why, 503, "stopping", "the collector is stopping");
        refuse(q, &why);
    }
    return h->ending;
}

static void refuse_body(struct http *h, struct http_request *q)
{
    struct refusal why = {0};
    http_refuse(h, HTTP_REFUSED_BODY);
    (void)set(&why, 413, "body", "a request's body has at most %u bytes", HTTP_BODY_MAX);
    refuse(q, &why);
}

static void find_route(struct http *h, struct http_request *q, const char *method)
{
    struct refusal why = {0};
    struct kymo_err err = {0};
    char allow[HTTP_ALLOW_MAX];
    int r = http_route_find(h->config.body_routes, h->config.n_body_routes, method, &q->target, &q->route, allow, &err);
    q->takes_body = r == 0;
    if (r == -ENOENT && h->config.token)
        r = http_route_find(login_routes, sizeof login_routes / sizeof *login_routes, method, &q->target, &q->route,
                            allow, &err);
    /* "/" is a page as well as a place to log in. */
    if (r == -ENOENT || (r < 0 && q->target.n_segments == 0))
        r = http_route_find(h->config.routes, h->config.n_routes, method, &q->target, &q->route, allow, &err);
    if (r == 0)
        return;
    if (r == -EOPNOTSUPP) {
        why.header = "Allow";
        why.value = allow;
    }
    (void)set(&why, r == -ENOENT ? 404 : 405, r == -ENOENT ? "not_found" : "method", "%s", err.text);
    refuse(q, &why);
}

/*
 * The headers are there. A refusal waits for the body, which is dropped, since closing while bytes are unread would
 * destroy the answer on its way; but not for one that is very long.
 */
static enum MHD_Result begin(struct http *h, struct http_request *q, const char *method)
{
    struct headers headers = {0};
    struct refusal why = {0};
    (void)MHD_get_connection_values(q->mhd, MHD_HEADER_KIND, note_header, &headers);
    uint64_t length = headers.length ? strtoull(headers.length, NULL, 10) : 0;
    q->length = headers.encoding || !headers.length ? UINT64_MAX : length;
    if (must_refuse(h, q, &headers, method, &why))
        refuse(q, &why);
    else if (!is_too_late(h, q))
        find_route(h, q, method);
    if (!q->answered && !q->takes_body && length > HTTP_BODY_MAX)
        refuse_body(h, q);
    http_conn_phase(h, q->conn, HTTP_READING);
    if (!q->answered && q->takes_body)
        http_body_begin(h, q);
    return q->answered && length > (q->takes_body ? HTTP_BODY_DROP_MAX : DROP_MAX) ? queue(q) : MHD_YES;
}

static enum MHD_Result take_body(struct http *h, struct http_request *q, const char *data, size_t n)
{
    if (!q->answered && q->body.len + n > HTTP_BODY_MAX)
        refuse_body(h, q);
    if (!q->answered)
        return kymo_buf_append(&q->body, data, n) == 0 ? MHD_YES : MHD_NO;
    q->dropped += n;
    return q->dropped > (q->takes_body ? HTTP_BODY_DROP_MAX : DROP_MAX) ? MHD_NO : MHD_YES;
}

static enum MHD_Result handle(struct http *h, struct http_request *q)
{
    if (is_too_late(h, q))
        return queue(q);
    http_conn_phase(h, q->conn, HTTP_KEPT);
    q->kept_ms = uv_now(h->loop);
    q->owed = true;
    q->route->handle(h->config.ctx, q);
    if (q->answered)
        return queue(q);
    http_request_suspend(q);
    return MHD_YES;
}

/* The end of a body that a handler takes: it may have answered, or does so later. */
static enum MHD_Result end_body(struct http *h, struct http_request *q)
{
    http_body_end(h, q);
    if (q->answered)
        return queue(q);
    http_request_suspend(q);
    return MHD_YES;
}

enum MHD_Result http_request_turn(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **con_cls)
{
    struct http *h = cls;
    struct http_request *q = *con_cls;
    (void)mhd;
    (void)url;
    (void)version;
    if (!q)
        return MHD_NO;
    if (!q->begun) {
        q->begun = true;
        return begin(h, q, method);
    }
    if (*upload_size > 0 && q->takes_body && q->body_ops && !q->answered) {
        http_body_feed(h, q, upload, upload_size);
        return MHD_YES;
    }
    if (*upload_size > 0) {
        size_t n = *upload_size;
        *upload_size = 0;
        return take_body(h, q, upload, n);
    }
    if (q->answered)
        return queue(q);
    return q->takes_body ? end_body(h, q) : handle(h, q);
}

void http_request_expire(struct http *h, uint64_t before_ms, unsigned status, const char *code, const char *text)
{
    struct http_request *next;
    for (struct http_request *q = h->requests; q; q = next) {
        next = q->next;
        if (q->owed && !q->answered && q->kept_ms <= before_ms)
            finish(q, status, error_response(code, text));
    }
}

void http_request_sweep(struct http *h)
{
    struct http_request *next;
    for (struct http_request *q = h->requests; q; q = next) {
        next = q->next;
        if (!q->conn || q->conn->ended || (!q->gone && !(q->stream && http_stream_is_idle(q->stream))))
            continue;
        if (!http_has_left(q->conn))
            continue;
        void (*gone)(void *ctx) = q->gone;
        void *ctx = q->gone_ctx;
        q->gone = NULL;
        if (q->stream)
            http_stream_cut(q->stream);
        else
            gone(ctx);
    }
}

void http_request_cut(struct http *h)
{
    struct http_request *next;
    for (struct http_request *q = h->requests; q; q = next) {
        next = q->next;
        if (q->stream)
            http_stream_cut(q->stream);
    }
}

void http_request_orphan(struct http *h)
{
    for (struct http_request *q = h->requests; q; q = q->next)
        q->http = NULL;
    h->requests = NULL;
}
