#include "pipeline/dma/dma_rows.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/dma/dma_text.h"
#include "pipeline/formulas/formulas.h"
#include "pipeline/input.h"

#define BATCH PARQUET_BATCH_MAX /* one page, which the writer takes as it is */
#define TEXT_MAX 4096
#define KEYS_PER_SET 10 /* strays, and dynamic transfers by two memories of three */
#define MEMORIES 3

struct packets {
    size_t n;
    uint32_t key[BATCH], phys[BATCH], zero[BATCH];
    int64_t start[BATCH], end[BATCH], duration[BATCH], id[BATCH], transfer[BATCH], bytes[BATCH];
    int32_t index[BATCH];
    float throughput[BATCH];
};

struct transfers {
    size_t n;
    uint32_t key[BATCH];
    int64_t start[BATCH], end[BATCH], duration[BATCH], id[BATCH], pcore[BATCH], queue[BATCH], bytes[BATCH];
    int64_t trigger[BATCH], completion[BATCH];
    uint8_t has_trigger[BATCH], has_completion[BATCH];
    float throughput[BATCH];
};

struct dma_rows {
    const struct input *in;
    const struct dma_queues *q;
    struct parquet_writer *packet_writer, *transfer_writer;
    uint32_t *packet_maps[KYMO_DMA_PACKET_MAX]; /* by key, by hardware queue, or of one value */
    uint32_t *transfer_maps[KYMO_DMA_PACKET_AGGREGATED_MAX];
    size_t keys;
    struct packets packets;
    struct transfers transfers;
    struct kymo_err *err; /* while registering */
    int r;
};

uint32_t dma_rows_key_block(const struct dma_queues *q, uint32_t block)
{
    (void)q;
    return block;
}

uint32_t dma_rows_key_copy(const struct dma_queues *q, uint32_t copy)
{
    return (uint32_t)(q->block_count + (q->set_count + 1) * KEYS_PER_SET) + copy;
}

uint32_t dma_rows_key_dynamic(const struct dma_queues *q, uint32_t set, enum dma_memory from, enum dma_memory to)
{
    return (uint32_t)q->block_count + set * KEYS_PER_SET + 1 + (uint32_t)from * MEMORIES + (uint32_t)to;
}

uint32_t dma_rows_key_stray(const struct dma_queues *q, uint32_t set)
{
    size_t sets = set == DMA_NONE ? q->set_count : set;
    return (uint32_t)(q->block_count + sets * KEYS_PER_SET);
}

static uint32_t check_id(struct dma_rows *t, uint32_t id)
{
    if (id == PARQUET_NULL && t->r == 0)
        t->r = t->err->code < 0 ? t->err->code : -ENOMEM;
    return id;
}

static void packet_text(struct dma_rows *t, unsigned column, size_t at, const char *s)
{
    if (s)
        t->packet_maps[column][at] =
            check_id(t, parquet_writer_string_id(t->packet_writer, column, s, strlen(s), t->err));
}

static void packet_int(struct dma_rows *t, unsigned column, size_t at, int64_t v)
{
    t->packet_maps[column][at] = check_id(t, parquet_writer_int_id(t->packet_writer, column, v, t->err));
}

static void text(struct dma_rows *t, unsigned column, size_t at, const char *s)
{
    if (s)
        t->transfer_maps[column][at] =
            check_id(t, parquet_writer_string_id(t->transfer_writer, column, s, strlen(s), t->err));
}

static void integer(struct dma_rows *t, unsigned column, size_t at, int64_t v)
{
    t->transfer_maps[column][at] = check_id(t, parquet_writer_int_id(t->transfer_writer, column, v, t->err));
}

