/*
 * What is known of each hardware generation, as data: one file per generation (arch_trn1.c, arch_inf2.c, arch_trn2.c,
 * arch_trn3.c) holding one constant struct. Classes of the facts stand beside the values there (A vendor's
 * documentation or driver, C one third party's notes, G ours). Simulator and reader use the same data, so that one real
 * sample corrects one file. All tables are constant and shared by any number of threads.
 */
#ifndef KYMO_ARCH_ARCH_H
#define KYMO_ARCH_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Numbering is that of NTFF nc_engine_type and of notification codes: code = 4 + 4 * engine + what (class C, H). */
enum kymo_engine {
    KYMO_ENGINE_TENSOR = 0,
    KYMO_ENGINE_SCALAR = 1,
    KYMO_ENGINE_GPSIMD = 2,
    KYMO_ENGINE_VECTOR = 3,
    KYMO_ENGINE_SYNC = 4,
    KYMO_ENGINE_MAX = 5,
    KYMO_ENGINE_INVALID = -22,
};

enum kymo_generation { KYMO_GEN_TRN1, KYMO_GEN_INF2, KYMO_GEN_TRN2, KYMO_GEN_TRN3, KYMO_GEN_MAX };

enum kymo_dtype_cost { KYMO_COST_BF16, KYMO_COST_FP32, KYMO_COST_FP8, KYMO_COST_UINT8, KYMO_COST_MX, KYMO_COST_MAX };

struct kymo_operand_layouts; /* arch/layout.h */

#define KYMO_SYNC_INC 0x1800u /* C for Trn2, G elsewhere */

#define KYMO_H2D_ENGINES_MAX 4
#define KYMO_H2D_QUEUES_MAX 16

/* What one queue of a host-device DMA engine carries (G): row of HostDmaTransfer.direction and .traffic. */
struct kymo_h2d_queue {
    uint8_t queue;         /* number on the engine, before the core of the pair is added: see h2d_queue_stride */
    const char *name;      /* as dma_queue_usage_info names it */
    const char *direction; /* host_to_device, device_to_host, or NULL */
    const char *traffic;   /* copy, instruction_fetch, model_switch, collective */
};

struct kymo_arch {
    enum kymo_generation gen;
    const char *name;        /* Trn2 */
    const char *codename;    /* cayman */
    const char *nc_version;  /* NCv3 */
    const char *device_name; /* Trainium2 */
    int nc_generation;       /* 2, 3, 4: opcode availability */
    bool lnc2;               /* LNC=2 exists */

    unsigned pcores_per_device;
    unsigned devices_max; /* per instance */
    unsigned dma_engines; /* per physical core */
    unsigned dma_queues;  /* per DMA engine */
    unsigned cc_cores;    /* per device */
    unsigned semaphores, events;
    unsigned hardware_dge; /* descriptor generation engines per physical core, started by Scalar or Sync; 0: none */

    uint32_t sbuf_partitions, sbuf_partition_bytes;
    uint32_t psum_partition_bytes, psum_banks, psum_bank_bytes;
    uint64_t hbm_bytes, hbm_stacks;
    double hbm_stack_bandwidth; /* bytes/s of one stack: Metadata.hbm_ddr_bandwidth */
    double dma_bandwidth;       /* bytes/s of one physical core's engines: Metadata.dma_ddr_bandwidth */

    unsigned pe_rows, pe_cols, vector_channels, scalar_channels, gpsimd_channels;
    double clock_ghz[KYMO_ENGINE_MAX]; /* by engine; Sync runs at the core clock */
    double core_clock_ghz;
    double cost[KYMO_COST_MAX]; /* FLOP multiplier relative to BF16; 0: the type does not exist */
    unsigned ticks_per_ns;      /* 1000: records are in ps */

    bool rescale; /* Trn1/Inf2: timestamps are corrected by the engine's triple (design, Decided: Time) */

    /* Host-device DMA engines: global id of the engine that serves physical core c is h2d_first + c /
     * h2d_pcores_per_engine. */
    unsigned h2d_first, h2d_engines, h2d_pcores_per_engine;
    unsigned h2d_queue_stride; /* queue number = stride * (core within the engine's group) + kymo_h2d_queue.queue (G) */
    const struct kymo_h2d_queue *h2d_queues;
    size_t h2d_queue_count;

    /* DMA packets in a trace (G): one record of kind `dma_open` begins a packet, one of kind `dma_close` (with its byte
     * count) ends it, first in first out per queue of a ring; other kinds are known but make no row. */
    uint8_t dma_open, dma_close;

    /* Trace pc (G): true: slot = pc - start_address / 64 modulo 2^20; false: slot = pc. The reader tries both. */
    bool pc_is_absolute;

    /* Device view of on-chip memory for 8-byte DMA addresses, physical core 0 (C for Trn2, G elsewhere); core k adds k
     * * stride. */
    uint64_t sbuf_base, sbuf_window, psum_base, psum_window, core_stride, hbm_base;
    uint64_t sync_base; /* event/semaphore block of physical core 0; writing n to sync_base + KYMO_SYNC_INC + 4 * s adds
                           n to semaphore s */

    const struct kymo_operand_layouts *layouts;
};

const struct kymo_arch *kymo_arch_get(enum kymo_generation gen);
/* By generation ("Trn2", any case), code name, NCv3, or instance type ("trn2.48xlarge"); NULL when unknown. */
const struct kymo_arch *kymo_arch_find(const char *name);
/* A NEFF's target: sunda, v2 or sunda/v2. NULL for "*", for NULL and for what is not known. */
const struct kymo_arch *kymo_arch_of_target(const char *target);

struct kymo_instance {
    const char *type; /* trn2.48xlarge */
    enum kymo_generation gen;
    unsigned devices;
    unsigned default_lnc;
};
const struct kymo_instance *kymo_instance_find(const char *type);
/* All known instance types; *ret_n of them. */
const struct kymo_instance *kymo_instance_all(size_t *ret_n);

/* 0, or -EINVAL with the reason when this lnc (1 or 2) does not exist on the generation. */
int kymo_arch_check_lnc(const struct kymo_arch *arch, unsigned lnc, struct kymo_err *err) KYMO_MUST_CHECK;

enum kymo_region { KYMO_REGION_HBM, KYMO_REGION_SBUF, KYMO_REGION_PSUM, KYMO_REGION_OTHER };
/* Sorts an 8-byte DMA address by the map above. *ret_pcore: whose SBUF or PSUM; *ret_offset: from the base of the
 * region. */
enum kymo_region kymo_arch_region(const struct kymo_arch *arch, uint64_t addr, unsigned *ret_pcore,
                                  uint64_t *ret_offset);

const char *kymo_engine_name(enum kymo_engine e);       /* Tensor Scalar GpSimd Vector Sync */
const char *kymo_engine_lower(enum kymo_engine e);      /* tensor scalar gpsimd vector sync */
const char *kymo_engine_neff(enum kymo_engine e);       /* pe act pool dve sp: keys of def.json */
enum kymo_engine kymo_engine_find(const char *name);    /* any of these spellings, any case, and PE ACT ... */
enum kymo_engine kymo_engine_of_debug(unsigned number); /* NEFF debug info: 1 PE 2 ACT 3 POOL 5 DVE 6 SP */
unsigned kymo_engine_debug(enum kymo_engine e);

enum kymo_memory_class {
#define MEMORY(id, number, name) KYMO_MEMORY_##id = number,
#include "arch/device_memory.def"
#undef MEMORY
    KYMO_MEMORY_MAX = 11
};
const char *kymo_memory_class_name(unsigned number); /* Weights, ...; NULL: unknown */

#endif
