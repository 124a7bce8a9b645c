/* The child's side of runner.c: between fork and exec. */
#ifndef KYMO_COLLECTOR_RUNNER_CHILD_H
#define KYMO_COLLECTOR_RUNNER_CHILD_H

#include <sys/types.h>

#include "collector/runner.h"

#define RUNNER_EXIT_NOT_STARTED 126 /* a reason is on stderr */

/* Gives up what the program must not have and becomes it. progress, words: ends of pipes to write to. */
_Noreturn void runner_child(const struct runner_spec *spec, pid_t parent, int progress, int words);

#endif
