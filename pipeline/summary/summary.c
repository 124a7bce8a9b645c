#include "pipeline/summary/summary.h"

#include <errno.h>
#include <string.h>

#include "arch/opcode.h"
#include "base/alloc.h"
#include "formats/parquet/parquet_writer.h"
#include "pipeline/formulas/formulas.h"
#include "pipeline/summary/summary_impl.h"

#define ADVANCE_EVERY 1024 /* events between two moves of the watermark */
#define OPS_MAX (KYMO_ENGINE_MAX * 257)

static void to_spill(void *ctx, struct span one)
{
    struct summary_spans *a = ctx;
    if (a->err.code == 0 && spill_append(a->spill, &one, &a->err) < 0 && a->err.code == 0)
        a->err.code = -EIO;
}

/* Operations by (engine, opcode); an unknown opcode is one more of its engine. */
static int open_ops(struct summary *s, struct kymo_err *err)
{
    size_t n = s->statics->count;
    int16_t seen[OPS_MAX];
    memset(seen, 0xff, sizeof seen);
    s->row_count = KYMO_NEW_ARRAY(uint64_t, n + 1);
    s->row_op = KYMO_NEW_ARRAY(uint16_t, n + 1);
    s->ops = KYMO_NEW_ARRAY(struct summary_op, OPS_MAX);
    if (!s->row_count || !s->row_op || !s->ops)
        return kymo_err_set(err, -ENOMEM, "no memory for the summary of %zu different instructions", n);
    for (size_t i = 0; i < n; i++) {
        const struct static_row *row = &s->statics->rows[i];
        int16_t *at = &seen[row->engine * 257 + (row->known ? row->opcode : 256)];
        if (*at < 0) {
            struct summary_op *op = &s->ops[s->op_count];
            *op = (struct summary_op){.engine = row->engine, .opcode = row->opcode, .known = row->known};
            totals_busy_init(&op->busy, SUMMARY_OPEN_MAX, NULL, NULL);
            *at = (int16_t)s->op_count++;
        }
        s->row_op[i] = (uint16_t)*at;
    }
    return 0;
}

static uint64_t *bytes_of_queue(struct summary *s, const char *type)
{
    if (!strcmp(type, "input"))
        return &s->input_bytes;
    if (!strcmp(type, "output"))
        return &s->output_bytes;
    return strcmp(type, "data") ? NULL : &s->weight_bytes;
}

static int open_queues(struct summary *s, struct kymo_err *err)
{
    const struct dma_queues *q = s->statics->queues;
    s->queue_bytes = KYMO_NEW_ARRAY(uint64_t *, q->set_count + 1);
    if (!s->queue_bytes)
        return kymo_err_set(err, -ENOMEM, "no memory for the sums of %zu queues", (size_t)q->set_count);
    for (size_t i = 0; i < q->set_count; i++)
        s->queue_bytes[i] = bytes_of_queue(s, q->sets[i].type);
    return 0;
}

