#include "pipeline/instructions/instr_rows.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "arch/opcode.h"
#include "base/alloc.h"
#include "pipeline/instructions/instr_source.h"

/* One page: the writer takes it as it is, and takes the index apart once for all columns. */
#define BATCH PARQUET_BATCH_MAX
#define TEXT_MAX 2048

struct instr_rows {
    struct parquet_writer *writer;
    const struct statics *statics;
    uint32_t *maps[KYMO_INSTRUCTION_MAX]; /* per static row; NULL: a dynamic or an empty column */
    size_t n;
    struct {
        uint32_t row[BATCH];
        int64_t start[BATCH], end[BATCH], duration[BATCH], id[BATCH], wait[BATCH], crc_in[BATCH], crc_out[BATCH];
        int64_t dma_start[BATCH], dma_end[BATCH], dma_wait[BATCH];
        uint8_t has_dma[BATCH];
    } batch;
};

/* Registers the columns of one static row. */
struct fill {
    struct instr_rows *t;
    size_t row;
    struct kymo_err *err;
    int r;
};

static void put(struct fill *f, unsigned column, uint32_t id)
{
    f->t->maps[column][f->row] = id;
    /* PARQUET_NULL from an interning call means that it failed; f->err says why. */
    if (id == PARQUET_NULL && f->r == 0)
        f->r = f->err->code < 0 ? f->err->code : -ENOMEM;
}

static void put_text(struct fill *f, unsigned column, const char *s)
{
    if (s)
        put(f, column, parquet_writer_string_id(f->t->writer, column, s, strlen(s), f->err));
}

static void put_int(struct fill *f, unsigned column, int64_t v)
{
    put(f, column, parquet_writer_int_id(f->t->writer, column, v, f->err));
}

static void put_banks(struct fill *f, unsigned column, unsigned banks)
{
    int64_t list[8];
    size_t n = 0;
    for (unsigned b = 0; b < 8; b++)
        if (banks >> b & 1)
            list[n++] = b;
    put(f, column, parquet_writer_list_id(f->t->writer, column, list, n, f->err));
}

static void put_place(struct fill *f, const struct static_row *row)
{
    char track[64];
    statics_track(f->t->statics, row, track, sizeof track);
    put_text(f, KYMO_INSTRUCTION_ENGINE, kymo_engine_name((enum kymo_engine)row->engine));
    put_text(f, KYMO_INSTRUCTION_TIMELINE_TRACK, track);
    put_int(f, KYMO_INSTRUCTION_PCORE_IDX, row->pcore);
    put_int(f, KYMO_INSTRUCTION_PC, row->slot >= 0 ? row->slot : (int64_t)row->pc);
}

static void put_operands(struct fill *f, const struct static_row *row, const struct static_facts *facts)
{
    const struct kymo_arch *arch = f->t->statics->in->arch;
    char text[TEXT_MAX], name[32];
    put_text(f, KYMO_INSTRUCTION_OPCODE, row->known ? kymo_opcode_name(row->opcode, name, sizeof name) : "");
    if (!facts->record) {
        put_text(f, KYMO_INSTRUCTION_OPERANDS, "");
        return;
    }
    kymo_instr_text(arch, facts->record, text, sizeof text);
    put_text(f, KYMO_INSTRUCTION_OPERANDS, text);
    kymo_instr_symbolic(arch, facts->record, text, sizeof text);
    put_text(f, KYMO_INSTRUCTION_SYMBOLIC_OPERANDS, *text ? text : NULL);
    if (!facts->compiler)
        return;
    put_text(f, KYMO_INSTRUCTION_COMPILER_OPCODE, kymo_opcode_name(facts->compiler[0], name, sizeof name));
    kymo_instr_text(arch, facts->compiler, text, sizeof text);
    put_text(f, KYMO_INSTRUCTION_COMPILER_OPERANDS, text);
    put_int(f, KYMO_INSTRUCTION_COMPILER_PC, row->program->compiler_pc[row->slot]);
}

