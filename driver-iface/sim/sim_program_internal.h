/* Shared by the sim_program_*.c files alone. */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_PROGRAM_INTERNAL_H
#define KYMO_DRIVER_IFACE_SIM_SIM_PROGRAM_INTERNAL_H

#include <jansson.h>

#include "arch/opcode.h"
#include "base/alloc.h"
#include "driver-iface/sim/sim_program.h"

#define NODE_NONE UINT32_MAX
#define NODE_ACCESS_MAX 4
#define NODE_WAIT_MAX 16
#define BUFS_MAX 65536
#define VARS_MAX 4096
#define QUEUES_MAX 32
#define CHANNELS_MAX 200 /* semaphores: what is left of 256 belongs to the runtime */
#define CHANNEL_FIRST_SEMAPHORE 16
#define UPPER_MAX 65536
#define REPLICA_LAYOUTS_MAX 16
#define BARRIER_FIRST_SEMAPHORE 9 /* below the channels */
#define BARRIER_SEMAPHORES 6

enum node_kind { NODE_OP, NODE_SYNC, NODE_DMA, NODE_LOOP_BEGIN, NODE_LOOP_END };
/* Debug info's own numbers. */
enum debug_kind { DEBUG_REGULAR = 1, DEBUG_SPILL = 2, DEBUG_TRANSPOSE = 3 };
enum dep_kind { DEP_ORDERED = 1, DEP_ANTI = 2, DEP_OUTPUT = 3, DEP_FLOW = 4 };

struct node_access {
    uint32_t buf;
    bool write;
};

/* A wait: for the signal of another engine's node, or for a transfer. */
struct node_wait {
    uint16_t channel;
    bool carried;    /* of the previous iteration */
    uint32_t from;   /* node whose signal it is; NODE_NONE for a transfer */
    uint32_t amount; /* transfer: value to wait for */
};

struct node {
    enum node_kind kind;
    enum kymo_engine engine;
    uint8_t rec[KYMO_INSTR_SIZE];
    uint32_t bir; /* NODE_NONE: belongs to no compiler instruction */
    uint8_t access_count, wait_count;
    uint8_t signals;                        /* bit c: engine c waits for this node */
    uint32_t signal_index[KYMO_ENGINE_MAX]; /* number of the signal within its segment, from 1 */
    struct node_access access[NODE_ACCESS_MAX];
    struct node_wait wait[NODE_WAIT_MAX];
    uint32_t trips; /* of a loop */
    /* Transfers */
    unsigned queue;
    bool store;
    uint32_t chip_buf;
    uint32_t acquired_by; /* node that waited for its end, or NODE_NONE */
    size_t block;         /* static transfers: index of the block, whose semaphore follows the channel */
    uint32_t amount;      /* added to the semaphore when the transfer is complete */
};

struct channel {
    enum kymo_engine to;
    bool dma;
    enum kymo_engine from; /* engines */
    unsigned queue;        /* transfers */
    uint32_t buf;
    uint32_t total; /* added per segment (per iteration of a loop) */
    bool carried;   /* this segment's waits reach back */
    uint8_t semaphore;
};

/* Where in the NKI kernel an instruction was made: numbers of scopes, from 1. line 0: in none. */
struct bir_kernel {
    uint32_t frame, variable, region;
    int line;
};

struct kernel_scope {
    uint32_t parent; /* from 1; 0: outermost */
    int line;
    int64_t value;
    char name[SIM_NAME_MAX];
};

struct kernel_scopes {
    struct kernel_scope *list;
    size_t count, cap;
    uint32_t now; /* from 1; 0: none */
};

struct kernel {
    bool open, used;
    int line;
    char name[SIM_NAME_MAX], file[SIM_NAME_MAX];
    struct kernel_scopes scopes[SIM_KERNEL_SCOPES];
};

struct bir {
    uint32_t penguin; /* index into uppers */
    enum kymo_engine engine;
    enum debug_kind kind;
    uint32_t queue; /* NODE_NONE: none */
    uint32_t dep_first, dep_count;
    uint32_t previous; /* on the same engine, NODE_NONE: first */
    struct bir_kernel kernel;
    uint64_t elements;            /* of each MATMUL */
    uint64_t hbm_read, hbm_write; /* of its transfer */
};

struct dep {
    uint32_t bir;
    enum dep_kind kind;
};

enum upper_layer { UPPER_FRAMEWORK, UPPER_HLO, UPPER_PENGUIN, UPPER_LAYERS };
struct upper {
    enum upper_layer layer;
    uint32_t parent; /* index of the next layer up, NODE_NONE for framework */
    char name[SIM_NAME_MAX];
    char file[SIM_NAME_MAX];
    int line;
    char attr_key[32], attr_value[SIM_NAME_MAX]; /* of HLO instructions; "": none */
};

