/* The core's parts, shared by its source files only. */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_INTERNAL_H
#define KYMO_DRIVER_IFACE_SIM_SIM_INTERNAL_H

#include "arch/cc.h"
#include "driver-iface/sim/sim_core.h"
#include "driver-iface/sim/sim_op.h"
#include "driver-iface/sim/sim_record.h"
#include "driver-iface/sim/sim_truth.h"

#define SIM_PCORES_MAX 8
#define SIM_NEVER UINT64_MAX
#define SIM_RUN_PS_MAX (3600ull * 1000000000000ull)
#define SIM_STATUS_WITH_ERROR 1004 /* NRT_STATUS */
#define SIM_STATUS_COLLECTIVES 1200
#define SIM_SYNC_TARGETS 512 /* semaphores, then events */
#define SIM_HISTORY 64       /* updates remembered per semaphore, for true edges */
#define SIM_DMA_INFLIGHT 16
#define SIM_TRANSFERS_MAX 65536
#define SIM_PSUM_BANKS 8
#define SIM_TPB_PSUM_COLLISION 8
#define SIM_TPB_SEQUENCER 9 /* and above: errors of a sequencer */

/* Actors of a run: engines at 0, the CC-cores' streams at 5, throttling and notices at 6, DMA engines at 8, second core
 * of the pair 32 further. */
#define SIM_LEAVES 64
#define SIM_LEAF_CC 5
#define SIM_LEAF_NOTICE 6
#define SIM_LEAF_DMA 8
#define SIM_CC_CORES_MAX 16
#define SIM_CC_QUEUE 64 /* collectives that wait on one stream */
#define SIM_LEAF_CORE 32

/* Winner tree over the actors' next event times; ties go to the lower leaf, so that runs are deterministic. */
struct sim_agenda {
    uint64_t key[SIM_LEAVES];
    uint8_t winner[SIM_LEAVES]; /* inner nodes 1..63: the leaf that comes first below */
};

struct sim_capture {
    bool armed;
    struct sim_ring_sink sink;
    struct sim_truth *truth;
    struct sim_ring_state rings[KYMO_RING_PLAN_MAX];
    size_t ring_count;
    uint64_t emitted;
    struct sim_truth_counts counts;
    struct { /* ring by use; -1: not planned */
        int16_t instruction[2], event[2], error[2], status[2], throttle[2], dma[2][SIM_DMA_ENGINES], h2d,
            cc_instruction[SIM_CC_CORES_MAX], cc_event[SIM_CC_CORES_MAX]; /* by CC-core of the device */
    } by_use;
};

/* Whose update it was: a truth row of the table that `by` names. */
enum sim_by { SIM_BY_NOBODY, SIM_BY_INSTR, SIM_BY_TRANSFER, SIM_BY_COLLECTIVE };

struct sim_met {
    uint32_t row, sync; /* sync: the update's own row */
    uint8_t by;         /* enum sim_by */
};

enum sim_engine_state { SIM_ENGINE_OFF, SIM_ENGINE_ISSUE, SIM_ENGINE_WAIT, SIM_ENGINE_RUN, SIM_ENGINE_HALTED };

struct sim_engine {
    const struct sim_engine_image *image;
    const struct sim_op *ops;
    uint64_t issue_ps;
    uint32_t pc, row;
    uint32_t pc_base; /* added to the slot in records */
    uint8_t state, wait_set;
    uint8_t wait_target_set; /* the engine is in a target's waiter mask */
    uint16_t wait_target;
    uint16_t run;
    double cycles_per_ps;
    struct sim_clock clock;
    uint32_t reg[SIM_REGISTERS];
    struct sim_met met_by[2]; /* updates that met this instruction's waits */
};

struct sim_transfer;
struct sim_share {
    struct sim_transfer *transfer;
    struct sim_share *next;
    uint64_t ready_ps;
    uint32_t first, count, started, done;
};

struct sim_transfer {
    struct sim_share share[SIM_DMA_ENGINES];
    struct sim_transfer *next_free;
    const struct sim_block *block; /* NULL: dynamic */
    const struct sim_dynamic *dynamic;
    uint32_t remaining, packets;
    uint32_t row;
    uint8_t queue_index, empty_rings;
    bool complete;
};

struct sim_inflight {
    uint64_t end_ps;
    struct sim_share *share;
    uint32_t bytes, row;
    uint8_t queue;
};

struct sim_dma {
    struct sim_share *head[SIM_DMA_QUEUES], *tail[SIM_DMA_QUEUES];
    uint16_t pending; /* queues with packets to start */
    uint8_t turn;
    uint64_t port_free_ps, last_end_ps;
    struct sim_inflight inflight[SIM_DMA_INFLIGHT];
    unsigned inflight_first, inflight_count;
    struct sim_clock clock;
};

struct sim_update_note {
    uint32_t value;
    struct sim_met met;
};

