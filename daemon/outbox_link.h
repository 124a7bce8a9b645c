/*
 * One collector: the dialer, and for each connection the protocol's machine (proto/uplink_send.h), the flow of bytes,
 * the signs of life. Which captures go out over it is its owner's matter. All on the outbox's loop.
 */
#ifndef KYMO_DAEMON_OUTBOX_LINK_H
#define KYMO_DAEMON_OUTBOX_LINK_H

#include "base/net_dialer.h"
#include "daemon/outbox.h"
#include "proto/uplink_send.h"

struct outbox_link_peer;

struct outbox_link_ops {
    const struct uplink_send_ops *send; /* called with the link as ctx */
    /* The session is ready; or it is over, why being set: what was under way is not any more. */
    void (*up)(void *owner, struct outbox_link_peer *l);
    void (*down)(void *owner, struct outbox_link_peer *l, const struct kymo_err *why);
    /* Bytes have been heard: it may be time for more offers. */
    void (*heard)(void *owner, struct outbox_link_peer *l);
    /* At most this of n bytes may go now; what went is told. */
    size_t (*allow)(void *owner, size_t n);
    void (*spent)(void *owner, size_t n);
};

struct outbox_link_config {
    uv_loop_t *loop;
    struct net *net;
    const char *address; /* must outlive it, as must host, boot_id and writer */
    struct tls_context *tls;
    bool plain_anywhere;
    int zstd_level;
    uint32_t chunk;
    const char *host, *boot_id, *writer;
    struct wire_range versions; /* as in uplink_send.h */
    struct outbox_times times;  /* none is 0 */
    const struct outbox_link_ops *ops;
    void *owner;
};

int outbox_link_new(const struct outbox_link_config *config, struct outbox_link_peer **ret,
                    struct kymo_err *err) KYMO_MUST_CHECK;
/* Ends it; down is called once more if it was up. The object goes away from the loop. Returns NULL; NULL is fine. */
struct outbox_link_peer *outbox_link_close(struct outbox_link_peer *l);

void *outbox_link_owner(const struct outbox_link_peer *l);
struct uplink_send *outbox_link_send(const struct outbox_link_peer *l); /* NULL: not up */
/* To be called by the send ops' on_ready. */
void outbox_link_ready(struct outbox_link_peer *l);
/* Sends what the machine has to say, as far as it can go. */
void outbox_link_pump(struct outbox_link_peer *l);
/* The peer has proved good. */
void outbox_link_good(struct outbox_link_peer *l);
/* Nothing is read from it while paused. */
void outbox_link_pause(struct outbox_link_peer *l, bool paused);
/* To be called every times.tick. */
void outbox_link_tick(struct outbox_link_peer *l);
void outbox_link_get_status(const struct outbox_link_peer *l, struct outbox_link_status *ret);

#endif