/* var_id of the state buffer and of the first of a program's own variables. */
#define SIM_STATE_BUFFER_VAR 0u
#define SIM_FIRST_VAR 1u

struct var {
    char name[SIM_NAME_MAX], type[16], shape[64], dtype[16];
    uint64_t bytes;
    uint32_t buf;
};

struct queue {
    char name[33], type[16];
    enum kymo_engine owner;
    unsigned num_queues;
    uint32_t blocks;
    bool dynamic;
};

struct block {
    unsigned queue;
    uint32_t id, var, var_offset, row_bytes, rows, chip_offset;
    bool store;
    uint8_t semaphore;
};

struct stream {
    uint8_t *code;
    uint32_t *bir; /* per record */
    size_t count, code_cap, bir_cap;
};

struct sim_program {
    const struct kymo_arch *arch;
    unsigned sg;
    int error;
    struct kymo_err err;
    struct node scratch; /* what emitters write to once the program has failed; never read */
    bool finished, in_loop;
    uint64_t trips; /* of the loop being emitted, else 1 */

    struct node *nodes; /* as emitted */
    size_t node_count, node_cap;
    struct node *out; /* with the synchronisation nodes */
    size_t out_count, out_cap;

    uint32_t buf_count;
    uint32_t sbuf_used;
    uint32_t psum_buf[8];
    struct var *vars;
    size_t var_count, var_cap;
    struct queue queues[QUEUES_MAX];
    unsigned queue_count;
    struct block *blocks;
    size_t block_count, block_cap;

    struct upper *uppers;
    size_t upper_count, upper_cap;
    uint32_t scope; /* current penguin node */
    struct bir *birs;
    size_t bir_count, bir_cap;
    struct dep *deps;
    size_t dep_count, dep_cap;
    uint32_t last_bir[KYMO_ENGINE_MAX];
    struct kernel kernel;

    unsigned world;                            /* ranks; 0: no collectives */
    unsigned group_sizes[REPLICA_LAYOUTS_MAX]; /* ranks in each group of a layout */
    unsigned layout_count, op_count, stream_count, barrier_count;

    struct channel channels[CHANNELS_MAX];
    unsigned channel_count;
    unsigned label_count;
    struct stream streams[KYMO_ENGINE_MAX];
    struct sim_program_stats stats;
};

/* Keeps the first error. */
void sim_program_fail(struct sim_program *p, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A fresh node at the end of the emitted text; never NULL, a scratch node after an error. */
struct node *sim_program_node(struct sim_program *p, enum node_kind kind, enum kymo_engine e, uint8_t opcode);
/* A compiler instruction of the current scope; NODE_NONE after an error. */
uint32_t sim_program_bir(struct sim_program *p, enum kymo_engine e, enum debug_kind kind);
void sim_program_access(struct sim_program *p, struct node *n, uint32_t buf, bool write);
void sim_program_set(struct sim_program *p, struct node *n, enum kymo_field f, uint64_t v);
bool sim_program_grow(struct sim_program *p, void **list, size_t *cap, size_t need, size_t max, size_t size);

/* sim_program_cc.c: what def.json says of collectives. */
void sim_program_put_collectives(const struct sim_program *p, json_t *def, bool *failed);

/* sim_program_sync.c: from nodes to out, with waits and signals; lowers each segment as soon as it is known. */
int sim_program_sync(struct sim_program *p);
/* sim_program_lower.c: out[first, end) as straight code, or as a loop's body of trips iterations. */
int sim_program_lower(struct sim_program *p, size_t first, size_t end, uint32_t trips, bool loop);

struct neff_writer;
/* Both take value, which may be NULL after a failed allocation, and remember every failure. */
void sim_json_put(bool *failed, json_t *object, const char *key, json_t *value);
void sim_json_push(bool *failed, json_t *array, json_t *value);
/* A member of compact JSON. Takes root, which may be NULL as above. */
int sim_program_add_json(struct neff_writer *w, const char *name, json_t *root, bool failed,
                         struct kymo_err *err) KYMO_MUST_CHECK;
/* sim_program_kernel.c */
struct bir_kernel sim_program_kernel_place(const struct sim_program *p);
/* Key of a BIR instruction of a kernel, name and penguin id; false: it belongs to none. */
bool sim_program_kernel_name(const struct sim_program *p, uint32_t bir, char *out, size_t n);
int sim_program_add_kernels(const struct sim_program *p, struct neff_writer *w, struct kymo_err *err) KYMO_MUST_CHECK;
/* sim_program_debug.c */
int sim_program_add_debug(const struct sim_program *p, struct neff_writer *w, struct kymo_err *err) KYMO_MUST_CHECK;
/* sim_program_json.c: def.json and the engines' JSON and code. */
int sim_program_add_subgraph(const struct sim_program *p, struct neff_writer *w, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
