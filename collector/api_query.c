#include "collector/api_query.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/api_params.h"
#include "collector/http_stream.h"
#include "collector/json_text.h"

#define PARAMS_MAX 16

/* From the question to the last byte of its answer. Ends when both sides have. */
struct flow {
    struct http_request *request; /* NULL: answered */
    struct http_stream *stream;
    struct query_call *call; /* NULL: over */
};

static void free_flow(struct flow *f)
{
    if (!f->request && !f->stream && !f->call)
        kymo_free(f);
}

static void on_taken(void *ctx, size_t n)
{
    const struct flow *f = ctx;
    if (f->call)
        query_call_took(f->call, n);
}

static void on_stream_gone(void *ctx)
{
    struct flow *f = ctx;
    f->stream = NULL;
    if (f->call)
        query_call_cancel(f->call);
    f->call = NULL;
    free_flow(f);
}

static const struct http_stream_ops stream_ops = {.taken = on_taken, .gone = on_stream_gone};

/* Before anything was answered. */
static void on_client_gone(void *ctx)
{
    struct flow *f = ctx;
    struct http_request *q = f->request;
    f->request = NULL;
    query_call_cancel(f->call);
    f->call = NULL;
    http_answer_error(q, 503, "gone", "the client has gone");
    free_flow(f);
}

static void on_head(void *ctx, unsigned status, const char *type)
{
    struct flow *f = ctx;
    struct http_request *q = f->request;
    f->request = NULL;
    f->stream = http_answer_stream(q, status, type, &stream_ops, f);
    if (f->stream)
        return;
    query_call_cancel(f->call);
    f->call = NULL;
    free_flow(f);
}

static void on_data(void *ctx, const void *data, size_t n)
{
    struct flow *f = ctx;
    if (!f->stream || http_stream_write(f->stream, data, n) == 0)
        return;
    http_stream_end(f->stream, false);
    f->stream = NULL;
    query_call_cancel(f->call);
    f->call = NULL;
    free_flow(f);
}

static void on_end(void *ctx, const struct query_failure *why)
{
    struct flow *f = ctx;
    f->call = NULL;
    if (f->request && why)
        http_answer_error(f->request, why->status, why->code, "%s", why->message);
    f->request = NULL;
    if (f->stream)
        http_stream_end(f->stream, why == NULL);
    f->stream = NULL;
    free_flow(f);
}

static const struct query_call_ops call_ops = {.head = on_head, .data = on_data, .end = on_end};

static int take_params(const struct http_request *q, const char *names, json_t *params)
{
    char name[32];
    int r = 0;
    for (const char *at = names; *at && r == 0; at += *at == ',') {
        size_t n = strcspn(at, ",");
        (void)snprintf(name, sizeof name, "%.*s", (int)n, at);
        const char *value = http_param(q, name);
        if (value)
            r = json_object_set_new(params, name, json_text(value));
        at += n;
    }
    static const char *const parts[] = {"table", "id"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts && r == 0; i++) {
        const char *value = http_path(q, parts[i]);
        if (value)
            r = json_object_set_new(params, parts[i], json_text(value));
    }
    return r;
}

/* The names in a comma list, for who asks whether a request has others. */
static bool params_known(struct http_request *q, const char *names)
{
    char text[256];
    const char *known[PARAMS_MAX + 1] = {NULL};
    size_t n = 0;
    (void)snprintf(text, sizeof text, "%s", names);
    for (char *save = NULL, *name = strtok_r(text, ",", &save); name && n < PARAMS_MAX;
         name = strtok_r(NULL, ",", &save))
        known[n++] = name;
    return api_params_known(q, known);
}

static void ask(struct api_query *a, struct http_request *q, enum query_class class, const char *op, const char *names)
{
    struct kymo_err err = {0};
    char *dir KYMO_FREE = NULL;
    if (!params_known(q, names))
        return;
    struct flow *f = KYMO_NEW(struct flow);
    json_t *params = json_object();
    int r = f && params ? take_params(q, names, params) : -ENOMEM;
    if (r < 0)
        r = kymo_err_set(&err, -ENOMEM, "no memory for the question");
    if (r == 0)
        r = a->find(a, http_path(q, "name"), &dir, &err);
    if (r == 0 && !a->pool)
        r = kymo_err_set(&err, -ENOTSUP, "this collector answers no questions about tables");
    if (r == 0)
        r = query_pool_ask(a->pool, class, dir, op, json_incref(params), &call_ops, f, &f->call, &err);
    json_decref(params);
    if (r == 0) {
        f->request = q;
        http_on_gone(q, on_client_gone, f);
        return;
    }
    kymo_free(f);
    http_answer_err(q, &err);
}

#define X(op, class, path, params)                                                                                     \
    void api_query_##op(void *ctx, struct http_request *q)                                                             \
    {                                                                                                                  \
        ask(ctx, q, class, #op, params);                                                                               \
    }
API_QUERIES(X)
#undef X
