/*
 * kymo-query --serve: answers requests that come in frames over one socket (SERVE.md), each on a thread of its own,
 * until the other side closes it.
 */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_H
#define KYMO_COLLECTOR_QUERY_SERVE_H

#include <jansson.h>

#include "collector/query/query_db.h"

#define SERVE_FD 3
#define SERVE_RUNNING_MAX 8

/* limits: of each directory; timeout_ms is each request's. Returns when the socket is closed, or with an error. */
int serve_run(int fd, const struct query_limits *limits, struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * The payload of a REQUEST: an object of dir (absolute), op and params, whose values are texts. Pure, but for memory.
 * ret's texts live in *ret_root, which is the caller's.
 */
struct serve_question {
    const char *dir, *op;
    json_t *params;
};
int serve_question_parse(const void *data, size_t n, json_t **ret_root, struct serve_question *ret,
                         struct kymo_err *err) KYMO_MUST_CHECK;

#endif
