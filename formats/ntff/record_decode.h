/*
 * record_decode as inline code, for passes over all records of a ring: what the caller does not look at costs nothing.
 * The bits are those of FORMAT.md.
 */
#ifndef KYMO_FORMATS_NTFF_RECORD_DECODE_H
#define KYMO_FORMATS_NTFF_RECORD_DECODE_H

#include "base/le.h"
#include "formats/ntff/record.h"

#define RECORD_TYPE_DMA 0x02u
#define RECORD_TYPE_ERROR 0x03u
#define RECORD_TYPE_ENGINE_FIRST 0x04u
#define RECORD_TYPE_ENGINE_LAST 0x17u
#define RECORD_TYPE_AXI_SEMAPHORE 0x1bu
#define RECORD_TYPE_HAM 0x1eu
#define RECORD_TYPE_TPB_ERROR 0x1fu

#define RECORD_SHIFT_TYPE 24
#define RECORD_BIT_SW (1u << 29)
#define RECORD_BIT_HW (1u << 30)
#define RECORD_BIT_PHASE (1u << 31)

#define RECORD_PC_MASK ((1u << RECORD_PC_BITS) - 1)
#define RECORD_HINT_DGE 1u
#define RECORD_DGE_PACKETS_MASK 0xfffu
#define RECORD_DGE_PACKETS_AT_ZERO 4096u /* a stored 0 */
#define RECORD_DGE_PC_FROM_LAST (1u << 30)
#define RECORD_SEM_IS_SEMAPHORE (1u << 8)
#define RECORD_SEM_DOUBLE (1u << 9)
#define RECORD_ERROR_WARNING (1u << 3)
#define RECORD_ERROR_BLOCK_MASK 0x3ffu

enum record_what { RECORD_WHAT_START, RECORD_WHAT_END, RECORD_WHAT_EXPLICIT, RECORD_WHAT_SEMAPHORE };

static inline void record_decode_explicit(uint32_t low, uint32_t high, enum kymo_engine engine, struct record *ret)
{
    uint8_t hint = (uint8_t)(low >> RECORD_PC_BITS & 0xf);
    if (hint != RECORD_HINT_DGE) {
        ret->kind = RECORD_EXPLICIT;
        ret->u.explicit_.engine = engine;
        ret->u.explicit_.pc = low & RECORD_PC_MASK;
        ret->u.explicit_.hint = hint;
        ret->u.explicit_.soft_reset = (uint16_t)high;
        ret->u.explicit_.extended_hint = (uint16_t)(high >> 16);
        return;
    }
    uint32_t packets = high >> 16 & RECORD_DGE_PACKETS_MASK;
    ret->kind = RECORD_DGE_METADATA;
    ret->u.dge.engine = engine;
    ret->u.dge.pc = low & RECORD_PC_MASK;
    ret->u.dge.hint = hint;
    ret->u.dge.dma_engines = (uint16_t)high;
    ret->u.dge.packets_per_engine = (uint16_t)(packets ? packets : RECORD_DGE_PACKETS_AT_ZERO);
    ret->u.dge.pc_from_last_start = (high & RECORD_DGE_PC_FROM_LAST) != 0;
    ret->u.dge.engine_group = (uint8_t)(high >> 31);
}

static inline void record_decode_semaphore(uint32_t low, uint32_t high, int engine, struct record *ret)
{
    ret->kind = RECORD_EVENT_SEMAPHORE;
    ret->u.sem.engine = engine;
    ret->u.sem.id = (uint8_t)low;
    ret->u.sem.is_semaphore = (low & RECORD_SEM_IS_SEMAPHORE) != 0;
    ret->u.sem.double_set_or_clear = (low & RECORD_SEM_DOUBLE) != 0;
    ret->u.sem.update_mode = (uint8_t)(low >> 16);
    ret->u.sem.value = high;
}

