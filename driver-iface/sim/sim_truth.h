/*
 * Collects what truly happened in one capture and writes it as TRUTH.md says. Fed by the core alone. Without detail
 * only ring counters, sums and the profile's key values are kept; a capture that grows beyond SIM_TRUTH_DETAIL_MAX rows
 * of any kind, or that finds no memory, gives its detail up and says so (detail = 0). Not thread-safe. Holds references
 * to images.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_TRUTH_H
#define KYMO_DRIVER_IFACE_SIM_SIM_TRUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/ring.h"
#include "driver-iface/sim/sim_core.h"
#include "driver-iface/sim/sim_image.h"

#define SIM_TRUTH_DETAIL_MAX 2000000u
#define SIM_TRUTH_NONE 0xFFFFFFFFu /* no row */

struct sim_truth;

struct sim_truth *sim_truth_new(bool detail); /* NULL: out of memory */
struct sim_truth *sim_truth_free(struct sim_truth *t);
void sim_truth_freep(struct sim_truth **t);

/* What the runtime knows of the profile. Strings stay the caller's. */
struct sim_truth_meta {
    const char *ntff, *instance, *mode, *driver;
    const char *path; /* by which the profile was written */
    unsigned nd_idx, vnc;
    unsigned h2d_reasons; /* as kymo_h2d_reasons: 0 traced */
};

/* Counters of one ring, kept by the core. */
struct sim_ring_state {
    struct kymo_ring_plan plan;
    uint8_t wrap_shift; /* log2 of the records that it holds */
    bool loss_open;     /* the next record stored must say that some before it were lost */
    uint64_t emitted, stored, dropped;
    uint64_t first_dropped_ps, last_dropped_ps, first_ps, last_ps; /* corrected; first and last of stored records */
    uint64_t sum_raw, xor_low, xor_high;                           /* over stored records */
};

/* Rows of each table, counted with and without detail. */
struct sim_truth_counts {
    uint64_t instructions, dma_packets, dma_bytes, dma_transfers, semaphores, host_dma, host_dma_bytes, status,
        throttles, errors, executions, cc_ops, cc_instructions, cc_events;
};

struct sim_truth_ids {
    const char *arch;
    unsigned lnc, first_nc;
    bool dge_notifications;
    struct sim_truth_counts counts;
};
int sim_truth_write(const struct sim_truth *t, const struct sim_truth_ids *ids, const struct sim_ring_state *rings,
                    size_t n_rings, const struct sim_truth_meta *meta, const char *dir,
                    struct kymo_err *err) KYMO_MUST_CHECK;

/* The rest is for the core. Every function is a no-op that returns SIM_TRUTH_NONE when there is no detail. */
bool sim_truth_detail(const struct sim_truth *t);
void sim_truth_execution(struct sim_truth *t, struct sim_image *image); /* later rows belong to a new execution */

struct sim_truth_instr {
    uint8_t pcore, engine, start_stored, end_stored;
    uint16_t wait_cycles, crc_in, crc_out;
    uint16_t image;                             /* set by the sink */
    uint32_t slot, execution, trigger_transfer; /* SIM_TRUTH_NONE: none. execution is set by the sink */
    uint64_t start_ps, begin_ps, end_ps;        /* begin: its waits were over. end 0: never */
};
uint32_t sim_truth_instr_begin(struct sim_truth *t, const struct sim_truth_instr *row);
void sim_truth_instr_end(struct sim_truth *t, uint32_t row, uint64_t end_ps, bool stored, uint16_t crc_in,
                         uint16_t crc_out);

struct sim_truth_transfer {
    uint8_t pcore, complete;
    uint16_t queue, image;
    uint32_t block; /* SIM_TRUTH_NONE: dynamic */
    uint32_t run, packets, trigger_row, execution;
    uint64_t bytes, start_ps, end_ps;
    const char *from, *to; /* variables, of the image; NULL: none */
};
uint32_t sim_truth_transfer_begin(struct sim_truth *t, const struct sim_truth_transfer *row);
void sim_truth_transfer_end(struct sim_truth *t, uint32_t row, uint64_t end_ps, bool complete);

