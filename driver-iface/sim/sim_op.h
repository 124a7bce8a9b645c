/* An instruction decoded once per image slot, so that the engine models need no look-up while they run. */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_OP_H
#define KYMO_DRIVER_IFACE_SIM_SIM_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/layout.h"
#include "arch/opcode.h"
#include "driver-iface/sim/sim_image.h"

#define SIM_REGISTERS KYMO_REGISTERS

enum sim_op_kind {
    SIM_OP_PLAIN, /* time and synchronisation only */
    SIM_OP_WRITE, /* queue, block: starts it */
    SIM_OP_DIRECT2D,
    SIM_OP_MOVE,
    SIM_OP_ALU,
    SIM_OP_BRANCH,
    SIM_OP_HALT,
    SIM_OP_NOTIFY,
    SIM_OP_RANGE_CLEAR,
    SIM_OP_REMOTE_INC, /* fn: semaphore of the pair's other core; value: what is added */
    SIM_OP_COLLECTIVE, /* block: position in cc_ops */
};

enum sim_acc { SIM_ACC_NONE, SIM_ACC_BEGIN, SIM_ACC_CONTINUE };

/* A DMA_DIRECT2D's descriptors: `engines` DMA engines with `per_engine` packets each. */
struct sim_dynamic {
    uint16_t engines;
    uint16_t per_engine; /* 1..4096 */
    uint8_t semaphore, increment;
    const char *from, *to; /* variables that lie at its addresses; NULL: none */
    uint64_t bytes;        /* packet k of n carries bytes / n, the first bytes % n of them one more */
};

struct sim_op {
    uint8_t kind, opcode;
    bool compute, has_sync2;
    uint8_t psum_read, psum_write, acc; /* bank bits, enum sim_acc */
    uint8_t reg_dst, reg_a, fn;
    uint16_t crc;   /* of the record's bytes */
    uint16_t queue; /* WRITE, DIRECT2D: position in sim_core_image.queues */
    uint32_t block; /* WRITE: position on the queue */
    uint32_t duration_ps;
    int32_t target; /* BRANCH: slots from this one */
    uint32_t value; /* immediate; RANGE_CLEAR: first in the low half, count above */
    struct kymo_sync sync, sync2;
    struct sim_dynamic dynamic;
};

/* No WRITE operand names a block: the WRITE goes elsewhere. */
#define SIM_QUEUE_NONE 0xFFFFu

/*
 * Decodes the record of one slot of a finished image. Registers and branch targets out of range, and a DMA_DIRECT2D on
 * an engine without a dynamic queue, are -EPROTO with engine and pc.
 */
int sim_op_decode(const struct kymo_arch *arch, const struct sim_core_image *ci, const struct sim_engine_image *ei,
                  uint32_t slot, unsigned nc, struct sim_op *ret, struct kymo_err *err) KYMO_MUST_CHECK;

/* sim_queue.c: lays the subgraph's queue sets and blocks out over engines and hardware queues. */
int sim_queue_layout(const struct kymo_arch *arch, struct sim_core_image *ci, struct kymo_err *err) KYMO_MUST_CHECK;
void sim_queue_free(struct sim_core_image *ci);
/* Positions of a named block; -ENOENT with the names. */
int sim_queue_find_block(const struct sim_core_image *ci, const char *queue, uint32_t id, uint16_t *ret_queue,
                         uint32_t *ret_block, struct kymo_err *err) KYMO_MUST_CHECK;
/* Position of an engine's dynamic queue set, or -1. */
int sim_queue_dynamic(const struct sim_core_image *ci, enum kymo_engine engine);

/* sim_image_cc.c: the collectives of a subgraph's streams, checked; frees with kymo_free(ci->cc_ops). */
int sim_image_find_collectives(const struct kymo_arch *arch, unsigned lnc, struct sim_core_image *ci,
                               struct kymo_err *err) KYMO_MUST_CHECK;

/* sim_translate.c: makes an engine's image from the compiler's stream (neff may be NULL: runtime code only). */
int sim_translate(const struct kymo_arch *arch, const struct sim_core_image *ci, unsigned nc,
                  const struct neff_engine *neff, unsigned engines_present, struct sim_engine_image *ei,
                  struct kymo_err *err) KYMO_MUST_CHECK;

#endif
