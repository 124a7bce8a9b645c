/*
 * Streams of collectives on the CC-cores. A collective is: tell the peers (SEMAPHORE_INC), wait until all are there,
 * then rounds of DMA_ADVANCE with a SEMAPHORE_WAIT for the neighbour before each; all CC-cores of a stream do the same
 * side by side. Its first CC-core also tells begin and end. Durations are a plain model (G).
 */
#include <errno.h>

#include "arch/layout.h"
#include "driver-iface/sim/sim_internal.h"

#define LAUNCH_PS 2000000u /* from the trigger's end to the first instruction */
#define GREET_PS 60000u    /* a SEMAPHORE_INC */
#define TAKE_PS 20000u     /* a SEMAPHORE_WAIT once it is met */
#define ISSUE_PS 5000u     /* from one instruction to the next */
#define NEIGHBOUR_PS 300000u
#define GAP_PS 100000u     /* between two collectives */
#define ADVANCE_PS 200000u /* a round beside its bytes */
#define PS_PER_BYTE 20u    /* 50 GB/s */
#define CORE_SKEW_PS 3000u /* from one CC-core of a stream to the next */
#define H2D_SHARE 16u      /* of a round's bytes, 1 in so many goes through the host-device engine */
#define H2D_BYTES_MIN 64u
#define H2D_BYTES_MAX 8192u
#define SEMAPHORE_FIRST 32u

static struct sim_capture *capture_of(const struct sim_core *c, const struct sim_execution *x)
{
    return c->captures[x->first];
}

static const struct sim_cc_pending *current(const struct sim_cc_stream *s)
{
    return &s->queue[s->first];
}

static const struct sim_core_image *image_of(const struct sim_execution *x, const struct sim_cc_stream *s)
{
    return &x->image->cores[current(s)->pcore];
}

static const struct sim_cc_op *op_of(const struct sim_execution *x, const struct sim_cc_stream *s)
{
    return &image_of(x, s)->cc_ops[current(s)->op];
}

static void set_key(struct sim_execution *x)
{
    uint64_t key = SIM_NEVER;
    for (unsigned i = 0; i < KYMO_CC_STREAMS_MAX; i++)
        key = x->streams[i].next_ps < key ? x->streams[i].next_ps : key;
    sim_agenda_set(&x->agenda, SIM_LEAF_CC, key);
}

void sim_cc_prepare(struct sim_core *c, struct sim_execution *x)
{
    (void)c;
    for (unsigned i = 0; i < KYMO_CC_STREAMS_MAX; i++) {
        struct sim_cc_stream *s = &x->streams[i];
        uint64_t sequence = s->sequence, free_ps = s->free_ps;
        *s = (struct sim_cc_stream){.sequence = sequence, .free_ps = free_ps, .next_ps = SIM_NEVER};
        s->cores = sim_image_cc_cores(x->image, x->first, i, &s->first_core);
    }
}

void sim_core_reset_collectives(struct sim_core *c, unsigned first_pcore)
{
    for (unsigned i = 0; first_pcore < SIM_PCORES_MAX && i < KYMO_CC_STREAMS_MAX; i++)
        c->execs[first_pcore].streams[i].sequence = 0;
}

static void schedule_start(struct sim_cc_stream *s)
{
    uint64_t ready = current(s)->ready_ps;
    s->next_ps = ready > s->free_ps ? ready : s->free_ps;
}

void sim_cc_trigger(struct sim_core *c, struct sim_pcore *p, uint32_t op, uint32_t trigger_row, uint64_t ps)
{
    (void)c;
    struct sim_execution *x = p->exec;
    struct sim_cc_stream *s = &x->streams[p->image->cc_ops[op].stream];
    if (s->count == SIM_CC_QUEUE) {
        x->error = kymo_err_set(x->err, -ENOBUFS, "more than %d collectives wait on one stream", SIM_CC_QUEUE);
        return;
    }
    s->queue[(s->first + s->count++) % SIM_CC_QUEUE] = (struct sim_cc_pending){
        .op = op, .trigger_row = trigger_row, .pcore = (uint8_t)p->pcore_idx, .ready_ps = ps + LAUNCH_PS};
    if (s->count == 1 && s->phase == SIM_CC_IDLE)
        schedule_start(s);
    set_key(x);
}

