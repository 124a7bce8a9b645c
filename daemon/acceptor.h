/*
 * Takes clients in on a local socket: listens at a path (or on a descriptor that systemd gave), accepts a few per turn
 * of the loop, and pauses for a second when the process has no descriptors left. A socket file that it made is removed
 * when it stops, if so wished and unless another process has put its own there since. Belongs to the loop's thread.
 */
#ifndef KYMO_DAEMON_ACCEPTOR_H
#define KYMO_DAEMON_ACCEPTOR_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "base/err.h"

struct acceptor;

struct acceptor_config {
    const char *path; /* copied; not used with listen_fd */
    int listen_fd;    /* -1: listen at path; else a listening socket, which becomes the acceptor's */
    bool stream;      /* SOCK_STREAM, else SOCK_SEQPACKET */
    mode_t mode;      /* of the socket file */
    bool keep_file;   /* when it stops */
    /* The client's descriptor (close-on-exec, non-blocking) becomes the callee's. */
    void (*taken)(void *ctx, int fd);
    /* Nobody can be accepted for lack of descriptors or memory: it is tried again in a second. */
    void (*full)(void *ctx, int error);
    void *ctx;
};

/* listen_fd is closed on failure too. */
int acceptor_start(uv_loop_t *loop, const struct acceptor_config *config, struct acceptor **ret,
                   struct kymo_err *err) KYMO_MUST_CHECK;
/* Closes; the memory goes in the loop's next turn. NULL is fine. */
struct acceptor *acceptor_stop(struct acceptor *a);
/* The listening descriptor. */
int acceptor_fd(const struct acceptor *a);

#endif
