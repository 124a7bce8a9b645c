/* Records: every 16 bytes decode; encoding and decoding again changes nothing; names answer for every number. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "formats/ntff/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
    if (!holds)
        abort();
}

static void check_engine(int engine)
{
    check(engine >= 0 && engine < KYMO_ENGINE_MAX);
}

static void check_ranges(const struct record *r)
{
    check(r->kind >= 0 && r->kind < RECORD_KIND_MAX && r->type < 32 && record_kind_name(r->kind));
    switch (r->kind) {
    case RECORD_INSTRUCTION_START:
        check_engine((int)r->u.start.engine);
        check(r->u.start.pc < 1u << RECORD_PC_BITS && r->u.start.hint < 16);
        return;
    case RECORD_INSTRUCTION_END:
        check_engine((int)r->u.end.engine);
        return;
    case RECORD_EXPLICIT:
        check_engine((int)r->u.explicit_.engine);
        check(r->u.explicit_.hint != 1);
        return;
    case RECORD_DGE_METADATA:
        check_engine((int)r->u.dge.engine);
        check(r->u.dge.packets_per_engine >= 1 && r->u.dge.packets_per_engine <= 4096 && r->u.dge.engine_group < 2);
        return;
    case RECORD_EVENT_SEMAPHORE:
        if (r->u.sem.engine != RECORD_ENGINE_AXI)
            check_engine(r->u.sem.engine);
        return;
    case RECORD_DMA:
        check(r->u.dma.kind < 16 && r->u.dma.queue < 16 && r->u.dma.byte_count < 1u << 24);
        (void)record_dma_kind_name(r->u.dma.kind);
        return;
    case RECORD_TPB_ERROR:
        (void)record_tpb_error_name(r->u.tpb_error.id);
        return;
    default:
        return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t at = 0; at + KYMO_RECORD_SIZE <= size; at += KYMO_RECORD_SIZE) {
        struct record first, second;
        uint8_t bytes[KYMO_RECORD_SIZE], again[KYMO_RECORD_SIZE];
        record_decode(data + at, &first);
        check_ranges(&first);
        record_encode(&first, bytes);
        record_decode(bytes, &second);
        check(first.kind == second.kind && first.type == second.type && first.ts_ps == second.ts_ps);
        record_encode(&second, again);
        check(!memcmp(bytes, again, sizeof bytes));
    }
    return 0;
}
