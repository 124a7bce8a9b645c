/* The uplink's messages as tables (wire.h): uplink.proto with its bounds. */
#ifndef KYMO_PROTO_UPLINK_H
#define KYMO_PROTO_UPLINK_H

#include "proto/uplink.pb-c.h"
#include "proto/wire.h"

enum uplink_type {
    UPLINK_OFFER = 16,
    UPLINK_NEED = 17,
    UPLINK_DATA = 18,
    UPLINK_CREDIT = 19,
    UPLINK_ACK = 20,
    UPLINK_DONE = 21,
    UPLINK_STORED = 22,
    UPLINK_CAPTURE_REQUEST = 32,
    UPLINK_CAPTURE_REPLY = 33,
    UPLINK_RING_LOSSES = 34,
    UPLINK_HOST_LOSSES = 35, /* both from version 2 on */
    UPLINK_LOSSES_KEPT = 36,
};

#define UPLINK_FEATURE_ZSTD 1u

#define UPLINK_VERSION_MIN 1
#define UPLINK_VERSION_MAX 2
#define UPLINK_VERSION_HOST_LOSSES 2 /* the first with them */

#define UPLINK_ITEMS_MAX 4096                /* of one capture */
#define UPLINK_CAPTURES_MAX 16               /* under way on one connection */
#define UPLINK_MANIFEST_MAX (512u << 10)     /* bytes */
#define UPLINK_ITEM_SIZE_MAX (1ull << 46)    /* bytes */
#define UPLINK_CREDIT_AHEAD_MAX (1ull << 30) /* bytes of credit that are not used yet */
#define UPLINK_HOST_LOSSES_MAX 256           /* rows of one message */
#define UPLINK_SHA256_SIZE 32

extern const struct wire_protocol uplink_protocol;

/* Names of a capture's files: relative, UTF-8, no empty, "." or ".." part, no control characters. */
bool uplink_is_name(const char *name);

/* The reason of a refusal for a negative errno: -EBUSY, -ENOSPC, -EBADMSG, -EINVAL, -EPERM, -ENOENT, -EOPNOTSUPP; IO
 * else. */
Kymo__Wire__Refusal__Reason uplink_reason(int code);

#endif
