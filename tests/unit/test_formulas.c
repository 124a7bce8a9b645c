/* Formulas and accumulators against tests/vectors/formulas.jsonl, and what the vectors leave out, by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arch/opcode.h"
#include "pipeline/formulas/formulas.h"
#include "pipeline/formulas/totals.h"
#include "tests/unit/vectors.h"

#define OPEN_MAX_SPANS 100000

static const json_t *get(const json_t *in, const char *key)
{
    return json_object_get(in, key);
}

/* The vendor's columns are 32-bit floats: 1e-6 relative. A null expectation divides by zero: only 0 may be reported. */
static void check_real(const json_t *expect, double got)
{
    if (json_is_null(expect)) {
        assert_true(got == 0);
        return;
    }
    double want = json_number_value(expect);
    if (fabs(got - want) > 1e-6 * fabs(want))
        fail_msg("expected %.12g, got %.12g", want, got);
}

static void check_whole(const json_t *expect, uint64_t got)
{
    assert_true(json_is_integer(expect));
    assert_int_equal(json_integer_value(expect), got);
}

static double peak(const json_t *in)
{
    return formulas_pe_peak((unsigned)vectors_int(in, "pe_rows"), (unsigned)vectors_int(in, "pe_cols"),
                            vectors_real(in, "pe_clock_ghz"));
}

static double hbm_bytes(const json_t *in)
{
    return vectors_real(in, "hbm_read_bytes") + vectors_real(in, "hbm_write_bytes");
}

static void add_spans(struct totals_busy *b, const json_t *spans)
{
    size_t i;
    const json_t *one;
    json_array_foreach(spans, i, one) assert_int_equal(
        totals_busy_add(b, json_integer_value(json_array_get(one, 0)), json_integer_value(json_array_get(one, 1)), 0),
        0);
}

static struct totals_busy busy_of(const json_t *in)
{
    struct totals_busy b;
    totals_busy_init(&b, OPEN_MAX_SPANS, NULL, NULL);
    add_spans(&b, get(in, "spans"));
    (void)spans_finish(&b.active);
    return b;
}

static void active_time_ns(const json_t *in, const json_t *expect)
{
    struct totals_busy b = busy_of(in);
    check_whole(expect, (uint64_t)b.active.total);
    totals_busy_done(&b);
}

static void instruction_time_ns(const json_t *in, const json_t *expect)
{
    struct totals_busy b = busy_of(in);
    check_whole(expect, (uint64_t)b.time);
    totals_busy_done(&b);
}

static void active_time_percent(const json_t *in, const json_t *expect)
{
    struct totals_busy b = busy_of(in);
    check_real(expect, formulas_percent((double)b.active.total, vectors_real(in, "time_ns")));
    totals_busy_done(&b);
}

static void model_flops(const json_t *in, const json_t *expect)
{
    bool none = json_is_null(get(in, "mac_count"));
    check_whole(expect, formulas_model_flops(none ? -1 : vectors_int(in, "mac_count")));
}

static enum kymo_dtype_cost cost_of(const char *dtype)
{
    if (!strcmp(dtype, "fp32"))
        return KYMO_COST_FP32;
    if (!strcmp(dtype, "fp8"))
        return KYMO_COST_FP8;
    if (!strcmp(dtype, "uint8"))
        return KYMO_COST_UINT8;
    if (!strncmp(dtype, "mx", 2))
        return KYMO_COST_MX;
    assert_true(!strcmp(dtype, "bf16") || !strcmp(dtype, "fp16") || !strcmp(dtype, "tf32"));
    return KYMO_COST_BF16;
}

static uint64_t matmul_flops(const json_t *m, bool only_transposes, const struct kymo_arch *arch)
{
    if (only_transposes && strcmp(vectors_string(m, "type"), "TRANSPOSE"))
        return 0;
    uint64_t flops = formulas_matmul_flops((uint32_t)vectors_int(m, "rows"), (uint32_t)vectors_int(m, "cols"),
                                           (uint64_t)vectors_int(m, "elements"));
    return arch ? formulas_adjusted_flops(arch, cost_of(vectors_string(m, "dtype")), flops) : flops;
}

static uint64_t sum_flops(const json_t *in, bool only_transposes, const struct kymo_arch *arch)
{
    uint64_t sum = 0;
    size_t i;
    const json_t *one;
    json_array_foreach(get(in, "matmuls"), i, one) sum += matmul_flops(one, only_transposes, arch);
    return sum;
}

