/*
 * What a framework's own profiler would record of a simulated job: its steps and operators, as trace.json in the
 * session directory that the runtime made last. Times are the simulated host's, which the device process tells over a
 * connection of its own; what the operators do in between costs nothing. One thread.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_FRAMEWORK_H
#define KYMO_DRIVER_IFACE_SIM_SIM_FRAMEWORK_H

#include <stdint.h>

#include "base/err.h"

#define SIM_FRAMEWORK_OPS_MAX (1u << 20) /* later ones are left out */
#define SIM_FRAMEWORK_NO_SEQUENCE UINT64_MAX

struct sim_framework;

/* KYMO_SIM_SOCKET and NEURON_RT_VISIBLE_CORES say where and of which core. */
int sim_framework_new(uint64_t rank, struct sim_framework **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct sim_framework *sim_framework_free(struct sim_framework *f);

/* The following take NULL for a job that is not traced. */
uint64_t sim_framework_now(struct sim_framework *f); /* Unix ns; 0: not known */
/* An operator from begun until now; name is a constant. sequence: what the runtime gave for an asynchronous request. */
void sim_framework_op(struct sim_framework *f, const char *name, uint64_t begun, uint64_t sequence);
void sim_framework_step(struct sim_framework *f, uint64_t step, uint64_t begun);
/* Into <output>/<instance>_pid_<this process>/<newest>/; nothing when there is no such directory. */
int sim_framework_write(const struct sim_framework *f, const char *output, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
