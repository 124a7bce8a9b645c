/*
 * The simulator's own encoder of notification records (byte layout: formats/ntff/FORMAT.md). It shares no code with
 * formats/ntff/record.c, so that each checks the other. Every function gives the low 64 bits of a record without phase
 * and overflow marks; the high 64 are the timestamp.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_RECORD_H
#define KYMO_DRIVER_IFACE_SIM_SIM_RECORD_H

#include <stdint.h>

#include "arch/arch.h"

#define SIM_MARK_LOST_BEFORE (1u << 29) /* software queue overflow */
#define SIM_MARK_LOST_AFTER (1u << 30)  /* hardware buffer overflow */
#define SIM_MARK_PHASE (1u << 31)

enum sim_axi { SIM_SOURCE_AXI = -1 };

uint64_t sim_record_start(enum kymo_engine e, uint32_t pc, uint16_t wait_cycles);
uint64_t sim_record_end(enum kymo_engine e, uint32_t pc, uint16_t crc_in, uint16_t crc_out);
uint64_t sim_record_explicit(enum kymo_engine e, uint32_t pc, uint16_t extended_hint);
uint64_t sim_record_dge(enum kymo_engine e, uint32_t pc, uint16_t engines, unsigned packets_per_engine);
/* source: enum kymo_engine or SIM_SOURCE_AXI. */
uint64_t sim_record_sync(int source, uint8_t id, int is_semaphore, uint8_t mode, uint32_t value);
uint64_t sim_record_dma_open(uint8_t kind, uint8_t queue);
uint64_t sim_record_dma_close(uint8_t kind, uint8_t queue, uint32_t bytes);
/* CC-cores write as Sync does. instr: enum kymo_cc_instr, the hint. */
uint64_t sim_record_cc_start(uint32_t pc, unsigned instr, uint16_t wait_cycles);
uint64_t sim_record_cc_end(uint32_t pc, unsigned instr);
/* A collective begins or ends: number of the op (10 bits) and of the collective on its stream (26 bits). */
uint64_t sim_record_cc_notice(uint32_t op, uint64_t sequence, int end);
uint64_t sim_record_tpb_error(uint8_t id, uint64_t metadata);
/* The records of FORMAT.md's section on notices. */
uint64_t sim_record_error(int warning, uint8_t group, uint16_t block, uint32_t word);
uint64_t sim_record_custom(enum kymo_engine e, uint32_t pc, uint16_t sub_id, uint16_t extended_hint);
uint64_t sim_record_ham(uint8_t k, uint8_t n, uint8_t throttle_class, uint32_t duration_ns);

#endif
