/*
 * One rank of the simulated training job: an ordinary client of the runtime's public interface, which it is given as a
 * table of functions, so that the same job runs over dlopen and linked directly.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_JOB_H
#define KYMO_DRIVER_IFACE_SIM_SIM_JOB_H

#include "base/err.h"
#include "base/options.h"
#include "driver-iface/nrt/nrt_loader.h"

#define SIM_JOB_STEPS_MAX 1000000000ull
#define SIM_JOB_STEP_MS_MAX 3600000ull
#define SIM_JOB_BALLAST_MAX (1ull << 40)

enum sim_job_capture {
    SIM_JOB_NONE,       /* nothing of its own: the environment may still ask for an inspection */
    SIM_JOB_CONTINUOUS, /* nrt_profile_continuous_*, saved after the chosen steps */
    SIM_JOB_SESSION,    /* an inspection session around the chosen steps */
};

#define SIM_JOB_RANKS_MAX 4096

struct sim_job {
    struct kymo_option_list neffs;
    uint64_t steps, rank, ranks;
    uint64_t first_step;           /* of this process; those before were another's */
    uint64_t step_ms;              /* real time from step to step; 0: none is kept */
    uint64_t helpers;              /* children after every so many steps; 0: none */
    uint64_t ballast;              /* bytes of device memory held besides the tensors */
    const char *fork_at, *exec_at; /* after this step another process goes on; NULL: none does */
    const char *capture_steps;     /* "3,5-7"; NULL: the last one */
    const char *output;            /* directory of captures */
    int capture;                   /* enum sim_job_capture */
    bool async, handle_signals;
    bool system; /* trace the system in sessions of its own, and the framework's steps */
};

/* Options of the job's command line. Exit code like kymo_options_main. */
int sim_job_parse(const char *program, int argc, char **argv, struct sim_job *ret) KYMO_MUST_CHECK;

/* Runs to the end, one line per step on stdout. Exit code: 0, 1 could not run, 3 an execution failed, 4 a signal came
 * that the job handles. */
int sim_job_run(const struct nrt_api *api, const struct sim_job *job);

/* Is step in "3,5-7"? -EINVAL when the text is no such list. */
int sim_job_step_in(const char *list, uint64_t step, bool *ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
