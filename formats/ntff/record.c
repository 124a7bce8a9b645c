#include "formats/ntff/record.h"

#include <stddef.h>

#include "base/le.h"
#include "formats/ntff/record_decode.h"

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

void record_decode(const uint8_t bytes[KYMO_RECORD_SIZE], struct record *ret)
{
    record_decode_inline(bytes, ret);
}

/* What the encoder builds: the 5-bit type, the low 24 and the high 32 bits. */
struct parts {
    uint32_t type, low, high;
};

static uint32_t engine_type(int engine, enum record_what what)
{
    return RECORD_TYPE_ENGINE_FIRST + 4 * (uint32_t)engine + (uint32_t)what;
}

static uint32_t pc_and_hint(uint32_t pc, uint32_t hint)
{
    return (pc & RECORD_PC_MASK) | (hint & 0xf) << RECORD_PC_BITS;
}

static uint32_t two_halves(uint16_t low, uint16_t high)
{
    return low | (uint32_t)high << 16;
}

static struct parts encode_dge(const struct record *rec)
{
    uint32_t packets = rec->u.dge.packets_per_engine & RECORD_DGE_PACKETS_MASK; /* 4096 becomes the stored 0 */
    return (struct parts){
        engine_type((int)rec->u.dge.engine, RECORD_WHAT_EXPLICIT), pc_and_hint(rec->u.dge.pc, RECORD_HINT_DGE),
        rec->u.dge.dma_engines | packets << 16 | (rec->u.dge.pc_from_last_start ? RECORD_DGE_PC_FROM_LAST : 0) |
            (rec->u.dge.engine_group & 1u) << 31};
}

static struct parts encode_semaphore(const struct record *rec)
{
    uint32_t type = rec->u.sem.engine == RECORD_ENGINE_AXI ? RECORD_TYPE_AXI_SEMAPHORE
                                                           : engine_type(rec->u.sem.engine, RECORD_WHAT_SEMAPHORE);
    return (struct parts){type,
                          rec->u.sem.id | (rec->u.sem.is_semaphore ? RECORD_SEM_IS_SEMAPHORE : 0) |
                              (rec->u.sem.double_set_or_clear ? RECORD_SEM_DOUBLE : 0) |
                              (uint32_t)rec->u.sem.update_mode << 16,
                          rec->u.sem.value};
}

static struct parts encode_dma(const struct record *rec)
{
    struct parts p = {RECORD_TYPE_DMA, 0, rec->u.dma.kind & 0xfu};
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
    uint32_t block = rec->u.error.block_id & RECORD_ERROR_BLOCK_MASK;
    return (struct parts){RECORD_TYPE_ERROR,
                          (rec->u.error.group & 7u) |
                              (rec->u.error.warning ? RECORD_ERROR_WARNING | block << 8 : block << 4),
                          rec->u.error.cause};
}

static struct parts encode_parts(const struct record *rec)
{
    switch (rec->kind) {
    case RECORD_INSTRUCTION_START:
        return (struct parts){engine_type((int)rec->u.start.engine, RECORD_WHAT_START),
                              pc_and_hint(rec->u.start.pc, rec->u.start.hint),
                              two_halves(rec->u.start.soft_reset, rec->u.start.event_wait_cycles)};
    case RECORD_INSTRUCTION_END:
        return (struct parts){engine_type((int)rec->u.end.engine, RECORD_WHAT_END),
                              pc_and_hint(rec->u.end.pc, rec->u.end.hint),
                              two_halves(rec->u.end.crc_in, rec->u.end.crc_out)};
    case RECORD_EXPLICIT:
        return (struct parts){engine_type((int)rec->u.explicit_.engine, RECORD_WHAT_EXPLICIT),
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
        return (struct parts){RECORD_TYPE_TPB_ERROR,
                              rec->u.tpb_error.id | (uint32_t)(rec->u.tpb_error.metadata & 0xffff) << 8,
                              (uint32_t)(rec->u.tpb_error.metadata >> 16)};
    case RECORD_HAM:
        return (struct parts){RECORD_TYPE_HAM, rec->u.raw.low & 0xffffff, rec->u.raw.high};
    case RECORD_UNKNOWN:
    case RECORD_KIND_MAX:
        break;
    }
    return (struct parts){rec->type & 0x1fu, rec->u.raw.low & 0xffffff, rec->u.raw.high};
}

void record_encode(const struct record *rec, uint8_t bytes[KYMO_RECORD_SIZE])
{
    struct parts p = encode_parts(rec);
    kymo_put_le32(bytes, p.low | p.type << RECORD_SHIFT_TYPE | (rec->sw_overflow ? RECORD_BIT_SW : 0) |
                             (rec->hw_overflow ? RECORD_BIT_HW : 0) | (rec->phase ? RECORD_BIT_PHASE : 0));
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
