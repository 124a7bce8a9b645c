/* Profiles. */
#include <errno.h>
#include <string.h>

#include "collector/api_body.h"
#include "collector/api_impl.h"
#include "collector/api_params.h"
#include "collector/catalog_search.h"
#include "collector/json_text.h"
#include "collector/profile_json.h"

static const char *const states[] = {
#define X(name, text) text,
    CATALOG_STATES(X)
#undef X
};

/* sort: "received", or "-received" for the greatest first. */
static bool read_sort(struct http_request *q, struct catalog_query *query)
{
    static const char *const names[] = {"received", "-received", "finished", "-finished", "name", "-name"};
    int sort = 1;
    if (!api_params_choice(q, "sort", names, 6, &sort))
        return false;
    query->sort = (enum catalog_sort)(sort / 2);
    query->descending = sort % 2;
    return true;
}

/* false: answered. place: room for the cursor. */
static bool read_query(struct http_request *q, struct catalog_query *query, struct catalog_place *place)
{
    static const char *const known[] = {"job",  "host",  "capture", "state",  "rank",
                                        "text", "limit", "sort",    "cursor", NULL};
    *query = (struct catalog_query){.state = -1, .rank = -1};
    if (!api_params_known(q, known) || !api_params_choice(q, "state", states, CATALOG_STATE_MAX, &query->state) ||
        !api_params_number(q, "rank", 0, UINT32_MAX, &query->rank) || !read_sort(q, query))
        return false;
    query->job = http_param(q, "job");
    query->host = http_param(q, "host");
    query->capture = http_param(q, "capture");
    query->text = http_param(q, "text");
    return api_read_page(q, query, place);
}

struct rows {
    const char *data_path;
    json_t *list;
};

static int add_profile(void *ctx, const struct catalog_profile *p)
{
    struct rows *rows = ctx;
    return json_array_append_new(rows->list, profile_json(rows->data_path, p)) < 0 ? -ENOMEM : 0;
}

void api_get_profiles(void *ctx, struct http_request *q)
{
    struct api *a = ctx;
    struct catalog_query query;
    struct catalog_place after, next;
    struct kymo_err err = {0};
    if (!read_query(q, &query, &after))
        return;
    struct rows rows = {a->data_path, json_array()};
    int r = catalog_search(a->catalog, &query, add_profile, &rows, &next, &err);
    api_answer_page(q, &query, "profiles", rows.list, r, &next, &err);
}

/* Those that are not there are left out: a folder may name profiles of yesterday. */
static int find_all(struct api *a, const char *const *names, size_t n, struct rows *rows, struct kymo_err *err)
{
    struct catalog_profile p;
    for (size_t i = 0; i < n; i++) {
        int r = catalog_find(a->catalog, names[i], &p, err);
        if (r == 0)
            r = add_profile(rows, &p);
        if (r < 0 && r != -ENOENT)
            return r;
    }
    return 0;
}

void api_post_find(void *ctx, struct http_request *q)
{
    static const char *const none[] = {NULL}, *const known[] = {"names", NULL};
    const char *names[API_FIND_MAX];
    size_t n = 0;
    struct api *a = ctx;
    struct kymo_err err = {0};
    json_t *body = api_params_known(q, none) ? api_body_parse(q) : NULL;
    if (body && api_body_known(q, body, known) && api_body_texts(q, body, "names", API_FIND_MAX, names, &n)) {
        struct rows rows = {a->data_path, json_array()};
        if (find_all(a, names, n, &rows, &err) == 0) {
            http_answer_json(q, 200, json_pack("{s:o}", "profiles", rows.list));
        } else {
            json_decref(rows.list);
            http_answer_err(q, &err);
        }
    }
    json_decref(body);
}

json_t *api_profiles(struct api *a, const char *capture, struct kymo_err *err)
{
    struct rows rows = {a->data_path, json_array()};
    int r = catalog_list(a->catalog, capture, add_profile, &rows, err);
    if (r == 0)
        return rows.list;
    json_decref(rows.list);
    if (err->code == 0)
        (void)kymo_err_set(err, r, "no memory for a list of profiles");
    return NULL;
}

static int add_label(void *ctx, const char *key, const char *value)
{
    json_t *name = json_text(key);
    int r = name ? json_object_set_new(ctx, json_string_value(name), json_text(value)) : -1;
    json_decref(name);
    return r < 0 ? -ENOMEM : 0;
}

json_t *api_labels(struct api *a, const char *capture, struct kymo_err *err)
{
    json_t *labels = json_object();
    int r = catalog_list_labels(a->catalog, capture, add_label, labels, err);
    if (r == 0)
        return labels;
    json_decref(labels);
    if (err->code == 0)
        (void)kymo_err_set(err, r, "no memory for labels");
    return NULL;
}

static int add_member(void *ctx, const struct catalog_profile *p)
{
    const struct rows *rows = ctx;
    json_t *o = json_object();
    json_put(o, "name", json_text(p->name), true);
    json_put(o, "state", json_text(catalog_state_name(p->state)), true);
    json_put(o, "host", json_text(p->host), *p->host);
    json_put(o, "rank", json_number(p->rank), true);
    return json_array_append_new(rows->list, o) < 0 ? -ENOMEM : 0;
}

void api_get_profile(void *ctx, struct http_request *q)
{
    static const char *const known[] = {NULL};
    struct api *a = ctx;
    struct catalog_profile p;
    struct kymo_err err = {0};
    if (!api_params_known(q, known))
        return;
    int r = catalog_find(a->catalog, http_path(q, "name"), &p, &err);
    json_t *labels = r < 0 ? NULL : api_labels(a, p.capture, &err);
    if (!labels) {
        http_answer_err(q, &err);
        return;
    }
    json_t *o = profile_json(a->data_path, &p);
    json_put(o, "labels", labels, true);
    struct rows members = {a->data_path, json_array()};
    r = p.is_parent ? catalog_list_members(a->catalog, p.request, add_member, &members, &err) : 0;
    json_put(o, "members", members.list, p.is_parent);
    if (r == 0) {
        http_answer_json(q, 200, o);
        return;
    }
    json_decref(o);
    if (err.code == 0)
        (void)kymo_err_set(&err, r, "no memory for a list of members");
    http_answer_err(q, &err);
}
