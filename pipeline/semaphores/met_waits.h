/*
 * When the waits of one engine, or one CC-core, were met, by the records of its EVENT ring. A start record has 16 bits
 * for the cycles of a wait; where they are at their end, the met wait's record says how long it was. Kept only for
 * engines of which such a start occurs (scan_ring.saturated), in an unlinked file; memory is fixed. Added in order of
 * time, sealed, then asked for in order of start. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_SEMAPHORES_MET_WAITS_H
#define KYMO_PIPELINE_SEMAPHORES_MET_WAITS_H

#include <stdint.h>

#include "arch/layout.h"
#include "base/err.h"
#include "pipeline/warnings.h"

#define MET_WAITS_ANY (-1)       /* target: it is not known what the instruction waits for */
#define MET_WAITS_SLACK_PS 2000u /* between a counted wait and its record (G) */

struct met_waits;

int met_waits_open(const char *dir, struct met_waits **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct met_waits *met_waits_free(struct met_waits *m);
/* target: a semaphore's number, 256 and an event's. */
int met_waits_add(struct met_waits *m, uint64_t ps, int target, struct kymo_err *err) KYMO_MUST_CHECK;
int met_waits_seal(struct met_waits *m, struct kymo_err *err) KYMO_MUST_CHECK;

/* What an instruction's last wait is for: after it, the instruction runs. MET_WAITS_ANY: none that is recorded. */
int met_waits_target(const uint8_t rec[KYMO_INSTR_SIZE]);
/*
 * 1 and when the wait was met of an instruction issued at start, whose counter reached counted ns, and which ended at
 * end: the first record of its target from there to its end that no older instruction has. 0: no record tells, or m is
 * NULL.
 */
int met_waits_find(struct met_waits *m, int target, uint64_t start_ps, double counted_ns, uint64_t end_ps,
                   uint64_t *ret_ps, struct kymo_err *err) KYMO_MUST_CHECK;
/* what: instructions; beyond: how many waited for longer than their counter holds; untold: no record tells how long. */
void met_waits_warn(struct warnings *w, const char *what, uint64_t beyond, uint64_t untold);

#endif
