#include "driver-iface/sim/sim_internal.h"

void sim_agenda_clear(struct sim_agenda *a)
{
    for (unsigned i = 0; i < SIM_LEAVES; i++)
        a->key[i] = SIM_NEVER;
    for (unsigned node = SIM_LEAVES - 1; node >= SIM_LEAVES / 2; node--)
        a->winner[node] = (uint8_t)(2 * node - SIM_LEAVES);
    for (unsigned node = SIM_LEAVES / 2 - 1; node; node--)
        a->winner[node] = a->winner[2 * node];
}

void sim_agenda_set(struct sim_agenda *a, unsigned leaf, uint64_t key)
{
    a->key[leaf] = key;
    unsigned node = (leaf + SIM_LEAVES) / 2, pair = leaf & ~1u;
    uint8_t best = (uint8_t)(a->key[pair + 1] < a->key[pair] ? pair + 1 : pair);
    a->winner[node] = best;
    for (; node > 1; node /= 2) {
        unsigned left = a->winner[node & ~1u], right = a->winner[node | 1u];
        a->winner[node / 2] = (uint8_t)(a->key[right] < a->key[left] ? right : left);
    }
}
