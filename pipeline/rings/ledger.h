/*
 * The table LossLedger. For a ring,
 *     emitted = in rows + partial + known without a row + unknown + lost.
 * It has a row for each kind of record that it stored, and one without a kind for what was lost, since nobody saw what
 * those records were; each row closes, and so does their sum, whose emitted side is the ring's counter. What is in rows
 * and partial was counted by the passes that wrote them, what has no row follows from the kind: a stored record in
 * neither sum is a fault of ours and appears as lost with cause processing. Where the file has no counters, emitted of
 * the row without a kind is null and lost_unknown is true.
 */
#ifndef KYMO_PIPELINE_RINGS_LEDGER_H
#define KYMO_PIPELINE_RINGS_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/input.h"
#include "pipeline/rings/scan.h"
#include "pipeline/rings/timebase.h"
#include "pipeline/warnings.h"

struct ledger_ring {
    uint64_t rows[RECORD_KIND_MAX]; /* records that became part of a row */
    uint64_t partial[RECORD_KIND_MAX];
    uint64_t other[RECORD_KIND_MAX]; /* of kinds that have rows in this ring: records that have none */
};

#define LEDGER_LOSSES_MAX 4096 /* that are kept beside the table */

/* A row of the table with a loss. */
struct ledger_loss {
    char stage[32], ring[256], cause[64];
    bool has_records, has_emitted;
    uint64_t records; /* lost */
    uint64_t emitted; /* by the whole ring */
};

struct ledger {
    struct ledger_ring *rings; /* as scan.rings */
    size_t count;
    struct ledger_loss *losses; /* filled in by ledger_write */
    size_t loss_count, loss_cap;
};

int ledger_init(struct ledger *l, const struct scan *scan, struct kymo_err *err) KYMO_MUST_CHECK;
void ledger_done(struct ledger *l);
int ledger_write(struct ledger *l, const struct input *in, const struct scan *scan, const struct timebase *tb,
                 const char *dir, struct warnings *w, struct kymo_err *err) KYMO_MUST_CHECK;
/*
 * Span of a ring's loss: from the first mark, or the ring's last record when the loss is at its end, to the last mark
 * or the profile's end.
 */
void ledger_span(const struct scan *scan, const struct scan_ring *r, const struct timebase *tb, int64_t *ret_from,
                 int64_t *ret_to);
/* Records of one ring that were lost: the number when it is known. */
bool ledger_lost(const struct scan_ring *r, uint64_t *ret_lost);

#endif
