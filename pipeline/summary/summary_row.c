/* The one row of the table Summary. Times are seconds there; everything else is as the formulas give it. */
#include <string.h>

#include "arch/opcode.h"
#include "formats/parquet/parquet_writer.h"
#include "pipeline/formulas/formulas.h"
#include "pipeline/summary/summary_impl.h"

struct work { /* sums over instructions */
    uint64_t hardware, transpose, adjusted, adjusted_transpose;
    uint64_t nki, coverable; /* instructions from NKI kernels, and of the engines that kernels are about */
    uint64_t sbuf_read, sbuf_write, psum_read, psum_write, psum_to_sbuf, psum_to_sbuf_count;
};

struct sizes { /* of the NEFFs' tensors */
    uint64_t input, output, weight, queues;
};

static struct work sum_work(const struct summary *s)
{
    struct work w = {0};
    for (size_t i = 0; i < s->statics->count; i++) {
        uint64_t n = s->row_count[i];
        if (!n)
            continue;
        struct static_facts f;
        statics_facts(s->statics, &s->statics->rows[i], &f);
        uint8_t engine = s->statics->rows[i].engine;
        if (engine == KYMO_ENGINE_TENSOR || engine == KYMO_ENGINE_VECTOR || engine == KYMO_ENGINE_SCALAR) {
            w.coverable += n;
            w.nki += f.debug && f.debug->kernel_name ? n : 0;
        }
        w.hardware += n * f.raw_flops;
        w.adjusted += n * f.adjusted_flops;
        w.transpose += f.transpose ? n * f.raw_flops : 0;
        w.adjusted_transpose += f.transpose ? n * f.adjusted_flops : 0;
        w.sbuf_read += n * f.footprint.sbuf_read;
        w.sbuf_write += n * f.footprint.sbuf_write;
        w.psum_read += n * f.footprint.psum_read;
        w.psum_write += n * f.footprint.psum_write;
        w.psum_to_sbuf += n * f.footprint.psum_read_sbuf_write;
        w.psum_to_sbuf_count += f.footprint.psum_read_sbuf_write ? n : 0;
    }
    return w;
}

static struct sizes sum_sizes(const struct input *in)
{
    struct sizes z = {0};
    for (size_t n = 0; n < in->node_count; n++)
        for (size_t g = 0; in->nodes[n].neff && g < neff_subgraph_count(in->nodes[n].neff); g++) {
            const struct neff_subgraph *sg = neff_subgraph(in->nodes[n].neff, g);
            z.queues += sg->queue_count;
            for (size_t v = 0; v < sg->var_count; v++) {
                const char *word = dma_memory_word(&sg->vars[v]);
                z.input += strcmp(word, "INPUT") ? 0 : sg->vars[v].size;
                z.output += strcmp(word, "OUTPUT") ? 0 : sg->vars[v].size;
                z.weight += strcmp(word, "WEIGHT") ? 0 : sg->vars[v].size;
            }
        }
    return z;
}

/* MAC counts of the NEFFs, each as often as it ran to its end; -1 when none of them has HLO statistics. */
static int64_t sum_macs(const struct input *in, const struct timeline *t)
{
    int64_t macs = -1;
    for (uint32_t n = 0; n < in->node_count; n++) {
        int64_t one = in->nodes[n].neff ? neff_mac_count(in->nodes[n].neff) : -1;
        if (one >= 0)
            macs = (macs < 0 ? 0 : macs) + one * (int64_t)timeline_whole_runs(t, n);
    }
    return macs;
}

static double seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

struct put {
    struct parquet_row *row;
    const struct summary *s;
    int64_t total; /* total_time in ns */
};

static void put_count(struct put *p, unsigned column, uint64_t v)
{
    parquet_row_int(p->row, column, (int64_t)v);
}

/* Damaged times may be months long: an amount that does not fit is the greatest that does. */
static void put_amount(struct put *p, unsigned column, double v)
{
    parquet_row_int(p->row, column, v < 0x1p63 ? (int64_t)v : INT64_MAX);
}

static void put_span(struct put *p, unsigned time, unsigned percent, int64_t ns)
{
    parquet_row_real(p->row, time, seconds(ns));
    parquet_row_real(p->row, percent, formulas_percent((double)ns, (double)p->total));
}

