#include "collector/runner_child.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

/* Descriptors of the parent can be anywhere, so those to keep are first moved out of the way of 0 to 3. */
#define SAFE_FD 16

static _Noreturn void give_up(const char *what)
{
    (void)dprintf(STDERR_FILENO, "%s: %s\n", what, strerror(errno));
    _exit(RUNNER_EXIT_NOT_STARTED);
}

static void set_descriptors(int progress, int words)
{
    int p = fcntl(progress, F_DUPFD, SAFE_FD), w = fcntl(words, F_DUPFD, SAFE_FD);
    int null = kymo_file_ops()->open("/dev/null", O_RDWR, 0);
    if (w < 0 || dup2(w, STDERR_FILENO) < 0)
        _exit(RUNNER_EXIT_NOT_STARTED);
    if (p < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        dup2(p, RUNNER_PROGRESS_FD) < 0 || close_range(RUNNER_PROGRESS_FD + 1, ~0u, 0) < 0)
        give_up("cannot set up its descriptors");
}

static void reset_signals(void)
{
    sigset_t none;
    for (int s = 1; s < NSIG; s++)
        if (s != SIGKILL && s != SIGSTOP)
            (void)signal(s, SIG_DFL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static void limit(__rlimit_resource_t what, uint64_t value, bool set)
{
    /* A second between them: the signal that only this limit sends (SIGXCPU) comes before the last one. */
    struct rlimit l = {.rlim_cur = value, .rlim_max = value + (what == RLIMIT_CPU)};
    if (set && setrlimit(what, &l) < 0)
        give_up("cannot set its limits");
}

/* When memory runs out, it is this process that the kernel should choose, not its parent. */
static void offer_to_oom_killer(void)
{
    static const char score[] = "500";
    int fd = kymo_file_ops_system.open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    /* Where it may not be told, the kernel chooses as it does. */
    (void)!kymo_file_ops_system.pwrite(fd, score, sizeof score - 1, 0);
    kymo_file_close(fd);
}

static void set_limits(const struct runner_limits *l)
{
    limit(RLIMIT_AS, l->memory, l->memory > 0);
    limit(RLIMIT_FSIZE, l->file_size, l->file_size > 0);
    limit(RLIMIT_CPU, l->cpu_s, l->cpu_s > 0);
    limit(RLIMIT_NOFILE, l->descriptors, l->descriptors > 0);
    /* A core file would hold trace bytes, and as much memory as the limit. */
    limit(RLIMIT_CORE, 0, true);
}

/* Sockets of the machine itself stay: without them much of libc cannot even look up a user's name. */
static void forbid_network(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int r = filter ? 0 : -ENOMEM;
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_NE, AF_UNIX, 0));
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(io_uring_setup), 0);
    if (r == 0)
        r = seccomp_load(filter);
    seccomp_release(filter);
    if (r < 0) {
        errno = -r;
        give_up("cannot forbid it the network");
    }
}

_Noreturn void runner_child(const struct runner_spec *spec, pid_t parent, int progress, int words)
{
    reset_signals();
    set_descriptors(progress, words);
    (void)setpgid(0, 0);
    /* Whoever kills the parent must not leave its children at work. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(RUNNER_EXIT_NOT_STARTED);
    (void)umask(022);
    if (spec->directory && chdir(spec->directory) < 0)
        give_up(spec->directory);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        give_up("cannot give up new privileges");
    forbid_network();
    offer_to_oom_killer();
    set_limits(&spec->limits);
    (void)execvpe(spec->argv[0], spec->argv, spec->envp);
    give_up(spec->argv[0]);
}