static const struct kymo_arch *arch_of(const json_t *in)
{
    const struct kymo_arch *arch = kymo_arch_find(vectors_string(in, "generation"));
    assert_non_null(arch);
    return arch;
}

static void hardware_flops(const json_t *in, const json_t *expect)
{
    check_whole(expect, sum_flops(in, false, NULL));
}

static void transpose_flops(const json_t *in, const json_t *expect)
{
    check_whole(expect, sum_flops(in, true, NULL));
}

static void adjusted_hardware_flops(const json_t *in, const json_t *expect)
{
    check_whole(expect, sum_flops(in, false, arch_of(in)));
}

static void adjusted_transpose_flops(const json_t *in, const json_t *expect)
{
    check_whole(expect, sum_flops(in, true, arch_of(in)));
}

static void raw_flops(const json_t *in, const json_t *expect)
{
    bool half = !json_is_null(get(in, "pass"));
    check_whole(expect, formulas_raw_flops((uint32_t)vectors_int(in, "rows"), (uint32_t)vectors_int(in, "cols"),
                                           (uint64_t)vectors_int(in, "elements"), half));
}

static void adjusted_flops(const json_t *in, const json_t *expect)
{
    check_whole(expect, formulas_adjusted_flops(arch_of(in), cost_of(vectors_string(in, "dtype")),
                                                (uint64_t)vectors_int(in, "flops")));
}

static void mfu(const json_t *in, const json_t *expect)
{
    bool none = json_is_null(get(in, "mac_count"));
    double flops = (double)formulas_model_flops(none ? -1 : vectors_int(in, "mac_count"));
    check_real(expect, formulas_utilisation_percent(flops, peak(in), vectors_int(in, "total_time_ns")));
}

static void mfu_inst(const json_t *in, const json_t *expect)
{
    double flops = vectors_real(in, "hardware_flops") - vectors_real(in, "transpose_flops");
    check_real(expect, formulas_utilisation_percent(flops, peak(in), vectors_int(in, "total_time_ns")));
}

static void hfu(const json_t *in, const json_t *expect)
{
    check_real(expect, formulas_utilisation_percent(vectors_real(in, "hardware_flops"), peak(in),
                                                    vectors_int(in, "total_time_ns")));
}

static void max_achievable(const json_t *in, const json_t *expect)
{
    check_real(expect, formulas_max_achievable_percent(vectors_real(in, "useful_flops"), hbm_bytes(in), peak(in),
                                                       vectors_real(in, "hbm_peak_bytes_per_s")));
}

static void intensity(const json_t *in, const json_t *expect)
{
    check_real(expect, formulas_arithmetic_intensity(vectors_real(in, "hardware_flops"),
                                                     vectors_real(in, "transpose_flops"), hbm_bytes(in)));
}

static void ridge(const json_t *in, const json_t *expect)
{
    double ratio = formulas_ratio(peak(in), vectors_real(in, "hbm_peak_bytes_per_s"));
    check_real(get(expect, "ratio"), ratio);
    assert_int_equal(json_is_true(get(expect, "memory_bound")), vectors_real(in, "intensity") < ratio);
}

static void mbu(const json_t *in, const json_t *expect)
{
    check_real(expect, formulas_bandwidth_percent(hbm_bytes(in), vectors_int(in, "total_time_ns"),
                                                  vectors_real(in, "hbm_peak_bytes_per_s")));
}

static void mbu_min_read(const json_t *in, const json_t *expect)
{
    double bytes = vectors_real(in, "inputs_bytes") + vectors_real(in, "weights_bytes");
    check_real(expect, formulas_bandwidth_percent(bytes, vectors_int(in, "total_time_ns"),
                                                  vectors_real(in, "hbm_peak_bytes_per_s")));
}

static void cycles(const json_t *in, const json_t *expect)
{
    check_whole(expect, formulas_cycles(vectors_int(in, "time_ns"), vectors_real(in, "clock_ghz")));
}

static struct totals_dma dma_of(const json_t *in)
{
    struct totals_dma d;
    totals_dma_init(&d, OPEN_MAX_SPANS);
    size_t i;
    const json_t *p;
    json_array_foreach(get(in, "packets"), i, p)
        assert_int_equal(totals_dma_add(&d, totals_dma_class(vectors_string(p, "class")), vectors_int(p, "start_ns"),
                                        vectors_int(p, "end_ns"), (uint64_t)vectors_int(p, "bytes")),
                         0);
    totals_dma_finish(&d);
    return d;
}

