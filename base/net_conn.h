/* One TCP connection under a loop. Made by a listener or a dialer. */
#ifndef KYMO_BASE_NET_CONN_H
#define KYMO_BASE_NET_CONN_H

#include <stddef.h>
#include <stdint.h>

#include "base/net.h"
#include "base/tls.h"

/* Bytes a connection holds for sending, beside those that the kernel has taken: twice this with TLS, at most. */
#define NET_CONN_QUEUE (256u << 10)

struct net_conn;

/* All are called from the loop. They may send, pause and close. */
struct net_conn_ops {
    /* Bytes have come. Negative: the connection is closed with this cause, once what was sent has left. */
    int (*data)(struct net_conn *c, void *ctx, const uint8_t *data, size_t n, struct kymo_err *err);
    /* There is room again after net_conn_send took less than it was given. */
    void (*writable)(struct net_conn *c, void *ctx);
    /* Once, the last call: c is gone after it. why->code is 0 when we closed, -EPIPE when the peer did in order. */
    void (*closed)(struct net_conn *c, void *ctx, const struct kymo_err *why);
};

/*
 * Takes the front of data, *ret_taken bytes, maybe none. Less than n: come again when writable is called, which also is
 * how one fast peer does not keep the loop from the others. A negative result means that the connection ends: closed
 * follows.
 */
int net_conn_send(struct net_conn *c, const void *data, size_t n, size_t *ret_taken,
                  struct kymo_err *err) KYMO_MUST_CHECK;
/* Nothing is read while paused, so that the peer has to wait. */
void net_conn_pause(struct net_conn *c, bool paused);
/* Closes once what was taken has left, within NET_CONN_LINGER_MS. closed comes later, from the loop. Repeating it is
 * fine. */
#define NET_CONN_LINGER_MS 1000
void net_conn_close(struct net_conn *c);

const char *net_conn_peer(const struct net_conn *c); /* address and port */
void net_conn_peer_name(const struct net_conn *c,
                        char ret[static TLS_NAME_MAX + 1]); /* of its certificate; "" if plain */

#endif
