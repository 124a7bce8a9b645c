/* The table of routes: which one a request means, and what there would be instead. Pure. */
#ifndef KYMO_COLLECTOR_HTTP_ROUTE_H
#define KYMO_COLLECTOR_HTTP_ROUTE_H

#include "collector/http.h"
#include "collector/http_target.h"

#define HTTP_ALLOW_MAX 128

/*
 * The first route that fits. -ENOENT: none has this path. -EOPNOTSUPP: some have, by other methods, which allow names
 * as an Allow header does.
 */
int http_route_find(const struct http_route *routes, size_t n, const char *method, const struct http_target *target,
                    const struct http_route **ret, char allow[static HTTP_ALLOW_MAX],
                    struct kymo_err *err) KYMO_MUST_CHECK;
/* What stands in the target where the pattern has {name}; NULL: it has none. */
const char *http_route_value(const struct http_route *route, const struct http_target *target, const char *name);

#endif
