/* Bodies of API requests: one JSON object. What is wrong gets its answer here: 400, or 415. */
#ifndef KYMO_COLLECTOR_API_BODY_H
#define KYMO_COLLECTOR_API_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/http.h"

/* The object, an empty one if there is no body; NULL: the request has been answered. */
json_t *api_body_parse(struct http_request *q);
/* As that, for an object with lists in it: so many brackets may open. */
json_t *api_body_parse_list(struct http_request *q, size_t brackets);
/* Each gives false when the request has been answered. Outputs keep their value where the member is absent or null. */
bool api_body_known(struct http_request *q, const json_t *body, const char *const *known); /* ends with NULL */
/* 1 to 255 bytes without control characters; lives as long as the body. */
bool api_body_text(struct http_request *q, const json_t *body, const char *name, const char **ret);
bool api_body_choice(struct http_request *q, const json_t *body, const char *name, const char *const *names, int n,
                     int *ret);
bool api_body_number(struct http_request *q, const json_t *body, const char *name, uint64_t min, uint64_t max,
                     uint64_t *ret);
bool api_body_bool(struct http_request *q, const json_t *body, const char *name, bool *ret);
/* An array of at most max texts, as api_body_text has them; they live as long as the body. */
bool api_body_texts(struct http_request *q, const json_t *body, const char *name, size_t max, const char **ret,
                    size_t *ret_n);
/* An array of at most max numbers of 32 bits, none twice. */
bool api_body_numbers(struct http_request *q, const json_t *body, const char *name, size_t max, uint32_t *ret,
                      size_t *ret_n);

#endif
