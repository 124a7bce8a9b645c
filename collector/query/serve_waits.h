/*
 * How long instructions waited whose counter came to its end. Instruction.evt_wait_time_ns is a lower bound there; by
 * the records of met waits WaitCause has the whole of it (pipeline/README.md, "Waits"). Whatever tells of waits, or of
 * work as what is left without them, asks serve_waits_of or has SERVE_WAITED in its statement; nothing else knows of
 * such waits. Where no record tells, or there is no WaitCause, what was counted stays. Read when a directory is opened,
 * then shared by all threads.
 */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_WAITS_H
#define KYMO_COLLECTOR_QUERY_SERVE_WAITS_H

#include <stdint.h>

#include "collector/query/serve_sql.h"

/* Of 16 bytes each. Of a profile with more, the longest; the others stay as they were counted. */
#define SERVE_WAITS_MAX (1u << 20)
/* SQL over rows of Instruction: ns, 0 where there is no wait. */
#define SERVE_WAITED "k.waited(id, evt_wait_time_ns)"

struct serve_waits;

/* The views of schema k are there. *ret NULL: there are no such waits, or WaitCause cannot be read. */
int serve_waits_read(const struct sql *s, struct serve_waits **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct serve_waits *serve_waits_free(struct serve_waits *w); /* NULL is fine; returns NULL */
/* counted: what evt_wait_time_ns has, which comes back where no more is known. w may be NULL. */
int64_t serve_waits_of(const struct serve_waits *w, int64_t id, int64_t counted);
/*
 * Makes the macro k.waited, which is what was counted where w is NULL, so that statements cost what they did, and a
 * function's call otherwise: a join would lose the rows' order. w outlives the database's connections.
 */
int serve_waits_register(const struct serve_waits *w, const struct sql *s, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
