/*
 * Speed of the Parquet writer on the Instruction table. Rows are made in memory first: five engines that loop over 400
 * instructions each, merged by start time, with what a decoder knows per program counter in tables and the rest by row.
 * usage: bench_parquet_writer write DIR ROWS   times the writer, prints "name: value unit" lines
 *        bench_parquet_writer dump DIR ROWS    stores the same rows for parquet_writer.py
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "formats/parquet/parquet_writer.h"

#define ENGINES 5
#define PER_ENGINE 400
#define STATICS (ENGINES * PER_ENGINE)
#define ROWS_MAX 200000000ull
#define RUNS 5

static const char *const engine_names[ENGINES] = {"Tensor", "Vector", "Scalar", "GpSimd", "Sync"};
static const char *const opcodes[ENGINES][4] = {
    {"MATMUL", "LDWEIGHTS", "MATMUL", "EVENT_SEMAPHORE"},
    {"TENSOR_TENSOR", "TENSOR_SCALAR", "TENSOR_REDUCE", "EVENT_SEMAPHORE"},
    {"ACTIVATE", "TENSOR_COPY", "ACTIVATE", "EVENT_SEMAPHORE"},
    {"IOTA", "TENSOR_TENSOR", "DMA_DIRECT2D", "EVENT_SEMAPHORE"},
    {"DMA_DIRECT2D", "WRITE", "EVENT_SEMAPHORE", "EVENT_SEMAPHORE"},
};

static uint64_t mix(uint64_t z)
{
    z = (z + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 31);
}

/* One of the static instructions. */
struct fact {
    unsigned s, e, pc; /* number, engine, place on it */
    const char *op;
    bool tensor, dma, compute;
    uint64_t bytes;
};

#define PUT(...) (void)snprintf(out, size, __VA_ARGS__)

static void text_of_names(unsigned column, const struct fact *f, char *out, size_t size)
{
    switch (column) {
    case KYMO_INSTRUCTION_ENGINE:
        PUT("%s", engine_names[f->e]);
        break;
    case KYMO_INSTRUCTION_TIMELINE_TRACK:
        PUT("%s%s", engine_names[f->e], f->tensor ? "Matrix" : "");
        break;
    case KYMO_INSTRUCTION_PCORE_IDX:
        PUT("0");
        break;
    case KYMO_INSTRUCTION_OPCODE:
        PUT("%s", f->op);
        break;
    case KYMO_INSTRUCTION_OPERANDS:
        PUT("src=bfloat16@0x%x[1,128,%u][%u,1,1] dst=fp32@0x%x[1,128,%u] acc=%u", 0x2000000 + f->s * 512,
            64u << f->s % 4, 1u << f->s % 5, 0x2800000 + f->s * 256, 64u << f->s % 4, f->s & 1);
        break;
    case KYMO_INSTRUCTION_COMPILER_OPCODE:
        PUT("%s", f->dma ? "PSEUDO_DMA_DIRECT2D" : f->op);
        break;
    case KYMO_INSTRUCTION_COMPILER_OPERANDS:
        PUT("name=sg0000 var=%u src=@%u dst=@%u", f->s, f->s * 3, f->s * 5);
        break;
    case KYMO_INSTRUCTION_PC:
        PUT("%u", f->pc + 12);
        break;
    case KYMO_INSTRUCTION_COMPILER_PC:
        PUT("%u", f->pc);
        break;
    case KYMO_INSTRUCTION_PENGUIN_ID:
        PUT("sg0000:%u", f->s / 4);
        break;
    case KYMO_INSTRUCTION_RAW_PENGUIN_ID:
        PUT("%u", f->s / 4);
        break;
    case KYMO_INSTRUCTION_BIR_ID:
        PUT("sg0000:%u", 218000 + f->s);
        break;
    case KYMO_INSTRUCTION_RAW_BIR_ID:
        PUT("%u", 218000 + f->s);
        break;
    case KYMO_INSTRUCTION_BIR_INSTRUCTION_NAME:
        PUT("I-%u-%u_sg0000", f->s / 4, f->s % 4);
        break;
    case KYMO_INSTRUCTION_KERNEL_INSTRUCTION_NAME:
        if (f->pc % 4 == 1)
            PUT("inst.%u:%u", f->s, f->s / 4);
        break;
    default:
        break;
    }
}

