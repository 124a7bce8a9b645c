/* hook-peer: the test's daemon as a program, for end-to-end scripts. usage: hook-peer DIR INTAKE ARMED MODE EXECUTION
 * COUNT [NEED CAPACITY FIRST_CORE CORES], modes as numbers of proto/hook.h, memory in bytes of device 0. Prints
 * "ready", then waits for one CAPTURED or REFUSED and says so. Exit code 0: captured. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/hook_peer.h"

#define WAIT_MS 30000u
#define POLL_MS 10u

int main(int argc, char **argv)
{
    struct hook_peer_config config = {.policy = hook_peer_policy()};
    struct hook_peer_event e;
    struct hook_peer *peer;
    bool captured;

    if (argc != 7 && argc != 11)
        return 2;
    config.dir = argv[1];
    config.intake = argv[2];
    config.policy.mode = (uint16_t)strtoul(argv[3], NULL, 10);
    if (argc == 11) {
        config.policy.hbm_need_bytes = strtoull(argv[7], NULL, 10);
        config.policy.hbm_capacity_bytes = strtoull(argv[8], NULL, 10);
        config.policy.hbm_core_first = (uint32_t)strtoul(argv[9], NULL, 10);
        config.policy.hbm_core_count = (uint32_t)strtoul(argv[10], NULL, 10);
    }
    config.trigger = (struct kymo_hook_trigger){.seq = 1,
                                                .mode = (uint32_t)strtoul(argv[4], NULL, 10),
                                                .execution = strtoull(argv[5], NULL, 10),
                                                .count = (uint32_t)strtoul(argv[6], NULL, 10),
                                                .id = "cap-1"};
    peer = hook_peer_start(&config);
    if (!peer)
        return 2;
    (void)puts("ready");
    (void)fflush(stdout);
    for (unsigned ms = 0;
         ms < WAIT_MS && !hook_peer_count(peer, KYMO_HOOK_CAPTURED) && !hook_peer_count(peer, KYMO_HOOK_REFUSED);
         ms += POLL_MS)
        (void)hook_peer_wait(peer, KYMO_HOOK_CAPTURED, 0, POLL_MS, &e);
    captured = hook_peer_wait(peer, KYMO_HOOK_CAPTURED, 0, 0, &e);
    if (captured)
        (void)printf("captured %s mode %u executions %llu flags %u\n", e.u.captured.id, e.u.captured.mode,
                     (unsigned long long)e.u.captured.executions, e.u.captured.flags);
    else if (hook_peer_wait(peer, KYMO_HOOK_REFUSED, 0, 0, &e))
        (void)printf("refused %u: %s\n", e.u.refused.reason, e.u.refused.text);
    (void)hook_peer_wait(peer, KYMO_HOOK_UNLOADED, 0, WAIT_MS, &e);
    hook_peer_stop(peer);
    return captured ? 0 : 1;
}
