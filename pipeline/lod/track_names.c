#include "pipeline/lod/track_names.h"

#include <stdio.h>

#include "arch/opcode.h"

static const char *core_suffix(const struct job *j, unsigned pcore, char out[16])
{
    out[0] = 0;
    if (j->in->cores > 1)
        (void)snprintf(out, 16, "(nc%u)", pcore);
    return out;
}

static unsigned engine_of(uint32_t phys)
{
    return phys / DMA_QUEUES % DMA_ENGINES;
}

static unsigned core_of(uint32_t phys)
{
    return phys / DMA_QUEUES / DMA_ENGINES;
}

void track_name_engine(const struct job *j, uint32_t phys, char out[TRACK_NAME_MAX])
{
    char core[16];
    (void)snprintf(out, TRACK_NAME_MAX, "DMA-E%u%s", engine_of(phys), core_suffix(j, core_of(phys), core));
}

void track_name_queue(const struct job *j, uint32_t phys, const char *set, char out[TRACK_NAME_MAX])
{
    char core[16];
    (void)core_suffix(j, core_of(phys), core);
    if (set)
        (void)snprintf(out, TRACK_NAME_MAX, "DMA-E%u %.256s%s", engine_of(phys), set, core);
    else
        (void)snprintf(out, TRACK_NAME_MAX, "DMA-E%u queue %u%s", engine_of(phys), phys % DMA_QUEUES, core);
}

void track_name_transfers(const struct job *j, uint32_t set, char out[TRACK_NAME_MAX])
{
    const struct dma_queues *q = &j->queues;
    char core[16];
    bool known = set != DMA_NONE;
    (void)snprintf(out, TRACK_NAME_MAX, "%.256s%s", known ? q->sets[set].name : "unknown",
                   known ? core_suffix(j, q->sets[set].pcore, core) : "");
}

void track_name_host(const struct job *j, uint32_t ring, char out[TRACK_NAME_MAX])
{
    (void)snprintf(out, TRACK_NAME_MAX, "Host-device DMA-E%u", j->scan.rings[ring].ring.engine_index);
}

enum track_part track_part_of(const struct static_row *row)
{
    const struct kymo_opcode *op = row->known ? kymo_opcode_get(row->opcode) : NULL;
    if (statics_is_matmul(row))
        return TRACK_PART_MATRIX;
    return op && kymo_opcode_on_sequencer(op) ? TRACK_PART_SEQUENCER : TRACK_PART_COMPUTE;
}

void track_name_part(const struct job *j, const struct static_row *row, char out[TRACK_NAME_MAX])
{
    static const char *const parts[TRACK_PARTS] = {" Sequencer", " Compute", "Matrix"};
    char core[16];
    (void)snprintf(out, TRACK_NAME_MAX, "%s%s%s", kymo_engine_name((enum kymo_engine)row->engine),
                   parts[track_part_of(row)], core_suffix(j, row->pcore, core));
}
