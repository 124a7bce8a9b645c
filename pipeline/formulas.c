#include "pipeline/formulas.h"

double formulas_ratio(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

double formulas_percent(double part, double whole)
{
    return 100 * formulas_ratio(part, whole);
}

double formulas_pe_peak(unsigned rows, unsigned cols, double clock_ghz)
{
    return 2.0 * rows * cols * clock_ghz * 1e9;
}

uint64_t formulas_model_flops(int64_t mac_count)
{
    return mac_count > 0 ? 2 * (uint64_t)mac_count : 0;
}

uint64_t formulas_matmul_flops(uint32_t rows, uint32_t cols, uint64_t elements)
{
    return 2 * (uint64_t)rows * cols * elements;
}

uint64_t formulas_raw_flops(uint32_t rows, uint32_t cols, uint64_t elements, bool half_pass)
{
    uint64_t flops = formulas_matmul_flops(rows, cols, elements);
    return half_pass ? flops / 2 : flops;
}

uint64_t formulas_adjusted_flops(const struct kymo_arch *arch, enum kymo_dtype_cost cost, uint64_t flops)
{
    double factor = arch->cost[cost] > 0 ? arch->cost[cost] : 1;
    /* All factors are multiples of a quarter; whole arithmetic keeps FLOP counts beyond 2^53 exact. */
    unsigned quarters = (unsigned)(factor * 4 + 0.5);
    return (uint64_t)((unsigned __int128)flops * quarters / 4);
}

double formulas_utilisation_percent(double flops, double pe_peak, int64_t time_ns)
{
    return formulas_percent(flops, pe_peak * (double)time_ns * 1e-9);
}

double formulas_max_achievable_percent(double useful_flops, double hbm_bytes, double pe_peak, double hbm_peak)
{
    return formulas_percent(formulas_ratio(useful_flops, hbm_bytes), formulas_ratio(pe_peak, hbm_peak));
}

double formulas_arithmetic_intensity(double hardware_flops, double transpose_flops, double hbm_bytes)
{
    return formulas_ratio(hardware_flops - transpose_flops, hbm_bytes);
}

double formulas_bandwidth_percent(double bytes, int64_t time_ns, double hbm_peak)
{
    return formulas_percent(bytes, (double)time_ns * 1e-9 * hbm_peak);
}

double formulas_bytes_per_second(uint64_t bytes, int64_t duration_ns)
{
    return formulas_ratio((double)bytes * 1e9, (double)duration_ns);
}

uint64_t formulas_cycles(int64_t time_ns, double clock_ghz)
{
    return time_ns > 0 ? (uint64_t)((double)time_ns * clock_ghz + 0.5) : 0;
}

uint64_t formulas_rescale_delta(uint64_t delta, uint64_t expected_inc, uint64_t actual_inc)
{
    if (!actual_inc)
        return delta;
    return (uint64_t)((unsigned __int128)delta * expected_inc / actual_inc);
}
