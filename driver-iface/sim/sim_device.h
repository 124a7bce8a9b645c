/*
 * Simulated devices of one instance: logical cores that ranks attach, the core models behind them, their rings in
 * shared memory, and the truth of what was traced. Thread-safe: each rank's thread works on the cores it owns; models
 * that share a host-device DMA engine share a lock.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_DEVICE_H
#define KYMO_DRIVER_IFACE_SIM_SIM_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/arch.h"
#include "base/err.h"
#include "driver-iface/sim/sim_core.h"
#include "driver-iface/sim/sim_memory.h"
#include "driver-iface/sim/sim_wire.h"

struct sim_device;

struct sim_device_config {
    const struct kymo_instance *instance;
    const struct kymo_arch *arch;
    unsigned lnc;
    const char *driver_version;
    const char *truth_dir; /* NULL: no truth is kept */
    const char *sysfs_dir; /* NULL: no tree of the driver is kept */
    uint64_t seed;
    uint64_t boot_unix_ns; /* host time at which the simulated clocks start */
    bool drift;
    struct sim_notices notices;
};

/* The strings of config must outlive the device. -EINVAL when the lnc does not exist on the generation. */
int sim_device_new(const struct sim_device_config *config, struct sim_device **ret,
                   struct kymo_err *err) KYMO_MUST_CHECK;
struct sim_device *sim_device_free(struct sim_device *d);
void sim_device_freep(struct sim_device **d);

void sim_device_hello(const struct sim_device *d, struct sim_wire_hello *ret);
unsigned sim_device_vnc_count(const struct sim_device *d);

/*
 * owner is any non-NULL pointer that names the rank. attach: -EBUSY when another has the core. All others: -EPERM when
 * the core is not the owner's.
 */
int sim_device_attach(struct sim_device *d, unsigned vnc, const void *owner, const struct sim_wire_attach *how,
                      struct kymo_err *err) KYMO_MUST_CHECK;
int sim_device_check_owner(struct sim_device *d, unsigned vnc, const void *owner, struct kymo_err *err) KYMO_MUST_CHECK;
/* Ends tracing and gives the core back; of all cores when a rank goes away. */
void sim_device_detach(struct sim_device *d, unsigned vnc, const void *owner);
void sim_device_detach_all(struct sim_device *d, const void *owner);

/* The following want the caller to own vnc (sim_device_check_owner). */
/* Device memory, bytes in all; each physical core of vnc holds its share. -ENOMEM. All is given back on detach. */
int sim_device_take(struct sim_device *d, unsigned vnc, enum sysfs_kind kind, uint64_t bytes,
                    struct kymo_err *err) KYMO_MUST_CHECK;
void sim_device_give(struct sim_device *d, unsigned vnc, enum sysfs_kind kind, uint64_t bytes);
void sim_device_memory(struct sim_device *d, unsigned vnc, uint64_t present[SYSFS_KIND_MAX]); /* of its cores in all */
void sim_device_loaded(struct sim_device *d, unsigned vnc); /* a model; counted until detach */
uint64_t sim_device_next_model_id(struct sim_device *d, unsigned vnc);
/* *ret_fd stays the device's and lives until disarm; *ret_bytes is the area's size. -EALREADY while tracing. */
int sim_device_arm(struct sim_device *d, unsigned vnc, const uint64_t sizes[KYMO_RING_MAX], unsigned mode, int *ret_fd,
                   uint64_t *ret_bytes, struct kymo_err *err) KYMO_MUST_CHECK;
int sim_device_restart(struct sim_device *d, unsigned vnc, struct kymo_err *err) KYMO_MUST_CHECK;
void sim_device_disarm(struct sim_device *d, unsigned vnc);
/*
 * Nothing is written into the core's rings from here on until thaw, restart or disarm, which the same thread must call:
 * other ranks that share the core's host-device DMA engine wait meanwhile.
 */
int sim_device_freeze(struct sim_device *d, unsigned vnc, struct kymo_err *err) KYMO_MUST_CHECK;
void sim_device_thaw(struct sim_device *d, unsigned vnc);
int sim_device_execute(struct sim_device *d, unsigned vnc, struct sim_image *image, bool fail, uint64_t idle_ps,
                       struct sim_exec_result *ret, struct kymo_err *err) KYMO_MUST_CHECK;
/*
 * The same for a program with collectives: waits until all ranks of the job have asked for it (bounded, -ETIMEDOUT),
 * then all are executed together. A rank that is alone because its peers failed has NRT status 1200.
 */
int sim_device_execute_joint(struct sim_device *d, unsigned vnc, const struct sim_wire_comm *comm,
                             struct sim_image *image, bool fail, uint64_t idle_ps, struct sim_exec_result *ret,
                             struct kymo_err *err) KYMO_MUST_CHECK;
int sim_device_host_copy(struct sim_device *d, unsigned vnc, bool to_device, uint64_t bytes, uint64_t idle_ps,
                         struct kymo_err *err) KYMO_MUST_CHECK;
void sim_device_advance(struct sim_device *d, unsigned vnc, uint64_t idle_ps);
/* The core's time, and what the host's clock shows at that moment. */
void sim_device_now(struct sim_device *d, unsigned vnc, uint64_t *ret_ps, uint64_t *ret_host_ns);
int sim_device_clock(struct sim_device *d, unsigned vnc, unsigned ring, unsigned nc_idx, unsigned engine,
                     struct sim_wire_clock *ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* Writes the truth of a profile that goes by this path (or its end) into truth_dir/NAME, NAME being the file's name
 * without .ntff, or NAME.2, NAME.3 ... where others have come before. The name: [A-Za-z0-9._-], no leading dot. */
int sim_device_truth(struct sim_device *d, unsigned vnc, const char *path, struct kymo_err *err) KYMO_MUST_CHECK;

/* A new directory in truth_dir, named likewise, for truth that no core has. */
int sim_device_truth_dir(const struct sim_device *d, const char *path, char **ret,
                         struct kymo_err *err) KYMO_MUST_CHECK;

const struct kymo_arch *sim_device_arch(const struct sim_device *d);
unsigned sim_device_lnc(const struct sim_device *d);

/* Serves ranks on a listening socket, a thread each, until stop_fd is readable; then gives them ten seconds to end. */
int sim_device_serve(struct sim_device *d, int listen_fd, int stop_fd, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
