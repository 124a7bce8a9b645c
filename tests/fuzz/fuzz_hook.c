/* Hook messages: whatever a daemon sends or writes, what the hook takes from it stays within its bounds. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "driver-iface/hook/hook_msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
    if (!holds)
        abort();
}

static void check_policy(const struct kymo_hook_policy *p)
{
    check(p->mode == KYMO_HOOK_MODE_NONE || p->mode == KYMO_HOOK_MODE_CONTINUOUS ||
          p->mode == KYMO_HOOK_MODE_ON_FAILURE);
    check(p->version <= KYMO_HOOK_VERSION_MAX);
    check(p->stall_limit_ns <= HOOK_STALL_LIMIT_MAX_NS);
    check(p->neff_max_bytes <= HOOK_NEFF_MAX_BYTES && p->neff_total_bytes <= HOOK_NEFF_MAX_BYTES);
    check(p->hbm_core_count <= 64);
    for (size_t i = 0; i < KYMO_HOOK_BUFFERS; i++)
        check(p->buffer_mb[i] <= KYMO_HOOK_BUFFER_MAX_MB || p->buffer_mb[i] == KYMO_HOOK_BUFFER_LEAVE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kymo_hook_trigger words = {0}, trigger;
    union hook_msg msg;
    uint64_t ns = 0;

    if (hook_msg_parse(data, size, size, &msg) == HOOK_MSG_POLICY)
        check_policy(&msg.policy);
    if (size > 16 && hook_msg_parse(data, size / 2, size, &msg) == HOOK_MSG_POLICY)
        check_policy(&msg.policy);
    memcpy(&words, data, size < sizeof words ? size : sizeof words);
    if (hook_msg_trigger(&words, &trigger))
        check(trigger.mode < KYMO_HOOK_MODE_COUNT && (trigger.count > 0 || trigger.mode == KYMO_HOOK_MODE_NONE));
    check(trigger.id[0] == 0 || hook_msg_id_valid(trigger.id));
    memcpy(&ns, data, size < sizeof ns ? size : sizeof ns);
    check(kymo_hook_bucket(ns) < KYMO_HOOK_BUCKETS);
    return 0;
}
