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

#include <uv.h>

#include "base/err.h"
#include "proto/hook.h"

#define JOBS_MAX 256
#define JOBS_RANKS_MAX 1024 /* of all jobs */
#define JOBS_LABELS_MAX 32  /* of one rank */
#define JOBS_TEXT_MAX 255   /* bytes of a name or label */
#define JOBS_CORES_MAX 64   /* logical cores of one rank */

struct jobs;
struct config;
struct host;
struct hook_session_ops;
struct job;
struct learned;
struct outbox;
struct rank;
struct rank_ops;

/* Everything pointed to stays the caller's and must outlive it. */
struct jobs_config {
    uv_loop_t *loop;
    const struct config *config;
    const struct host *host;
    const struct learned *learned;
    const char *intake; /* directory, see intake.h */
    const struct rank_ops *ops;
    void *ctx;
};
int jobs_new(const struct jobs_config *config, struct jobs **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* The hook server is stopped before. The loop must run until its handles are closed. NULL is fine; returns NULL. */
struct jobs *jobs_free(struct jobs *j);
/* For the hook server, with the jobs as context. */
extern const struct hook_session_ops jobs_session_ops;
/* NEFFs go there; NULL before it is there and when it has stopped. */
void jobs_set_outbox(struct jobs *j, struct outbox *o);
/* The end of an outbox_add_neff; false: it was not for a rank. */
bool jobs_neff(struct jobs *j, uint64_t ticket, int code, const uint8_t *sha256, const struct kymo_err *err);
/* After a reload: policies that differ go to their ranks. */
void jobs_reconfigure(struct jobs *j, const struct config *config);
/* Makes ranks of what a former kymod left in the intake: those of dead processes end at once. */
int jobs_adopt(struct jobs *j, struct kymo_err *err) KYMO_MUST_CHECK;
/* All ranks, for those who act on them; a rank that is not live has no session. */
struct rank *jobs_first(const struct jobs *j);
struct job *jobs_first_job(const struct jobs *j);

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
    uint64_t start;                          /* of the process, with its pid unique in this boot */
    const struct kymo_hook_model_slot *slot; /* of the step model, in the page that the job writes: anything may stand
                                                there at any time, to be read with atomic loads; NULL: none */
    const char *unit, *slice, *program;
    const char *runtime_version; /* "": not told */
    uint32_t step_model;         /* number in the process; 0: nothing is loaded */
};

/* Calls each for every rank, job by job; a non-zero return ends it and is returned. */
int jobs_each(const struct jobs *j, int (*each)(void *ctx, const struct jobs_rank *r), void *ctx);
size_t jobs_count(const struct jobs *j);
size_t jobs_rank_count(const struct jobs *j);

#endif
