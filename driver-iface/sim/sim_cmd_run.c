/* kymo-sim run: a training job on simulated devices: one device process, a process per rank, captures and truth in a
 * directory. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "arch/arch.h"
#include "arch/ring.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "driver-iface/sim/sim_buffers.h"
#include "driver-iface/sim/sim_captures.h"
#include "driver-iface/sim/sim_job.h"
#include "driver-iface/sim/sim_subcommands.h"

#define RANKS_MAX 256u
#define ARGS_MAX 96u
#define READY_TIMEOUT_MS 30000
#define STOP_TIMEOUT_NS 15000000000ull /* between the polite signal and the last one */
#define POLL_NS 20000000

enum mode { MODE_AUTO, MODE_MODEL, MODE_SESSION, MODE_CONTINUOUS, MODE_ON_FAILURE, MODE_NONE };

struct args {
    const char *instance, *output, *truth, *slow_rank, *fail_step, *driver, *capture_steps;
    struct kymo_option_list neffs, buffers;
    uint64_t lnc, ranks, steps, seed;
    int mode, dge;
    bool async, linked, drift;
};

static const struct kymo_option rows[] = {
    {.name = "neff",
     .type = KYMO_OPTION_LIST,
     .arg = "FILE",
     .required = true,
     .offset = offsetof(struct args, neffs),
     .help = "program of the step; several are executed in turn at each step"},
    {.name = "output",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .required = true,
     .offset = offsetof(struct args, output),
     .help = "the captures go to DIR/captures"},
    {.name = "instance",
     .type = KYMO_OPTION_TEXT,
     .arg = "TYPE",
     .def = "trn2.48xlarge",
     .offset = offsetof(struct args, instance),
     .help = "instance type to simulate"},
    {.name = "lnc",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .max = 2,
     .offset = offsetof(struct args, lnc),
     .help = "physical cores per logical core (default: the instance's)"},
    {.name = "ranks",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .def = "1",
     .min = 1,
     .max = RANKS_MAX,
     .offset = offsetof(struct args, ranks),
     .help = "processes; rank r has logical core r"},
    {.name = "steps",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .def = "3",
     .min = 1,
     .max = 1000000,
     .offset = offsetof(struct args, steps),
     .help = "training steps"},
    {.name = "mode",
     .type = KYMO_OPTION_CHOICE,
     .choices = "auto|model|session|continuous|on-failure|none",
     .def = "auto",
     .offset = offsetof(struct args, mode),
     .help = "kind of capture; auto is model, but session with --async or several programs"},
    {.name = "capture-steps",
     .type = KYMO_OPTION_TEXT,
     .arg = "LIST",
     .offset = offsetof(struct args, capture_steps),
     .help = "steps to capture, from 0, as 3,5-7: session (default all) and continuous (default the last)"},
    {.name = "async",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, async),
     .help = "schedule executions instead of waiting for each"},
    {.name = "truth",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .offset = offsetof(struct args, truth),
     .help = "write what truly happened below DIR"},
    {.name = "slow-rank",
     .type = KYMO_OPTION_TEXT,
     .arg = "R:FACTOR",
     .offset = offsetof(struct args, slow_rank),
     .help = "rank R computes FACTOR times as long"},
    {.name = "fail-step",
     .type = KYMO_OPTION_TEXT,
     .arg = "K",
     .offset = offsetof(struct args, fail_step),
     .help = "the execution of step K (from 0) fails on rank 0"},
    {.name = "buffer",
     .type = KYMO_OPTION_LIST,
     .arg = "RING=MB",
     .offset = offsetof(struct args, buffers),
     .help = "profile buffer size, as DMA=1 or H2D_DMA=0"},
    {.name = "driver",
     .type = KYMO_OPTION_TEXT,
     .arg = "VERSION",
     .offset = offsetof(struct args, driver),
     .help = "driver version; below 2.31 there is no host-device DMA trace"},
    {.name = "dge",
     .type = KYMO_OPTION_CHOICE,
     .choices = "0|1",
     .offset = offsetof(struct args, dge),
     .help = "names for dynamic DMA (NEURON_RT_ENABLE_DGE_NOTIFICATIONS)"},
    {.name = "drift",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, drift),
     .help = "let the clocks of Trn1 and Inf2 run off"},
    {.name = "seed",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .def = "1",
     .offset = offsetof(struct args, seed),
     .help = "seed of the models"},
    {.name = "linked",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, linked),
     .help = "ranks are linked against libnrt.so.1 instead of opening it"},
    {0}};

