/* The tracks of a directory: SQL that gives their events, and which there are. */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_TRACKS_H
#define KYMO_COLLECTOR_QUERY_SERVE_TRACKS_H

#include "collector/query/serve_dir.h"

/* The engine's name as we write it, whatever case it is in: SQL over Instruction. */
#define SERVE_ENGINE                                                                                                   \
    "CASE lower(engine) WHEN 'tensor' THEN 'Tensor' WHEN 'vector' THEN 'Vector' WHEN 'scalar' THEN 'Scalar'"           \
    " WHEN 'gpsimd' THEN 'GpSimd' WHEN 'sync' THEN 'Sync' ELSE coalesce(engine, '') END"
/* What an instruction is coloured by: SQL over Instruction. Empty: nothing. */
#define SERVE_OPERATOR "coalesce(operator, nullif(layer, ''), nullif(hlo_name, ''), '')"

/*
 * Views k.src_KIND(id, start_ts, end_ts, track, pcore, bytes, wait, label, color), of kinds with a table also
 * k.row_KIND(track, all columns of the table), and k.levels. Of what begins before TO and ends at FROM or later:
 * k.in_src_KIND(FROM, TO), k.in_row_KIND(FROM, TO), k.in_ActiveTime(FROM, TO) and k.in_WaitCause(FROM, TO), which read
 * kymo's own files without DuckDB, and of these only some columns (serve_own_scan.h).
 */
int serve_tracks_views(struct serve_dir *d, const struct sql *s, struct kymo_err *err) KYMO_MUST_CHECK;
/* Appends SQL for the label of the track of a row of the kind's table. */
int serve_tracks_label(const struct serve_dir *d, enum serve_kind kind, struct kymo_buf *b);
/* Fills tracks; the directory's cores and extent are known. */
int serve_tracks_find(struct serve_dir *d, const struct sql *s, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
