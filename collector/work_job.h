/* One profile at work: its paths and arguments, and what the end of its processor means. */
#ifndef KYMO_COLLECTOR_WORK_JOB_H
#define KYMO_COLLECTOR_WORK_JOB_H

#include <stdbool.h>

#include "collector/publish.h"
#include "collector/work_queue.h"

#define WORK_JOB_NEFFS_MAX 64

/* KILLED: from outside, so that another try may end otherwise. */
enum work_outcome { WORK_RUNNING, WORK_READY, WORK_FAILED, WORK_LATER, WORK_KILLED, WORK_HAND_OVER };

/* An NTFF to tables; members to a parent's tables; tables to rows of the fleet's. */
enum work_kind { WORK_PROFILE, WORK_PARENT, WORK_FLEET };

struct work_job {
    enum work_kind kind;
    struct catalog_profile profile;
    char *directory, *output;          /* of its own; where the tables are made */
    char *ntff, *manifest;             /* of a system profile, its ntrace.pb stands for the NTFF */
    char *members;                     /* of a parent: file that lists them */
    bool system;                       /* no device profile */
    bool tables;                       /* ready ones: ntff is one of them, and nothing is to be made */
    char *devices[WORK_JOB_NEFFS_MAX]; /* NAME=NTFF of the session's device profiles */
    size_t device_count;
    char *neffs[WORK_JOB_NEFFS_MAX];
    size_t neff_count;
    bool external; /* the external processor is at work */
    struct runner *runner;
    enum work_outcome outcome;
    char reason[KYMO_ERR_TEXT_MAX];
    int64_t offset;
    struct publish_counts counts;
    uint64_t records;
    char schema_version[64];
    char external_schema[64]; /* of the external processor's tables, unless it says its own */
    uint64_t wall_ms;         /* its limit */
};

/* Fills paths from the manifest, or lists the members, and makes an empty directory. fleet: the rows of a profile that
 * is ready. */
int work_job_open(struct work_job *j, const struct work_queue_config *c, const struct catalog_profile *p, bool fleet,
                  const char *directory, struct kymo_err *err) KYMO_MUST_CHECK;
/* Ends a processor that is still running, removes the directory. */
void work_job_done(struct work_job *j);
int work_job_start(struct work_job *j, const struct work_queue_config *c, struct kymo_err *err) KYMO_MUST_CHECK;
/* Looks whether the processor has ended; publishes what it made. Sets the outcome once. */
void work_job_turn(struct work_job *j, const struct work_queue_config *c);

#endif
