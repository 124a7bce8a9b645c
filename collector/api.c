#include "collector/api.h"

#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"
#include "collector/api_impl.h"
#include "collector/api_store.h"
#include "collector/api_upload.h"
#include "collector/json_text.h"
#include "collector/page_files.h"
#include "collector/upload_manifest.h"
#include "collector/work_queue.h"

static const struct http_route routes[] = {
    {"GET", "/api/v1/profiles", api_get_profiles},
    {"POST", "/api/v1/profiles/find", api_post_find},
    {"GET", "/api/v1/profiles/{name}", api_get_profile},
    {"DELETE", "/api/v1/profiles/{name}", api_delete_profile},
    {"PUT", "/api/v1/profiles/{name}/pin", api_put_pin},
    {"POST", "/api/v1/profiles/{name}/reprocess", api_post_reprocess_profile},
    {"POST", "/api/v1/reprocess", api_post_reprocess},
    {"GET", "/api/v1/captures", api_get_captures},
    {"POST", "/api/v1/captures", api_post_captures},
    {"GET", "/api/v1/captures/{id}", api_get_capture},
    {"GET", "/api/v1/hosts", api_get_hosts},
    {"GET", "/api/v1/status", api_get_status},
    {"GET", "/api/v1/openapi.json", api_get_openapi},
    {"GET", "/metrics", api_get_metrics},
    API_UPLOAD_ROUTES API_STORE_ROUTES API_QUERY_ALONE_ROUTES API_QUERIES(API_QUERY_ROUTE){"GET", "/", api_get_page},
    {"GET", "/{file}", api_get_page},
    {"GET", "/assets/{file}", api_get_asset},
};

const struct http_route *api_routes(size_t *ret_n)
{
    *ret_n = sizeof routes / sizeof *routes;
    return routes;
}

struct api_members {
    const char *data_path;
    json_t *dirs;
};

const struct http_route *api_body_routes(size_t *ret_n)
{
    static const struct http_route body_routes[] = {API_UPLOAD_BODY_ROUTE};
    *ret_n = sizeof body_routes / sizeof *body_routes;
    return body_routes;
}

/* The directory of a profile that is ready. */
static int find_profile(struct api_query *q, const char *name, char **ret_dir, struct kymo_err *err)
{
    struct api *a = (struct api *)q;
    struct catalog_profile p;
    int r = catalog_find(a->catalog, name, &p, err);
    if (r < 0)
        return r;
    /* One that is made again keeps its tables meanwhile. */
    char *dir KYMO_FREE = work_queue_place(a->data_path, p.name);
    if (!dir)
        return kymo_err_set(err, -ENOMEM, "no memory for a path");
    if (p.state != CATALOG_READY && access(dir, F_OK) != 0)
        return kymo_err_set(err, -EALREADY, "the profile is %s, not ready", catalog_state_name(p.state));
    *ret_dir = KYMO_TAKE(dir);
    return 0;
}

static int add_member(void *ctx, const struct catalog_profile *p)
{
    struct api_members *m = ctx;
    char *dir KYMO_FREE = p->state == CATALOG_READY ? work_queue_place(m->data_path, p->name) : NULL;
    return dir && json_object_set_new(m->dirs, p->name, json_text(dir)) < 0 ? -ENOMEM : 0;
}

static int list_members(struct api_query *q, const char *name, json_t *dirs, struct kymo_err *err)
{
    struct api *a = (struct api *)q;
    struct api_members m = {a->data_path, dirs};
    struct catalog_profile p;
    int r = catalog_find(a->catalog, name, &p, err);
    if (r == 0 && p.is_parent)
        r = catalog_list_members(a->catalog, p.request, add_member, &m, err);
    return r < 0 && err->code == 0 ? kymo_err_set(err, r, "no memory for a list of members") : r;
}

/* They came with an upload, into its capture. */
static char *find_sources(struct api_query *q, const char *name)
{
    struct api *a = (struct api *)q;
    struct catalog_profile p;
    if (catalog_find(a->catalog, name, &p, NULL) < 0 || p.is_parent)
        return NULL;
    char *folder KYMO_FREE = kymo_asprintf("%s/raw/captures/%s/" UPLOAD_SOURCES, a->data_path, p.capture);
    return folder && access(folder, F_OK) == 0 ? KYMO_TAKE(folder) : NULL;
}

static void api_freep(struct api **a)
{
    api_free(*a);
}

int api_new(const char *data_path, const struct api_source *source, struct api **ret, struct kymo_err *err)
{
    struct api *a KYMO_CLEANUP(api_freep) = KYMO_NEW(struct api);
    char *path KYMO_FREE = kymo_asprintf("%s/catalog.db", data_path);
    if (!a || !path || !(a->data_path = kymo_strdup(data_path)) || !(a->fleet = kymo_asprintf("%s/fleet", data_path)))
        return kymo_err_set(err, -ENOMEM, "no memory for the API");
    a->source = *source;
    a->query.find = find_profile;
    a->query.find_sources = find_sources;
    a->query.manages = source->remove != NULL;
    a->query.members = list_members;
    a->query.fleet = a->fleet;
    int r = catalog_open(path, true, &a->catalog, err);
    if (r == 0)
        *ret = KYMO_TAKE(a);
    return r;
}

struct api *api_free(struct api *a)
{
    if (!a)
        return NULL;
    catalog_free(a->catalog);
    kymo_free(a->data_path);
    kymo_free(a->fleet);
    kymo_free(a);
    return NULL;
}

void api_set_pool(struct api *a, struct query_pool *pool)
{
    a->query.pool = pool;
}

void api_set_store(struct api *a, struct viewer_store *store)
{
    a->query.store = store;
}

void api_set_uploads(struct api *a, struct uploads *uploads)
{
    a->query.uploads = uploads;
}

void api_set_sources(struct api *a, const char *framework_root, const char *nki_root)
{
    a->query.framework_root = framework_root;
    a->query.nki_root = nki_root;
}

void api_set_page(struct api *a, const struct page_files *page)
{
    a->page = page;
}

void api_get_page(void *ctx, struct http_request *q)
{
    const struct api *a = ctx;
    const char *name = http_path(q, "file");
    page_files_answer(a->page, q, name ? name : "", false);
}

void api_get_asset(void *ctx, struct http_request *q)
{
    const struct api *a = ctx;
    page_files_answer(a->page, q, http_path(q, "file"), true);
}

void api_set_http(struct api *a, const struct http *h)
{
    a->http = h;
}
