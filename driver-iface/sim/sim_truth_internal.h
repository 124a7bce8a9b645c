/* Tables of a truth, shared by its collector and its writer. */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_TRUTH_INTERNAL_H
#define KYMO_DRIVER_IFACE_SIM_SIM_TRUTH_INTERNAL_H

#include "driver-iface/sim/sim_truth.h"

struct sim_truth_status_row {
    uint8_t pcore, end, stored;
    uint16_t image;
    uint32_t execution;
    uint64_t ts_ps;
};

struct sim_truth_edge_row {
    uint8_t kind;
    uint32_t from, to, detail;
};

#define SIM_TABLE(T)                                                                                                   \
    struct {                                                                                                           \
        T *rows;                                                                                                       \
        size_t count, cap;                                                                                             \
    }

struct sim_truth {
    bool detail;
    uint32_t execution; /* executions begun; rows carry the position from 0 */
    struct sim_image **images;
    size_t image_count, image_cap;
    uint16_t image;
    SIM_TABLE(struct sim_truth_instr) instructions;
    SIM_TABLE(struct sim_truth_transfer) transfers;
    SIM_TABLE(struct sim_truth_packet) packets;
    SIM_TABLE(struct sim_truth_sync) syncs;
    SIM_TABLE(struct sim_truth_h2d) h2d;
    SIM_TABLE(struct sim_truth_cc_op) cc_ops;
    SIM_TABLE(struct sim_truth_cc_instr) cc_instrs;
    SIM_TABLE(struct sim_truth_sync) cc_events;
    SIM_TABLE(struct sim_truth_status_row) status;
    SIM_TABLE(struct sim_truth_throttle) throttles;
    SIM_TABLE(struct sim_truth_error) errors;
    SIM_TABLE(struct sim_truth_edge_row) edges;
};

#endif
