#include "collector/web.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/sibling.h"
#include "collector/api.h"
#include "collector/api_store.h"
#include "collector/page_files.h"
#include "collector/query_pool.h"
#include "collector/source_root.h"
#include "collector/upload.h"
#include "collector/web_store.h"

#define TOKEN_MAX 65536
#define ANSWER_MS                                                                                                      \
    (HTTP_ANSWER_MS - 5000) /* daemons have so long, that the client still hears of those that have not answered */

struct web {
    struct receiver *receiver;
    struct store_thread *store;
    struct http *http;
    struct api *api;
    struct query_pool *pool;
    struct page_files *page;
    struct viewer_store *kept;
    struct uploads *uploads;
    struct tls_context *tls;
    char *token, *data_path, *address, *framework_root, *nki_root;
    char **names;
    size_t n_names;
    int64_t started_ns;
    uint64_t ready, failed, processing_ns;
    char trouble[KYMO_ERR_TEXT_MAX];
};

static void count_disk(const struct web *w, struct api_figures *ret)
{
    struct statvfs v;
    if (kymo_file_ops()->statvfs(w->data_path, &v) < 0)
        return;
    ret->disk_free = (uint64_t)v.f_bavail * v.f_frsize;
    ret->disk_total = (uint64_t)v.f_blocks * v.f_frsize;
}

static void on_figures(void *ctx, struct api_figures *ret)
{
    const struct web *w = ctx;
    struct receiver_figures f;
    receiver_figures(w->receiver, &f);
    *ret = (struct api_figures){
        .started_ns = w->started_ns,
        .hosts = f.hosts,
        .hosts_accepted = f.accepted,
        .captures_stored = f.stored,
        .captures_known = f.known,
        .captures_open = f.open,
        .bytes_received = f.bytes,
        .bytes_waiting = f.waiting,
        .incoming = f.incoming,
        .incoming_bytes = f.incoming_bytes,
        .forgotten_age = f.forgotten[INCOMING_AGE],
        .forgotten_room = f.forgotten[INCOMING_ROOM],
        .profiles_ready = w->ready,
        .profiles_failed = w->failed,
        .processing_ns = w->processing_ns,
        .trouble = *w->trouble ? w->trouble : f.trouble,
    };
    for (size_t i = 0; i < RECEIVER_CAUSE_MAX && i < API_CAUSES_MAX; i++) {
        ret->refused[i].cause = receiver_cause_name((enum receiver_cause)i);
        ret->refused[i].n = f.refused[i];
        ret->n_refused++;
    }
    count_disk(w, ret);
}

struct each_host {
    void (*each)(void *ctx, const struct api_host *host);
    void *ctx;
};

static void on_host(void *ctx, const struct receiver_host *h)
{
    const struct each_host *e = ctx;
    const struct api_host host = {
        .name = h->identity,
        .address = h->address,
        .version = h->writer,
        .connected_ns = (int64_t)kymo_clock_real_ns() - (int64_t)h->connected_ms * 1000000,
        .captures = h->stored,
        .bytes = h->received,
        .open = h->captures,
    };
    e->each(e->ctx, &host);
}

static void on_hosts(void *ctx, void (*each)(void *each_ctx, const struct api_host *host), void *each_ctx)
{
    const struct web *w = ctx;
    struct each_host e = {each, each_ctx};
    receiver_hosts(w->receiver, on_host, &e);
}

static void on_reprocess(void *ctx, const struct api_reprocess *what, struct http_request *request)
{
    const struct web *w = ctx;
    web_store_reprocess(w->store, what, request);
}

static void on_remove(void *ctx, const char *profile, const char *user, struct http_request *request)
{
    const struct web *w = ctx;
    web_store_remove(w->store, profile, user, request);
}

static void on_pin(void *ctx, const char *profile, bool pinned, struct http_request *request)
{
    const struct web *w = ctx;
    web_store_pin(w->store, profile, pinned, request);
}