static void put_debug(struct fill *f, const struct static_row *row, const struct neff_debug *d)
{
    char text[TEXT_MAX];
    if (!d) {
        put_text(f, KYMO_INSTRUCTION_BIR_ID, "");
        return;
    }
    (void)snprintf(text, sizeof text, "sg%04u:%llu", (unsigned)(d->raw_bir_id >> 48),
                   (unsigned long long)(d->raw_bir_id & 0xffffffff));
    put_text(f, KYMO_INSTRUCTION_BIR_ID, text);
    put_int(f, KYMO_INSTRUCTION_RAW_BIR_ID, (int64_t)d->raw_bir_id);
    put_text(f, KYMO_INSTRUCTION_BIR_INSTRUCTION_NAME, d->bir_name);
    if (d->has_penguin) {
        (void)snprintf(text, sizeof text, "sg%04u:%llu", (unsigned)(d->raw_bir_id >> 48),
                       (unsigned long long)d->raw_penguin_id);
        put_text(f, KYMO_INSTRUCTION_PENGUIN_ID, text);
        put_int(f, KYMO_INSTRUCTION_RAW_PENGUIN_ID, (int64_t)d->raw_penguin_id);
    }
    put_text(f, KYMO_INSTRUCTION_HLO_NAME, d->hlo_name);
    if (d->hlo_name)
        put_int(f, KYMO_INSTRUCTION_RAW_HLO_ID, (int64_t)d->raw_hlo_id);
    put_text(f, KYMO_INSTRUCTION_LAYER, d->layer);
    if (d->layer)
        put_int(f, KYMO_INSTRUCTION_RAW_FRAMEWORK_ID, (int64_t)d->raw_framework_id);
    if (d->file) {
        (void)snprintf(text, sizeof text, d->line ? "%s:%d" : "%s", d->file, d->line);
        put_text(f, KYMO_INSTRUCTION_BIR_DEBUG_INFO_SOURCE_LOCATION, text);
    }
    if (row->engine == KYMO_ENGINE_TENSOR && (d->kind == 1 || d->kind == 3))
        put_text(f, KYMO_INSTRUCTION_TENSOR_INSTRUCTION_TYPE, d->kind == 3 ? "TRANSPOSE" : "REGULAR");
}

static const char *or_null(const char *text)
{
    return *text ? text : NULL;
}

static void put_source(struct fill *f, const struct instr_source *s)
{
    put_text(f, KYMO_INSTRUCTION_EXECUTED_BY, s->executed_by);
    put_text(f, KYMO_INSTRUCTION_OPERATOR, s->operator_name);
    put_text(f, KYMO_INSTRUCTION_HLO_ATTRS, s->hlo_attrs);
    put_text(f, KYMO_INSTRUCTION_KERNEL_INSTRUCTION_NAME, s->kernel_name);
    put_text(f, KYMO_INSTRUCTION_NKI_REGION, s->nki_region);
    put_text(f, KYMO_INSTRUCTION_NKI_REGION_PATH, or_null(s->nki_path));
    put_text(f, KYMO_INSTRUCTION_NKI_SOURCE_LOCATION, or_null(s->nki_location));
    put_text(f, KYMO_INSTRUCTION_STACK_FRAME_IDS, or_null(s->stack_frames));
    put_text(f, KYMO_INSTRUCTION_INSTRUCTION_CHAIN, or_null(s->chain));
}

static void put_memory(struct fill *f, const struct static_facts *facts)
{
    const struct kymo_footprint *fp = &facts->footprint;
    uint64_t write = facts->dma_write;
    const char *queue = facts->set ? facts->set->type : "";
    struct statics_traffic traffic = statics_traffic(facts);
    if (!traffic.known)
        return;
    put_int(f, KYMO_INSTRUCTION_HBM_READ_BYTES, (int64_t)traffic.hbm_read);
    put_int(f, KYMO_INSTRUCTION_HBM_WRITE_BYTES, (int64_t)traffic.hbm_write);
    put_int(f, KYMO_INSTRUCTION_SBUF_READ_BYTES, (int64_t)traffic.sbuf_read);
    put_int(f, KYMO_INSTRUCTION_SBUF_WRITE_BYTES, (int64_t)traffic.sbuf_write);
    put_int(f, KYMO_INSTRUCTION_SPILL_SAVE_BYTES, (int64_t)traffic.spill_save);
    put_int(f, KYMO_INSTRUCTION_SPILL_RELOAD_BYTES, (int64_t)traffic.spill_reload);
    put_int(f, KYMO_INSTRUCTION_PSUM_READ_BYTES, (int64_t)traffic.psum_read);
    put_int(f, KYMO_INSTRUCTION_PSUM_WRITE_BYTES, (int64_t)traffic.psum_write);
    put_int(f, KYMO_INSTRUCTION_PSUM_READ_SBUF_WRITE_BYTES, (int64_t)fp->psum_read_sbuf_write);
    put_int(f, KYMO_INSTRUCTION_INPUT_QUEUE_BYTES, (int64_t)(!strcmp(queue, "input") ? write : 0));
    put_int(f, KYMO_INSTRUCTION_OUTPUT_QUEUE_BYTES, (int64_t)(!strcmp(queue, "output") ? write : 0));
    put_int(f, KYMO_INSTRUCTION_WEIGHT_QUEUE_BYTES, (int64_t)(!strcmp(queue, "data") ? write : 0));
}

