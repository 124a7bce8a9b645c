#include "collector/view.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/net.h"
#include "base/options.h"
#include "base/sibling.h"
#include "collector/api_body.h"
#include "collector/api_params.h"
#include "collector/api_query.h"
#include "collector/api_store.h"
#include "collector/api_upload.h"
#include "collector/json_text.h"
#include "collector/page_files.h"
#include "collector/query/query_files.h"
#include "collector/source_root.h"

struct args {
    struct kymo_option_list dirs;
    const char *http, *page, *ports_file, *framework_root, *nki_root, *fleet;
};

static const struct kymo_option options[] = {
    {.name = "DIR",
     .type = KYMO_OPTION_POSITIONALS,
     .offset = offsetof(struct args, dirs),
     .help = "directories of tables (NAME.parquet), or directories of such directories"},
    {.name = "http",
     .type = KYMO_OPTION_TEXT,
     .arg = "ADDRESS:PORT",
     .def = "127.0.0.1:3001",
     .offset = offsetof(struct args, http),
     .help = "where to listen; a loopback address, port 0 for any free one"},
    {.name = "page",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .offset = offsetof(struct args, page),
     .help = "files of the web page, instead of those installed"},
    {.name = "framework-source-root",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .offset = offsetof(struct args, framework_root),
     .help = "source files of the framework's models, which anybody who may open the page may read"},
    {.name = "nki-source-root",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .offset = offsetof(struct args, nki_root),
     .help = "source files of NKI kernels, likewise"},
    {.name = "fleet",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .offset = offsetof(struct args, fleet),
     .help = "the fleet's tables, as a collector has them in the folder fleet of its store"},
    {.name = "ports-file",
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     .offset = offsetof(struct args, ports_file),
     .help = "write the port to this file when ready"},
    {0},
};

static const struct kymo_options spec = {
    .program = "kymo view",
    .about = "Shows profiles in a web browser: directories of tables, made by kymo or by others. Nothing is written to "
             "them.",
    .rows = options,
};

struct profile {
    char *name, *dir;
};

struct view {
    struct api_query query; /* first */
    uv_loop_t loop;
    struct net *net;
    struct http *http;
    struct page_files *page;
    uv_signal_t signals[2];
    struct profile *profiles;
    size_t n, cap;
    char *roots[2]; /* of source texts */
    char fleet[PATH_MAX];
    struct query_call *warming; /* of the only profile; NULL: nothing is asked */
};

/* Profiles */

static bool is_name(const char *s, size_t n)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    return n > 0 && strspn(s, letters) >= n && *s != '.';
}

static struct profile *find(const struct view *v, const char *name)
{
    for (size_t i = 0; i < v->n; i++)
        if (!strcmp(v->profiles[i].name, name))
            return &v->profiles[i];
    return NULL;
}

/* What a directory is called, less what the store adds; letters that a path cannot have become '_'. */
static char *make_name(const struct view *v, const char *dir)
{
    static const char latest[] = "@latest";
    const char *last = strrchr(dir, '/') ? strrchr(dir, '/') + 1 : dir;
    size_t n = strlen(last);
    if (n > sizeof latest - 1 && !strcmp(last + n - (sizeof latest - 1), latest))
        n -= sizeof latest - 1;
    char *base KYMO_FREE = n ? kymo_strndup(last, n) : kymo_strdup("profile");
    for (char *c = base; c && *c; c++)
        if (!is_name(c, 1) && *c != '.')
            *c = '_';
    for (int i = 1; base && i <= VIEW_PROFILES_MAX; i++) {
        char *name = i == 1 ? kymo_strdup(base) : kymo_asprintf("%s-%d", base, i);
        if (!name || !find(v, name))
            return name;
        kymo_free(name);
    }
    return NULL;
}

static bool is_there(const struct view *v, const char *dir)
{
    for (size_t i = 0; i < v->n; i++)
        if (!strcmp(v->profiles[i].dir, dir))
            return true;
    return false;
}

/* One that was named twice is one profile. */
static int add(struct view *v, const char *dir, struct kymo_err *err)
{
    if (is_there(v, dir))
        return 0;
    void *list = v->profiles;
    int r = kymo_grow(&list, &v->cap, v->n + 1, VIEW_PROFILES_MAX, sizeof *v->profiles);
    if (r < 0)
        return kymo_err_set(err, r, "more than %d profiles", VIEW_PROFILES_MAX);
    v->profiles = list;
    struct profile p = {make_name(v, dir), kymo_strdup(dir)};
    if (!p.name || !p.dir) {
        kymo_free(p.name);
        kymo_free(p.dir);
        return kymo_err_set(err, -ENOMEM, "no memory for profiles");
    }
    v->profiles[v->n++] = p;
    return 0;
}

