/* Questions about profiles of many ranks and their members, and about the fleet. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/api_query_impl.h"
#include "collector/json_text.h"

#define LANES_MAX 64
#define FILTERS "job,host,rank,cluster,instance_type,text"

static int no_memory(struct kymo_err *err)
{
    return kymo_err_set(err, -ENOMEM, "no memory for the question");
}

/* A parent with more members than a request can name is told without their own figures. */
static int put_members(struct api_query *a, const char *name, json_t *params, struct kymo_err *err)
{
    json_t *dirs = json_object();
    int r = dirs ? a->members(a, name, dirs, err) : no_memory(err);
    if (r == 0) {
        r = api_query_put(params, "members", dirs);
        r = r < 0 && r != -ENOBUFS ? no_memory(err) : 0;
    }
    json_decref(dirs);
    return r;
}

void api_query_ranks(void *ctx, struct http_request *q)
{
    static const char known[] = "sort,page,size";
    struct api_query *a = ctx;
    struct kymo_err err = {0};
    char *dir KYMO_FREE = NULL;
    if (!api_query_params_known(q, known))
        return;
    json_t *params = json_object();
    int r = params && api_query_take_params(a, q, known, params) == 0 ? 0 : no_memory(&err);
    if (r == 0)
        r = a->find(a, http_path(q, "name"), &dir, &err);
    if (r == 0)
        r = put_members(a, http_path(q, "name"), params, &err);
    api_query_start(a, q, QUERY_QUICK, dir, "ranks", params, r, &err);
}

/* Members that have no tables, or none any more, have lanes all the same: their arrivals are the parent's. */
static int put_lanes(struct api_query *a, const char *profiles, json_t *params, struct kymo_err *err)
{
    json_t *names = json_array(), *dirs = json_array();
    char *text KYMO_FREE = kymo_strdup(profiles ? profiles : "");
    int r = names && dirs && text ? 0 : no_memory(err);
    for (char *save = NULL, *name = r == 0 ? strtok_r(text, ",", &save) : NULL; name && r == 0;
         name = strtok_r(NULL, ",", &save)) {
        struct kymo_err ignored = {0};
        char *dir KYMO_FREE = NULL;
        if (json_array_size(names) >= LANES_MAX)
            r = kymo_err_set(err, -EINVAL, "profiles names 1 to %d members", LANES_MAX);
        else if (a->find(a, name, &dir, &ignored) < 0 && ignored.code == -ENOMEM)
            r = no_memory(err);
        else if (json_array_append_new(names, json_text(name)) < 0 ||
                 json_array_append_new(dirs, json_text(dir ? dir : "")) < 0)
            r = no_memory(err);
    }
    if (r == 0 && (api_query_put(params, "names", names) < 0 || api_query_put(params, "dirs", dirs) < 0))
        r = no_memory(err);
    json_decref(names);
    json_decref(dirs);
    return r;
}

void api_query_lanes(void *ctx, struct http_request *q)
{
    static const char taken[] = "from,to,width";
    struct api_query *a = ctx;
    struct kymo_err err = {0};
    char *dir KYMO_FREE = NULL;
    if (!api_query_params_known(q, "from,to,width,profiles"))
        return;
    json_t *params = json_object();
    int r = params && api_query_take_params(a, q, taken, params) == 0 ? 0 : no_memory(&err);
    if (r == 0)
        r = a->find(a, http_path(q, "name"), &dir, &err);
    if (r == 0)
        r = put_lanes(a, http_param(q, "profiles"), params, &err);
    api_query_start(a, q, QUERY_QUICK, dir, "lanes", params, r, &err);
}

static void ask_fleet(struct api_query *a, struct http_request *q, const char *op, const char *known)
{
    struct kymo_err err = {0};
    if (!api_query_params_known(q, known))
        return;
    json_t *params = json_object();
    int r = a->fleet ? 0 : kymo_err_set(&err, -ENOENT, "this server has no tables of a fleet");
    if (r == 0 && (!params || api_query_take_params(a, q, known, params) < 0))
        r = no_memory(&err);
    api_query_start(a, q, QUERY_LONG, a->fleet, op, params, r, &err);
}

void api_query_fleet(void *ctx, struct http_request *q)
{
    ask_fleet(ctx, q, "fleet", "from,to,group,sort,page,size,wait," FILTERS);
}

void api_query_fleet_profiles(void *ctx, struct http_request *q)
{
    ask_fleet(ctx, q, "fleet_profiles", "from,to,sort,page,size,wait," FILTERS);
}
