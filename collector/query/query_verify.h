/*
 * The loss equation of one profile: per device ring, emitted = rows + partial + other + unknown + lost, and the records
 * that LossLedger counts as rows are really there as rows of their table.
 */
#ifndef KYMO_COLLECTOR_QUERY_QUERY_VERIFY_H
#define KYMO_COLLECTOR_QUERY_QUERY_VERIFY_H

#include <stdio.h>

#include "collector/query/query_db.h"

enum query_verdict {
    QUERY_CLOSED,       /* every record is accounted for */
    QUERY_UNVERIFIABLE, /* the file has no counter for a ring */
    QUERY_OPEN,         /* records were lost and nobody knows how many */
    QUERY_VIOLATED,     /* the sums differ, or rows are missing or too many */
};

const char *query_verdict_name(enum query_verdict v);

/* Prints one line per ring to out and gives the worst verdict. -ENODATA: the profile has no LossLedger. */
int query_verify(struct query_db *db, FILE *out, enum query_verdict *ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