static void dma_active(const json_t *in, const json_t *expect)
{
    struct totals_dma d = dma_of(in);
    check_whole(get(expect, "all"), (uint64_t)d.all.total);
    check_whole(get(expect, "static"), (uint64_t)d.by_class[TOTALS_DMA_STATIC].total);
    check_whole(get(expect, "software_dynamic"), (uint64_t)d.by_class[TOTALS_DMA_SOFTWARE].total);
    check_whole(get(expect, "hardware_dynamic"), (uint64_t)d.by_class[TOTALS_DMA_HARDWARE].total);
    totals_dma_done(&d);
}

static void dma_packet_time(const json_t *in, const json_t *expect)
{
    struct totals_dma d = dma_of(in);
    check_whole(expect, (uint64_t)d.packet_time);
    totals_dma_done(&d);
}

static void class_share(const json_t *expect, const char *what, const struct totals_dma *d, uint64_t packets,
                        uint64_t bytes)
{
    char key[96];
    (void)snprintf(key, sizeof key, "%s_dma_packet_percent", what);
    check_real(get(expect, key), formulas_percent((double)packets, (double)totals_dma_all_packets(d)));
    (void)snprintf(key, sizeof key, "%s_dma_size_percent", what);
    check_real(get(expect, key), formulas_percent((double)bytes, (double)totals_dma_all_bytes(d)));
}

static void dma_shares(const json_t *in, const json_t *expect)
{
    struct totals_dma d = dma_of(in);
    const uint64_t *p = d.packets, *b = d.bytes;
    class_share(expect, "static", &d, p[TOTALS_DMA_STATIC], b[TOTALS_DMA_STATIC]);
    class_share(expect, "software_dynamic", &d, p[TOTALS_DMA_SOFTWARE], b[TOTALS_DMA_SOFTWARE]);
    class_share(expect, "hardware_dynamic", &d, p[TOTALS_DMA_HARDWARE], b[TOTALS_DMA_HARDWARE]);
    class_share(expect, "dynamic", &d, p[TOTALS_DMA_SOFTWARE] + p[TOTALS_DMA_HARDWARE],
                b[TOTALS_DMA_SOFTWARE] + b[TOTALS_DMA_HARDWARE]);
    totals_dma_done(&d);
}

static void dma_average(const json_t *in, const json_t *expect)
{
    double bytes = 0;
    size_t i;
    const json_t *one;
    json_array_foreach(get(in, "packet_bytes"), i, one) bytes += (double)json_integer_value(one);
    check_real(expect, formulas_ratio(bytes, vectors_real(in, "transfers")));
}

static void throughput(const json_t *in, const json_t *expect)
{
    check_real(expect, formulas_bytes_per_second((uint64_t)vectors_int(in, "bytes"), vectors_int(in, "duration_ns")));
}

static void total_active(const json_t *in, const json_t *expect)
{
    struct totals_busy b;
    totals_busy_init(&b, OPEN_MAX_SPANS, NULL, NULL);
    add_spans(&b, get(in, "instructions"));
    add_spans(&b, get(in, "dma"));
    add_spans(&b, get(in, "collectives"));
    check_whole(expect, (uint64_t)spans_finish(&b.active));
    totals_busy_done(&b);
}

/* Number of an opcode by the name that the tables use; the vectors keep the facts' spelling, which is the same here. */
static uint8_t opcode_number(const char *name)
{
    for (unsigned n = 0; n < 256; n++) {
        const struct kymo_opcode *op = kymo_opcode_get((uint8_t)n);
        if (op && !strcmp(op->name, name))
            return (uint8_t)n;
    }
    fail_msg("no opcode %s", name);
    return 0;
}

static void total_exec(const json_t *in, const json_t *expect)
{
    struct totals_window w = {0};
    size_t i;
    const json_t *one;
    json_array_foreach(get(in, "instructions"), i, one) totals_window_add_instruction(
        &w, opcode_number(vectors_string(one, "opcode")), vectors_int(one, "start_ns"), vectors_int(one, "end_ns"));
    json_array_foreach(get(in, "dma"), i, one)
        totals_window_add(&w, json_integer_value(json_array_get(one, 0)), json_integer_value(json_array_get(one, 1)));
    check_whole(expect, (uint64_t)totals_window_length(&w));
}