static void put_flops(struct put *p, const struct input *in, const struct work *w, int64_t macs)
{
    const struct kymo_arch *a = in->arch;
    double peak = formulas_pe_peak(a->pe_rows, a->pe_cols, a->clock_ghz[KYMO_ENGINE_TENSOR]);
    double hbm = (double)p->s->hbm_read + (double)p->s->hbm_write, bandwidth = a->hbm_stack_bandwidth;
    double model = (double)formulas_model_flops(macs), useful = (double)(w->hardware - w->transpose);
    double mfu = formulas_utilisation_percent(model, peak, p->total);
    double mfu_max = formulas_max_achievable_percent(model, hbm, peak, bandwidth);
    put_count(p, KYMO_SUMMARY_MODEL_FLOPS, formulas_model_flops(macs));
    put_count(p, KYMO_SUMMARY_HARDWARE_FLOPS, w->hardware);
    put_count(p, KYMO_SUMMARY_TRANSPOSE_FLOPS, w->transpose);
    put_count(p, KYMO_SUMMARY_ADJUSTED_HARDWARE_FLOPS, w->adjusted);
    put_count(p, KYMO_SUMMARY_ADJUSTED_TRANSPOSE_FLOPS, w->adjusted_transpose);
    parquet_row_real(p->row, KYMO_SUMMARY_MM_ARITHMETIC_INTENSITY,
                     formulas_arithmetic_intensity((double)w->hardware, (double)w->transpose, hbm));
    parquet_row_real(p->row, KYMO_SUMMARY_PEAK_FLOPS_BANDWIDTH_RATIO, formulas_ratio(peak, bandwidth));
    parquet_row_real(p->row, KYMO_SUMMARY_MFU_ESTIMATED_PERCENT, mfu);
    parquet_row_real(p->row, KYMO_SUMMARY_MFU_MAX_ACHIEVABLE_ESTIMATED_PERCENT, mfu_max);
    parquet_row_real(p->row, KYMO_SUMMARY_MFU_HLO_ESTIMATED_PERCENT, mfu);
    parquet_row_real(p->row, KYMO_SUMMARY_MFU_HLO_MAX_ACHIEVABLE_ESTIMATED_PERCENT, mfu_max);
    parquet_row_real(p->row, KYMO_SUMMARY_MFU_INST_ESTIMATED_PERCENT,
                     formulas_utilisation_percent(useful, peak, p->total));
    parquet_row_real(p->row, KYMO_SUMMARY_MFU_INST_MAX_ACHIEVABLE_ESTIMATED_PERCENT,
                     formulas_max_achievable_percent(useful, hbm, peak, bandwidth));
    parquet_row_real(p->row, KYMO_SUMMARY_HFU_ESTIMATED_PERCENT,
                     formulas_utilisation_percent((double)w->hardware, peak, p->total));
}

static void put_memory(struct put *p, const struct input *in, const struct work *w, const struct sizes *z)
{
    const struct summary *s = p->s;
    double bandwidth = in->arch->hbm_stack_bandwidth;
    parquet_row_real(p->row, KYMO_SUMMARY_MBU_ESTIMATED_PERCENT,
                     formulas_bandwidth_percent((double)s->hbm_read + (double)s->hbm_write, p->total, bandwidth));
    parquet_row_real(p->row, KYMO_SUMMARY_MBU_MIN_READ_UTIL_PERCENT,
                     formulas_bandwidth_percent((double)(z->input + z->weight), p->total, bandwidth));
    put_count(p, KYMO_SUMMARY_INPUTS_AND_WEIGHTS_SIZE_BYTES, z->input + z->weight);
    put_count(p, KYMO_SUMMARY_INPUTS_OUTPUTS_WEIGHTS_SIZE_BYTES, z->input + z->output + z->weight);
    put_count(p, KYMO_SUMMARY_WEIGHT_SIZE_BYTES, z->weight);
    put_count(p, KYMO_SUMMARY_HBM_WRITE_BYTES, s->hbm_write);
    put_count(p, KYMO_SUMMARY_HBM_READ_BYTES, s->hbm_read);
    put_count(p, KYMO_SUMMARY_SBUF_WRITE_BYTES, s->sbuf_write + w->sbuf_write);
    put_count(p, KYMO_SUMMARY_SBUF_READ_BYTES, s->sbuf_read + w->sbuf_read);
    put_count(p, KYMO_SUMMARY_SPILL_SAVE_BYTES, s->spill_save);
    put_count(p, KYMO_SUMMARY_SPILL_RELOAD_BYTES, s->spill_reload);
    put_count(p, KYMO_SUMMARY_PSUM_WRITE_BYTES, w->psum_write);
    put_count(p, KYMO_SUMMARY_PSUM_READ_BYTES, w->psum_read);
    put_count(p, KYMO_SUMMARY_PSUM_READ_SBUF_WRITE_COUNT, w->psum_to_sbuf_count);
    put_count(p, KYMO_SUMMARY_PSUM_READ_SBUF_WRITE_BYTES, w->psum_to_sbuf);
    put_count(p, KYMO_SUMMARY_INPUT_QUEUE_BYTES, s->input_bytes);
    put_count(p, KYMO_SUMMARY_OUTPUT_QUEUE_BYTES, s->output_bytes);
    put_count(p, KYMO_SUMMARY_WEIGHT_QUEUE_BYTES, s->weight_bytes);
}