static int copy_answer(struct api_capture_answer *to, const struct receiver_answer *from)
{
    to->host = from->identity;
    to->error = from->code < 0 ? from->text : NULL;
    if (!from->n_ids)
        return 0;
    const char **ids = KYMO_NEW_ARRAY(const char *, from->n_ids);
    for (size_t i = 0; ids && i < from->n_ids; i++)
        ids[i] = from->ids[i];
    to->captures = ids;
    to->n_captures = ids ? from->n_ids : 0;
    return ids ? 0 : -ENOMEM;
}

static void on_answered(void *ctx, uint64_t id, const struct receiver_answer *answers, size_t n)
{
    struct http_request *request = ctx;
    struct kymo_err err = {0};
    struct api_capture_answer *list = KYMO_NEW_ARRAY(struct api_capture_answer, n + 1);
    int r = list ? 0 : -ENOMEM;
    (void)id;
    for (size_t i = 0; r == 0 && i < n; i++)
        r = copy_answer(&list[i], &answers[i]);
    if (r < 0)
        (void)kymo_err_set(&err, r, "no memory for the answers");
    api_captured(request, list, r < 0 ? 0 : n, r < 0 ? &err : NULL);
    for (size_t i = 0; list && i < n; i++) {
        union {
            const char *const *in;
            void *out;
        } ids = {list[i].captures};
        kymo_free(ids.out);
    }
    kymo_free(list);
}

static void on_capture(void *ctx, const struct api_capture_request *what, struct http_request *request)
{
    const struct web *w = ctx;
    struct kymo_err err = {0};
    uint64_t id;
    const struct receiver_request q = {
        .host = what->host,
        .job = what->job,
        .mode = what->mode,
        .cores = what->cores,
        .n_cores = what->n_cores,
        .has_step = what->step != 0,
        .step = what->step,
        .ranks_one_in = what->ranks_one_in,
        .timeout_ms = ANSWER_MS,
    };
    if (receiver_request(w->receiver, &q, on_answered, request, &id, &err) < 0)
        api_captured(request, NULL, 0, &err);
}

/* Lines, as http.h takes them. */
static int read_token(const char *path, char **ret, struct kymo_err *err)
{
    uint8_t *data KYMO_FREE = NULL;
    size_t n;
    int r = kymo_file_read_all(path, TOKEN_MAX, &data, &n, err);
    if (r < 0)
        return r;
    char *token KYMO_FREE = n ? kymo_strndup((const char *)data, n) : kymo_strdup("");
    if (!token)
        return kymo_err_set(err, -ENOMEM, "no memory for the token");
    if (strspn(token, " \t\r\n") == strlen(token))
        return kymo_err_set(err, -EINVAL, "%s: there is no token in it", path);
    *ret = KYMO_TAKE(token);
    return 0;
}

static int copy_texts(struct web *w, const struct collector_config *v, struct kymo_err *err)
{
    char real[PATH_MAX];
    w->data_path = kymo_strdup(realpath(v->data_path, real) ? real : v->data_path);
    w->address = kymo_strdup(v->http);
    w->names = KYMO_NEW_ARRAY(char *, v->http_names.n + 1);
    bool whole = w->data_path && w->address && w->names;
    for (size_t i = 0; whole && i < v->http_names.n; i++, w->n_names += whole)
        whole = (w->names[i] = kymo_strdup(v->http_names.items[i])) != NULL;
    if (!whole)
        return kymo_err_set(err, -ENOMEM, "no memory for the HTTP server");
    int r = source_root_resolve("framework-source-root", v->framework_root, &w->framework_root, err);
    if (r == 0)
        r = source_root_resolve("nki-source-root", v->nki_root, &w->nki_root, err);
    return r == 0 && v->http_token_file ? read_token(v->http_token_file, &w->token, err) : r;
}

static void web_freep(struct web **w)
{
    if (*w)
        web_close(*w);
    web_free(*w);
}