/* Columns by key; the first TEXT_COLUMNS are required texts. */
#define TEXT_COLUMNS 14
static const unsigned transfer_key_columns[] = {
    KYMO_DMA_PACKET_AGGREGATED_QUEUE_NAME,
    KYMO_DMA_PACKET_AGGREGATED_OP,
    KYMO_DMA_PACKET_AGGREGATED_VARIABLE,
    KYMO_DMA_PACKET_AGGREGATED_SOURCE,
    KYMO_DMA_PACKET_AGGREGATED_DEST,
    KYMO_DMA_PACKET_AGGREGATED_SEMAPHORE_ID,
    KYMO_DMA_PACKET_AGGREGATED_READ_SBUF_PARTITIONS,
    KYMO_DMA_PACKET_AGGREGATED_READ_SHAPE,
    KYMO_DMA_PACKET_AGGREGATED_READ_OFFSET,
    KYMO_DMA_PACKET_AGGREGATED_READ_STEPS,
    KYMO_DMA_PACKET_AGGREGATED_WRITE_SBUF_PARTITIONS,
    KYMO_DMA_PACKET_AGGREGATED_WRITE_SHAPE,
    KYMO_DMA_PACKET_AGGREGATED_WRITE_OFFSET,
    KYMO_DMA_PACKET_AGGREGATED_WRITE_STEPS,
    KYMO_DMA_PACKET_AGGREGATED_BLOCK_ID,
    KYMO_DMA_PACKET_AGGREGATED_QUEUE_TYPE,
    KYMO_DMA_PACKET_AGGREGATED_READ_NUM_SBUF_PARTITIONS,
    KYMO_DMA_PACKET_AGGREGATED_WRITE_NUM_SBUF_PARTITIONS,
    KYMO_DMA_PACKET_AGGREGATED_IS_TRANSPOSE_MODE,
    KYMO_DMA_PACKET_AGGREGATED_TRANSPOSE_ELEMENT_SIZE,
    KYMO_DMA_PACKET_AGGREGATED_TRANSPOSE_SHAPE,
};

/* Required texts are empty unless a block says more. */
static void register_empty(struct dma_rows *t, size_t key)
{
    for (unsigned i = 0; i < TEXT_COLUMNS; i++)
        text(t, transfer_key_columns[i], key, "");
    integer(t, KYMO_DMA_PACKET_AGGREGATED_BLOCK_ID, key, -1);
    integer(t, KYMO_DMA_PACKET_AGGREGATED_READ_NUM_SBUF_PARTITIONS, key, 0);
    integer(t, KYMO_DMA_PACKET_AGGREGATED_WRITE_NUM_SBUF_PARTITIONS, key, 0);
}

static void register_set(struct dma_rows *t, size_t key, const struct dma_set *set)
{
    text(t, KYMO_DMA_PACKET_AGGREGATED_QUEUE_NAME, key, set->name);
    text(t, KYMO_DMA_PACKET_AGGREGATED_QUEUE_TYPE, key, set->type);
    packet_text(t, KYMO_DMA_PACKET_QUEUE_NAME, key, set->name);
    packet_text(t, KYMO_DMA_PACKET_QUEUE_TYPE, key, set->type);
}

struct side {
    unsigned partitions, count, shape, offset, steps;
};

static void register_side(struct dma_rows *t, size_t key, const struct neff_access *a, bool sbuf, struct side columns)
{
    char out[TEXT_MAX];
    unsigned n = sbuf ? dma_text_partitions(t->in->arch, a, out, sizeof out) : 0;
    text(t, columns.partitions, key, n ? out : "");
    integer(t, columns.count, key, n);
    dma_text_list(a->sizes, a->size_count < NEFF_DMA_DIMS ? a->size_count : NEFF_DMA_DIMS, out, sizeof out);
    text(t, columns.shape, key, out);
    dma_text_offset(a->offset, out, sizeof out);
    text(t, columns.offset, key, out);
    dma_text_list(a->steps, a->step_count < NEFF_DMA_DIMS ? a->step_count : NEFF_DMA_DIMS, out, sizeof out);
    text(t, columns.steps, key, out);
}

static void register_memory(struct dma_rows *t, unsigned column, size_t key, const char *word)
{
    char out[64] = "";
    if (*word)
        (void)snprintf(out, sizeof out, "[%s]", word);
    text(t, column, key, out);
}