/* Instruction of CC-core k of the stream, all times shifted by its place. */
static void begin_instr(struct sim_core *c, struct sim_execution *x, struct sim_cc_stream *s, unsigned k,
                        enum kymo_cc_instr instr, uint64_t issue_ps, uint64_t begin_ps)
{
    struct sim_capture *cap = capture_of(c, x);
    if (!cap)
        return;
    unsigned core = s->first_core + k;
    double cycles = (double)(begin_ps - issue_ps) / 1000 * c->arch->core_clock_ghz;
    uint16_t wait = cycles >= 65535 ? 65535 : (uint16_t)cycles;
    uint32_t pc = kymo_cc_pc(current(s)->op, s->at);
    uint64_t ts;
    bool stored = sim_ring_emit(cap, cap->by_use.cc_instruction[core], &c->cc_clocks[core],
                                sim_record_cc_start(pc, instr, wait), issue_ps + k * CORE_SKEW_PS, &ts);
    cap->counts.cc_instructions++;
    struct sim_truth_cc_instr row = {.core = (uint8_t)core,
                                     .instr = (uint8_t)instr,
                                     .start_stored = stored,
                                     .wait_cycles = wait,
                                     .pc = pc,
                                     .op_row = s->op_row,
                                     .start_ps = ts,
                                     .begin_ps = sim_clock_seen(&c->cc_clocks[core], begin_ps + k * CORE_SKEW_PS)};
    s->rows[k] = sim_truth_cc_instr_begin(cap->truth, &row);
}

static void end_instr(struct sim_core *c, struct sim_execution *x, struct sim_cc_stream *s, unsigned k,
                      enum kymo_cc_instr instr, uint64_t ps)
{
    struct sim_capture *cap = capture_of(c, x);
    if (!cap)
        return;
    unsigned core = s->first_core + k;
    uint64_t ts;
    bool stored =
        sim_ring_emit(cap, cap->by_use.cc_instruction[core], &c->cc_clocks[core],
                      sim_record_cc_end(kymo_cc_pc(current(s)->op, s->at), instr), ps + k * CORE_SKEW_PS, &ts);
    sim_truth_cc_instr_end(cap->truth, s->rows[k], ts, stored);
}

/* The neighbour's count comes in through AXI; the CC-core's wait for it is met at the same time. */
static void emit_events(struct sim_core *c, struct sim_execution *x, struct sim_cc_stream *s, unsigned k, uint64_t ps)
{
    struct sim_capture *cap = capture_of(c, x);
    unsigned core = s->first_core + k;
    for (unsigned met = 0; cap && met < 2; met++) {
        int source = met ? (int)KYMO_ENGINE_SYNC : (int)SIM_SOURCE_AXI;
        uint8_t mode = met ? 0 : KYMO_UPD_INC, id = (uint8_t)(SEMAPHORE_FIRST + op_of(x, s)->stream);
        uint64_t ts;
        bool stored = sim_ring_emit(cap, cap->by_use.cc_event[core], met ? &c->cc_clocks[core] : NULL,
                                    sim_record_sync(source, id, 1, mode, s->round + 1), ps + k * CORE_SKEW_PS, &ts);
        cap->counts.cc_events++;
        sim_truth_cc_event(cap->truth, &(struct sim_truth_sync){.pcore = (uint8_t)core,
                                                                .id = id,
                                                                .is_semaphore = 1,
                                                                .mode = mode,
                                                                .stored = stored,
                                                                .source = (int8_t)source,
                                                                .value = s->round + 1,
                                                                .ts_ps = ts});
    }
}

