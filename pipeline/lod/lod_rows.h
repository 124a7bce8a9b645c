/*
 * The rows of one level of detail until all are known, in a spill file. A row of 72 bytes takes 24 there: most of it
 * follows from the row before or is small; one that is not small goes to a file of its own. Rows come back as they
 * were, in the order in which they came. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_LOD_ROWS_H
#define KYMO_PIPELINE_LOD_ROWS_H

#include <stdint.h>

#include "base/err.h"
#include "pipeline/lod/lod.h"

struct lod_rows;

/* Spill files lie in dir. width: of the level's buckets. */
int lod_rows_open(const char *dir, int64_t width, struct lod_rows **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct lod_rows *lod_rows_free(struct lod_rows *l);
uint64_t lod_rows_count(const struct lod_rows *l);
/* bucket: its number, row->start is where it begins. */
int lod_rows_add(struct lod_rows *l, const struct lod_row *row, int64_t bucket, struct kymo_err *err) KYMO_MUST_CHECK;
/* Hands out all rows as those of this level. Nothing may be added afterwards. */
int lod_rows_hand_out(struct lod_rows *l, unsigned level, lod_sink sink, void *ctx,
                      struct kymo_err *err) KYMO_MUST_CHECK;

#endif