static bool has_tables(const char *dir)
{
    DIR *d = opendir(dir);
    bool found = false;
    const char *table;
    size_t n;
    for (const struct dirent *e; d && !found && (e = readdir(d));)
        found = query_files_is_table(e->d_name, &table, &n);
    if (d)
        (void)closedir(d);
    return found;
}

static int compare_names(const void *a, const void *b)
{
    const struct profile *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int add_below(struct view *v, const char *dir, struct kymo_err *err)
{
    DIR *d = opendir(dir);
    size_t before = v->n;
    bool found = false;
    int r = d ? 0 : kymo_err_set(err, -errno, "%s: %s", dir, strerror(errno));
    for (const struct dirent *e; r == 0 && (e = readdir(d));) {
        char *path KYMO_FREE = *e->d_name == '.' ? NULL : kymo_asprintf("%s/%s", dir, e->d_name);
        if (path && has_tables(path)) {
            found = true;
            r = add(v, path, err);
        }
    }
    if (d)
        (void)closedir(d);
    if (r == 0 && !found)
        r = kymo_err_set(err, -ENOENT, "%s: no table (NAME.parquet) in it, nor in a directory below it", dir);
    if (r == 0 && v->n > before)
        qsort(v->profiles + before, v->n - before, sizeof *v->profiles, compare_names);
    return r;
}

static int add_argument(struct view *v, const char *arg, struct kymo_err *err)
{
    char dir[PATH_MAX];
    if (!realpath(arg, dir))
        return kymo_err_set(err, -errno, "%s: %s", arg, strerror(errno));
    return has_tables(dir) ? add(v, dir, err) : add_below(v, dir, err);
}

static int find_dir(struct api_query *q, const char *name, char **ret_dir, struct kymo_err *err)
{
    const struct view *v = (const struct view *)q;
    const struct profile *p = find(v, name);
    if (!p)
        return kymo_err_set(err, -ENOENT, "there is no profile %.200s", name);
    *ret_dir = kymo_strdup(p->dir);
    return *ret_dir ? 0 : kymo_err_set(err, -ENOMEM, "no memory for a path");
}

/* Any of them may be a member of any. */
static int list_dirs(struct api_query *q, const char *name, json_t *dirs, struct kymo_err *err)
{
    const struct view *v = (const struct view *)q;
    (void)name;
    for (size_t i = 0; i < v->n; i++)
        if (json_object_set_new(dirs, v->profiles[i].name, json_text(v->profiles[i].dir)) < 0)
            return kymo_err_set(err, -ENOMEM, "no memory for a list of profiles");
    return 0;
}

/* Made of many others by kymo gather. */
static bool is_parent(const char *dir)
{
    char *path KYMO_FREE = kymo_asprintf("%s/Member.parquet", dir);
    return path && access(path, F_OK) == 0;
}

/* Routes */

static json_t *profile_row(const struct profile *p)
{
    struct stat st;
    json_t *o = json_object();
    bool there = stat(p->dir, &st) == 0;
    json_put(o, "name", json_text(p->name), true);
    json_put(o, "state", json_text(there ? "ready" : "failed"), true);
    json_put(o, "reason", json_text("the directory is not there any more"), !there);
    json_put(o, "path", json_text(p->dir), there);
    json_put(o, "kind", json_text(is_parent(p->dir) ? "ranks" : "device"), true);
    json_put(o, "finished_ns",
             json_integer(there ? (json_int_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec : 0), there);
    return o;
}

static void get_profiles(void *ctx, struct http_request *q)
{
    static const char *const known[] = {"text", NULL};
    const struct view *v = ctx;
    json_t *list = json_array();
    if (!api_params_known(q, known)) {
        json_decref(list);
        return;
    }
    char *text KYMO_FREE = api_params_trimmed(http_param(q, "text"));
    for (size_t i = 0; i < v->n; i++)
        if (!text || strcasestr(v->profiles[i].name, text))
            (void)json_array_append_new(list, profile_row(&v->profiles[i]));
    http_answer_json(q, 200, json_pack("{s:o, s:n}", "profiles", list, "next"));
}

static void post_find(void *ctx, struct http_request *q)
{
    static const char *const none[] = {NULL}, *const known[] = {"names", NULL};
    const char *names[API_FIND_MAX];
    size_t n = 0;
    const struct view *v = ctx;
    json_t *body = api_params_known(q, none) ? api_body_parse(q) : NULL;
    if (body && api_body_known(q, body, known) && api_body_texts(q, body, "names", API_FIND_MAX, names, &n)) {
        json_t *list = json_array();
        for (size_t i = 0; i < n; i++) {
            const struct profile *p = find(v, names[i]);
            if (p)
                (void)json_array_append_new(list, profile_row(p));
        }
        http_answer_json(q, 200, json_pack("{s:o}", "profiles", list));
    }
    json_decref(body);
}

static void get_profile(void *ctx, struct http_request *q)
{
    const struct view *v = ctx;
    const struct profile *p = find(v, http_path(q, "name"));
    if (p)
        http_answer_json(q, 200, profile_row(p));
    else
        http_answer_error(q, 404, "not_found", "there is no profile of this name");
}

static const char no_change[] = "this page shows directories as they are (kymo view) and changes nothing: uploads and "
                                "deleting need a collector (kymo-collector --data-path DIR)";

static void refuse_change(void *ctx, struct http_request *q)
{
    (void)ctx;
    http_answer_error(q, 501, "unsupported", "%s", no_change);
}

static void get_page(void *ctx, struct http_request *q)
{
    const struct view *v = ctx;
    const char *name = http_path(q, "file");
    page_files_answer(v->page, q, name ? name : "", false);
}

static void get_asset(void *ctx, struct http_request *q)
{
    const struct view *v = ctx;
    page_files_answer(v->page, q, http_path(q, "file"), true);
}

/* A subset of the collector's, which openapi.json describes. */
static const struct http_route routes[] = {
    {"GET", "/api/v1/profiles", get_profiles},
    {"POST", "/api/v1/profiles/find", post_find},
    {"GET", "/api/v1/profiles/{name}", get_profile},
    {"DELETE", "/api/v1/profiles/{name}", refuse_change},
    {"PUT", "/api/v1/profiles/{name}/pin", refuse_change},
    API_UPLOAD_ROUTES API_STORE_ROUTES API_QUERY_ALONE_ROUTES API_QUERIES(API_QUERY_ROUTE){"GET", "/", get_page},
    {"GET", "/{file}", get_page},
    {"GET", "/assets/{file}", get_asset},
};

static const struct http_route body_routes[] = {API_UPLOAD_BODY_ROUTE};

/* The program */

static void say(void *ctx, int level, const char *text)
{
    (void)ctx;
    kymo_log((enum kymo_log_level)level, "%s", text);
}

static void close_handle(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (!uv_is_closing(h))
        uv_close(h, NULL);
}

static void on_signal(uv_signal_t *signal, int number)
{
    struct view *v = signal->data;
    (void)number;
    uv_stop(&v->loop);
}

static int watch_signals(struct view *v, struct kymo_err *err)
{
    static const int numbers[] = {SIGTERM, SIGINT};
    (void)signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < 2; i++) {
        (void)uv_signal_init(&v->loop, &v->signals[i]);
        v->signals[i].data = v;
        int r = uv_signal_start(&v->signals[i], on_signal, numbers[i]);
        if (r < 0)
            return kymo_err_set(err, r, "cannot handle signals: %s", uv_strerror(r));
    }
    return 0;
}

/* Fresh memory; NULL: there is no place of the user's. */
static char *state_folder(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state == '/')
        return kymo_asprintf("%s/kymo", state);
    return home && *home == '/' ? kymo_asprintf("%s/.local/state/kymo", home) : NULL;
}