static void text_of_sources(unsigned column, const struct fact *f, char *out, size_t size)
{
    switch (column) {
    case KYMO_INSTRUCTION_HLO_ATTRS:
        if (f->pc % 8 == 2)
            PUT("transpose=true,axis=[0,%u,1]", f->s % 3);
        break;
    case KYMO_INSTRUCTION_HLO_NAME:
        PUT("dot.%u", f->s / 20);
        break;
    case KYMO_INSTRUCTION_RAW_HLO_ID:
        PUT("%u", f->s / 20);
        break;
    case KYMO_INSTRUCTION_RAW_FRAMEWORK_ID:
        PUT("%u", f->s / 50);
        break;
    case KYMO_INSTRUCTION_LAYER:
        PUT("NeuronLlamaDecoderLayer[%u]/self_attn/q_proj/aten.mm", f->s / 50);
        break;
    case KYMO_INSTRUCTION_STACK_FRAME_IDS:
        PUT("[%u, %u]", 100 + f->s / 50, 200 + f->s / 100);
        break;
    case KYMO_INSTRUCTION_NKI_SOURCE_LOCATION:
        if (f->pc % 4 == 1)
            PUT("attention.py:%u", 40 + f->pc / 4);
        break;
    case KYMO_INSTRUCTION_BIR_DEBUG_INFO_SOURCE_LOCATION:
        PUT("/opt/model/llama/modeling_llama.py:%u", 100 + f->s / 10);
        break;
    default:
        break;
    }
}

static void text_of_bytes(unsigned column, const struct fact *f, char *out, size_t size)
{
    switch (column) {
    case KYMO_INSTRUCTION_HBM_READ_BYTES:
        if (f->dma)
            PUT("%" PRIu64, f->bytes * 16);
        break;
    case KYMO_INSTRUCTION_HBM_WRITE_BYTES:
        if (f->dma && f->s % 2)
            PUT("%" PRIu64, f->bytes * 16);
        break;
    case KYMO_INSTRUCTION_SBUF_READ_BYTES:
        if (f->compute)
            PUT("%" PRIu64, f->bytes);
        break;
    case KYMO_INSTRUCTION_SBUF_WRITE_BYTES:
        if (f->compute)
            PUT("%" PRIu64, f->bytes / 2);
        break;
    case KYMO_INSTRUCTION_SPILL_SAVE_BYTES:
        if (f->dma && f->s % 9 == 0)
            PUT("%" PRIu64, f->bytes);
        break;
    case KYMO_INSTRUCTION_PSUM_READ_BYTES:
        if (f->compute && !f->tensor)
            PUT("%" PRIu64, f->bytes * 2);
        break;
    case KYMO_INSTRUCTION_PSUM_WRITE_BYTES:
        if (f->tensor && f->compute)
            PUT("%" PRIu64, f->bytes * 4);
        break;
    case KYMO_INSTRUCTION_PSUM_READ_SBUF_WRITE_BYTES:
        if (f->compute && f->e == 2)
            PUT("%" PRIu64, f->bytes);
        break;
    case KYMO_INSTRUCTION_WEIGHT_QUEUE_BYTES:
        if (f->dma && f->s % 3 == 0)
            PUT("%" PRIu64, f->bytes);
        break;
    case KYMO_INSTRUCTION_PERFORMANCE_MODE:
        if (f->e == 1 && f->pc % 2)
            PUT("%s", f->pc % 4 == 1 ? "2x" : "4x");
        break;
    case KYMO_INSTRUCTION_TENSOR_INSTRUCTION_TYPE:
        if (f->tensor && f->compute)
            PUT("%s", f->pc % 9 ? "REGULAR" : "TRANSPOSE");
        break;
    case KYMO_INSTRUCTION_TENSOR_ELEMENTS:
        if (f->tensor && f->compute)
            PUT("%" PRIu64, f->bytes * 8);
        break;
    case KYMO_INSTRUCTION_RAW_FLOPS:
        if (f->tensor && f->compute)
            PUT("%" PRIu64, f->bytes * 32768);
        break;
    default:
        break;
    }
}