struct sim_truth_packet {
    uint8_t engine, start_stored, end_stored;
    uint32_t transfer, packet, bytes;
    uint64_t start_ps, end_ps;
};
uint32_t sim_truth_packet_begin(struct sim_truth *t, const struct sim_truth_packet *row);
void sim_truth_packet_end(struct sim_truth *t, uint32_t row, uint64_t end_ps, bool stored);

struct sim_truth_sync {
    uint8_t pcore, id, is_semaphore, mode, stored;
    int8_t source; /* engine, or SIM_SOURCE_AXI */
    uint32_t value;
    uint64_t ts_ps;
};
uint32_t sim_truth_sync(struct sim_truth *t, const struct sim_truth_sync *row);

struct sim_truth_h2d {
    uint16_t engine, queue;
    uint8_t nc, start_stored, end_stored;
    const struct kymo_h2d_queue *what;
    uint32_t bytes;
    uint64_t start_ps, end_ps;
};
void sim_truth_h2d(struct sim_truth *t, const struct sim_truth_h2d *row);

struct sim_truth_cc_op {
    uint8_t pcore, core, start_stored, end_stored, algorithm; /* core: the CC-core that tells */
    uint16_t image;                                           /* set by the sink */
    uint16_t ranks, rank;
    uint32_t op, trigger_row, execution; /* op: place in cc_ops. execution is set by the sink */
    uint64_t sequence, start_ps, end_ps; /* end 0: never */
};
uint32_t sim_truth_cc_op_begin(struct sim_truth *t, const struct sim_truth_cc_op *row);
void sim_truth_cc_op_end(struct sim_truth *t, uint32_t row, uint64_t end_ps, bool stored);

struct sim_truth_cc_instr {
    uint8_t core, instr, start_stored, end_stored;
    uint16_t wait_cycles;
    uint32_t pc, op_row;
    uint64_t start_ps, begin_ps, end_ps;
};
uint32_t sim_truth_cc_instr_begin(struct sim_truth *t, const struct sim_truth_cc_instr *row);
void sim_truth_cc_instr_end(struct sim_truth *t, uint32_t row, uint64_t end_ps, bool stored);

/* A change of a CC-core's semaphore, or a met wait; pcore holds the CC-core. */
void sim_truth_cc_event(struct sim_truth *t, const struct sim_truth_sync *row);

void sim_truth_status(struct sim_truth *t, uint8_t pcore, bool end, bool stored, uint64_t ts_ps);

struct sim_truth_throttle {
    uint8_t pcore, id, k, n, stored;
    uint32_t execution; /* set by the sink */
    uint64_t start_ps, end_ps;
};
void sim_truth_throttle(struct sim_truth *t, const struct sim_truth_throttle *row);

struct sim_truth_error {
    uint8_t pcore, kind, id, stored; /* kind: enum sim_notice_kind; id: of interrupts and warnings their group */
    uint16_t block;
    uint32_t execution; /* set by the sink */
    uint64_t metadata;  /* of custom notifications the pc */
    uint64_t ts_ps;
};
void sim_truth_error(struct sim_truth *t, const struct sim_truth_error *row);

enum sim_edge {
    SIM_EDGE_SEMAPHORE,
    SIM_EDGE_DMA_TRIGGER,
    SIM_EDGE_DMA_WAIT,
    SIM_EDGE_PSUM,
    SIM_EDGE_CC_TRIGGER,
    SIM_EDGE_CC_WAIT
};
/* detail: edges of waits: the update's row in semaphores.tsv; PSUM edges: bank bits. */
void sim_truth_edge(struct sim_truth *t, enum sim_edge kind, uint32_t from, uint32_t to, uint32_t detail);

#endif
