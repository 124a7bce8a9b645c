/*
 * kymo-query --serve: answers requests that come in frames over one socket (SERVE.md), each on a thread of its own,
 * until the other side closes it.
 */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_H
#define KYMO_COLLECTOR_QUERY_SERVE_H

#include "collector/query/query_db.h"

#define SERVE_FD 3
#define SERVE_RUNNING_MAX 8

/* limits: of each directory; timeout_ms is each request's. Returns when the socket is closed, or with an error. */
int serve_run(int fd, const struct query_limits *limits, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