static void text_of_elements(unsigned column, const struct fact *f, char *out, size_t size)
{
    switch (column) {
    case KYMO_INSTRUCTION_ADJUSTED_FLOPS:
        if (f->tensor && f->compute)
            PUT("%" PRIu64, f->bytes * 32768);
        break;
    case KYMO_INSTRUCTION_TENSOR_ELEMENTS_TRANSPOSE:
        if (f->tensor && f->compute)
            PUT("%" PRIu64, f->pc % 9 ? 0 : f->bytes * 8);
        break;
    case KYMO_INSTRUCTION_FLOPS_TRANSPOSE:
        if (f->tensor && f->compute)
            PUT("%" PRIu64, f->pc % 9 ? 0 : f->bytes * 32768);
        break;
    case KYMO_INSTRUCTION_ADJUSTED_FLOPS_TRANSPOSE:
        if (f->tensor && f->compute)
            PUT("%" PRIu64, f->pc % 9 ? 0 : f->bytes * 32768);
        break;
    case KYMO_INSTRUCTION_SCALAR_ACTIVATION_FN:
        if (f->e == 2 && f->op[0] == 'A')
            PUT("%s", f->pc % 3 ? "SILU" : "COPY");
        break;
    case KYMO_INSTRUCTION_PSUM_READ_BANKS:
        if (f->compute && !f->tensor)
            PUT("%u", f->pc / 4 % 8);
        break;
    case KYMO_INSTRUCTION_PSUM_WRITE_BANKS:
        if (f->tensor && f->compute)
            PUT("%u", f->pc / 4 % 8);
        break;
    case KYMO_INSTRUCTION_SYMBOLIC_OPERANDS:
        if (f->compute)
            PUT("PSUM(partition=0,bank=%u,offset=%u)", f->pc / 4 % 8, f->pc % 4 * 512);
        break;
    default:
        break;
    }
}

#undef PUT

/* What is known of static instruction s: text (integers too), "" for null. List columns: comma list. */
static void static_text(unsigned column, unsigned s, char *out, size_t size)
{
    struct fact f = {.s = s, .e = s / PER_ENGINE, .pc = s % PER_ENGINE, .bytes = 512u << mix(s / 3 + 7) % 6};

    f.op = opcodes[f.e][mix(s) % 4];
    f.tensor = f.e == 0;
    f.dma = strcmp(f.op, "DMA_DIRECT2D") == 0;
    f.compute = f.e < 4 && f.op[0] != 'E';
    out[0] = '\0';
    text_of_names(column, &f, out, size);
    text_of_sources(column, &f, out, size);
    text_of_bytes(column, &f, out, size);
    text_of_elements(column, &f, out, size);
}

struct rows {
    size_t n;
    uint32_t *index;
    int64_t *start, *end, *duration, *id, *crc_in, *crc_out, *wait, *dma_start, *dma_end, *dma_wait;
    uint8_t *has_wait, *has_dma;
};

static int64_t *column_of(size_t n)
{
    int64_t *p = KYMO_NEW_ARRAY(int64_t, n);

    if (!p)
        exit(1);
    return p;
}

static void make_rows(struct rows *r, size_t n)
{
    int64_t next[ENGINES] = {0, 40, 90, 130, 170};
    unsigned pc[ENGINES] = {0};
    int64_t **all[] = {&r->start,   &r->end,  &r->duration,  &r->id,      &r->crc_in,
                       &r->crc_out, &r->wait, &r->dma_start, &r->dma_end, &r->dma_wait};

    r->n = n;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        *all[k] = column_of(n);
    r->index = (uint32_t *)(void *)column_of(n / 2 + 1);
    r->has_wait = (uint8_t *)column_of(n / 8 + 1);
    r->has_dma = (uint8_t *)column_of(n / 8 + 1);
    for (size_t i = 0; i < n; i++) {
        unsigned e = 0;
        for (unsigned k = 1; k < ENGINES; k++)
            e = next[k] < next[e] ? k : e;
        unsigned s = e * PER_ENGINE + pc[e];
        uint64_t z = mix(i);
        /* An instruction takes about its own time, and now and then waits. */
        int64_t base = 60 + (int64_t)(mix(s) % 400), noise = (int64_t)(z % 16);
        bool waits = mix(s + 9) % 8 == 0;
        int64_t wait = waits ? (int64_t)(z >> 20 & 1023) : 0;
        r->index[i] = s;
        r->start[i] = next[e];
        r->duration[i] = base + noise + wait;
        r->end[i] = next[e] + r->duration[i];
        r->id[i] = (int64_t)i;
        r->crc_in[i] = (int64_t)(z >> 32 & 0xffff);
        r->crc_out[i] = (int64_t)(z >> 48);
        r->wait[i] = wait;
        r->has_wait[i] = waits;
        r->has_dma[i] = strcmp(opcodes[e][mix(s) % 4], "DMA_DIRECT2D") == 0;
        r->dma_wait[i] = (int64_t)(z >> 8 & 511) + 200;
        r->dma_start[i] = r->end[i] + r->dma_wait[i];
        r->dma_end[i] = r->dma_start[i] + 1500 + (int64_t)(z >> 24 & 1023);
        next[e] = r->end[i] + 8 + (int64_t)(z >> 60);
        pc[e] = (pc[e] + 1) % PER_ENGINE;
    }
}

