#include "pipeline/instructions/calls.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

#define FUNCTIONS 65536 /* bits 47 to 32 of a BIR id */

void calls_done(struct calls *c)
{
    for (size_t n = 0; n < INPUT_NODES_MAX; n++)
        for (size_t p = 0; p < INPUT_CORES_MAX; p++)
            for (size_t e = 0; e < KYMO_ENGINE_MAX; e++)
                kymo_free(c->engines[n][p][e].counts);
    *c = (struct calls){0};
}

int calls_next(struct calls *c, uint32_t node, unsigned pcore, enum kymo_engine engine, uint16_t function, int64_t slot,
               uint32_t *ret)
{
    struct calls_engine *e = &c->engines[node][pcore][engine];
    if (slot == 0 && e->counts)
        memset(e->counts, 0, FUNCTIONS);
    bool enters = function && (function != e->last || slot == 0);
    e->last = function;
    *ret = 0;
    if (!function)
        return 0;
    if (!e->counts && !(e->counts = KYMO_NEW_ARRAY(uint8_t, FUNCTIONS)))
        return -ENOMEM;
    if (enters && e->counts[function] == CALLS_MAX)
        c->folded = true;
    else if (enters)
        e->counts[function]++;
    *ret = e->counts[function] - 1u;
    return 0;
}
