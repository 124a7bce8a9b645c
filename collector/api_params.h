/* Parameters of API requests. A request with one that is unknown or wrong gets its answer here: 400. */
#ifndef KYMO_COLLECTOR_API_PARAMS_H
#define KYMO_COLLECTOR_API_PARAMS_H

#include <stdbool.h>

#include "collector/http.h"

/* Each gives false when the request has been answered. Outputs keep their value where the parameter is absent. */

/* known ends with NULL. */
bool api_params_known(struct http_request *q, const char *const *known);
bool api_params_number(struct http_request *q, const char *name, int64_t min, int64_t max, int64_t *ret);
/* One of n names, as its index. */
bool api_params_choice(struct http_request *q, const char *name, const char *const *names, int n, int *ret);

/* Fresh memory: what people search for, without the spaces around it. NULL: of NULL, or no memory. */
char *api_params_trimmed(const char *text);

#endif
