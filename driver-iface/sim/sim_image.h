/*
 * What the simulated runtime makes of a NEFF at load: per physical core and engine the final device image (preamble,
 * main, postamble), with pseudo instructions rewritten, the list of rewrites, and DMA queues with their descriptors
 * laid out over engines. Immutable after sim_image_build; may be shared by any number of threads; counted references.
 *
 * How programs are read (all G; arch/layout.h says where the fields lie):
 *   MOVE, ALU_OP, COMPARE_BRANCH  as arch/layout.h says (32-bit unsigned registers). TARGET counts slots of its own
 * stream: the compiler's stream in a NEFF, the image in an image. A compiler's HALT becomes a branch to the postamble.
 *   PSEUDO_DMA_TRIGGER   becomes WRITE: ADDR the queue's doorbell, VALUE the block's position on its queue. The block
 * starts when the WRITE ends. Each of the num_queues rings adds 1 to the block's semaphore (else the queue's) when its
 * share is done, so a finished block adds num_queues, also when it has fewer packets than rings. PSEUDO_DMA_DIRECT2D
 * becomes DMA_DIRECT2D on the engine's dynamic queue set; where its addresses name variables of the NEFF (var_id and
 * offset), the device addresses of these take their place. The whole transfer adds DMA_SEM_INC to semaphore DMA_SEM
 * once, when its last packet is done (increment 0: no semaphore). Bytes = SRC_ELEM * SRC_COUNT0 * SRC_COUNT1 (a count
 * of 0 counts as 1). Every engine used gets the same number of packets, because the DGE record has one number for all.
 *   PSEUDO_TRIGGER_COLLECTIVE  becomes WRITE: ADDR the doorbell of its stream, VALUE the collective's place in cc_ops.
 * When the WRITE ends the collective is queued on its stream; when it is done, DMA_SEM_INC is added to semaphore
 * DMA_SEM.
 *   PSEUDO_CORE_BARRIER  becomes a WRITE that adds 1 to the barrier's semaphore on the other core of the pair
 * (inserted; it takes the record's wait), and an EVENT_SEMAPHORE that waits for 1 on the own core's and takes it off.
 *   PSEUDO_BRANCH_LABEL  is deleted. A NOP is inserted after each backward branch. PSEUDO_LOAD_ACT_FUNC_SET becomes
 *                   ACTIVATION_TABLE_LOAD. Any other pseudo instruction is refused with engine and pc.
 *   NOTIFY          VALUE 2 and 3: execution start and end, into INFER_STATUS; other values: an explicit record.
 *   EVENT_SEMAPHORE_RANGE_CLEAR  clears semaphores and events of the range, but for the runtime's two.
 * Two semaphores that no stream or queue of the core uses serve the runtime's own start and end barriers. Every
 * execution starts with all semaphores and events cleared.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_IMAGE_H
#define KYMO_DRIVER_IFACE_SIM_SIM_IMAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "arch/ring.h"
#include "base/err.h"
#include "formats/neff/neff.h"
#include "proto/ntff.pb-c.h"

#define SIM_DMA_ENGINES 16
#define SIM_DMA_QUEUES 16
#define SIM_PACKET_BYTES_MAX 4096u /* one descriptor of a static block carries at most this many bytes (G) */
#define SIM_BLOCK_PACKETS_MAX (1u << 20)
#define SIM_IMAGE_SLOTS_MAX (1u << 20) /* pc has 20 bits */

struct sim_op; /* sim_op.h: an instruction decoded for the engine models */

struct sim_patch {
    Ntff__InstructionPatchType type;
    Ntff__ImageSection section;
    uint64_t offset;
    uint32_t count;
};

struct sim_section {
    Ntff__ImageSection section;
    uint32_t first, count, compiler_first;
};

struct sim_engine_image {
    enum kymo_engine engine;
    uint64_t start_address;
    uint8_t *code;                /* 64 * count */
    uint32_t count;               /* 0: the engine does nothing in this model */
    int32_t *compiler_pc;         /* per slot; -1: runtime code. Truth only */
    const uint8_t *compiler_code; /* the NEFF's stream; NULL: none */
    struct sim_op *ops;           /* per slot */
    struct sim_section sections[4];
    unsigned section_count;
    struct sim_patch *patches;
    size_t patch_count;
};

/* One descriptor: one packet on one engine and queue. */
struct sim_packet {
    uint8_t dma_engine, queue_index;
    uint32_t bytes;
};

