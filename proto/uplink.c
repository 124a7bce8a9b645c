#include "proto/uplink.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#define D(name) &kymo__uplink__##name##__descriptor
#define CORES_MAX 1024
#define REQUEST_CAPTURES_MAX 1024
#define LOSSES_MAX 4096

static const struct wire_type types[] = {
    WIRE_COMMON_TYPES,
    {UPLINK_OFFER, WIRE_CLIENT, false, D(offer), 1},
    {UPLINK_NEED, WIRE_SERVER, false, D(need), 1},
    {UPLINK_DATA, WIRE_CLIENT, true, D(data), 1},
    {UPLINK_CREDIT, WIRE_SERVER, false, D(credit), 1},
    {UPLINK_ACK, WIRE_SERVER, false, D(ack), 1},
    {UPLINK_DONE, WIRE_CLIENT, false, D(done), 1},
    {UPLINK_STORED, WIRE_SERVER, false, D(stored), 1},
    {UPLINK_CAPTURE_REQUEST, WIRE_SERVER, false, D(capture_request), 1},
    {UPLINK_CAPTURE_REPLY, WIRE_CLIENT, false, D(capture_reply), 1},
    {UPLINK_RING_LOSSES, WIRE_SERVER, false, D(ring_losses), 1},
    {UPLINK_HOST_LOSSES, WIRE_CLIENT, false, D(host_losses), UPLINK_VERSION_HOST_LOSSES},
    {UPLINK_LOSSES_KEPT, WIRE_SERVER, false, D(losses_kept), UPLINK_VERSION_HOST_LOSSES},
};

static const struct wire_bound bounds[] = {
    WIRE_COMMON_BOUNDS,
    {D(item), "name", false, 1, WIRE_NAME_MAX, 0},
    {D(item), "size", true, 0, UPLINK_ITEM_SIZE_MAX, 0},
    {D(item), "sha256", true, UPLINK_SHA256_SIZE, UPLINK_SHA256_SIZE, 0},
    {D(item), "neff", false, 0, 1, 0},
    {D(offer), "ticket", true, 1, UINT32_MAX, 0},
    {D(offer), "capture_id", true, 1, WIRE_ID_MAX, 0},
    {D(offer), "manifest", true, 1, UPLINK_MANIFEST_MAX, 0},
    {D(offer), "items", false, 0, 0, UPLINK_ITEMS_MAX},
    {D(want), "item", true, 0, UPLINK_ITEMS_MAX - 1, 0},
    {D(want), "offset", true, 0, UPLINK_ITEM_SIZE_MAX - 1, 0},
    {D(need), "ticket", true, 1, UINT32_MAX, 0},
    {D(need), "have", false, 0, 1, 0},
    {D(need), "wants", false, 0, 0, UPLINK_ITEMS_MAX},
    {D(data), "ticket", true, 1, UINT32_MAX, 0},
    {D(data), "item", true, 0, UPLINK_ITEMS_MAX - 1, 0},
    {D(data), "offset", true, 0, UPLINK_ITEM_SIZE_MAX - 1, 0},
    {D(credit), "total", true, 0, UINT64_MAX, 0},
    {D(ack), "ticket", true, 1, UINT32_MAX, 0},
    {D(ack), "item", true, 0, UPLINK_ITEMS_MAX - 1, 0},
    {D(ack), "offset", true, 1, UPLINK_ITEM_SIZE_MAX, 0},
    {D(done), "ticket", true, 1, UINT32_MAX, 0},
    {D(stored), "ticket", true, 1, UINT32_MAX, 0},
    {D(capture_request), "request_id", true, 1, UINT64_MAX, 0},
    {D(capture_request), "job", false, 1, WIRE_NAME_MAX, 0},
    {D(capture_request), "mode", false, 1, WIRE_ID_MAX, 0},
    {D(capture_request), "cores", false, 0, UINT16_MAX, CORES_MAX},
    {D(capture_request), "step", false, 0, UINT64_MAX, 0},
    {D(capture_request), "ranks_one_in", false, 1, UINT16_MAX, 0},
    {D(capture_reply), "request_id", true, 1, UINT64_MAX, 0},
    {D(capture_reply), "capture_ids", false, 1, WIRE_ID_MAX, REQUEST_CAPTURES_MAX},
    {D(ring_loss), "ring", true, 1, WIRE_NAME_MAX, 0},
    {D(ring_loss), "cause", true, 1, WIRE_ID_MAX, 0},
    {D(ring_loss), "records", false, 0, UINT64_MAX, 0},
    {D(ring_loss), "emitted", false, 0, UINT64_MAX, 0},
    {D(ring_losses), "capture_id", true, 1, WIRE_ID_MAX, 0},
    {D(ring_losses), "profile", true, 1, WIRE_NAME_MAX, 0},
    {D(ring_losses), "losses", false, 0, 0, LOSSES_MAX},
    {D(host_loss), "row", true, 1, INT64_MAX, 0},
    {D(host_loss), "first_seq", true, 0, INT64_MAX, 0},
    {D(host_loss), "last_seq", true, 0, INT64_MAX, 0},
    {D(host_loss), "captures", true, 1, INT64_MAX, 0},
    {D(host_loss), "bytes", true, 0, INT64_MAX, 0},
    {D(host_loss), "first_unix_ns", true, 0, INT64_MAX, 0},
    {D(host_loss), "last_unix_ns", true, 0, INT64_MAX, 0},
    {D(host_loss), "cause", true, 1, WIRE_ID_MAX, 0},
    {D(host_losses), "batch", true, 1, UINT64_MAX, 0},
    {D(host_losses), "rows", false, 0, 0, UPLINK_HOST_LOSSES_MAX},
    {D(losses_kept), "batch", true, 1, UINT64_MAX, 0},
};

const struct wire_protocol uplink_protocol = {
    .name = "uplink",
    .message_max = FRAME_MESSAGE_MAX,
    .raw_max = FRAME_RAW_MAX,
    .types = types,
    .n_types = sizeof types / sizeof types[0],
    .bounds = bounds,
    .n_bounds = sizeof bounds / sizeof bounds[0],
};

bool uplink_is_name(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > WIRE_NAME_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return false;
    for (const char *part = name;; part++) {
        size_t len = strcspn(part, "/");
        if (len == 0 || (len == 1 && part[0] == '.') || (len == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        part += len;
        if (*part == '\0')
            return true;
    }
}

Kymo__Wire__Refusal__Reason uplink_reason(int code)
{
    switch (-code) {
    case EBUSY:
        return KYMO__WIRE__REFUSAL__REASON__BUSY;
    case ENOSPC:
    case EDQUOT:
        return KYMO__WIRE__REFUSAL__REASON__FULL;
    case EBADMSG:
        return KYMO__WIRE__REFUSAL__REASON__DAMAGED;
    case EINVAL:
    case EEXIST:
        return KYMO__WIRE__REFUSAL__REASON__INVALID;
    case EPERM:
    case EACCES:
        return KYMO__WIRE__REFUSAL__REASON__FORBIDDEN;
    case ENOENT:
        return KYMO__WIRE__REFUSAL__REASON__NOT_FOUND;
    case EOPNOTSUPP:
        return KYMO__WIRE__REFUSAL__REASON__UNSUPPORTED;
    default:
        return KYMO__WIRE__REFUSAL__REASON__IO;
    }
}
