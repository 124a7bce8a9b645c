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

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "driver-iface/sim/sim_captures.h"
#include "driver-iface/sim/sim_run.h"
#include "driver-iface/sim/sim_subcommands.h"

#define ARGS_MAX 96u
#define READY_TIMEOUT_MS 30000
#define STOP_TIMEOUT_NS 15000000000ull /* between the polite signal and the last one */
#define POLL_NS 20000000
#define PID_LINE_MAX 48u

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
static int find_programs(struct sim_run *j, struct kymo_err *err)
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

static int prepare(struct sim_run *j, struct kymo_err *err)
{
    char captures[PATH_MAX];
    int r = find_programs(j, err);

    if (r == 0)
        r = format(captures, err, j->args.output, "/captures");
    if (r == 0)
        r = absolute(captures, j->captures, err);
    if (r == 0 && j->args.host.truth)
        r = absolute(j->args.host.truth, j->truth, err);
    if (r == 0 && j->args.host.sysfs)
        r = absolute(j->args.host.sysfs, j->sysfs, err);
    if (r == 0 && j->args.device && !realpath(j->args.device, j->socket))
        r = kymo_err_set(err, -errno, "--device %s: %s", j->args.device, strerror(errno));
    if (r < 0 || j->args.device)
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

/* sim_notices_parse has bounded the lists. */
static size_t add_list(const char **argv, size_t n, const char *option, const struct kymo_option_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        argv[n++] = option;
        argv[n++] = list->items[i];
    }
    return n;
}

static void start_device_here(const struct sim_run *j, int ready)
{
    char lnc[8], seed[24], fd[12];
    const char *argv[ARGS_MAX + 2 * SIM_NOTICES_MAX] = {j->self,   "device",     "--socket",
                                                        j->socket, "--instance", j->args.host.type};
    size_t n = 6;

    (void)snprintf(lnc, sizeof lnc, "%u", j->args.host.lnc);
    (void)snprintf(seed, sizeof seed, "%llu", (unsigned long long)j->args.host.seed);
    (void)snprintf(fd, sizeof fd, "%d", ready);
    const char *const fixed[] = {"--lnc", lnc, "--seed", seed, "--ready-fd", fd};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        argv[n++] = fixed[i];
    const char *const texts[][2] = {{"--driver", j->args.host.driver}, {"--truth", j->truth}, {"--sysfs", j->sysfs}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i][1] && texts[i][1][0]) {
            argv[n++] = texts[i][0];
            argv[n++] = texts[i][1];
        }
    if (j->args.host.drift)
        argv[n++] = "--drift";
    n = add_list(argv, n, "--throttle", &j->args.host.throttle_texts);
    n = add_list(argv, n, "--notice", &j->args.host.notice_texts);
    (void)fcntl(ready, F_SETFD, 0);
    (void)execv(j->self, (char *const *)(uintptr_t)argv);
    _exit(127);
}

