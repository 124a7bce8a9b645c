/* Routes of uploads, /api/v1/uploads (upload.h), for the collector's API. The context of the handlers begins with
 * struct api_query, whose uploads may be NULL: then they say that there are none. */
#ifndef KYMO_COLLECTOR_API_UPLOAD_H
#define KYMO_COLLECTOR_API_UPLOAD_H

#include "collector/http.h"

void api_list_uploads(void *ctx, struct http_request *q);
void api_post_upload(void *ctx, struct http_request *q);
void api_get_upload(void *ctx, struct http_request *q);
void api_delete_upload(void *ctx, struct http_request *q);
void api_post_finish(void *ctx, struct http_request *q);
/* Takes its body piece by piece. */
void api_put_file(void *ctx, struct http_request *q);

#define API_UPLOAD_ROUTES                                                                                              \
    {"GET", "/api/v1/uploads", api_list_uploads}, {"POST", "/api/v1/uploads", api_post_upload},                        \
        {"GET", "/api/v1/uploads/{id}", api_get_upload}, {"DELETE", "/api/v1/uploads/{id}", api_delete_upload},        \
        {"POST", "/api/v1/uploads/{id}/finish", api_post_finish},
/* For http_config.body_routes. */
#define API_UPLOAD_BODY_ROUTE                                                                                          \
    {                                                                                                                  \
        "PUT", "/api/v1/uploads/{id}/files", api_put_file                                                              \
    }

#endif
