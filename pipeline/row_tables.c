#include "pipeline/row_tables.h"

#include <errno.h>

#include "base/alloc.h"
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

/* DmaPacket and DmaPacketAggregated. They end with their stage: the stages after it need the memory. */

struct dma {
    struct dma_rows *rows; /* NULL: written */
};

static void free_dma(void *c)
{
    struct dma *d = c;
    dma_rows_free(d->rows);
    kymo_free(d);
}

static int open_dma(const struct job *j, void **ret, struct kymo_err *err)
{
    struct dma *d = KYMO_NEW(struct dma);
    if (!d)
        return kymo_err_set(err, -ENOMEM, "no memory for the DMA tables");
    int r = dma_rows_open(j->dir, &j->parquet, j->in, &j->queues, &d->rows, err);
    if (r < 0)
        free_dma(d);
    else
        *ret = d;
    return r;
}

static int take_packets(void *c, const struct consumer_packet *rows, size_t n, struct kymo_err *err)
{
    const struct dma *d = c;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = dma_rows_packet(d->rows, &rows[i].row, err);
    return r;
}

static int take_transfers(void *c, const struct consumer_transfer *rows, size_t n, struct kymo_err *err)
{
    const struct dma *d = c;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = dma_rows_transfer(d->rows, &rows[i].transfer, err);
    return r;
}

static int end_dma(void *c, enum consumer_stage stage, struct kymo_err *err)
{
    struct dma *d = c;
    if (stage != CONSUMER_TRANSFERS)
        return 0;
    int r = dma_rows_finish(d->rows, err);
    d->rows = dma_rows_free(d->rows);
    return r;
}

static int finish_dma(void *c, struct warnings *w, struct kymo_err *err)
{
    (void)c;
    (void)w;
    (void)err;
    return 0;
}

const struct consumer dma_rows_consumer = {
    .name = "DmaPacket",
    .open = open_dma,
    .packets = take_packets,
    .transfers = take_transfers,
    .end_stage = end_dma,
    .finish = finish_dma,
    .free = free_dma,
};
