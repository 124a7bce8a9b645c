/* Makes an NTFF file of one simulated capture: what a runtime would state about it, and where the bytes are. */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_NTFF_H
#define KYMO_DRIVER_IFACE_SIM_SIM_NTFF_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "driver-iface/sim/sim_core.h"
#include "driver-iface/sim/sim_spill.h"

struct sim_ntff_execution {
    unsigned image; /* position in images */
    struct sim_exec_result result;
};

struct sim_ntff_capture {
    const struct sim_core *core;
    struct sim_spill *spill;
    struct sim_image *const *images;
    size_t image_count; /* more than one: a session, else a model capture */
    const struct kymo_ring_plan *plan;
    size_t plan_count;
    const struct sim_ntff_execution *executions;
    size_t execution_count;
    const struct kymo_ring_sizes *sizes;
    const char *instance, *driver;
    unsigned nd_idx, first_pcore, vnc, lnc, rank;
    unsigned h2d_reasons;
    bool dge_notifications;
    bool no_counters;       /* rings without emitted and dropped */
    uint64_t start_ps;      /* device time when the capture began */
    uint64_t start_unix_ns; /* host time then */
};

int sim_ntff_write(const struct sim_ntff_capture *cap, const char *path, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
