/* What receiver.c and receiver_request.c share. */
#ifndef KYMO_COLLECTOR_RECEIVER_IMPL_H
#define KYMO_COLLECTOR_RECEIVER_IMPL_H

#include "collector/receiver.h"
#include "proto/uplink_recv.h"

struct receiver_conn {
    struct receiver *r;
    struct net_conn *net;
    struct uplink_recv *recv;
    struct receiver_conn *next, **link;
    char identity[WIRE_NAME_MAX + 1], host[WIRE_NAME_MAX + 1], writer[WIRE_NAME_MAX + 1], boot_id[WIRE_ID_MAX + 1];
    bool greeted, paused, ending;
    uint64_t opened_ms, pinged_ms, alive_ms; /* of the loop's clock */
    uint64_t nonce;                          /* of the last ping; 0: none */
    uint64_t stored;
    uint64_t received, received_before; /* bytes of captures; at the last tick */
    bool telling, tell_again;           /* losses: at it; from the beginning once more */
    uint64_t host_serial;               /* of the host's losses that are being noted; 0: none */
    uint64_t told_nonce;                /* of the ping behind those of told; 0: none is under way */
    char told[MANIFEST_PROFILE_NAME_MAX + 1];
};

struct pending; /* a capture request, receiver_request.c */

struct receiver {
    struct receiver_config config;
    struct net_listener *listener;
    uv_timer_t timer;
    uint64_t tick_ms, ticked_ms; /* between two ticks; when the last was */
    struct receiver_conn *first;
    size_t n, n_paused;
    bool stopped;
    struct pending *pending;
    size_t n_pending;
    uint64_t last_request, last_host_serial;
    uint64_t said_ms; /* beginning of the second in which said lines were said */
    unsigned said, unsaid;
    struct receiver_figures figures; /* those that only grow */
    char trouble[KYMO_ERR_TEXT_MAX];
};

uint64_t receiver_now_ms(const struct receiver *r);
void receiver_pump(struct receiver_conn *c);
/* Closes it when r is negative, and says why. */
void receiver_check(struct receiver_conn *c, int r, const struct kymo_err *err);

int receiver_ping(struct receiver_conn *c, struct kymo_err *err) KYMO_MUST_CHECK;

/* The host is there: its losses that wait are told. */
void receiver_tell_host(struct receiver_conn *c);
void receiver_look_at_pong(struct receiver_conn *c);

int receiver_on_host_losses(void *ctx, const Kymo__Uplink__HostLosses *losses, struct kymo_err *err);
void receiver_on_reply(void *ctx, const Kymo__Uplink__CaptureReply *reply);
void receiver_on_refused(void *ctx, uint64_t request_id, int why, const char *text);
void receiver_request_tick(struct receiver *r);
void receiver_request_gone(struct receiver *r, const struct receiver_conn *c);
void receiver_request_end(struct receiver *r);

#endif
