/* One child in its sandbox: limits, network, descriptors, process group, what it says, and its end with its parent. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <poll.h>

#include "base/clock.h"
#include "collector/runner.h"

static struct runner_report report;
static bool keeper;
static char *const env[] = {(char *)(size_t) "PATH=/usr/bin:/bin", NULL};

static void wait_for(struct runner *r, int ms)
{
    int fds[3];
    struct pollfd polls[3];
    size_t n = runner_fds(r, fds);
    for (size_t i = 0; i < n; i++)
        polls[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    (void)poll(polls, (nfds_t)n, ms);
}

/* Runs a shell script to its end. */
static enum runner_state run(const char *script, struct runner_limits limits, int *status)
{
    char *argv[] = {(char *)(size_t) "sh", (char *)(size_t) "-c", (char *)(size_t)script, NULL};
    const struct runner_spec spec = {
        .argv = argv, .envp = env, .directory = "/tmp", .limits = limits, .keeper = keeper};
    struct runner *r;
    struct kymo_err err = {0};
    enum runner_state s;
    if (runner_start(&spec, &r, &err) < 0)
        fail_msg("%s", err.text);
    while ((s = runner_turn(r, status)) == RUNNER_RUNNING)
        wait_for(r, runner_left_ms(r) >= 0 ? (int)runner_left_ms(r) : 10000);
    report = *runner_report(r);
    runner_free(r);
    return s;
}

static const struct runner_limits none = {.wall_ms = 20000};

static void assert_exit(const char *script, struct runner_limits limits, int code)
{
    int status = -1;
    assert_int_equal(run(script, limits, &status), RUNNER_EXITED);
    if (status != code)
        fail_msg("%s: exit code %d, not %d: %s", script, status, code, report.reason);
}

static void takes_what_it_says(void **state)
{
    (void)state;
    assert_exit("echo '{\"event\":\"progress\",\"stage\":\"dma\",\"done\":5,\"total\":9}' >&3", none, 0);
    assert_string_equal(report.stage, "dma");
    assert_true(report.done == 5 && report.total == 9 && !report.finished && !report.failed);
    assert_exit("echo '{\"event\":\"done\",\"records\":77}' >&3", none, 0);
    assert_true(report.finished && report.records == 77);
    assert_exit("echo first >&2; echo '{\"event\":\"failed\",\"code\":-71,\"reason\":\"bad\",\"offset\":12}' >&3; "
                "echo last >&2; exit 1",
                none, 1);
    assert_true(report.failed && report.code == -71 && report.offset == 12);
    assert_string_equal(report.reason, "bad");
    assert_exit("echo first >&2; echo second >&2; echo >&2; exit 4", none, 4);
    assert_string_equal(report.reason, "second");
    assert_int_equal(report.offset, -1);
    assert_exit("printf 'no end\\001\\303' >&2; exit 4", none, 4);
    assert_string_equal(report.reason, "no end??");
}

static void is_not_impressed_by_noise(void **state)
{
    (void)state;
    assert_exit(
        "head -c 3000000 /dev/zero | tr '\\0' x >&3; echo >&3; head -c 3000000 /dev/zero >&2; "
        "echo '[1,{}]' >&3; echo '{\"event\":7}' >&3; echo '{\"event\":\"progress\",\"stage\":\"s\",\"done\":-5}' >&3",
        none, 0);
    assert_string_equal(report.stage, "s");
    assert_int_equal(report.done, 0);
}

static void says_what_cannot_be_run(void **state)
{
    (void)state;
    char *argv[] = {(char *)(size_t) "/nonexistent/tool", NULL};
    const struct runner_spec spec = {.argv = argv, .envp = env, .keeper = keeper};
    struct runner *r;
    int status = 0;
    assert_int_equal(runner_start(&spec, &r, NULL), 0);
    while (runner_turn(r, &status) == RUNNER_RUNNING)
        wait_for(r, 1000);
    assert_int_equal(status, 126);
    assert_string_equal(runner_report(r)->reason, "/nonexistent/tool: No such file or directory");
    runner_free(r);
}

static void keeps_its_limits(void **state)
{
    (void)state;
    int status = 0;
    struct runner_limits l = none;
    l.file_size = 10000;
    assert_int_equal(run("f=$(mktemp); trap 'rm $f' EXIT; head -c 20000 /dev/zero >$f || exit 5", l, &status),
                     RUNNER_EXITED);
    assert_int_equal(status, 5);
    l = none;
    l.cpu_s = 1;
    assert_int_equal(run("while :; do :; done", l, &status), RUNNER_CPU_OVER);
    assert_true(status == SIGXCPU || status == SIGKILL);
    assert_int_equal(run("kill -KILL $$", l, &status), RUNNER_SIGNALLED);
    assert_true(status == SIGXCPU || status == SIGKILL);
    l = none;
    l.descriptors = 10;
    assert_exit("[ \"$(ulimit -n)\" = 10 ] && [ \"$(ulimit -c)\" = 0 ]", l, 0);
    l = none;
    l.memory = 64 << 20;
    assert_exit("[ \"$(ulimit -v)\" = 65536 ]", l, 0);
}

/* A process that nobody has reaped yet is over as well. */
static bool is_over(pid_t pid)
{
    char path[64], line[512] = "";
    (void)snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return true;
    const char *read_line = fgets(line, sizeof line, f);
    const char *end = read_line ? strrchr(line, ')') : NULL;
    (void)fclose(f);
    return !end || end[2] == 'Z' || end[2] == 'X';
}

