/*
 * Where hooks connect: hook.sock, its limits, and the sessions that live. On the loop's thread; nothing waits.
 */
#ifndef KYMO_DAEMON_HOOK_SERVER_H
#define KYMO_DAEMON_HOOK_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "base/err.h"
#include "daemon/hook_session.h"

struct hook_server;

struct hook_server_config {
    const char *path; /* of the socket; made for everybody on the host. Not used with listen_fd */
    int listen_fd;    /* an inherited SOCK_SEQPACKET listener, which becomes the server's; -1: none */
    size_t sessions_max, sessions_per_uid;
    const struct hook_session_ops *ops; /* gone is called too */
    void *ctx;
};

int hook_server_start(uv_loop_t *loop, const struct hook_server_config *config, struct hook_server **ret,
                      struct kymo_err *err) KYMO_MUST_CHECK;
/* Closes all sessions; the socket's file stays for the next kymod, hooks try again. Returns NULL; NULL is fine. The
 * loop must run once more before it is closed. */
struct hook_server *hook_server_stop(struct hook_server *s);
void hook_server_set_limits(struct hook_server *s, size_t sessions_max, size_t sessions_per_uid);

struct hook_server_counts {
    uint64_t accepted, refused; /* beyond the limits */
    uint64_t hostile;           /* closed for what they sent */
    size_t sessions;
};
struct hook_server_counts hook_server_get_counts(const struct hook_server *s);

#endif
