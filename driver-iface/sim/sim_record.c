#include "driver-iface/sim/sim_record.h"

enum {
    TYPE_DMA = 0x02,
    TYPE_ERROR = 0x03,
    TYPE_ENGINE = 0x04,
    TYPE_AXI = 0x1B,
    TYPE_HAM = 0x1E,
    TYPE_TPB_ERROR = 0x1F
};
enum { WHAT_START = 0, WHAT_END = 1, WHAT_EXPLICIT = 2, WHAT_SYNC = 3 };
#define PC_MASK 0xFFFFFu
#define HINT_SHIFT 20
#define HINT_DGE 1u
#define HINT_CC_START 7u
#define HINT_CC_END 8u

static uint64_t record(unsigned type, uint32_t low24, uint32_t high)
{
    return (low24 & 0xFFFFFFu) | (uint64_t)type << 24 | (uint64_t)high << 32;
}

static unsigned engine_type(enum kymo_engine e, unsigned what)
{
    return TYPE_ENGINE + 4u * (unsigned)e + what;
}

uint64_t sim_record_start(enum kymo_engine e, uint32_t pc, uint16_t wait_cycles)
{
    return record(engine_type(e, WHAT_START), pc & PC_MASK, (uint32_t)wait_cycles << 16);
}

uint64_t sim_record_end(enum kymo_engine e, uint32_t pc, uint16_t crc_in, uint16_t crc_out)
{
    return record(engine_type(e, WHAT_END), pc & PC_MASK, crc_in | (uint32_t)crc_out << 16);
}

uint64_t sim_record_explicit(enum kymo_engine e, uint32_t pc, uint16_t extended_hint)
{
    return record(engine_type(e, WHAT_EXPLICIT), pc & PC_MASK, (uint32_t)extended_hint << 16);
}

uint64_t sim_record_dge(enum kymo_engine e, uint32_t pc, uint16_t engines, unsigned packets_per_engine)
{
    uint32_t high = engines | (packets_per_engine & 0xFFFu) << 16;
    return record(engine_type(e, WHAT_EXPLICIT), (pc & PC_MASK) | HINT_DGE << HINT_SHIFT, high);
}

uint64_t sim_record_sync(int source, uint8_t id, int is_semaphore, uint8_t mode, uint32_t value)
{
    unsigned type = source == SIM_SOURCE_AXI ? (unsigned)TYPE_AXI : engine_type((enum kymo_engine)source, WHAT_SYNC);
    return record(type, id | (is_semaphore ? 1u << 8 : 0u) | (uint32_t)mode << 16, value);
}

uint64_t sim_record_dma_open(uint8_t kind, uint8_t queue)
{
    return record(TYPE_DMA, 0, (kind & 15u) | (queue & 15u) << 4);
}

uint64_t sim_record_dma_close(uint8_t kind, uint8_t queue, uint32_t bytes)
{
    return record(TYPE_DMA, bytes, (kind & 15u) | (queue & 15u) << 4);
}

uint64_t sim_record_cc_start(uint32_t pc, unsigned instr, uint16_t wait_cycles)
{
    return record(engine_type(KYMO_ENGINE_SYNC, WHAT_START), (pc & PC_MASK) | (instr & 15u) << HINT_SHIFT,
                  (uint32_t)wait_cycles << 16);
}

uint64_t sim_record_cc_end(uint32_t pc, unsigned instr)
{
    return record(engine_type(KYMO_ENGINE_SYNC, WHAT_END), (pc & PC_MASK) | (instr & 15u) << HINT_SHIFT, 0);
}

uint64_t sim_record_cc_notice(uint32_t op, uint64_t sequence, int end)
{
    uint32_t pc = (op & 0x3FFu) << 10 | (uint32_t)(sequence >> 16 & 0x3FF);
    return record(engine_type(KYMO_ENGINE_SYNC, WHAT_EXPLICIT), pc,
                  (uint32_t)(sequence & 0xFFFF) | (end ? HINT_CC_END : HINT_CC_START) << 16);
}

uint64_t sim_record_tpb_error(uint8_t id, uint64_t metadata)
{
    return record(TYPE_TPB_ERROR, id | (uint32_t)(metadata & 0xFFFF) << 8, (uint32_t)(metadata >> 16));
}

uint64_t sim_record_error(int warning, uint8_t group, uint16_t block, uint32_t word)
{
    uint32_t low = (group & 7u) | (warning ? 8u | (block & 0x3FFu) << 8 : (block & 0x3FFu) << 4);
    return record(TYPE_ERROR, low, word);
}

uint64_t sim_record_custom(enum kymo_engine e, uint32_t pc, uint16_t sub_id, uint16_t extended_hint)
{
    return record(engine_type(e, WHAT_EXPLICIT), pc & PC_MASK, sub_id | (uint32_t)extended_hint << 16);
}

uint64_t sim_record_ham(uint8_t k, uint8_t n, uint8_t throttle_class, uint32_t duration_ns)
{
    return record(TYPE_HAM, k | (uint32_t)n << 8 | (uint32_t)throttle_class << 16, duration_ns);
}