struct dynamic {
    unsigned column;
    const int64_t *values;
    const uint8_t *valid;
};

#define DYNAMICS 10
static void dynamics(const struct rows *r, struct dynamic d[DYNAMICS])
{
    d[0] = (struct dynamic){KYMO_INSTRUCTION_START_TS, r->start, NULL};
    d[1] = (struct dynamic){KYMO_INSTRUCTION_END_TS, r->end, NULL};
    d[2] = (struct dynamic){KYMO_INSTRUCTION_DURATION_NS, r->duration, NULL};
    d[3] = (struct dynamic){KYMO_INSTRUCTION_ID, r->id, NULL};
    d[4] = (struct dynamic){KYMO_INSTRUCTION_CRC_IN, r->crc_in, NULL};
    d[5] = (struct dynamic){KYMO_INSTRUCTION_CRC_OUT, r->crc_out, NULL};
    d[6] = (struct dynamic){KYMO_INSTRUCTION_EVT_WAIT_TIME_NS, r->wait, r->has_wait};
    d[7] = (struct dynamic){KYMO_INSTRUCTION_DMA_TRIGGER_START_TS, r->dma_start, r->has_dma};
    d[8] = (struct dynamic){KYMO_INSTRUCTION_DMA_TRIGGER_END_TS, r->dma_end, r->has_dma};
    d[9] = (struct dynamic){KYMO_INSTRUCTION_DMA_WAIT_TIME_NS, r->dma_wait, r->has_dma};
}

static bool is_dynamic(const struct dynamic d[DYNAMICS], unsigned column)
{
    for (unsigned k = 0; k < DYNAMICS; k++) {
        if (d[k].column == column)
            return true;
    }
    return false;
}

static uint32_t intern(struct parquet_writer *w, unsigned column, const char *text, struct kymo_err *err)
{
    enum kymo_type type = kymo_schema_table(KYMO_T_INSTRUCTION)->columns[column].type;
    int64_t v = strtoll(text, NULL, 10);

    if (text[0] == '\0')
        return PARQUET_NULL;
    if (type == KYMO_TYPE_STRING)
        return parquet_writer_string_id(w, column, text, strlen(text), err);
    if (type == KYMO_TYPE_LIST_INT32)
        return parquet_writer_list_id(w, column, &v, 1, err);
    return parquet_writer_int_id(w, column, v, err);
}

static uint32_t maps[KYMO_INSTRUCTION_MAX][STATICS];

static bool fill_map(struct parquet_writer *w, unsigned column, struct kymo_err *err)
{
    bool any = false;

    for (unsigned s = 0; s < STATICS; s++) {
        char text[256];
        static_text(column, s, text, sizeof text);
        maps[column][s] = intern(w, column, text, err);
        any |= maps[column][s] != PARQUET_NULL;
    }
    return any;
}

static double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int write_all(const char *dir, const struct rows *r, struct kymo_err *err)
{
    const struct kymo_table *table = kymo_schema_table(KYMO_T_INSTRUCTION);
    struct dynamic d[DYNAMICS];
    struct parquet_writer *w;
    bool has_map[KYMO_INSTRUCTION_MAX];

    dynamics(r, d);
    if (parquet_writer_open(dir, table, NULL, &w, err) < 0)
        return err->code;
    for (unsigned c = 0; c < table->column_count; c++)
        has_map[c] = !is_dynamic(d, c) && fill_map(w, c, err);
    for (size_t at = 0; at < r->n; at += PARQUET_BATCH_MAX) {
        size_t n = r->n - at < PARQUET_BATCH_MAX ? r->n - at : PARQUET_BATCH_MAX;
        struct parquet_column in[KYMO_INSTRUCTION_MAX] = {{0}};
        for (unsigned c = 0; c < table->column_count; c++) {
            if (has_map[c])
                in[c] = (struct parquet_column){.index = r->index + at, .map = maps[c], .map_len = STATICS};
        }
        for (unsigned k = 0; k < DYNAMICS; k++)
            in[d[k].column] =
                (struct parquet_column){.values = d[k].values + at, .valid = d[k].valid ? d[k].valid + at : NULL};
        if (parquet_writer_batch(w, in, n, err) < 0) {
            (void)parquet_writer_discard(w);
            return err->code;
        }
    }
    return parquet_writer_finish(w, err);
}

