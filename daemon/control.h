/*
 * The control socket's server: status and captures for `kymo` (proto/control.proto over SOCK_STREAM). Root, the
 * daemon's own user and the socket's group may; nobody else gets a word in. Clients, what each may ask at once, and the
 * bytes kept for each are bounded, idle and unreadable ones are closed. Belongs to the loop's thread.
 */
#ifndef KYMO_DAEMON_CONTROL_H
#define KYMO_DAEMON_CONTROL_H

#include <stdint.h>

#include <uv.h>

#include "base/err.h"
#include "daemon/status.h"

#define CONTROL_CLIENTS_MAX 64
#define CONTROL_CLIENTS_PER_UID 8  /* of users that are neither root nor the daemon's */
#define CONTROL_CLIENTS_RESERVED 8 /* of CONTROL_CLIENTS_MAX: for root and the daemon's own user alone */
#define CONTROL_ASKS_MAX 4         /* captures that one client waits for at once */
#define CONTROL_REQUESTS_S 64      /* a client's requests in one second; more are refused as busy */
#define CONTROL_HELLO_MS 5000
#define CONTROL_IDLE_MS 60000  /* without a request and without waiting for anything */
#define CONTROL_STALL_MS 10000 /* somebody who takes none of what waits for him */
#define CONTROL_OUT_MAX (512u << 10)

struct control_config {
    const char *path; /* of the socket, made with mode 0660; not used with listen_fd */
    int listen_fd;    /* an inherited listener, which becomes the server's; -1: none */
    struct status_sources sources;
    /* A line for the log: who asked for a capture, who was turned away. May be NULL. */
    void (*note)(void *ctx, const char *text);
    void *ctx;
};

struct control;

/* The address of another process's live socket is -EADDRINUSE. listen_fd is closed on failure too. */
int control_start(uv_loop_t *loop, const struct control_config *config, struct control **ret,
                  struct kymo_err *err) KYMO_MUST_CHECK;
/* Closes all clients; captures that they asked for go on. To be called while the captures still live. The loop must run
 * once more before it is closed. NULL is fine; returns NULL. */
struct control *control_stop(struct control *s);

struct control_counts {
    uint64_t accepted, refused;             /* connections */
    uint64_t requests, turned_down, broken; /* broken: clients that broke the protocol or took nothing */
    size_t clients;
};
void control_get_counts(const struct control *s, struct control_counts *ret);

#endif