/* Without it the page keeps in the browser what it can. */
static void open_store(struct view *v)
{
    struct kymo_err err = {0};
    char *folder KYMO_FREE = state_folder();
    char *path KYMO_FREE = folder ? kymo_asprintf("%s/viewer.db", folder) : NULL;
    if (!path)
        return;
    int r = kymo_file_mkdirs(folder, &err);
    if (r == 0)
        r = viewer_store_new(&v->loop, path, &v->query.store, &err);
    if (r < 0)
        kymo_log(KYMO_LOG_WARNING, "annotations and layouts stay in the browser: %s", err.text);
}

static int open_parts(struct view *v, const struct args *args, struct kymo_err *err)
{
    char program[PATH_MAX], place[4096];
    int r = sibling_path("kymo-query", program, err);
    const struct query_pool_config config = {
        .loop = &v->loop, .program = r == 0 && access(program, X_OK) == 0 ? program : NULL, .say = say};
    if (r == 0)
        r = query_pool_new(&config, &v->query.pool, err);
    if (r == 0 && !args->page)
        r = page_files_place(place, err);
    const char *page = args->page ? args->page : place;
    if (r == 0)
        r = page_files_read(page, &v->page, err);
    if (r == 0 && !page_files_have_page(v->page))
        kymo_log(KYMO_LOG_WARNING, "no viewer in %s: its address says how to have it, the API works without", page);
    return r;
}

