/* What the hook takes from a daemon that it does not trust: packets and trigger words, checked and clamped. Pure. */
#ifndef KYMO_DRIVER_IFACE_HOOK_HOOK_MSG_H
#define KYMO_DRIVER_IFACE_HOOK_HOOK_MSG_H

#include <stdbool.h>

#include "proto/hook.h"

enum hook_msg_kind {
    HOOK_MSG_BAD,     /* the sender does not speak the protocol */
    HOOK_MSG_UNKNOWN, /* a later version's packet: skipped */
    HOOK_MSG_POLICY,
    HOOK_MSG_NEFF_DONE,
};

union hook_msg {
    struct kymo_hook_policy policy;
    struct kymo_hook_neff_done neff_done;
};

#define HOOK_STALL_LIMIT_MAX_NS 60000000000ull
#define HOOK_NEFF_MAX_BYTES (4ull << 30)

/* length: of the packet as the kernel tells it, which may exceed size. Fills ret for HOOK_MSG_POLICY, with every value
 * within its bounds (version is 0 when it is none that both sides know), and for HOOK_MSG_NEFF_DONE. */
enum hook_msg_kind hook_msg_parse(const void *packet, size_t size, size_t length, union hook_msg *ret);

/* Takes a trigger out of the page. False: it makes no sense; ret->id is then a valid id or empty. */
bool hook_msg_trigger(const struct kymo_hook_trigger *words, struct kymo_hook_trigger *ret);

bool hook_msg_id_valid(const char id[KYMO_HOOK_ID_MAX]);

/* Text of a reason, "unknown" beyond the list. */
const char *hook_msg_reason(uint32_t reason);

#endif