struct sim_psum_bank {
    uint32_t row;               /* last instruction that used the bank */
    uint32_t group, last_group; /* accumulation under way; the last user's, 0: none */
    bool wrote;
};

struct sim_execution;

struct sim_pcore {
    unsigned nc, pcore_idx;
    struct sim_execution *exec; /* of its logical core */
    struct sim_capture *capture;
    const struct sim_core_image *image;
    struct sim_engine engines[KYMO_ENGINE_MAX];
    struct sim_dma dma[SIM_DMA_ENGINES];
    uint32_t sync[SIM_SYNC_TARGETS];
    uint8_t waiters[SIM_SYNC_TARGETS]; /* bit e: engine e */
    struct sim_psum_bank psum[SIM_PSUM_BANKS];
    uint32_t psum_groups;
    uint32_t *block_runs; /* runs of each queue's blocks in this execution, flattened */
    size_t block_runs_cap;
    struct sim_update_note (*history)[SIM_HISTORY]; /* allocated when a truth with detail is armed */
    uint32_t history_count[SIM_SYNC_TARGETS];
    uint64_t instructions, fail_at;
    uint64_t origin_ps;                    /* start of the execution */
    uint64_t notice_next[SIM_NOTICES_MAX]; /* when each begins next */
};

struct sim_h2d {
    uint64_t busy_ps;
    struct sim_clock clock;
};

/* A triggered collective that waits for its stream. */
struct sim_cc_pending {
    uint32_t op, trigger_row;
    uint8_t pcore;
    uint64_t ready_ps;
};

enum sim_cc_phase { SIM_CC_IDLE, SIM_CC_GREET, SIM_CC_GATHER, SIM_CC_ROUND };

/* One stream of collectives: in order, one at a time, by all of its CC-cores together. */
struct sim_cc_stream {
    struct sim_cc_pending queue[SIM_CC_QUEUE];
    unsigned first, count; /* the first one is under way unless the phase is idle */
    uint8_t phase;         /* enum sim_cc_phase */
    uint8_t algorithm;
    unsigned first_core, cores; /* on the device */
    uint32_t round, rounds, at; /* at: next instruction of the collective's program */
    uint32_t round_bytes_low;   /* of one rank in a round, at most 4 GB */
    uint32_t op_row, rows[SIM_CC_CORES_MAX];
    uint64_t next_ps;  /* SIM_NEVER: nothing to do, or waiting for other ranks */
    uint64_t wait_ps;  /* when the wait under way was issued */
    uint64_t free_ps;  /* end of the collective before */
    uint64_t sequence; /* number of the next collective, since the core was taken */
};

struct sim_joint;

/* What belongs to the execution of one logical core. */
struct sim_execution {
    struct sim_agenda agenda;
    struct sim_image *image;
    unsigned first; /* physical core */
    uint32_t slow_16;
    bool failed;
    int error; /* the text is in err */
    struct kymo_err *err;
    struct sim_joint *joint; /* NULL: alone */
    unsigned rank;
    uint64_t rng, count; /* joint executions draw from a sequence of their own */
    struct sim_cc_stream streams[KYMO_CC_STREAMS_MAX];
};

struct sim_core {
    struct sim_config config;
    const struct kymo_arch *arch;
    uint64_t rng;
    uint32_t slow_16; /* slow factor, 16 bits of fraction */
    uint64_t now[SIM_PCORES_MAX];
    uint64_t last_model[SIM_PCORES_MAX];
    struct sim_capture *captures[SIM_PCORES_MAX]; /* by first physical core */
    struct sim_pcore pcores[SIM_PCORES_MAX];
    struct sim_h2d h2d[KYMO_H2D_ENGINES_MAX];
    struct sim_transfer *free_transfers;
    struct sim_transfer **transfers; /* all of them */
    size_t transfer_count, transfer_cap;
    struct sim_execution execs[SIM_PCORES_MAX]; /* by first physical core */
    struct sim_clock cc_clocks[SIM_CC_CORES_MAX];
};

/* sim_agenda.c */
void sim_agenda_clear(struct sim_agenda *a);
void sim_agenda_set(struct sim_agenda *a, unsigned leaf, uint64_t key);
static inline unsigned sim_agenda_first(const struct sim_agenda *a)
{
    return a->winner[1];
}
static inline unsigned sim_leaf_engine(const struct sim_pcore *p, unsigned e)
{
    return p->pcore_idx * SIM_LEAF_CORE + e;
}
static inline unsigned sim_leaf_notice(const struct sim_pcore *p)
{
    return p->pcore_idx * SIM_LEAF_CORE + SIM_LEAF_NOTICE;
}
static inline unsigned sim_leaf_dma(const struct sim_pcore *p, unsigned e)
{
    return p->pcore_idx * SIM_LEAF_CORE + SIM_LEAF_DMA + e;
}

