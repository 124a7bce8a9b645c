/*
 * Routes of what users keep, /api/v1/annotations and so on (viewer_db.h, README.md), for the collector's API and for
 * its view of plain directories. Called on the loop's thread; the database is read and written on libuv's threads, so
 * that no disk holds up the loop.
 */
#ifndef KYMO_COLLECTOR_API_STORE_H
#define KYMO_COLLECTOR_API_STORE_H

#include <uv.h>

#include "collector/http.h"
#include "collector/viewer_db.h"

struct viewer_store;

int viewer_store_new(uv_loop_t *loop, const char *path, struct viewer_store **ret,
                     struct kymo_err *err) KYMO_MUST_CHECK;
/* What is under way ends by itself; the loop must run once more. NULL is fine; returns NULL. */
struct viewer_store *viewer_store_free(struct viewer_store *s);

void api_get_user(void *ctx, struct http_request *q);

/* Handlers, whose context begins with struct api_query. */
#define X(name, max)                                                                                                   \
    void api_list_##name(void *ctx, struct http_request *q);                                                           \
    void api_get_##name(void *ctx, struct http_request *q);                                                            \
    void api_put_##name(void *ctx, struct http_request *q);                                                            \
    void api_delete_##name(void *ctx, struct http_request *q);
VIEWER_KINDS(X)
#undef X

/* Rows for a table of routes: API_STORE_ROUTES. */
#define API_STORE_ROUTE(name, max)                                                                                     \
    {"GET", "/api/v1/" #name, api_list_##name}, {"GET", "/api/v1/" #name "/{key}", api_get_##name},                    \
        {"PUT", "/api/v1/" #name "/{key}", api_put_##name}, {"DELETE", "/api/v1/" #name "/{key}", api_delete_##name},
#define API_STORE_ROUTES {"GET", "/api/v1/user", api_get_user}, VIEWER_KINDS(API_STORE_ROUTE)

#endif