static const struct kymo_options spec = {
    .program = "kymo-sim run",
    .about =
        "Runs a training job on simulated devices and captures it through the runtime's profile interface.\n"
        "Exit code: 0 done; 1 something failed, as a capture that could not be written; 2 wrong usage; 3 an execution\n"
        "failed; 128 + N ended by signal N.",
    .rows = rows};

struct job {
    const struct args *args;
    char self[PATH_MAX], linked[PATH_MAX], library[PATH_MAX], library_dir[PATH_MAX];
    char captures[PATH_MAX], truth[PATH_MAX], temporary[64], socket[96];
    unsigned lnc;
    enum mode mode;
    uint64_t slow_rank; /* UINT64_MAX: none */
    const char *slow_factor;
    uint64_t fail_execution;        /* 0: none */
    uint64_t windows;               /* of --capture-steps */
    pid_t device, ranks[RANKS_MAX]; /* 0: not running */
    pid_t pids[RANKS_MAX];          /* the same, kept after the end */
    int codes[RANKS_MAX];
    int stop_signal;
};

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
static int count_windows(struct job *j, struct kymo_err *err)
{
    const struct args *a = j->args;
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

static int check_numbers(struct job *j, struct kymo_err *err)
{
    const struct args *a = j->args;
    const char *rest;
    uint64_t step;

    j->slow_rank = UINT64_MAX;
    if (a->slow_rank && (parse_u64(a->slow_rank, ':', &j->slow_rank, &j->slow_factor) < 0 || j->slow_rank >= a->ranks ||
                         !is_factor(j->slow_factor)))
        return kymo_err_set(err, -EINVAL, "--slow-rank %s: not RANK:FACTOR of one of %llu ranks, 0.01 to 100 times",
                            a->slow_rank, (unsigned long long)a->ranks);
    if (a->fail_step) {
        if (parse_u64(a->fail_step, 0, &step, &rest) < 0 || step >= a->steps)
            return kymo_err_set(err, -EINVAL, "--fail-step %s: not a step from 0 to %llu", a->fail_step,
                                (unsigned long long)a->steps - 1);
        j->fail_execution = step * a->neffs.n + 1;
    }
    if (a->driver && !kymo_version_valid(a->driver))
        return kymo_err_set(err, -EINVAL, "--driver %.64s: no version such as 2.31.0", a->driver);
    return a->capture_steps ? count_windows(j, err) : 0;
}

static int check_instance(struct job *j, struct kymo_err *err)
{
    const struct args *a = j->args;
    const struct kymo_instance *instance = kymo_instance_find(a->instance);
    const struct kymo_arch *arch;
    int r;

    if (!instance)
        return kymo_err_set(err, -EINVAL, "--instance %s: no instance type that kymo knows", a->instance);
    arch = kymo_arch_get(instance->gen);
    j->lnc = a->lnc ? (unsigned)a->lnc : instance->default_lnc;
    r = kymo_arch_check_lnc(arch, j->lnc, err);
    if (r == 0 && a->ranks > (uint64_t)instance->devices * arch->pcores_per_device / j->lnc)
        r = kymo_err_set(err, -EINVAL, "--ranks %llu: %s has %u logical cores", (unsigned long long)a->ranks,
                         a->instance, instance->devices * arch->pcores_per_device / j->lnc);
    return r;
}

static int check_mode(struct job *j, struct kymo_err *err)
{
    const struct args *a = j->args;

    j->mode = (enum mode)a->mode;
    if (j->mode == MODE_AUTO)
        j->mode = a->async || a->neffs.n > 1 ? MODE_SESSION : MODE_MODEL;
    if (a->async && (j->mode == MODE_MODEL || j->mode == MODE_CONTINUOUS || j->mode == MODE_ON_FAILURE))
        return kymo_err_set(err, -EINVAL, "--async: only session captures go with asynchronous execution");
    if (a->capture_steps && j->mode != MODE_SESSION && j->mode != MODE_CONTINUOUS)
        return kymo_err_set(err, -EINVAL, "--capture-steps: for session and continuous captures alone");
    return 0;
}

static int format(char out[PATH_MAX], struct kymo_err *err, const char *a, const char *b)
{
    if ((size_t)snprintf(out, PATH_MAX, "%s%s", a, b) >= PATH_MAX)
        return kymo_err_set(err, -ENAMETOOLONG, "%s%s: too long", a, b);
    return 0;
}

static int absolute(const char *path, char out[PATH_MAX], struct kymo_err *err)
{
    int r = kymo_file_mkdirs(path, err);

    if (r == 0 && !realpath(path, out))
        r = kymo_err_set(err, -errno, "%s: %s", path, strerror(errno));
    return r;
}

/* The runtime lies beside this program: ../lib in a build tree, kymo/ below the library directory where installed. */
static int find_programs(struct job *j, struct kymo_err *err)
{
    static const char *const places[] = {"/../lib", "/../" KYMO_LIBDIR "/kymo"};
    ssize_t n = readlink("/proc/self/exe", j->self, sizeof j->self - 1);
    char dir[PATH_MAX];
    int r;

    if (n <= 0)
        return kymo_err_set(err, -errno, "cannot find this program: %s", strerror(errno));
    j->self[n] = 0;
    (void)snprintf(dir, sizeof dir, "%s", j->self);
    *strrchr(dir, '/') = 0;
    r = format(j->linked, err, dir, "/kymo-sim-job");
    for (size_t i = 0; r == 0 && i < sizeof places / sizeof *places; i++) {
        r = format(j->library_dir, err, dir, places[i]);
        if (r == 0)
            r = format(j->library, err, j->library_dir, "/libnrt.so.1");
        if (r < 0 || access(j->library, R_OK) == 0)
            return r;
    }
    return kymo_err_set(err, -ENOENT, "libnrt.so.1 is not beside %s", j->self);
}

/* All that the command line alone shows to be wrong. */
static int check_arguments(struct job *j, struct kymo_err *err)
{
    struct kymo_ring_sizes sizes;
    int r = check_numbers(j, err);

    if (r == 0)
        r = sim_buffers_parse(&j->args->buffers, &sizes, err);
    if (r == 0)
        r = check_instance(j, err);
    return r < 0 ? r : check_mode(j, err);
}

static int prepare(struct job *j, struct kymo_err *err)
{
    char captures[PATH_MAX];
    int r = find_programs(j, err);

    if (r == 0)
        r = format(captures, err, j->args->output, "/captures");
    if (r == 0)
        r = absolute(captures, j->captures, err);
    if (r == 0 && j->args->truth)
        r = absolute(j->args->truth, j->truth, err);
    if (r < 0)
        return r;
    (void)snprintf(j->temporary, sizeof j->temporary,
                   "/tmp/kymo-sim.XXXXXX"); /* short: a socket's path has 107 bytes */
    if (!mkdtemp(j->temporary)) {
        j->temporary[0] = 0;
        return kymo_err_set(err, -errno, "/tmp: no temporary directory: %s", strerror(errno));
    }
    (void)snprintf(j->socket, sizeof j->socket, "%s/device.sock", j->temporary);
    return 0;
}

/* In the child. A child must not outlive this process, whatever ends it. */
static void become_child(pid_t parent)
{
    sigset_t none;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(1);
}

static void set_u64(const char *name, uint64_t v)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    (void)setenv(name, text, 1);
}

