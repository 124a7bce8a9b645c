#include "pipeline/flow/flow_history.h"

#include <stddef.h>

static struct flow_update *at(struct flow_target *t, uint32_t back)
{
    return &t->updates[(t->count - back) % FLOW_HISTORY_DEPTH];
}

static void begin_anew(struct flow_target *t, enum flow_prior state, uint32_t prior)
{
    t->count = 0;
    t->prior = prior;
    t->state = (uint8_t)state;
}

void flow_history_forget(struct flow_history *h, bool lost)
{
    for (unsigned i = 0; i < FLOW_TARGETS; i++)
        begin_anew(&h->targets[i], lost ? FLOW_PRIOR_LOST : FLOW_PRIOR_ASSUMED, 0);
}

void flow_history_clear(struct flow_history *h, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count && i < 256; i++) {
        begin_anew(&h->targets[i], FLOW_PRIOR_KNOWN, 0);
        begin_anew(&h->targets[256 + i], FLOW_PRIOR_KNOWN, 0);
    }
}

/* The value before an update that left `value`; false: the mode does not tell. */
static bool value_before(uint8_t mode, const uint32_t *operand, uint32_t value, uint32_t *ret)
{
    switch (mode & ~(unsigned)(KYMO_UPD_COMPLETE | KYMO_UPD_REGISTER)) {
    case KYMO_UPD_INC:
        *ret = value - 1;
        return true;
    case KYMO_UPD_DEC:
        *ret = value + 1;
        return true;
    case KYMO_UPD_ADD:
        *ret = value - (operand ? *operand : 0);
        return operand != NULL;
    case KYMO_UPD_SUB:
        *ret = value + (operand ? *operand : 0);
        return operand != NULL;
    default:
        return false;
    }
}

static bool current(struct flow_target *t, uint32_t *ret)
{
    *ret = t->count ? at(t, 1)->value : t->prior;
    return t->count || t->state == FLOW_PRIOR_KNOWN;
}

void flow_history_update(struct flow_history *h, unsigned target, uint8_t mode, const uint32_t *operand,
                         const struct flow_update *update)
{
    struct flow_target *t = &h->targets[target];
    uint32_t before, now;
    bool told = value_before(mode, operand, update->value, &before);
    if (told && (!current(t, &now) || now != before))
        begin_anew(t, FLOW_PRIOR_KNOWN, before);
    t->updates[t->count++ % FLOW_HISTORY_DEPTH] = *update;
}

static bool holds(uint8_t mode, uint32_t value, uint32_t limit)
{
    switch (mode) {
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
    case KYMO_WAIT_EVT_CLEAR:
    case KYMO_WAIT_EVT_CLEAR_SET:
        return value == 0;
    default:
        return false;
    }
}

/* Everything that is remembered holds: what was before it decides. */
static enum flow_met beyond(const struct flow_target *t, const struct kymo_sync *wait, uint64_t since,
                            const struct flow_update *oldest)
{
    if (t->count > FLOW_HISTORY_DEPTH)
        return FLOW_MET_LONG;
    if (t->state == FLOW_PRIOR_LOST)
        /* The instruction still waited when this update came, so it did not hold before. */
        return oldest && oldest->ps > since ? FLOW_MET_BY : FLOW_MET_LOST;
    if (holds(wait->wait_mode, t->prior, wait->wait_value))
        return FLOW_MET_BEFORE;
    return oldest ? FLOW_MET_BY : FLOW_MET_LOST;
}

enum flow_met flow_history_met(struct flow_history *h, unsigned target, const struct kymo_sync *wait, uint32_t value,
                               uint64_t since, const struct flow_update **ret)
{
    struct flow_target *t = &h->targets[target];
    uint32_t now;
    *ret = NULL;
    if (current(t, &now) && now != value) {
        begin_anew(t, FLOW_PRIOR_LOST, 0);
        return FLOW_MET_LOST;
    }
    if (wait->wait_mode & KYMO_WAIT_REGISTER) {
        if (!t->count || at(t, 1)->ps <= since)
            return FLOW_MET_REGISTER;
        *ret = at(t, 1);
        return FLOW_MET_BY;
    }
    uint32_t seen = t->count < FLOW_HISTORY_DEPTH ? t->count : FLOW_HISTORY_DEPTH;
    for (uint32_t k = 1; k <= seen; k++) {
        if (!holds(wait->wait_mode, at(t, k)->value, wait->wait_value))
            return *ret ? FLOW_MET_BY : FLOW_MET_LOST;
        *ret = at(t, k);
    }
    enum flow_met met = beyond(t, wait, since, *ret);
    if (met != FLOW_MET_BY)
        *ret = NULL;
    return met;
}

void flow_history_flip(struct flow_history *h, unsigned target, uint8_t wait_mode, uint64_t ps)
{
    if (wait_mode != KYMO_WAIT_EVT_SET_CLEAR && wait_mode != KYMO_WAIT_EVT_CLEAR_SET)
        return;
    struct flow_update flipped = {
        .ps = ps, .id = -1, .prior = -1, .value = wait_mode == KYMO_WAIT_EVT_CLEAR_SET, .writer = FLOW_WRITER_UNKNOWN};
    flow_history_update(h, target, KYMO_UPD_NONE, NULL, &flipped);
}
