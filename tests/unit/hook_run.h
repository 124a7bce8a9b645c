/* Runs a job under the hook: a child process with its output kept, and the directories that a peer needs. */
#ifndef KYMO_TESTS_UNIT_HOOK_RUN_H
#define KYMO_TESTS_UNIT_HOOK_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define HOOK_RUN_OUTPUT_MAX 65536
#define HOOK_RUN_ARGS_MAX 40

struct hook_run {
    char dir[64], intake[80], sysfs[80]; /* made by hook_run_init */
    pid_t pid;
    int out; /* stdout and stderr of the child */
    char text[HOOK_RUN_OUTPUT_MAX];
    size_t n;
    int code; /* exit code, or 128 and the signal */
};

void hook_run_init(struct hook_run *r);
void hook_run_done(struct hook_run *r); /* kills what still runs, removes the directories */

/* env: pairs "NAME=value", NULL at the end, on top of the test's own; LD_PRELOAD and KYMO_SOCKET are set when hooked.
 */
void hook_run_start(struct hook_run *r, bool hooked, const char *const *argv, const char *const *env);
void hook_run_wait(struct hook_run *r);                        /* to the end, 30 s at most; fills text and code */
bool hook_run_wait_text(struct hook_run *r, const char *text); /* until the child has written it */

/* Files below dir whose names end so. */
size_t hook_run_files(const char *dir, const char *end);

#endif
