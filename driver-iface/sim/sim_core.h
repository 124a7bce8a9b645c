/*
 * The simulated device's core: engine models that execute instruction images in virtual time (1 ps), DMA queues on 16
 * engines per physical core, semaphores, PSUM accumulation, host-device DMA engines. It writes notification records
 * into rings and the truth to a sink. Deterministic: same programs, same configuration and seed, same records. One
 * sim_core is one device; it is not thread-safe. It decodes instructions through arch/layout.h and writes records with
 * its own encoder (sim_record.c), so that a mistake in formats/ cannot hide.
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
#include "driver-iface/sim/sim_notices.h"

struct sim_core;

/* Where records go. The device process gives rings in shared memory; kymo-sim ntff gives spill files. */
struct sim_ring_sink {
    /* Offers one record. True: stored. False: the ring was full and the record is dropped (the core marks and counts
     * it). */
    bool (*put)(void *ctx, size_t ring, const uint8_t record[KYMO_RECORD_SIZE]);
    /*
     * Called at the first drop after a stored record, or NULL: sets bit 30 ("later records were lost", byte 3, 0x40) in
     * the last record stored, if it is still there. True: it was set.
     */
    bool (*mark_last)(void *ctx, size_t ring);
    void *ctx;
};

/* Truth, from the model's state (TRUTH.md, sim_truth.h). */
struct sim_truth;
struct sim_truth_meta;

struct sim_config {
    const struct kymo_arch *arch;
    unsigned lnc;
    uint64_t seed;
    bool dge_notifications; /* NEURON_RT_ENABLE_DGE_NOTIFICATIONS */
    bool drift;             /* Trn1/Inf2: clocks run off by a per-engine factor */
    uint64_t start_ps;      /* device time at creation */
    double slow_factor;     /* a slow rank stretches compute by it, 0.01 to 100; 0 means 1 */
    struct sim_notices notices;
};

int sim_core_new(const struct sim_config *config, struct sim_core **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct sim_core *sim_core_free(struct sim_core *c);
void sim_core_freep(struct sim_core **c);
/* Another slow factor, 0.01 to 100, from the next execution on: logical cores of one device may belong to different
 * ranks. */
void sim_core_set_slow(struct sim_core *c, double factor);

/*
 * Arms tracing on physical cores [first_pcore, first_pcore + lnc) with these rings; sink ring index = position in plan.
 * Counters start at 0 and the rings' first pass has phase 1, so that cleared memory is no record. Arming again
 * replaces. sink and truth (may be NULL) stay the caller's and must outlive the arming.
 */
int sim_core_arm(struct sim_core *c, unsigned first_pcore, const struct kymo_ring_plan *plan, size_t n_plan,
                 struct sim_ring_sink sink, struct sim_truth *truth, struct kymo_err *err) KYMO_MUST_CHECK;
void sim_core_disarm(struct sim_core *c, unsigned first_pcore);
/* Per ring of the armed plan: what the model emitted, and what found the ring full. */
void sim_core_counters(const struct sim_core *c, unsigned first_pcore, size_t ring, uint64_t *ret_emitted,
                       uint64_t *ret_dropped);
/* Records emitted into all rings since arming. */
uint64_t sim_core_emitted(const struct sim_core *c, unsigned first_pcore);
/* Writes the armed capture's truth into directory dir (made when absent). */
int sim_core_write_truth(const struct sim_core *c, unsigned first_pcore, const struct sim_truth_meta *meta,
                         const char *dir, struct kymo_err *err) KYMO_MUST_CHECK;

/* One rank's part of a joint execution. */
struct sim_joint_rank {
    struct sim_core *core; /* several ranks may have the same one */
    unsigned first_pcore;
    struct sim_image *image;
    bool fail;
    double slow_factor; /* 0: 1 */
    uint64_t skew_ps;   /* by how much the device's clock is ahead of the common one */
    struct sim_exec_result *result;
    struct kymo_err *err;
    int error; /* 0: result says how it went; else as sim_core_execute returns it */
};

struct sim_exec_result {
    uint64_t start_ps, end_ps;
    uint64_t host_start_ns, host_end_ns; /* Unix time of the same, from sim_device_execute */
    uint32_t status;                     /* NRT_STATUS: 0, or 1004 after fail */
};
/*
 * Executes one image set (one per physical core of the logical core) to its end, after host-device traffic for
 * instruction fetch and, when the model differs from the last one, model switching. fail: somewhere in the middle an
 * engine reports an error and everything stops; what was under way has no end record. -EDEADLK: an engine waits for
 * ever; the text names engine, pc and wait. -ETIMEDOUT: more than an hour of device time. After an error the core is
 * idle and usable.
 */
int sim_core_execute(struct sim_core *c, unsigned first_pcore, struct sim_image *image, bool fail,
                     struct sim_exec_result *ret, struct kymo_err *err) KYMO_MUST_CHECK;
/*
 * Executes a program with collectives on all of its ranks, rank r being ranks[r]: their events are worked off in order
 * of common time, so that ranks meet at each collective; whatever the order in which they are asked, the same happens.
 * A rank that fails leaves its peers with NRT status 1200 (their collectives never end), one that waits for ever has
 * error -EDEADLK. Negative: nothing was executed.
 */
int sim_core_execute_joint(struct sim_joint_rank *ranks, unsigned n, struct kymo_err *err) KYMO_MUST_CHECK;
/* The logical core's collectives are counted from 0 again: another process has taken it. */
void sim_core_reset_collectives(struct sim_core *c, unsigned first_pcore);
/* A host copy (tensor write or read) of n bytes through the logical core's host-device engine. */
int sim_core_host_copy(struct sim_core *c, unsigned first_pcore, bool to_device, uint64_t n,
                       struct kymo_err *err) KYMO_MUST_CHECK;
/* Moves device time forward to at least ps (idle). */
void sim_core_advance(struct sim_core *c, unsigned first_pcore, uint64_t ps);
uint64_t sim_core_now(const struct sim_core *c, unsigned first_pcore);
/* ps as the host reads it: by the clock of the core's Sync engine, which on some generations runs off. */
uint64_t sim_core_raw(const struct sim_core *c, unsigned first_pcore, uint64_t ps);

/* Clock triples for nc_timestamp_info: engine 0..4, DMA engines, host-device engines; false when the arch does not
 * rescale. */
struct sim_clock {
    uint64_t init, actual_inc, expected_inc;
};
bool sim_core_clock(const struct sim_core *c, enum kymo_ring ring, unsigned nc_idx, unsigned engine,
                    struct sim_clock *ret);
/*
 * The raw ticks that a clock shows at time ps, and what the documented correction makes of them: init +
 * floor((raw - init) * expected / actual). A clock that runs slow skips values: the corrected time is then the least
 * one that it can show at or after ps.
 */
uint64_t sim_clock_raw(const struct sim_clock *k, uint64_t ps);
uint64_t sim_clock_corrected(const struct sim_clock *k, uint64_t raw);
/* Time as a record of this clock tells it, once corrected. */
uint64_t sim_clock_seen(const struct sim_clock *k, uint64_t ps);

#endif
