/*
 * SbufAllocation: one row for each stretch of bytes of a followed partition while it is in use. Rows are written in
 * order of start_ts at the end, since a stretch is known only when it is free again. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_SERIES_SBUF_ROWS_H
#define KYMO_PIPELINE_SERIES_SBUF_ROWS_H

#include "pipeline/job.h"
#include "pipeline/series/buffer_map.h"

struct sbuf_rows;

int sbuf_rows_open(const struct job *j, struct sbuf_rows **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* map: stays until finish. owner: the static row that wrote the cell; BUFFER_USE_NOBODY: none in the profile. */
int sbuf_rows_add(struct sbuf_rows *t, const struct buffer_map *map, unsigned pcore, uint32_t cell, int64_t since,
                  int64_t until, uint32_t owner, struct kymo_err *err) KYMO_MUST_CHECK;
/* Frees t whatever the result. */
int sbuf_rows_finish(struct sbuf_rows *t, struct kymo_err *err) KYMO_MUST_CHECK;
struct sbuf_rows *sbuf_rows_discard(struct sbuf_rows *t);

#endif
