/*
 * The collector's end of the uplink, without I/O. One object per connection. What is durable is kept by the store, not
 * here: a new connection offers again and the store says where to go on. Not thread-safe.
 */
#ifndef KYMO_PROTO_UPLINK_RECV_H
#define KYMO_PROTO_UPLINK_RECV_H

#include "proto/session.h"
#include "proto/uplink.h"

#define UPLINK_RECV_WINDOW (4u << 20)

enum uplink_recv_answer {
    UPLINK_RECV_NOW = 0, /* offer: take it. write: the bytes are taken. done: stored */
    /* offer: uplink_recv_accept, _have or _refuse follows. write: _taken follows. done: _stored or _refuse follows */
    UPLINK_RECV_LATER = 1,
    UPLINK_RECV_HAVE = 2, /* offer: this capture is stored already */
};

/*
 * The store. All are called inside uplink_recv_feed and may call the functions below except feed and free. Negative
 * results refuse the capture to the daemon with uplink_reason(code) and the text; drop follows.
 */
struct uplink_recv_ops {
    /* A daemon is there; negative: not this one. May be NULL. */
    int (*hello)(void *ctx, const Kymo__Wire__Hello *peer, struct kymo_err *err);
    /*
     * The offer is within its bounds: capture id and names are well formed, no name comes twice; it holds until
     * the call returns. offsets (one per item, zeroed) become what is durable already, at most the item's size, which
     * means that nothing is wanted: NEFFs that the store has. *ret_handle names the capture from here on and is unique.
     */
    int (*offer)(void *ctx, const Kymo__Uplink__Offer *offer, uint64_t *offsets, void **ret_handle,
                 struct kymo_err *err);
    /* Bytes of an item, without gaps from the offset on. The data holds until the call returns. */
    int (*write)(void *ctx, void *handle, uint32_t item, uint64_t offset, const void *data, size_t n,
                 struct kymo_err *err);
    /* Every item is there: check the hashes, make durable, publish. -EBADMSG: a hash is wrong. */
    int (*done)(void *ctx, void *handle, struct kymo_err *err);
    /* The capture ends here without having been stored; what is durable stays for the next connection. Once per handle.
     */
    void (*drop)(void *ctx, void *handle);
    /*
     * What the host had to give up, for the peer of hello. NOW: durable. LATER: uplink_recv_losses_kept follows.
     * Negative: not kept now; nothing is answered, and the daemon sends them again later. They may come more than once
     * (rows of the same first numbers and time are the same, or have grown). NULL: version 1 is spoken, which has none.
     */
    int (*host_losses)(void *ctx, const Kymo__Uplink__HostLosses *losses, struct kymo_err *err);
    /* Answers to capture requests. May be NULL. */
    void (*reply)(void *ctx, const Kymo__Uplink__CaptureReply *reply);
    void (*refused)(void *ctx, uint64_t request_id, int why, const char *text);
};

struct uplink_recv_config {
    struct wire_range versions; /* both 0: those of uplink.h that the ops can serve */
    const char *writer, *host;
    bool zstd;       /* accept compressed data */
    uint32_t window; /* bytes that may be under way, not taken; 0: UPLINK_RECV_WINDOW */
    const struct uplink_recv_ops *ops;
    void *ctx;
};

struct uplink_recv;

int uplink_recv_new(const struct uplink_recv_config *config, struct uplink_recv **ret,
                    struct kymo_err *err) KYMO_MUST_CHECK;
struct uplink_recv *uplink_recv_free(struct uplink_recv *r); /* drops what is under way; NULL is fine; returns NULL */

/* As session_feed; on failure what is under way is dropped at once. */
int uplink_recv_feed(struct uplink_recv *r, const void *data, size_t n, struct kymo_err *err) KYMO_MUST_CHECK;
void uplink_recv_out(const struct uplink_recv *r, const uint8_t **ret_data, size_t *ret_n);
void uplink_recv_consume(struct uplink_recv *r, size_t n);

/*
 * The late answer to an offer: take it, offsets as ops->offer fills them; or it is stored already, and the handle is
 * not used any more.
 */
int uplink_recv_accept(struct uplink_recv *r, const void *handle, const uint64_t *offsets,
                       struct kymo_err *err) KYMO_MUST_CHECK;
int uplink_recv_have(struct uplink_recv *r, const void *handle, struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * What the store reports. The handle must not have been dropped. durable: everything of the item below offset has
 * reached the disk. A negative result means that the connection is to be closed.
 */
int uplink_recv_durable(struct uplink_recv *r, const void *handle, uint32_t item, uint64_t offset,
                        struct kymo_err *err) KYMO_MUST_CHECK;
/* Also for bytes of captures that were dropped meanwhile. */
int uplink_recv_taken(struct uplink_recv *r, uint64_t bytes, struct kymo_err *err) KYMO_MUST_CHECK;
int uplink_recv_stored(struct uplink_recv *r, const void *handle, struct kymo_err *err) KYMO_MUST_CHECK;
int uplink_recv_refuse(struct uplink_recv *r, const void *handle, int code, const char *text,
                       struct kymo_err *err) KYMO_MUST_CHECK;

int uplink_recv_request(struct uplink_recv *r, const Kymo__Uplink__CaptureRequest *request,
                        struct kymo_err *err) KYMO_MUST_CHECK;
int uplink_recv_losses(struct uplink_recv *r, const Kymo__Uplink__RingLosses *losses,
                       struct kymo_err *err) KYMO_MUST_CHECK;
/* Also for a batch that is not the last: all before it are kept as well. */
int uplink_recv_losses_kept(struct uplink_recv *r, uint64_t batch, struct kymo_err *err) KYMO_MUST_CHECK;
int uplink_recv_ping(struct uplink_recv *r, uint64_t nonce, struct kymo_err *err) KYMO_MUST_CHECK;

const struct session *uplink_recv_session(const struct uplink_recv *r);
size_t uplink_recv_captures(const struct uplink_recv *r);

#endif
