/* Profiles that are removed, or are not to be. */
#include "collector/api_body.h"
#include "collector/api_impl.h"
#include "collector/api_params.h"

static void refuse(struct http_request *q)
{
    http_answer_error(q, 501, "unsupported", "this server's profiles cannot be changed");
}

void api_delete_profile(void *ctx, struct http_request *q)
{
    static const char *const none[] = {NULL};
    struct api *a = ctx;
    if (!api_params_known(q, none))
        return;
    if (a->source.remove)
        a->source.remove(a->source.ctx, http_path(q, "name"), http_user(q), q);
    else
        refuse(q);
}

void api_put_pin(void *ctx, struct http_request *q)
{
    static const char *const none[] = {NULL}, *const known[] = {"pinned", NULL};
    struct api *a = ctx;
    bool pinned = true;
    json_t *body = api_params_known(q, none) ? api_body_parse(q) : NULL;
    if (body && api_body_known(q, body, known) && api_body_bool(q, body, "pinned", &pinned)) {
        if (a->source.pin)
            a->source.pin(a->source.ctx, http_path(q, "name"), pinned, q);
        else
            refuse(q);
    }
    json_decref(body);
}

void api_removed(struct http_request *request, const struct kymo_err *err)
{
    if (err)
        http_answer_err(request, err);
    else
        http_answer_json(request, 200, json_pack("{s:b}", "deleted", 1));
}

void api_pinned(struct http_request *request, bool pinned, const struct kymo_err *err)
{
    if (err)
        http_answer_err(request, err);
    else
        http_answer_json(request, 200, json_pack("{s:b}", "pinned", pinned));
}
