#include "pipeline/row_tables.h"

#include "pipeline/job.h"

/* Instruction. The consumer's state is the table itself. */

static int open_instructions(const struct job *j, void **ret, struct kymo_err *err)
{
    struct instr_rows *t = NULL;
    int r = instr_rows_open(j->dir, &j->parquet, &j->statics, j->warnings, &t, err);
    *ret = t;
    return r;
}

static int take_instructions(void *c, const struct instr_row *rows, size_t n, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = instr_rows_add(c, &rows[i], err);
    return r;
}

static int finish_instructions(void *c, struct warnings *w, struct kymo_err *err)
{
    (void)w;
    return instr_rows_finish(c, err);
}

static void free_instructions(void *c)
{
    instr_rows_free(c);
}

const struct consumer instruction_rows_consumer = {
    .name = "Instruction",
    .open = open_instructions,
    .instructions = take_instructions,
    .finish = finish_instructions,
    .free = free_instructions,
};

/* DmaPacket and DmaPacketAggregated */

static int open_dma(const struct job *j, void **ret, struct kymo_err *err)
{
    struct dma_rows *t = NULL;
    int r = dma_rows_open(j->dir, &j->parquet, j->in, &j->queues, &t, err);
    *ret = t;
    return r;
}

static int take_packets(void *c, const struct consumer_packet *rows, size_t n, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = dma_rows_packet(c, &rows[i].row, err);
    return r;
}

static int take_transfers(void *c, const struct consumer_transfer *rows, size_t n, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = dma_rows_transfer(c, &rows[i].transfer, err);
    return r;
}

static int finish_dma(void *c, struct warnings *w, struct kymo_err *err)
{
    (void)w;
    return dma_rows_finish(c, err);
}

static void free_dma(void *c)
{
    dma_rows_free(c);
}

const struct consumer dma_rows_consumer = {
    .name = "DmaPacket",
    .open = open_dma,
    .packets = take_packets,
    .transfers = take_transfers,
    .finish = finish_dma,
    .free = free_dma,
};
