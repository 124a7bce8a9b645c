#include "formats/ntff/record.h"

#include <stddef.h>

#include "base/le.h"

#define TYPE_DMA 0x02u
#define TYPE_ERROR 0x03u
#define TYPE_ENGINE_FIRST 0x04u
#define TYPE_ENGINE_LAST 0x17u
#define TYPE_AXI_SEMAPHORE 0x1bu
#define TYPE_HAM 0x1eu
#define TYPE_TPB_ERROR 0x1fu

#define SHIFT_TYPE 24
#define BIT_SW (1u << 29)
#define BIT_HW (1u << 30)
#define BIT_PHASE (1u << 31)

#define PC_MASK ((1u << RECORD_PC_BITS) - 1)
#define HINT_DGE 1u
#define DGE_PACKETS_MASK 0xfffu
#define DGE_PACKETS_AT_ZERO 4096u /* a stored 0 */
#define DGE_PC_FROM_LAST (1u << 30)
#define SEM_IS_SEMAPHORE (1u << 8)
#define SEM_DOUBLE (1u << 9)
#define ERROR_WARNING (1u << 3)
#define ERROR_BLOCK_MASK 0x3ffu

enum engine_what { WHAT_START, WHAT_END, WHAT_EXPLICIT, WHAT_SEMAPHORE };

static const char *const kind_names[RECORD_KIND_MAX] = {
    [RECORD_INSTRUCTION_START] = "instruction_start",
    [RECORD_INSTRUCTION_END] = "instruction_end",
    [RECORD_EXPLICIT] = "explicit",
    [RECORD_DGE_METADATA] = "dge_metadata",
    [RECORD_EVENT_SEMAPHORE] = "event_semaphore",
    [RECORD_DMA] = "dma",
    [RECORD_ERROR] = "error",
    [RECORD_TPB_ERROR] = "tpb_error",
    [RECORD_HAM] = "ham",
    [RECORD_UNKNOWN] = "unknown",
};

static const char *const dma_kind_names[16] = {
    [RECORD_DMA_M2S_START] = "m2s_start",
    [RECORD_DMA_M2S_END] = "m2s_end",
    [RECORD_DMA_M2S_COMPLETE] = "m2s_completion",
    [RECORD_DMA_S2M_START] = "s2m_start",
    [RECORD_DMA_S2M_END] = "s2m_end",
    [RECORD_DMA_S2M_COMPLETE] = "s2m_completion",
    [RECORD_DMA_AXI_REQ_A] = "axi_request",
    [RECORD_DMA_AXI_REQ_B] = "axi_request",
    [RECORD_DMA_AXI_RESP_A] = "axi_response",
    [RECORD_DMA_AXI_RESP_B] = "axi_response",
    [RECORD_DMA_APB_A] = "apb_request",
    [RECORD_DMA_APB_B] = "apb_request",
};

static const char *const tpb_error_names[] = {
    "fp_underflow",
    "nan",
    "inf",
    "fp_overflow",
    "memory",
    "fake",
    "semaphore",
    "event",
    "psum_collision",
    "sequencer_nonfatal",
    "sequencer_fatal",
};

static void decode_explicit(uint32_t low, uint32_t high, enum kymo_engine engine, struct record *ret)
{
    uint8_t hint = (uint8_t)(low >> RECORD_PC_BITS & 0xf);
    if (hint != HINT_DGE) {
        ret->kind = RECORD_EXPLICIT;
        ret->u.explicit_.engine = engine;
        ret->u.explicit_.pc = low & PC_MASK;
        ret->u.explicit_.hint = hint;
        ret->u.explicit_.soft_reset = (uint16_t)high;
        ret->u.explicit_.extended_hint = (uint16_t)(high >> 16);
        return;
    }
    uint32_t packets = high >> 16 & DGE_PACKETS_MASK;
    ret->kind = RECORD_DGE_METADATA;
    ret->u.dge.engine = engine;
    ret->u.dge.pc = low & PC_MASK;
    ret->u.dge.hint = hint;
    ret->u.dge.dma_engines = (uint16_t)high;
    ret->u.dge.packets_per_engine = (uint16_t)(packets ? packets : DGE_PACKETS_AT_ZERO);
    ret->u.dge.pc_from_last_start = (high & DGE_PC_FROM_LAST) != 0;
    ret->u.dge.engine_group = (uint8_t)(high >> 31);
}

static void decode_semaphore(uint32_t low, uint32_t high, int engine, struct record *ret)
{
    ret->kind = RECORD_EVENT_SEMAPHORE;
    ret->u.sem.engine = engine;
    ret->u.sem.id = (uint8_t)low;
    ret->u.sem.is_semaphore = (low & SEM_IS_SEMAPHORE) != 0;
    ret->u.sem.double_set_or_clear = (low & SEM_DOUBLE) != 0;
    ret->u.sem.update_mode = (uint8_t)(low >> 16);
    ret->u.sem.value = high;
}

