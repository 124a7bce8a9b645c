/*
 * The tracks of a Perfetto trace: groups, in them tracks by name, and for events that overlap as many lanes of that
 * name as it takes. Memory is that of the names and the lanes. Not thread-safe.
 */
#ifndef KYMO_TOOLS_EXPORT_PERFETTO_TRACKS_H
#define KYMO_TOOLS_EXPORT_PERFETTO_TRACKS_H

#include "formats/perfetto/perfetto_writer.h"

#define PERFETTO_TRACKS_MAX 65536
#define PERFETTO_LANES_MAX 65536 /* of one track */

struct perfetto_tracks;

int perfetto_tracks_new(struct perfetto_writer *w, struct perfetto_tracks **ret) KYMO_MUST_CHECK; /* w outlives it */
struct perfetto_tracks *perfetto_tracks_free(struct perfetto_tracks *t);

/* The first lane that is free at start; it is taken until end. Events of a track come by their starts. -E2BIG: too
 * many. */
int perfetto_tracks_lane(struct perfetto_tracks *t, const char *group, const char *name, size_t len, int64_t start,
                         int64_t end, uint64_t *ret) KYMO_MUST_CHECK;
int perfetto_tracks_counter(struct perfetto_tracks *t, const char *group, const char *name, size_t len,
                            const char *unit, uint64_t *ret) KYMO_MUST_CHECK;

#endif
