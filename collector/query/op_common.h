/* What several operations ask for. */
#ifndef KYMO_COLLECTOR_QUERY_OP_COMMON_H
#define KYMO_COLLECTOR_QUERY_OP_COMMON_H

#include "base/buf.h"
#include "collector/query/serve_request.h"

#define OP_WIDTH_MAX 16384
#define OP_TIME_MAX (INT64_MAX / 4)

struct op_window {
    int64_t from, to, width;
};

/* from < to, and width where it is wanted. */
int op_window_read(const struct serve_request *q, bool width, struct op_window *ret,
                   struct kymo_err *err) KYMO_MUST_CHECK;

/* A table of events with a key, as /events/{table}/{id} names it; NULL: there is none. kind: whose track shows it. */
struct op_table {
    const char *name, *flow; /* flow: as Flow.in_table has it; NULL: no edges */
    enum serve_kind kind;
};
int op_event_read(const struct serve_request *q, const struct op_table **ret_table, int64_t *ret_id,
                  struct kymo_err *err) KYMO_MUST_CHECK;
/* The track that shows an event of this kind; NULL: none does. */
int op_track_find(const struct serve_request *q, enum serve_kind kind, int64_t id, const struct serve_track **ret,
                  struct kymo_err *err) KYMO_MUST_CHECK;

/* The first of an array of rows, which is taken; null when it is empty. */
json_t *op_first(json_t *rows);

#endif
