/*
 * Builds the program of one physical core the way a compiler would: models say what to compute on which engine and
 * which buffers it reads and writes; the builder finds the dependencies, places the semaphores, lays loops out and
 * packs the result with its debug layers. kymo-sim neff is made of this; no truth comes from here.
 *
 * Errors stick: emit functions return nothing, the first error is kept and sim_program_finish returns it. A program is
 * used by one thread. Names are copied.
 *
 * Semaphores: one per ordered pair of engines, one per (queue, on-chip buffer, waiting engine) for transfers. Only the
 * waiting engine subtracts, once per loop iteration and at the end of straight code, exactly what was added; where a
 * wait reaches back into the previous iteration the producer adds one iteration's worth before the loop and the waiter
 * takes it back behind it. So every semaphore is 0 again at the end, and a program can run any number of times. Since
 * all waits agree with one order of the whole text, no execution can deadlock. Between straight code and loops all
 * engines meet at Sync. Loops count in register SIM_LOOP_REGISTER of each engine that takes part; they do not nest.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_PROGRAM_H
#define KYMO_DRIVER_IFACE_SIM_SIM_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "arch/layout.h"
#include "base/err.h"

#define SIM_LOOP_REGISTER 1
#define SIM_PROGRAM_NODES_MAX (1u << 20) /* pc has 20 bits */
#define SIM_NAME_MAX 96

struct sim_program;

/* arch stays the caller's; sg is the subgraph's number: physical core within the logical core. */
struct sim_program *sim_program_new(const struct kymo_arch *arch, unsigned sg); /* NULL: out of memory */
struct sim_program *sim_program_free(struct sim_program *p);
void sim_program_freep(struct sim_program **p);
const struct kymo_arch *sim_program_arch(const struct sim_program *p);

/* On-chip or HBM memory that instructions touch; the unit of dependence. */
struct sim_buf {
    uint32_t id;
    uint32_t addr;  /* on-chip operand address; 0 for variables */
    uint32_t bytes; /* per partition; variables: whole size */
};
struct sim_buf sim_program_sbuf(struct sim_program *p, uint32_t bytes_per_partition);
struct sim_buf sim_program_psum(struct sim_program *p, unsigned bank);
/* type: input, output, file, tmp-buf. shape is JSON text such as [512,512]. */
struct sim_buf sim_program_var(struct sim_program *p, const char *name, const char *type, uint32_t bytes,
                               const char *shape, const char *dtype);

/* Where the following operations come from, outermost layer first; they make the debug layers' nodes. */
struct sim_scope {
    const char *framework; /* slash path: MLP/Layer[0]/Linear/dot_general */
    const char *hlo;       /* dot.4 */
    const char *penguin;   /* what this tile operation is called */
    const char *file;
    int line;
    const char *hlo_attr_key, *hlo_attr_value; /* NULL: the HLO instruction has no attribute */
};
void sim_program_scope(struct sim_program *p, const struct sim_scope *s);

/*
 * NKI: operations between open and close belong to a kernel, which is one per program. What they are entered into, a
 * call frame, a value of an unrolled loop or a region (nki.language.profiler_region_open), holds until it is left;
 * lines are of the kernel's file and hold until the next. Outside of a kernel all of these do nothing.
 */
enum sim_kernel_scope { SIM_KERNEL_FRAME, SIM_KERNEL_VARIABLE, SIM_KERNEL_REGION, SIM_KERNEL_SCOPES };
void sim_program_kernel_open(struct sim_program *p, const char *name, const char *file);
void sim_program_kernel_close(struct sim_program *p);
void sim_program_kernel_line(struct sim_program *p, int line);
void sim_program_enter(struct sim_program *p, enum sim_kernel_scope kind, const char *name, int64_t value, int line);
void sim_program_leave(struct sim_program *p, enum sim_kernel_scope kind);

/* Operand: count elements in each of all 128 partitions, step 1, from byte offset of a buffer; a second dimension when
 * count1 > 1. */
struct sim_operand {
    struct sim_buf buf;
    uint32_t offset;
    uint8_t dtype;
    uint16_t count, count1;
    int16_t step1;
};

/* LDWEIGHTS and MATMUL: dst[cols] (+)= weights[rows x cols]^T moving[rows x count]. FP32 makes a low and a high pass of
 * both. */
struct sim_matmul {
    struct sim_operand weights, moving, dst;
    unsigned rows, cols;
    bool begin, end, transpose;
};
void sim_emit_matmul(struct sim_program *p, const struct sim_matmul *m);
void sim_emit_activate(struct sim_program *p, unsigned fn, struct sim_operand src, struct sim_operand dst);
void sim_emit_tensor_tensor(struct sim_program *p, enum kymo_engine e, unsigned alu, struct sim_operand a,
                            struct sim_operand b, struct sim_operand dst);
