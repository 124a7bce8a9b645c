/* Between the files of net.h. */
#ifndef KYMO_BASE_NET_INTERNAL_H
#define KYMO_BASE_NET_INTERNAL_H

#include "base/net_conn.h"

#define NET_READ_SIZE (256u << 10)

struct net {
    uv_loop_t *loop;
    uv_idle_t kick;              /* runs while kicked is not empty */
    struct net_conn *kicked;     /* those that used up their turn */
    uint8_t read[NET_READ_SIZE]; /* libuv hands it out and takes it back within one call */
};

/* What makes connections: it is told when one is ready or failed to become so. */
struct net_conn_owner {
    /* The ops' context; NULL: close it without further calls. */
    void *(*ready)(void *owner, struct net_conn *c);
    /* The connection is gone; if it had not become ready, ops->closed was not called. */
    void (*gone)(void *owner, struct net_conn *c, bool was_ready, const struct kymo_err *why);
};

/* A connection with its TCP handle, not connected. tls_name as in tls_stream_new. */
int net_conn_new(struct net *n, struct tls_context *tls, const char *tls_name, const struct net_conn_ops *ops,
                 const struct net_conn_owner *owner, void *owner_ctx, struct net_conn **ret,
                 struct kymo_err *err) KYMO_MUST_CHECK;
uv_tcp_t *net_conn_tcp(struct net_conn *c);
/* The handle is connected: shakes hands and reads, ready within timeout_ms or never. */
void net_conn_aim(struct net_conn *c, const struct sockaddr *addr); /* whom errors name until it is connected */
void net_conn_start(struct net_conn *c, uint64_t timeout_ms);
/* Starts the clock for a connection that is not started yet. */
void net_conn_limit(struct net_conn *c, uint64_t timeout_ms);
/* Ends it at once with a cause; owner->gone follows from the loop. */
void net_conn_abort(struct net_conn *c, int code, const char *text);

/* Closes an open one in order and any other at once. */
void net_conn_end(struct net_conn *c);

/* Has writable called from the loop. */
void net_kick(struct net *n, struct net_conn *c);
void net_unkick(struct net *n, struct net_conn *c);
struct net_conn **net_conn_next(struct net_conn *c); /* its link in n->kicked */
void net_conn_turn(struct net_conn *c);              /* a fresh turn */

/* err from libuv's code. */
int net_fail(struct kymo_err *err, int code, const char *what, const char *name);

#endif
