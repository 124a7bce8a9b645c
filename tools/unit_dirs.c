#include "tools/unit_dirs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int put(char ret[static UNIT_DIRS_PATH_MAX], const char *head, const char *tail, struct kymo_err *err)
{
    int n = snprintf(ret, UNIT_DIRS_PATH_MAX, "%s%s", head, tail);
    if (head[0] != '/' || n < 0 || n >= UNIT_DIRS_PATH_MAX)
        return kymo_err_set(err, -EINVAL, "%.200s: not a usable directory: it must be absolute and short", head);
    return 0;
}

int unit_dirs_find(bool user, const char *given, struct unit_dirs *ret, struct kymo_err *err)
{
    struct unit_dirs d = {0};
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME"), *run = getenv("XDG_RUNTIME_DIR");
    int r;
    if (given)
        r = put(d.lasting, given, "", err);
    else if (!user)
        r = put(d.lasting, "/etc/systemd/system", "", err);
    else if (config && *config)
        r = put(d.lasting, config, "/systemd/user", err);
    else if (home && *home)
        r = put(d.lasting, home, "/.config/systemd/user", err);
    else
        r = kymo_err_set(err, -EINVAL, "neither XDG_CONFIG_HOME nor HOME says where the user's units are");
    if (r == 0 && given)
        r = put(d.runtime, given, "", err);
    else if (r == 0 && !user)
        r = put(d.runtime, "/run/systemd/system", "", err);
    else if (r == 0 && run && *run)
        r = put(d.runtime, run, "/systemd/user", err);
    if (r == 0)
        *ret = d;
    return r;
}
