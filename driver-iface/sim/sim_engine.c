/* Engines: in-order issue, waits, run, completion. */
#include "driver-iface/sim/sim_internal.h"

#define ISSUE_GAP_CYCLES 2 /* of the core clock, between an end and the next issue (G) */
#define STATUS_START 2
#define STATUS_END 3

static void emit_start(struct sim_pcore *p, struct sim_engine *e, const struct sim_op *op, uint64_t ps)
{
    double cycles = (double)(ps - e->issue_ps) * e->cycles_per_ps;
    uint16_t wait = cycles >= 65535 ? 65535 : (uint16_t)cycles;
    uint64_t ts;
    struct sim_capture *cap = p->capture;
    enum kymo_engine engine = e->image->engine;
    bool stored = sim_ring_emit(cap, cap->by_use.instruction[p->pcore_idx], &e->clock,
                                sim_record_start(engine, e->pc_base + e->pc, wait), e->issue_ps, &ts);
    e->row = SIM_TRUTH_NONE;
    cap->counts.instructions++;
    if (!sim_truth_detail(cap->truth))
        return;
    e->row = sim_truth_instr_begin(cap->truth, &(struct sim_truth_instr){.pcore = (uint8_t)p->pcore_idx,
                                                                         .engine = (uint8_t)engine,
                                                                         .start_stored = stored,
                                                                         .wait_cycles = wait,
                                                                         .slot = e->pc,
                                                                         .trigger_transfer = SIM_TRUTH_NONE,
                                                                         .start_ps = ts,
                                                                         .begin_ps = sim_clock_seen(&e->clock, ps)});
    static const enum sim_edge kinds[] = {[SIM_BY_INSTR] = SIM_EDGE_SEMAPHORE,
                                          [SIM_BY_TRANSFER] = SIM_EDGE_DMA_WAIT,
                                          [SIM_BY_COLLECTIVE] = SIM_EDGE_CC_WAIT};
    for (unsigned set = 0; set < 2; set++) {
        const struct sim_met *met = &e->met_by[set];
        if (met->by != SIM_BY_NOBODY)
            sim_truth_edge(cap->truth, kinds[met->by], met->row, e->row, met->sync);
    }
    sim_psum_use(p, op, e->row);
}

static void emit_dge(const struct sim_core *c, struct sim_pcore *p, struct sim_engine *e, const struct sim_op *op,
                     uint64_t ps)
{
    if (op->kind != SIM_OP_DIRECT2D || !c->config.dge_notifications || !p->capture)
        return;
    uint64_t ts,
        low = sim_record_dge(e->image->engine, e->pc_base + e->pc, op->dynamic.engines, op->dynamic.per_engine);
    (void)sim_ring_emit(p->capture, p->capture->by_use.instruction[p->pcore_idx], &e->clock, low, ps, &ts);
}

static void fail_here(struct sim_pcore *p, uint64_t ps)
{
    p->exec->failed = true;
    sim_notices_error(p, SIM_TPB_PSUM_COLLISION, p->instructions, ps);
}

static void apply_updates(struct sim_core *c, struct sim_pcore *p, struct sim_engine *e, const struct sim_op *op,
                          unsigned at, uint64_t ps)
{
    struct sim_source src = {.engine = (int)e->image->engine, .by = SIM_BY_INSTR, .row = e->row};
    for (unsigned set = 0; set < (op->has_sync2 ? 2u : 1u); set++) {
        const struct kymo_sync *s = set ? &op->sync2 : &op->sync;
        if (s->update_mode == KYMO_UPD_NONE || (s->update_mode & KYMO_UPD_COMPLETE) != at)
            continue;
        uint32_t operand =
            s->update_mode & KYMO_UPD_REGISTER ? e->reg[s->update_value % SIM_REGISTERS] : s->update_value;
        sim_sync_update(c, p, &src, s->update_mode, s->update_idx, operand, ps);
    }
}

