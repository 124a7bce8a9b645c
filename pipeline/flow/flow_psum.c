#include "pipeline/flow/flow_psum.h"

#include <string.h>

unsigned flow_psum_forget(struct flow_psum *p)
{
    unsigned used = 0;
    for (unsigned b = 0; b < FLOW_PSUM_BANKS; b++)
        used += p->banks[b].used;
    memset(p->banks, 0, sizeof p->banks);
    memset(p->open, 0, sizeof p->open);
    return used;
}

uint32_t flow_psum_group(struct flow_psum *p, uint8_t write, bool begins)
{
    uint32_t group = 0;
    for (unsigned b = 0; b < FLOW_PSUM_BANKS && !begins && !group; b++)
        group = write >> b & 1 ? p->open[b] : 0;
    if (!group)
        group = ++p->groups ? p->groups : ++p->groups; /* 0 means none, when the count wraps too */
    for (unsigned b = 0; b < FLOW_PSUM_BANKS; b++)
        if (write >> b & 1)
            p->open[b] = group;
    return group;
}

void flow_psum_overwrite(struct flow_psum *p, uint8_t write)
{
    for (unsigned b = 0; b < FLOW_PSUM_BANKS; b++)
        if (write >> b & 1)
            p->open[b] = 0;
}

static unsigned add_edge(struct flow_psum_edge *edges, unsigned n, const struct flow_psum_bank *from, unsigned bank)
{
    for (unsigned i = 0; i < n; i++)
        if (edges[i].id == from->id) {
            edges[i].banks = (uint8_t)(edges[i].banks | 1u << bank);
            return n;
        }
    edges[n] = (struct flow_psum_edge){from->id, from->end, (uint8_t)(1u << bank)};
    return n + 1;
}

unsigned flow_psum_take(struct flow_psum *p, const struct flow_psum_use *use,
                        struct flow_psum_edge edges[FLOW_PSUM_BANKS])
{
    unsigned n = 0;
    for (unsigned b = 0; b < FLOW_PSUM_BANKS; b++) {
        struct flow_psum_bank *bank = &p->banks[b];
        if (!((use->read | use->write) >> b & 1))
            continue;
        bool writes = use->write >> b & 1;
        bool continues = use->group && !use->starts && writes && bank->group == use->group;
        if (bank->used && (writes || bank->wrote) && !continues)
            n = add_edge(edges, n, bank, b);
        *bank = (struct flow_psum_bank){use->id, use->end, writes ? use->group : 0, true, writes};
    }
    return n;
}
