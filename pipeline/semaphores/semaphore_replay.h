/*
 * Replays semaphores and events of one core from their updates, to find which update met a wait (facts: neff.md 2.2).
 * Values are 32 bits; an update below 0 or beyond 32 bits wraps. Not thread-safe; plain data.
 */
#ifndef KYMO_PIPELINE_SEMAPHORE_REPLAY_H
#define KYMO_PIPELINE_SEMAPHORE_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/layout.h"

#define SEMAPHORE_REPLAY_COUNT 256

struct semaphore_replay {
    uint32_t semaphore[SEMAPHORE_REPLAY_COUNT];
    uint32_t event[SEMAPHORE_REPLAY_COUNT]; /* 0 or 1 */
};

/* mode: an update code of the instruction's (at read or at completion); index: semaphore or event by the mode. Returns
 * the value after it. */
uint32_t semaphore_replay_update(struct semaphore_replay *r, uint8_t mode, uint8_t index, uint32_t operand);
/* Does the condition hold now? A wait that flips its event does so when it is met. Register forms are never met. */
bool semaphore_replay_wait(struct semaphore_replay *r, uint8_t mode, uint8_t index, uint32_t threshold);

#endif