static void register_neff(struct dma_rows *t, size_t key, const struct dma_block *b, const struct dma_set *set)
{
    static const struct side read = {KYMO_DMA_PACKET_AGGREGATED_READ_SBUF_PARTITIONS,
                                     KYMO_DMA_PACKET_AGGREGATED_READ_NUM_SBUF_PARTITIONS,
                                     KYMO_DMA_PACKET_AGGREGATED_READ_SHAPE, KYMO_DMA_PACKET_AGGREGATED_READ_OFFSET,
                                     KYMO_DMA_PACKET_AGGREGATED_READ_STEPS};
    static const struct side write = {KYMO_DMA_PACKET_AGGREGATED_WRITE_SBUF_PARTITIONS,
                                      KYMO_DMA_PACKET_AGGREGATED_WRITE_NUM_SBUF_PARTITIONS,
                                      KYMO_DMA_PACKET_AGGREGATED_WRITE_SHAPE, KYMO_DMA_PACKET_AGGREGATED_WRITE_OFFSET,
                                      KYMO_DMA_PACKET_AGGREGATED_WRITE_STEPS};
    const struct neff_dma_block *n = b->neff;
    char out[TEXT_MAX];
    int semaphore = n->semaphore >= 0 ? n->semaphore : set->neff ? set->neff->semaphore : -1;
    text(t, KYMO_DMA_PACKET_AGGREGATED_OP, key, n->op ? n->op : "copy");
    text(t, KYMO_DMA_PACKET_AGGREGATED_VARIABLE, key, b->variable ? b->variable : "");
    packet_text(t, KYMO_DMA_PACKET_VARIABLE, key, b->variable);
    register_memory(t, KYMO_DMA_PACKET_AGGREGATED_SOURCE, key, dma_memory_word(b->from_var));
    register_memory(t, KYMO_DMA_PACKET_AGGREGATED_DEST, key, dma_memory_word(b->to_var));
    register_side(t, key, &n->from, b->from == DMA_MEMORY_SBUF, read);
    register_side(t, key, &n->to, b->to == DMA_MEMORY_SBUF, write);
    if (semaphore >= 0) {
        (void)snprintf(out, sizeof out, "S[%d] (%s)", semaphore, set->name);
        text(t, KYMO_DMA_PACKET_AGGREGATED_SEMAPHORE_ID, key, out);
    }
    integer(t, KYMO_DMA_PACKET_AGGREGATED_IS_TRANSPOSE_MODE, key, n->op && !strcmp(n->op, "transpose"));
    if (n->transpose_element_size) {
        dma_text_list(&n->transpose_element_size, 1, out, sizeof out);
        text(t, KYMO_DMA_PACKET_AGGREGATED_TRANSPOSE_ELEMENT_SIZE, key, out);
    }
    if (n->transpose_dims) {
        dma_text_list(n->transpose_shape, n->transpose_dims, out, sizeof out);
        text(t, KYMO_DMA_PACKET_AGGREGATED_TRANSPOSE_SHAPE, key, out);
    }
}

static const char *const memory_words[MEMORIES] = {"", "DRAM", "SB"};

static void register_dynamic(struct dma_rows *t, uint32_t set)
{
    for (unsigned from = 0; from < MEMORIES; from++)
        for (unsigned to = 0; to < MEMORIES; to++) {
            size_t key = dma_rows_key_dynamic(t->q, set, (enum dma_memory)from, (enum dma_memory)to);
            register_empty(t, key);
            register_set(t, key, &t->q->sets[set]);
            text(t, KYMO_DMA_PACKET_AGGREGATED_OP, key, "copy");
            text(t, KYMO_DMA_PACKET_AGGREGATED_VARIABLE, key, "unknown");
            packet_text(t, KYMO_DMA_PACKET_VARIABLE, key, "unknown");
            register_memory(t, KYMO_DMA_PACKET_AGGREGATED_SOURCE, key, memory_words[from]);
            register_memory(t, KYMO_DMA_PACKET_AGGREGATED_DEST, key, memory_words[to]);
        }
}

