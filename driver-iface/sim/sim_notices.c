/*
 * Throttling and notices while an execution runs. A throttled span stretches the compute work that falls into it; its
 * record is written when it ends, with the time at which it began. Where spans overlap the least of their limits holds.
 */
#include "driver-iface/sim/sim_notices.h"

#include "driver-iface/sim/sim_internal.h"

#define INTERRUPT_GROUP 2u
#define WARNING_GROUP 5u
#define BLOCK_ID 77u
#define CUSTOM_HINT 6u /* extended hint of a custom notification */
#define METADATA_MASK 0xFFFFFFFFFFFFull

static bool concerns(const struct sim_notice *n, const struct sim_pcore *p)
{
    return n->core == SIM_NOTICE_ALL_CORES || n->core == (int)p->pcore_idx;
}

static uint64_t due(const struct sim_core *c, const struct sim_pcore *p, size_t i)
{
    return p->notice_next[i] == SIM_NEVER ? SIM_NEVER : p->notice_next[i] + c->config.notices.rows[i].length_ps;
}

static void schedule(struct sim_core *c, struct sim_pcore *p)
{
    uint64_t next = SIM_NEVER;
    for (size_t i = 0; i < c->config.notices.count; i++)
        next = due(c, p, i) < next ? due(c, p, i) : next;
    sim_agenda_set(&p->exec->agenda, sim_leaf_notice(p), next);
}

void sim_notices_begin(struct sim_core *c, struct sim_pcore *p, uint64_t ps)
{
    const struct sim_notices *all = &c->config.notices;
    p->origin_ps = ps;
    for (size_t i = 0; i < all->count; i++)
        p->notice_next[i] = concerns(&all->rows[i], p) ? ps + all->rows[i].at_ps : SIM_NEVER;
    schedule(c, p);
}

static void emit_throttle(struct sim_pcore *p, const struct sim_notice *n, uint64_t start, uint64_t end)
{
    struct sim_capture *cap = p->capture;
    uint64_t ts, low = sim_record_ham(n->k, n->n, n->id, (uint32_t)(end / 1000 - start / 1000));
    if (!cap)
        return;
    bool stored = sim_ring_emit(cap, cap->by_use.throttle[p->pcore_idx], NULL, low, start, &ts);
    cap->counts.throttles++;
    sim_truth_throttle(cap->truth, &(struct sim_truth_throttle){.pcore = (uint8_t)p->pcore_idx,
                                                                .id = n->id,
                                                                .k = n->k,
                                                                .n = n->n,
                                                                .stored = stored,
                                                                .start_ps = start,
                                                                .end_ps = end});
}

/* What an error says of the place: for the sequencer its block, pc and an info byte, else a number. */
static uint64_t metadata_of(const struct sim_pcore *p, const struct sim_notice *n)
{
    const struct sim_engine *pe = &p->engines[KYMO_ENGINE_TENSOR];
    if (n->id >= SIM_TPB_SEQUENCER)
        return (uint64_t)KYMO_ENGINE_TENSOR << 24 | (uint64_t)(pe->pc & 0xFFFu) << 28 | 0x42ull << 40;
    return p->instructions & METADATA_MASK;
}

void sim_notices_error(struct sim_pcore *p, uint8_t id, uint64_t metadata, uint64_t ps)
{
    struct sim_capture *cap = p->capture;
    uint64_t ts;
    if (!cap)
        return;
    bool stored =
        sim_ring_emit(cap, cap->by_use.error[p->pcore_idx], NULL, sim_record_tpb_error(id, metadata), ps, &ts);
    cap->counts.errors++;
    sim_truth_error(cap->truth, &(struct sim_truth_error){.pcore = (uint8_t)p->pcore_idx,
                                                          .kind = SIM_NOTICE_TPB_ERROR,
                                                          .id = id,
                                                          .stored = stored,
                                                          .metadata = metadata,
                                                          .ts_ps = ts});
}