int summary_open(const char *dir, const struct statics *statics, struct summary **ret, struct kymo_err *err)
{
    struct summary *s = KYMO_NEW(struct summary);
    if (!s)
        return kymo_err_set(err, -ENOMEM, "no memory for the summary");
    s->statics = statics;
    int r = open_ops(s, err);
    if (r == 0)
        r = open_queues(s, err);
    for (unsigned pcore = 0; pcore < INPUT_CORES_MAX && r == 0; pcore++)
        for (unsigned e = 0; e < KYMO_ENGINE_MAX && r == 0; e++) {
            r = spill_open(dir, sizeof(struct span), &s->active[pcore][e].spill, err);
            totals_busy_init(&s->core[pcore][e], SUMMARY_OPEN_MAX, to_spill, &s->active[pcore][e]);
        }
    for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++)
        totals_busy_init(&s->engine[e], SUMMARY_OPEN_MAX, NULL, NULL);
    totals_dma_init(&s->dma, SUMMARY_OPEN_MAX);
    s->dma.all.out = to_spill;
    s->dma.all.ctx = &s->dma_active;
    if (r == 0)
        r = spill_open(dir, sizeof(struct span), &s->dma_active.spill, err);
    totals_busy_init(&s->cc_ops, SUMMARY_OPEN_MAX, to_spill, &s->cc_active);
    totals_busy_init(&s->cc_instructions, SUMMARY_OPEN_MAX, NULL, NULL);
    if (r == 0)
        r = spill_open(dir, sizeof(struct span), &s->cc_active.spill, err);
    s->loads = KYMO_NEW_ARRAY(struct summary_load, statics->queues->block_count + statics->queues->copies.count + 1);
    if (r == 0 && !s->loads)
        r = kymo_err_set(err, -ENOMEM, "no memory for the blocks' sums");
    if (r < 0) {
        summary_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

struct summary *summary_free(struct summary *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < s->op_count; i++)
        totals_busy_done(&s->ops[i].busy);
    for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++) {
        totals_busy_done(&s->engine[e]);
        for (unsigned pcore = 0; pcore < INPUT_CORES_MAX; pcore++) {
            totals_busy_done(&s->core[pcore][e]);
            spill_free(s->active[pcore][e].spill);
        }
    }
    totals_busy_done(&s->cc_ops);
    totals_busy_done(&s->cc_instructions);
    spill_free(s->cc_active.spill);
    totals_dma_done(&s->dma);
    spill_free(s->dma_active.spill);
    kymo_free(s->row_count);
    kymo_free(s->row_op);
    kymo_free(s->queue_bytes);
    kymo_free(s->ops);
    kymo_free(s->loads);
    kymo_free(s);
    return NULL;
}

struct totals_run *summary_run(struct summary *s)
{
    return &s->run;
}

const struct summary_load *summary_loads(const struct summary *s)
{
    return s->loads;
}

static int failed(const struct summary_spans *a, struct kymo_err *err)
{
    return a->err.code < 0 ? kymo_err_set(err, a->err.code, "%s", a->err.text) : 0;
}

int summary_advance(struct summary *s, int64_t watermark, struct kymo_err *err)
{
    s->since_advance = 0;
    for (size_t i = 0; i < s->op_count; i++)
        spans_advance(&s->ops[i].busy.active, watermark);
    int r = 0;
    for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++) {
        spans_advance(&s->engine[e].active, watermark);
        for (unsigned pcore = 0; pcore < INPUT_CORES_MAX && r == 0; pcore++) {
            spans_advance(&s->core[pcore][e].active, watermark);
            r = failed(&s->active[pcore][e], err);
        }
    }
    return r;
}

int summary_instruction(struct summary *s, uint32_t row, int64_t start, int64_t end, int64_t wait, struct kymo_err *err)
{
    const struct static_row *st = &s->statics->rows[row];
    s->row_count[row]++;
    int r = totals_busy_add(&s->ops[s->row_op[row]].busy, start, end, wait);
    if (r == 0)
        r = totals_busy_add(&s->core[st->pcore][st->engine], start, end, wait);
    /* With one core, its sums are the engine's. */
    if (r == 0 && s->statics->in->cores > 1)
        r = totals_busy_add(&s->engine[st->engine], start, end, wait);
    if (r < 0)
        return kymo_err_set(err, r, "too many busy spans are open at once");
    if (!st->setup)
        totals_window_add(&s->exec, start, end);
    return ++s->since_advance == ADVANCE_EVERY ? summary_advance(s, start, err) : 0;
}

static void add_memory_bytes(struct summary *s, struct summary_flow f, uint64_t bytes)
{
    s->hbm_read += f.from == DMA_MEMORY_HBM ? bytes : 0;
    s->hbm_write += f.to == DMA_MEMORY_HBM ? bytes : 0;
    s->sbuf_read += f.from == DMA_MEMORY_SBUF ? bytes : 0;
    s->sbuf_write += f.to == DMA_MEMORY_SBUF ? bytes : 0;
    s->spill_save += f.spill && f.from == DMA_MEMORY_SBUF ? bytes : 0;
    s->spill_reload += f.spill && f.to == DMA_MEMORY_SBUF ? bytes : 0;
}

