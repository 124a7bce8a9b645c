/*
 * Device memory of the simulated devices, by physical core and kind, and the tree that shows it as the driver's sysfs
 * would. Beyond a core's share of the device's memory there is none. Thread-safe.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_MEMORY_H
#define KYMO_DRIVER_IFACE_SIM_SIM_MEMORY_H

#include <stdint.h>

#include "arch/arch.h"
#include "base/err.h"
#include "driver-iface/sysfs/sysfs.h"

struct sim_memory;

struct sim_memory_config {
    const struct kymo_instance *instance;
    const struct kymo_arch *arch;
    const char *driver_version;
    const char *sysfs; /* directory of the tree; NULL: none is kept */
};

/* Writes the tree; a core that nobody has used yet has few files in it. A tree that is there already is begun anew. */
int sim_memory_new(const struct sim_memory_config *config, struct sim_memory **ret,
                   struct kymo_err *err) KYMO_MUST_CHECK;
struct sim_memory *sim_memory_free(struct sim_memory *m); /* the tree stays */

/* Of each of count physical cores from first on; numbers are the instance's. -ENOMEM when one of them has too little;
 * then none is taken. */
int sim_memory_take(struct sim_memory *m, unsigned first, unsigned count, enum sysfs_kind kind, uint64_t bytes,
                    struct kymo_err *err) KYMO_MUST_CHECK;
/* As much as was taken, and no more. */
void sim_memory_give(struct sim_memory *m, unsigned first, unsigned count, enum sysfs_kind kind, uint64_t bytes);

/* Bytes by kind that they hold in all. */
void sim_memory_present(struct sim_memory *m, unsigned first, unsigned count, uint64_t present[SYSFS_KIND_MAX]);

/* What the owning process did on these cores, which the driver tells when it lets go; all memory is given back. */
struct sim_memory_deeds {
    uint64_t loads, executions, failures, busy_us;
};
void sim_memory_detach(struct sim_memory *m, unsigned first, unsigned count, const struct sim_memory_deeds *deeds);

#endif
