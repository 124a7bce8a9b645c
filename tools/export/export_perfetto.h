/*
 * A profile as a Perfetto trace, made from its tables alone: a file that appears whole or not at all. Tracks are
 * grouped as the vendor's device trace viewer groups them and have its names; events of one track that overlap stand on
 * as many tracks of one name, which viewers show as one. Dependencies of the table Flow are arrows between instructions
 * and transfers.
 */
#ifndef KYMO_TOOLS_EXPORT_EXPORT_PERFETTO_H
#define KYMO_TOOLS_EXPORT_EXPORT_PERFETTO_H

#include <signal.h>

#include "collector/query/export_profile.h"

#define EXPORT_FLOWS_MAX 100000000

struct export_perfetto_options {
    const char *output;
    const char *const *tables;
    size_t table_count; /* 0: all that are drawn but SemaphoreUpdate */
    struct export_range range;
    uint64_t flows; /* arrows at most; beyond, the trace has none, and *ret_left_out says how many there are */
    const volatile sig_atomic_t *stop;
};

/* A trace shows rows of this table. */
bool export_perfetto_shows(const char *table);

int export_perfetto(const struct export_profile *p, const struct export_perfetto_options *o, uint64_t *ret_left_out,
                    struct kymo_err *err) KYMO_MUST_CHECK;

#endif