static bool notice(struct sim_core *c, struct sim_execution *x, struct sim_cc_stream *s, bool end, uint64_t ps,
                   uint64_t *ret_ts)
{
    struct sim_capture *cap = capture_of(c, x);
    return sim_ring_emit(cap, cap ? cap->by_use.cc_instruction[s->first_core] : -1, &c->cc_clocks[s->first_core],
                         sim_record_cc_notice(current(s)->op, s->sequence, end), ps, ret_ts);
}

static void start(struct sim_core *c, struct sim_execution *x, struct sim_cc_stream *s, uint64_t ps)
{
    const struct sim_cc_op *op = op_of(x, s);
    const struct neff_replica_set *group = sim_image_group(image_of(x, s), op, x->rank);
    unsigned ranks = group ? (unsigned)group->count : 1, rank = 0;
    uint64_t in = 0, out = 0, ts;
    for (unsigned i = 0; group && i < ranks; i++)
        rank = group->ranks[i] == x->rank ? i : rank;
    (void)!kymo_cc_sizes(op->kind, op->elements, kymo_dtype_bits(op->dtype), ranks, &in, &out);
    uint64_t bytes = in > out ? in : out;
    s->algorithm = (uint8_t)kymo_cc_choose(bytes, ranks);
    s->rounds = kymo_cc_rounds(op->kind, (enum kymo_cc_algorithm)s->algorithm, ranks);
    uint64_t round = kymo_cc_round_bytes(op->kind, (enum kymo_cc_algorithm)s->algorithm, ranks, bytes);
    s->round_bytes_low = round > UINT32_MAX ? UINT32_MAX : (uint32_t)round;
    s->round = s->at = 0;
    s->op_row = SIM_TRUTH_NONE;
    struct sim_capture *cap = capture_of(c, x);
    bool stored = notice(c, x, s, false, ps, &ts);
    if (cap) {
        cap->counts.cc_ops++;
        struct sim_truth_cc_op row = {.pcore = current(s)->pcore,
                                      .core = (uint8_t)s->first_core,
                                      .start_stored = stored,
                                      .algorithm = s->algorithm,
                                      .ranks = (uint16_t)ranks,
                                      .rank = (uint16_t)rank,
                                      .op = current(s)->op,
                                      .trigger_row = current(s)->trigger_row,
                                      .sequence = s->sequence,
                                      .start_ps = ts};
        s->op_row = sim_truth_cc_op_begin(cap->truth, &row);
        sim_truth_edge(cap->truth, SIM_EDGE_CC_TRIGGER, row.trigger_row, s->op_row, 0);
    }
    for (unsigned k = 0; k < s->cores; k++)
        begin_instr(c, x, s, k, KYMO_CC_SEMAPHORE_INC, ps + ISSUE_PS, ps + ISSUE_PS);
    s->phase = SIM_CC_GREET;
    s->next_ps = ps + ISSUE_PS + GREET_PS;
}

static void finish(struct sim_core *c, struct sim_execution *x, struct sim_cc_stream *s, uint64_t ps)
{
    const struct sim_cc_op *op = op_of(x, s);
    struct sim_pcore *p = &c->pcores[x->first + current(s)->pcore];
    uint64_t ts;
    bool stored = notice(c, x, s, true, ps, &ts);
    if (capture_of(c, x))
        sim_truth_cc_op_end(capture_of(c, x)->truth, s->op_row, ts, stored);
    s->sequence++;
    s->phase = SIM_CC_IDLE;
    s->free_ps = ps + GAP_PS;
    s->next_ps = SIM_NEVER;
    s->first = (s->first + 1) % SIM_CC_QUEUE;
    if (--s->count)
        schedule_start(s);
    struct sim_source src = {.engine = SIM_SOURCE_AXI, .by = SIM_BY_COLLECTIVE, .row = s->op_row};
    if (op->increment)
        sim_sync_update(c, p, &src, KYMO_UPD_ADD, op->semaphore, op->increment, ps);
}

