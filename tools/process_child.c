#include "tools/process_child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/sibling.h"
#include "tools/process_progress.h"

#define LINE_MAX_BYTES 1024

/* "key":123 or "key":"text" of a line that kymo-process wrote. */
static const char *find_value(const char *line, const char *key)
{
    char quoted[32];
    (void)snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *p = strstr(line, quoted);
    return p ? p + strlen(quoted) : NULL;
}

static size_t terminal_width(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static void show_line(struct process_progress *p, const char *line)
{
    char stage[32], out[PROCESS_PROGRESS_MAX];
    const char *name = find_value(line, "stage"), *done = find_value(line, "done"), *total = find_value(line, "total");
    if (!name || *name != '"' || !done || !total)
        return;
    (void)snprintf(stage, sizeof stage, "%.*s", (int)strcspn(name + 1, "\""), name + 1);
    (void)process_progress_line(p, stage, strtoull(done, NULL, 10), strtoull(total, NULL, 10), kymo_clock_mono_ns(),
                                out);
    (void)fprintf(stderr, "\r\033[K%s", out);
}

/* Where stderr is no terminal, there is nothing to watch: the place of the tables or an error is what is printed. */
static void follow(int fd, const char *name)
{
    bool terminal = isatty(STDERR_FILENO);
    struct process_progress progress;
    FILE *f = fdopen(fd, "r");
    if (!f) {
        kymo_file_close(fd);
        return;
    }
    process_progress_init(&progress, name, terminal ? terminal_width() : 0, kymo_clock_mono_ns());
    char line[LINE_MAX_BYTES];
    while (fgets(line, sizeof line, f))
        if (terminal)
            show_line(&progress, line);
    if (terminal)
        (void)fprintf(stderr, "\r\033[K");
    (void)fclose(f);
}

/* argv of the child; strings stay the caller's but for the two numbers. */
static char **make_argv(const struct process_child *c, const char *fd, const char *split)
{
    char **argv = KYMO_NEW_ARRAY(char *, 2 * (c->neff_count + c->device_count + c->settings->n) + 16);
    size_t n = 0;
    if (!argv)
        return NULL;
#define ADD(s) argv[n++] = (char *)(size_t)(s)
    ADD("kymo-process");
    ADD(c->system ? "--system" : "--ntff");
    ADD(c->system ? c->system : c->ntff);
    for (size_t i = 0; i < c->device_count; i++) {
        ADD("--device");
        ADD(c->devices[i]);
    }
    for (size_t i = 0; i < c->neff_count; i++) {
        ADD("--neff");
        ADD(c->neffs[i]);
    }
    ADD("--output");
    ADD(c->output);
    ADD("--name");
    ADD(c->name);
    ADD("--progress-fd");
    ADD(fd);
    ADD("--split-rows");
    ADD(split);
    if (c->manifest) {
        ADD("--manifest");
        ADD(c->manifest);
    }
    for (size_t i = 0; i < c->settings->n; i++) {
        ADD("--set");
        ADD(c->settings->items[i]);
    }
#undef ADD
    return argv;
}

static volatile sig_atomic_t stopped;
static volatile pid_t child; /* 0: none */

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
    if (child > 0)
        (void)kill(child, SIGTERM);
}

void process_child_catch_signals(void)
{
    static const int stops[] = {SIGTERM, SIGINT, SIGHUP};
    const struct sigaction stop = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct sigaction old;
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++)
        if (sigaction(stops[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            (void)sigaction(stops[i], &stop, NULL);
}

bool process_child_stopped(void)
{
    return stopped;
}

static int wait_for(pid_t pid, const char *program, struct kymo_err *err)
{
    int status;
    child = pid;
    /* A signal that came before the child was known. */
    if (stopped)
        (void)kill(pid, SIGTERM);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return kymo_err_set(err, -errno, "cannot wait for %s: %s", program, strerror(errno));
    child = 0;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    /* Our own signal, before the child could take it as a wish. */
    if (stopped && WTERMSIG(status) == SIGTERM)
        return kymo_err_set(err, -ECANCELED, "%s: stopped on request; nothing was written", program);
    return kymo_err_set(err, -EINTR, "%s was ended by signal %d; nothing was written", program, WTERMSIG(status));
}

/* A signal that kymo-process cannot catch leaves its work directory (pipeline/output_dir.c), which is of no use. */
static void clean_up(const char *output, pid_t pid, struct kymo_err *err)
{
    size_t n = strlen(output);
    while (n > 1 && output[n - 1] == '/')
        n--;
    char *work KYMO_FREE = kymo_asprintf("%.*s.tmp-%ld", (int)n, output, (long)pid);
    if (work && kymo_file_remove_tree(work, NULL) == 0)
        return;
    (void)kymo_err_set(err, -EINTR, "kymo-process was ended by a signal; what it wrote so far is still in %.400s",
                       work ? work : output);
}

static void run_child(const char *path, char **argv, pid_t parent)
{
    /* The child must not outlive the command that a user ended. */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(1);
    (void)execv(path, argv);
    (void)fprintf(stderr, "kymo process: cannot run %s: %s\n", path, strerror(errno));
    _exit(1);
}

int process_child_run(const struct process_child *c, struct kymo_err *err)
{
    char path[PATH_MAX], fd[16], split[32];
    int r = sibling_path("kymo-process", path, err);
    if (r < 0)
        return r;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return kymo_err_set(err, -errno, "cannot make a pipe: %s", strerror(errno));
    (void)snprintf(fd, sizeof fd, "%d", ends[1]);
    (void)snprintf(split, sizeof split, "%" PRIu64, c->split_rows);
    char **argv = make_argv(c, fd, split);
    pid_t parent = getpid(), pid = argv ? fork() : -1;
    if (pid == 0) {
        (void)fcntl(ends[1], F_SETFD, 0);
        run_child(path, argv, parent);
    }
    r = pid < 0 ? kymo_err_set(err, argv ? -errno : -ENOMEM, "cannot start kymo-process") : 0;
    kymo_file_close(ends[1]);
    kymo_free(argv);
    if (r < 0) {
        kymo_file_close(ends[0]);
        return r;
    }
    child = pid;
    if (stopped)
        (void)kill(pid, SIGTERM);
    follow(ends[0], c->name);
    r = wait_for(pid, "kymo-process", err);
    if (r == -EINTR)
        clean_up(c->output, pid, err);
    return r;
}

int process_child_exec(const char *program, const char *const *argv, struct kymo_err *err)
{
    char path[PATH_MAX];
    int r = sibling_path(program, path, err);
    if (r < 0)
        return r;
    /* What was printed so far comes before what the child prints. */
    (void)fflush(stdout);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        run_child(path, (char **)(size_t)argv, parent);
    return pid < 0 ? kymo_err_set(err, -errno, "cannot start %s", program) : wait_for(pid, program, err);
}
