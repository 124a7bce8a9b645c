/*
 * Jobs and their ranks: what the hooks of this host's training processes have told, under the labels of the processes.
 * A rank is one process with a runtime; a job is what its labels say (KYMO_JOB, SLURM, unit, container, else the
 * process tree). Belongs to the loop's thread.
 */
#ifndef KYMO_DAEMON_JOBS_H
#define KYMO_DAEMON_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/hook.h"

#define JOBS_MAX 256
#define JOBS_RANKS_MAX 1024 /* of all jobs */
#define JOBS_LABELS_MAX 32  /* of one rank */
#define JOBS_TEXT_MAX 255   /* bytes of a name or label */
#define JOBS_CORES_MAX 64   /* logical cores of one rank */

struct jobs;

/* A view of one rank, valid during the call that gives it. */
struct jobs_rank {
    const char *job;
    uint32_t pid, rank, uid;
    bool rank_known;
    size_t ncores;
    const uint32_t *cores; /* logical, of the instance */
    const char *state;     /* starting, ready, closed, off, refused */
    const char *reason;    /* why it is not captured; "": it is */
    const char *mode;      /* armed: none, continuous, on-failure */
    bool capturing, is_async;
    uint64_t step;       /* executions (asynchronous: schedules) of the step model */
    uint64_t executions; /* of all models */
    uint64_t failures, captures, stall_ns;
    uint64_t latency_p50_ns, latency_p99_ns; /* of the step model; 0: not known */
    const char *unit, *slice, *program;
};

/* Calls each for every rank, job by job; a non-zero return ends it and is returned. */
int jobs_each(const struct jobs *j, int (*each)(void *ctx, const struct jobs_rank *r), void *ctx);
size_t jobs_count(const struct jobs *j);
size_t jobs_rank_count(const struct jobs *j);

#endif
