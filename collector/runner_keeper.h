/*
 * Who watches over a processor that may start others: its parent, and foster parent of all that its descendants leave
 * behind (PR_SET_CHILD_SUBREAPER), whatever process group or session they went to.
 */
#ifndef KYMO_COLLECTOR_RUNNER_KEEPER_H
#define KYMO_COLLECTOR_RUNNER_KEEPER_H

#include <sys/types.h>

#include "collector/runner.h"

/*
 * After fork, never returns: starts the processor (runner_child) and ends as it does, with its exit code or signal,
 * when every descendant is gone; those left are killed first. SIGTERM, SIGINT, SIGHUP, and the end of the parent's
 * thread, end it and all below it.
 */
_Noreturn void runner_keeper(const struct runner_spec *spec, pid_t parent, int progress, int words);

#endif