static void start_device_here(const struct job *j, int ready)
{
    char lnc[8], seed[24], fd[12];
    const char *argv[ARGS_MAX] = {j->self, "device", "--socket", j->socket, "--instance", j->args->instance};
    size_t n = 6;

    (void)snprintf(lnc, sizeof lnc, "%u", j->lnc);
    (void)snprintf(seed, sizeof seed, "%llu", (unsigned long long)j->args->seed);
    (void)snprintf(fd, sizeof fd, "%d", ready);
    const char *const fixed[] = {"--lnc", lnc, "--seed", seed, "--ready-fd", fd};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        argv[n++] = fixed[i];
    if (j->args->driver) {
        argv[n++] = "--driver";
        argv[n++] = j->args->driver;
    }
    if (j->args->truth) {
        argv[n++] = "--truth";
        argv[n++] = j->truth;
    }
    if (j->args->drift)
        argv[n++] = "--drift";
    (void)fcntl(ready, F_SETFD, 0);
    (void)execv(j->self, (char *const *)(uintptr_t)argv);
    _exit(127);
}

static int start_device(struct job *j, struct kymo_err *err)
{
    int pipes[2];
    struct pollfd p;
    char byte;
    pid_t parent = getpid();
    ssize_t n = 0;

    if (pipe2(pipes, O_CLOEXEC) < 0)
        return kymo_err_set(err, -errno, "no pipe: %s", strerror(errno));
    int in KYMO_CLOSE = pipes[0];
    int out KYMO_CLOSE = pipes[1];
    j->device = fork();
    if (j->device == 0) {
        become_child(parent);
        start_device_here(j, out);
    }
    if (j->device < 0) {
        j->device = 0;
        return kymo_err_set(err, -errno, "no process for the devices: %s", strerror(errno));
    }
    out = kymo_file_close(out);
    p = (struct pollfd){.fd = in, .events = POLLIN};
    if (poll(&p, 1, READY_TIMEOUT_MS) > 0)
        n = read(in, &byte, 1);
    return n == 1 ? 0 : kymo_err_set(err, -ENODEV, "the device process did not start");
}