static void begin(struct sim_core *c, struct sim_pcore *p, struct sim_engine *e, uint64_t ps)
{
    const struct sim_op *op = &e->ops[e->pc];
    uint64_t duration = op->compute ? (uint64_t)op->duration_ps * p->exec->slow_16 >> 16 : op->duration_ps;
    duration += duration * (sim_random(c) & 0xFF) >> 12; /* up to 6 % more */
    if (op->compute)
        duration = sim_notices_stretch(c, p, ps, duration);
    e->state = SIM_ENGINE_RUN;
    e->run++;
    if (p->capture)
        emit_start(p, e, op, ps);
    emit_dge(c, p, e, op, ps);
    sim_agenda_set(&p->exec->agenda, sim_leaf_engine(p, e->image->engine), ps + duration + 1);
    if (++p->instructions == p->fail_at)
        fail_here(p, ps);
    else
        apply_updates(c, p, e, op, 0, ps);
}

/* Goes through the wait sets from e->wait_set on; begins when none is left. */
static void proceed(struct sim_core *c, struct sim_pcore *p, struct sim_engine *e, uint64_t ps)
{
    const struct sim_op *op = &e->ops[e->pc];
    for (; e->wait_set < (op->has_sync2 ? 2 : 1); e->wait_set++) {
        const struct kymo_sync *s = e->wait_set ? &op->sync2 : &op->sync;
        if (!sim_sync_met(p, e, s)) {
            e->state = SIM_ENGINE_WAIT;
            e->wait_target = (uint16_t)sim_sync_wait_target(s);
            p->waiters[e->wait_target] = (uint8_t)(p->waiters[e->wait_target] | 1u << e->image->engine);
            sim_agenda_set(&p->exec->agenda, sim_leaf_engine(p, e->image->engine), SIM_NEVER);
            return;
        }
        sim_sync_take(c, p, e, s, ps);
    }
    begin(c, p, e, ps);
}

static void issue(struct sim_core *c, struct sim_pcore *p, struct sim_engine *e, uint64_t ps)
{
    e->issue_ps = ps;
    e->wait_set = 0;
    for (unsigned set = 0; set < 2; set++)
        e->met_by[set].by = SIM_BY_NOBODY;
    proceed(c, p, e, ps);
}

/* Waiters of one target are served in engine order; taking an event away makes the next one wait on. */
void sim_engine_wake(struct sim_core *c, struct sim_pcore *p, unsigned target, uint64_t ps)
{
    for (unsigned n = 0; n < KYMO_ENGINE_MAX; n++) {
        struct sim_engine *e = &p->engines[n];
        if (!(p->waiters[target] >> n & 1) || e->state != SIM_ENGINE_WAIT || e->wait_target != target)
            continue;
        const struct sim_op *op = &e->ops[e->pc];
        const struct kymo_sync *s = e->wait_set ? &op->sync2 : &op->sync;
        if (!sim_sync_met(p, e, s))
            continue;
        p->waiters[target] = (uint8_t)(p->waiters[target] & ~(1u << n));
        e->state = SIM_ENGINE_ISSUE; /* no longer a waiter, should taking the event wake others */
        proceed(c, p, e, ps);
    }
}

static bool branch_taken(const struct sim_engine *e, const struct sim_op *op)
{
    uint32_t a = e->reg[op->reg_a], b = op->value;
    switch (op->fn) {
    case KYMO_BR_ALWAYS:
        return true;
    case KYMO_BR_EQ:
        return a == b;
    case KYMO_BR_LT:
        return a < b;
    case KYMO_BR_LE:
        return a <= b;
    case KYMO_BR_GT:
        return a > b;
    case KYMO_BR_GE:
        return a >= b;
    default:
        return a != b;
    }
}

static uint32_t alu(const struct sim_engine *e, const struct sim_op *op)
{
    uint32_t a = e->reg[op->reg_a], b = op->value;
    switch (op->fn) {
    case KYMO_ALU_ADD:
        return a + b;
    case KYMO_ALU_SUBTRACT:
        return a - b;
    case KYMO_ALU_MULT:
        return a * b;
    case KYMO_ALU_MAX:
        return a > b ? a : b;
    case KYMO_ALU_MIN:
        return a < b ? a : b;
    default: /* bypass */
        return b;
    }
}

