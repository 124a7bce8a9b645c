/* Semaphores and events of a physical core: waits, updates, and which update met which wait (modes: neff.md 2.2, class
 * C). */
#include "driver-iface/sim/sim_internal.h"

static uint32_t threshold(const struct sim_engine *e, const struct kymo_sync *s)
{
    return s->wait_mode & KYMO_WAIT_REGISTER ? e->reg[s->wait_value % SIM_REGISTERS] : s->wait_value;
}

static bool holds(uint8_t mode, uint32_t value, uint32_t limit)
{
    switch (mode & 0x7F) {
    case KYMO_WAIT_EQ:
        return value == limit;
    case KYMO_WAIT_LT:
        return value < limit;
    case KYMO_WAIT_LE:
        return value <= limit;
    case KYMO_WAIT_GT:
        return value > limit;
    case KYMO_WAIT_GE:
        return value >= limit;
    case KYMO_WAIT_EVT_SET:
    case KYMO_WAIT_EVT_SET_CLEAR:
        return value != 0;
    default: /* the two waits for a cleared event; others are refused when the image is decoded */
        return value == 0;
    }
}

bool sim_sync_met(const struct sim_pcore *p, const struct sim_engine *e, const struct kymo_sync *s)
{
    if (s->wait_mode == KYMO_WAIT_NONE || s->wait_mode == KYMO_WAIT_UNORDERED)
        return true;
    return holds(s->wait_mode, p->sync[sim_sync_wait_target(s)], threshold(e, s));
}

/* The update since which the condition has held: the oldest of the unbroken run that ends with the latest. */
static const struct sim_update_note *met_by(const struct sim_pcore *p, unsigned target, uint8_t mode, uint32_t limit)
{
    if (!p->history)
        return NULL;
    const struct sim_update_note *found = NULL;
    uint32_t n = p->history_count[target], seen = n < SIM_HISTORY ? n : SIM_HISTORY;
    for (uint32_t k = 1; k <= seen; k++) {
        const struct sim_update_note *note = &p->history[target][(n - k) % SIM_HISTORY];
        if (!holds(mode, note->value, limit))
            return found;
        found = note;
    }
    /* It held from the beginning, or for longer than is remembered: no update can be named. */
    return n > SIM_HISTORY || holds(mode, 0, limit) ? NULL : found;
}

static void note_update(struct sim_pcore *p, unsigned target, const struct sim_source *src, uint32_t sync_row)
{
    if (p->history)
        p->history[target][p->history_count[target]++ % SIM_HISTORY] = (struct sim_update_note){
            .value = p->sync[target], .met = {.row = src->row, .sync = sync_row, .by = (uint8_t)src->by}};
}

static uint32_t emit_sync(struct sim_pcore *p, int source, unsigned target, uint8_t mode, uint64_t ps)
{
    /* Updates through AXI carry true time: they pass no engine's clock. */
    const struct sim_clock *clock = source == SIM_SOURCE_AXI ? NULL : &p->engines[source].clock;
    uint64_t ts = ps;
    uint64_t low = sim_record_sync(source, (uint8_t)target, target < 256, mode, p->sync[target]);
    struct sim_capture *cap = p->capture;
    if (!cap)
        return SIM_TRUTH_NONE;
    cap->counts.semaphores++;
    bool stored = sim_ring_emit(cap, cap->by_use.event[p->pcore_idx], clock, low, ps, &ts);
    if (!sim_truth_detail(cap->truth))
        return SIM_TRUTH_NONE;
    return sim_truth_sync(cap->truth, &(struct sim_truth_sync){.pcore = (uint8_t)p->pcore_idx,
                                                               .id = (uint8_t)target,
                                                               .is_semaphore = target < 256,
                                                               .mode = mode,
                                                               .stored = stored,
                                                               .source = (int8_t)source,
                                                               .value = p->sync[target],
                                                               .ts_ps = ts});
}

void sim_sync_take(struct sim_core *c, struct sim_pcore *p, struct sim_engine *e, const struct kymo_sync *s,
                   uint64_t ps)
{
    if (s->wait_mode == KYMO_WAIT_NONE || s->wait_mode == KYMO_WAIT_UNORDERED)
        return;
    unsigned target = sim_sync_wait_target(s), set = e->wait_set;
    const struct sim_update_note *note = met_by(p, target, s->wait_mode, threshold(e, s));
    e->met_by[set] = note ? note->met : (struct sim_met){.by = SIM_BY_NOBODY};
    (void)emit_sync(p, (int)e->image->engine, target, 0, ps);
    bool flip = s->wait_mode == KYMO_WAIT_EVT_SET_CLEAR || s->wait_mode == KYMO_WAIT_EVT_CLEAR_SET;
    if (!flip)
        return;
    p->sync[target] = s->wait_mode == KYMO_WAIT_EVT_CLEAR_SET;
    struct sim_source self = {.engine = (int)e->image->engine, .by = SIM_BY_NOBODY};
    note_update(p, target, &self, SIM_TRUTH_NONE);
    if (p->waiters[target])
        sim_engine_wake(c, p, target, ps);
}

void sim_sync_update(struct sim_core *c, struct sim_pcore *p, const struct sim_source *src, uint8_t mode, uint8_t idx,
                     uint32_t operand, uint64_t ps)
{
    unsigned base = mode & 0x0F;
    unsigned target = base == KYMO_UPD_EVT_SET || base == KYMO_UPD_EVT_CLEAR ? 256u + idx : idx;
    uint32_t *v = &p->sync[target];
    switch (base) {
    case KYMO_UPD_EVT_SET:
        *v = 1;
        break;
    case KYMO_UPD_EVT_CLEAR:
        *v = 0;
        break;
    case KYMO_UPD_INC:
        *v += 1;
        break;
    case KYMO_UPD_DEC:
        *v -= 1;
        break;
    case KYMO_UPD_ADD:
        *v += operand;
        break;
    case KYMO_UPD_SUB:
        *v -= operand;
        break;
    default: /* write; others are refused when the image is decoded */
        *v = operand;
        break;
    }
    uint32_t row = emit_sync(p, src->engine, target, mode, ps);
    note_update(p, target, src, row);
    if (p->waiters[target])
        sim_engine_wake(c, p, target, ps);
}

static void clear_target(struct sim_core *c, struct sim_pcore *p, unsigned target, uint64_t ps)
{
    p->sync[target] = 0;
    p->history_count[target] = 0;
    if (p->waiters[target])
        sim_engine_wake(c, p, target, ps);
}

void sim_sync_clear(struct sim_core *c, struct sim_pcore *p, unsigned first, unsigned count, uint64_t ps)
{
    for (unsigned i = first; i < first + count && i < 256; i++) {
        if (i == p->image->start_semaphore || i == p->image->end_semaphore)
            continue;
        clear_target(c, p, i, ps);
        clear_target(c, p, 256 + i, ps);
    }
}
