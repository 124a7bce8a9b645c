/* What a rank left in the runtime's layout <dir>/<instance>_pid_<pid>/<timestamp>/: the runtime's calls do not tell
 * whether a profile that the environment asked for could be written. */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_CAPTURES_H
#define KYMO_DRIVER_IFACE_SIM_SIM_CAPTURES_H

#include <sys/types.h>

#include "base/err.h"

struct sim_captures {
    size_t written, empty; /* NTFF files; 0 bytes: the core executed nothing */
};

/* A directory that is not there holds none. */
int sim_captures_count(const char *dir, pid_t pid, struct sim_captures *ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
