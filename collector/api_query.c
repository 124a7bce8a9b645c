#include "collector/api_query_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "collector/api_body.h"
#include "collector/api_params.h"
#include "collector/http_stream.h"
#include "collector/json_text.h"

#define PARAMS_MAX 16
#define LIST_MAX (768u << 10) /* of a request, which has 1 MiB at most */

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

static void on_head(void *ctx, const struct query_head *head)
{
    struct flow *f = ctx;
    struct http_request *q = f->request;
    const struct http_stream_head answer = {head->status, head->type, "Kymo-Left-Out", head->left_out};
    f->request = NULL;
    f->stream = http_answer_stream(q, &answer, &stream_ops, f);
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

int api_query_take_params(const struct api_query *a, const struct http_request *q, const char *names, json_t *params)
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
    /* Where the server was told to look for source texts; nobody else says. */
    if (r == 0 && a->framework_root)
        r = json_object_set_new(params, "framework_root", json_string(a->framework_root));
    if (r == 0 && a->nki_root)
        r = json_object_set_new(params, "nki_root", json_string(a->nki_root));
    return r;
}

/* The names in a comma list, for who asks whether a request has others. */
bool api_query_params_known(struct http_request *q, const char *names)
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

/* params is taken; r < 0: what went wrong already, in err. */
void api_query_start(const struct api_query *a, struct http_request *q, enum query_class class, const char *dir,
                     const char *op, json_t *params, int r, struct kymo_err *err)
{
    struct flow *f = r == 0 ? KYMO_NEW(struct flow) : NULL;
    if (r == 0 && (!f || !params))
        r = kymo_err_set(err, -ENOMEM, "no memory for the question");
    if (r == 0 && !a->pool)
        r = kymo_err_set(err, -ENOTSUP, "this collector answers no questions about tables");
    if (r == 0)
        r = query_pool_ask(a->pool, class, dir, op, json_incref(params), &call_ops, f, &f->call, err);
    json_decref(params);
    if (r == 0) {
        f->request = q;
        http_on_gone(q, on_client_gone, f);
        return;
    }
    kymo_free(f);
    http_answer_err(q, err);
}

static void ask(struct api_query *a, struct http_request *q, enum query_class class, const char *op, const char *names)
{
    struct kymo_err err = {0};
    char *dir KYMO_FREE = NULL;
    if (!api_query_params_known(q, names))
        return;
    json_t *params = json_object();
    int r = params ? api_query_take_params(a, q, names, params) : -ENOMEM;
    if (r < 0)
        r = kymo_err_set(&err, -ENOMEM, "no memory for the question");
    if (r == 0)
        r = a->find(a, http_path(q, "name"), &dir, &err);
    char *sources KYMO_FREE =
        r == 0 && a->find_sources && !strncmp(op, "source", 6) ? a->find_sources(a, http_path(q, "name")) : NULL;
    if (sources && json_object_set_new(params, "capture_root", json_string(sources)) < 0)
        r = kymo_err_set(&err, -ENOMEM, "no memory for the question");
    api_query_start(a, q, class, dir, op, params, r, &err);
}

/* Profiles that a question without one in its path is about: dirs and names, in lists of the same shape. */
struct chosen {
    json_t *dirs, *names;
    char *first;
};

static int choose(struct api_query *a, const char *name, json_t *dirs, json_t *names, char **first,
                  struct kymo_err *err)
{
    char *dir KYMO_FREE = NULL;
    int r = a->find(a, name, &dir, err);
    if (r < 0)
        return r;
    if (json_array_append_new(dirs, json_string(dir)) < 0 || json_array_append_new(names, json_text(name)) < 0)
        return kymo_err_set(err, -ENOMEM, "no memory for the question, or a path that is no UTF-8");
    if (!*first)
        *first = KYMO_TAKE(dir);
    return 0;
}

static void chosen_done(struct chosen *c)
{
    json_decref(c->dirs);
    json_decref(c->names);
    kymo_free(c->first);
}

int api_query_put(json_t *params, const char *key, const json_t *value)
{
    struct kymo_buf text;
    kymo_buf_init(&text, LIST_MAX);
    int r = json_print(value, &text);
    if (r == 0)
        r = json_object_set_new(params, key, json_stringn((const char *)text.data, text.len));
    kymo_buf_done(&text);
    return r;
}

static int put_chosen(json_t *params, const struct chosen *c, struct kymo_err *err)
{
    int r = api_query_put(params, "dirs", c->dirs);
    if (r == 0)
        r = api_query_put(params, "names", c->names);
    return r < 0 ? kymo_err_set(err, -ENOMEM, "no memory for the question") : 0;
}

static int choose_list(struct api_query *a, const json_t *list, struct chosen *c, struct kymo_err *err)
{
    size_t n = json_array_size(list);
    int r = n == 0 || n > API_SQL_PROFILES_MAX
                ? kymo_err_set(err, -EINVAL, "profiles is a list of 1 to %d names", API_SQL_PROFILES_MAX)
                : 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        r = name ? choose(a, name, c->dirs, c->names, &c->first, err)
                 : kymo_err_set(err, -EINVAL, "profiles is a list of names");
    }
    return r;
}