static int start_device(struct sim_run *j, struct kymo_err *err)
{
    int pipes[2];
    struct pollfd p;
    char byte;
    pid_t parent = getpid();
    ssize_t n = 0;

    if (j->args.device)
        return 0;
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

static void set_capture_environment(const struct sim_run *j)
{
    bool by_environment = j->mode == SIM_RUN_MODEL || (j->mode == SIM_RUN_SESSION && !j->args.capture_steps);

    (void)unsetenv("NEURON_RT_INSPECT_ENABLE");
    (void)unsetenv("NEURON_RT_INSPECT_ON_FAIL");
    (void)unsetenv("NEURON_RT_INSPECT_DEVICE_PROFILE");
    (void)setenv("NEURON_RT_INSPECT_OUTPUT_DIR", j->captures, 1);
    if (by_environment) {
        (void)setenv("NEURON_RT_INSPECT_ENABLE", "1", 1);
        (void)setenv("NEURON_RT_INSPECT_SYSTEM_PROFILE", j->args.system ? "1" : "0", 1);
        (void)setenv("NEURON_RT_INSPECT_CPU_UTIL", j->args.system ? "1" : "0", 1);
        (void)setenv("NEURON_RT_INSPECT_HOST_MEMORY", j->args.system ? "1" : "0", 1);
    }
    if (j->mode == SIM_RUN_ON_FAILURE)
        (void)setenv("NEURON_RT_INSPECT_ON_FAIL", "1", 1);
    if (by_environment || j->mode == SIM_RUN_ON_FAILURE)
        (void)setenv("NEURON_RT_INSPECT_DEVICE_PROFILE", j->mode == SIM_RUN_SESSION ? "session" : "model", 1);
}

static void set_environment(const struct sim_run *j, uint64_t rank)
{
    const struct sim_run_args *a = &j->args;
    char job[32];

    (void)setenv("KYMO_SIM_SOCKET", j->socket, 1);
    (void)setenv("KYMO_LIBNRT", j->library, 1);
    (void)setenv("LD_LIBRARY_PATH", j->library_dir, 1);
    set_u64("RANK", rank);
    set_u64("LOCAL_RANK", rank);
    set_u64("WORLD_SIZE", a->ranks);
    (void)snprintf(job, sizeof job, "127.0.0.1:%d", (int)getppid());
    (void)setenv("NEURON_RT_ROOT_COMM_ID", job, 0); /* this process is one job */
    set_u64("NEURON_RT_VISIBLE_CORES", a->first_core + rank);
    set_u64("NEURON_LOGICAL_NC_CONFIG", a->host.lnc);
    if (j->sysfs[0])
        (void)setenv("KYMO_SYSFS", j->sysfs, 1);
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

/* Appends "--name value"; value NULL: not asked for. */
static void add_text(const char **argv, size_t *n, const char *name, const char *value)
{
    if (!value)
        return;
    argv[(*n)++] = name;
    argv[(*n)++] = value;
}

static void start_rank_here(const struct sim_run *j, uint64_t rank)
{
    const struct sim_run_args *a = &j->args;
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {{"--steps", a->steps},     {"--rank", rank},          {"--ranks", a->ranks},
                   {"--step-ms", a->step_ms}, {"--helpers", a->helpers}, {"--ballast", a->ballast}};
    char texts[sizeof numbers / sizeof *numbers][24];
    const char *argv[ARGS_MAX + KYMO_OPTION_LIST_MAX * 2];
    size_t n = 0;

    argv[n++] = a->linked ? j->linked : j->self;
    if (!a->linked)
        argv[n++] = "job";
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "%llu", (unsigned long long)numbers[i].value);
        add_text(argv, &n, numbers[i].name, texts[i]);
    }
    add_text(argv, &n, "--output", j->captures);
    for (size_t i = 0; i < a->neffs.n; i++)
        add_text(argv, &n, "--neff", a->neffs.items[i]);
    if (j->mode == SIM_RUN_CONTINUOUS || (j->mode == SIM_RUN_SESSION && a->capture_steps))
        add_text(argv, &n, "--capture", j->mode == SIM_RUN_CONTINUOUS ? "continuous" : "session");
    add_text(argv, &n, "--capture-steps", a->capture_steps);
    add_text(argv, &n, "--fork-at", a->fork_at);
    add_text(argv, &n, "--exec-at", a->exec_at);
    if (a->async)
        argv[n++] = "--async";
    if (a->system)
        argv[n++] = "--system";
    if (a->handle_signals)
        argv[n++] = "--handle-signals";
    argv[n] = NULL;
    set_environment(j, rank);
    (void)execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static int write_pids(const struct sim_run *j, struct kymo_err *err)
{
    char *text KYMO_FREE = kymo_calloc(j->args.ranks, PID_LINE_MAX);
    size_t n = 0;

    if (!text)
        return kymo_err_set(err, -ENOMEM, "no memory for %llu lines", (unsigned long long)j->args.ranks);
    for (uint64_t r = 0; r < j->args.ranks; r++)
        n += (size_t)snprintf(text + n, PID_LINE_MAX, "%llu %ld\n", (unsigned long long)r, (long)j->pids[r]);
    return kymo_file_write_atomic(j->args.pids, text, n, err);
}

static int start_ranks(struct sim_run *j, struct kymo_err *err)
{
    pid_t parent = getpid();

    for (uint64_t r = 0; r < j->args.ranks; r++) {
        pid_t pid = fork();

        if (pid == 0) {
            become_child(parent);
            start_rank_here(j, r);
        }
        if (pid < 0)
            return kymo_err_set(err, -errno, "no process for rank %llu: %s", (unsigned long long)r, strerror(errno));
        j->ranks[r] = j->pids[r] = pid;
    }
    return j->args.pids ? write_pids(j, err) : 0;
}

static void report(struct sim_run *j, uint64_t rank, int status, int *worst)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);

    j->codes[rank] = code;
    if (code == 0)
        return;
    kymo_log(KYMO_LOG_ERROR, "rank %llu ended with %d%s", (unsigned long long)rank, code,
             code == 3   ? ": an execution failed"
             : code == 4 ? ": it handled a signal"
                         : "");
    if (code > *worst)
        *worst = code;
}

/* True: a rank still runs. Fills worst with the largest exit code. */
static bool reap(struct sim_run *j, int *worst)
{
    bool running = false;

    for (uint64_t r = 0; r < j->args.ranks; r++) {
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

static void signal_ranks(const struct sim_run *j, int signo)
{
    for (uint64_t r = 0; r < j->args.ranks; r++)
        if (j->ranks[r])
            (void)kill(j->ranks[r], signo);
}

/* A signal that asks this process to end asks the ranks first; those that do not listen are killed after a while. */
static int wait_for_ranks(struct sim_run *j, const sigset_t *stop)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    uint64_t deadline = UINT64_MAX;
    int worst = 0;

    while (reap(j, &worst)) {
        int signo = sigtimedwait(stop, NULL, &pause);

        if (signo > 0 && signo != SIGCHLD) {
            j->stop_signal = signo;
            signal_ranks(j, signo == SIGINT ? SIGINT : SIGTERM);
            deadline = kymo_clock_mono_ns() + STOP_TIMEOUT_NS;
        }
        if (kymo_clock_mono_ns() > deadline)
            signal_ranks(j, SIGKILL);
    }
    return worst;
}

/* Profiles that a rank with this exit code must have left. A continuous capture's are named by the job, which hears
 * itself whether they were written. */
static uint64_t expected_captures(const struct sim_run *j, int code)
{
    bool failed = code == 3;

    switch (j->mode) {
    case SIM_RUN_MODEL:
        return failed ? 0 : j->args.neffs.n;
    case SIM_RUN_SESSION:
        return failed ? 0 : j->windows ? j->windows : 1;
    case SIM_RUN_ON_FAILURE:
        return failed;
    default:
        return 0;
    }
}

static int check_rank_captures(const struct sim_run *j, uint64_t rank)
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

static int check_captures(const struct sim_run *j)
{
    int code = 0;

    for (uint64_t r = 0; r < j->args.ranks; r++)
        if (check_rank_captures(j, r) != 0)
            code = 1;
    return code;
}

static void stop_device(struct sim_run *j)
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

static int run(struct sim_run *j)
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
    struct sim_run *j = KYMO_NEW(struct sim_run);
    int code;

    if (!j)
        return 1;
    code = sim_run_parse(argc, argv, j);
    if (code < 0) {
        kymo_log_init("kymo-sim run", KYMO_LOG_INFO);
        code = run(j);
    }
    kymo_free(j);
    return code;
}
