/*
 * The table ClockSync: moments read from the device's and the host's clock together, on the profile's axis. The
 * runtime's (clock_syncs of the NTFF) and the manifest's, those of this device and core.
 *
 * error_bound_ns is the reader's own half width (error_ns) plus what rounding adds: 1 ns, since a time of the axis is a
 * difference of two floors, and 1 more where the device's clock had to be corrected (Trn1, Inf2). Without a half width
 * there is no bound.
 */
#ifndef KYMO_PIPELINE_RINGS_CLOCK_ROWS_H
#define KYMO_PIPELINE_RINGS_CLOCK_ROWS_H

#include "pipeline/input.h"
#include "pipeline/rings/timebase.h"

#define CLOCK_ROWS_MAX 65536 /* more are left out, with a warning; those at the two ends are worth most */

struct clock_row {
    int64_t ts, host_unix_ns, error_ns; /* error_ns < 0: not known */
    int pcore;
    bool from_manifest;
};

/* In order of ts; ret has room for CLOCK_ROWS_MAX. */
size_t clock_rows_collect(const struct input *in, const struct timebase *tb, struct clock_row *ret);
/* No file when there is no row. */
int clock_rows_write(const struct input *in, const struct timebase *tb, const char *dir, struct warnings *w,
                     struct kymo_err *err) KYMO_MUST_CHECK;

#endif
