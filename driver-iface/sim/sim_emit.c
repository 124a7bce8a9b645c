/* Records into rings: clock, phase, marks, counters. */
#include "base/le.h"
#include "driver-iface/sim/sim_internal.h"

uint64_t sim_clock_raw(const struct sim_clock *k, uint64_t ps)
{
    if (k->actual_inc == k->expected_inc || ps <= k->init)
        return ps;
    unsigned __int128 n = (unsigned __int128)(ps - k->init) * k->actual_inc;
    return k->init + (uint64_t)((n + k->expected_inc - 1) / k->expected_inc);
}

uint64_t sim_clock_corrected(const struct sim_clock *k, uint64_t raw)
{
    if (k->actual_inc == k->expected_inc || raw <= k->init)
        return raw;
    return k->init + (uint64_t)((unsigned __int128)(raw - k->init) * k->expected_inc / k->actual_inc);
}

uint64_t sim_clock_seen(const struct sim_clock *k, uint64_t ps)
{
    return sim_clock_corrected(k, sim_clock_raw(k, ps));
}

/* The ring was full: bit 30 on the last record stored, if nobody has taken it away yet. */
static void note_drop(struct sim_capture *cap, int ring, uint64_t ps)
{
    struct sim_ring_state *r = &cap->rings[ring];
    if (!r->dropped)
        r->first_dropped_ps = ps;
    r->dropped++;
    r->last_dropped_ps = ps;
    if (r->loss_open)
        return;
    r->loss_open = true;
    if (r->stored && cap->sink.mark_last && cap->sink.mark_last(cap->sink.ctx, (size_t)ring))
        r->xor_low ^= SIM_MARK_LOST_AFTER;
}

bool sim_ring_emit(struct sim_capture *cap, int ring, const struct sim_clock *clock, uint64_t low, uint64_t ps,
                   uint64_t *ret_ps)
{
    uint64_t raw = ps;
    if (clock && clock->actual_inc != clock->expected_inc) {
        raw = sim_clock_raw(clock, ps);
        ps = sim_clock_corrected(clock, raw);
    }
    *ret_ps = ps;
    if (!cap || ring < 0)
        return false;
    struct sim_ring_state *r = &cap->rings[ring];
    r->emitted++;
    cap->emitted++;
    /* The first pass has phase 1: a ring begins as zeroes. */
    if (!(r->stored >> r->wrap_shift & 1))
        low |= SIM_MARK_PHASE;
    if (r->loss_open)
        low |= SIM_MARK_LOST_BEFORE;
    uint8_t record[KYMO_RECORD_SIZE];
    kymo_put_le64(record, low);
    kymo_put_le64(record + 8, raw);
    if (!cap->sink.put(cap->sink.ctx, (size_t)ring, record)) {
        note_drop(cap, ring, ps);
        return false;
    }
    if (!r->stored || ps < r->first_ps)
        r->first_ps = ps;
    if (ps > r->last_ps)
        r->last_ps = ps;
    r->stored++;
    r->loss_open = false;
    r->sum_raw += raw;
    r->xor_low ^= low;
    r->xor_high ^= raw;
    return true;
}
