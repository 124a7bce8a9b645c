/* The joint tables of gather_ranks.h, once members, their clocks and collectives are in the database. */
#ifndef KYMO_COLLECTOR_GATHER_GATHER_SKEW_H
#define KYMO_COLLECTOR_GATHER_GATHER_SKEW_H

#include "collector/gather/gather_db.h"

int gather_skew_run(struct gather_db *db, struct kymo_err *err) KYMO_MUST_CHECK;
/* ret_rows: rows of CollectiveSkew. */
int gather_skew_write(struct gather_db *db, const char *name, uint64_t *ret_rows, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
