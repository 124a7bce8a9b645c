/*
 * The edges of one row from kymo's own Flow, which lies in the order of time but not of any key. When it is first
 * asked, both columns of keys are read once, and kept is which row groups have keys of which stretch; then an edge is
 * looked for in the few groups that may have it.
 */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_OWN_EDGES_H
#define KYMO_COLLECTOR_QUERY_SERVE_OWN_EDGES_H

#include "collector/query/serve_own.h"

struct serve_own_edge {
    bool out;                      /* it leaves the row that was asked for */
    struct table_text table, kind; /* of the row at the other end; kind may be null */
    int64_t id, gap;               /* gap may be TABLE_NULL */
};

bool serve_own_has_edges(const struct serve_dir *d);
/* table: as Flow has it. Edges that leave the row come first. Waits while another thread reads the keys. */
int serve_own_edges(struct serve_dir *d, const char *table, int64_t id, const volatile bool *stop,
                    int (*edge)(void *ctx, const struct serve_own_edge *e, struct kymo_err *err), void *ctx,
                    struct kymo_err *err) KYMO_MUST_CHECK;
/* Part of serve_own: at its open and end. */
int serve_own_open_edges(struct serve_own *o, const struct query_files *files, const char *place,
                         struct kymo_err *err) KYMO_MUST_CHECK;
void serve_own_close_edges(struct serve_own *o);

#endif
