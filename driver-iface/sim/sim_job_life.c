#include "driver-iface/sim/sim_job_life.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull
#define COMMAND_LINE_MAX 65536u
#define ARGS_MAX 1024u

static volatile sig_atomic_t signalled;
static volatile pid_t successor; /* the child that goes on for this process */

static void note(int signo)
{
    signalled = signo;
    if (successor > 0)
        (void)kill(successor, signo);
}

void sim_job_handle_signals(void)
{
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};

    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

int sim_job_signal(void)
{
    return signalled;
}

void sim_job_pace(uint64_t period_ms, uint64_t *next_ns)
{
    uint64_t now = kymo_clock_mono_ns();

    *next_ns += period_ms * NS_PER_MS;
    if (*next_ns < now)
        *next_ns = now; /* a step that was late does not make the next ones early */
    (void)clock_nanosleep(
        CLOCK_MONOTONIC, TIMER_ABSTIME,
        &(struct timespec){.tv_sec = (time_t)(*next_ns / NS_PER_S), .tv_nsec = (long)(*next_ns % NS_PER_S)}, NULL);
}

static int wait_for(pid_t pid, int *ret_code, struct kymo_err *err)
{
    int status = 0;
    pid_t r;

    do
        r = waitpid(pid, &status, 0);
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return kymo_err_set(err, -errno, "no child to wait for: %s", strerror(errno));
    *ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return 0;
}

static void say(const char *text)
{
    size_t n = strlen(text);

    if (write(STDOUT_FILENO, text, n) != (ssize_t)n)
        _exit(1);
}

static int helper(const char *text, bool program, struct kymo_err *err)
{
    int code = 0, r;
    pid_t pid;

    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) {
        if (!program) {
            say(text);
            _exit(0);
        }
        (void)execl("/bin/sh", "sh", "-c", "printf %s \"$1\"", "sh", text, (char *)NULL);
        _exit(127);
    }
    if (pid < 0)
        return kymo_err_set(err, -errno, "no helper: %s", strerror(errno));
    r = wait_for(pid, &code, err);
    if (r == 0 && code != 0)
        r = kymo_err_set(err, -EIO, "a helper ended with %d", code);
    return r;
}

int sim_job_helpers(uint64_t rank, uint64_t step, struct kymo_err *err)
{
    static const char *const names[] = {"forked child", "program"};
    int r = 0;

    for (int i = 0; r == 0 && i < 2; i++) {
        char text[96];

        (void)snprintf(text, sizeof text, "rank %llu step %llu: %s\n", (unsigned long long)rank,
                       (unsigned long long)step, names[i]);
        r = helper(text, i == 1, err);
    }
    return r;
}

int sim_job_fork(int *ret_code, struct kymo_err *err)
{
    pid_t parent = getpid(), pid;
    sigset_t all, before;
    int r;

    (void)fflush(stdout);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before); /* a signal finds the child known, or comes later */
    pid = fork();
    if (pid == 0)
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    else
        successor = pid;
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid == 0 && getppid() != parent)
        _exit(1);
    if (pid < 0)
        return kymo_err_set(err, -errno, "no child: %s", strerror(errno));
    *ret_code = -1;
    r = pid == 0 ? 0 : wait_for(pid, ret_code, err);
    successor = 0;
    return r;
}

int sim_job_exec(uint64_t step, struct kymo_err *err)
{
    char line[COMMAND_LINE_MAX], self[PATH_MAX], number[24];
    char *argv[ARGS_MAX + 3], first_step[] = "--first-step";
    int fd KYMO_CLOSE = kymo_file_open("/proc/self/cmdline", O_RDONLY, 0, err);
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1), got = 1;
    size_t n = 0, used = 0;

    if (fd < 0)
        return fd;
    while (got > 0 && used < sizeof line - 1) {
        got = read(fd, line + used, sizeof line - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    }
    if (length <= 0 || got != 0)
        return kymo_err_set(err, -E2BIG, "cannot find how this program was started");
    self[length] = 0;
    line[used] = 0;
    for (char *p = line; p < line + used && n < ARGS_MAX; p += strlen(p) + 1)
        argv[n++] = p;
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)step);
    argv[n++] = first_step;
    argv[n++] = number;
    argv[n] = NULL;
    (void)fflush(stdout);
    (void)execv(self, argv);
    return kymo_err_set(err, -errno, "%s: %s", self, strerror(errno));
}
