/*
 * Producer of one notification ring: writes records behind the tail, with the phase bit of the pass, and drops what
 * finds the ring full. The layout is nq's (driver-iface/nq/nq.h). One producing thread per ring; the consumer may be
 * another process.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_RING_H
#define KYMO_DRIVER_IFACE_SIM_SIM_RING_H

#include <stdbool.h>

#include "driver-iface/nq/nq.h"

struct sim_ring {
    struct nq_control *control;
    uint8_t *data;
    uint64_t records; /* capacity */
    uint64_t tail;    /* ours; the control block only hears of it */
};

/* control and data must be zeroed and outlive the ring; bytes must be a power of two of at least NQ_RING_MIN. */
void sim_ring_init(struct sim_ring *r, struct nq_control *control, uint8_t *data, uint64_t bytes);
/* True: stored. False: no room, counted as dropped. A head that makes no sense counts as a full ring. */
bool sim_ring_put(struct sim_ring *r, const uint8_t record[KYMO_RECORD_SIZE]);
/* Sets the mark "later records were lost" in the last record stored. False: there is none, or it was taken already. */
bool sim_ring_mark_last(struct sim_ring *r);
/* Empty as at the beginning: what a runtime does before it traces the next execution. The consumer must begin anew too.
 */
void sim_ring_restart(struct sim_ring *r);

/* Where a plan's rings lie in one shared area: a control block per ring, then the rings, each on a page boundary. */
#define SIM_RING_PAGE 4096u
/* Returns the size of the area; offsets[i] is ring i's data. Control block i lies at i * sizeof(struct nq_control). 0:
 * does not fit in 63 bits. */
uint64_t sim_ring_layout(const struct kymo_ring_plan *plan, size_t n, uint64_t offsets[KYMO_RING_PLAN_MAX]);

#endif
