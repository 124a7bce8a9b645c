/*
 * CSV files of a profile's timeline tables, one per table, in a directory that appears whole or not at all: NAME.csv,
 * and export.json, which says what they hold.
 *
 * A row begins with timeline_track and goes on with the columns of the table, values as they are stored. Complete, a
 * file has every row that the range touches, in the order of the table. Sampled, the range is cut into as many equal
 * intervals as the timeline has pixels, and of the events of a track that begin in an interval (or before the range, in
 * the first) the longest is kept, of equals the first; the rows ascend by start, and a last column events_in_sample
 * says how many events a row stands for, so that its sum is the number of events in the range.
 */
#ifndef KYMO_TOOLS_EXPORT_EXPORT_CSV_H
#define KYMO_TOOLS_EXPORT_EXPORT_CSV_H

#include <signal.h>

#include "collector/query/export_profile.h"

#define EXPORT_SAMPLES_MAX 1000000

struct export_csv_options {
    const char *output; /* directory */
    const char *const *tables;
    size_t table_count; /* 0: those of the viewer's dialog that the profile has */
    struct export_range range;
    uint64_t samples; /* intervals; 0: complete */
    const volatile sig_atomic_t *stop;
};

int export_csv(const struct export_profile *p, const struct export_csv_options *o,
               struct kymo_err *err) KYMO_MUST_CHECK;

#endif
