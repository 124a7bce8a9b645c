#include "tests/unit/hook_run.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"

#define LIMIT_NS 30000000000ull

void hook_run_init(struct hook_run *r)
{
    memset(r, 0, sizeof *r);
    r->out = -1;
    (void)snprintf(r->dir, sizeof r->dir, "/tmp/kymo-hook.XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    (void)snprintf(r->intake, sizeof r->intake, "%s/intake", r->dir);
    (void)snprintf(r->sysfs, sizeof r->sysfs, "%s/sysfs", r->dir);
    assert_int_equal(mkdir(r->intake, 0777), 0);
}

void hook_run_done(struct hook_run *r)
{
    if (r->pid > 0) {
        (void)kill(r->pid, SIGKILL);
        (void)waitpid(r->pid, NULL, 0);
    }
    if (r->out >= 0)
        (void)close(r->out);
    assert_int_equal(kymo_file_remove_tree(r->dir, NULL), 0);
}

static void become_job(const struct hook_run *r, bool hooked, const char *const *argv, const char *const *env, int out)
{
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(out, STDERR_FILENO);
    /* What the caller of the tests left open is not the job's: some tests look at its descriptors. */
    (void)close_range(STDERR_FILENO + 1, ~0u, 0);
    if (hooked) {
        (void)setenv("LD_PRELOAD", KYMO_TEST_HOOK, 1);
        (void)setenv("KYMO_SOCKET", r->dir, 1);
    }
    for (size_t i = 0; env && env[i]; i++)
        (void)putenv((char *)(uintptr_t)env[i]);
    /* The runtime's own profiling writes below the working directory unless it is told where. */
    if (chdir(r->dir) == 0)
        (void)execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

/* The output goes to a file: a pipe that nobody empties would stop the job. */
void hook_run_start(struct hook_run *r, bool hooked, const char *const *argv, const char *const *env)
{
    char path[96];

    (void)snprintf(path, sizeof path, "%s/output.txt", r->dir);
    if (r->out >= 0)
        (void)close(r->out);
    r->out = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    assert_true(r->out >= 0);
    r->n = 0;
    r->text[0] = 0;
    r->pid = fork();
    assert_true(r->pid >= 0);
    if (r->pid == 0)
        become_job(r, hooked, argv, env, r->out);
}

static void read_text(struct hook_run *r)
{
    ssize_t n = pread(r->out, r->text, sizeof r->text - 1, 0);

    r->n = n > 0 ? (size_t)n : 0;
    r->text[r->n] = 0;
}

static void pause_a_little(uint64_t deadline)
{
    assert_true(kymo_clock_mono_ns() < deadline);
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static bool has_ended(struct hook_run *r)
{
    int status;

    if (r->pid == 0)
        return true;
    if (waitpid(r->pid, &status, WNOHANG) != r->pid)
        return false;
    r->pid = 0;
    r->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
}

bool hook_run_wait_text(struct hook_run *r, const char *text)
{
    uint64_t deadline = kymo_clock_mono_ns() + LIMIT_NS;

    for (;;) {
        bool ended = has_ended(r);

        read_text(r);
        if (strstr(r->text, text) || ended)
            return strstr(r->text, text) != NULL;
        pause_a_little(deadline);
    }
}

void hook_run_wait(struct hook_run *r)
{
    uint64_t deadline = kymo_clock_mono_ns() + LIMIT_NS;

    while (!has_ended(r))
        pause_a_little(deadline);
    read_text(r);
}

static const char *wanted_end;
static size_t found;

static int look(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    size_t n = strlen(path), k = strlen(wanted_end);

    (void)ftw;
    if (type == FTW_F && st->st_size > 0 && n >= k && strcmp(path + n - k, wanted_end) == 0)
        found++;
    return 0;
}

size_t hook_run_files(const char *dir, const char *end)
{
    wanted_end = end;
    found = 0;
    (void)nftw(dir, look, 8, FTW_PHYS);
    return found;
}