static void total_time(const json_t *in, const json_t *expect)
{
    struct totals_run run = {0};
    size_t i;
    const json_t *one;
    json_array_foreach(get(in, "notices_ns"), i, one) totals_run_notice(&run, json_integer_value(one));
    if (!json_is_null(get(in, "start_notice_ns")))
        totals_run_start(&run, vectors_int(in, "start_notice_ns"));
    if (!json_is_null(get(in, "stop_notice_ns")))
        totals_run_stop(&run, vectors_int(in, "stop_notice_ns"));
    check_whole(expect, (uint64_t)totals_run_time(&run));
}

static void check_opcode_row(const json_t *in, const json_t *row)
{
    struct totals_busy b;
    totals_busy_init(&b, OPEN_MAX_SPANS, NULL, NULL);
    size_t i;
    const json_t *one;
    json_array_foreach(get(in, "instructions"), i,
                       one) if (!strcmp(vectors_string(one, "engine"), vectors_string(row, "engine")) &&
                                !strcmp(vectors_string(one, "opcode"), vectors_string(row, "opcode")))
        assert_int_equal(totals_busy_add(&b, vectors_int(one, "start_ns"), vectors_int(one, "end_ns"), 0), 0);
    check_whole(get(row, "instruction_count"), b.count);
    check_whole(get(row, "instruction_time_ns"), (uint64_t)b.time);
    check_whole(get(row, "active_time_ns"), (uint64_t)spans_finish(&b.active));
    totals_busy_done(&b);
}

static void opcode_summary(const json_t *in, const json_t *expect)
{
    size_t i;
    const json_t *row;
    json_array_foreach(expect, i, row) check_opcode_row(in, row);
}

static void rescale(const json_t *in, const json_t *expect)
{
    check_whole(expect,
                formulas_rescale_delta((uint64_t)vectors_int(in, "delta"), (uint64_t)vectors_int(in, "expected_inc"),
                                       (uint64_t)vectors_int(in, "actual_inc")));
}

static void dma_wait(const json_t *in, const json_t *expect)
{
    check_whole(expect, (uint64_t)(vectors_int(in, "dma_start_ns") - vectors_int(in, "instruction_end_ns")));
}

static void algorithm_bandwidth(const json_t *in, const json_t *expect)
{
    check_real(expect,
               formulas_algorithm_bandwidth((uint64_t)vectors_int(in, "input_bytes"),
                                            (uint64_t)vectors_int(in, "output_bytes"), vectors_int(in, "duration_ns")));
}

static void trigger_delay(const json_t *in, const json_t *expect)
{
    check_whole(expect, (uint64_t)formulas_gap(vectors_int(in, "start_ns"), vectors_int(in, "trigger_start_ns")));
}

static void flow_gap(const json_t *in, const json_t *expect)
{
    check_whole(expect,
                (uint64_t)formulas_gap(vectors_int(in, "downstream_start_ns"), vectors_int(in, "upstream_end_ns")));
}

/* The sync point of the same execution on the same core. */
static void clock_adjust(const json_t *in, const json_t *expect)
{
    size_t i;
    const json_t *one, *found = NULL;
    json_array_foreach(get(in, "sync_points"), i, one) if (vectors_int(one, "exec_id") == vectors_int(in, "exec_id") &&
                                                           vectors_int(one, "nc_idx") == vectors_int(in, "nc_idx"))
        found = one;
    assert_non_null(found);
    /* Beyond 2^53, so the vectors have it as text. */
    assert_true(json_is_string(expect));
    assert_int_equal(strtoll(json_string_value(expect), NULL, 10),
                     formulas_clock_adjust(vectors_int(in, "event_device_ns"), vectors_int(found, "nc_timestamp_ns"),
                                           vectors_int(found, "cpu_timestamp_ns")));
}

static void framework(const json_t *in, const json_t *expect)
{
    unsigned rows = (unsigned)vectors_int(in, "pe_rows"), cols = (unsigned)vectors_int(in, "pe_cols");
    double all = vectors_real(in, "elements"), transposes = vectors_real(in, "transpose_elements");
    double cycles_busy = vectors_real(in, "busy_cycles");
    check_real(get(expect, "hfu"), formulas_element_percent(all, rows, cols, cycles_busy));
    check_real(get(expect, "mfu"), formulas_element_percent(all - transposes, rows, cols, cycles_busy));
}

