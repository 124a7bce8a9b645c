/*
 * TCP under a libuv loop, with or without TLS (tls.h): addresses here, connections in net_conn.h, the listening side in
 * net_listener.h, the connecting side with its retries in net_dialer.h. All of it belongs to the loop's thread. Both
 * programs drive their protocol's state machines with it.
 */
#ifndef KYMO_BASE_NET_H
#define KYMO_BASE_NET_H

#include <stdbool.h>
#include <sys/socket.h>

#include <uv.h>

#include "base/err.h"

#define NET_HOST_MAX 255
#define NET_PEER_MAX 64

struct net;

/* What the connections of a loop share. The loop stays the caller's and must outlive it. */
int net_new(uv_loop_t *loop, struct net **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/*
 * NULL is fine; returns NULL. Everything on it must be closed, and the loop must run once more before it is closed, so
 * that it can let go.
 */
struct net *net_free(struct net *n);

struct net_address {
    char host[NET_HOST_MAX + 1];
    char port[6];
};

/* "host:port" or "[v6]:port"; ports 0 to 65535. */
int net_address_parse(const char *text, struct net_address *ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* The same where the host is a number, as a socket address. */
int net_numeric(const char *text, struct sockaddr_storage *ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* The address of a TCP socket that somebody else has made to listen; -EINVAL: it is none. */
int net_listening(int fd, const char *name, struct sockaddr_storage *ret, struct kymo_err *err) KYMO_MUST_CHECK;
bool net_is_loopback(const struct sockaddr *addr);
/* "127.0.0.1:3001" or "[::1]:3001". */
void net_format(const struct sockaddr *addr, char ret[static NET_PEER_MAX]);

#endif
