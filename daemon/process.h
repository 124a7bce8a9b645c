/*
 * Who a process is: its labels from /proc (environment as it began, control group, command line), its place in the
 * process tree, and the name of the job that they make. Everything in there is the process's own word, but for pid,
 * start and uid: bounded, made printable, good for labels and not for decisions.
 *
 * These functions may block for as long as the process likes (its memory is read): workers call them, never the loop.
 */
#ifndef KYMO_DAEMON_PROCESS_H
#define KYMO_DAEMON_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define PROCESS_TEXT_MAX 255
#define PROCESS_LABELS_MAX 32
#define PROCESS_ENVIRON_MAX (1u << 20) /* bytes of an environment; what lies beyond is not seen */
#define PROCESS_DEPTH_MAX 32           /* ancestors looked at */

struct process_label {
    const char *key; /* a constant */
    char value[PROCESS_TEXT_MAX + 1];
};

struct process {
    pid_t pid;
    uint64_t start; /* in clock ticks since boot: together with pid it names one process of this boot */
    char job[PROCESS_TEXT_MAX + 1];
    bool rank_known;
    uint32_t rank;
    size_t nlabels;
    struct process_label labels[PROCESS_LABELS_MAX];
};

/* -ESRCH: there is no such process. */
int process_start(pid_t pid, uint64_t *ret, struct kymo_err *err) KYMO_MUST_CHECK;
/*
 * What cannot be read (another user's environment) is not there; -ESRCH alone is a failure. The caller makes sure that
 * pid is still whom it means when this has returned.
 */
int process_read(pid_t pid, struct process *ret, struct kymo_err *err) KYMO_MUST_CHECK;

/* "" when there is none. */
const char *process_label(const struct process *p, const char *key);
/* Replaces or adds; nothing happens for an empty value, or when there is no room. key is a constant. */
void process_set_label(struct process *p, const char *key, const char *value);

/* What the environment says: labels, rank, and KYMO_JOB and the like as job. text: n bytes, each variable with its NUL.
 */
void process_read_environ(struct process *p, const char *text, size_t n);

/* "2", "0-3", "0,2-4": numbers below max, as NEURON_RT_VISIBLE_CORES lists them. Returns how many; 0: not understood.
 */
size_t process_parse_cores(const char *text, uint32_t *cores, size_t max);

#endif