int summary_packet(struct summary *s, struct summary_flow flow, int64_t start, int64_t end, uint64_t bytes,
                   struct kymo_err *err)
{
    const struct dma_queues *q = s->statics->queues;
    enum totals_dma_class class = flow.set == DMA_NONE ? TOTALS_DMA_UNKNOWN : q->sets[flow.set].dma_class;
    int r = totals_dma_add(&s->dma, class, start, end, bytes);
    if (r < 0)
        return kymo_err_set(err, r, "too many DMA packets are open at once");
    totals_window_add(&s->exec, start, end);
    if (flow.set != DMA_NONE && s->queue_bytes[flow.set])
        *s->queue_bytes[flow.set] += bytes;
    add_memory_bytes(s, flow, bytes);
    if (++s->since_advance < ADVANCE_EVERY)
        return 0;
    s->since_advance = 0;
    totals_dma_advance(&s->dma, start);
    return failed(&s->dma_active, err);
}

int summary_collective(struct summary *s, int64_t start, int64_t end, struct kymo_err *err)
{
    int r = totals_busy_add(&s->cc_ops, start, end, 0);
    if (r < 0)
        return kymo_err_set(err, r, "too many collectives are open at once");
    spans_advance(&s->cc_ops.active, start);
    return failed(&s->cc_active, err);
}

int summary_cc_instruction(struct summary *s, int64_t start, int64_t end, int64_t wait, struct kymo_err *err)
{
    int r = totals_busy_add(&s->cc_instructions, start, end, wait);
    if (r < 0)
        return kymo_err_set(err, r, "too many CC-core instructions are open at once");
    spans_advance(&s->cc_instructions.active, start);
    return 0;
}

void summary_transfer(struct summary *s, uint32_t block, uint32_t copy, int64_t start, int64_t end, uint64_t bytes)
{
    s->transfers++;
    s->transfer_bytes += bytes;
    s->transfer_time += end - start;
    if (block != DMA_NONE || copy != DMA_NONE) {
        size_t at = block != DMA_NONE ? block : s->statics->queues->block_count + copy;
        s->loads[at].transfers++;
        s->loads[at].bytes += bytes;
    }
}

static int write_op(struct parquet_row *row, const struct summary_op *op, int64_t whole, struct kymo_err *err)
{
    char name[32];
    int64_t active = op->busy.active.total;
    parquet_row_string(row, KYMO_OPCODE_SUMMARY_ENGINE, kymo_engine_lower((enum kymo_engine)op->engine));
    parquet_row_string(row, KYMO_OPCODE_SUMMARY_OPCODE,
                       op->known ? kymo_opcode_name(op->opcode, name, sizeof name) : "");
    parquet_row_int(row, KYMO_OPCODE_SUMMARY_INSTRUCTION_COUNT, (int64_t)op->busy.count);
    parquet_row_int(row, KYMO_OPCODE_SUMMARY_INSTRUCTION_TIME_NS, op->busy.time);
    parquet_row_int(row, KYMO_OPCODE_SUMMARY_ACTIVE_TIME_NS, active);
    parquet_row_real(row, KYMO_OPCODE_SUMMARY_ACTIVE_TIME_PERCENT, formulas_percent((double)active, (double)whole));
    return parquet_row_end(row, err);
}

static int write_ops(const struct summary *s, const char *dir, struct kymo_err *err)
{
    struct parquet_row *row;
    int r = parquet_row_open(dir, kymo_schema_table(KYMO_T_OPCODE_SUMMARY), NULL, &row, err);
    if (r < 0)
        return r;
    int64_t whole = totals_window_length(&s->exec);
    for (size_t i = 0; i < s->op_count && r == 0; i++)
        if (s->ops[i].busy.count)
            r = write_op(row, &s->ops[i], whole, err);
    if (r < 0) {
        parquet_row_discard(row);
        return r;
    }
    return parquet_row_finish(row, err);
}

int summary_write(struct summary *s, const struct input *in, const struct timeline *timeline,
                  const struct summary_counts *counts, const char *dir, const struct parquet_options *opt,
                  struct kymo_err *err)
{
    int r = summary_advance(s, INT64_MAX, err);
    if (r < 0)
        return r;
    totals_dma_finish(&s->dma);
    (void)spans_finish(&s->cc_ops.active);
    (void)spans_finish(&s->cc_instructions.active);
    r = failed(&s->dma_active, err);
    if (r == 0)
        r = failed(&s->cc_active, err);
    if (r == 0)
        r = summary_active_write(s, dir, opt, err);
    if (r == 0)
        r = write_ops(s, dir, err);
    return r < 0 ? r : summary_row_write(s, in, timeline, counts, dir, err);
}
