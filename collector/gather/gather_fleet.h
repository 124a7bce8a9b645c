/*
 * The small tables of one finished profile as rows of fleet tables: the same columns behind profile, job, host, rank,
 * capture_id and time_unix_ns. WaitCause, which is not small, becomes WaitCauseSummary, the sums by cause. FleetProfile
 * is one row per profile, of which row is a JSON object with the figures that a fleet is looked at by: profile, job,
 * host, rank, capture_id, time_unix_ns, kind, request, instance_type, mfu, hfu, time_s, step_ns, throttled, lost,
 * unknown.
 */
#ifndef KYMO_COLLECTOR_GATHER_GATHER_FLEET_H
#define KYMO_COLLECTOR_GATHER_GATHER_FLEET_H

#include "collector/gather/gather_db.h"

/* What is NULL is taken from the profile's Metadata. */
struct gather_fleet {
    const char *profile, *job, *host, *capture;
    const char *rank, *time_unix_ns; /* numbers */
};

int gather_fleet_run(struct gather_db *db, int dir, const struct gather_fleet *g, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
