#include "collector/api_store.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/api_body.h"
#include "collector/api_params.h"
#include "collector/api_query.h"
#include "collector/json_text.h"

#define BRACKETS_MAX 2048 /* in a body */

/* Lives until its owner and the last job have let go of it. */
struct viewer_store {
    uv_loop_t *loop;
    struct viewer_db *db;
    uv_mutex_t lock; /* of the database */
    unsigned users;  /* loop's thread */
};

enum act { LIST, GET, PUT, DELETE };

struct job {
    uv_work_t work; /* first */
    struct viewer_store *store;
    struct http_request *request;
    enum act act;
    enum viewer_kind kind;
    char *user, *key;
    json_t *body, *answer;
    int64_t seen;
    struct kymo_err err;
};

int viewer_store_new(uv_loop_t *loop, const char *path, struct viewer_store **ret, struct kymo_err *err)
{
    struct viewer_store *s = KYMO_NEW(struct viewer_store);
    if (!s || uv_mutex_init(&s->lock) < 0) {
        kymo_free(s);
        return kymo_err_set(err, -ENOMEM, "no memory for what users keep");
    }
    s->loop = loop;
    s->users = 1;
    int r = viewer_db_open(path, &s->db, err);
    if (r < 0)
        viewer_store_free(s);
    else
        *ret = s;
    return r;
}

struct viewer_store *viewer_store_free(struct viewer_store *s)
{
    if (!s || --s->users > 0)
        return NULL;
    viewer_db_free(s->db);
    uv_mutex_destroy(&s->lock);
    kymo_free(s);
    return NULL;
}

static void free_job(struct job *j)
{
    viewer_store_free(j->store);
    json_decref(j->body);
    json_decref(j->answer);
    kymo_free(j->user);
    kymo_free(j->key);
    kymo_free(j);
}

static int run(struct job *j)
{
    struct viewer_db *db = j->store->db;
    json_t *o = NULL;
    int r = 0;
    switch (j->act) {
    case LIST:
        r = viewer_db_list(db, j->user, j->kind, &o, &j->err);
        j->answer = r == 0 ? json_pack("{s:o}", "items", o) : NULL;
        return r;
    case GET:
        return viewer_db_get(db, j->user, j->kind, j->key, &j->answer, &j->err);
    case PUT:
        return viewer_db_put(db, j->user, j->kind, j->key, json_object_get(j->body, "value"), j->seen, &j->answer,
                             &j->err);
    default:
        r = viewer_db_delete(db, j->user, j->kind, j->key, &j->err);
        j->answer = r >= 0 ? json_pack("{s:b}", "deleted", r) : NULL;
        return r < 0 ? r : 0;
    }
}

static void on_work(uv_work_t *work)
{
    struct job *j = (struct job *)work;
    uv_mutex_lock(&j->store->lock);
    if (run(j) == 0)
        j->err.code = 0;
    uv_mutex_unlock(&j->store->lock);
}

static void on_done(uv_work_t *work, int status)
{
    struct job *j = (struct job *)work;
    if (status < 0)
        http_answer_error(j->request, 503, "busy", "the collector is being stopped");
    else if (j->err.code)
        http_answer_err(j->request, &j->err);
    else
        http_answer_json(j->request, 200, json_incref(j->answer));
    free_job(j);
}

/* {"value": VALUE, "seen": N}; false: answered. */
static bool read_body(struct job *j, struct http_request *q)
{
    static const char *const known[] = {"value", "seen", NULL};
    j->body = api_body_parse_list(q, BRACKETS_MAX);
    if (!j->body || !api_body_known(q, j->body, known))
        return false;
    const json_t *seen = json_object_get(j->body, "seen");
    if (seen && (!json_is_integer(seen) || json_integer_value(seen) < 0)) {
        http_answer_error(q, 400, "bad_request", "seen is a number, the changed_ns of what is to be replaced");
        return false;
    }
    j->seen = seen ? (int64_t)json_integer_value(seen) : -1;
    return true;
}

static bool read_request(struct job *j, struct http_request *q)
{
    static const char *const none[] = {NULL};
    if (!api_params_known(q, none) || (j->act == PUT && !read_body(j, q)))
        return false;
    const char *key = http_path(q, "key");
    j->user = kymo_strdup(http_user(q));
    j->key = kymo_strdup(key ? key : "");
    if (j->user && j->key)
        return true;
    http_answer_error(q, 503, "no_memory", "no memory for the request");
    return false;
}

static void ask(const struct api_query *a, struct http_request *q, enum act act, enum viewer_kind kind)
{
    if (!a->store) {
        http_answer_error(q, 501, "no_store", "this server keeps nothing for its users");
        return;
    }
    struct job *j = KYMO_NEW(struct job);
    if (!j) {
        http_answer_error(q, 503, "no_memory", "no memory for the request");
        return;
    }
    a->store->users++;
    j->store = a->store;
    j->request = q;
    j->act = act;
    j->kind = kind;
    if (!read_request(j, q)) {
        free_job(j);
        return;
    }
    if (uv_queue_work(a->store->loop, &j->work, on_work, on_done) < 0) {
        http_answer_error(q, 503, "busy", "no thread for the request");
        free_job(j);
    }
}

void api_get_user(void *ctx, struct http_request *q)
{
    static const char *const none[] = {NULL};
    const struct api_query *a = ctx;
    if (api_params_known(q, none))
        http_answer_json(q, 200,
                         json_pack("{s:o, s:b, s:b}", "user", json_text(http_user(q)), "login", http_has_login(q),
                                   "manages", a->manages));
}

#define X(name, max)                                                                                                   \
    void api_list_##name(void *ctx, struct http_request *q)                                                            \
    {                                                                                                                  \
        ask(ctx, q, LIST, VIEWER_##name);                                                                              \
    }                                                                                                                  \
    void api_get_##name(void *ctx, struct http_request *q)                                                             \
    {                                                                                                                  \
        ask(ctx, q, GET, VIEWER_##name);                                                                               \
    }                                                                                                                  \
    void api_put_##name(void *ctx, struct http_request *q)                                                             \
    {                                                                                                                  \
        ask(ctx, q, PUT, VIEWER_##name);                                                                               \
    }                                                                                                                  \
    void api_delete_##name(void *ctx, struct http_request *q)                                                          \
    {                                                                                                                  \
        ask(ctx, q, DELETE, VIEWER_##name);                                                                            \
    }
VIEWER_KINDS(X)
#undef X
