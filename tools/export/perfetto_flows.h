/* The arrows of a trace: which leave and which enter the rows of a table. Read whole, up to a limit. Not thread-safe.
 */
#ifndef KYMO_TOOLS_EXPORT_PERFETTO_FLOWS_H
#define KYMO_TOOLS_EXPORT_PERFETTO_FLOWS_H

#include "collector/query/export_profile.h"

struct perfetto_flows;

/* Which events are drawn. */
struct perfetto_flows_scope {
    const struct export_range *range;
    bool instructions, transfers, collectives;
};

/* Edges whose both ends are drawn. *ret_left_out: their number when they are more than max; then there are none. */
int perfetto_flows_read(const struct export_profile *p, const struct perfetto_flows_scope *scope, uint64_t max,
                        struct perfetto_flows **ret, uint64_t *ret_left_out, struct kymo_err *err) KYMO_MUST_CHECK;
struct perfetto_flows *perfetto_flows_free(struct perfetto_flows *f);

/* Numbers of the arrows that leave (or enter) the row of this id in the table that Flow calls so; valid until the next
 * call for the same direction. */
const uint64_t *perfetto_flows_of(struct perfetto_flows *f, const char *table, int64_t id, bool enter, size_t *ret_n);

#endif