struct sim_block {
    uint32_t id;
    const char *function;       /* NULL: none */
    struct sim_packet *packets; /* grouped by engine, each engine's share in descriptor order */
    uint32_t packet_count;
    uint32_t share_first[SIM_DMA_ENGINES + 1]; /* engine e's share: packets [share_first[e], share_first[e + 1]) */
    uint64_t bytes;
    int semaphore; /* -1: none */
    const struct neff_dma_block *neff;
};

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

/* A collective of the program, as its trigger says. */
struct sim_cc_op {
    uint32_t id;
    uint8_t engine, kind, alu, dtype, semaphore, increment;
    uint16_t layout, stream; /* replica layout of the subgraph */
    uint64_t elements;       /* that one rank puts in */
};

/* A variable at its device address: the state buffer is the core's window, the others lie one behind the other in HBM
 * (G). */
struct sim_var {
    const struct neff_var *neff;
    uint64_t address;
};

struct sim_core_image { /* one physical core */
    const struct neff_subgraph *subgraph;
    struct sim_engine_image engines[KYMO_ENGINE_MAX];
    struct sim_queue *queues;
    size_t queue_count;
    uint8_t start_semaphore, end_semaphore; /* the runtime's barriers */
    struct sim_cc_op *cc_ops;               /* by id */
    size_t cc_op_count;
    struct sim_var *vars; /* by var_id */
    size_t var_count;
};

struct sim_image {
    const struct kymo_arch *arch;
    struct neff *neff; /* owned */
    unsigned lnc;
    uint64_t model_id;
    uint64_t image_bytes; /* instruction bytes fetched at each execution */
    struct sim_core_image cores[2];
    atomic_uint refs;
};

/* Takes ownership of neff on success. A NEFF made for another LNC is -EINVAL. */
int sim_image_build(const struct kymo_arch *arch, unsigned lnc, struct neff *neff, uint64_t model_id,
                    struct sim_image **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct sim_image *sim_image_ref(struct sim_image *im);
struct sim_image *sim_image_free(struct sim_image *im); /* drops one reference */
void sim_image_freep(struct sim_image **im);

/* Ranks that must run the image together: 1 when it has no collectives. */
unsigned sim_image_world(const struct sim_image *im);
/* The group of a layout that a rank is in; NULL: none. */
const struct neff_replica_set *sim_image_group(const struct sim_core_image *ci, const struct sim_cc_op *op,
                                               unsigned rank);
/* CC-cores of a stream, as their numbers on the device: *ret_first and how many follow. */
unsigned sim_image_cc_cores(const struct sim_image *im, unsigned first_pcore, unsigned stream, unsigned *ret_first);
/* Doorbell of a stream of collectives (G). */
uint64_t sim_image_cc_doorbell(unsigned nc, unsigned stream);

/* Gives the subgraph's variables their places (sim_image_vars.c). */
int sim_image_place_vars(const struct kymo_arch *arch, unsigned nc, struct sim_core_image *ci,
                         struct kymo_err *err) KYMO_MUST_CHECK;
/* The device address in place of one that names a variable; others stay. A var_id or an offset that the NEFF does not
 * have is -EPROTO. */
int sim_image_resolve(const struct kymo_arch *arch, const struct sim_core_image *ci, uint64_t *addr,
                      struct kymo_err *err) KYMO_MUST_CHECK;
/* Name of the variable that lies at a device address; NULL: none. */
const char *sim_image_var_at(const struct kymo_arch *arch, const struct sim_core_image *ci, uint64_t addr);

/* Device address of the doorbell that starts blocks of queue q of physical core nc (G). */
uint64_t sim_image_doorbell(unsigned nc, size_t q);

/*
 * The Ntff__NeffNodeInfo of this image (graphs, instruction infos with sections and patches, queue usage), for the
 * writer; the images' bytes are the sim_engine_image codes in the order of graphs and instruction_info (engines without
 * code have no entry). rank: of the job, for collectives. NULL: out of memory. Free with
 * ntff__neff_node_info__free_unpacked(n, NULL).
 */
Ntff__NeffNodeInfo *sim_image_describe(const struct sim_image *im, unsigned nd_idx, unsigned first_pcore,
                                       unsigned rank);

/* Device memory by class that a program takes on one of its cores: its code, variables and descriptors; and that the
 * rings of a core take. Both add. */
struct sim_memory_use {
    uint64_t bytes[KYMO_MEMORY_MAX];
};
void sim_memory_use_image(const struct sim_image *im, unsigned pcore, struct sim_memory_use *add);
void sim_memory_use_rings(const struct kymo_ring_plan *plan, size_t n, unsigned pcore, struct sim_memory_use *add);
/* Adds to what the graph says; false: out of memory. */
bool sim_memory_use_describe(const struct sim_memory_use *use, Ntff__SubgraphInfo *g);

#endif
