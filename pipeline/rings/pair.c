#include "pipeline/rings/pair.h"

#include <assert.h>
#include <stddef.h>

_Static_assert((PAIR_WINDOW & (PAIR_WINDOW - 1)) == 0, "slots are found by masking");

static struct pair_event *slot(struct pair *p, uint64_t count)
{
    return &p->window[count & (PAIR_WINDOW - 1)];
}

static void give_up(struct pair_event *e, enum pair_reason reason)
{
    e->decided = true;
    e->reason = reason;
}

static struct pair_event *push(struct pair *p)
{
    assert(p->tail - p->head < PAIR_WINDOW);
    struct pair_event *e = slot(p, p->tail++);
    *e = (struct pair_event){0};
    return e;
}

/* The caller pops after each push, so a full window means that its oldest event never ended. */
static void keep_room(struct pair *p)
{
    if (p->tail - p->head == PAIR_WINDOW && !slot(p, p->head)->decided)
        give_up(slot(p, p->head), PAIR_LOST_AFTER);
}

static struct pair_event *oldest_open(struct pair *p, uint32_t pc)
{
    for (uint64_t i = p->head; i < p->tail; i++) {
        struct pair_event *e = slot(p, i);
        if (!e->decided && e->pc == pc)
            return e;
    }
    return NULL;
}

void pair_init(struct pair *p)
{
    p->head = p->tail = 0;
    p->seen_start = p->seen_gap = false;
}

void pair_start(struct pair *p, uint32_t pc, uint64_t ps, uint64_t index, uint16_t wait_cycles)
{
    struct pair_event *before = oldest_open(p, pc);
    if (before)
        give_up(before, PAIR_LOST_AFTER);
    struct pair_event *e = push(p);
    e->pc = pc;
    e->start_ps = ps;
    e->start_index = index;
    e->wait_cycles = wait_cycles;
    e->has_start = true;
    p->seen_start = true;
    keep_room(p);
}

void pair_end(struct pair *p, uint32_t pc, uint64_t ps, uint64_t index, uint16_t crc_in, uint16_t crc_out)
{
    struct pair_event *e = oldest_open(p, pc);
    if (e) {
        give_up(e, PAIR_WHOLE);
    } else {
        e = push(p);
        e->pc = pc;
        give_up(e, p->seen_start || p->seen_gap ? PAIR_LOST_BEFORE : PAIR_OPEN_AT_START);
    }
    e->end_ps = ps;
    e->end_index = index;
    e->crc_in = crc_in;
    e->crc_out = crc_out;
    e->has_end = true;
    keep_room(p);
}

static void give_up_open(struct pair *p, enum pair_reason reason)
{
    for (uint64_t i = p->head; i < p->tail; i++)
        if (!slot(p, i)->decided)
            give_up(slot(p, i), reason);
}

void pair_gap(struct pair *p)
{
    p->seen_gap = true;
    give_up_open(p, PAIR_LOST_AFTER);
}

void pair_finish(struct pair *p)
{
    give_up_open(p, PAIR_OPEN_AT_END);
}

bool pair_pop(struct pair *p, struct pair_event *ret)
{
    if (p->head == p->tail || !slot(p, p->head)->decided)
        return false;
    *ret = *slot(p, p->head++);
    return true;
}

const char *pair_reason_name(enum pair_reason r)
{
    static const char *const names[] = {
        [PAIR_WHOLE] = "",
        [PAIR_LOST_BEFORE] = "lost_before",
        [PAIR_LOST_AFTER] = "lost_after",
        [PAIR_OPEN_AT_END] = "open_at_end",
        [PAIR_OPEN_AT_START] = "open_at_start",
        [PAIR_BACKWARDS] = "backwards",
    };
    return names[r];
}
