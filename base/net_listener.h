/* The listening side of net.h. */
#ifndef KYMO_BASE_NET_LISTENER_H
#define KYMO_BASE_NET_LISTENER_H

#include "base/net_conn.h"

#define NET_HANDSHAKE_MS 10000

struct net_listener_config {
    const char *address; /* numeric host and port; port 0: any free one. With adopt, a name for errors */
    bool adopt;          /* socket listens already, as systemd hands it over; the listener's from then on */
    int socket;
    struct tls_context *tls;  /* NULL: plain */
    bool plain_anywhere;      /* plain on other addresses than loopback: an explicit choice */
    unsigned max_connections; /* more are closed at once; 0: 1024 */
    /* A connection is ready. Its context for ops, or NULL: closed without further calls. */
    void *(*accepted)(void *ctx, struct net_conn *c);
    /* One that did not become ready, or was one too many. May be NULL. */
    void (*refused)(void *ctx, const char *peer, const struct kymo_err *why);
    const struct net_conn_ops *ops;
    void *ctx;
};

struct net_listener;

/*
 * -EPERM: plain, not on loopback, and not chosen. -EINVAL: what is to be adopted is no listening TCP socket. With
 * these two it stays the caller's.
 */
int net_listener_new(struct net *n, const struct net_listener_config *config, struct net_listener **ret,
                     struct kymo_err *err) KYMO_MUST_CHECK;
/* Its connections live on; the object goes away from the loop once they are closed. NULL is fine; returns NULL. */
struct net_listener *net_listener_close(struct net_listener *l);
/* For connections from now on, such as after new certificates; plain stays plain, TLS stays TLS. The former context may
 * be freed. */
void net_listener_set_tls(struct net_listener *l, struct tls_context *tls);
int net_listener_port(const struct net_listener *l);
unsigned net_listener_connections(const struct net_listener *l); /* open ones and those shaking hands */

#endif
