#include "driver-iface/hook/hook_msg.h"

#include <string.h>

static uint64_t at_most(uint64_t v, uint64_t max)
{
    return v < max ? v : max;
}

bool hook_msg_id_valid(const char id[KYMO_HOOK_ID_MAX])
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t n = strnlen(id, KYMO_HOOK_ID_MAX);

    return n > 0 && n < KYMO_HOOK_ID_MAX && id[0] != '.' && strspn(id, allowed) == n;
}

const char *hook_msg_reason(uint32_t reason)
{
    static const char *const texts[KYMO_HOOK_REASON_COUNT] = {
#define X(name, number, text) [number] = (text),
        KYMO_HOOK_REASON_MAP(X)
#undef X
    };

    return reason < KYMO_HOOK_REASON_COUNT ? texts[reason] : "unknown";
}

static void clamp_policy(struct kymo_hook_policy *p)
{
    uint16_t common =
        kymo_hook_common_version(p->version_min, p->version_max, KYMO_HOOK_VERSION_MIN, KYMO_HOOK_VERSION_MAX);

    if (p->version != common)
        p->version = 0;
    if (p->mode != KYMO_HOOK_MODE_CONTINUOUS && p->mode != KYMO_HOOK_MODE_ON_FAILURE)
        p->mode = KYMO_HOOK_MODE_NONE;
    p->stall_limit_ns = at_most(p->stall_limit_ns, HOOK_STALL_LIMIT_MAX_NS);
    p->neff_max_bytes = at_most(p->neff_max_bytes, HOOK_NEFF_MAX_BYTES);
    p->neff_total_bytes = at_most(p->neff_total_bytes, HOOK_NEFF_MAX_BYTES);
    p->hbm_core_count = (uint32_t)at_most(p->hbm_core_count, 64);
    p->hbm_device = (uint32_t)at_most(p->hbm_device, 4096);
    p->hbm_core_first = (uint32_t)at_most(p->hbm_core_first, 4096);
    for (size_t i = 0; i < KYMO_HOOK_BUFFERS; i++)
        if (p->buffer_mb[i] > KYMO_HOOK_BUFFER_MAX_MB)
            p->buffer_mb[i] = KYMO_HOOK_BUFFER_LEAVE;
}

enum hook_msg_kind hook_msg_parse(const void *packet, size_t size, size_t length, union hook_msg *ret)
{
    struct kymo_hook_header h;

    if (size < sizeof h || length < size)
        return HOOK_MSG_BAD;
    memcpy(&h, packet, sizeof h);
    if (h.size != length || length > KYMO_HOOK_PACKET_MAX)
        return HOOK_MSG_BAD;
    if (h.type == KYMO_HOOK_NEFF_DONE && size >= sizeof ret->neff_done) {
        memcpy(&ret->neff_done, packet, sizeof ret->neff_done);
        return HOOK_MSG_NEFF_DONE;
    }
    if (h.type != KYMO_HOOK_POLICY)
        return h.type == KYMO_HOOK_NEFF_DONE ? HOOK_MSG_BAD : HOOK_MSG_UNKNOWN;
    if (size < sizeof ret->policy)
        return HOOK_MSG_BAD;
    memcpy(&ret->policy, packet, sizeof ret->policy);
    clamp_policy(&ret->policy);
    return HOOK_MSG_POLICY;
}

bool hook_msg_trigger(const struct kymo_hook_trigger *words, struct kymo_hook_trigger *ret)
{
    memcpy(ret, words, sizeof *ret);
    if (!hook_msg_id_valid(ret->id)) {
        memset(ret->id, 0, sizeof ret->id);
        return ret->mode == KYMO_HOOK_MODE_NONE;
    }
    if (ret->mode >= KYMO_HOOK_MODE_COUNT || ret->mode == KYMO_HOOK_MODE_ON_FAILURE)
        return false;
    if (ret->count == 0 || ret->mode != KYMO_HOOK_MODE_SESSION)
        ret->count = 1;
    return true;
}
