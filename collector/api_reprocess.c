/* Profiles to be made again. */
#include "collector/api_body.h"
#include "collector/api_impl.h"
#include "collector/api_params.h"

void api_post_reprocess_profile(void *ctx, struct http_request *q)
{
    static const char *const none[] = {NULL};
    struct api *a = ctx;
    const struct api_reprocess what = {.profile = http_path(q, "name")};
    if (!api_params_known(q, none))
        return;
    json_t *body = api_body_parse(q);
    if (body && api_body_known(q, body, none))
        a->source.reprocess(a->source.ctx, &what, q);
    json_decref(body);
}

void api_post_reprocess(void *ctx, struct http_request *q)
{
    static const char *const none[] = {NULL}, *const known[] = {"capture", "failed", NULL};
    struct api *a = ctx;
    struct api_reprocess what = {0};
    json_t *body = api_params_known(q, none) ? api_body_parse(q) : NULL;
    if (body && api_body_known(q, body, known) && api_body_text(q, body, "capture", &what.capture) &&
        api_body_bool(q, body, "failed", &what.failed)) {
        if (what.failed == (what.capture != NULL))
            http_answer_error(q, 400, "bad_request", "the body says either a capture or failed: true");
        else
            a->source.reprocess(a->source.ctx, &what, q);
    }
    json_decref(body);
}

void api_reprocessed(struct http_request *request, uint64_t n, const struct kymo_err *err)
{
    if (!err)
        http_answer_json(request, 202, json_pack("{s:I}", "queued", (json_int_t)n));
    else if (err->code == -EINVAL)
        http_answer_error(request, 409, "state", "%s", err->text);
    else
        http_answer_err(request, err);
}