static void put_compute(struct fill *f, const struct static_row *row, const struct static_facts *facts)
{
    const struct kymo_footprint *fp = &facts->footprint;
    const struct kymo_arch *arch = f->t->statics->in->arch;
    put_banks(f, KYMO_INSTRUCTION_PSUM_READ_BANKS, fp->psum_read_banks);
    put_banks(f, KYMO_INSTRUCTION_PSUM_WRITE_BANKS, fp->psum_write_banks);
    if (fp->matmul) {
        bool t = facts->transpose;
        put_int(f, KYMO_INSTRUCTION_TENSOR_ELEMENTS, (int64_t)facts->tensor_elements);
        put_int(f, KYMO_INSTRUCTION_RAW_FLOPS, (int64_t)facts->raw_flops);
        put_int(f, KYMO_INSTRUCTION_ADJUSTED_FLOPS, (int64_t)facts->adjusted_flops);
        put_int(f, KYMO_INSTRUCTION_TENSOR_ELEMENTS_TRANSPOSE, (int64_t)(t ? facts->tensor_elements : 0));
        put_int(f, KYMO_INSTRUCTION_FLOPS_TRANSPOSE, (int64_t)(t ? facts->raw_flops : 0));
        put_int(f, KYMO_INSTRUCTION_ADJUSTED_FLOPS_TRANSPOSE, (int64_t)(t ? facts->adjusted_flops : 0));
    }
    uint64_t v;
    if (row->engine == KYMO_ENGINE_SCALAR && kymo_layout_get(arch, facts->record, KYMO_F_ACT_FN, &v))
        put_text(f, KYMO_INSTRUCTION_SCALAR_ACTIVATION_FN, kymo_act_fn_name((unsigned)v));
    bool has_mode = row->engine == KYMO_ENGINE_VECTOR || row->engine == KYMO_ENGINE_SCALAR;
    if (has_mode && kymo_layout_get(arch, facts->record, KYMO_F_PERF_MODE, &v) && (v == 1 || v == 2))
        put_text(f, KYMO_INSTRUCTION_PERFORMANCE_MODE, v == 1 ? "2x" : "4x");
}

static int fill_row(struct instr_rows *t, size_t i, struct kymo_err *err)
{
    const struct static_row *row = &t->statics->rows[i];
    struct static_facts facts;
    struct fill f = {.t = t, .row = i, .err = err};
    statics_facts(t->statics, row, &facts);
    put_place(&f, row);
    put_operands(&f, row, &facts);
    put_debug(&f, row, facts.debug);
    struct instr_source source;
    instr_source_find(t->statics, row, &facts, &source);
    put_source(&f, &source);
    put_memory(&f, &facts);
    if (facts.record)
        put_compute(&f, row, &facts);
    return f.r;
}