static int open_tls(const struct collector_config *v, struct tls_context **ret, struct kymo_err *err)
{
    const struct tls_files files = {.cert = v->http_cert, .key = v->http_key, .any_client = true};
    return v->http_cert ? tls_context_new(TLS_SERVER, &files, ret, err) : 0;
}

static void say(void *ctx, int level, const char *text)
{
    (void)ctx;
    kymo_log((enum kymo_log_level)level, "%s", text);
}

/* A build without DuckDB has no kymo-query: then questions about tables are answered with 501. */
static int open_pool(struct web *w, uv_loop_t *loop, struct kymo_err *err)
{
    char program[PATH_MAX];
    int r = sibling_path("kymo-query", program, err);
    const struct query_pool_config config = {
        .loop = loop, .program = r == 0 && access(program, X_OK) == 0 ? program : NULL, .say = say};
    if (r == 0)
        r = query_pool_new(&config, &w->pool, err);
    if (r == 0)
        api_set_pool(w->api, w->pool);
    return r;
}

/* Without it the page keeps in the browser what it can. */
static int open_kept(struct web *w, uv_loop_t *loop, struct kymo_err *err)
{
    struct kymo_err why = {0};
    char *path KYMO_FREE = kymo_asprintf("%s/viewer.db", w->data_path);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "no memory for a path");
    if (viewer_store_new(loop, path, &w->kept, &why) < 0)
        kymo_log(KYMO_LOG_WARNING, "nothing is kept for users of the page: %s", why.text);
    api_set_store(w->api, w->kept);
    return 0;
}

static int open_uploads(struct web *w, uv_loop_t *loop, const struct collector_config *v, struct kymo_err *err)
{
    const struct upload_config config = {.loop = loop,
                                         .store = w->store,
                                         .data_path = w->data_path,
                                         .reserve = v->reserve,
                                         .max_bytes = v->upload_max,
                                         .idle_ms = v->upload_idle_s * 1000};
    int r = uploads_new(&config, &w->uploads, err);
    if (r == 0 && v->upload_max)
        api_set_uploads(w->api, w->uploads);
    return r;
}

static int open_page(struct web *w, struct kymo_err *err)
{
    char place[4096];
    int r = page_files_place(place, err);
    if (r == 0)
        r = page_files_read(place, &w->page, err);
    if (r == 0)
        api_set_page(w->api, w->page);
    if (r == 0 && !page_files_have_page(w->page))
        kymo_log(KYMO_LOG_INFO, "no viewer in %s: the page says how to have it, the API works without", place);
    return r;
}

static int start(struct web *w, uv_loop_t *loop, struct net *net, const struct collector_config *v,
                 struct kymo_err *err)
{
    int r = open_tls(v, &w->tls, err);
    const struct api_source source = {.figures = on_figures,
                                      .hosts = on_hosts,
                                      .reprocess = on_reprocess,
                                      .capture = on_capture,
                                      .remove = on_remove,
                                      .pin = on_pin,
                                      .ctx = w};
    if (r == 0)
        r = api_new(w->data_path, &source, &w->api, err);
    if (r == 0)
        api_set_sources(w->api, w->framework_root, w->nki_root);
    if (r == 0)
        r = open_pool(w, loop, err);
    if (r == 0)
        r = open_page(w, err);
    if (r == 0)
        r = open_kept(w, loop, err);
    if (r == 0)
        r = open_uploads(w, loop, v, err);
    struct http_config config = {
        .address = w->address,
        .tls = w->tls,
        .plain_anywhere = v->http_plain,
        .token = w->token,
        .names = (const char *const *)w->names,
        .n_names = w->n_names,
        .ctx = w->api,
    };
    config.routes = api_routes(&config.n_routes);
    config.body_routes = api_body_routes(&config.n_body_routes);
    if (r == 0)
        r = http_new(loop, net, &config, &w->http, err);
    if (r == 0)
        api_set_http(w->api, w->http);
    return r;
}

