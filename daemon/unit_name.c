#include "daemon/unit_name.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <systemd/sd-login.h>

#include "base/alloc.h"

#define HEX "0123456789abcdef"

/* "docker-<id>.scope", "kubepods-….slice:cri-containerd:<id>", "<id>": 64 digits that nothing alike precedes or
 * follows. */
static bool read_container(const char *part, size_t len, char ret[static UNIT_NAME_CONTAINER + 1])
{
    for (size_t at = 0; at < len;) {
        size_t run = strspn(part + at, HEX);
        if (run == UNIT_NAME_CONTAINER && (at == 0 || part[at - 1] == '-' || part[at - 1] == ':')) {
            memcpy(ret, part + at, run);
            ret[run] = '\0';
            return true;
        }
        at += run ? run : 1;
    }
    return false;
}

/* "kubepods-burstable-pod<uid>.slice" with _ for -, "pod<uid>"; the uid has five groups of digits. */
static bool read_pod(const char *part, size_t len, char ret[static UNIT_NAME_POD + 1])
{
    static const size_t dashes[] = {8, 13, 18, 23};
    char uid[UNIT_NAME_POD + 1] = "";
    const char *at = memmem(part, len, "pod", 3);
    /* "kubepods" comes first in one of the forms. */
    while (at && (at != part && at[-1] != '-'))
        at = memmem(at + 1, len - (size_t)(at + 1 - part), "pod", 3);
    if (!at || len - (size_t)(at - part) < 3 + UNIT_NAME_POD)
        return false;
    at += 3;
    for (size_t i = 0, next = 0; i < UNIT_NAME_POD; i++) {
        bool dash = next < sizeof dashes / sizeof *dashes && dashes[next] == i;
        if (dash ? at[i] != '-' && at[i] != '_' : !memchr(HEX, at[i], sizeof HEX - 1))
            return false;
        next += dash;
        uid[i] = at[i] == '_' ? '-' : at[i];
    }
    memcpy(ret, uid, sizeof uid);
    return true;
}

void unit_name_read_path(const char *path, struct unit_name *ret)
{
    ret->container[0] = ret->pod[0] = '\0';
    size_t left = strnlen(path, UNIT_NAME_PATH_MAX + 1);
    if (left > UNIT_NAME_PATH_MAX)
        return;
    while (*path) {
        size_t len = strcspn(path, "/");
        if (!ret->pod[0] && !ret->container[0])
            (void)read_pod(path, len, ret->pod);
        if (!ret->container[0])
            (void)read_container(path, len, ret->container);
        path += len + (path[len] == '/');
    }
}

/* No unit is an answer too: everything but a missing process and a lack of memory leaves the name empty. */
static int read_name(int (*get)(pid_t, char **), pid_t pid, char ret[static UNIT_NAME_MAX + 1])
{
    char *name KYMO_FREE = NULL;
    int r = get(pid, &name);
    if (r == -ESRCH || r == -ENOMEM)
        return r;
    if (r >= 0 && name && strlen(name) <= UNIT_NAME_MAX)
        memcpy(ret, name, strlen(name) + 1);
    return 0;
}

int unit_name_of_pid(pid_t pid, struct unit_name *ret, struct kymo_err *err)
{
    static const struct {
        int (*get)(pid_t, char **);
        size_t offset;
    } names[] = {
        {sd_pid_get_unit, offsetof(struct unit_name, unit)},
        {sd_pid_get_slice, offsetof(struct unit_name, slice)},
        {sd_pid_get_user_unit, offsetof(struct unit_name, user_unit)},
        {sd_pid_get_user_slice, offsetof(struct unit_name, user_slice)},
    };
    if (pid <= 0) /* to libsystemd, 0 is the caller */
        return kymo_err_set(err, -ESRCH, "%ld is no process", (long)pid);
    struct unit_name found = {0};
    char *path KYMO_FREE = NULL;
    int r = sd_pid_get_cgroup(pid, &path);
    if (r >= 0 && path)
        unit_name_read_path(path, &found);
    for (size_t i = 0; i < sizeof names / sizeof *names && r != -ESRCH && r != -ENOMEM; i++)
        r = read_name(names[i].get, pid, (char *)&found + names[i].offset);
    if (r == -ESRCH || r == -ENOMEM)
        return kymo_err_set(err, r, "process %ld: %s", (long)pid, r == -ESRCH ? "it is gone" : "out of memory");
    *ret = found;
    return 0;
}