static const unsigned static_columns[] = {
    KYMO_INSTRUCTION_ENGINE,
    KYMO_INSTRUCTION_TIMELINE_TRACK,
    KYMO_INSTRUCTION_PCORE_IDX,
    KYMO_INSTRUCTION_OPCODE,
    KYMO_INSTRUCTION_OPERANDS,
    KYMO_INSTRUCTION_COMPILER_OPCODE,
    KYMO_INSTRUCTION_COMPILER_OPERANDS,
    KYMO_INSTRUCTION_PC,
    KYMO_INSTRUCTION_COMPILER_PC,
    KYMO_INSTRUCTION_PENGUIN_ID,
    KYMO_INSTRUCTION_RAW_PENGUIN_ID,
    KYMO_INSTRUCTION_BIR_ID,
    KYMO_INSTRUCTION_RAW_BIR_ID,
    KYMO_INSTRUCTION_BIR_INSTRUCTION_NAME,
    KYMO_INSTRUCTION_HLO_NAME,
    KYMO_INSTRUCTION_RAW_HLO_ID,
    KYMO_INSTRUCTION_RAW_FRAMEWORK_ID,
    KYMO_INSTRUCTION_LAYER,
    KYMO_INSTRUCTION_BIR_DEBUG_INFO_SOURCE_LOCATION,
    KYMO_INSTRUCTION_HBM_READ_BYTES,
    KYMO_INSTRUCTION_HBM_WRITE_BYTES,
    KYMO_INSTRUCTION_SBUF_READ_BYTES,
    KYMO_INSTRUCTION_SBUF_WRITE_BYTES,
    KYMO_INSTRUCTION_SPILL_SAVE_BYTES,
    KYMO_INSTRUCTION_SPILL_RELOAD_BYTES,
    KYMO_INSTRUCTION_PSUM_READ_BYTES,
    KYMO_INSTRUCTION_PSUM_WRITE_BYTES,
    KYMO_INSTRUCTION_PSUM_READ_SBUF_WRITE_BYTES,
    KYMO_INSTRUCTION_INPUT_QUEUE_BYTES,
    KYMO_INSTRUCTION_OUTPUT_QUEUE_BYTES,
    KYMO_INSTRUCTION_WEIGHT_QUEUE_BYTES,
    KYMO_INSTRUCTION_PERFORMANCE_MODE,
    KYMO_INSTRUCTION_TENSOR_INSTRUCTION_TYPE,
    KYMO_INSTRUCTION_TENSOR_ELEMENTS,
    KYMO_INSTRUCTION_RAW_FLOPS,
    KYMO_INSTRUCTION_ADJUSTED_FLOPS,
    KYMO_INSTRUCTION_TENSOR_ELEMENTS_TRANSPOSE,
    KYMO_INSTRUCTION_FLOPS_TRANSPOSE,
    KYMO_INSTRUCTION_ADJUSTED_FLOPS_TRANSPOSE,
    KYMO_INSTRUCTION_SCALAR_ACTIVATION_FN,
    KYMO_INSTRUCTION_PSUM_READ_BANKS,
    KYMO_INSTRUCTION_PSUM_WRITE_BANKS,
    KYMO_INSTRUCTION_SYMBOLIC_OPERANDS,
    KYMO_INSTRUCTION_EXECUTED_BY,
    KYMO_INSTRUCTION_OPERATOR,
    KYMO_INSTRUCTION_HLO_ATTRS,
    KYMO_INSTRUCTION_KERNEL_INSTRUCTION_NAME,
    KYMO_INSTRUCTION_NKI_REGION,
    KYMO_INSTRUCTION_NKI_REGION_PATH,
    KYMO_INSTRUCTION_NKI_SOURCE_LOCATION,
    KYMO_INSTRUCTION_STACK_FRAME_IDS,
    KYMO_INSTRUCTION_INSTRUCTION_CHAIN,
};

static int allocate_maps(struct instr_rows *t, struct kymo_err *err)
{
    size_t n = t->statics->count;
    for (size_t c = 0; c < sizeof static_columns / sizeof *static_columns; c++) {
        uint32_t *map = KYMO_NEW_ARRAY(uint32_t, n + 1);
        if (!map)
            return kymo_err_set(err, -ENOMEM, "no memory for the columns of %zu different instructions", n);
        memset(map, 0xff, (n + 1) * sizeof *map);
        t->maps[static_columns[c]] = map;
    }
    return 0;
}

/* A column without a value in any static row is left out, which the writer does faster than by a map. */
static void drop_empty_maps(struct instr_rows *t)
{
    const struct kymo_table *table = kymo_schema_table(KYMO_T_INSTRUCTION);
    for (unsigned c = 0; c < KYMO_INSTRUCTION_MAX; c++) {
        size_t i = 0;
        while (t->maps[c] && i < t->statics->count && t->maps[c][i] == PARQUET_NULL)
            i++;
        if (t->maps[c] && i == t->statics->count && !table->columns[c].required) {
            kymo_free(t->maps[c]);
            t->maps[c] = NULL;
        }
    }
}

static void warn_empty(const struct instr_rows *t, struct warnings *w)
{
    size_t names = 0, opcodes = 0;
    for (size_t i = 0; i < t->statics->count; i++) {
        struct static_facts facts;
        statics_facts(t->statics, &t->statics->rows[i], &facts);
        names += !facts.debug;
        opcodes += !t->statics->rows[i].known;
    }
    if (names)
        warnings_add(w, "Missing Data",
                     "Instruction.bir_id is empty for %zu of %zu different instructions: they are runtime code, or no "
                     "debug record is "
                     "known for them",
                     names, t->statics->count);
    if (opcodes)
        warnings_add(
            w, "Missing Data",
            "Instruction.opcode and operands are empty for %zu of %zu different instructions: no image has them",
            opcodes, t->statics->count);
}

