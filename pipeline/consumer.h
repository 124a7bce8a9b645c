/*
 * A consumer makes tables out of events that a pass has decoded: dependencies, series, roll-ups. The passes hand their
 * events on in batches, and a consumer takes the kinds that it has a function for. Stages follow one another in the
 * order of enum consumer_stage; end_stage tells that no event of that kind follows.
 *
 * A consumer may read the parts of struct job that are complete before the passes begin (input, arch, timebase, scan,
 * programs, queues, statics) and nothing that another consumer or a pass changes, so that calls of different consumers
 * may run on different threads; calls of one consumer never overlap. Its tables are its own: it opens them with
 * job.dir and job.parquet. Memory is bounded whatever the number of events (spill.h). Batches are the caller's and
 * valid during the call. Times are ns of the profile.
 */
#ifndef KYMO_PIPELINE_CONSUMER_H
#define KYMO_PIPELINE_CONSUMER_H

#include "pipeline/dma/dma_rows.h"
#include "pipeline/dma/dma_transfers.h"
#include "pipeline/instructions/instr_rows.h"
#include "pipeline/summary/summary.h"

struct job;

enum consumer_stage {
    CONSUMER_TRANSFERS, /* with packets */
    CONSUMER_HOST_TRANSFERS,
    CONSUMER_COLLECTIVES,
    CONSUMER_SEMAPHORES,
    CONSUMER_INSTRUCTIONS,
};

/* One row of DmaPacket. */
struct consumer_packet {
    struct dma_packet_row row;
    struct summary_flow flow;
    uint64_t end_ps; /* corrected */
};

/* One row of DmaPacketAggregated; complete: every packet of it was seen whole. */
struct consumer_transfer {
    struct dma_transfer transfer;
    bool complete;
};

/* One row of HostDmaTransfer. */
struct consumer_host_transfer {
    int64_t id, start, end;
    uint64_t bytes;
    uint32_t ring; /* in scan.rings */
    uint8_t queue;
    const struct kymo_h2d_queue *kind; /* NULL: not known */
};

/* One row of SemaphoreUpdate. */
struct consumer_semaphore {
    int64_t ts;
    uint64_t ps;       /* corrected */
    uint64_t position; /* in its ring */
    uint32_t gaps;     /* losses in the ring before it */
    uint32_t value, ring;
    uint8_t mode, index, pcore;
    uint8_t source; /* enum kymo_engine; KYMO_ENGINE_MAX: AXI */
    bool is_semaphore, double_set_or_clear;
};

/* One row of CcOp. */
struct consumer_collective {
    int64_t id, start, end;
    uint64_t end_ps;    /* corrected */
    int64_t invocation; /* of its stream */
    int64_t trigger_start;
    uint64_t trigger_ps;     /* start of the instruction that started it, corrected */
    uint32_t trigger_row;    /* static */
    bool has_trigger, known; /* known: the file describes it; what follows is as in struct cc_op */
    uint8_t kind, dtype, pcore;
    int16_t semaphore;
    int64_t num_elements, ranks;
};

struct consumer {
    const char *name;
    /* *ret NULL: nothing to do for this profile. */
    int (*open)(const struct job *j, void **ret, struct kymo_err *err);
    /* In order of start; of transfers in order of id, that is of their first packet. NULL: not wanted. */
    int (*packets)(void *c, const struct consumer_packet *rows, size_t n, struct kymo_err *err);
    int (*transfers)(void *c, const struct consumer_transfer *rows, size_t n, struct kymo_err *err);
    int (*host_transfers)(void *c, const struct consumer_host_transfer *rows, size_t n, struct kymo_err *err);
    int (*collectives)(void *c, const struct consumer_collective *rows, size_t n, struct kymo_err *err);
    int (*semaphores)(void *c, const struct consumer_semaphore *rows, size_t n, struct kymo_err *err);
    int (*instructions)(void *c, const struct instr_row *rows, size_t n, struct kymo_err *err);
    int (*end_stage)(void *c, enum consumer_stage stage, struct kymo_err *err);
    /* Writes what is left. Warnings are added here only. */
    int (*finish)(void *c, struct warnings *w, struct kymo_err *err);
    /* After finish, or without it when the profile failed: nothing may be left open. */
    void (*free)(void *c);
};

#endif
