/*
 * The simulated device's core: engine models that execute instruction images in virtual time (1 ps), DMA queues on 16 engines
 * per physical core, semaphores, PSUM accumulation, host-device DMA engines. It writes notification records into rings and the
 * truth to a sink. Deterministic: same programs, same configuration and seed, same records. One sim_core is one device; it
 * is not thread-safe. It decodes instructions through arch/layout.h and writes records with its own encoder (sim_record.c),
 * so that a mistake in formats/ cannot hide.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_CORE_H
#define KYMO_DRIVER_IFACE_SIM_SIM_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "arch/ring.h"
#include "base/err.h"
#include "driver-iface/sim/sim_image.h"

struct sim_core;

/* Where records go. The device process gives rings in shared memory; kymo-sim ntff gives spill files. */
struct sim_ring_sink {
    /* Offers one record. True: stored. False: the ring was full and the record is dropped (the core marks and counts it). */
    bool (*put)(void *ctx, size_t ring, const uint8_t record[KYMO_RECORD_SIZE]);
    void *ctx;
};

/* Truth, from the model's state (TRUTH.md). Every callback may be NULL. */
struct sim_truth;

struct sim_config {
    const struct kymo_arch *arch;
    unsigned lnc;
    uint64_t seed;
    bool dge_notifications;  /* NEURON_RT_ENABLE_DGE_NOTIFICATIONS */
    bool drift;              /* Trn1/Inf2: clocks run off by a per-engine factor */
    uint64_t start_ps;       /* device time at creation */
    double slow_factor;      /* 1.0; a slow rank stretches compute by it */
};

int sim_core_new(const struct sim_config *config, struct sim_core **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct sim_core *sim_core_free(struct sim_core *c);

/* Arms tracing on physical cores [first_pcore, first_pcore + lnc) with these rings; sink ring index = position in plan. Counters start at 0. */
int sim_core_arm(struct sim_core *c, unsigned first_pcore, const struct kymo_ring_plan *plan, size_t n_plan, struct sim_ring_sink sink,
                 struct sim_truth *truth, struct kymo_err *err) KYMO_MUST_CHECK;
void sim_core_disarm(struct sim_core *c, unsigned first_pcore);
/* Per ring of the armed plan: what the model emitted, and what found the ring full. */
void sim_core_counters(const struct sim_core *c, unsigned first_pcore, size_t ring, uint64_t *ret_emitted, uint64_t *ret_dropped);

/* Executes one image set (one per physical core of the logical core) to its end, after host-device traffic for instruction fetch and, when the model differs from the last one, model switching. */
struct sim_exec_result { uint64_t start_ps, end_ps; uint32_t status; /* NRT_STATUS */ };
int sim_core_execute(struct sim_core *c, unsigned first_pcore, const struct sim_image *image, bool fail, struct sim_exec_result *ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* A host copy (tensor write or read) of n bytes through the logical core's host-device engine. */
int sim_core_host_copy(struct sim_core *c, unsigned first_pcore, bool to_device, uint64_t n, struct kymo_err *err) KYMO_MUST_CHECK;
/* Moves device time forward to at least ps (idle). */
void sim_core_advance(struct sim_core *c, unsigned first_pcore, uint64_t ps);
uint64_t sim_core_now(const struct sim_core *c, unsigned first_pcore);
/* Clock triples for nc_timestamp_info: engine 0..4, DMA engines, host-device engines; false when the arch does not rescale. */
struct sim_clock { uint64_t init, actual_inc, expected_inc; };
bool sim_core_clock(const struct sim_core *c, enum kymo_ring ring, unsigned nc_idx, unsigned engine, struct sim_clock *ret);

#endif
