#include "driver-iface/sim/sim_ring.h"

#include <stdatomic.h>
#include <string.h>

void sim_ring_init(struct sim_ring *r, struct nq_control *control, uint8_t *data, uint64_t bytes)
{
    *r = (struct sim_ring){.control = control, .data = data, .records = bytes / KYMO_RECORD_SIZE};
}

static void count(_Atomic uint64_t *counter)
{
    /* The producer alone writes it, so no read-modify-write is needed. */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

bool sim_ring_put(struct sim_ring *r, const uint8_t record[KYMO_RECORD_SIZE])
{
    uint64_t head = atomic_load_explicit(&r->control->head, memory_order_acquire);
    uint8_t *slot;
    uint8_t copy[KYMO_RECORD_SIZE];

    count(&r->control->emitted);
    if (head > r->tail || r->tail - head >= r->records) {
        count(&r->control->dropped);
        return false;
    }
    memcpy(copy, record, sizeof copy);
    copy[3] = (uint8_t)((copy[3] & ~NQ_PHASE) | (nq_phase_of(r->tail, r->records) ? NQ_PHASE : 0));
    slot = r->data + (r->tail % r->records) * KYMO_RECORD_SIZE;
    memcpy(slot, copy, sizeof copy);
    r->tail++;
    atomic_store_explicit(&r->control->tail, r->tail, memory_order_release);
    return true;
}

bool sim_ring_mark_last(struct sim_ring *r)
{
    uint64_t head = atomic_load_explicit(&r->control->head, memory_order_acquire);
    uint8_t *mark = r->data + ((r->tail - 1) % r->records) * KYMO_RECORD_SIZE + 3;

    if (r->tail == 0 || head >= r->tail)
        return false;
    __atomic_store_n(mark, (uint8_t)(__atomic_load_n(mark, __ATOMIC_RELAXED) | NQ_HW_MARK), __ATOMIC_RELAXED);
    return true;
}

void sim_ring_restart(struct sim_ring *r)
{
    uint64_t used = r->tail < r->records ? r->tail : r->records;

    memset(r->data, 0, used * KYMO_RECORD_SIZE);
    r->tail = 0;
    atomic_store_explicit(&r->control->emitted, 0, memory_order_relaxed);
    atomic_store_explicit(&r->control->dropped, 0, memory_order_relaxed);
    atomic_store_explicit(&r->control->head, 0, memory_order_relaxed);
    atomic_store_explicit(&r->control->tail, 0, memory_order_release);
}

uint64_t sim_ring_layout(const struct kymo_ring_plan *plan, size_t n, uint64_t offsets[KYMO_RING_PLAN_MAX])
{
    uint64_t at = n * sizeof(struct nq_control);

    for (size_t i = 0; i < n; i++) {
        at = (at + SIM_RING_PAGE - 1) & ~(uint64_t)(SIM_RING_PAGE - 1);
        if (plan[i].bytes > NQ_RING_MAX || at > INT64_MAX - NQ_RING_MAX)
            return 0;
        offsets[i] = at;
        at += plan[i].bytes;
    }
    return (at + SIM_RING_PAGE - 1) & ~(uint64_t)(SIM_RING_PAGE - 1);
}