static int listen_on(struct view *v, const struct args *args, struct kymo_err *err)
{
    const struct http_config config = {.address = args->http,
                                       .routes = routes,
                                       .n_routes = sizeof routes / sizeof *routes,
                                       .body_routes = body_routes,
                                       .n_body_routes = sizeof body_routes / sizeof *body_routes,
                                       .ctx = v};
    int r = net_new(&v->loop, &v->net, err);
    return r < 0 ? r : http_new(&v->loop, v->net, &config, &v->http, err);
}

static int tell_port(const struct view *v, const struct args *args, struct kymo_err *err)
{
    char text[64];
    int port = http_port(v->http);
    int n = snprintf(text, sizeof text, "http=%d\n", port);
    int r = args->ports_file ? kymo_file_write_atomic(args->ports_file, text, (size_t)n, err) : 0;
    if (r < 0)
        return r;
    printf("kymo view: %zu profile%s at http://127.0.0.1:%d/\n", v->n, v->n == 1 ? "" : "s", port);
    return fflush(stdout) == 0 ? 0 : kymo_err_set(err, -errno, "stdout: %s", strerror(errno));
}

static void warm_head(void *ctx, const struct query_head *head)
{
    (void)ctx;
    (void)head;
}

static void warm_data(void *ctx, const void *data, size_t n)
{
    const struct view *v = ctx;
    (void)data;
    query_call_took(v->warming, n);
}

static void warm_end(void *ctx, const struct query_failure *why)
{
    struct view *v = ctx;
    (void)why;
    v->warming = NULL;
}

/* The only profile is opened while the browser still starts: whoever calls kymo view wants to see it. What fails is
 * told when the page asks. */
static void warm_up(struct view *v)
{
    static const struct query_call_ops ops = {.head = warm_head, .data = warm_data, .end = warm_end};
    json_t *params = v->n == 1 ? json_object() : NULL;
    if (params && query_pool_ask(v->query.pool, QUERY_QUICK, v->profiles[0].dir, "overview", params, &ops, v,
                                 &v->warming, NULL) < 0)
        v->warming = NULL;
}

static int open_all(struct view *v, const struct args *args, struct kymo_err *err)
{
    int r = source_root_resolve("--framework-source-root", args->framework_root, &v->roots[0], err);
    if (r == 0)
        r = source_root_resolve("--nki-source-root", args->nki_root, &v->roots[1], err);
    v->query.framework_root = v->roots[0];
    v->query.nki_root = v->roots[1];
    if (r == 0 && args->fleet && !(v->query.fleet = realpath(args->fleet, v->fleet)))
        r = kymo_err_set(err, -errno, "%s: %s", args->fleet, strerror(errno));
    for (size_t i = 0; i < args->dirs.n && r == 0; i++)
        r = add_argument(v, args->dirs.items[i], err);
    if (r == 0)
        r = watch_signals(v, err);
    if (r == 0)
        r = open_parts(v, args, err);
    if (r == 0)
        open_store(v);
    if (r == 0)
        r = listen_on(v, args, err);
    if (r == 0)
        r = tell_port(v, args, err);
    if (r == 0)
        warm_up(v);
    return r;
}

static void close_all(struct view *v)
{
    v->query.pool = query_pool_free(v->query.pool);
    v->http = http_close(v->http);
    net_free(v->net);
    v->query.store = viewer_store_free(v->query.store);
    (void)uv_run(&v->loop, UV_RUN_NOWAIT);
    uv_walk(&v->loop, close_handle, NULL);
    (void)uv_run(&v->loop, UV_RUN_DEFAULT);
    page_files_free(v->page);
    for (size_t i = 0; i < sizeof v->roots / sizeof *v->roots; i++)
        kymo_free(v->roots[i]);
    for (size_t i = 0; i < v->n; i++) {
        kymo_free(v->profiles[i].name);
        kymo_free(v->profiles[i].dir);
    }
    kymo_free(v->profiles);
}

int view_main(int argc, char **argv)
{
    static struct view v = {.query = {.find = find_dir, .members = list_dirs, .why_not = no_change}};
    struct args args;
    struct kymo_err err = {0};
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    if (args.dirs.n == 0) {
        (void)fprintf(stderr, "kymo view: DIR is missing\n");
        return 2;
    }
    kymo_log_init("kymo view", KYMO_LOG_WARNING);
    int r = uv_loop_init(&v.loop);
    if (r < 0) {
        (void)fprintf(stderr, "kymo view: no event loop: %s\n", uv_strerror(r));
        return 1;
    }
    r = open_all(&v, &args, &err);
    if (r == 0)
        (void)uv_run(&v.loop, UV_RUN_DEFAULT);
    else
        (void)fprintf(stderr, "kymo view: %s\n", err.text);
    close_all(&v);
    (void)uv_loop_close(&v.loop);
    return r < 0;
}
