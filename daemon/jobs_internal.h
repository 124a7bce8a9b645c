/* What the files of jobs share. */
#ifndef KYMO_DAEMON_JOBS_INTERNAL_H
#define KYMO_DAEMON_JOBS_INTERNAL_H

#include "daemon/jobs.h"
#include "daemon/pins.h"
#include "daemon/quota.h"
#include "daemon/rank.h"
#include "daemon/say.h"

/* Of the program's 16 workers: processes whose labels are being read, which may hang as long as they like. */
#define JOBS_READERS_MAX 12

struct jobs {
    struct jobs_config config;
    struct outbox *outbox;
    struct rank *ranks;
    struct job *jobs;
    size_t nranks, njobs;
    unsigned readers;
    bool stopping;
    uint64_t handles; /* of ranks and of the quota that still close */
    struct quota *quota;
    struct pins pins;
    struct say_limit say;
};

/* rank.c */
int rank_new(struct jobs *j, const char *key, uid_t uid, gid_t gid, struct rank **ret,
             struct kymo_err *err) KYMO_MUST_CHECK;
struct rank *rank_find(const struct jobs *j, const char *key);
void rank_set_job(struct rank *r, const char *name);
/* Waits for the end of the process; pidfd becomes the rank's. */
void rank_watch_exit(struct rank *r, int pidfd);
/* Looks whether anything may still come from it, and tells when not. */
void rank_check_end(struct rank *r);
void rank_save_state(struct rank *r);
/* Tells the hook which copies of NEFFs are needed no more. saved: the rank's state on disk names those that are kept.
 */
void rank_tell_neffs(struct rank *r, bool saved);
void rank_load_state(struct rank *r, const Kymo__Manifest__Capture *who);
void rank_free(struct rank *r);

/* jobs.c */
void rank_forget_models(struct rank *r);

/* rank_step.c: the model that the policy names */
/* Number of the first loaded model that the operator's wish (step-model in CONFIG.md) matches; 0: none, or no wish. */
uint32_t rank_step_model(const struct rank *r, const char *wish);
/* The name in a NEFF's header, in characters that a model's name may have; "": it has none. */
void rank_read_neff_name(int fd, char ret[RANK_MODEL_NAME_MAX + 1]);
/* Models have come, gone or become known: tells the hook when another one is meant now. */
void rank_check_step_model(struct rank *r);

/* rank_welcome.c */
void rank_welcome(struct rank *r, struct hook_session *s, const struct kymo_hook_hello *h);
void rank_send_policy(struct rank *r, int intake);
/* Labels and the intake directory once more, and the policy after that. */
void rank_read_again(struct rank *r);

#endif
