/* Where drop-ins for units go, as systemd.unit(5) has it: for good, and until the next boot. */
#ifndef KYMO_TOOLS_UNIT_DIRS_H
#define KYMO_TOOLS_UNIT_DIRS_H

#include <stdbool.h>

#include "base/err.h"

#define UNIT_DIRS_PATH_MAX 1024

struct unit_dirs {
    char lasting[UNIT_DIRS_PATH_MAX];
    char runtime[UNIT_DIRS_PATH_MAX]; /* "": there is none */
};

/* user: those of the caller's own manager. given: instead of both; NULL: none. -EINVAL: no usable path. */
int unit_dirs_find(bool user, const char *given, struct unit_dirs *ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