static void put_dma_class(struct put *p, enum totals_dma_class c, const unsigned columns[6])
{
    const struct totals_dma *d = &p->s->dma;
    double packets = (double)totals_dma_all_packets(d), bytes = (double)totals_dma_all_bytes(d);
    put_span(p, columns[0], columns[1], d->by_class[c].total);
    put_count(p, columns[2], d->packets[c]);
    put_count(p, columns[3], d->bytes[c]);
    parquet_row_real(p->row, columns[4], formulas_percent((double)d->packets[c], packets));
    parquet_row_real(p->row, columns[5], formulas_percent((double)d->bytes[c], bytes));
}

static void put_dma_dynamic(struct put *p)
{
    const struct totals_dma *d = &p->s->dma;
    double packets = (double)totals_dma_all_packets(d), bytes = (double)totals_dma_all_bytes(d);
    uint64_t n = d->packets[TOTALS_DMA_SOFTWARE] + d->packets[TOTALS_DMA_HARDWARE];
    uint64_t size = d->bytes[TOTALS_DMA_SOFTWARE] + d->bytes[TOTALS_DMA_HARDWARE];
    parquet_row_real(p->row, KYMO_SUMMARY_DYNAMIC_DMA_ACTIVE_TIME_PERCENT,
                     formulas_percent((double)d->dynamic.total, (double)p->total));
    parquet_row_real(p->row, KYMO_SUMMARY_DYNAMIC_DMA_PACKET_PERCENT, formulas_percent((double)n, packets));
    parquet_row_real(p->row, KYMO_SUMMARY_DYNAMIC_DMA_SIZE_PERCENT, formulas_percent((double)size, bytes));
}

static void put_dma(struct put *p, const struct input *in)
{
    static const unsigned fixed[6] = {
        KYMO_SUMMARY_STATIC_DMA_ACTIVE_TIME,    KYMO_SUMMARY_STATIC_DMA_ACTIVE_TIME_PERCENT,
        KYMO_SUMMARY_STATIC_DMA_PACKET_COUNT,   KYMO_SUMMARY_STATIC_DMA_SIZE,
        KYMO_SUMMARY_STATIC_DMA_PACKET_PERCENT, KYMO_SUMMARY_STATIC_DMA_SIZE_PERCENT};
    static const unsigned software[6] = {
        KYMO_SUMMARY_SOFTWARE_DYNAMIC_DMA_ACTIVE_TIME,    KYMO_SUMMARY_SOFTWARE_DYNAMIC_DMA_ACTIVE_TIME_PERCENT,
        KYMO_SUMMARY_SOFTWARE_DYNAMIC_DMA_PACKET_COUNT,   KYMO_SUMMARY_SOFTWARE_DYNAMIC_DMA_SIZE,
        KYMO_SUMMARY_SOFTWARE_DYNAMIC_DMA_PACKET_PERCENT, KYMO_SUMMARY_SOFTWARE_DYNAMIC_DMA_SIZE_PERCENT};
    static const unsigned hardware[6] = {
        KYMO_SUMMARY_HARDWARE_DYNAMIC_DMA_ACTIVE_TIME,    KYMO_SUMMARY_HARDWARE_DYNAMIC_DMA_ACTIVE_TIME_PERCENT,
        KYMO_SUMMARY_HARDWARE_DYNAMIC_DMA_PACKET_COUNT,   KYMO_SUMMARY_HARDWARE_DYNAMIC_DMA_SIZE,
        KYMO_SUMMARY_HARDWARE_DYNAMIC_DMA_PACKET_PERCENT, KYMO_SUMMARY_HARDWARE_DYNAMIC_DMA_SIZE_PERCENT};
    const struct summary *s = p->s;
    put_span(p, KYMO_SUMMARY_DMA_ACTIVE_TIME, KYMO_SUMMARY_DMA_ACTIVE_TIME_PERCENT, s->dma.all.total);
    put_count(p, KYMO_SUMMARY_DMA_ACTIVE_CYCLES, formulas_cycles(s->dma.all.total, in->arch->core_clock_ghz));
    put_dma_class(p, TOTALS_DMA_STATIC, fixed);
    put_dma_class(p, TOTALS_DMA_SOFTWARE, software);
    put_dma_class(p, TOTALS_DMA_HARDWARE, hardware);
    put_dma_dynamic(p);
    /* Packets of no transfer would make it more than any transfer moved. */
    parquet_row_real(p->row, KYMO_SUMMARY_DMA_TRANSFER_AVERAGE_BYTES,
                     formulas_ratio((double)s->transfer_bytes, (double)s->transfers));
    parquet_row_real(p->row, KYMO_SUMMARY_DMA_PACKET_TIME, seconds(s->dma.packet_time));
    parquet_row_real(p->row, KYMO_SUMMARY_DMA_TRANSFER_TIME, seconds(s->transfer_time));
    put_count(p, KYMO_SUMMARY_DMA_TRANSFER_COUNT, s->transfers);
    put_count(p, KYMO_SUMMARY_DMA_TRANSFER_TOTAL_BYTES, s->transfer_bytes);
}

