/*
 * Rows of all profiles, one file per table and profile:
 * <data-path>/fleet/<Table>/date=YYYY-MM-DD/cluster=<name>/part-<profile>.parquet, as hive-partitioned readers have it.
 */
#ifndef KYMO_COLLECTOR_FLEET_STORE_H
#define KYMO_COLLECTOR_FLEET_STORE_H

#include <stdint.h>

#include "base/err.h"

#define FLEET_STORE_CLUSTER_MAX 64

/* [A-Za-z0-9._-], no dot in front: part of a path. -EINVAL with the reason. */
int fleet_store_check_cluster(const char *cluster, struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * Takes the tables out of a directory and puts each in its place, durable, replacing those that are there of this
 * profile on this day; what the profile has no longer is removed. Files appear whole; a crash leaves some of them new,
 * and the same call again makes it good.
 */
int fleet_store_publish(const char *data_path, const char *work, const char *profile, int64_t captured_ns,
                        const char *cluster, struct kymo_err *err) KYMO_MUST_CHECK;
/* Removes all that is there of a profile on this day. */
int fleet_store_remove(const char *data_path, const char *profile, int64_t captured_ns,
                       struct kymo_err *err) KYMO_MUST_CHECK;

#endif
