/* The driver's tree as data. One real host corrects this file and nothing else. */
#include "driver-iface/sysfs/sysfs.h"

#define LIST(a) (a), sizeof(a) / sizeof *(a)
#define NONE NULL, 0

static const char *const counter[] = {"total", "present"};
static const char *const memory[] = {"total", "present", "peak"};

static const char *const ecc[] = {"sram_ecc_uncorrected", "mem_ecc_uncorrected", "mem_ecc_repairable_uncorrected"};

static const char *const driver_memory[] = {"application_memory", "constants",     "dma_buffers", "dma_rings",
                                            "driver_memory",      "notifications", "tensors",     "uncategorized"};

static const char *const device_memory[] = {
#define X(name, text) text,
    SYSFS_KIND_MAP(X)
#undef X
};

/* Older documents name the first ones infer_*. */
static const char *const status[] = {"success",
                                     "failure",
                                     "timeout",
                                     "exec_bad_input",
                                     "hw_error",
                                     "execute_completed_with_error",
                                     "execute_completed_with_num_error",
                                     "generic_error",
                                     "resource_error",
                                     "resource_nc_error",
                                     "execute_failed_to_queue",
                                     "invalid_error",
                                     "unsupported_neff_version",
                                     "oob_error",
                                     "hw_collectives_error",
                                     "hw_hbm_ue_error",
                                     "hw_nc_ue_error",
                                     "hw_dma_abort_error",
                                     "execute_sw_nq_overflow",
                                     "execute_sw_semaphore_error",
                                     "execute_sw_event_error",
                                     "execute_sw_psum_collision",
                                     "execute_sw_sequencer_fatal",
                                     "hw_repairable_hbm_ue_error"};

static const char *const activity[] = {"model_load_count", "inference_count", "flop_count", "nc_time_in_use"};
static const char *const resets[] = {"reset_req_count", "reset_fail_count"};

static const struct sysfs_entry entries[SYSFS_ID_MAX] = {
    [SYSFS_DRIVER_VERSION] = {SYSFS_SYSTEM, "module/neuron/version", NONE, NONE, SYSFS_TEXT, SYSFS_FIXED, 'A', false,
                              0444},
    [SYSFS_PRODUCT] = {SYSFS_SYSTEM, "class/dmi/id/product_name", NONE, NONE, SYSFS_TEXT, SYSFS_FIXED, 'A', false,
                       0444},
    [SYSFS_CORE_COUNT] = {SYSFS_DEVICE, "core_count", NONE, NONE, SYSFS_COUNT, SYSFS_FIXED, 'A', false, 0400},
    /* Empty from 20 characters on: the driver cuts it. */
    [SYSFS_CONNECTED] = {SYSFS_DEVICE, "connected_devices", NONE, NONE, SYSFS_TEXT, SYSFS_FIXED, 'A', false, 0400},
    [SYSFS_SERIAL] = {SYSFS_DEVICE, "info/serial_number", NONE, NONE, SYSFS_TEXT, SYSFS_FIXED, 'A', false, 0444},
    /* Says NDv3 of an Inf2: device_name is what decides. */
    [SYSFS_ARCH_TYPE] = {SYSFS_DEVICE, "info/architecture/arch_type", NONE, NONE, SYSFS_TEXT, SYSFS_FIXED, 'A', true,
                         0444},
    [SYSFS_INSTANCE_TYPE] = {SYSFS_DEVICE, "info/architecture/instance_type", NONE, NONE, SYSFS_TEXT, SYSFS_FIXED, 'A',
                             false, 0444},
    [SYSFS_DEVICE_NAME] = {SYSFS_DEVICE, "info/architecture/device_name", NONE, NONE, SYSFS_TEXT, SYSFS_FIXED, 'A',
                           false, 0444},
    [SYSFS_ECC] = {SYSFS_DEVICE, "stats/hardware", NULL, 0, LIST(ecc), SYSFS_COUNT, SYSFS_LIVE, 'A', false, 0444},
    [SYSFS_POWER] = {SYSFS_DEVICE, "stats/power/utilization", NONE, NONE, SYSFS_TEXT, SYSFS_LIVE, 'A', false, 0444},
    [SYSFS_DEVICE_HOST_MEMORY] = {SYSFS_DEVICE, "stats/memory_usage/host_mem", LIST(driver_memory), LIST(memory),
                                  SYSFS_BYTES, SYSFS_LIVE, 'A', false, 0644},
    [SYSFS_CORE_ARCH_TYPE] = {SYSFS_CORE, "info/architecture/arch_type", NONE, NONE, SYSFS_TEXT, SYSFS_FIXED, 'A',
                              false, 0444},
    [SYSFS_CORE_HOST_MEMORY] = {SYSFS_CORE, "stats/memory_usage/host_mem", NONE, LIST(memory), SYSFS_BYTES, SYSFS_LIVE,
                                'A', false, 0644},
    [SYSFS_CORE_MEMORY] = {SYSFS_CORE, "stats/memory_usage/device_mem", NONE, LIST(memory), SYSFS_BYTES, SYSFS_LIVE,
                           'A', false, 0644},
    [SYSFS_CORE_MEMORY_BY_KIND] = {SYSFS_CORE, "stats/memory_usage/device_mem", LIST(device_memory), LIST(memory),
                                   SYSFS_BYTES, SYSFS_LIVE, 'A', false, 0644},
    [SYSFS_STATUS] = {SYSFS_CORE, "stats/status", LIST(status), LIST(counter), SYSFS_COUNT, SYSFS_AT_DETACH, 'A', true,
                      0644},
    [SYSFS_ACTIVITY] = {SYSFS_CORE, "stats/other_info", LIST(activity), LIST(counter), SYSFS_COUNT, SYSFS_AT_DETACH,
                        'A', false, 0644},
    [SYSFS_RESETS] = {SYSFS_CORE, "stats/other_info", LIST(resets), LIST(counter), SYSFS_COUNT, SYSFS_LIVE, 'A', false,
                      0644},
    [SYSFS_PE_COUNTERS] = {SYSFS_CORE, "stats/tensor_engine/pe_cntrs", NONE, NONE, SYSFS_TEXT, SYSFS_LIVE, 'A', true,
                           0444},
};

const struct sysfs_entry *sysfs_entry(enum sysfs_id id)
{
    return &entries[id];
}
