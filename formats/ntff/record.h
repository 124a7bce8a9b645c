/*
 * The 16-byte notification record (facts: ntff.md section 3, class C). Decoding is total: every 16 bytes give a kind.
 * See FORMAT.md beside this file for the drawing.
 */
#ifndef KYMO_FORMATS_NTFF_RECORD_H
#define KYMO_FORMATS_NTFF_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/arch.h"
#include "arch/ring.h"

#define RECORD_PC_BITS 20
#define RECORD_WAIT_SATURATED 65535 /* evt wait cycles: a lower bound */
#define RECORD_ENGINE_AXI (-1)      /* sem.engine of an update that came through AXI */

enum record_kind {
    RECORD_INSTRUCTION_START,
    RECORD_INSTRUCTION_END,
    RECORD_EXPLICIT,
    RECORD_DGE_METADATA,
    RECORD_EVENT_SEMAPHORE,
    RECORD_DMA,
    RECORD_ERROR,
    RECORD_TPB_ERROR,
    RECORD_HAM,
    RECORD_UNKNOWN,
    RECORD_KIND_MAX,
};

/* DMA record kinds (C, H). */
enum record_dma_kind {
    RECORD_DMA_M2S_START = 1,
    RECORD_DMA_M2S_END = 2,
    RECORD_DMA_M2S_COMPLETE = 3,
    RECORD_DMA_S2M_START = 4,
    RECORD_DMA_S2M_END = 5,
    RECORD_DMA_S2M_COMPLETE = 6,
    RECORD_DMA_AXI_REQ_A = 8,
    RECORD_DMA_AXI_REQ_B = 9,
    RECORD_DMA_AXI_RESP_A = 10,
    RECORD_DMA_AXI_RESP_B = 11,
    RECORD_DMA_APB_A = 12,
    RECORD_DMA_APB_B = 13,
};

/* Status notices: explicit records of the INFER_STATUS ring, by extended hint (C, M). */
enum record_status {
    RECORD_STATUS_START = 2,
    RECORD_STATUS_END = 3,
    RECORD_STATUS_CUSTOM = 6,
    RECORD_STATUS_CC_START = 7,
    RECORD_STATUS_CC_END = 8
};

struct record {
    enum record_kind kind;
    uint8_t type; /* 5 bits; record_encode derives it from kind and engine, except for RECORD_UNKNOWN */
    bool phase, sw_overflow, hw_overflow;
    uint64_t ts_ps; /* raw */
    union {
        struct {
            enum kymo_engine engine;
            uint32_t pc;
            uint8_t hint;
            uint16_t soft_reset, event_wait_cycles;
        } start;
        struct {
            enum kymo_engine engine;
            uint32_t pc;
            uint8_t hint;
            uint16_t crc_in, crc_out;
        } end;
        struct {
            enum kymo_engine engine;
            uint32_t pc;
            uint8_t hint;
            uint16_t soft_reset, extended_hint;
        } explicit_;
        struct {
            enum kymo_engine engine;
            uint32_t pc;
            uint8_t hint;
            uint16_t dma_engines;
            uint16_t packets_per_engine;
            bool pc_from_last_start;
            uint8_t engine_group;
        } dge;
        struct {
            int engine; /* enum kymo_engine or RECORD_ENGINE_AXI */
            uint8_t id;
            bool is_semaphore, double_set_or_clear;
            uint8_t update_mode;
            uint32_t value;
        } sem;
        struct {
            uint8_t kind, queue;
            uint32_t byte_count; /* ends */
            uint8_t axi_id;
            uint64_t address; /* AXI, APB requests */
        } dma;
        struct {
            bool warning;
            uint8_t group;
            uint16_t block_id;
            uint32_t cause;
        } error;
        struct {
            uint8_t id;
            uint64_t metadata; /* 48 bits */
        } tpb_error;
        struct {
            uint32_t low;
            uint32_t high;
        } raw; /* HAM and unknown: bytes 0..2 and 4..7 */
    } u;
};

void record_decode(const uint8_t bytes[KYMO_RECORD_SIZE], struct record *ret);
/*
 * The inverse: record_decode of the result gives rec again. Bits that FORMAT.md calls unused are written 0, values
 * wider than their field are cut to it. An explicit record with hint 1 is a DGE record whichever of the two kinds made
 * it.
 */
void record_encode(const struct record *rec, uint8_t bytes[KYMO_RECORD_SIZE]);
const char *record_kind_name(enum record_kind kind); /* instruction_start, ... */
const char *record_dma_kind_name(uint8_t kind);      /* m2s_start, ...; NULL: unassigned */
const char *record_tpb_error_name(uint8_t id);       /* NULL: unassigned */

#endif
