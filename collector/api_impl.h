/* What the files of the API share. */
#ifndef KYMO_COLLECTOR_API_IMPL_H
#define KYMO_COLLECTOR_API_IMPL_H

#include "collector/api.h"
#include "collector/api_query.h"
#include "collector/catalog_search.h"

#define API_LIMIT_DEFAULT 100
#define API_LIMIT_MAX 1000
#define API_SCAN_MAX 5000 /* rows of the catalogue looked at for one answer, ... */
#define API_BUDGET_MS 30  /* ... and time on the loop */

struct api {
    struct api_query query; /* first */
    struct catalog *catalog;
    char *data_path, *fleet;
    struct api_source source;
    const struct http *http;
    const struct page_files *page;
};

/* Handlers of the routes, named by method and path. */
void api_get_profiles(void *ctx, struct http_request *q);
void api_get_profile(void *ctx, struct http_request *q);
void api_post_find(void *ctx, struct http_request *q);
void api_delete_profile(void *ctx, struct http_request *q);
void api_put_pin(void *ctx, struct http_request *q);
void api_post_reprocess_profile(void *ctx, struct http_request *q);
void api_post_reprocess(void *ctx, struct http_request *q);
void api_get_captures(void *ctx, struct http_request *q);
void api_get_capture(void *ctx, struct http_request *q);
void api_post_captures(void *ctx, struct http_request *q);
void api_get_hosts(void *ctx, struct http_request *q);
void api_get_status(void *ctx, struct http_request *q);
void api_get_openapi(void *ctx, struct http_request *q);
void api_get_metrics(void *ctx, struct http_request *q);
void api_get_page(void *ctx, struct http_request *q);
void api_get_asset(void *ctx, struct http_request *q);

/* openapi.json as it was at the build (cmake/embed.cmake). */
extern const unsigned char api_openapi[];
extern const size_t api_openapi_n;

/* The labels and profiles of a capture. NULL: see err. */
json_t *api_labels(struct api *a, const char *capture, struct kymo_err *err);
json_t *api_profiles(struct api *a, const char *capture, struct kymo_err *err);
/* Reads limit and cursor of a page. false: answered. place: room for the cursor. */
bool api_read_page(struct http_request *q, struct catalog_query *query, struct catalog_place *place);
/* Answers with a page {key: rows, "next": ...}; r as catalog_search gives it. Takes rows. */
void api_answer_page(struct http_request *q, const struct catalog_query *query, const char *key, json_t *rows, int r,
                     const struct catalog_place *next, struct kymo_err *err);

#endif