static void decode_engine(uint32_t low, uint32_t high, struct record *ret)
{
    enum kymo_engine engine = (enum kymo_engine)((ret->type - TYPE_ENGINE_FIRST) / 4);
    switch ((enum engine_what)(ret->type & 3)) {
    case WHAT_START:
        ret->kind = RECORD_INSTRUCTION_START;
        ret->u.start.engine = engine;
        ret->u.start.pc = low & PC_MASK;
        ret->u.start.hint = (uint8_t)(low >> RECORD_PC_BITS & 0xf);
        ret->u.start.soft_reset = (uint16_t)high;
        ret->u.start.event_wait_cycles = (uint16_t)(high >> 16);
        return;
    case WHAT_END:
        ret->kind = RECORD_INSTRUCTION_END;
        ret->u.end.engine = engine;
        ret->u.end.pc = low & PC_MASK;
        ret->u.end.hint = (uint8_t)(low >> RECORD_PC_BITS & 0xf);
        ret->u.end.crc_in = (uint16_t)high;
        ret->u.end.crc_out = (uint16_t)(high >> 16);
        return;
    case WHAT_EXPLICIT:
        decode_explicit(low, high, engine, ret);
        return;
    case WHAT_SEMAPHORE:
        decode_semaphore(low, high, (int)engine, ret);
        return;
    }
}

static void decode_dma(uint32_t low, uint32_t high, struct record *ret)
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

static void decode_error(uint32_t low, uint32_t high, struct record *ret)
{
    bool warning = (low & ERROR_WARNING) != 0;
    ret->kind = RECORD_ERROR;
    ret->u.error.warning = warning;
    ret->u.error.group = (uint8_t)(low & 7);
    ret->u.error.block_id = (uint16_t)(low >> (warning ? 8 : 4) & ERROR_BLOCK_MASK);
    ret->u.error.cause = high;
}

static void decode_other(uint32_t low, uint32_t high, struct record *ret)
{
    switch (ret->type) {
    case TYPE_DMA:
        decode_dma(low, high, ret);
        return;
    case TYPE_ERROR:
        decode_error(low, high, ret);
        return;
    case TYPE_AXI_SEMAPHORE:
        decode_semaphore(low, high, RECORD_ENGINE_AXI, ret);
        return;
    case TYPE_TPB_ERROR:
        ret->kind = RECORD_TPB_ERROR;
        ret->u.tpb_error.id = (uint8_t)low;
        ret->u.tpb_error.metadata = (uint64_t)high << 16 | low >> 8;
        return;
    default:
        ret->kind = ret->type == TYPE_HAM ? RECORD_HAM : RECORD_UNKNOWN;
        ret->u.raw.low = low;
        ret->u.raw.high = high;
    }
}

void record_decode(const uint8_t bytes[KYMO_RECORD_SIZE], struct record *ret)
{
    uint32_t first = kymo_le32(bytes);
    uint32_t high = kymo_le32(bytes + 4);
    uint32_t low = first & 0xffffff;
    ret->type = (uint8_t)(first >> SHIFT_TYPE & 0x1f);
    ret->sw_overflow = (first & BIT_SW) != 0;
    ret->hw_overflow = (first & BIT_HW) != 0;
    ret->phase = (first & BIT_PHASE) != 0;
    ret->ts_ps = kymo_le64(bytes + 8);
    if (ret->type >= TYPE_ENGINE_FIRST && ret->type <= TYPE_ENGINE_LAST)
        decode_engine(low, high, ret);
    else
        decode_other(low, high, ret);
}

/* What the encoder builds: the 5-bit type, the low 24 and the high 32 bits. */
struct parts {
    uint32_t type, low, high;
};

static uint32_t engine_type(int engine, enum engine_what what)
{
    return TYPE_ENGINE_FIRST + 4 * (uint32_t)engine + (uint32_t)what;
}

static uint32_t pc_and_hint(uint32_t pc, uint32_t hint)
{
    return (pc & PC_MASK) | (hint & 0xf) << RECORD_PC_BITS;
}

static uint32_t two_halves(uint16_t low, uint16_t high)
{
    return low | (uint32_t)high << 16;
}

static struct parts encode_dge(const struct record *rec)
{
    uint32_t packets = rec->u.dge.packets_per_engine & DGE_PACKETS_MASK; /* 4096 becomes the stored 0 */
    return (struct parts){engine_type((int)rec->u.dge.engine, WHAT_EXPLICIT), pc_and_hint(rec->u.dge.pc, HINT_DGE),
                          rec->u.dge.dma_engines | packets << 16 |
                              (rec->u.dge.pc_from_last_start ? DGE_PC_FROM_LAST : 0) |
                              (rec->u.dge.engine_group & 1u) << 31};
}

