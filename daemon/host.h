/* What kymod knows of the machine that it runs on; constant while it runs. */
#ifndef KYMO_DAEMON_HOST_H
#define KYMO_DAEMON_HOST_H

#include "base/err.h"
#include "daemon/config.h"
#include "driver-iface/sysfs/sysfs.h"

struct host {
    char name[256];
    char boot_id[40];
    char mark[9]; /* of this host and boot, in capture ids: they are unique in a fleet */
    char instance[64], driver[32];
    struct sysfs sysfs;
    bool has_driver;
    struct sysfs_host devices;
};

/* A host without devices or driver is one. */
int host_read(const struct config *c, struct host *ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
