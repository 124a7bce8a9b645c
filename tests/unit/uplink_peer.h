/*
 * A stand-in for a daemon, for tests of the collector: a dialer with uplink_send on it, captures in memory, offered
 * until they are stored. It belongs to its loop's thread; what must not fail aborts.
 */
#ifndef KYMO_TESTS_UNIT_UPLINK_PEER_H
#define KYMO_TESTS_UNIT_UPLINK_PEER_H

#include "base/net_dialer.h"
#include "proto/uplink_send.h"

#define UPLINK_PEER_CAPTURES 64

struct uplink_peer_capture {
    char id[WIRE_ID_MAX + 1];
    uint8_t *manifest;
    size_t manifest_n, n_items;
    struct uplink_send_item *items;
    uint8_t **data; /* of each item */
    bool offered, stored;
    size_t refused;
    int why;
    char text[WIRE_TEXT_MAX + 1];
    uint64_t retry_ms; /* of the loop's clock */
    uint64_t read;     /* bytes that were sent */
    uint64_t acked;    /* the last acknowledged offset */
};

struct uplink_peer {
    uv_loop_t *loop;
    struct net *net;
    struct net_dialer *dialer;
    struct net_conn *conn;
    struct uplink_send *send;
    uv_timer_t timer;
    char address[64];
    char host[64];
    struct tls_context *tls;
    struct uplink_peer_capture captures[UPLINK_PEER_CAPTURES];
    size_t n, stored;
    size_t connections, breaks, requests, refusals, loss_messages, losses;
    int last_code; /* why there is no connection */
    char last_text[KYMO_ERR_TEXT_MAX];
    char last_losses[256]; /* "profile ring cause records" of the last loss */
    bool give_up;          /* refused captures are not offered again */
    const char *refuse;    /* capture requests, with this text; NULL: answered with the id "wanted-1" */
    bool silent;           /* capture requests are not answered */
    uint64_t stall_after;  /* sends nothing any more after so many bytes of captures; 0: never */
    uint64_t read;         /* bytes of captures that were sent */
    size_t hellos, losses_kept;
};

/* tls must outlive it. */
void uplink_peer_init(struct uplink_peer *p, uv_loop_t *loop, struct net *net, const char *host,
                      struct tls_context *tls);
/* Copies a capture: manifest and the bytes of its files, in order. */
void uplink_peer_add(struct uplink_peer *p, const void *manifest, size_t n, const void *const *data);
void uplink_peer_connect(struct uplink_peer *p, int port);
void uplink_peer_disconnect(struct uplink_peer *p);
/* Disconnects and frees what it holds; the loop must run once more. */
void uplink_peer_done(struct uplink_peer *p);

#endif
