/* What a rank's process does besides its steps: signals, children, pace. */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_JOB_LIFE_H
#define KYMO_DRIVER_IFACE_SIM_SIM_JOB_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define SIM_JOB_SIGNALLED 4 /* exit code after a signal that the job handled */

/* SIGINT and SIGTERM are noted, and passed on to a child that goes on in this process's place. */
void sim_job_handle_signals(void);
int sim_job_signal(void); /* 0: none has come */

/* Waits until period_ms after the last call's end of waiting; returns early when a signal comes. */
void sim_job_pace(uint64_t period_ms, uint64_t *next_ns);

/* A forked child, then a program of its own, each with its line on stdout. */
int sim_job_helpers(uint64_t rank, uint64_t step, struct kymo_err *err) KYMO_MUST_CHECK;

/* Forks a child that goes on from here and ends with this process. *ret_code is its exit code, in the parent; -1 in the
 * child. */
int sim_job_fork(int *ret_code, struct kymo_err *err) KYMO_MUST_CHECK;

/* Executes this program anew, with its own arguments and "--first-step step". Returns on failure alone. */
int sim_job_exec(uint64_t step, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
