/*
 * Sockets: one seam. Blocking helpers over local (Unix) sockets with a deadline; programs with an event loop use the
 * table through their own wrappers. Tests replace the table to inject short sends, resets and hangs.
 */
#ifndef KYMO_BASE_SOCK_H
#define KYMO_BASE_SOCK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"

#define KYMO_SOCK_FDS_MAX 64 /* descriptors in one message */

struct kymo_sock_ops {
    int (*socket)(int domain, int type, int protocol);
    int (*connect)(int fd, const struct sockaddr *addr, socklen_t len);
    ssize_t (*sendmsg)(int fd, const struct msghdr *msg, int flags);
    ssize_t (*recvmsg)(int fd, struct msghdr *msg, int flags);
};

void kymo_sock_set_ops(const struct kymo_sock_ops *ops); /* NULL: back to the system's */

/* SOCK_SEQPACKET at a path. listen replaces a stale socket file nobody answers on. Descriptor or negative errno. */
int kymo_sock_listen(const char *path, struct kymo_err *err) KYMO_MUST_CHECK;
int kymo_sock_connect(const char *path, struct kymo_err *err) KYMO_MUST_CHECK;
/* The same with SOCK_STREAM. */
int kymo_sock_listen_stream(const char *path, struct kymo_err *err) KYMO_MUST_CHECK;
int kymo_sock_connect_stream(const char *path, struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * One message with up to KYMO_SOCK_FDS_MAX descriptors. send: the descriptors stay the caller's. recv: at most *n
 * bytes; *n becomes the length, *nfds (in: room, out: count) descriptors become the caller's, close-on-exec; 0 bytes
 * means the peer is gone (-EPIPE). timeout_ms < 0 waits for ever; -ETIMEDOUT. A message longer than *n is -EMSGSIZE.
 */
int kymo_sock_send(int fd, const void *data, size_t n, const int *fds, size_t nfds,
                   struct kymo_err *err) KYMO_MUST_CHECK;
int kymo_sock_recv(int fd, void *data, size_t *n, int *fds, size_t *nfds, int timeout_ms,
                   struct kymo_err *err) KYMO_MUST_CHECK;

#endif
