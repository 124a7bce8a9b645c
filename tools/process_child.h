/* Runs kymo-process as a child and shows its progress on stderr when that is a terminal. */
#ifndef KYMO_TOOLS_PROCESS_CHILD_H
#define KYMO_TOOLS_PROCESS_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/options.h"

struct process_child {
    const char *ntff;
    const char *system;         /* instead of ntff: a session's directory */
    const char *const *devices; /* with system: NAME=NTFF */
    size_t device_count;
    const char *const *neffs;
    size_t neff_count;
    const char *manifest; /* NULL: none */
    const char *output, *name;
    uint64_t split_rows;
    const struct kymo_option_list *settings; /* for its --set */
};

/* The child's exit code (its own message is on stderr), or a negative errno when it could not be run or was killed. */
int process_child_run(const struct process_child *c, struct kymo_err *err) KYMO_MUST_CHECK;

/* Runs a program that is installed beside this one to its end. argv ends with NULL. As above. */
int process_child_exec(const char *program, const char *const *argv, struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * From now on SIGINT, SIGTERM and SIGHUP end the child instead of this process, which can then clean up. What is
 * ignored, as nohup does, stays ignored.
 */
void process_child_catch_signals(void);
bool process_child_stopped(void); /* one of them came */

#endif
