/*
 * What one rank asked of the devices while its runtime traced the system, and what the devices then held: the truth of
 * a system profile (TRUTH.md). Kept by the device process, from the devices' state. One thread.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_DEEDS_H
#define KYMO_DRIVER_IFACE_SIM_SIM_DEEDS_H

#include <stddef.h>
#include <stdint.h>

#include "driver-iface/sim/sim_device.h"

#define SIM_DEEDS_MAX (4u << 20) /* rows of a kind; more are counted only */

struct sim_deeds;

struct sim_deed {
    const char *kind; /* a constant */
    unsigned vnc;
    uint64_t start_ns, end_ns; /* Unix time as the simulated host has it */
    uint64_t bytes, model_id;
    uint32_t status;
};

struct sim_deeds *sim_deeds_new(struct sim_device *device); /* NULL: no memory */
struct sim_deeds *sim_deeds_free(struct sim_deeds *d);

void sim_deeds_add(struct sim_deeds *d, const struct sim_deed *deed);
/* What a core's memory holds now, as far as it differs from what was noted before. */
void sim_deeds_memory(struct sim_deeds *d, unsigned vnc);
/* The host's state at a moment: its CPUs' busy shares and memory in use, invented but the same for the same job (G). */
void sim_deeds_sample(struct sim_deeds *d, uint64_t ts_ns, float cpu[SIM_WIRE_CPUS], uint64_t *ret_used);
/* Writes system.tsv, memory.tsv and host.tsv into dir. */
int sim_deeds_write(const struct sim_deeds *d, const char *dir, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