static void host_memory(const json_t *in, const json_t *expect)
{
    check_real(expect, formulas_percent(vectors_real(in, "used_bytes"), vectors_real(in, "capacity_bytes")));
}

static void bandwidth_at(const json_t *in, const json_t *expect)
{
    struct formulas_transfer live[64];
    size_t i, n = json_array_size(get(in, "transfers"));
    const json_t *one;
    assert_true(n <= sizeof live / sizeof *live);
    json_array_foreach(get(in, "transfers"), i, one) live[i] = (struct formulas_transfer){
        vectors_int(one, "start_ns"), vectors_int(one, "end_ns"), (uint64_t)vectors_int(one, "bytes")};
    check_real(expect, formulas_rate_at(live, n, vectors_int(in, "at_ns")));
}

static void nki_coverage(const json_t *in, const json_t *expect)
{
    check_real(expect, formulas_percent(vectors_real(in, "nki_instructions"), vectors_real(in, "instructions")));
}

struct intervals {
    const json_t *want;
    size_t at;
};

static void next_interval(void *ctx, struct span s)
{
    struct intervals *i = ctx;
    const json_t *one = json_array_get(i->want, i->at++);
    assert_int_equal(json_integer_value(json_array_get(one, 0)), s.start);
    assert_int_equal(json_integer_value(json_array_get(one, 1)), s.end);
}

static void rollup(const json_t *in, const json_t *expect)
{
    struct intervals want = {.want = get(expect, "time_intervals")};
    struct totals_window w = {0};
    struct spans merged;
    size_t i;
    const json_t *one;
    spans_init(&merged, OPEN_MAX_SPANS, next_interval, &want);
    json_array_foreach(get(in, "children"), i, one)
    {
        int64_t start = json_integer_value(json_array_get(one, 0)), end = json_integer_value(json_array_get(one, 1));
        assert_int_equal(spans_add(&merged, start, end), 0);
        totals_window_add(&w, start, end);
    }
    (void)spans_finish(&merged);
    spans_done(&merged);
    assert_int_equal(want.at, json_array_size(want.want));
    assert_int_equal(w.first, vectors_int(expect, "start_ts"));
    assert_int_equal(w.last, vectors_int(expect, "end_ts"));
}

static void throttle(const json_t *in, const json_t *expect)
{
    double limit = formulas_throttle_limit(vectors_int(in, "k"), vectors_int(in, "n"));
    check_real(get(expect, "limit"), limit);
    check_real(get(expect, "throttling"), 1 - limit);
}

static void throttle_mean(const json_t *in, const json_t *expect)
{
    struct formulas_throttle t = {0};
    size_t i;
    const json_t *one;
    json_array_foreach(get(in, "events"), i, one)
        formulas_throttle_add(&t, vectors_int(one, "k"), vectors_int(one, "n"), vectors_int(one, "duration_ns"));
    check_real(expect, formulas_throttle_mean(&t));
}

static void useful_read(const json_t *in, const json_t *expect)
{
    check_real(expect, formulas_useful_read_percent((uint64_t)vectors_int(in, "hbm_read_bytes"),
                                                    (uint64_t)vectors_int(in, "hbm_reload_bytes")));
}

struct runner {
    const char *formula;
    void (*run)(const json_t *in, const json_t *expect);
    size_t count;
};