/* Best of some runs, since others use the machine too. */
static int bench(const char *dir, const struct rows *r, struct kymo_err *err)
{
    double best_cpu = 1e9, best_wall = 1e9;

    for (int run = 0; run < RUNS; run++) {
        uint64_t wall = kymo_clock_mono_ns();
        double cpu = cpu_seconds();
        if (write_all(dir, r, err) < 0)
            return err->code;
        cpu = cpu_seconds() - cpu;
        double seconds = (double)(kymo_clock_mono_ns() - wall) * 1e-9;
        best_cpu = cpu < best_cpu ? cpu : best_cpu;
        best_wall = seconds < best_wall ? seconds : best_wall;
    }
    char *path KYMO_FREE = kymo_asprintf("%s/Instruction.parquet", dir);
    struct stat st = {0};
    if (!path || stat(path, &st) < 0)
        return kymo_err_set(err, -EIO, "%s: no file", dir);
    printf("parquet_kymo_rows_per_cpu_second: %.0f rows/s\n", (double)r->n / best_cpu);
    printf("parquet_kymo_rows_per_second: %.0f rows/s\n", (double)r->n / best_wall);
    printf("parquet_kymo_bytes_per_row: %.3f bytes\n", (double)st.st_size / (double)r->n);
    return 0;
}

static int dump_array(const char *dir, const char *name, const void *data, size_t bytes)
{
    char *path KYMO_FREE = kymo_asprintf("%s/%s.bin", dir, name);
    FILE *f = path ? fopen(path, "wb") : NULL;

    if (!f)
        return -EIO;
    size_t got = fwrite(data, 1, bytes, f);
    return fclose(f) == 0 && got == bytes ? 0 : -EIO;
}

static int dump(const char *dir, const struct rows *r, struct kymo_err *err)
{
    const struct kymo_table *table = kymo_schema_table(KYMO_T_INSTRUCTION);
    char *path KYMO_FREE = kymo_asprintf("%s/static.tsv", dir);
    FILE *f = path ? fopen(path, "w") : NULL;
    struct dynamic d[DYNAMICS];
    int rc = dump_array(dir, "index", r->index, r->n * 4);

    dynamics(r, d);
    for (unsigned k = 0; rc == 0 && k < DYNAMICS; k++) {
        const char *name = table->columns[d[k].column].name;
        char *valid KYMO_FREE = kymo_asprintf("%s.valid", name);
        rc = dump_array(dir, name, d[k].values, r->n * 8);
        if (rc == 0 && d[k].valid && valid)
            rc = dump_array(dir, valid, d[k].valid, r->n);
    }
    for (unsigned c = 0; f && c < table->column_count; c++) {
        (void)fprintf(f, "%s\t%s\t%s\t%d", table->columns[c].name, table->columns[c].openapi_type,
                      table->columns[c].openapi_format, is_dynamic(d, c));
        for (unsigned s = 0; s < STATICS; s++) {
            char text[256];
            static_text(c, s, text, sizeof text);
            (void)fprintf(f, "\t%s", text);
        }
        (void)fputc('\n', f);
    }
    if (!f || fclose(f) != 0)
        rc = -EIO;
    return rc < 0 ? kymo_err_set(err, rc, "%s: cannot write the dump", dir) : 0;
}

int main(int argc, char **argv)
{
    struct kymo_err err = {0};
    struct rows rows;
    uint64_t n = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;

    if (n == 0 || n > ROWS_MAX)
        return fprintf(stderr, "usage: bench_parquet_writer write|dump DIR ROWS\n"), 2;
    make_rows(&rows, (size_t)n);
    int rc = strcmp(argv[1], "dump") == 0 ? dump(argv[2], &rows, &err) : bench(argv[2], &rows, &err);
    if (rc < 0)
        (void)fprintf(stderr, "%s\n", err.text);
    /* Memory of the rows goes with the process. */
    return rc < 0;
}
