/* Packets from hooks: what the daemon takes from any bytes stays within what it relies on. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/hook_packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
    if (!holds)
        abort();
}

static void check_packet(const union hook_packet *p)
{
    switch (p->header.type) {
    case KYMO_HOOK_HELLO:
        check(strlen(p->hello.program) < sizeof p->hello.program);
        check(strlen(p->hello.hook_version) < sizeof p->hello.hook_version);
        break;
    case KYMO_HOOK_STATE:
        check(p->state.state <= KYMO_HOOK_RUN_CLOSED && p->state.armed < KYMO_HOOK_MODE_COUNT);
        break;
    case KYMO_HOOK_CAPTURED:
        check(hook_packet_id_valid(p->captured.id) && strcmp(hook_packet_mode(p->captured.mode), "unknown") != 0);
        check(!strchr(p->captured.id, '/') && p->captured.id[0] != '.');
        break;
    case KYMO_HOOK_REFUSED:
        check(strlen(p->refused.id) < sizeof p->refused.id && strlen(p->refused.text) < sizeof p->refused.text);
        check(*hook_packet_reason(p->refused.reason) != '\0');
        break;
    default:
        check(p->header.type == KYMO_HOOK_LOADED || p->header.type == KYMO_HOOK_UNLOADED);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    union hook_packet p;
    struct kymo_err err = {0};
    int r = hook_packet_parse(data, size, size, &p, &err);

    check((r < 0) == (err.code != 0));
    if (r == 1)
        check_packet(&p);
    check(size == 0 || hook_packet_parse(data, size - 1, size, &p, NULL) < 0);
    return 0;
}