static void register_copy(struct dma_rows *t, uint32_t copy)
{
    const struct dma_copy *c = &t->q->copies.list[copy];
    size_t key = dma_rows_key_copy(t->q, copy);
    register_empty(t, key);
    register_set(t, key, &t->q->sets[c->set]);
    text(t, KYMO_DMA_PACKET_AGGREGATED_OP, key, "copy");
    text(t, KYMO_DMA_PACKET_AGGREGATED_VARIABLE, key, c->variable);
    packet_text(t, KYMO_DMA_PACKET_VARIABLE, key, c->variable);
    register_memory(t, KYMO_DMA_PACKET_AGGREGATED_SOURCE, key,
                    c->from_var ? dma_memory_word(c->from_var) : memory_words[c->from]);
    register_memory(t, KYMO_DMA_PACKET_AGGREGATED_DEST, key,
                    c->to_var ? dma_memory_word(c->to_var) : memory_words[c->to]);
}

static void register_keys(struct dma_rows *t)
{
    for (uint32_t b = 0; b < t->q->block_count && t->r == 0; b++) {
        const struct dma_block *block = &t->q->blocks[b];
        register_empty(t, b);
        register_set(t, b, &t->q->sets[block->set]);
        integer(t, KYMO_DMA_PACKET_AGGREGATED_BLOCK_ID, b, block->id);
        if (block->neff)
            register_neff(t, b, block, &t->q->sets[block->set]);
    }
    for (uint32_t s = 0; s < t->q->set_count && t->r == 0; s++) {
        size_t key = dma_rows_key_stray(t->q, s);
        register_empty(t, key);
        register_set(t, key, &t->q->sets[s]);
        if (t->q->sets[s].dynamic)
            packet_text(t, KYMO_DMA_PACKET_VARIABLE, key, "unknown");
        register_dynamic(t, s);
    }
    for (uint32_t c = 0; c < t->q->copies.count && t->r == 0; c++)
        register_copy(t, c);
    register_empty(t, dma_rows_key_stray(t->q, DMA_NONE));
    packet_text(t, KYMO_DMA_PACKET_QUEUE_TYPE, dma_rows_key_stray(t->q, DMA_NONE), "unknown");
    for (uint32_t p = 0; p < DMA_PHYS_MAX && t->r == 0; p++) {
        packet_int(t, KYMO_DMA_PACKET_PCORE_IDX, p, p / DMA_QUEUES / DMA_ENGINES);
        packet_int(t, KYMO_DMA_PACKET_ENGINE_IDX, p, p / DMA_QUEUES % DMA_ENGINES);
        packet_int(t, KYMO_DMA_PACKET_QUEUE_IDX, p, p % DMA_QUEUES);
    }
    packet_int(t, KYMO_DMA_PACKET_CRC, 0, -1);
}

static int add_map(uint32_t **map, size_t n, struct kymo_err *err)
{
    *map = KYMO_NEW_ARRAY(uint32_t, n);
    if (!*map)
        return kymo_err_set(err, -ENOMEM, "no memory for the DMA tables' columns");
    memset(*map, 0xff, n * sizeof **map);
    return 0;
}

static int add_maps(struct dma_rows *t, struct kymo_err *err)
{
    static const unsigned by_key[] = {KYMO_DMA_PACKET_QUEUE_TYPE, KYMO_DMA_PACKET_VARIABLE, KYMO_DMA_PACKET_QUEUE_NAME};
    static const unsigned by_phys[] = {KYMO_DMA_PACKET_PCORE_IDX, KYMO_DMA_PACKET_ENGINE_IDX,
                                       KYMO_DMA_PACKET_QUEUE_IDX};
    int r = add_map(&t->packet_maps[KYMO_DMA_PACKET_CRC], 1, err);
    for (size_t i = 0; i < sizeof by_key / sizeof *by_key && r == 0; i++)
        r = add_map(&t->packet_maps[by_key[i]], t->keys, err);
    for (size_t i = 0; i < sizeof by_phys / sizeof *by_phys && r == 0; i++)
        r = add_map(&t->packet_maps[by_phys[i]], DMA_PHYS_MAX, err);
    for (size_t i = 0; i < sizeof transfer_key_columns / sizeof *transfer_key_columns && r == 0; i++)
        r = add_map(&t->transfer_maps[transfer_key_columns[i]], t->keys, err);
    return r;
}