/* dst = (a alu scalar) alu1 b */
void sim_emit_scalar_tensor_tensor(struct sim_program *p, enum kymo_engine e, unsigned alu, unsigned alu1,
                                   struct sim_operand a, struct sim_operand b, struct sim_operand dst);
void sim_emit_tensor_scalar(struct sim_program *p, enum kymo_engine e, unsigned alu, uint32_t imm,
                            struct sim_operand src, struct sim_operand dst);
/* COPY, CAST, TENSOR_REDUCE_ARITH, RECIPROCAL: opcode decides. */
void sim_emit_unary(struct sim_program *p, enum kymo_engine e, uint8_t opcode, unsigned alu, struct sim_operand src,
                    struct sim_operand dst);
/* MEMSET or IOTA. */
void sim_emit_fill(struct sim_program *p, enum kymo_engine e, uint8_t opcode, uint32_t value, struct sim_operand dst);
void sim_emit_load_act_table(struct sim_program *p, uint32_t set);

/* A queue set; type in, out, data or dynamic; the owner triggers it. Returns its number. */
unsigned sim_program_queue(struct sim_program *p, const char *name, const char *type, enum kymo_engine owner,
                           unsigned num_queues);
/*
 * Moves rows of `partitions` partitions between a variable (row r at var_offset + r * row_bytes) and an on-chip
 * operand, by a pre-computed block of the queue and a PSEUDO_DMA_TRIGGER on its owner, or, for dynamic queues, by
 * PSEUDO_DMA_DIRECT2D.
 */
struct sim_transfer_spec {
    unsigned queue;
    bool store; /* on-chip to variable */
    bool spill; /* kind of its debug record */
    struct sim_buf var;
    uint32_t var_offset;
    struct sim_operand chip;
    unsigned partitions;
};
void sim_emit_transfer(struct sim_program *p, const struct sim_transfer_spec *t);

/* Collectives. How many ranks run the program: 0 or 1 when it has none, else up to KYMO_CC_RANKS_MAX. */
void sim_program_world(struct sim_program *p, unsigned ranks);
/* A layout of replica groups: ranks 0 to size - 1, size to 2 * size - 1, ...; size divides the world. Returns its
 * number. */
unsigned sim_program_replica_groups(struct sim_program *p, unsigned size);
struct sim_collective_spec {
    enum kymo_engine engine; /* triggers it */
    unsigned kind;           /* enum kymo_cc_kind */
    unsigned alu, group, stream;
    uint8_t dtype;
    uint64_t elements; /* that one rank puts in */
    struct sim_buf in, out;
};
/* Runs on the CC-cores: who uses `out` waits for it. Same order on every rank. */
void sim_emit_collective(struct sim_program *p, const struct sim_collective_spec *c);
/* Both cores of a logical core meet at it on that engine; what is done with these variables before it is done, and what
 * comes after waits. As many of them, in the same order, on both cores. */
void sim_emit_core_barrier(struct sim_program *p, enum kymo_engine e, const struct sim_buf *vars, size_t n);

/* Loops do not nest; trips >= 1. */
void sim_program_loop_begin(struct sim_program *p, uint32_t trips);
void sim_program_loop_end(struct sim_program *p);

struct sim_program_stats {
    uint64_t static_instructions, executed_instructions, transfers; /* executed: once through the program */
    uint64_t macs; /* useful multiply-accumulates of one execution: no transposes, an FP32 pass counts half */
};
/* Places semaphores and lowers to instruction streams. Once, when all is emitted. */
int sim_program_finish(struct sim_program *p, struct sim_program_stats *ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* Finished streams: 64 * *ret_count bytes. */
const uint8_t *sim_program_code(const struct sim_program *p, enum kymo_engine e, size_t *ret_count);

struct sim_neff_info {
    const char *name;
    uint64_t seed;
    unsigned lnc;
};
/* Packs lnc finished programs. Same programs and info, same bytes. */
int sim_program_write(struct sim_program *const *programs, const struct sim_neff_info *info, uint64_t macs,
                      const char *path, struct kymo_err *err) KYMO_MUST_CHECK;

/* Where each instruction of n finished programs comes from, as text (TRUTH.md). */
int sim_program_write_truth(struct sim_program *const *programs, unsigned n, const char *path,
                            struct kymo_err *err) KYMO_MUST_CHECK;

#endif
