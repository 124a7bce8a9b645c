/* The operations that can be asked for, one row each (SERVE.md). */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_OPS_H
#define KYMO_COLLECTOR_QUERY_SERVE_OPS_H

#include "collector/query/serve_request.h"

/* X(operation) */
#define SERVE_OPS(X)                                                                                                   \
    X(overview)                                                                                                        \
    X(timeline)                                                                                                        \
    X(series)                                                                                                          \
    X(bands)                                                                                                           \
    X(event)                                                                                                           \
    X(dependencies)                                                                                                    \
    X(why)                                                                                                             \
    X(search)                                                                                                          \
    X(summary)                                                                                                         \
    X(operators)                                                                                                       \
    X(export)                                                                                                          \
    X(source)                                                                                                          \
    X(source_lines)                                                                                                    \
    X(source_events)                                                                                                   \
    X(ranks)                                                                                                           \
    X(skew)                                                                                                            \
    X(lanes)                                                                                                           \
    X(regions)

/* Those that are not about one directory: they open what they need themselves. */
#define SERVE_OPS_ALONE(X)                                                                                             \
    X(sql)                                                                                                             \
    X(compare)                                                                                                         \
    X(fleet)                                                                                                           \
    X(fleet_profiles)

struct serve_op {
    const char *name;
    int (*run)(struct serve_request *q, struct kymo_err *err);
    bool alone;
};

#define X(name) int op_##name(struct serve_request *q, struct kymo_err *err);
SERVE_OPS(X)
SERVE_OPS_ALONE(X)
#undef X

const struct serve_op *serve_op_find(const char *name); /* NULL: there is none */

#endif
