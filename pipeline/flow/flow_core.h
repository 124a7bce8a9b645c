/*
 * Dependencies of one core, from its instructions and semaphore records in order of time: gives each update to the
 * instruction that made it and each met wait to the instruction that waited, finds the update that met it, and, as
 * instructions begin to run, what the compiler and the PSUM banks say of their order.
 *
 * A record belongs to the oldest instruction of its engine that has such an update or wait left and was there at the
 * record's time: between issue and end, or, for updates, up to FLOW_LATE_PS after the end (G: hardware may report a
 * completion later than it ends). An instruction begins to run when its last wait was met; where no record tells, when
 * its wait counter says so. Memory is fixed. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_FLOW_FLOW_CORE_H
#define KYMO_PIPELINE_FLOW_FLOW_CORE_H

#include "pipeline/flow/flow_compiler.h"
#include "pipeline/flow/flow_history.h"
#include "pipeline/flow/flow_psum.h"

#define FLOW_LATE_PS 1000000u
#define FLOW_LIVE 256 /* instructions of one engine whose records are awaited */

struct flow_edge { /* a row of Flow */
    int64_t in_id, out_id;
    int64_t gap; /* ns */
    uint8_t type;
    uint8_t in_table, out_table; /* enum flow_table */
};

enum flow_doubt { /* why it is not known what met a wait */
                  FLOW_DOUBT_NONE,
                  FLOW_DOUBT_RECORDS_LOST,
                  FLOW_DOUBT_REGISTER,
                  FLOW_DOUBT_HELD,     /* it had held before */
                  FLOW_DOUBT_LONG,     /* it has held for more updates than are remembered */
                  FLOW_DOUBT_WRITER,   /* the update is there, but not whose it was */
                  FLOW_DOUBT_OPERANDS, /* what the instruction waits for is not known */
                  FLOW_DOUBT_MAX
};
const char *flow_doubt_name(enum flow_doubt d);

struct flow_wait { /* a row of WaitCause */
    int64_t id, start, end, wait;
    int64_t in_id, update, prior; /* update: ns; prior -1: none; where doubt is none */
    int64_t cost;
    int target;   /* 0..511, -1: not known */
    uint32_t row; /* static, of the instruction */
    uint8_t pcore, engine, doubt, in_table;
    bool saturated, lower_bound;
};

struct flow_sink {
    int (*edge)(void *ctx, const struct flow_edge *e, struct kymo_err *err);
    int (*wait)(void *ctx, const struct flow_wait *w, struct kymo_err *err);
    void *ctx;
};

struct flow_instruction {
    int64_t id, start, end; /* ns */
    uint64_t start_ps, end_ps;
    int64_t wait; /* ns by the counter */
    struct flow_launch launched;
    uint32_t row;       /* static */
    uint32_t execution; /* in which it begins */
    bool saturated;     /* the counter was at its end */
};

struct flow_record {
    uint64_t ps;
    uint32_t value;
    uint8_t mode, index, source; /* source: enum kymo_engine, KYMO_ENGINE_MAX: AXI */
    bool is_semaphore;
};

struct flow_core;

int flow_core_new(const struct flow_static *facts, unsigned pcore, struct flow_sink sink, struct flow_core **ret,
                  struct kymo_err *err) KYMO_MUST_CHECK;
struct flow_core *flow_core_free(struct flow_core *c);

/* Instructions in order of start; records in order of ring, those before an instruction's start first. */
int flow_core_instruction(struct flow_core *c, const struct flow_instruction *i, struct kymo_err *err) KYMO_MUST_CHECK;
/* writer: who made an update through AXI; NULL: not known. */
int flow_core_record(struct flow_core *c, const struct flow_record *r, const struct flow_update *writer,
                     struct kymo_err *err) KYMO_MUST_CHECK;
/* Instructions that should have begun by now without a record do so. no_records: none will come. */
int flow_core_settle(struct flow_core *c, uint64_t ps, bool no_records, struct kymo_err *err) KYMO_MUST_CHECK;
/* The latest wait of the engine when a transfer or collective was started, or a WRITE to a semaphore began; -1: none,
 * or not known. */
int64_t flow_core_prior(const struct flow_core *c, enum flow_table table, int64_t id);
/* Everything from here on belongs to this execution or a later one. */
void flow_core_execution(struct flow_core *c, uint32_t execution);
/* Records of semaphores, or of instructions, were lost here. */
void flow_core_lost_records(struct flow_core *c);
void flow_core_lost_instructions(struct flow_core *c);
/* Instructions that used a PSUM bank before a loss, compiler edges left out, waits that were not explained. */
struct flow_counts {
    uint64_t banks, compiler, waits, unexplained[FLOW_DOUBT_MAX];
};
void flow_core_counts(const struct flow_core *c, struct flow_counts *ret);

#endif
