/* The command line of kymo-sim run. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "arch/ring.h"
#include "driver-iface/sim/sim_buffers.h"
#include "driver-iface/sim/sim_job.h"
#include "driver-iface/sim/sim_run.h"

static const struct kymo_option rows[] = {
    {.name = "neff",
     .type = KYMO_OPTION_LIST,
     .arg = "FILE",
     .required = true,
     .offset = offsetof(struct sim_run_args, neffs),
     .help = "program of the step; several are executed in turn at each step"},
    {.name = "output",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .required = true,
     .offset = offsetof(struct sim_run_args, output),
     .help = "the captures go to DIR/captures"},
    SIM_HOST_ROWS(struct sim_run_args, host),
    {.name = "device",
     .type = KYMO_OPTION_TEXT,
     .arg = "SOCKET",
     .offset = offsetof(struct sim_run_args, device),
     .help = "use a device process that runs already (kymo-sim device), as several jobs on one host do"},
    {.name = "ranks",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .def = "1",
     .min = 1,
     .max = SIM_RUN_RANKS_MAX,
     .offset = offsetof(struct sim_run_args, ranks),
     .help = "processes; rank r has logical core --first-core + r"},
    {.name = "first-core",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .def = "0",
     .max = 4095,
     .offset = offsetof(struct sim_run_args, first_core),
     .help = "logical core of rank 0"},
    {.name = "steps",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .def = "3",
     .min = 1,
     .max = SIM_JOB_STEPS_MAX,
     .offset = offsetof(struct sim_run_args, steps),
     .help = "training steps"},
    {.name = "step-ms",
     .type = KYMO_OPTION_U64,
     .arg = "MS",
     .max = SIM_JOB_STEP_MS_MAX,
     .offset = offsetof(struct sim_run_args, step_ms),
     .help = "begin a step every MS milliseconds of real time (default: at once)"},
    {.name = "mode",
     .type = KYMO_OPTION_CHOICE,
     .choices = "auto|model|session|continuous|on-failure|none",
     .def = "auto",
     .offset = offsetof(struct sim_run_args, mode),
     .help = "kind of capture; auto is model, but session with --async or several programs; none leaves it to others"},
    {.name = "capture-steps",
     .type = KYMO_OPTION_TEXT,
     .arg = "LIST",
     .offset = offsetof(struct sim_run_args, capture_steps),
     .help = "steps to capture, from 0, as 3,5-7: session (default all) and continuous (default the last)"},
    {.name = "system",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct sim_run_args, system),
     .help =
         "with model and session captures: trace the system too, with samples of the host and the framework's steps"},
    {.name = "async",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct sim_run_args, async),
     .help = "schedule executions instead of waiting for each"},
    {.name = "linked",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct sim_run_args, linked),
     .help = "ranks are linked against libnrt.so.1 instead of opening it"},
    {.name = "slow-rank",
     .type = KYMO_OPTION_TEXT,
     .arg = "R:FACTOR",
     .offset = offsetof(struct sim_run_args, slow_rank),
     .help = "rank R computes FACTOR times as long"},
    {.name = "fail-step",
     .type = KYMO_OPTION_TEXT,
     .arg = "K",
     .offset = offsetof(struct sim_run_args, fail_step),
     .help = "the execution of step K (from 0) fails on rank 0"},
    {.name = "helpers",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .max = SIM_JOB_STEPS_MAX,
     .offset = offsetof(struct sim_run_args, helpers),
     .help = "after every N-th step each rank forks a child, and starts a program"},
    {.name = "fork-at",
     .type = KYMO_OPTION_TEXT,
     .arg = "K",
     .offset = offsetof(struct sim_run_args, fork_at),
     .help = "after step K each rank closes the runtime; a forked child does the other steps (with --mode none)"},
    {.name = "exec-at",
     .type = KYMO_OPTION_TEXT,
     .arg = "K",
     .offset = offsetof(struct sim_run_args, exec_at),
     .help = "after step K each rank closes the runtime and executes itself for the other steps (with --mode none)"},
    {.name = "handle-signals",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct sim_run_args, handle_signals),
     .help = "ranks handle SIGINT and SIGTERM: they say so, end their step, close the runtime, and end with 4"},
    {.name = "ballast",
     .type = KYMO_OPTION_SIZE,
     .arg = "BYTES",
     .max = SIM_JOB_BALLAST_MAX,
     .offset = offsetof(struct sim_run_args, ballast),
     .help = "device memory that each rank holds besides its tensors"},
    {.name = "buffer",
     .type = KYMO_OPTION_LIST,
     .arg = "RING=MB",
     .offset = offsetof(struct sim_run_args, buffers),
     .help = "profile buffer size, as DMA=1 or H2D_DMA=0"},
    {.name = "dge",
     .type = KYMO_OPTION_CHOICE,
     .choices = "0|1",
     .offset = offsetof(struct sim_run_args, dge),
     .help = "names for dynamic DMA (NEURON_RT_ENABLE_DGE_NOTIFICATIONS)"},
    {.name = "pids",
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     .offset = offsetof(struct sim_run_args, pids),
     .help = "write a line \"RANK PID\" for each rank when all are started"},
    {0}};

static const struct kymo_options spec = {
    .program = "kymo-sim run",
    .about =
        "Runs a training job on simulated devices and captures it through the runtime's profile interface.\n"
        "Exit code: 0 done; 1 something failed, as a capture that could not be written; 2 wrong usage; 3 an execution\n"
        "failed; 4 a rank handled a signal; 128 + N ended by signal N.",
    .rows = rows};

static int parse_u64(const char *text, char stop, uint64_t *ret, const char **rest)
{
    char *end = NULL;

    errno = 0;
    *ret = strtoull(text, &end, 10);
    if (errno || end == text || *text == '-' || *end != stop)
        return -EINVAL;
    *rest = stop ? end + 1 : end;
    return 0;
}

static bool is_factor(const char *text)
{
    char *end = NULL;
    double v = strtod(text, &end);
    return end != text && *end == '\0' && v >= 0.01 && v <= 100.0;
}

/* A window is a run of captured steps; each ends in a profile. */
static int count_windows(struct sim_run *j, struct kymo_err *err)
{
    const struct sim_run_args *a = &j->args;
    bool before = false, in;
    for (uint64_t step = 0; step < a->steps; step++) {
        int r = sim_job_step_in(a->capture_steps, step, &in, err);
        if (r < 0)
            return r;
        j->windows += in && !before;
        before = in;
    }
    if (!j->windows)
        return kymo_err_set(err, -EINVAL, "--capture-steps %.64s: nothing to capture, the job has steps 0 to %llu",
                            a->capture_steps, (unsigned long long)a->steps - 1);
    return 0;
}

