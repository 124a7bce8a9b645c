/*
 * One processor as a child in a sandbox: own process group, limits, no new privileges, no network, no descriptors but
 * its own, with a keeper (runner_keeper.h) when it may start others, ended when its time is over or its parent dies.
 * Its progress (JSON lines) and last words are kept. Not thread-safe; the thread that starts a child must live as long
 * as it does, because the kernel ends the child with it.
 */
#ifndef KYMO_COLLECTOR_RUNNER_H
#define KYMO_COLLECTOR_RUNNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "collector/loss.h"

#define RUNNER_PROGRESS_FD 3 /* the child's number of the descriptor for its progress */
#define RUNNER_LINE_MAX 2048 /* bytes of a line of progress; longer ones are dropped */

struct runner_limits {
    uint64_t memory;      /* bytes of address space; 0: no limit. A sanitizer's build needs none */
    uint64_t file_size;   /* bytes of one file; 0: no limit */
    uint64_t cpu_s;       /* seconds of processor time; 0: no limit */
    uint64_t wall_ms;     /* 0: no limit */
    unsigned descriptors; /* 0: no limit */
};

struct runner_spec {
    char *const *argv; /* argv[0] is a path, or is looked up in the environment's PATH */
    char *const *envp;
    const char *directory; /* working directory; NULL: the parent's */
    struct runner_limits limits;
    bool keeper; /* it may start others: all its descendants end with it, in whatever group or session they are */
};

struct runner_report {
    char stage[32]; /* "": nothing yet */
    uint64_t done, total;
    bool finished; /* the child said that it is done */
    uint64_t records;
    bool failed;                    /* the child said why it failed */
    int code;                       /* negative errno of it */
    int64_t offset;                 /* in the file it was about; -1: not known */
    char reason[KYMO_ERR_TEXT_MAX]; /* what the child said, else the last line of its stderr; printable */
    struct loss *losses;            /* the runner's; the first LOSS_MAX that it told of */
    size_t loss_count, loss_cap;
};

enum runner_state { RUNNER_RUNNING, RUNNER_EXITED, RUNNER_SIGNALLED, RUNNER_CPU_OVER, RUNNER_TIMED_OUT };

struct runner;

int runner_start(const struct runner_spec *spec, struct runner **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* Ends the child and all of its group (with a keeper: its descendants) if they are still there, and waits for it. */
struct runner *runner_free(struct runner *r);

/* Takes what the child has written, ends it when its time is over, and tells its state; never blocks. status: the exit
 * code or signal. RUNNER_CPU_OVER: a signal after it had used its processor time. */
enum runner_state runner_turn(struct runner *r, int *ret_status);
const struct runner_report *runner_report(const struct runner *r);
/* Descriptors that become readable when runner_turn has something to do; the number of them. */
size_t runner_fds(const struct runner *r, int fds[static 3]);
/* Milliseconds until the child's time is over; -1: no limit. */
int64_t runner_left_ms(const struct runner *r);

#endif
