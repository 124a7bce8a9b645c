#include "collector/runner_keeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "collector/runner_child.h"

/* A turn kills one generation; one that forks on and on is given up after so many turns of so long. */
#define KILL_TURNS 1000
#define KILL_PAUSE_US 2000

static void kill_if_child(const char *name)
{
    char path[64], line[512];
    char *end;
    long pid = strtol(name, &end, 10), parent = 0;
    if (*end || pid <= 1 || snprintf(path, sizeof path, "/proc/%ld/stat", pid) >= (int)sizeof path)
        return;
    int fd KYMO_CLOSE = kymo_file_ops_system.open(path, O_RDONLY | O_CLOEXEC, 0);
    ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    if (n <= 0)
        return;
    line[n] = '\0';
    /* Behind the name, which may hold anything: state and parent. */
    const char *behind = strrchr(line, ')');
    if (behind && strlen(behind) > 4)
        parent = strtol(behind + 4, NULL, 10);
    /* A child that nobody but us can reap: its number is nobody else's. */
    if (parent == (long)getpid())
        (void)kill((pid_t)pid, SIGKILL);
}

static void kill_children(void)
{
    DIR *proc = opendir("/proc");
    if (!proc)
        return;
    for (const struct dirent *e; (e = readdir(proc));)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
            kill_if_child(e->d_name);
    (void)closedir(proc);
}

/* Reaps who has ended; the processor's status when it is one of them. False: there is no child any more. */
static bool reap_ended(pid_t processor, bool *ended, int *status)
{
    for (;;) {
        int s = 0;
        pid_t pid = waitpid(-1, &s, WNOHANG);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid <= 0)
            return pid == 0;
        if (pid == processor) {
            *ended = true;
            *status = s;
        }
    }
}

/* The children of one that dies become ours, and are killed in the next turn. */
static void kill_all(pid_t processor, bool ended)
{
    int status;
    /* Its group in one go; while it is not reaped its number cannot be another group's. */
    if (!ended)
        (void)kill(-processor, SIGKILL);
    for (unsigned i = 0; i < KILL_TURNS && reap_ended(processor, &ended, &status); i++) {
        kill_children();
        (void)usleep(KILL_PAUSE_US);
    }
}

static _Noreturn void end_like(int status)
{
    sigset_t none;
    (void)sigemptyset(&none);
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    (void)signal(WTERMSIG(status), SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)raise(WTERMSIG(status));
    _exit(128 + WTERMSIG(status));
}

/* Nothing of the parent stays here: no descriptor, no handler, and no core file of its memory. */
static void become_keeper(const sigset_t *taken)
{
    const struct rlimit no_core = {0};
    (void)sigprocmask(SIG_SETMASK, taken, NULL);
    for (int s = 1; s < NSIG; s++)
        if (s != SIGKILL && s != SIGSTOP)
            (void)signal(s, SIG_DFL);
    (void)setpgid(0, 0);
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)prctl(PR_SET_NAME, "kymo-keeper");
}

_Noreturn void runner_keeper(const struct runner_spec *spec, pid_t parent, int progress, int words)
{
    sigset_t taken;
    bool ended = false;
    int status = 0;
    (void)sigemptyset(&taken);
    (void)sigaddset(&taken, SIGCHLD);
    (void)sigaddset(&taken, SIGTERM);
    (void)sigaddset(&taken, SIGINT);
    (void)sigaddset(&taken, SIGHUP);
    become_keeper(&taken);
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || getppid() != parent)
        _exit(RUNNER_EXIT_NOT_STARTED);
    pid_t self = getpid(), processor = fork();
    if (processor == 0)
        runner_child(spec, self, progress, words);
    (void)close_range(0, ~0u, 0);
    if (processor < 0)
        _exit(RUNNER_EXIT_NOT_STARTED);
    (void)setpgid(processor, processor);
    while (reap_ended(processor, &ended, &status) && !ended) {
        int number = sigwaitinfo(&taken, NULL);
        if (number < 0 || number == SIGCHLD)
            continue;
        kill_all(processor, false);
        end_like(number); /* as a status: ended by that signal */
    }
    kill_all(processor, true);
    end_like(status);
}
