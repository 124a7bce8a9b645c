/* The JSON members and the streams alone. */
#include <stdlib.h>

#include "arch/cc.h"
#include "base/alloc.h"
#include "tests/fuzz/neff_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {
    "neff.json",     "kelf-a.json",  "sg00/def.json", "sg00/PE.json",   "sg00/PE.bin",
    "sg01/def.json", "sg01/SP.json", "info.json",     "hlo_stats.json", "sg01/SP.bin",
};

static void walk(const struct neff_subgraph *sg)
{
    for (size_t i = 0; i < sg->queue_count; i++) {
        neff_touch_text(sg->queues[i].name);
        for (size_t k = 0; k < sg->queues[i].instance_count; k++)
            neff_touch_text(sg->queues[i].instances[k]);
    }
    for (size_t i = 0; i < sg->var_count; i++)
        neff_touch_text(sg->vars[i].shape);
    for (size_t l = 0; l < sg->replica_layout_count; l++)
        for (size_t s = 0; s < sg->replica_layouts[l].count; s++)
            for (size_t i = 0; i < sg->replica_layouts[l].sets[s].count; i++)
                if (sg->replica_layouts[l].sets[s].ranks[i] >= KYMO_CC_RANKS_MAX)
                    abort();
    for (size_t e = 0; e < sg->engine_count; e++)
        for (size_t i = 0; i < sg->engines[e].block_count; i++) {
            neff_touch_text(sg->engines[e].blocks[i].queue);
            neff_touch_text(sg->engines[e].blocks[i].function);
            neff_touch_text(sg->engines[e].blocks[i].from.variable);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct neff *n KYMO_CLEANUP(neff_freep) = neff_from_files(data, size, names, sizeof names / sizeof *names);
    struct kymo_err err = {0};
    struct neff_load l = {.n = n, .err = &err};
    if (!n || neff_json_load(&l) < 0)
        return 0;
    for (size_t i = 0; i < n->subgraph_count; i++)
        walk(&n->subgraphs[i]);
    return 0;
}