/* What a wait for others was issued for has come: the next round begins. */
static void advance(struct sim_core *c, struct sim_execution *x, struct sim_cc_stream *s, uint64_t ps)
{
    for (unsigned k = 0; k < s->cores; k++) {
        begin_instr(c, x, s, k, KYMO_CC_SEMAPHORE_WAIT, s->wait_ps, ps);
        emit_events(c, x, s, k, ps);
        end_instr(c, x, s, k, KYMO_CC_SEMAPHORE_WAIT, ps + TAKE_PS);
    }
    s->at++;
    uint64_t begin = ps + TAKE_PS + ISSUE_PS, end = begin + ADVANCE_PS + (uint64_t)s->round_bytes_low * PS_PER_BYTE;
    end += sim_random(c) & 0x3FFF;
    for (unsigned k = 0; k < s->cores; k++)
        begin_instr(c, x, s, k, KYMO_CC_DMA_ADVANCE, begin, begin);
    uint64_t bytes = s->round_bytes_low / H2D_SHARE;
    bytes = bytes < H2D_BYTES_MIN ? H2D_BYTES_MIN : bytes > H2D_BYTES_MAX ? H2D_BYTES_MAX : bytes;
    uint64_t moved =
        sim_h2d_move(c, x->first, "collective", s->round % 2 ? "device_to_host" : "host_to_device", bytes, begin);
    s->phase = SIM_CC_ROUND;
    s->next_ps = moved > end ? moved : end;
}

static void end_round(struct sim_core *c, struct sim_execution *x, struct sim_cc_stream *s, uint64_t ps)
{
    for (unsigned k = 0; k < s->cores; k++)
        end_instr(c, x, s, k, KYMO_CC_DMA_ADVANCE, ps);
    s->at++;
    if (++s->round == s->rounds) {
        finish(c, x, s, ps);
        return;
    }
    s->phase = SIM_CC_GATHER;
    s->wait_ps = ps + ISSUE_PS;
    s->next_ps = s->wait_ps + NEIGHBOUR_PS + (sim_random(c) & 0xFFFF);
}

/* The peers know; now they are waited for, the first time all of them. */
static void greet(struct sim_core *c, struct sim_execution *x, struct sim_cc_stream *s, uint64_t ps)
{
    for (unsigned k = 0; k < s->cores; k++)
        end_instr(c, x, s, k, KYMO_CC_SEMAPHORE_INC, ps);
    s->at++;
    if (!s->rounds) {
        finish(c, x, s, ps);
        return;
    }
    s->phase = SIM_CC_GATHER;
    s->wait_ps = ps + ISSUE_PS;
    s->next_ps = SIM_NEVER;
    sim_joint_arrive(x, image_of(x, s), op_of(x, s), s->wait_ps);
}

void sim_cc_release(struct sim_execution *x, unsigned stream, uint64_t ps)
{
    struct sim_cc_stream *s = &x->streams[stream];
    s->next_ps = ps > s->wait_ps ? ps : s->wait_ps;
    set_key(x);
}

void sim_cc_step(struct sim_core *c, struct sim_execution *x, uint64_t ps)
{
    for (unsigned i = 0; i < KYMO_CC_STREAMS_MAX; i++) {
        struct sim_cc_stream *s = &x->streams[i];
        if (s->next_ps != ps)
            continue;
        switch (s->phase) {
        case SIM_CC_IDLE:
            start(c, x, s, ps);
            break;
        case SIM_CC_GREET:
            greet(c, x, s, ps);
            break;
        case SIM_CC_GATHER:
            advance(c, x, s, ps);
            break;
        default:
            end_round(c, x, s, ps);
            break;
        }
        break; /* others of the same time come next */
    }
    set_key(x);
}
