/* The operations that can be asked for, one row each (SERVE.md). */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_OPS_H
#define KYMO_COLLECTOR_QUERY_SERVE_OPS_H

#include "collector/query/serve_request.h"

/* X(operation, whether it gives way to others: nobody moves on what it tells) */
#define SERVE_OPS(X)                                                                                                   \
    X(overview, false)                                                                                                 \
    X(timeline, false)                                                                                                 \
    X(series, false)                                                                                                   \
    X(bands, false)                                                                                                    \
    X(event, false)                                                                                                    \
    X(dependencies, false)                                                                                             \
    X(why, false)                                                                                                      \
    X(search, false)                                                                                                   \
    X(summary, true)                                                                                                   \
    X(operators, true)                                                                                                 \
    X(export, false)                                                                                                   \
    X(source, false)                                                                                                   \
    X(source_lines, false)                                                                                             \
    X(source_events, false)                                                                                            \
    X(ranks, false)                                                                                                    \
    X(skew, false)                                                                                                     \
    X(lanes, false)                                                                                                    \
    X(regions, false)

/* Those that are not about one directory: they open what they need themselves. */
#define SERVE_OPS_ALONE(X)                                                                                             \
    X(sql, false)                                                                                                      \
    X(compare, false)                                                                                                  \
    X(fleet, false)                                                                                                    \
    X(fleet_profiles, false)

struct serve_op {
    const char *name;
    int (*run)(struct serve_request *q, struct kymo_err *err);
    bool alone, patient;
};

#define X(name, patient) int op_##name(struct serve_request *q, struct kymo_err *err);
SERVE_OPS(X)
SERVE_OPS_ALONE(X)
#undef X

const struct serve_op *serve_op_find(const char *name); /* NULL: there is none */

#endif