/* Uniform bits; cheap, since every instruction and packet draws. */
static inline uint64_t sim_random(struct sim_core *c)
{
    c->rng ^= c->rng << 13;
    c->rng ^= c->rng >> 7;
    c->rng ^= c->rng << 17;
    return c->rng;
}

/* sim_emit.c. clock NULL: unscaled. Returns whether the record was stored; *ret_ps is the corrected time. */
bool sim_ring_emit(struct sim_capture *cap, int ring, const struct sim_clock *clock, uint64_t low, uint64_t ps,
                   uint64_t *ret_ps);

/* sim_semaphore.c */
struct sim_source { /* who updates */
    int engine;     /* or SIM_SOURCE_AXI */
    enum sim_by by;
    uint32_t row; /* of the truth */
};
bool sim_sync_met(const struct sim_pcore *p, const struct sim_engine *e, const struct kymo_sync *s);
void sim_sync_take(struct sim_core *c, struct sim_pcore *p, struct sim_engine *e, const struct kymo_sync *s,
                   uint64_t ps);
void sim_sync_update(struct sim_core *c, struct sim_pcore *p, const struct sim_source *src, uint8_t mode, uint8_t idx,
                     uint32_t operand, uint64_t ps);
void sim_sync_clear(struct sim_core *c, struct sim_pcore *p, unsigned first, unsigned count, uint64_t ps);
static inline unsigned sim_sync_wait_target(const struct kymo_sync *s)
{
    return (s->wait_mode & 0x7F) < KYMO_WAIT_EVT_SET ? s->wait_idx : 256u + s->wait_idx;
}

/* sim_engine.c */
void sim_engine_step(struct sim_core *c, struct sim_pcore *p, unsigned e, uint64_t ps);
void sim_engine_wake(struct sim_core *c, struct sim_pcore *p, unsigned target, uint64_t ps);

/* sim_dma.c */
void sim_dma_step(struct sim_core *c, struct sim_pcore *p, unsigned e, uint64_t ps);
void sim_dma_start_block(struct sim_core *c, struct sim_pcore *p, const struct sim_op *op, uint32_t trigger_row,
                         uint64_t ps);
void sim_dma_start_dynamic(struct sim_core *c, struct sim_pcore *p, const struct sim_op *op, uint32_t trigger_row,
                           uint64_t ps);
void sim_dma_reset(struct sim_core *c, struct sim_pcore *p);

/* sim_core.c: an execution from its fetch to its end, for sim_joint.c. */
int sim_exec_begin(struct sim_core *c, unsigned first, struct sim_image *image, bool fail,
                   struct kymo_err *err) KYMO_MUST_CHECK;
void sim_exec_step(struct sim_core *c, struct sim_execution *x, unsigned leaf, uint64_t ps);
/* 0 when every engine has halted, else -EDEADLK naming one that waits. */
int sim_exec_check_halted(const struct sim_core *c, unsigned first, struct kymo_err *err) KYMO_MUST_CHECK;

/* sim_cc.c: collectives */
void sim_cc_prepare(struct sim_core *c, struct sim_execution *x);
void sim_cc_trigger(struct sim_core *c, struct sim_pcore *p, uint32_t op, uint32_t trigger_row, uint64_t ps);
void sim_cc_step(struct sim_core *c, struct sim_execution *x, uint64_t ps);
/* All ranks of the group are there: the stream goes on at ps. */
void sim_cc_release(struct sim_execution *x, unsigned stream, uint64_t ps);

/* sim_joint.c: rank x->rank is at collective `op` of its core 0 or 1. */
void sim_joint_arrive(struct sim_execution *x, const struct sim_core_image *ci, const struct sim_cc_op *op,
                      uint64_t ps);

/* sim_notices.c */
void sim_notices_begin(struct sim_core *c, struct sim_pcore *p, uint64_t ps);
void sim_notices_step(struct sim_core *c, struct sim_pcore *p, uint64_t ps);
void sim_notices_end(struct sim_core *c, struct sim_pcore *p, uint64_t ps); /* spans that hold end with the execution */
/* Nothing else will happen: notices to come keep no execution alive. */
bool sim_notices_only(const struct sim_agenda *a);
void sim_notices_error(struct sim_pcore *p, uint8_t id, uint64_t metadata, uint64_t ps);
/* How long compute work takes that begins at ps and would take work ps unthrottled. */
uint64_t sim_notices_stretch(const struct sim_core *c, const struct sim_pcore *p, uint64_t ps, uint64_t work);

/* sim_psum.c */
void sim_psum_use(struct sim_pcore *p, const struct sim_op *op, uint32_t row);

/* sim_h2d.c: moves n bytes, returns when done. */
uint64_t sim_h2d_move(struct sim_core *c, unsigned nc, const char *traffic, const char *direction, uint64_t n,
                      uint64_t ps);

#endif
