#include "collector/api.h"

#include <errno.h>

#include "base/alloc.h"
#include "collector/api_impl.h"

static const struct http_route routes[] = {
    {"GET", "/api/v1/profiles", api_get_profiles},
    {"GET", "/api/v1/profiles/{name}", api_get_profile},
    {"POST", "/api/v1/profiles/{name}/reprocess", api_post_reprocess_profile},
    {"POST", "/api/v1/reprocess", api_post_reprocess},
    {"GET", "/api/v1/captures", api_get_captures},
    {"POST", "/api/v1/captures", api_post_captures},
    {"GET", "/api/v1/captures/{id}", api_get_capture},
    {"GET", "/api/v1/hosts", api_get_hosts},
    {"GET", "/api/v1/status", api_get_status},
    {"GET", "/api/v1/openapi.json", api_get_openapi},
    {"GET", "/metrics", api_get_metrics},
};

const struct http_route *api_routes(size_t *ret_n)
{
    *ret_n = sizeof routes / sizeof *routes;
    return routes;
}

static void api_freep(struct api **a)
{
    api_free(*a);
}

int api_new(const char *data_path, const struct api_source *source, struct api **ret, struct kymo_err *err)
{
    struct api *a KYMO_CLEANUP(api_freep) = KYMO_NEW(struct api);
    char *path KYMO_FREE = kymo_asprintf("%s/catalog.db", data_path);
    if (!a || !path || !(a->data_path = kymo_strdup(data_path)))
        return kymo_err_set(err, -ENOMEM, "no memory for the API");
    a->source = *source;
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
    kymo_free(a);
    return NULL;
}

void api_set_http(struct api *a, const struct http *h)
{
    a->http = h;
}