static int read_sql(struct api_query *a, const json_t *body, struct chosen *c, json_t *params, struct kymo_err *err)
{
    const char *sql = json_string_value(json_object_get(body, "sql")),
               *one = json_string_value(json_object_get(body, "profile"));
    const json_t *many = json_object_get(body, "profiles"), *limit = json_object_get(body, "limit");
    char number[32];
    int r = 0;
    if (!sql || !*sql || strlen(sql) != json_string_length(json_object_get(body, "sql")))
        r = kymo_err_set(err, -EINVAL, "sql is a text, one statement");
    else if (!one == !json_is_array(many))
        r = kymo_err_set(err, -EINVAL, "give one of profile, a name, and profiles, a list of names");
    else if (limit && !json_is_integer(limit))
        r = kymo_err_set(err, -EINVAL, "limit is a number");
    if (r == 0)
        r = one ? choose(a, one, c->dirs, c->names, &c->first, err) : choose_list(a, many, c, err);
    if (r < 0)
        return r;
    (void)snprintf(number, sizeof number, "%lld", (long long)json_integer_value(limit));
    if (json_object_set_new(params, "sql", json_string(sql)) < 0 ||
        (limit && json_object_set_new(params, "limit", json_string(number)) < 0))
        return kymo_err_set(err, -ENOMEM, "no memory for the question");
    return put_chosen(params, c, err);
}

void api_query_sql(void *ctx, struct http_request *q)
{
    static const char *const none[] = {NULL}, *const known[] = {"profile", "profiles", "sql", "limit", NULL};
    struct api_query *a = ctx;
    struct kymo_err err = {0};
    if (!api_params_known(q, none))
        return;
    json_t *body = api_body_parse(q);
    if (body && api_body_known(q, body, known)) {
        struct chosen c = {json_array(), json_array(), NULL};
        json_t *params = json_object();
        int r = read_sql(a, body, &c, params, &err);
        api_query_start(a, q, QUERY_LONG, c.first, "sql", params, r, &err);
        chosen_done(&c);
    }
    json_decref(body);
}

/* A side: names with commas between. */
static int choose_side(struct api_query *a, char *text, struct chosen *c, struct kymo_err *err)
{
    json_t *dirs = json_array(), *names = json_array();
    int r = 0;
    for (char *save = NULL, *name = strtok_r(text, ",", &save); name && r == 0; name = strtok_r(NULL, ",", &save))
        r = json_array_size(dirs) < API_COMPARE_MAX
                ? choose(a, name, dirs, names, &c->first, err)
                : kymo_err_set(err, -EINVAL, "more than %d profiles", API_COMPARE_MAX);
    if (r == 0 && json_array_size(dirs) == 0)
        r = kymo_err_set(err, -EINVAL, "base and profiles name what is to be compared");
    if (json_array_append_new(c->dirs, dirs) < 0 || json_array_append_new(c->names, names) < 0)
        r = kymo_err_set(err, -ENOMEM, "no memory for the question");
    return r;
}

static int read_compare(struct api_query *a, const struct http_request *q, struct chosen *c, struct kymo_err *err)
{
    const char *base = http_param(q, "base"), *others = http_param(q, "profiles");
    char *left KYMO_FREE = kymo_strdup(base ? base : ""), *right KYMO_FREE = kymo_strdup(others ? others : "");
    if (!left || !right)
        return kymo_err_set(err, -ENOMEM, "no memory for the question");
    int r = choose_side(a, left, c, err);
    if (r == 0 && !*right)
        r = kymo_err_set(err, -EINVAL, "base and profiles name what is to be compared");
    for (char *save = NULL, *side = strtok_r(right, ";", &save); side && r == 0; side = strtok_r(NULL, ";", &save))
        r = json_array_size(c->dirs) < API_COMPARE_MAX
                ? choose_side(a, side, c, err)
                : kymo_err_set(err, -EINVAL, "more than %d profiles", API_COMPARE_MAX);
    return r;
}

void api_query_compare(void *ctx, struct http_request *q)
{
    struct api_query *a = ctx;
    struct kymo_err err = {0};
    if (!api_query_params_known(q, "base,profiles"))
        return;
    struct chosen c = {json_array(), json_array(), NULL};
    json_t *params = json_object();
    int r = read_compare(a, q, &c, &err);
    if (r == 0)
        r = put_chosen(params, &c, &err);
    api_query_start(a, q, QUERY_LONG, c.first, "compare", params, r, &err);
    chosen_done(&c);
}

#define X(op, class, path, params)                                                                                     \
    void api_query_##op(void *ctx, struct http_request *q)                                                             \
    {                                                                                                                  \
        ask(ctx, q, class, #op, params);                                                                               \
    }
API_QUERIES(X)
#undef X