int dma_rows_open(const char *dir, const struct parquet_options *opt, const struct input *in,
                  const struct dma_queues *q, struct dma_rows **ret, struct kymo_err *err)
{
    struct kymo_err own = {0};
    struct dma_rows *t = KYMO_NEW(struct dma_rows);
    if (!t)
        return kymo_err_set(err, -ENOMEM, "no memory for the DMA tables");
    t->in = in;
    t->q = q;
    t->keys = q->block_count + (q->set_count + 1) * KEYS_PER_SET + q->copies.count;
    t->err = err ? err : &own;
    t->r = parquet_writer_open(dir, kymo_schema_table(KYMO_T_DMA_PACKET), opt, &t->packet_writer, err);
    if (t->r == 0)
        t->r = parquet_writer_open(dir, kymo_schema_table(KYMO_T_DMA_PACKET_AGGREGATED), opt, &t->transfer_writer, err);
    if (t->r == 0)
        t->r = add_maps(t, err);
    if (t->r == 0)
        register_keys(t);
    int r = t->r;
    t->err = NULL;
    if (r < 0) {
        dma_rows_free(t);
        return r;
    }
    *ret = t;
    return 0;
}

static struct parquet_column mapped(const uint32_t *index, const uint32_t *map, size_t n)
{
    return (struct parquet_column){.index = index, .map = map, .map_len = n};
}

static int flush_packets(struct dma_rows *t, struct kymo_err *err)
{
    struct packets *b = &t->packets;
    struct parquet_column c[KYMO_DMA_PACKET_MAX] = {0};
    c[KYMO_DMA_PACKET_START_TS].values = b->start;
    c[KYMO_DMA_PACKET_END_TS].values = b->end;
    c[KYMO_DMA_PACKET_DURATION_NS].values = b->duration;
    c[KYMO_DMA_PACKET_ID].values = b->id;
    c[KYMO_DMA_PACKET_PACKET_IDX].values = b->index;
    c[KYMO_DMA_PACKET_PACKET_AGGREGATION_ID].values = b->transfer;
    c[KYMO_DMA_PACKET_READ_BYTES].values = b->bytes;
    c[KYMO_DMA_PACKET_WRITE_BYTES].values = b->bytes;
    c[KYMO_DMA_PACKET_TRANSFER_BYTES].values = b->bytes;
    c[KYMO_DMA_PACKET_THROUGHPUT].values = b->throughput;
    c[KYMO_DMA_PACKET_QUEUE_TYPE] = mapped(b->key, t->packet_maps[KYMO_DMA_PACKET_QUEUE_TYPE], t->keys);
    c[KYMO_DMA_PACKET_VARIABLE] = mapped(b->key, t->packet_maps[KYMO_DMA_PACKET_VARIABLE], t->keys);
    c[KYMO_DMA_PACKET_QUEUE_NAME] = mapped(b->key, t->packet_maps[KYMO_DMA_PACKET_QUEUE_NAME], t->keys);
    c[KYMO_DMA_PACKET_PCORE_IDX] = mapped(b->phys, t->packet_maps[KYMO_DMA_PACKET_PCORE_IDX], DMA_PHYS_MAX);
    c[KYMO_DMA_PACKET_ENGINE_IDX] = mapped(b->phys, t->packet_maps[KYMO_DMA_PACKET_ENGINE_IDX], DMA_PHYS_MAX);
    c[KYMO_DMA_PACKET_QUEUE_IDX] = mapped(b->phys, t->packet_maps[KYMO_DMA_PACKET_QUEUE_IDX], DMA_PHYS_MAX);
    c[KYMO_DMA_PACKET_CRC] = mapped(b->zero, t->packet_maps[KYMO_DMA_PACKET_CRC], 1);
    int r = b->n ? parquet_writer_batch(t->packet_writer, c, b->n, err) : 0;
    b->n = 0;
    return r;
}

int dma_rows_packet(struct dma_rows *t, const struct dma_packet_row *row, struct kymo_err *err)
{
    struct packets *b = &t->packets;
    size_t i = b->n++;
    b->key[i] = row->key;
    b->phys[i] = row->phys;
    b->start[i] = row->start;
    b->end[i] = row->end;
    b->duration[i] = row->end - row->start;
    b->id[i] = row->id;
    b->transfer[i] = row->transfer;
    b->index[i] = row->index;
    b->bytes[i] = (int64_t)row->bytes;
    b->throughput[i] = (float)formulas_bytes_per_second(row->bytes, row->end - row->start);
    return b->n == BATCH ? flush_packets(t, err) : 0;
}

