/*
 * A rank as the parts of the daemon that act on it see it; others get views (jobs.h). Ranks belong to struct jobs and
 * to the loop's thread. A rank lives as long as its process, whose hook may come and go, and then until its last
 * captures are taken over and what it left on disk is gone.
 */
#ifndef KYMO_DAEMON_RANK_H
#define KYMO_DAEMON_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <uv.h>

#include "base/err.h"
#include "base/hash.h"
#include "daemon/hook_session.h"
#include "daemon/intake.h"
#include "daemon/jobs.h"
#include "daemon/process.h"
#include "proto/hook.h"

#define RANK_MODELS_MAX 128
#define RANK_MODEL_NAME_MAX 63
#define RANK_VERSION_MAX 48

struct rank_model {
    uint32_t number; /* as the hook counts them */
    int32_t vnc, vnc_count;
    uint32_t slot;
    uint64_t bytes;
    bool is_loaded;
    uint64_t ticket; /* of the outbox, while it hashes the bytes; 0: it does not */
    bool has_neff;
    bool is_awaited; /* the hook keeps its copy until NEFF_DONE */
    uint8_t sha256[KYMO_SHA256_SIZE];
    char name[RANK_MODEL_NAME_MAX + 1]; /* in its NEFF, of [A-Za-z0-9._-]; "": not known */
};

struct job {
    struct job *next;
    char name[PROCESS_TEXT_MAX + 1];
    size_t nranks;
    uint64_t due_ms; /* of its next periodic capture, by the loop's clock; 0: not set */
    uint64_t turn;   /* periodic captures so far */
    uint64_t dues;   /* times that one was due */
};

enum rank_welcome { RANK_NEW, RANK_WELCOMED, RANK_REFUSED };

struct rank_task;

struct rank {
    struct rank *next;
    struct jobs *jobs;
    struct job *job;
    char key[INTAKE_KEY_MAX];
    struct process who;
    uid_t uid;
    gid_t gid;
    char program[64], hook_version[32];

    unsigned hellos; /* of late */
    uint64_t hellos_since_ms;
    struct hook_session *session; /* NULL: the hook is not connected */
    enum rank_welcome welcome;    /* of the one that is connected */
    char reason[160];             /* why it is not captured */
    struct kymo_hook_policy policy;
    bool policy_sent;
    bool waits_for_reader, is_reading; /* for the worker that reads labels */
    bool is_over;                      /* switched off by the quota, for the reason above */
    uint64_t intake_bytes;             /* as last measured */
    size_t intake_entries;
    uint32_t run_state, armed;
    uint32_t step_model;                    /* number that the hook counts steps by; 0: the most often executed */
    char runtime_version[RANK_VERSION_MAX]; /* "": not told */

    int pidfd;
    bool exited, ended; /* ended: nothing comes from it any more */
    bool is_cleared, removing;
    uv_poll_t exit_poll;
    uv_timer_t timer;
    unsigned handles; /* that still have to close */

    size_t ncores;
    uint32_t cores[JOBS_CORES_MAX];
    size_t nmodels;
    struct rank_model models[RANK_MODELS_MAX];

    struct rank_task *first_task, *last_task; /* one runs, the others wait */
    bool is_working;
    bool is_dirty; /* its state on disk is old */

    bool came_again;     /* its hook was connected before, to another kymod or to this one */
    uint64_t look_at_ms; /* then it is looked for captures whose words got lost; 0: not */
    void *current;       /* the capture that its hook has been asked for */
    unsigned ncaptures;  /* that refer to it */
    unsigned strangers;  /* captures that nobody asked for */
    uint64_t captures, stall_ns, failures, executions; /* of sessions that are over, or told by the hook */
};

/*
 * Work on disks for one rank, on a worker; tasks of a rank run one after the other, in order. done is called on the
 * loop and frees the task; ran is false when the loop ends and work was not called.
 */
struct rank_task {
    uv_work_t req;
    struct rank *rank;
    struct rank_task *next;
    void (*work)(struct rank_task *t);
    void (*done)(struct rank_task *t, bool ran);
};
void rank_queue(struct rank *r, struct rank_task *t);

/* Executions of a rank, as its page tells now. */
struct rank_numbers {
    const struct rank_model *step; /* NULL: nothing is loaded */
    bool is_async;
    uint64_t steps, executions, failures;
    uint64_t p50_ns, p99_ns;
    const struct kymo_hook_model_slot *slot; /* of the step model; NULL: none */
};
void rank_read_numbers(const struct rank *r, struct rank_numbers *ret);
bool rank_can_capture(const struct rank *r);
const struct rank_model *rank_find_model(const struct rank *r, uint32_t number);

/* What the captures want to hear about ranks. */
struct rank_ops {
    void (*ready)(void *ctx, struct rank *r); /* it can be asked, or what it is asked may have changed */
    void (*captured)(void *ctx, struct rank *r, const struct kymo_hook_captured *m);
    void (*refused)(void *ctx, struct rank *r, const struct kymo_hook_refused *m);
    void (*ended)(void *ctx, struct rank *r); /* whoever hears it calls rank_cleared when all of it was looked at */
};

/* A capture refers to the rank. */
void rank_hold(struct rank *r);
void rank_release(struct rank *r);
/* What is left of an ended rank on disk has been seen to: it goes when nobody holds it. */
void rank_cleared(struct rank *r);

#endif
