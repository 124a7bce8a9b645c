/* What questions about a profile of many ranks have in common (op_ranks.c, op_skew.c, op_lanes.c). */
#ifndef KYMO_COLLECTOR_QUERY_RANKS_SQL_H
#define KYMO_COLLECTOR_QUERY_RANKS_SQL_H

#include "collector/query/serve_request.h"

/* The common axis's own zero, as a number: where the first member begins. */
#define RANKS_ZERO "(SELECT coalesce(min(first_unix_ns), 0) FROM k.\"Member\")"

/*
 * Collectives of which the last arriver can be told: CollectiveSkew with counted. Where no spread has a bound, all that
 * have a spread count.
 */
#define RANKS_SKEW                                                                                                     \
    "(SELECT s.*, CASE WHEN b.bounded > 0 THEN coalesce(s.significant, false) ELSE coalesce(s.spread_ns, 0) > 0 END"   \
    " AS counted FROM k.\"CollectiveSkew\" s, (SELECT count(significant) AS bounded FROM k.\"CollectiveSkew\") b)"

/* -ENOENT: it is no profile of many ranks. */
int ranks_check(const struct serve_request *q, struct kymo_err *err) KYMO_MUST_CHECK;
/* The axis's zero. */
int ranks_zero(const struct serve_request *q, int64_t *ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* As text: its digits are too many for a double. */
json_t *ranks_zero_json(int64_t zero);

#endif