static struct parts encode_semaphore(const struct record *rec)
{
    uint32_t type =
        rec->u.sem.engine == RECORD_ENGINE_AXI ? TYPE_AXI_SEMAPHORE : engine_type(rec->u.sem.engine, WHAT_SEMAPHORE);
    return (struct parts){type,
                          rec->u.sem.id | (rec->u.sem.is_semaphore ? SEM_IS_SEMAPHORE : 0) |
                              (rec->u.sem.double_set_or_clear ? SEM_DOUBLE : 0) |
                              (uint32_t)rec->u.sem.update_mode << 16,
                          rec->u.sem.value};
}

static struct parts encode_dma(const struct record *rec)
{
    struct parts p = {TYPE_DMA, 0, rec->u.dma.kind & 0xfu};
    switch (rec->u.dma.kind) {
    case RECORD_DMA_AXI_REQ_A:
    case RECORD_DMA_AXI_REQ_B:
        p.low = (uint32_t)(rec->u.dma.address & 0xffffff);
        p.high |= (rec->u.dma.axi_id & 0x1fu) << 4 | (uint32_t)(rec->u.dma.address >> 24 & 0x7fffff) << 9;
        return p;
    case RECORD_DMA_AXI_RESP_A:
    case RECORD_DMA_AXI_RESP_B:
        p.high |= (rec->u.dma.axi_id & 0x1fu) << 4;
        return p;
    case RECORD_DMA_APB_A:
    case RECORD_DMA_APB_B:
        p.low = (uint32_t)(rec->u.dma.address & 0xffffff);
        p.high |= (uint32_t)(rec->u.dma.address >> 24 & 0xff) << 4;
        return p;
    case RECORD_DMA_M2S_END:
    case RECORD_DMA_S2M_END:
        p.low = rec->u.dma.byte_count & 0xffffff;
        break;
    default:
        break;
    }
    p.high |= (rec->u.dma.queue & 0xfu) << 4;
    return p;
}

static struct parts encode_error(const struct record *rec)
{
    uint32_t block = rec->u.error.block_id & ERROR_BLOCK_MASK;
    return (struct parts){TYPE_ERROR,
                          (rec->u.error.group & 7u) | (rec->u.error.warning ? ERROR_WARNING | block << 8 : block << 4),
                          rec->u.error.cause};
}

static struct parts encode_parts(const struct record *rec)
{
    switch (rec->kind) {
    case RECORD_INSTRUCTION_START:
        return (struct parts){engine_type((int)rec->u.start.engine, WHAT_START),
                              pc_and_hint(rec->u.start.pc, rec->u.start.hint),
                              two_halves(rec->u.start.soft_reset, rec->u.start.event_wait_cycles)};
    case RECORD_INSTRUCTION_END:
        return (struct parts){engine_type((int)rec->u.end.engine, WHAT_END),
                              pc_and_hint(rec->u.end.pc, rec->u.end.hint),
                              two_halves(rec->u.end.crc_in, rec->u.end.crc_out)};
    case RECORD_EXPLICIT:
        return (struct parts){engine_type((int)rec->u.explicit_.engine, WHAT_EXPLICIT),
                              pc_and_hint(rec->u.explicit_.pc, rec->u.explicit_.hint),
                              two_halves(rec->u.explicit_.soft_reset, rec->u.explicit_.extended_hint)};
    case RECORD_DGE_METADATA:
        return encode_dge(rec);
    case RECORD_EVENT_SEMAPHORE:
        return encode_semaphore(rec);
    case RECORD_DMA:
        return encode_dma(rec);
    case RECORD_ERROR:
        return encode_error(rec);
    case RECORD_TPB_ERROR:
        return (struct parts){TYPE_TPB_ERROR, rec->u.tpb_error.id | (uint32_t)(rec->u.tpb_error.metadata & 0xffff) << 8,
                              (uint32_t)(rec->u.tpb_error.metadata >> 16)};
    case RECORD_HAM:
        return (struct parts){TYPE_HAM, rec->u.raw.low & 0xffffff, rec->u.raw.high};
    case RECORD_UNKNOWN:
    case RECORD_KIND_MAX:
        break;
    }
    return (struct parts){rec->type & 0x1fu, rec->u.raw.low & 0xffffff, rec->u.raw.high};
}

void record_encode(const struct record *rec, uint8_t bytes[KYMO_RECORD_SIZE])
{
    struct parts p = encode_parts(rec);
    kymo_put_le32(bytes, p.low | p.type << SHIFT_TYPE | (rec->sw_overflow ? BIT_SW : 0) |
                             (rec->hw_overflow ? BIT_HW : 0) | (rec->phase ? BIT_PHASE : 0));
    kymo_put_le32(bytes + 4, p.high);
    kymo_put_le64(bytes + 8, rec->ts_ps);
}

const char *record_kind_name(enum record_kind kind)
{
    return kind_names[kind];
}

const char *record_dma_kind_name(uint8_t kind)
{
    return kind < sizeof dma_kind_names / sizeof *dma_kind_names ? dma_kind_names[kind] : NULL;
}

const char *record_tpb_error_name(uint8_t id)
{
    return id < sizeof tpb_error_names / sizeof *tpb_error_names ? tpb_error_names[id] : NULL;
}
