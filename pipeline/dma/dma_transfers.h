/*
 * Gathers packets into transfers. A transfer is one run of a block (or one dynamic DMA), named by its place in the
 * order of triggers of its group of queue sets; it may span engines. Transfers come out in the order of their first
 * packet, once all of their packets were seen or none can follow. Memory: the open transfers, up to a maximum. Not
 * thread-safe.
 */
#ifndef KYMO_PIPELINE_DMA_TRANSFERS_H
#define KYMO_PIPELINE_DMA_TRANSFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define DMA_TRANSFERS_GROUP_MAX 4096      /* open at once in one group */
#define DMA_TRANSFERS_PENDING_MAX 262144u /* waiting for an older one */

struct dma_transfer {
    uint64_t entry; /* place in its group's order of triggers */
    uint32_t group;
    uint32_t key;         /* the caller's: which columns it has */
    uint32_t set, block;  /* DMA_NONE: none */
    uint32_t copy;        /* of a dynamic one; DMA_NONE: its variables are not known */
    uint16_t dge_engines; /* of a dynamic one, as its trigger has them */
    uint8_t dge_group;
    uint64_t expected;  /* packets; 0: not known */
    uint64_t seen;      /* packets, partial ones too */
    uint64_t whole;     /* packets with both ends */
    int64_t id;         /* -1: no whole packet yet */
    int64_t start, end; /* ns, over whole packets */
    uint64_t bytes;
    uint32_t queue_idx;
    uint8_t pcore;
    /* The instruction that launched it. */
    bool has_trigger_start, has_trigger_end;
    uint8_t trigger_engine;
    uint32_t trigger_number; /* among the triggers of its engine; UINT32_MAX: no trigger */
    int64_t trigger_start, trigger_end;
    bool decided;
};

struct dma_transfers;
/* Called in order of id. complete: every packet was seen whole. */
typedef int (*dma_transfers_sink)(void *ctx, const struct dma_transfer *t, bool complete, struct kymo_err *err);

int dma_transfers_new(uint32_t groups, dma_transfers_sink sink, void *ctx, struct dma_transfers **ret,
                      struct kymo_err *err) KYMO_MUST_CHECK;
struct dma_transfers *dma_transfers_free(struct dma_transfers *t);

/* Whether this transfer is open: its packets need no prototype. */
bool dma_transfers_open(const struct dma_transfers *t, uint32_t group, uint64_t entry);
/* One packet of the transfer that proto names by group and entry; proto's other fields count when it is new. partial:
 * start, end and bytes are not given. */
int dma_transfers_add(struct dma_transfers *t, const struct dma_transfer *proto, bool partial, int64_t start,
                      int64_t end, uint64_t bytes, int64_t *ret_id, int32_t *ret_index,
                      struct kymo_err *err) KYMO_MUST_CHECK;
/* A transfer of one packet that no trigger is known for. */
int dma_transfers_single(struct dma_transfers *t, const struct dma_transfer *proto, int64_t start, int64_t end,
                         uint64_t bytes, int64_t *ret_id, struct kymo_err *err) KYMO_MUST_CHECK;
/* Decides the open transfers of a group that can get no more packets. */
typedef bool (*dma_transfers_over)(void *ctx, const struct dma_transfer *t);
void dma_transfers_close(struct dma_transfers *t, uint32_t group, dma_transfers_over over, void *ctx);
/* Hands out what is decided. */
int dma_transfers_flush(struct dma_transfers *t, struct kymo_err *err) KYMO_MUST_CHECK;
int dma_transfers_finish(struct dma_transfers *t, struct kymo_err *err) KYMO_MUST_CHECK;
uint64_t dma_transfers_forced(const struct dma_transfers *t); /* handed out early because too many were open */

#endif
