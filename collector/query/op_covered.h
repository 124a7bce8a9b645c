/*
 * Time that events of some tracks cover, from kymo's own files in one pass (serve_own.h): a statement would have to put
 * them in order, since DuckDB takes a list of six tracks and more for a join.
 */
#ifndef KYMO_COLLECTOR_QUERY_OP_COVERED_H
#define KYMO_COLLECTOR_QUERY_OP_COVERED_H

#include "collector/query/op_parts.h"

/* What the time is told for. */
enum op_covered_key { OP_COVERED_TRACK, OP_COVERED_ENGINE, OP_COVERED_ALL };

struct op_covered {
    enum serve_kind kind;                    /* serve_own_has_events */
    const struct serve_track *const *tracks; /* those of other kinds are passed over; NULL: all of the kind */
    size_t n;
    enum op_covered_key key;
};

/* All pieces of a window into ret. Keys: the track's label; the engine, a space and the core; the empty text. */
int op_covered_read(const struct serve_request *q, const struct op_covered *c, const struct op_parts *p,
                    struct op_active *ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