static void notify(struct sim_pcore *p, struct sim_engine *e, const struct sim_op *op, uint64_t ps)
{
    struct sim_capture *cap = p->capture;
    if (!cap)
        return;
    bool status = op->value == STATUS_START || op->value == STATUS_END;
    uint64_t ts, low = sim_record_explicit(e->image->engine, e->pc_base + e->pc, (uint16_t)op->value);
    bool stored = sim_ring_emit(cap, status ? cap->by_use.status[p->pcore_idx] : cap->by_use.instruction[p->pcore_idx],
                                &e->clock, low, ps, &ts);
    cap->counts.status += status;
    if (status)
        sim_truth_status(cap->truth, (uint8_t)p->pcore_idx, op->value == STATUS_END, stored, ts);
}

/* On the pair's other core it comes in through AXI. */
static void add_remote(struct sim_core *c, struct sim_pcore *p, const struct sim_engine *e, const struct sim_op *op,
                       uint64_t ps)
{
    if (c->config.lnc < 2)
        return;
    struct sim_source src = {.engine = SIM_SOURCE_AXI, .by = SIM_BY_INSTR, .row = e->row};
    sim_sync_update(c, &c->pcores[p->nc ^ 1u], &src, KYMO_UPD_ADD, op->fn, op->value, ps);
}

static void take_effect(struct sim_core *c, struct sim_pcore *p, struct sim_engine *e, const struct sim_op *op,
                        uint64_t ps)
{
    switch (op->kind) {
    case SIM_OP_WRITE:
        if (op->queue != SIM_QUEUE_NONE)
            sim_dma_start_block(c, p, op, e->row, ps);
        break;
    case SIM_OP_DIRECT2D:
        sim_dma_start_dynamic(c, p, op, e->row, ps);
        break;
    case SIM_OP_MOVE:
        e->reg[op->reg_dst] = op->value;
        break;
    case SIM_OP_ALU:
        e->reg[op->reg_dst] = alu(e, op);
        break;
    case SIM_OP_NOTIFY:
        notify(p, e, op, ps);
        break;
    case SIM_OP_COLLECTIVE:
        sim_cc_trigger(c, p, op->block, e->row, ps);
        break;
    case SIM_OP_REMOTE_INC:
        add_remote(c, p, e, op, ps);
        break;
    case SIM_OP_RANGE_CLEAR:
        sim_sync_clear(c, p, op->value & 0xFFFF, op->value >> 16, ps);
        break;
    default:
        break;
    }
}

static void complete(struct sim_core *c, struct sim_pcore *p, struct sim_engine *e, uint64_t ps)
{
    const struct sim_op *op = &e->ops[e->pc];
    if (p->capture) {
        uint16_t in = (uint16_t)(op->crc + e->run * 0x9E37u), out = (uint16_t)((in << 5 | in >> 11) ^ op->opcode);
        uint64_t ts;
        bool stored = sim_ring_emit(p->capture, p->capture->by_use.instruction[p->pcore_idx], &e->clock,
                                    sim_record_end(e->image->engine, e->pc_base + e->pc, in, out), ps, &ts);
        if (e->row != SIM_TRUTH_NONE)
            sim_truth_instr_end(p->capture->truth, e->row, ts, stored, in, out);
    }
    /* The next issue is settled before others are woken, so that the agenda is whole when they look at it. */
    unsigned leaf = sim_leaf_engine(p, e->image->engine);
    e->state = op->kind == SIM_OP_HALT ? SIM_ENGINE_HALTED : SIM_ENGINE_ISSUE;
    sim_agenda_set(&p->exec->agenda, leaf,
                   op->kind == SIM_OP_HALT ? SIM_NEVER
                                           : ps + (uint64_t)(ISSUE_GAP_CYCLES * 1000 / c->arch->core_clock_ghz));
    take_effect(c, p, e, op, ps);
    apply_updates(c, p, e, op, KYMO_UPD_COMPLETE, ps);
    e->pc = op->kind == SIM_OP_BRANCH && branch_taken(e, op) ? (uint32_t)((int64_t)e->pc + op->target) : e->pc + 1;
}

void sim_engine_step(struct sim_core *c, struct sim_pcore *p, unsigned n, uint64_t ps)
{
    struct sim_engine *e = &p->engines[n];
    if (e->state == SIM_ENGINE_RUN)
        complete(c, p, e, ps);
    else
        issue(c, p, e, ps);
}
