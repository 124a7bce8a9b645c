#include "collector/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/utf8.h"
#include "collector/runner_child.h"
#include "collector/runner_keeper.h"

struct line {
    char text[RUNNER_LINE_MAX];
    size_t n;
    bool too_long;
};

struct runner {
    pid_t pid;
    bool keeper;                /* it is one, and is asked to end; only one that does not is killed */
    int pidfd, progress, words; /* -1: closed */
    bool ended, timed_out;
    int status;
    uint64_t cpu_limit_ms, cpu_used_ms; /* 0: no limit */
    uint64_t deadline_ns;               /* 0: none */
    struct line progress_line, words_line;
    struct runner_report report;
};

static uint64_t get_u64(const json_t *object, const char *key)
{
    json_int_t v = json_integer_value(json_object_get(object, key));
    return v > 0 ? (uint64_t)v : 0;
}

/* One that nobody has room for is one that the table alone has. */
static void take_loss(struct runner_report *report, const json_t *line)
{
    const char *stage = json_string_value(json_object_get(line, "stage"));
    const char *ring = json_string_value(json_object_get(line, "ring"));
    const char *cause = json_string_value(json_object_get(line, "cause"));
    void *p = report->losses;
    if (!stage || !ring || !cause ||
        kymo_grow(&p, &report->loss_cap, report->loss_count + 1, LOSS_MAX, sizeof *report->losses) < 0)
        return;
    report->losses = p;
    struct loss *l = &report->losses[report->loss_count++];
    *l = (struct loss){.has_records = json_is_integer(json_object_get(line, "records")),
                       .has_emitted = json_is_integer(json_object_get(line, "emitted")),
                       .records = get_u64(line, "records"),
                       .emitted = get_u64(line, "emitted")};
    kymo_utf8_copy_plain(l->stage, sizeof l->stage, stage, strlen(stage));
    kymo_utf8_copy_plain(l->ring, sizeof l->ring, ring, strlen(ring));
    kymo_utf8_copy_plain(l->cause, sizeof l->cause, cause, strlen(cause));
}

static void take_progress(struct runner_report *report, const char *text)
{
    json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const char *event = json_string_value(json_object_get(line, "event"));
    const char *stage = json_string_value(json_object_get(line, "stage"));
    const char *reason = json_string_value(json_object_get(line, "reason"));
    if (event && !strcmp(event, "progress") && stage) {
        kymo_utf8_copy_plain(report->stage, sizeof report->stage, stage, strlen(stage));
        report->done = get_u64(line, "done");
        report->total = get_u64(line, "total");
    } else if (event && !strcmp(event, "done")) {
        report->finished = true;
        report->records = get_u64(line, "records");
    } else if (event && !strcmp(event, "loss")) {
        take_loss(report, line);
    } else if (event && !strcmp(event, "failed") && reason) {
        json_t *offset = json_object_get(line, "offset");
        report->failed = true;
        report->code = (int)json_integer_value(json_object_get(line, "code"));
        report->offset = json_is_integer(offset) ? (int64_t)get_u64(line, "offset") : -1;
        kymo_utf8_copy_plain(report->reason, sizeof report->reason, reason, strlen(reason));
    }
    json_decref(line);
}

/* The last line that says something, should the child give no other reason. */
static void take_words(struct runner_report *report, const char *text)
{
    if (!report->failed && text[strspn(text, " \t\r")])
        kymo_utf8_copy_plain(report->reason, sizeof report->reason, text, strlen(text));
}

static void end_line(struct runner *r, struct line *l)
{
    l->text[l->n] = '\0';
    if (l == &r->progress_line && !l->too_long)
        take_progress(&r->report, l->text);
    else if (l == &r->words_line)
        take_words(&r->report, l->text);
    l->n = 0;
    l->too_long = false;
}

static void take_bytes(struct runner *r, struct line *l, const char *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (data[i] == '\n')
            end_line(r, l);
        else if (l->n + 1 < sizeof l->text)
            l->text[l->n++] = data[i];
        else
            l->too_long = true;
    }
}

/* The kernel's limit and its account are taken from different clocks. */
#define CPU_SLACK_MS 100

/* A child that writes without end gets as much attention as others: a turn reads so much and no more. */
#define READS_PER_TURN 16

static void drain(struct runner *r, int *fd, struct line *l)
{
    char buf[4096];
    for (unsigned i = 0; i < READS_PER_TURN && *fd >= 0; i++) {
        ssize_t n = read(*fd, buf, sizeof buf);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n > 0) {
            take_bytes(r, l, buf, (size_t)n);
            continue;
        }
        if (l->n)
            end_line(r, l);
        *fd = kymo_file_close(*fd);
    }
}

static int make_pipe(int ends[2], struct kymo_err *err)
{
    if (pipe2(ends, O_CLOEXEC) < 0)
        return kymo_err_set(err, -errno, "cannot make a pipe: %s", strerror(errno));
    /* Only the reader: O_NONBLOCK belongs to the open file, and the writer's end is another one. */
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0)
        return 0;
    int code = errno;
    kymo_file_close(ends[0]);
    kymo_file_close(ends[1]);
    return kymo_err_set(err, -code, "cannot set up a pipe: %s", strerror(code));
}

static void runner_freep(struct runner **r)
{
    runner_free(*r);
}

