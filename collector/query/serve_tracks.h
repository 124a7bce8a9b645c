/* The tracks of a directory: SQL that gives their events, and which there are. */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_TRACKS_H
#define KYMO_COLLECTOR_QUERY_SERVE_TRACKS_H

#include "collector/query/serve_dir.h"

/* Views k.src_KIND(id, start_ts, end_ts, track, pcore, bytes, wait, label, color), and k.levels. */
int serve_tracks_views(struct serve_dir *d, const struct sql *s, struct kymo_err *err) KYMO_MUST_CHECK;
/* Fills tracks; the directory's cores and extent are known. */
int serve_tracks_find(struct serve_dir *d, const struct sql *s, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