static int check_step(const char *option, const char *text, uint64_t steps, struct kymo_err *err)
{
    const char *rest;
    uint64_t step;

    if (!text || (parse_u64(text, 0, &step, &rest) == 0 && step < steps))
        return 0;
    return kymo_err_set(err, -EINVAL, "%s %.64s: not a step from 0 to %llu", option, text,
                        (unsigned long long)steps - 1);
}

static int check_numbers(struct sim_run *j, struct kymo_err *err)
{
    const struct sim_run_args *a = &j->args;
    int r;

    j->slow_rank = UINT64_MAX;
    if (a->slow_rank && (parse_u64(a->slow_rank, ':', &j->slow_rank, &j->slow_factor) < 0 || j->slow_rank >= a->ranks ||
                         !is_factor(j->slow_factor)))
        return kymo_err_set(err, -EINVAL, "--slow-rank %s: not RANK:FACTOR of one of %llu ranks, 0.01 to 100 times",
                            a->slow_rank, (unsigned long long)a->ranks);
    r = check_step("--fail-step", a->fail_step, a->steps, err);
    if (r == 0)
        r = check_step("--fork-at", a->fork_at, a->steps, err);
    if (r == 0)
        r = check_step("--exec-at", a->exec_at, a->steps, err);
    if (r < 0)
        return r;
    if (a->fail_step)
        j->fail_execution = strtoull(a->fail_step, NULL, 10) * a->neffs.n + 1;
    return a->capture_steps ? count_windows(j, err) : 0;
}

static int check_cores(struct sim_run *j, struct kymo_err *err)
{
    struct sim_run_args *a = &j->args;
    unsigned cores;
    int r = sim_host_check(&a->host, err);

    if (r < 0)
        return r;
    cores = a->host.instance->devices * a->host.arch->pcores_per_device / a->host.lnc;
    if (a->first_core >= cores || a->ranks > cores - a->first_core)
        return kymo_err_set(err, -EINVAL, "--ranks %llu from core %llu on: %s has %u logical cores",
                            (unsigned long long)a->ranks, (unsigned long long)a->first_core, a->host.type, cores);
    if (a->device && (a->host.truth || a->host.sysfs || a->host.driver || a->host.drift || a->host.notices.count))
        return kymo_err_set(
            err, -EINVAL, "--device: --truth, --sysfs, --driver, --drift, --throttle and --notice are that process's");
    return 0;
}

static int check_mode(struct sim_run *j, struct kymo_err *err)
{
    const struct sim_run_args *a = &j->args;

    j->mode = (enum sim_run_mode)a->mode;
    if (j->mode == SIM_RUN_AUTO)
        j->mode = a->async || a->neffs.n > 1 ? SIM_RUN_SESSION : SIM_RUN_MODEL;
    if (a->async && (j->mode == SIM_RUN_MODEL || j->mode == SIM_RUN_CONTINUOUS || j->mode == SIM_RUN_ON_FAILURE))
        return kymo_err_set(err, -EINVAL, "--async: only session captures go with asynchronous execution");
    if (a->system && j->mode != SIM_RUN_SESSION && j->mode != SIM_RUN_MODEL)
        return kymo_err_set(err, -EINVAL, "--system: for model and session captures alone");
    if (a->capture_steps && j->mode != SIM_RUN_SESSION && j->mode != SIM_RUN_CONTINUOUS)
        return kymo_err_set(err, -EINVAL, "--capture-steps: for session and continuous captures alone");
    if ((a->fork_at || a->exec_at) && j->mode != SIM_RUN_NONE)
        return kymo_err_set(err, -EINVAL, "--fork-at and --exec-at: with --mode none alone");
    return 0;
}

/* All that the command line alone shows to be wrong. */
static int check_arguments(struct sim_run *j, struct kymo_err *err)
{
    struct kymo_ring_sizes sizes;
    int r = check_numbers(j, err);

    if (r == 0)
        r = sim_buffers_parse(&j->args.buffers, &sizes, err);
    if (r == 0)
        r = check_cores(j, err);
    return r < 0 ? r : check_mode(j, err);
}

int sim_run_parse(int argc, char **argv, struct sim_run *ret)
{
    struct kymo_err err = {0};
    int code = kymo_options_main(&spec, argc, argv, &ret->args);

    if (code >= 0)
        return code;
    if (check_arguments(ret, &err) == 0)
        return -1;
    (void)fprintf(stderr, "kymo-sim run: %s; see kymo-sim run --help\n", err.text);
    return 2;
}