static int start_child(struct runner *r, const struct runner_spec *spec, int progress, int words, struct kymo_err *err)
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0 && spec->keeper)
        runner_keeper(spec, parent, progress, words);
    if (pid == 0)
        runner_child(spec, parent, progress, words);
    if (pid < 0)
        return kymo_err_set(err, -errno, "cannot start a process: %s", strerror(errno));
    r->pid = pid;
    r->keeper = spec->keeper;
    /* Both do it, whoever comes first, so that the group is there before anyone wants to end it. */
    (void)setpgid(pid, pid);
    r->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (r->pidfd < 0)
        return kymo_err_set(err, -errno, "cannot watch a process: %s", strerror(errno));
    (void)fcntl(r->pidfd, F_SETFD, FD_CLOEXEC);
    return 0;
}

int runner_start(const struct runner_spec *spec, struct runner **ret, struct kymo_err *err)
{
    struct runner *r KYMO_CLEANUP(runner_freep) = KYMO_NEW(struct runner);
    int progress[2], words[2];
    if (!r)
        return kymo_err_set(err, -ENOMEM, "no memory for a process");
    r->pidfd = r->progress = r->words = -1;
    r->report.offset = -1;
    int code = make_pipe(progress, err);
    if (code < 0)
        return code;
    r->progress = progress[0];
    code = make_pipe(words, err);
    if (code < 0) {
        kymo_file_close(progress[1]);
        return code;
    }
    r->words = words[0];
    code = start_child(r, spec, progress[1], words[1], err);
    kymo_file_close(progress[1]);
    kymo_file_close(words[1]);
    if (code < 0)
        return code;
    r->cpu_limit_ms = 1000 * spec->limits.cpu_s;
    if (spec->limits.wall_ms)
        r->deadline_ns = kymo_clock_mono_ns() + spec->limits.wall_ms * 1000000;
    *ret = KYMO_TAKE(r);
    return 0;
}

/* A keeper needs milliseconds; one that is stopped or cannot get on is not waited for. */
#define KEEPER_MS 5000

static void kill_group(const struct runner *r)
{
    struct pollfd p = {.fd = r->pidfd, .events = POLLIN};
    if (r->keeper && kill(r->pid, SIGTERM) == 0 && kill(r->pid, SIGCONT) == 0 && poll(&p, 1, KEEPER_MS) > 0)
        return;
    (void)kill(-r->pid, SIGKILL);
    (void)kill(r->pid, SIGKILL);
}

/* What it started and left behind goes with it: ended before the child is reaped, while its number, which is the
 * group's, cannot be anybody else's. */
static bool reap(struct runner *r, int flags)
{
    siginfo_t info = {0};
    int code;
    if (r->ended)
        return true;
    do
        code = waitid(P_PID, (id_t)r->pid, &info, WEXITED | WNOWAIT | flags);
    while (code < 0 && errno == EINTR);
    if (code < 0 || info.si_pid != r->pid)
        return false;
    (void)kill(-r->pid, SIGKILL);
    struct rusage used = {0};
    r->ended = wait4(r->pid, &r->status, 0, &used) == r->pid;
    r->cpu_used_ms = 1000 * (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                     (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
    return r->ended;
}

struct runner *runner_free(struct runner *r)
{
    if (!r)
        return NULL;
    if (r->pid > 0 && !r->ended) {
        kill_group(r);
        (void)reap(r, 0);
    }
    kymo_file_close(r->pidfd);
    kymo_file_close(r->progress);
    kymo_file_close(r->words);
    kymo_free(r->report.losses);
    kymo_free(r);
    return NULL;
}

enum runner_state runner_turn(struct runner *r, int *ret_status)
{
    /* In this order: all that an ended child wrote is in the pipes before it can be reaped. */
    bool ended = reap(r, WNOHANG);
    drain(r, &r->progress, &r->progress_line);
    drain(r, &r->words, &r->words_line);
    if (!ended && r->deadline_ns && kymo_clock_mono_ns() >= r->deadline_ns) {
        r->timed_out = true;
        kill_group(r);
        ended = reap(r, 0);
    }
    if (!ended)
        return RUNNER_RUNNING;
    *ret_status = WIFEXITED(r->status) ? WEXITSTATUS(r->status) : WTERMSIG(r->status);
    if (r->timed_out)
        return RUNNER_TIMED_OUT;
    if (WIFEXITED(r->status))
        return RUNNER_EXITED;
    bool over = WTERMSIG(r->status) == SIGXCPU || (r->cpu_limit_ms && r->cpu_used_ms + CPU_SLACK_MS >= r->cpu_limit_ms);
    return over ? RUNNER_CPU_OVER : RUNNER_SIGNALLED;
}

const struct runner_report *runner_report(const struct runner *r)
{
    return &r->report;
}

size_t runner_fds(const struct runner *r, int fds[static 3])
{
    size_t n = 0;
    if (!r->ended)
        fds[n++] = r->pidfd;
    if (r->progress >= 0)
        fds[n++] = r->progress;
    if (r->words >= 0)
        fds[n++] = r->words;
    return n;
}

int64_t runner_left_ms(const struct runner *r)
{
    if (!r->deadline_ns)
        return -1;
    uint64_t now = kymo_clock_mono_ns();
    return now >= r->deadline_ns ? 0 : (int64_t)((r->deadline_ns - now) / 1000000 + 1);
}
