#include "arch/cc.h"

#include <stdbool.h>

#define MESH_BYTES_MAX 65536 /* larger collectives, and more ranks, go round a ring */
#define MESH_RANKS_MAX 8

/* Names A (schema examples AllGather, Ring, DMA_ADVANCE) where marked, their numbers G. */
static const char *const kinds[KYMO_CC_KIND_MAX] = {
    [KYMO_CC_ALL_REDUCE] = "AllReduce",         [KYMO_CC_ALL_GATHER] = "AllGather", /* A */
    [KYMO_CC_REDUCE_SCATTER] = "ReduceScatter", [KYMO_CC_ALL_TO_ALL] = "AllToAll",  [KYMO_CC_PERMUTE] = "Permute",
    [KYMO_CC_BROADCAST] = "Broadcast",
};
static const char *const algorithms[KYMO_CC_ALGORITHM_MAX] = {
    [KYMO_CC_RING] = "Ring", /* A */
    [KYMO_CC_MESH] = "Mesh",
};
static const char *const instrs[KYMO_CC_INSTR_MAX] = {
    [KYMO_CC_NOP] = "NOP",
    [KYMO_CC_DMA_ADVANCE] = "DMA_ADVANCE", /* A */
    [KYMO_CC_SEMAPHORE_WAIT] = "SEMAPHORE_WAIT",
    [KYMO_CC_SEMAPHORE_INC] = "SEMAPHORE_INC",
};

const char *kymo_cc_kind_name(unsigned kind)
{
    return kind < KYMO_CC_KIND_MAX ? kinds[kind] : NULL;
}

const char *kymo_cc_algorithm_name(unsigned algorithm)
{
    return algorithm < KYMO_CC_ALGORITHM_MAX ? algorithms[algorithm] : NULL;
}

const char *kymo_cc_instr_name(unsigned hint)
{
    return hint < KYMO_CC_INSTR_MAX ? instrs[hint] : NULL;
}

bool kymo_cc_sizes(unsigned kind, uint64_t elements, unsigned dtype_bits, unsigned ranks, uint64_t *ret_in,
                   uint64_t *ret_out)
{
    uint64_t bits;
    if (kind >= KYMO_CC_KIND_MAX || !dtype_bits || !ranks || ranks > KYMO_CC_RANKS_MAX ||
        __builtin_mul_overflow(elements, dtype_bits, &bits))
        return false;
    uint64_t in = bits / 8 + (bits % 8 != 0), out = in;
    if (kind == KYMO_CC_ALL_GATHER && __builtin_mul_overflow(in, (uint64_t)ranks, &out))
        return false;
    if (kind == KYMO_CC_REDUCE_SCATTER)
        out = in / ranks;
    if (in > INT64_MAX || out > INT64_MAX)
        return false;
    *ret_in = in;
    *ret_out = out;
    return true;
}

enum kymo_cc_algorithm kymo_cc_choose(uint64_t bytes, unsigned ranks)
{
    return bytes <= MESH_BYTES_MAX && ranks <= MESH_RANKS_MAX ? KYMO_CC_MESH : KYMO_CC_RING;
}

unsigned kymo_cc_rounds(unsigned kind, enum kymo_cc_algorithm algorithm, unsigned ranks)
{
    if (ranks < 2)
        return 0;
    unsigned halves = kind == KYMO_CC_ALL_REDUCE ? 2 : 1; /* reduce-scatter, then all-gather */
    if (kind == KYMO_CC_PERMUTE)
        return 1;
    return algorithm == KYMO_CC_RING ? halves * (ranks - 1) : halves;
}

uint64_t kymo_cc_round_bytes(unsigned kind, enum kymo_cc_algorithm algorithm, unsigned ranks, uint64_t bytes)
{
    if (kind == KYMO_CC_PERMUTE || ranks < 2)
        return bytes;
    uint64_t part = bytes / ranks;
    return algorithm == KYMO_CC_RING ? part : part * (ranks - 1);
}

double kymo_cc_bus_factor(unsigned kind, unsigned ranks)
{
    if (kind >= KYMO_CC_KIND_MAX || !ranks)
        return 0;
    double share = (double)(ranks - 1) / ranks;
    switch (kind) {
    case KYMO_CC_ALL_REDUCE:
        return 2 * share;
    case KYMO_CC_ALL_GATHER:
    case KYMO_CC_REDUCE_SCATTER:
    case KYMO_CC_ALL_TO_ALL:
        return share;
    default:
        return 1;
    }
}
