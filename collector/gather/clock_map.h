/*
 * From the time axis of one profile to that of its host's clock (ns since the Unix epoch), by moments that were read
 * from both:
 *
 *   host = offset_ns + ts + drift * ts
 *
 * With two moments far enough apart that they tell the drift better than drift_max does, the line goes through the
 * first and the last (CLOCK_MAP_LINE); its error between them is the greatest of what each moment allows (own error
 * plus distance from the line), and beyond them grows by what the two errors allow the slope. Else the slopes are taken
 * as equal, and the offset lies in the middle of what all moments allow together when each loosens by drift_max per ns
 * of distance to the farther end of the profile (CLOCK_MAP_OFFSET). Bounds hold for the whole profile. Pure.
 */
#ifndef KYMO_COLLECTOR_GATHER_CLOCK_MAP_H
#define KYMO_COLLECTOR_GATHER_CLOCK_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLOCK_MAP_DRIFT_PPM 100 /* drift_max by default: what crystals without control stay within (ours) */

struct clock_map_sync {
    int64_t ts, host_ns, error_ns; /* error_ns < 0: not known */
};

enum clock_map_method { CLOCK_MAP_NONE, CLOCK_MAP_OFFSET, CLOCK_MAP_LINE };

struct clock_map {
    enum clock_map_method method;
    int64_t offset_ns, error_ns; /* error_ns < 0: no bound can be given */
    double drift;                /* per ns; 0 unless by a line */
    size_t used;                 /* moments that it rests on */
    bool contradict;             /* no clock of drift_max fits all moments: a clock was set, or one is wrong */
};

/* syncs in order of ts; span_ns: where the profile ends on its axis, which begins at 0. */
void clock_map_fit(const struct clock_map_sync *syncs, size_t n, int64_t span_ns, double drift_max,
                   struct clock_map *ret);
/* "none", "offset" or "line". */
const char *clock_map_method_name(enum clock_map_method m);

#endif
