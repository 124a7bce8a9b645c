#include "pipeline/semaphores/semaphore_replay.h"

uint32_t semaphore_replay_update(struct semaphore_replay *r, uint8_t mode, uint8_t index, uint32_t operand)
{
    uint32_t *s = &r->semaphore[index];
    switch (mode & ~(KYMO_UPD_COMPLETE | KYMO_UPD_REGISTER)) {
    case KYMO_UPD_EVT_SET:
        return r->event[index] = 1;
    case KYMO_UPD_EVT_CLEAR:
        return r->event[index] = 0;
    case KYMO_UPD_INC:
        return ++*s;
    case KYMO_UPD_DEC:
        return --*s;
    case KYMO_UPD_ADD:
        return *s += operand;
    case KYMO_UPD_SUB:
        return *s -= operand;
    case KYMO_UPD_WRITE:
        return *s = operand;
    default:
        return *s;
    }
}

bool semaphore_replay_wait(struct semaphore_replay *r, uint8_t mode, uint8_t index, uint32_t threshold)
{
    uint32_t s = r->semaphore[index], e = r->event[index];
    switch (mode) {
    case KYMO_WAIT_NONE:
        return true;
    case KYMO_WAIT_EQ:
        return s == threshold;
    case KYMO_WAIT_LT:
        return s < threshold;
    case KYMO_WAIT_LE:
        return s <= threshold;
    case KYMO_WAIT_GT:
        return s > threshold;
    case KYMO_WAIT_GE:
        return s >= threshold;
    case KYMO_WAIT_EVT_SET:
        return e;
    case KYMO_WAIT_EVT_SET_CLEAR:
        r->event[index] = 0;
        return e;
    case KYMO_WAIT_EVT_CLEAR:
        return !e;
    case KYMO_WAIT_EVT_CLEAR_SET:
        r->event[index] = 1;
        return !e;
    default:
        return false;
    }
}