static void put_engines(struct put *p)
{
    static const struct {
        enum kymo_engine engine;
        unsigned time, active, percent, count;
    } columns[] = {
#define E(id, name)                                                                                                    \
    {KYMO_ENGINE_##id, KYMO_SUMMARY_##name##_ENGINE_INSTRUCTION_TIME, KYMO_SUMMARY_##name##_ENGINE_ACTIVE_TIME,        \
     KYMO_SUMMARY_##name##_ENGINE_ACTIVE_TIME_PERCENT, KYMO_SUMMARY_##name##_ENGINE_INSTRUCTION_COUNT}
        E(TENSOR, TENSOR), E(VECTOR, VECTOR), E(SCALAR, SCALAR), E(GPSIMD, GPSIMD), E(SYNC, SYNC),
#undef E
    };
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        enum kymo_engine e = columns[i].engine;
        const struct totals_busy *b = p->s->statics->in->cores > 1 ? &p->s->engine[e] : &p->s->core[0][e];
        parquet_row_real(p->row, columns[i].time, seconds(b->time));
        put_span(p, columns[i].active, columns[i].percent, b->active.total);
        put_count(p, columns[i].count, b->count);
    }
}

static void put_collectives(struct put *p)
{
    const struct totals_busy *ops = &p->s->cc_ops, *instrs = &p->s->cc_instructions;
    parquet_row_real(p->row, KYMO_SUMMARY_CC_OP_TIME, seconds(ops->time));
    put_span(p, KYMO_SUMMARY_CC_OP_ACTIVE_TIME, KYMO_SUMMARY_CC_OP_ACTIVE_TIME_PERCENT, ops->active.total);
    put_count(p, KYMO_SUMMARY_CC_OP_COUNT, ops->count);
    parquet_row_real(p->row, KYMO_SUMMARY_CC_CORES_INSTRUCTION_TIME, seconds(instrs->time));
    put_span(p, KYMO_SUMMARY_CC_CORES_INSTRUCTION_ACTIVE_TIME, KYMO_SUMMARY_CC_CORES_INSTRUCTION_ACTIVE_TIME_PERCENT,
             instrs->active.total);
    put_count(p, KYMO_SUMMARY_CC_CORES_INSTRUCTION_COUNT, instrs->count);
}

static void put_ops(struct put *p)
{
    uint64_t matmuls = 0, activates = 0;
    int64_t activate_time = 0;
    for (size_t i = 0; i < p->s->op_count; i++) {
        const struct summary_op *op = &p->s->ops[i];
        if (!op->known)
            continue;
        matmuls += op->opcode == KYMO_OP_MATMUL ? op->busy.count : 0;
        if (op->opcode == KYMO_OP_ACTIVATE || op->opcode == KYMO_OP_ACTIVATE_QUANTIZE) {
            activates += op->busy.count;
            activate_time += op->busy.time;
        }
    }
    put_count(p, KYMO_SUMMARY_MATMUL_INSTRUCTION_COUNT, matmuls);
    put_count(p, KYMO_SUMMARY_ACTIVATE_INSTRUCTION_COUNT, activates);
    parquet_row_real(p->row, KYMO_SUMMARY_ACTIVATE_INSTRUCTION_TIME, seconds(activate_time));
}

