/* What the files of the questions about tables share (api_query.c, api_ranks.c). */
#ifndef KYMO_COLLECTOR_API_QUERY_IMPL_H
#define KYMO_COLLECTOR_API_QUERY_IMPL_H

#include "collector/api_query.h"

/* Whether a request has no parameters but those in a comma list. false: answered. */
bool api_query_params_known(struct http_request *q, const char *names);
/* Takes those that a request has, and what is in its path, into params. Negative: no memory. */
int api_query_take_params(const struct api_query *a, const struct http_request *q, const char *names, json_t *params);
/* A list or an object as the text of a parameter. -ENOBUFS: too long for a request; other negatives: no memory. */
int api_query_put(json_t *params, const char *key, const json_t *value);
/* Asks, and answers when the answer comes. params is taken; r < 0: what went wrong already, in err. */
void api_query_start(const struct api_query *a, struct http_request *q, enum query_class class, const char *dir,
                     const char *op, json_t *params, int r, struct kymo_err *err);

#endif
