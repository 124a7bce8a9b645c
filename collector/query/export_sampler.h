/*
 * Of the events of each track and interval, keeps the longest. Events come in the order of their starts; those of an
 * interval go out when the next begins, in that order too. Holds one record per track. Not thread-safe.
 */
#ifndef KYMO_COLLECTOR_QUERY_EXPORT_SAMPLER_H
#define KYMO_COLLECTOR_QUERY_EXPORT_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define EXPORT_TRACKS_MAX 65536

struct export_sampler;

/* out: one kept record and the number of events that it stands for. */
typedef int (*export_sample_out)(void *ctx, const void *record, size_t n, uint64_t events);

int export_sampler_new(int64_t start, int64_t end, uint64_t intervals, export_sample_out out, void *ctx,
                       struct export_sampler **ret) KYMO_MUST_CHECK;
struct export_sampler *export_sampler_free(struct export_sampler *s);
/*
 * Counts an event. *ret_keep: it is the longest so far, and export_sampler_keep must follow with its record. -EDOM: it
 * starts in an interval that is over. -E2BIG: too many tracks. Else as out.
 */
int export_sampler_event(struct export_sampler *s, const char *track, size_t track_len, int64_t start, int64_t end,
                         bool *ret_keep) KYMO_MUST_CHECK;
int export_sampler_keep(struct export_sampler *s, const void *record, size_t n) KYMO_MUST_CHECK;
int export_sampler_finish(struct export_sampler *s) KYMO_MUST_CHECK;

#endif