/* Custom notifications are told by GpSimd, in the ring of status records. */
static void emit_other(struct sim_pcore *p, const struct sim_notice *n, uint64_t ps)
{
    struct sim_capture *cap = p->capture;
    struct sim_engine *pool = &p->engines[KYMO_ENGINE_GPSIMD];
    uint64_t ts, low;
    struct sim_truth_error row = {.pcore = (uint8_t)p->pcore_idx, .kind = n->kind, .id = n->id};
    if (!cap)
        return;
    if (n->kind == SIM_NOTICE_CUSTOM) {
        row.metadata = pool->pc_base + pool->pc;
        low = sim_record_custom(KYMO_ENGINE_GPSIMD, (uint32_t)row.metadata, n->id, CUSTOM_HINT);
        row.stored = sim_ring_emit(cap, cap->by_use.status[p->pcore_idx], &pool->clock, low, ps, &ts);
    } else {
        bool warning = n->kind == SIM_NOTICE_WARNING;
        row.id = warning ? WARNING_GROUP : INTERRUPT_GROUP;
        row.block = BLOCK_ID;
        row.metadata = (uint32_t)p->instructions;
        low = sim_record_error(warning, row.id, row.block, (uint32_t)row.metadata);
        row.stored = sim_ring_emit(cap, cap->by_use.error[p->pcore_idx], NULL, low, ps, &ts);
    }
    row.ts_ps = ts;
    cap->counts.errors++;
    sim_truth_error(cap->truth, &row);
}

void sim_notices_step(struct sim_core *c, struct sim_pcore *p, uint64_t ps)
{
    for (size_t i = 0; i < c->config.notices.count; i++) {
        const struct sim_notice *n = &c->config.notices.rows[i];
        if (due(c, p, i) > ps)
            continue;
        if (n->kind == SIM_NOTICE_THROTTLE)
            emit_throttle(p, n, p->notice_next[i], ps);
        else if (n->kind == SIM_NOTICE_TPB_ERROR)
            sim_notices_error(p, n->id, metadata_of(p, n), ps);
        else
            emit_other(p, n, ps);
        p->notice_next[i] = n->period_ps ? p->notice_next[i] + n->period_ps : SIM_NEVER;
    }
    schedule(c, p);
}

void sim_notices_end(struct sim_core *c, struct sim_pcore *p, uint64_t ps)
{
    for (size_t i = 0; i < c->config.notices.count; i++) {
        const struct sim_notice *n = &c->config.notices.rows[i];
        if (n->kind == SIM_NOTICE_THROTTLE && p->notice_next[i] < ps)
            emit_throttle(p, n, p->notice_next[i], ps);
        p->notice_next[i] = SIM_NEVER;
    }
}

bool sim_notices_only(const struct sim_agenda *a)
{
    if (sim_agenda_first(a) % SIM_LEAF_CORE != SIM_LEAF_NOTICE)
        return false;
    for (unsigned leaf = 0; leaf < SIM_LEAVES; leaf++)
        if (a->key[leaf] != SIM_NEVER && leaf % SIM_LEAF_CORE != SIM_LEAF_NOTICE)
            return false;
    return true;
}

/* Whether a span holds at a time after the origin, and when that changes; SIM_NEVER: never again. */
static bool holds(const struct sim_notice *n, uint64_t since, uint64_t *ret_left)
{
    if (since < n->at_ps) {
        *ret_left = n->at_ps - since;
        return false;
    }
    since -= n->at_ps;
    if (n->period_ps)
        since %= n->period_ps;
    bool in = since < n->length_ps;
    *ret_left = in ? n->length_ps - since : n->period_ps ? n->period_ps - since : SIM_NEVER;
    return in;
}

/* The least limit at a time, and for how long it stands. */
static uint64_t limit_at(const struct sim_core *c, const struct sim_pcore *p, uint64_t ps, uint64_t *ret_k,
                         uint64_t *ret_n)
{
    uint64_t stands = SIM_NEVER;
    *ret_k = *ret_n = 1;
    for (size_t i = 0; i < c->config.notices.count; i++) {
        const struct sim_notice *n = &c->config.notices.rows[i];
        uint64_t left;
        if (n->kind != SIM_NOTICE_THROTTLE || !concerns(n, p))
            continue;
        if (holds(n, ps - p->origin_ps, &left) && n->k * *ret_n < *ret_k * n->n) {
            *ret_k = n->k;
            *ret_n = n->n;
        }
        stands = left < stands ? left : stands;
    }
    return stands;
}

uint64_t sim_notices_stretch(const struct sim_core *c, const struct sim_pcore *p, uint64_t ps, uint64_t work)
{
    uint64_t at = ps;
    while (c->config.notices.count && work) {
        uint64_t k, n, stands = limit_at(c, p, at, &k, &n), needs = (work * n + k - 1) / k;
        if (needs <= stands)
            return at + needs - ps;
        uint64_t done = stands * k / n;
        work -= done < work ? done : work;
        at += stands;
    }
    return at + work - ps;
}
