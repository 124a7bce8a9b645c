/* A pending capture of the spool as the uplink sees it: what is offered, and the bytes of it. */
#ifndef KYMO_DAEMON_OUTBOX_CARGO_H
#define KYMO_DAEMON_OUTBOX_CARGO_H

#include "daemon/outbox_queue.h"
#include "proto/uplink_send.h"

struct outbox_link_peer;

struct outbox_cargo_item {
    bool neff;
    size_t file;          /* in the spool's entry */
    uint64_t size, noted; /* noted: acknowledged as the spool knows it */
    uint8_t sha256[KYMO_SHA256_SIZE];
};

struct outbox_cargo {
    uint64_t seq, bytes;
    char id[SPOOL_ID_MAX + 1];
    struct outbox_link_peer *link; /* it is under way there; NULL: it is not */
    bool gone;                     /* evicted meanwhile */
    uint64_t not_before_ms;
    unsigned tries, damaged;
    uint64_t blocked_at; /* the owner's count of ends when it had to wait for another; 0: it has not */
    int read_code;       /* of a read that failed */
    size_t n_items;
    struct outbox_cargo_item *items; /* while under way */
    size_t n_pins;
    uint8_t (*pins)[KYMO_SHA256_SIZE]; /* of one whose NEFFs the spool's journal does not know */
    struct outbox_event *end;          /* made beforehand */
};

/* NULL: no memory. */
struct outbox_cargo *outbox_cargo_new(struct spool *s, const struct spool_entry *e);
struct outbox_cargo *outbox_cargo_free(struct outbox_cargo *c, struct spool *s); /* NULL is fine; returns NULL */

/*
 * Offers it: its manifest, and the manifest's files as items. As uplink_send_offer; -EBADMSG: the capture is not what
 * was published; -EINPROGRESS: may_send said of one of its NEFFs that it is on its way with another capture.
 */
struct outbox_cargo_ask {
    bool (*may_send)(void *ctx, const uint8_t sha256[KYMO_SHA256_SIZE]);
    void *ctx;
};
int outbox_cargo_offer(struct outbox_cargo *c, struct spool *s, struct uplink_send *send,
                       const struct outbox_cargo_ask *ask, struct kymo_err *err) KYMO_MUST_CHECK;

/* Reads an item; keeps the last NEFF open. */
struct outbox_cargo_reader {
    int fd; /* -1: none */
    uint8_t sha256[KYMO_SHA256_SIZE];
};
int outbox_cargo_read(struct outbox_cargo_reader *r, struct spool *s, const struct outbox_cargo *c, uint32_t item,
                      uint64_t offset, void *buf, size_t n, struct kymo_err *err) KYMO_MUST_CHECK;

/* The collector holds the item up to offset; the spool is told now and then, since telling costs a sync. */
void outbox_cargo_ack(struct outbox_cargo *c, struct spool *s, uint32_t item, uint64_t offset);

#endif