static void set_capture_environment(const struct job *j)
{
    bool by_environment = j->mode == MODE_MODEL || (j->mode == MODE_SESSION && !j->args->capture_steps);

    (void)unsetenv("NEURON_RT_INSPECT_ENABLE");
    (void)unsetenv("NEURON_RT_INSPECT_ON_FAIL");
    (void)unsetenv("NEURON_RT_INSPECT_DEVICE_PROFILE");
    (void)setenv("NEURON_RT_INSPECT_OUTPUT_DIR", j->captures, 1);
    if (by_environment) {
        (void)setenv("NEURON_RT_INSPECT_ENABLE", "1", 1);
        (void)setenv("NEURON_RT_INSPECT_SYSTEM_PROFILE", "0", 1);
    }
    if (j->mode == MODE_ON_FAILURE)
        (void)setenv("NEURON_RT_INSPECT_ON_FAIL", "1", 1);
    if (by_environment || j->mode == MODE_ON_FAILURE)
        (void)setenv("NEURON_RT_INSPECT_DEVICE_PROFILE", j->mode == MODE_SESSION ? "session" : "model", 1);
}

static void set_environment(const struct job *j, uint64_t rank)
{
    const struct args *a = j->args;

    (void)setenv("KYMO_SIM_SOCKET", j->socket, 1);
    (void)setenv("KYMO_LIBNRT", j->library, 1);
    (void)setenv("LD_LIBRARY_PATH", j->library_dir, 1);
    set_u64("RANK", rank);
    set_u64("LOCAL_RANK", rank);
    set_u64("WORLD_SIZE", a->ranks);
    set_u64("NEURON_RT_VISIBLE_CORES", rank);
    set_u64("NEURON_LOGICAL_NC_CONFIG", j->lnc);
    set_capture_environment(j);
    if (a->dge >= 0)
        set_u64("NEURON_RT_ENABLE_DGE_NOTIFICATIONS", (uint64_t)a->dge);
    if (rank == j->slow_rank)
        (void)setenv("KYMO_SIM_SLOW_FACTOR", j->slow_factor, 1);
    if (rank == 0 && j->fail_execution)
        set_u64("KYMO_SIM_FAIL_EXECUTION", j->fail_execution);
    for (size_t i = 0; i < a->buffers.n; i++) {
        const char *item = a->buffers.items[i], *eq = strchr(item, '=');
        char name[96];

        (void)snprintf(name, sizeof name, "NEURON_RT_PROFILE_BUF_%.*s_MB", (int)(eq - item), item);
        (void)setenv(name, eq + 1, 1);
    }
}