int instr_rows_open(const char *dir, const struct parquet_options *opt, const struct statics *statics,
                    struct warnings *w, struct instr_rows **ret, struct kymo_err *err)
{
    struct kymo_err own = {0};
    if (!err)
        err = &own;
    struct instr_rows *t = KYMO_NEW(struct instr_rows);
    if (!t)
        return kymo_err_set(err, -ENOMEM, "no memory for the instruction table");
    t->statics = statics;
    int r = parquet_writer_open(dir, kymo_schema_table(KYMO_T_INSTRUCTION), opt, &t->writer, err);
    if (r == 0)
        r = allocate_maps(t, err);
    for (size_t i = 0; i < statics->count && r == 0; i++)
        r = fill_row(t, i, err);
    if (r < 0) {
        instr_rows_free(t);
        return r;
    }
    drop_empty_maps(t);
    warn_empty(t, w);
    *ret = t;
    return 0;
}

static int flush(struct instr_rows *t, struct kymo_err *err)
{
    struct parquet_column c[KYMO_INSTRUCTION_MAX] = {0};
    for (unsigned i = 0; i < KYMO_INSTRUCTION_MAX; i++)
        if (t->maps[i])
            c[i] = (struct parquet_column){.index = t->batch.row, .map = t->maps[i], .map_len = t->statics->count};
    c[KYMO_INSTRUCTION_START_TS].values = t->batch.start;
    c[KYMO_INSTRUCTION_END_TS].values = t->batch.end;
    c[KYMO_INSTRUCTION_DURATION_NS].values = t->batch.duration;
    c[KYMO_INSTRUCTION_ID].values = t->batch.id;
    c[KYMO_INSTRUCTION_EVT_WAIT_TIME_NS].values = t->batch.wait;
    c[KYMO_INSTRUCTION_CRC_IN].values = t->batch.crc_in;
    c[KYMO_INSTRUCTION_CRC_OUT].values = t->batch.crc_out;
    c[KYMO_INSTRUCTION_DMA_TRIGGER_START_TS] =
        (struct parquet_column){.values = t->batch.dma_start, .valid = t->batch.has_dma};
    c[KYMO_INSTRUCTION_DMA_TRIGGER_END_TS] =
        (struct parquet_column){.values = t->batch.dma_end, .valid = t->batch.has_dma};
    c[KYMO_INSTRUCTION_DMA_WAIT_TIME_NS] =
        (struct parquet_column){.values = t->batch.dma_wait, .valid = t->batch.has_dma};
    int r = t->n ? parquet_writer_batch(t->writer, c, t->n, err) : 0;
    t->n = 0;
    return r;
}

int instr_rows_add(struct instr_rows *t, const struct instr_row *row, struct kymo_err *err)
{
    size_t i = t->n++;
    t->batch.row[i] = row->row;
    t->batch.start[i] = row->start;
    t->batch.end[i] = row->end;
    t->batch.duration[i] = row->end - row->start;
    t->batch.id[i] = row->id;
    t->batch.wait[i] = row->wait;
    t->batch.crc_in[i] = row->crc_in;
    t->batch.crc_out[i] = row->crc_out;
    t->batch.has_dma[i] = row->has_dma;
    t->batch.dma_start[i] = row->dma_start;
    t->batch.dma_end[i] = row->dma_end;
    t->batch.dma_wait[i] = row->dma_start - row->end;
    return t->n == BATCH ? flush(t, err) : 0;
}

int instr_rows_finish(struct instr_rows *t, struct kymo_err *err)
{
    int r = flush(t, err);
    if (r < 0)
        return r;
    struct parquet_writer *writer = t->writer;
    t->writer = NULL;
    return parquet_writer_finish(writer, err);
}

struct instr_rows *instr_rows_free(struct instr_rows *t)
{
    if (!t)
        return NULL;
    parquet_writer_discard(t->writer);
    for (unsigned i = 0; i < KYMO_INSTRUCTION_MAX; i++)
        kymo_free(t->maps[i]);
    kymo_free(t);
    return NULL;
}