static inline void record_decode_engine(uint32_t low, uint32_t high, struct record *ret)
{
    enum kymo_engine engine = (enum kymo_engine)((ret->type - RECORD_TYPE_ENGINE_FIRST) / 4);
    switch ((enum record_what)(ret->type & 3)) {
    case RECORD_WHAT_START:
        ret->kind = RECORD_INSTRUCTION_START;
        ret->u.start.engine = engine;
        ret->u.start.pc = low & RECORD_PC_MASK;
        ret->u.start.hint = (uint8_t)(low >> RECORD_PC_BITS & 0xf);
        ret->u.start.soft_reset = (uint16_t)high;
        ret->u.start.event_wait_cycles = (uint16_t)(high >> 16);
        return;
    case RECORD_WHAT_END:
        ret->kind = RECORD_INSTRUCTION_END;
        ret->u.end.engine = engine;
        ret->u.end.pc = low & RECORD_PC_MASK;
        ret->u.end.hint = (uint8_t)(low >> RECORD_PC_BITS & 0xf);
        ret->u.end.crc_in = (uint16_t)high;
        ret->u.end.crc_out = (uint16_t)(high >> 16);
        return;
    case RECORD_WHAT_EXPLICIT:
        record_decode_explicit(low, high, engine, ret);
        return;
    case RECORD_WHAT_SEMAPHORE:
        record_decode_semaphore(low, high, (int)engine, ret);
        return;
    }
}

static inline void record_decode_dma(uint32_t low, uint32_t high, struct record *ret)
{
    uint8_t kind = (uint8_t)(high & 0xf);
    ret->kind = RECORD_DMA;
    ret->u.dma.kind = kind;
    ret->u.dma.queue = 0;
    ret->u.dma.byte_count = 0;
    ret->u.dma.axi_id = 0;
    ret->u.dma.address = 0;
    switch (kind) {
    case RECORD_DMA_AXI_REQ_A:
    case RECORD_DMA_AXI_REQ_B:
        ret->u.dma.address = (uint64_t)(high >> 9) << 24 | low;
        ret->u.dma.axi_id = (uint8_t)(high >> 4 & 0x1f);
        return;
    case RECORD_DMA_AXI_RESP_A:
    case RECORD_DMA_AXI_RESP_B:
        ret->u.dma.axi_id = (uint8_t)(high >> 4 & 0x1f);
        return;
    case RECORD_DMA_APB_A:
    case RECORD_DMA_APB_B:
        ret->u.dma.address = (uint64_t)(high >> 4 & 0xff) << 24 | low;
        return;
    case RECORD_DMA_M2S_END:
    case RECORD_DMA_S2M_END:
        ret->u.dma.byte_count = low;
        break;
    default:
        break;
    }
    ret->u.dma.queue = (uint8_t)(high >> 4 & 0xf);
}

static inline void record_decode_error(uint32_t low, uint32_t high, struct record *ret)
{
    bool warning = (low & RECORD_ERROR_WARNING) != 0;
    ret->kind = RECORD_ERROR;
    ret->u.error.warning = warning;
    ret->u.error.group = (uint8_t)(low & 7);
    ret->u.error.block_id = (uint16_t)(low >> (warning ? 8 : 4) & RECORD_ERROR_BLOCK_MASK);
    ret->u.error.cause = high;
}

static inline void record_decode_other(uint32_t low, uint32_t high, struct record *ret)
{
    switch (ret->type) {
    case RECORD_TYPE_DMA:
        record_decode_dma(low, high, ret);
        return;
    case RECORD_TYPE_ERROR:
        record_decode_error(low, high, ret);
        return;
    case RECORD_TYPE_AXI_SEMAPHORE:
        record_decode_semaphore(low, high, RECORD_ENGINE_AXI, ret);
        return;
    case RECORD_TYPE_TPB_ERROR:
        ret->kind = RECORD_TPB_ERROR;
        ret->u.tpb_error.id = (uint8_t)low;
        ret->u.tpb_error.metadata = (uint64_t)high << 16 | low >> 8;
        return;
    default:
        ret->kind = ret->type == RECORD_TYPE_HAM ? RECORD_HAM : RECORD_UNKNOWN;
        ret->u.raw.low = low;
        ret->u.raw.high = high;
    }
}

static inline void record_decode_inline(const uint8_t bytes[KYMO_RECORD_SIZE], struct record *ret)
{
    uint32_t first = kymo_le32(bytes);
    uint32_t high = kymo_le32(bytes + 4);
    uint32_t low = first & 0xffffff;
    ret->type = (uint8_t)(first >> RECORD_SHIFT_TYPE & 0x1f);
    ret->sw_overflow = (first & RECORD_BIT_SW) != 0;
    ret->hw_overflow = (first & RECORD_BIT_HW) != 0;
    ret->phase = (first & RECORD_BIT_PHASE) != 0;
    ret->ts_ps = kymo_le64(bytes + 8);
    if (ret->type >= RECORD_TYPE_ENGINE_FIRST && ret->type <= RECORD_TYPE_ENGINE_LAST)
        record_decode_engine(low, high, ret);
    else
        record_decode_other(low, high, ret);
}

#endif
