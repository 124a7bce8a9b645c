#include "arch/arch_data.h"

/*
 * What each queue of a host-device engine carries is G throughout. The driver's own host-to-device copies use queue
 * core % 2 (A, driver 2.25.4, Trn2/Trn3), which is why numbers are even and a core adds its place in the pair.
 */
const struct kymo_h2d_queue kymo_arch_h2d_queues[] = {
    {0, "qHostWrite", "host_to_device", "copy"},
    {2, "qHostRead", "device_to_host", "copy"},
    {4, "qInstructionFetch", "host_to_device", "instruction_fetch"},
    {6, "qModelSwitch", "host_to_device", "model_switch"},
    {8, "qCollective", NULL, "collective"},
};
const size_t kymo_arch_h2d_queue_count = sizeof kymo_arch_h2d_queues / sizeof kymo_arch_h2d_queues[0];
