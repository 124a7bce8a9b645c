/*
 * Collectives: kinds, algorithms, what CC-core records mean, sizes and bandwidth factors. Which numbers stand for what
 * is open in every public source, so cc.c holds all of it as data (class G unless it says otherwise); simulator and
 * reader use the same tables, and one real sample corrects that file. Constant data, shared by any number of threads.
 */
#ifndef KYMO_ARCH_CC_H
#define KYMO_ARCH_CC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KYMO_CC_RANKS_MAX 4096
#define KYMO_CC_STREAMS_MAX 16 /* of one logical core */
#define KYMO_CC_OPS_MAX 1024   /* of one program: the pc of a CC-core instruction has 10 bits for its op */

/* Numbers as in the kind field of PSEUDO_TRIGGER_COLLECTIVE and in collectives_op.type. */
enum kymo_cc_kind {
    KYMO_CC_ALL_REDUCE = 0,
    KYMO_CC_ALL_GATHER = 1,
    KYMO_CC_REDUCE_SCATTER = 2,
    KYMO_CC_ALL_TO_ALL = 3,
    KYMO_CC_PERMUTE = 4,
    KYMO_CC_BROADCAST = 5,
    KYMO_CC_KIND_MAX,
};

enum kymo_cc_algorithm { KYMO_CC_RING = 0, KYMO_CC_MESH = 1, KYMO_CC_ALGORITHM_MAX };

/* What a CC-core does in one instruction: the hint of its records. */
enum kymo_cc_instr {
    KYMO_CC_NOP = 0,
    KYMO_CC_DMA_ADVANCE = 1,
    KYMO_CC_SEMAPHORE_WAIT = 2,
    KYMO_CC_SEMAPHORE_INC = 3,
    KYMO_CC_INSTR_MAX = 16,
};

const char *kymo_cc_kind_name(unsigned kind);           /* AllReduce; NULL: unknown */
const char *kymo_cc_algorithm_name(unsigned algorithm); /* Ring; NULL: unknown */
const char *kymo_cc_instr_name(unsigned hint);          /* DMA_ADVANCE; NULL: unknown */

/* pc of a CC-core instruction: the op's place in cc_op_info.ops, then its place in that op's program. */
#define KYMO_CC_PC_BITS 10
static inline uint32_t kymo_cc_pc(uint32_t op, uint32_t at)
{
    return op << KYMO_CC_PC_BITS | (at & ((1u << KYMO_CC_PC_BITS) - 1));
}
static inline uint32_t kymo_cc_pc_op(uint32_t pc)
{
    return pc >> KYMO_CC_PC_BITS;
}

/* One rank's bytes in and out; elements are those that one rank puts in. false: kind unknown, or too large. */
bool kymo_cc_sizes(unsigned kind, uint64_t elements, unsigned dtype_bits, unsigned ranks, uint64_t *ret_in,
                   uint64_t *ret_out);
/* Which algorithm is taken for a collective of so many bytes over so many ranks. */
enum kymo_cc_algorithm kymo_cc_choose(uint64_t bytes, unsigned ranks);
/* Rounds of communication, and what one rank moves in each. 0 rounds for a single rank. */
unsigned kymo_cc_rounds(unsigned kind, enum kymo_cc_algorithm algorithm, unsigned ranks);
uint64_t kymo_cc_round_bytes(unsigned kind, enum kymo_cc_algorithm algorithm, unsigned ranks, uint64_t bytes);

/*
 * bus_bandwidth = algorithm_bandwidth * factor: what the links carry, whatever the number of ranks. With
 * algorithm_bandwidth from the larger of input and output, each rank of n sends and receives of it (n - 1) / n for
 * AllGather, ReduceScatter and AllToAll, twice that for AllReduce, all of it for Broadcast and Permute. 0: not known.
 */
double kymo_cc_bus_factor(unsigned kind, unsigned ranks);

#endif