static void put_totals(struct put *p, const struct input *in, const struct summary_counts *counts,
                       const struct sizes *z)
{
    int64_t exec = totals_window_length(&p->s->exec);
    parquet_row_real(p->row, KYMO_SUMMARY_TOTAL_TIME, seconds(p->total));
    put_count(p, KYMO_SUMMARY_NEURONCORE_CYCLE_COUNT, formulas_cycles(p->total, in->arch->core_clock_ghz));
    parquet_row_real(p->row, KYMO_SUMMARY_TOTAL_EXEC_TIME, seconds(exec));
    parquet_row_real(p->row, KYMO_SUMMARY_TOTAL_ACTIVE_TIME, seconds(p->s->total_active));
    parquet_row_real(p->row, KYMO_SUMMARY_TOTAL_ACTIVE_TIME_PERCENT,
                     formulas_percent((double)p->s->total_active, (double)exec));
    put_count(p, KYMO_SUMMARY_TRACE_COUNT, counts->records);
    put_count(p, KYMO_SUMMARY_EVENT_COUNT, counts->event_records);
    put_count(p, KYMO_SUMMARY_TOTAL_ROW_COUNT, counts->rows);
    put_count(p, KYMO_SUMMARY_DMA_QUEUE_COUNT, z->queues);
}

/* Figures that the vendor's pages show and its schema has no column for, and how far to trust all of them. */
static void put_own(struct put *p, const struct input *in, const struct work *w, const char *incomplete)
{
    const struct kymo_arch *a = in->arch;
    const struct summary *s = p->s;
    double peak = formulas_pe_peak(a->pe_rows, a->pe_cols, a->clock_ghz[KYMO_ENGINE_TENSOR]);
    double active = 0;
    for (unsigned pcore = 0; pcore < in->cores; pcore++) /* each core has a PE array of its own */
        active += (double)s->core[pcore][KYMO_ENGINE_TENSOR].active.total;
    parquet_row_real(p->row, KYMO_SUMMARY_USEFUL_READ_PERCENT,
                     formulas_useful_read_percent(s->hbm_read, s->spill_reload));
    put_amount(p, KYMO_SUMMARY_TOTAL_BANDWIDTH_AVAILABLE_BYTES, a->hbm_stack_bandwidth * (double)p->total * 1e-9);
    put_amount(p, KYMO_SUMMARY_ACTIVE_FLOPS, formulas_active_flops(peak, (int64_t)active, (double)w->adjusted));
    parquet_row_real(p->row, KYMO_SUMMARY_SBUF_RELOAD_RATIO,
                     formulas_ratio((double)s->spill_reload, (double)s->sbuf_write));
    parquet_row_real(p->row, KYMO_SUMMARY_SBUF_SAVE_RATIO, formulas_ratio((double)s->spill_save, (double)s->sbuf_read));
    if (w->nki)
        parquet_row_real(p->row, KYMO_SUMMARY_NKI_COVERAGE_PERCENT,
                         formulas_percent((double)w->nki, (double)w->coverable));
    parquet_row_int(p->row, KYMO_SUMMARY_LOWER_BOUND, incomplete != NULL);
    parquet_row_string(p->row, KYMO_SUMMARY_LOWER_BOUND_REASON, incomplete);
}

int summary_row_write(struct summary *s, const struct input *in, const struct timeline *timeline,
                      const struct summary_counts *counts, const char *dir, struct kymo_err *err)
{
    struct put p = {.s = s, .total = totals_run_time(&s->run)};
    int r = parquet_row_open(dir, kymo_schema_table(KYMO_T_SUMMARY), NULL, &p.row, err);
    if (r < 0)
        return r;
    struct work w = sum_work(s);
    struct sizes z = sum_sizes(in);
    put_totals(&p, in, counts, &z);
    put_flops(&p, in, &w, sum_macs(in, timeline));
    put_memory(&p, in, &w, &z);
    put_dma(&p, in);
    put_engines(&p);
    put_collectives(&p);
    put_ops(&p);
    put_own(&p, in, &w, counts->incomplete);
    r = parquet_row_end(p.row, err);
    if (r < 0) {
        parquet_row_discard(p.row);
        return r;
    }
    return parquet_row_finish(p.row, err);
}