static struct runner runners[] = {
    {"active_time_ns", active_time_ns, 0},
    {"instruction_time_ns", instruction_time_ns, 0},
    {"active_time_percent", active_time_percent, 0},
    {"model_flops", model_flops, 0},
    {"hardware_flops", hardware_flops, 0},
    {"transpose_flops", transpose_flops, 0},
    {"adjusted_hardware_flops", adjusted_hardware_flops, 0},
    {"adjusted_transpose_flops", adjusted_transpose_flops, 0},
    {"raw_flops", raw_flops, 0},
    {"adjusted_flops", adjusted_flops, 0},
    {"mfu_estimated_percent", mfu, 0},
    {"mfu_hlo_estimated_percent", mfu, 0},
    {"mfu_inst_estimated_percent", mfu_inst, 0},
    {"hfu_estimated_percent", hfu, 0},
    {"mfu_max_achievable_estimated_percent", max_achievable, 0},
    {"mm_arithmetic_intensity", intensity, 0},
    {"peak_flops_bandwidth_ratio", ridge, 0},
    {"mbu_estimated_percent", mbu, 0},
    {"mbu_min_read_util_percent", mbu_min_read, 0},
    {"neuroncore_cycle_count", cycles, 0},
    {"dma_active_cycles", cycles, 0},
    {"dma_active_time_ns", dma_active, 0},
    {"dma_packet_time_ns", dma_packet_time, 0},
    {"dma_class_shares", dma_shares, 0},
    {"dma_transfer_average_bytes", dma_average, 0},
    {"dma_packet_throughput", throughput, 0},
    {"dma_wait_time_ns", dma_wait, 0},
    {"total_active_time_ns", total_active, 0},
    {"total_exec_time_ns", total_exec, 0},
    {"total_time_ns", total_time, 0},
    {"opcode_summary", opcode_summary, 0},
    {"timestamp_rescale_delta", rescale, 0},
    {"cc_algorithm_bandwidth", algorithm_bandwidth, 0},
    {"cc_trigger_start_delay", trigger_delay, 0},
    {"clock_adjust_ns", clock_adjust, 0},
    {"flow_gap_time_ns", flow_gap, 0},
    {"framework_utilisation", framework, 0},
    {"host_mem_used_percent", host_memory, 0},
    {"memory_bandwidth_at", bandwidth_at, 0},
    {"nki_coverage_percent", nki_coverage, 0},
    {"rollup", rollup, 0},
    {"throttle", throttle, 0},
    {"throttle_max_achievable", throttle_mean, 0},
    {"useful_read_percent", useful_read, 0},
};

static void check_line(json_t *line, void *ctx)
{
    (void)ctx;
    const char *formula = vectors_string(line, "formula");
    for (size_t i = 0; i < sizeof runners / sizeof *runners; i++) {
        if (strcmp(runners[i].formula, formula))
            continue;
        runners[i].count++;
        runners[i].run(get(line, "inputs"), get(line, "expect"));
        return;
    }
    fail_msg("no runner for %s", formula);
}

static void test_vectors(void **state)
{
    (void)state;
    assert_int_equal(vectors_each("tests/vectors/formulas.jsonl", check_line, NULL), 373);
    for (size_t i = 0; i < sizeof runners / sizeof *runners; i++)
        assert_true(runners[i].count > 0);
}

/* Waits count in the time of an instruction, not in the engine's active time. */
static void test_wait_is_not_active(void **state)
{
    (void)state;
    struct totals_busy b;
    totals_busy_init(&b, 8, NULL, NULL);
    assert_int_equal(totals_busy_add(&b, 100, 200, 60), 0);
    assert_int_equal(b.time, 100);
    assert_int_equal(spans_finish(&b.active), 40);
    totals_busy_done(&b);
}

/* What the vectors leave out: a limit of nothing or above one, notices without time, reloads beyond the reads. */
static void test_edges(void **state)
{
    (void)state;
    struct formulas_throttle t = {0};
    assert_true(formulas_throttle_limit(3, 0) == 1);
    assert_true(formulas_throttle_limit(9, 8) == 1);
    assert_true(formulas_throttle_limit(-1, 8) == 0);
    formulas_throttle_add(&t, 1, 2, 0);
    formulas_throttle_add(&t, 1, 2, -5);
    assert_true(formulas_throttle_mean(&t) == 0);
    formulas_throttle_add(&t, 3, 4, 10);
    formulas_throttle_add(&t, 1, 4, 30);
    assert_true(formulas_throttle_mean(&t) == 0.375);
    assert_true(formulas_useful_read_percent(10, 11) == 0);
    /* 1 us at 2 * 128 * 128 * 1 GHz is 32,768,000 FLOPs. */
    assert_true(fabs(formulas_active_flops(formulas_pe_peak(128, 128, 1), 1000, 32000000) - 768000) < 1e-3);
    assert_true(formulas_active_flops(formulas_pe_peak(128, 128, 1), 1000, 33000000) == 0);
    assert_true(formulas_algorithm_bandwidth(8, 4, 0) == 0);
    assert_int_equal(formulas_gap(5, 8), -3);
    /* The end of a transfer does not count. */
    const struct formulas_transfer two[] = {{0, 10, 100}, {10, 20, 50}};
    assert_true(formulas_rate_at(two, 2, 10) == 5e9);
    assert_true(formulas_rate_at(two, 2, 20) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_wait_is_not_active),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