static void start_rank_here(const struct job *j, uint64_t rank)
{
    const struct args *a = j->args;
    char steps[24], number[24];
    const char *argv[ARGS_MAX + KYMO_OPTION_LIST_MAX * 2];
    size_t n = 0;

    (void)snprintf(steps, sizeof steps, "%llu", (unsigned long long)a->steps);
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)rank);
    argv[n++] = a->linked ? j->linked : j->self;
    if (!a->linked)
        argv[n++] = "job";
    const char *const fixed[] = {"--steps", steps, "--rank", number, "--output", j->captures};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        argv[n++] = fixed[i];
    for (size_t i = 0; i < a->neffs.n; i++) {
        argv[n++] = "--neff";
        argv[n++] = a->neffs.items[i];
    }
    if (j->mode == MODE_CONTINUOUS || (j->mode == MODE_SESSION && a->capture_steps)) {
        argv[n++] = "--capture";
        argv[n++] = j->mode == MODE_CONTINUOUS ? "continuous" : "session";
    }
    if (a->capture_steps) {
        argv[n++] = "--capture-steps";
        argv[n++] = a->capture_steps;
    }
    if (a->async)
        argv[n++] = "--async";
    argv[n] = NULL;
    set_environment(j, rank);
    (void)execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static int start_ranks(struct job *j, struct kymo_err *err)
{
    pid_t parent = getpid();

    for (uint64_t r = 0; r < j->args->ranks; r++) {
        pid_t pid = fork();

        if (pid == 0) {
            become_child(parent);
            start_rank_here(j, r);
        }
        if (pid < 0)
            return kymo_err_set(err, -errno, "no process for rank %llu: %s", (unsigned long long)r, strerror(errno));
        j->ranks[r] = j->pids[r] = pid;
    }
    return 0;
}

static void report(struct job *j, uint64_t rank, int status, int *worst)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);

    j->codes[rank] = code;
    if (code == 0)
        return;
    kymo_log(KYMO_LOG_ERROR, "rank %llu ended with %d%s", (unsigned long long)rank, code,
             code == 3 ? ": an execution failed" : "");
    if (code > *worst)
        *worst = code;
}

/* True: a rank still runs. Fills worst with the largest exit code. */
static bool reap(struct job *j, int *worst)
{
    bool running = false;

    for (uint64_t r = 0; r < j->args->ranks; r++) {
        int status;

        if (!j->ranks[r])
            continue;
        if (waitpid(j->ranks[r], &status, WNOHANG) == j->ranks[r]) {
            j->ranks[r] = 0;
            report(j, r, status, worst);
        } else {
            running = true;
        }
    }
    return running;
}

static void signal_ranks(const struct job *j, int signo)
{
    for (uint64_t r = 0; r < j->args->ranks; r++)
        if (j->ranks[r])
            (void)kill(j->ranks[r], signo);
}

/* A signal that asks this process to end asks the ranks first; those that do not listen are killed after a while. */
static int wait_for_ranks(struct job *j, const sigset_t *stop)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    uint64_t deadline = UINT64_MAX;
    int worst = 0;

    while (reap(j, &worst)) {
        int signo = sigtimedwait(stop, NULL, &pause);

        if (signo > 0 && signo != SIGCHLD) {
            j->stop_signal = signo;
            signal_ranks(j, SIGTERM);
            deadline = kymo_clock_mono_ns() + STOP_TIMEOUT_NS;
        }
        if (kymo_clock_mono_ns() > deadline)
            signal_ranks(j, SIGKILL);
    }
    return worst;
}

