/*
 * Sums of instructions by engine, opcode and operator, added up again by fewer of these, which DuckDB's grouping sets
 * take several times as long for as for all that is before them. Pure, but for memory. Not thread-safe.
 */
#ifndef KYMO_COLLECTOR_QUERY_ROLLUP_H
#define KYMO_COLLECTOR_QUERY_ROLLUP_H

#include <jansson.h>

#include "collector/query/serve_sql.h"

#define ROLLUP_GROUPS_MAX (1u << 20)

/* Names of the sums, in the order in which they are added; whole numbers, of FLOPs reals that are rounded in the end.
 */
#define ROLLUP_BYTES(X)                                                                                                \
    X("hbm_read_bytes")                                                                                                \
    X("hbm_write_bytes")                                                                                               \
    X("sbuf_read_bytes")                                                                                               \
    X("sbuf_write_bytes")                                                                                              \
    X("psum_read_bytes")                                                                                               \
    X("psum_write_bytes")                                                                                              \
    X("spill_save_bytes")                                                                                              \
    X("spill_reload_bytes")
#define ROLLUP_SUMS(X)                                                                                                 \
    X("instructions")                                                                                                  \
    X("time_ns")                                                                                                       \
    X("wait_ns")                                                                                                       \
    ROLLUP_BYTES(X)
#define ROLLUP_REALS(X)                                                                                                \
    X("hardware_flops")                                                                                                \
    X("transpose_flops")

enum rollup_by { ROLLUP_ENGINE, ROLLUP_OPCODE, ROLLUP_OPERATOR, ROLLUP_ALL };

struct rollup;

struct rollup *rollup_new(void);              /* NULL without memory */
struct rollup *rollup_free(struct rollup *r); /* NULL is fine; returns NULL */
void rollup_freep(struct rollup **r);

/* Cells: engine, pcore, opcode, operator, then the sums and the reals. A sum is null where all of its summands are. */
int rollup_add(struct rollup *r, const struct sql_cell *c, struct kymo_err *err) KYMO_MUST_CHECK;
/*
 * Rows with the names of what they are by, the sums and the reals. By engine and pcore: all, in this order, a null
 * pcore last. By engine and opcode, or by operator: those with the most time, at most max. Of all: one row. NULL
 * without memory.
 */
json_t *rollup_rows(struct rollup *r, enum rollup_by by, size_t max);

#endif
