/*
 * The documented formulas of the schema (facts: the vendor's schema page, class A) as pure functions. Times are ns,
 * rates per second, percentages 0 to 100. A formula whose divisor is 0 gives 0.
 */
#ifndef KYMO_PIPELINE_FORMULAS_H
#define KYMO_PIPELINE_FORMULAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"

double formulas_percent(double part, double whole); /* 100 * part / whole */
double formulas_ratio(double part, double whole);

/* 2 * rows * cols * pe_clock operations per second. */
double formulas_pe_peak(unsigned rows, unsigned cols, double clock_ghz);

uint64_t formulas_model_flops(int64_t mac_count); /* negative: no HLO statistics, 0 */
uint64_t formulas_matmul_flops(uint32_t rows, uint32_t cols, uint64_t elements);
/* FLOPs counted with MAC = 2; a low or high pass of an FP32 matmul counts half. */
uint64_t formulas_raw_flops(uint32_t rows, uint32_t cols, uint64_t elements, bool half_pass);
/* FLOPs scaled to BF16 cost, rounded down. A type that the generation lacks costs as BF16. */
uint64_t formulas_adjusted_flops(const struct kymo_arch *arch, enum kymo_dtype_cost cost, uint64_t flops);

/* flops / (peak * time), percent: mfu, hfu. */
double formulas_utilisation_percent(double flops, double pe_peak, int64_t time_ns);
/* (useful flops / HBM bytes) / (peak ops / peak HBM bytes), percent. */
double formulas_max_achievable_percent(double useful_flops, double hbm_bytes, double pe_peak, double hbm_peak);
double formulas_arithmetic_intensity(double hardware_flops, double transpose_flops, double hbm_bytes);
/* bytes / time / peak, percent: mbu. */
double formulas_bandwidth_percent(double bytes, int64_t time_ns, double hbm_peak);
static inline double formulas_bytes_per_second(uint64_t bytes, int64_t duration_ns)
{
    return duration_ns > 0 ? (double)bytes * 1e9 / (double)duration_ns : 0;
}
uint64_t formulas_cycles(int64_t time_ns, double clock_ghz); /* rounded to the nearest */

/* Collectives: max(in, out) / duration, bytes per second. */
double formulas_algorithm_bandwidth(uint64_t in_bytes, uint64_t out_bytes, int64_t duration_ns);
/* What lies between two times: start minus trigger, start of the downstream minus end of the upstream. */
int64_t formulas_gap(int64_t later_ns, int64_t earlier_ns);
/* Device time in the host's clock, by a point at which both were read. */
int64_t formulas_clock_adjust(int64_t device_ns, int64_t sync_device_ns, int64_t sync_host_ns);
/* Elements, not FLOPs, per element slot of the busy PE array: the hfu and mfu of FrameworkNode, percent. */
double formulas_element_percent(double elements, unsigned rows, unsigned cols, double busy_cycles);

/* A throttle notice allows k of n: 1 is no throttling. n 0 says nothing, which is no limit; above 1 there is none. */
double formulas_throttle_limit(int64_t k, int64_t n);
/* The mean of the limits weighted by duration: add each notice, then read. */
struct formulas_throttle {
    double weighted; /* sum of limit * duration */
    double duration;
};
void formulas_throttle_add(struct formulas_throttle *t, int64_t k, int64_t n, int64_t duration_ns);
double formulas_throttle_mean(const struct formulas_throttle *t); /* 0 when no time was added */

/* What a busy PE array could have done, at BF16 cost, beyond what it did; 0 when it did more. */
double formulas_active_flops(double pe_peak, int64_t busy_ns, double adjusted_flops);
/* HBM reads that were not reloads of what had been spilled, percent. */
double formulas_useful_read_percent(uint64_t hbm_read, uint64_t reload);

/* Sum of the rates of the transfers that are live at an instant, [start, end), bytes per second. */
struct formulas_transfer {
    int64_t start, end;
    uint64_t bytes;
};
double formulas_rate_at(const struct formulas_transfer *transfers, size_t n, int64_t at_ns);

/* Second generation: floor(delta * expected / actual) in 128 bits. actual 0: delta. */
uint64_t formulas_rescale_delta(uint64_t delta, uint64_t expected_inc, uint64_t actual_inc);

#endif