static void assert_over(pid_t pid)
{
    assert_true(pid > 1);
    for (int i = 0; i < 5000 && !is_over(pid); i++)
        (void)usleep(1000);
    assert_true(is_over(pid));
}

static void ends_all_of_it_in_time(void **state)
{
    (void)state;
    int status = 0;
    struct runner_limits l = {.wall_ms = 200};
    uint64_t begin = kymo_clock_mono_ns();
    assert_int_equal(run("trap '' TERM INT; sleep 60 & echo $! >&2; wait", l, &status), RUNNER_TIMED_OUT);
    assert_true(kymo_clock_mono_ns() - begin < 10000000000u);
    pid_t grandchild = (pid_t)strtol(report.reason, NULL, 10);
    assert_over(grandchild);
}

/* Out of its group, its session and its parent's hands, with a child of its own that does not listen. */
#define RUNAWAY "(setsid sh -c 'trap \"\" TERM HUP; (setsid sleep 60)& echo $! >&2; wait' &) ; "

static void ends_what_has_left_its_group(void **state)
{
    (void)state;
    int status = 0;
    struct runner_limits l = {.wall_ms = 400};
    keeper = true;
    assert_int_equal(run(RUNAWAY "sleep 60", l, &status), RUNNER_TIMED_OUT);
    assert_over((pid_t)strtol(report.reason, NULL, 10));
    assert_exit(RUNAWAY "sleep 0.3; exit 5", none, 5);
    assert_over((pid_t)strtol(report.reason, NULL, 10));
    assert_int_equal(run(RUNAWAY "sleep 0.3; kill -TERM $PPID; sleep 60", none, &status), RUNNER_SIGNALLED);
    assert_int_equal(status, SIGTERM);
    assert_over((pid_t)strtol(report.reason, NULL, 10));
}

static void has_no_network_and_no_privileges(void **state)
{
    (void)state;
    assert_exit("grep -q '^NoNewPrivs:.*1' /proc/self/status && grep -q '^Seccomp:.*2' /proc/self/status", none, 0);
    assert_exit("exec 2>/dev/null; command -v bash >/dev/null || exit 0; "
                "bash -c 'exec 9<>/dev/tcp/127.0.0.1/1' 2>&1 | grep -q 'Permission denied'",
                none, 0);
}

static void gets_no_descriptors(void **state)
{
    (void)state;
    int fd = open("/dev/zero", O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_SETFD, 0), 0);
    /* ls has one more, for the directory. */
    assert_exit("[ \"$(echo $(ls /proc/self/fd))\" = '0 1 2 3 4' ]", none, 0);
    (void)close(fd);
}

static void stays_in_a_group_of_its_own(void **state)
{
    (void)state;
    assert_exit("read -r pid comm st ppid pgrp rest </proc/$$/stat; [ $pgrp = $$ ]", none, 0);
}

static void ends_with_its_parent(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t middle = fork();
    if (middle == 0) {
        char *argv[] = {(char *)(size_t) "sh", (char *)(size_t) "-c", (char *)(size_t) "exec sleep 60", NULL};
        struct runner *r;
        const struct runner_spec spec = {.argv = argv, .envp = env, .keeper = keeper};
        int started = runner_start(&spec, &r, NULL), status = 0;
        /* The child's number, once it is another program. */
        (void)usleep(100000);
        char text[32] = "";
        if (started == 0 && runner_turn(r, &status) == RUNNER_RUNNING) {
            int fds[3];
            (void)runner_fds(r, fds);
            char path[64], line[512];
            (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fds[0]);
            FILE *f = fopen(path, "r");
            while (f && fgets(line, sizeof line, f))
                if (!strncmp(line, "Pid:", 4))
                    (void)snprintf(text, sizeof text, "%ld", strtol(line + 4, NULL, 10));
        }
        ssize_t n = write(ends[1], text, sizeof text);
        (void)n;
        (void)kill(getpid(), SIGKILL);
    }
    char text[32] = "";
    assert_int_equal(read(ends[0], text, sizeof text), sizeof text);
    assert_int_equal(waitpid(middle, NULL, 0), middle);
    pid_t child = (pid_t)strtol(text, NULL, 10);
    assert_over(child);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_it_says),      cmocka_unit_test(is_not_impressed_by_noise),
        cmocka_unit_test(says_what_cannot_be_run), cmocka_unit_test(keeps_its_limits),
        cmocka_unit_test(ends_all_of_it_in_time),  cmocka_unit_test(has_no_network_and_no_privileges),
        cmocka_unit_test(gets_no_descriptors),     cmocka_unit_test(stays_in_a_group_of_its_own),
        cmocka_unit_test(ends_with_its_parent),
    };
    const struct CMUnitTest with_keeper[] = {
        cmocka_unit_test(takes_what_it_says),
        cmocka_unit_test(is_not_impressed_by_noise),
        cmocka_unit_test(says_what_cannot_be_run),
        cmocka_unit_test(ends_all_of_it_in_time),
        cmocka_unit_test(has_no_network_and_no_privileges),
        cmocka_unit_test(gets_no_descriptors),
        cmocka_unit_test(stays_in_a_group_of_its_own),
        cmocka_unit_test(ends_with_its_parent),
        cmocka_unit_test(ends_what_has_left_its_group),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    keeper = true;
    return failed + cmocka_run_group_tests(with_keeper, NULL, NULL);
}
