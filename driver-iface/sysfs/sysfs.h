/*
 * What the Neuron driver tells through sysfs: devices, cores, memory in use, counters, versions. Only reads; nothing
 * here writes to a driver. Which file says what, since when it is true and how sure that is stands in one table,
 * sysfs_entries.c; the simulator writes its tree from the same table. The runtime's version is not in sysfs.
 *
 * Thread-safe: struct sysfs is constant after sysfs_init. All numbers of devices and cores are physical.
 */
#ifndef KYMO_DRIVER_IFACE_SYSFS_SYSFS_H
#define KYMO_DRIVER_IFACE_SYSFS_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/arch.h"
#include "base/err.h"

#define SYSFS_ROOT "/sys/devices/virtual/neuron_device" /* unless KYMO_SYSFS or the caller names another */
#define SYSFS_DEVICES_MAX 64u
#define SYSFS_CORES_MAX 16u
#define SYSFS_TEXT_MAX 256u
#define SYSFS_PATH_MAX 512u

enum sysfs_scope {
    SYSFS_SYSTEM, /* below the mount of sysfs */
    SYSFS_DEVICE, /* below neuron<N>/ */
    SYSFS_CORE,   /* below neuron<N>/neuron_core<C>/ */
};

enum sysfs_when {
    SYSFS_FIXED,    /* since boot */
    SYSFS_LIVE,     /* true when read */
    SYSFS_AT_DETACH /* folded in when the owning process lets go of the device */
};

enum sysfs_unit { SYSFS_TEXT, SYSFS_COUNT, SYSFS_BYTES, SYSFS_MICROSECONDS };

/* One file, or a directory of members (each a directory of files). */
struct sysfs_entry {
    enum sysfs_scope scope;
    const char *path;
    const char *const *members; /* NULL: path itself holds the values */
    size_t n_members;
    const char *const *values; /* files below; NULL: path is the file */
    size_t n_values;
    enum sysfs_unit unit;
    enum sysfs_when when;
    char evidence;  /* class of the fact: A vendor's documents or driver source, C one third party, G ours */
    bool uncertain; /* not seen on hardware, or told differently by two sources */
    mode_t mode;    /* as the driver makes it; 0400 is for root alone */
};

enum sysfs_id {
    SYSFS_DRIVER_VERSION,
    SYSFS_PRODUCT,
    SYSFS_CORE_COUNT,
    SYSFS_CONNECTED,
    SYSFS_SERIAL,
    SYSFS_ARCH_TYPE,
    SYSFS_INSTANCE_TYPE,
    SYSFS_DEVICE_NAME,
    SYSFS_ECC,
    SYSFS_POWER,
    SYSFS_DEVICE_HOST_MEMORY, /* members: what the driver itself holds */
    SYSFS_CORE_ARCH_TYPE,
    SYSFS_CORE_HOST_MEMORY,
    SYSFS_CORE_MEMORY,         /* device memory of the core, all kinds together */
    SYSFS_CORE_MEMORY_BY_KIND, /* members: enum sysfs_kind */
    SYSFS_STATUS,              /* members: outcomes of executions */
    SYSFS_ACTIVITY,            /* members: model_load_count, inference_count, flop_count, nc_time_in_use */
    SYSFS_RESETS,
    SYSFS_PE_COUNTERS,
    SYSFS_ID_MAX
};

const struct sysfs_entry *sysfs_entry(enum sysfs_id id);

/* Values of counters and of memory, in the order of the entries' values. What total counts for memory is not said by
 * the facts: all that was ever taken (G). */
enum { SYSFS_TOTAL, SYSFS_PRESENT, SYSFS_PEAK };

/* X(NAME, "member") of SYSFS_CORE_MEMORY_BY_KIND */
#define SYSFS_KIND_MAP(X)                                                                                              \
    X(MODEL_CODE, "model_code")                                                                                        \
    X(TENSORS, "tensors")                                                                                              \
    X(CONSTANTS, "constants")                                                                                          \
    X(SHARED_SCRATCHPAD, "model_shared_scratchpad")                                                                    \
    X(NONSHARED_SCRATCHPAD, "nonshared_scratchpad")                                                                    \
    X(RUNTIME_MEMORY, "runtime_memory")                                                                                \
    X(DRIVER_MEMORY, "driver_memory")                                                                                  \
    X(COLLECTIVES, "collectives")                                                                                      \
    X(NOTIFICATIONS, "notifications")                                                                                  \
    X(DMA_RINGS, "dma_rings")                                                                                          \
    X(UNCATEGORIZED, "uncategorized")

enum sysfs_kind {
#define X(name, text) SYSFS_KIND_##name,
    SYSFS_KIND_MAP(X)
#undef X
        SYSFS_KIND_MAX
};

struct sysfs {
    char root[SYSFS_TEXT_MAX];   /* holds neuron<N> */
    char system[SYSFS_TEXT_MAX]; /* where sysfs is mounted: /sys; a root elsewhere is both */
};

/* root NULL: $KYMO_SYSFS, else SYSFS_ROOT. A root that ends in /devices/virtual/neuron_device or /class/neuron_device
 * lies in a whole sysfs; any other holds files of the system itself. -ENAMETOOLONG. Touches no file. */
int sysfs_init(struct sysfs *s, const char *root, struct kymo_err *err) KYMO_MUST_CHECK;

/* device, core, member and value are not looked at where the entry has none. -ENAMETOOLONG, -EINVAL beyond the entry's
 * lists. */
int sysfs_path(const struct sysfs *s, enum sysfs_id id, unsigned device, unsigned core, unsigned member, unsigned value,
               char ret[SYSFS_PATH_MAX], struct kymo_err *err) KYMO_MUST_CHECK;

/* Text without the white space at its end, cut at SYSFS_TEXT_MAX - 1. -ENOENT, -EACCES: as the file system says. */
int sysfs_text(const struct sysfs *s, enum sysfs_id id, unsigned device, unsigned core, unsigned member, unsigned value,
               char ret[SYSFS_TEXT_MAX], struct kymo_err *err) KYMO_MUST_CHECK;
/* -EINVAL with the path when the file holds no number. */
int sysfs_number(const struct sysfs *s, enum sysfs_id id, unsigned device, unsigned core, unsigned member,
                 unsigned value, uint64_t *ret, struct kymo_err *err) KYMO_MUST_CHECK;

struct sysfs_device {
    unsigned index;               /* N of neuron<N> */
    unsigned cores;               /* physical */
    const struct kymo_arch *arch; /* NULL: a device that kymo does not know */
    char name[32], arch_type[16], serial[24];
};

struct sysfs_host {
    char driver_version[32]; /* empty: not told */
    char instance[64];       /* EC2 type as the firmware tells it: trn2.48xlarge */
    size_t n_devices;
    struct sysfs_device devices[SYSFS_DEVICES_MAX]; /* by index */
};

/* -ENOENT: no root, so there is no driver. What single files do not tell stays empty or 0; a host without devices is
 * one. */
int sysfs_read_host(const struct sysfs *s, struct sysfs_host *ret, struct kymo_err *err) KYMO_MUST_CHECK;

struct sysfs_memory {
    uint64_t used;     /* bytes in use now */
    uint64_t capacity; /* share of the device's memory that lies beside these cores (arch/); 0: unknown device */
};

/* Device memory of count cores from first on. -ENOENT and the like: sysfs does not tell. */
int sysfs_read_memory(const struct sysfs *s, const struct sysfs_device *device, unsigned first, unsigned count,
                      struct sysfs_memory *ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
