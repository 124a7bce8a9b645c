/* Captures: those that came, and requests for more. */
#include <errno.h>
#include <string.h>

#include "collector/api_body.h"
#include "collector/api_impl.h"
#include "collector/api_params.h"
#include "collector/json_text.h"
#include "collector/profile_json.h"

static int add_capture(void *ctx, const struct catalog_capture *c)
{
    return json_array_append_new(ctx, capture_json(c)) < 0 ? -ENOMEM : 0;
}

void api_get_captures(void *ctx, struct http_request *q)
{
    static const char *const known[] = {"job", "host", "state", "sort", "limit", "cursor", NULL};
    static const char *const orders[] = {"received", "-received"};
    static const char *const states[] = {"receiving", "received", "queued", "processing", "ready", "failed"};
    struct api *a = ctx;
    struct catalog_query query = {.sort = CATALOG_BY_RECEIVED};
    struct catalog_place after, next;
    struct kymo_err err = {0};
    int order = 1, state = -1;
    if (!api_params_known(q, known) || !api_params_choice(q, "sort", orders, 2, &order) ||
        !api_params_choice(q, "state", states, 6, &state))
        return;
    query.descending = order == 1;
    query.job = http_param(q, "job");
    query.host = http_param(q, "host");
    if (!api_read_page(q, &query, &after))
        return;
    json_t *rows = json_array();
    int r =
        catalog_search_captures(a->catalog, &query, state < 0 ? NULL : states[state], add_capture, rows, &next, &err);
    api_answer_page(q, &query, "captures", rows, r, &next, &err);
}

void api_get_capture(void *ctx, struct http_request *q)
{
    static const char *const known[] = {NULL};
    struct api *a = ctx;
    struct catalog_capture c;
    struct kymo_err err = {0};
    if (!api_params_known(q, known))
        return;
    int r = catalog_find_capture(a->catalog, http_path(q, "id"), &c, &err);
    json_t *labels = r < 0 ? NULL : api_labels(a, c.id, &err);
    json_t *profiles = labels ? api_profiles(a, c.id, &err) : NULL;
    if (!profiles) {
        json_decref(labels);
        http_answer_err(q, &err);
        return;
    }
    json_t *o = capture_json(&c);
    json_put(o, "labels", labels, true);
    json_put(o, "profiles", profiles, true);
    http_answer_json(q, 200, o);
}

static bool read_request(struct http_request *q, json_t *body, struct api_capture_request *ret)
{
    static const char *const known[] = {"job", "host", "mode", "step", "ranks_one_in", "cores", NULL};
    static const char *const modes[] = {"model", "continuous", "session", "on-failure"};
    uint64_t one_in = 0;
    int mode = -1;
    if (!api_body_known(q, body, known) || !api_body_text(q, body, "job", &ret->job) ||
        !api_body_text(q, body, "host", &ret->host) || !api_body_choice(q, body, "mode", modes, 4, &mode) ||
        !api_body_number(q, body, "step", 1, INT64_MAX, &ret->step) ||
        !api_body_number(q, body, "ranks_one_in", 1, UINT32_MAX, &one_in) ||
        !api_body_numbers(q, body, "cores", API_CORES_MAX, ret->cores, &ret->n_cores))
        return false;
    ret->mode = mode < 0 ? NULL : modes[mode];
    ret->ranks_one_in = (uint32_t)one_in;
    return true;
}

void api_post_captures(void *ctx, struct http_request *q)
{
    static const char *const known[] = {NULL};
    struct api *a = ctx;
    struct api_capture_request what = {0};
    if (!api_params_known(q, known))
        return;
    json_t *body = api_body_parse(q);
    if (!body)
        return;
    if (read_request(q, body, &what))
        a->source.capture(a->source.ctx, &what, q);
    json_decref(body);
}

static json_t *answer_json(const struct api_capture_answer *answer)
{
    json_t *o = json_object(), *ids = json_array();
    for (size_t i = 0; i < answer->n_captures; i++)
        (void)json_array_append_new(ids, json_text(answer->captures[i]));
    json_put(o, "host", json_text(answer->host), true);
    json_put(o, "captures", ids, true);
    json_put(o, "error", json_text(answer->error ? answer->error : ""), answer->error != NULL);
    return o;
}

void api_captured(struct http_request *request, const struct api_capture_answer *answers, size_t n,
                  const struct kymo_err *err)
{
    if (err) {
        http_answer_err(request, err);
        return;
    }
    json_t *hosts = json_array();
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(hosts, answer_json(&answers[i]));
    http_answer_json(request, 202, json_pack("{s:o}", "hosts", hosts));
}
