/* Who is at the other end of the control socket. */
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/control_internal.h"

#define GROUPS_MAX 256 /* of one process; one in more groups than that is not found to be in any */

/* The group that the socket's file belongs to, which may be changed while it listens. */
static bool socket_group(int listen_fd, gid_t *ret)
{
    struct sockaddr_un addr;
    socklen_t len = sizeof addr;
    memset(&addr, 0, sizeof addr);
    struct stat st;
    if (getsockname(listen_fd, (struct sockaddr *)&addr, &len) < 0 || len <= offsetof(struct sockaddr_un, sun_path) ||
        addr.sun_path[0] != '/' || len > sizeof addr || addr.sun_path[sizeof addr.sun_path - 1] != '\0')
        return false;
    if (stat(addr.sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return false;
    *ret = st.st_gid;
    return true;
}

static bool is_in_group(int fd, const struct ucred *peer, gid_t group)
{
    if (peer->gid == group)
        return true;
    gid_t groups[GROUPS_MAX];
    socklen_t len = sizeof groups;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) < 0)
        return false;
    for (size_t i = 0; i < len / sizeof groups[0]; i++)
        if (groups[i] == group)
            return true;
    return false;
}

bool control_may(int fd, int listen_fd, uid_t *ret_uid, pid_t *ret_pid, const char **ret_why)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0) {
        *ret_why = "it cannot be found out who you are";
        return false;
    }
    *ret_uid = peer.uid;
    *ret_pid = peer.pid;
    if (peer.uid == 0 || peer.uid == geteuid())
        return true;
    gid_t group;
    /* Root's group is on a socket that nobody gave to a group: being in it is no permission by itself. */
    if (socket_group(listen_fd, &group) && group != 0 && is_in_group(fd, &peer, group))
        return true;
    *ret_why = "only root, the daemon's own user and the group of its socket may speak to it";
    return false;
}
