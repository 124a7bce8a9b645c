/* kymo-sim run: what was asked for, checked, and the processes of the job. */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_RUN_H
#define KYMO_DRIVER_IFACE_SIM_SIM_RUN_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/options.h"
#include "driver-iface/sim/sim_host.h"

#define SIM_RUN_RANKS_MAX 256u

enum sim_run_mode {
    SIM_RUN_AUTO,
    SIM_RUN_MODEL,
    SIM_RUN_SESSION,
    SIM_RUN_CONTINUOUS,
    SIM_RUN_ON_FAILURE,
    SIM_RUN_NONE
};

struct sim_run_args {
    struct sim_host host;
    const char *output, *slow_rank, *fail_step, *capture_steps, *fork_at, *exec_at;
    const char *device; /* socket of a device process that runs already */
    const char *pids;   /* file for the ranks' process ids */
    struct kymo_option_list neffs, buffers;
    uint64_t ranks, first_core, steps, step_ms, helpers, ballast;
    int mode, dge;
    bool async, linked, handle_signals, system;
};

struct sim_run {
    struct sim_run_args args;
    char self[PATH_MAX], linked[PATH_MAX], library[PATH_MAX], library_dir[PATH_MAX];
    char captures[PATH_MAX], truth[PATH_MAX], sysfs[PATH_MAX], temporary[64], socket[PATH_MAX];
    enum sim_run_mode mode;
    uint64_t slow_rank; /* UINT64_MAX: none */
    const char *slow_factor;
    uint64_t fail_execution;                /* 0: none */
    uint64_t windows;                       /* of --capture-steps */
    pid_t device, ranks[SIM_RUN_RANKS_MAX]; /* 0: not running */
    pid_t pids[SIM_RUN_RANKS_MAX];          /* the same, kept after the end */
    int codes[SIM_RUN_RANKS_MAX];
    int stop_signal;
};

/* Fills args and what follows from them. Exit code like kymo_options_main; 2 for what cannot be. */
int sim_run_parse(int argc, char **argv, struct sim_run *ret) KYMO_MUST_CHECK;

#endif