int web_new(uv_loop_t *loop, struct net *net, const struct collector_settings *settings, struct receiver *receiver,
            struct store_thread *store, struct web **ret, struct kymo_err *err)
{
    struct web *w KYMO_CLEANUP(web_freep) = KYMO_NEW(struct web);
    if (!w)
        return kymo_err_set(err, -ENOMEM, "no memory for the HTTP server");
    w->receiver = receiver;
    w->store = store;
    w->started_ns = (int64_t)kymo_clock_real_ns();
    int r = copy_texts(w, &settings->values, err);
    if (r == 0)
        r = start(w, loop, net, &settings->values, err);
    if (r == 0)
        *ret = KYMO_TAKE(w);
    return r;
}

void web_close(struct web *w)
{
    if (w->api) {
        api_set_http(w->api, NULL);
        api_set_pool(w->api, NULL);
    }
    w->pool = query_pool_free(w->pool);
    w->http = http_close(w->http);
    uploads_close(w->uploads);
}

struct web *web_free(struct web *w)
{
    if (!w)
        return NULL;
    api_free(w->api);
    page_files_free(w->page);
    viewer_store_free(w->kept);
    uploads_free(w->uploads);
    tls_context_free(w->tls);
    for (size_t i = 0; i < w->n_names; i++)
        kymo_free(w->names[i]);
    kymo_free(w->names);
    kymo_free(w->token);
    kymo_free(w->address);
    kymo_free(w->data_path);
    kymo_free(w->framework_root);
    kymo_free(w->nki_root);
    kymo_free(w);
    return NULL;
}

struct web_secrets {
    struct tls_context *tls;
    char *token;
};

struct web_secrets *web_secrets_free(struct web_secrets *s)
{
    if (!s)
        return NULL;
    tls_context_free(s->tls);
    kymo_free(s->token);
    kymo_free(s);
    return NULL;
}

static void secrets_freep(struct web_secrets **s)
{
    web_secrets_free(*s);
}

int web_secrets_read(const struct web *w, const struct collector_settings *settings, struct web_secrets **ret,
                     struct kymo_err *err)
{
    const struct collector_config *v = &settings->values;
    struct web_secrets *s KYMO_CLEANUP(secrets_freep) = KYMO_NEW(struct web_secrets);
    if (!s)
        return kymo_err_set(err, -ENOMEM, "no memory for the HTTP server's certificate");
    if (!w->tls != !v->http_cert)
        return kymo_err_set(err, -EINVAL, "HTTP cannot %s TLS while running", w->tls ? "give up" : "begin with");
    int r = open_tls(v, &s->tls, err);
    if (r == 0 && v->http_token_file)
        r = read_token(v->http_token_file, &s->token, err);
    if (r == 0)
        r = http_check_token(w->http, s->token, err);
    if (r == 0)
        *ret = KYMO_TAKE(s);
    return r;
}

void web_secrets_take(struct web *w, struct web_secrets *s)
{
    const struct web_secrets old = {w->tls, w->token};
    http_set_token(w->http, s->token);
    http_set_tls(w->http, s->tls);
    w->tls = s->tls;
    w->token = s->token;
    *s = old;
    web_secrets_free(s);
}

int web_port(const struct web *w)
{
    return http_port(w->http);
}

void web_profile_changed(struct web *w, const struct catalog_profile *p)
{
    if (p->state != CATALOG_READY && p->state != CATALOG_FAILED)
        return;
    w->ready += p->state == CATALOG_READY;
    w->failed += p->state == CATALOG_FAILED;
    if (p->finished_ns > p->started_ns && p->started_ns)
        w->processing_ns += (uint64_t)(p->finished_ns - p->started_ns);
}

void web_trouble(struct web *w, const char *text)
{
    (void)snprintf(w->trouble, sizeof w->trouble, "%s", text ? text : "");
}
