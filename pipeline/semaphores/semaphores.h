/*
 * Updates of semaphores and events from the EVENT rings, and met waits as operation none. Each source (an engine, or
 * AXI) is in time order within a ring; the sources are merged.
 */
#ifndef KYMO_PIPELINE_SEMAPHORES_H
#define KYMO_PIPELINE_SEMAPHORES_H

#include <stdint.h>

#include "base/err.h"
#include "formats/ntff/record.h"

/* What a record says, in the table's words. */
struct semaphore_row {
    char id[16]; /* S[15], E[3] */
    int32_t value;
    const char *source;    /* Tensor ... Sync, AXI */
    const char *operation; /* sem_inc, ..., none, unknown */
    const char *timing;    /* read, complete; NULL: neither */
    uint8_t mode;
    bool double_set_or_clear;
};
struct semaphore_row semaphores_row(const struct record *rec);

struct job;
/* The pass over the rings; its events go to the consumers. */
int job_semaphores(struct job *j, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
