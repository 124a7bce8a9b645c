/*
 * The daemon's end of the uplink, without I/O. One object per connection: after a break the caller makes a new one and
 * offers again what was not stored; the collector then says where to go on. Captures go out in the order of their
 * offers. Not thread-safe.
 */
#ifndef KYMO_PROTO_UPLINK_SEND_H
#define KYMO_PROTO_UPLINK_SEND_H

#include "proto/session.h"
#include "proto/uplink.h"

#define UPLINK_SEND_CHUNK (256u << 10)

struct uplink_send_item {
    const char *name; /* NEFFs: may be NULL */
    uint64_t size;
    uint8_t sha256[UPLINK_SHA256_SIZE];
    bool neff;
};

/*
 * All are called inside uplink_send_feed (read and on_refused: inside uplink_send_out too) and may neither feed nor
 * free. handle is the caller's name of a capture; after on_stored or on_refused it is not used any more. Only read is
 * needed.
 */
struct uplink_send_ops {
    /* Exactly n bytes of an item. Negative: the capture is withdrawn, on_refused follows with the reason IO. */
    int (*read)(void *ctx, void *handle, uint32_t item, uint64_t offset, void *buf, size_t n, struct kymo_err *err);
    void (*on_ready)(void *ctx, const Kymo__Wire__Hello *peer);
    void (*on_ack)(void *ctx, void *handle, uint32_t item, uint64_t offset); /* durable there below offset */
    void (*on_stored)(void *ctx, void *handle);                              /* whole, durable and published there */
    void (*on_refused)(void *ctx, void *handle, int why, const char *text);
    /* To be answered by uplink_send_reply or uplink_send_refuse, also later. Negative: refused at once. */
    int (*on_request)(void *ctx, const Kymo__Uplink__CaptureRequest *request, struct kymo_err *err);
    void (*on_losses)(void *ctx, const Kymo__Uplink__RingLosses *losses);
    void (*on_losses_kept)(void *ctx, uint64_t batch); /* the rows of uplink_send_losses are durable there */
};

struct uplink_send_config {
    struct wire_range versions; /* both 0: those of uplink.h */
    const char *writer, *host, *boot_id;
    uint32_t chunk; /* bytes per data frame; 0: UPLINK_SEND_CHUNK; at most FRAME_RAW_MAX */
    int zstd_level; /* 0: never compress */
    const struct uplink_send_ops *ops;
    void *ctx;
};

struct uplink_send;

int uplink_send_new(const struct uplink_send_config *config, struct uplink_send **ret,
                    struct kymo_err *err) KYMO_MUST_CHECK;
struct uplink_send *uplink_send_free(struct uplink_send *s); /* NULL is fine; returns NULL; calls nothing */

/* As session_feed. */
int uplink_send_feed(struct uplink_send *s, const void *data, size_t n, struct kymo_err *err) KYMO_MUST_CHECK;
/* Makes data frames as long as credit lasts and less than a chunk waits, then gives what waits, as session_out. */
int uplink_send_out(struct uplink_send *s, const uint8_t **ret_data, size_t *ret_n,
                    struct kymo_err *err) KYMO_MUST_CHECK;
void uplink_send_consume(struct uplink_send *s, size_t n);

/*
 * Offers a capture; all is copied. -EAGAIN before on_ready, -ENOBUFS while UPLINK_CAPTURES_MAX are under way or too
 * much waits, -EINVAL for what the collector would refuse by form.
 */
int uplink_send_offer(struct uplink_send *s, const char *capture_id, const void *manifest, size_t manifest_len,
                      const struct uplink_send_item *items, size_t n_items, void *handle,
                      struct kymo_err *err) KYMO_MUST_CHECK;
int uplink_send_reply(struct uplink_send *s, uint64_t request_id, const char *const *capture_ids, size_t n,
                      struct kymo_err *err) KYMO_MUST_CHECK;
int uplink_send_refuse(struct uplink_send *s, uint64_t request_id, int code, const char *text,
                       struct kymo_err *err) KYMO_MUST_CHECK;
/*
 * The host's losses, at most UPLINK_HOST_LOSSES_MAX rows; *ret_batch is what on_losses_kept will have. What is not
 * answered on this connection is sent again on another. -EOPNOTSUPP: the collector is of a version without them.
 */
int uplink_send_losses(struct uplink_send *s, const Kymo__Uplink__HostLoss *rows, size_t n, uint64_t *ret_batch,
                       struct kymo_err *err) KYMO_MUST_CHECK;
int uplink_send_ping(struct uplink_send *s, uint64_t nonce, struct kymo_err *err) KYMO_MUST_CHECK;

const struct session *uplink_send_session(const struct uplink_send *s); /* for version, features, pongs */
size_t uplink_send_captures(const struct uplink_send *s);               /* under way */

#endif
