/*
 * What the HTTP API asks of the store's thread about profiles: jobs over store_thread.h, whose outcome the API hears on
 * the loop (api.h). On the loop's thread.
 */
#ifndef KYMO_COLLECTOR_WEB_STORE_H
#define KYMO_COLLECTOR_WEB_STORE_H

#include "collector/api.h"
#include "collector/store_thread.h"

void web_store_reprocess(struct store_thread *t, const struct api_reprocess *what, struct http_request *request);
void web_store_remove(struct store_thread *t, const char *profile, const char *user, struct http_request *request);
void web_store_pin(struct store_thread *t, const char *profile, bool pinned, struct http_request *request);

#endif
