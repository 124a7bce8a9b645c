/*
 * Where a process belongs: its systemd unit and slice, those of its user's manager, and the container and pod that its
 * control group names. Labels for people, not grounds for decisions: whoever owns a control group may name what lies
 * below it as he likes. Touches nothing but /proc/<pid>/cgroup; any thread may call it.
 *
 * Sources: libsystemd's sd_pid_get_unit and its like; names of scopes and groups as Docker, containerd, CRI-O, Podman,
 * ECS and the kubelet make them with either of their drivers (systemd, cgroupfs).
 */
#ifndef KYMO_DAEMON_UNIT_NAME_H
#define KYMO_DAEMON_UNIT_NAME_H

#include <sys/types.h>

#include "base/err.h"

#define UNIT_NAME_MAX 255      /* systemd's own limit */
#define UNIT_NAME_CONTAINER 64 /* hexadecimal digits of a container's id */
#define UNIT_NAME_POD 36       /* a pod's UID */
#define UNIT_NAME_PATH_MAX 4096

/* Each is empty where there is none. */
struct unit_name {
    char unit[UNIT_NAME_MAX + 1];  /* "train@3.service", "docker-<id>.scope"; "user@1000.service" for a user's units */
    char slice[UNIT_NAME_MAX + 1]; /* "training.slice" */
    char user_unit[UNIT_NAME_MAX + 1]; /* of the user's manager */
    char user_slice[UNIT_NAME_MAX + 1];
    char container[UNIT_NAME_CONTAINER + 1]; /* the outermost one */
    char pod[UNIT_NAME_POD + 1];
};

/*
 * -ESRCH: there is no such process; *ret is untouched then. A host without systemd is no failure: what is not known is
 * empty. The caller makes sure that pid still is whom it means.
 */
int unit_name_of_pid(pid_t pid, struct unit_name *ret, struct kymo_err *err) KYMO_MUST_CHECK;

/* container and pod of a control group's path, which is not trusted; the other members stay as they are. */
void unit_name_read_path(const char *path, struct unit_name *ret);

#endif