static int flush_transfers(struct dma_rows *t, struct kymo_err *err)
{
    struct transfers *b = &t->transfers;
    struct parquet_column c[KYMO_DMA_PACKET_AGGREGATED_MAX] = {0};
    for (size_t i = 0; i < sizeof transfer_key_columns / sizeof *transfer_key_columns; i++)
        c[transfer_key_columns[i]] = mapped(b->key, t->transfer_maps[transfer_key_columns[i]], t->keys);
    c[KYMO_DMA_PACKET_AGGREGATED_START_TS].values = b->start;
    c[KYMO_DMA_PACKET_AGGREGATED_END_TS].values = b->end;
    c[KYMO_DMA_PACKET_AGGREGATED_DURATION_NS].values = b->duration;
    c[KYMO_DMA_PACKET_AGGREGATED_ID].values = b->id;
    c[KYMO_DMA_PACKET_AGGREGATED_PCORE_IDX].values = b->pcore;
    c[KYMO_DMA_PACKET_AGGREGATED_QUEUE_IDX].values = b->queue;
    c[KYMO_DMA_PACKET_AGGREGATED_READ_BYTES].values = b->bytes;
    c[KYMO_DMA_PACKET_AGGREGATED_WRITE_BYTES].values = b->bytes;
    c[KYMO_DMA_PACKET_AGGREGATED_TRANSFER_BYTES].values = b->bytes;
    c[KYMO_DMA_PACKET_AGGREGATED_THROUGHPUT].values = b->throughput;
    c[KYMO_DMA_PACKET_AGGREGATED_TRIGGER] = (struct parquet_column){.values = b->trigger, .valid = b->has_trigger};
    c[KYMO_DMA_PACKET_AGGREGATED_COMPLETION] =
        (struct parquet_column){.values = b->completion, .valid = b->has_completion};
    int r = b->n ? parquet_writer_batch(t->transfer_writer, c, b->n, err) : 0;
    b->n = 0;
    return r;
}

int dma_rows_transfer(struct dma_rows *t, const struct dma_transfer *x, struct kymo_err *err)
{
    struct transfers *b = &t->transfers;
    size_t i = b->n++;
    b->key[i] = x->key;
    b->start[i] = x->start;
    b->end[i] = x->end;
    b->duration[i] = x->end - x->start;
    b->id[i] = x->id;
    b->pcore[i] = x->pcore;
    b->queue[i] = x->queue_idx;
    b->bytes[i] = (int64_t)x->bytes;
    b->throughput[i] = (float)formulas_bytes_per_second(x->bytes, x->end - x->start);
    b->trigger[i] = x->trigger_start;
    b->completion[i] = x->trigger_end;
    b->has_trigger[i] = x->has_trigger_start;
    b->has_completion[i] = x->has_trigger_end;
    return b->n == BATCH ? flush_transfers(t, err) : 0;
}

static void free_maps(struct dma_rows *t)
{
    for (unsigned i = 0; i < KYMO_DMA_PACKET_MAX; i++)
        kymo_free(t->packet_maps[i]);
    for (unsigned i = 0; i < KYMO_DMA_PACKET_AGGREGATED_MAX; i++)
        kymo_free(t->transfer_maps[i]);
    kymo_free(t);
}

int dma_rows_finish(struct dma_rows *t, struct kymo_err *err)
{
    int r = flush_packets(t, err);
    if (r == 0)
        r = flush_transfers(t, err);
    if (r < 0)
        return r;
    struct parquet_writer *packets = t->packet_writer, *transfers = t->transfer_writer;
    t->packet_writer = t->transfer_writer = NULL;
    r = parquet_writer_finish(packets, err);
    int r2 = parquet_writer_finish(transfers, r < 0 ? NULL : err);
    return r < 0 ? r : r2;
}

struct dma_rows *dma_rows_free(struct dma_rows *t)
{
    if (!t)
        return NULL;
    parquet_writer_discard(t->packet_writer);
    parquet_writer_discard(t->transfer_writer);
    free_maps(t);
    return NULL;
}
