/* The connecting side of net.h: one connection at a time to one address, for ever, with jittered waits between
 * attempts. */
#ifndef KYMO_BASE_NET_DIALER_H
#define KYMO_BASE_NET_DIALER_H

#include "base/net_conn.h"

/* The strings must live as long as the dialer. */
struct net_dialer_config {
    const char *address;     /* host and port; each attempt resolves the name anew and tries its addresses in turn */
    struct tls_context *tls; /* NULL: plain */
    const char *tls_name;    /* whom the certificate must be for; NULL: the host */
    bool plain_anywhere;     /* plain to other addresses than loopback: an explicit choice */
    uint64_t timeout_ms;     /* for one address to connect, and again for the handshake; 0: 10 s */
    uint64_t wait_min_ms;    /* before the second attempt; 0: 250 ms. Doubles up to wait_max_ms; 0: 60 s */
    uint64_t wait_max_ms;    /* the real wait is random between half of it and all of it */
    uint64_t seed;           /* of the jitter; 0: taken from the clock */
    void (*opened)(void *ctx, struct net_conn *c); /* ready; ops are called with the same ctx, never NULL */
    /* No connection, or no more; the next attempt comes in retry_ms. After ops->closed too. */
    void (*waiting)(void *ctx, const struct kymo_err *why, uint64_t retry_ms);
    const struct net_conn_ops *ops;
    void *ctx;
};

struct net_dialer;

/* The first attempt starts from the loop. */
int net_dialer_new(struct net *n, const struct net_dialer_config *config, struct net_dialer **ret,
                   struct kymo_err *err) KYMO_MUST_CHECK;
/* An open connection is closed too, with its closed call. NULL is fine; returns NULL. */
struct net_dialer *net_dialer_close(struct net_dialer *d);
/* The peer has proved good: the next wait is the shortest again. An open connection alone proves nothing. */
void net_dialer_good(struct net_dialer *d);

#endif
