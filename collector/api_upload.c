#include "collector/api_upload.h"

#include <stdlib.h>
#include <string.h>

#include "collector/api_body.h"
#include "collector/api_params.h"
#include "collector/api_query.h"
#include "collector/upload.h"
#include "proto/manifest_check.h"

static const char *const none[] = {NULL};

/* NULL: answered. */
static struct uploads *uploads_of(const struct api_query *a, struct http_request *q)
{
    if (!a->uploads)
        http_answer_error(q, 501, "unsupported", "%s",
                          a->why_not ? a->why_not : "this server takes no uploads (upload-max)");
    return a->uploads;
}

static bool is_text(const char *name)
{
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return false;
    return strlen(name) <= UPLOAD_TEXT_MAX;
}

void api_list_uploads(void *ctx, struct http_request *q)
{
    struct uploads *all = uploads_of(ctx, q);
    if (all && api_params_known(q, none))
        upload_list(all, http_user(q), q);
}

void api_post_upload(void *ctx, struct http_request *q)
{
    static const char *const known[] = {"name", "bytes", NULL};
    struct upload_want want = {.name = "", .bytes = UINT64_MAX};
    struct uploads *all = uploads_of(ctx, q);
    json_t *body = all && api_params_known(q, none) ? api_body_parse(q) : NULL;
    if (body && api_body_known(q, body, known) && api_body_text(q, body, "name", &want.name) &&
        api_body_number(q, body, "bytes", 0, MANIFEST_SIZE_MAX, &want.bytes)) {
        if (want.bytes == UINT64_MAX)
            http_answer_error(q, 400, "bad_request", "bytes says how many bytes will come");
        else if (!is_text(want.name))
            http_answer_error(q, 400, "bad_request", "name is a text of at most %d bytes", UPLOAD_TEXT_MAX);
        else
            upload_begin(all, http_user(q), &want, q);
    }
    json_decref(body);
}

void api_get_upload(void *ctx, struct http_request *q)
{
    struct uploads *all = uploads_of(ctx, q);
    if (all && api_params_known(q, none))
        upload_show(all, http_user(q), http_path(q, "id"), q);
}

void api_delete_upload(void *ctx, struct http_request *q)
{
    struct uploads *all = uploads_of(ctx, q);
    if (all && api_params_known(q, none))
        upload_remove(all, http_user(q), http_path(q, "id"), q);
}

void api_post_finish(void *ctx, struct http_request *q)
{
    struct uploads *all = uploads_of(ctx, q);
    json_t *body = all && api_params_known(q, none) ? api_body_parse(q) : NULL;
    if (body && api_body_known(q, body, none))
        upload_finish(all, http_user(q), http_path(q, "id"), q);
    json_decref(body);
}

void api_put_file(void *ctx, struct http_request *q)
{
    static const char *const known[] = {"path", "size", "offset", "source", NULL};
    static const char *const flags[] = {"0", "1"};
    struct uploads *all = uploads_of(ctx, q);
    const char *path = http_param(q, "path");
    int64_t size = -1, offset = 0;
    int source = 0;
    if (!all || !api_params_known(q, known) || !api_params_number(q, "size", 0, INT64_MAX, &size) ||
        !api_params_number(q, "offset", 0, INT64_MAX, &offset) || !api_params_choice(q, "source", flags, 2, &source))
        return;
    if (!path || size < 0) {
        http_answer_error(q, 400, "bad_request", "path and size say which file it is, and how long");
        return;
    }
    const struct upload_piece piece = {path, (uint64_t)size, (uint64_t)offset, source == 1};
    upload_put(all, http_user(q), http_path(q, "id"), &piece, q);
}
