/*
 * What the simulated runtime makes of a NEFF at load: per physical core and engine the final device image (preamble, main,
 * postamble), with pseudo instructions rewritten, the list of rewrites, and DMA queues with their descriptors laid out over
 * engines. Immutable after sim_image_build; may be shared.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_IMAGE_H
#define KYMO_DRIVER_IFACE_SIM_SIM_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "base/err.h"
#include "formats/neff/neff.h"
#include "proto/ntff.pb-c.h"

struct sim_patch { Ntff__InstructionPatchType type; Ntff__ImageSection section; uint64_t offset; uint32_t count; };
struct sim_section { Ntff__ImageSection section; uint32_t first, count, compiler_first; };

struct sim_engine_image {
    enum kymo_engine engine;
    uint64_t start_address;
    uint8_t *code; /* 64 * count */
    uint32_t count;
    int32_t *compiler_pc; /* per slot; -1: runtime code. Truth only */
    struct sim_section sections[4];
    unsigned section_count;
    struct sim_patch *patches;
    size_t patch_count;
};

/* One descriptor: one packet on one engine and queue. */
struct sim_packet { uint8_t dma_engine, queue_index; uint32_t bytes; };
struct sim_block { uint32_t id; const char *function; struct sim_packet *packets; uint32_t packet_count; const struct neff_dma_block *neff; };
struct sim_queue {
    const char *name;
    uint8_t queue_index; /* hardware queue 0..15 on each engine it uses */
    uint16_t engines;    /* bit k: DMA engine k */
    Ntff__DmaQueueType type;
    bool software_dynamic, hardware_dynamic;
    int semaphore;
    struct sim_block *blocks;
    size_t block_count;
};

struct sim_core_image { /* one physical core */
    const struct neff_subgraph *subgraph;
    struct sim_engine_image engines[KYMO_ENGINE_MAX];
    struct sim_queue *queues;
    size_t queue_count;
};

struct sim_image {
    const struct kymo_arch *arch;
    struct neff *neff; /* owned */
    unsigned lnc;
    uint64_t model_id;
    uint64_t image_bytes; /* instruction bytes fetched at each execution */
    struct sim_core_image cores[2];
};

/* Takes ownership of neff on success. */
int sim_image_build(const struct kymo_arch *arch, unsigned lnc, struct neff *neff, uint64_t model_id, struct sim_image **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct sim_image *sim_image_free(struct sim_image *im);
void sim_image_freep(struct sim_image **im);

/*
 * The Ntff__NeffNodeInfo of this image (graphs, instruction infos with sections and patches, queue usage), for the writer; the
 * images' bytes are the sim_engine_image codes in the order of graphs and instruction_info. Free with ntff__neff_node_info__free_unpacked.
 */
Ntff__NeffNodeInfo *sim_image_describe(const struct sim_image *im, unsigned nd_idx, unsigned first_pcore);

#endif