/* Profiles that a rank with this exit code must have left. A continuous capture's are named by the job, which hears
 * itself whether they were written. */
static uint64_t expected_captures(const struct job *j, int code)
{
    bool failed = code == 3;

    switch (j->mode) {
    case MODE_MODEL:
        return failed ? 0 : j->args->neffs.n;
    case MODE_SESSION:
        return failed ? 0 : j->windows ? j->windows : 1;
    case MODE_ON_FAILURE:
        return failed;
    default:
        return 0;
    }
}

static int check_rank_captures(const struct job *j, uint64_t rank)
{
    uint64_t want = expected_captures(j, j->codes[rank]);
    struct sim_captures have = {0};
    struct kymo_err err = {0};

    if (j->codes[rank] != 0 && j->codes[rank] != 3)
        return 0;
    if (sim_captures_count(j->captures, j->pids[rank], &have, &err) < 0) {
        kymo_log(KYMO_LOG_ERROR, "%s", err.text);
        return 1;
    }
    if (have.empty)
        kymo_log(KYMO_LOG_WARNING, "rank %llu: %zu captures are empty: nothing was executed in them",
                 (unsigned long long)rank, have.empty);
    if (have.written + have.empty >= want)
        return 0;
    kymo_log(KYMO_LOG_ERROR, "rank %llu: %zu of %llu captures were written; the runtime said why",
             (unsigned long long)rank, have.written + have.empty, (unsigned long long)want);
    return 1;
}

static int check_captures(const struct job *j)
{
    int code = 0;

    for (uint64_t r = 0; r < j->args->ranks; r++)
        if (check_rank_captures(j, r) != 0)
            code = 1;
    return code;
}

static void stop_device(struct job *j)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    uint64_t deadline = kymo_clock_mono_ns() + STOP_TIMEOUT_NS;

    if (!j->device)
        return;
    (void)kill(j->device, SIGTERM);
    while (waitpid(j->device, NULL, WNOHANG) == 0) {
        if (kymo_clock_mono_ns() > deadline)
            (void)kill(j->device, SIGKILL);
        (void)nanosleep(&pause, NULL);
    }
    j->device = 0;
}

static int run(struct job *j)
{
    struct kymo_err err = {0};
    sigset_t stop;
    int worst = 0, r;

    (void)sigemptyset(&stop);
    (void)sigaddset(&stop, SIGINT);
    (void)sigaddset(&stop, SIGTERM);
    (void)sigaddset(&stop, SIGHUP);
    (void)sigaddset(&stop, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &stop, NULL);
    r = prepare(j, &err);
    if (r == 0)
        r = start_device(j, &err);
    if (r == 0)
        r = start_ranks(j, &err);
    if (r < 0) {
        kymo_log(KYMO_LOG_ERROR, "%s", err.text);
        signal_ranks(j, SIGTERM);
    }
    worst = wait_for_ranks(j, &stop);
    stop_device(j);
    if (j->temporary[0] && kymo_file_remove_tree(j->temporary, &err) < 0)
        kymo_log(KYMO_LOG_WARNING, "%s, ignoring", err.text);
    if (j->stop_signal)
        return 128 + j->stop_signal;
    if (r == 0 && (worst == 0 || worst == 3) && check_captures(j) != 0)
        return 1;
    return r < 0 ? 1 : worst;
}

int sim_cmd_run_main(int argc, char **argv)
{
    struct args args;
    struct job *j;
    struct kymo_err err = {0};
    int code = kymo_options_main(&spec, argc, argv, &args);

    if (code >= 0)
        return code;
    kymo_log_init("kymo-sim run", KYMO_LOG_INFO);
    j = KYMO_NEW(struct job);
    if (!j)
        return 1;
    j->args = &args;
    if (check_arguments(j, &err) < 0) {
        (void)fprintf(stderr, "kymo-sim run: %s; see kymo-sim run --help\n", err.text);
        code = 2;
    } else {
        code = run(j);
    }
    kymo_free(j);
    return code;
}
