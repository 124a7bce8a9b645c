#include "pipeline/formulas/formulas.h"

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

uint64_t formulas_cycles(int64_t time_ns, double clock_ghz)
{
    return time_ns > 0 ? (uint64_t)((double)time_ns * clock_ghz + 0.5) : 0;
}

double formulas_algorithm_bandwidth(uint64_t in_bytes, uint64_t out_bytes, int64_t duration_ns)
{
    return formulas_bytes_per_second(in_bytes > out_bytes ? in_bytes : out_bytes, duration_ns);
}

int64_t formulas_gap(int64_t later_ns, int64_t earlier_ns)
{
    return later_ns - earlier_ns;
}

int64_t formulas_clock_adjust(int64_t device_ns, int64_t sync_device_ns, int64_t sync_host_ns)
{
    return sync_host_ns + (device_ns - sync_device_ns);
}

double formulas_element_percent(double elements, unsigned rows, unsigned cols, double busy_cycles)
{
    return formulas_percent(elements, (double)rows * cols * busy_cycles);
}

double formulas_throttle_limit(int64_t k, int64_t n)
{
    if (n <= 0 || k >= n)
        return 1;
    return k > 0 ? (double)k / (double)n : 0;
}

void formulas_throttle_add(struct formulas_throttle *t, int64_t k, int64_t n, int64_t duration_ns)
{
    double weight = duration_ns > 0 ? (double)duration_ns : 0;
    t->weighted += formulas_throttle_limit(k, n) * weight;
    t->duration += weight;
}

double formulas_throttle_mean(const struct formulas_throttle *t)
{
    return formulas_ratio(t->weighted, t->duration);
}

double formulas_active_flops(double pe_peak, int64_t busy_ns, double adjusted_flops)
{
    double could = pe_peak * (double)busy_ns * 1e-9;
    return could > adjusted_flops ? could - adjusted_flops : 0;
}

double formulas_useful_read_percent(uint64_t hbm_read, uint64_t reload)
{
    return formulas_percent(reload < hbm_read ? (double)(hbm_read - reload) : 0, (double)hbm_read);
}

double formulas_rate_at(const struct formulas_transfer *transfers, size_t n, int64_t at_ns)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        if (transfers[i].start <= at_ns && at_ns < transfers[i].end)
            sum += formulas_bytes_per_second(transfers[i].bytes, transfers[i].end - transfers[i].start);
    return sum;
}

uint64_t formulas_rescale_delta(uint64_t delta, uint64_t expected_inc, uint64_t actual_inc)
{
    if (!actual_inc)
        return delta;
    return (uint64_t)((unsigned __int128)delta * expected_inc / actual_inc);
}
