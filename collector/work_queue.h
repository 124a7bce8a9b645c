/*
 * Makes profiles of what the catalogue has queued: a bounded number of processors in sandboxes (runner.h), kymo-process
 * first and an external one for what that cannot decode; results are published to
 * <data-path>/profiles/global/<name>@latest and recorded. A processor that crashes costs its profile and nothing else.
 * Never blocks but in work_queue_wait. Not thread-safe; the thread that turns it must live as long as it does.
 */
#ifndef KYMO_COLLECTOR_WORK_QUEUE_H
#define KYMO_COLLECTOR_WORK_QUEUE_H

#include "collector/catalog.h"
#include "collector/external.h"
#include "collector/raw_store.h"
#include "collector/runner.h"

#define WORK_QUEUE_CHILDREN_MAX 64
#define WORK_QUEUE_KILLS_MAX 3 /* processors of a profile that may be killed from outside until it has failed */

struct work_queue_config {
    const char *data_path;
    struct catalog *catalog; /* all pointers must outlive the queue */
    const struct raw_store *raw;
    const char *process_program;     /* path of kymo-process */
    const char *gather_program;      /* path of kymo-gather; NULL: no parents, no rows for the fleet */
    const char *cluster;             /* in the fleet's tables; NULL with gather_program NULL */
    uint64_t gather_settle_ms;       /* nothing has come of a request for so long: its parent is made */
    uint64_t gather_limit_ms;        /* and after so long in any case */
    struct runner_limits limits;     /* of one kymo-process */
    const struct external *external; /* NULL: none */
    unsigned children;               /* at a time, 1 to WORK_QUEUE_CHILDREN_MAX */
    uint64_t retry_ms;               /* until what found no room or was killed is tried again */
    /* After each change of a profile's state or progress; may be NULL. */
    void (*changed)(void *ctx, const struct catalog_profile *p);
    void *ctx;
};

struct work_queue;

/* Empties <data-path>/work, where a predecessor may have left something. */
int work_queue_open(const struct work_queue_config *config, struct work_queue **ret,
                    struct kymo_err *err) KYMO_MUST_CHECK;
/*
 * Other limits, programs and numbers from now on; data_path, catalog, raw, changed and ctx stay. What is at work goes
 * on under the old limits. What the former configuration pointed to is not used afterwards. -EINVAL as work_queue_open.
 */
int work_queue_configure(struct work_queue *q, const struct work_queue_config *config,
                         struct kymo_err *err) KYMO_MUST_CHECK;
/* Ends what is running; those profiles stay processing, and catalog_recover queues them. */
struct work_queue *work_queue_free(struct work_queue *q);

/*
 * Takes in what has ended or said something, and starts what waits. Returns the number of processors at work. An error
 * is one of the catalogue (such as -ENOSPC): the outcome is kept and the next turn tries again.
 */
int work_queue_turn(struct work_queue *q, struct kymo_err *err) KYMO_MUST_CHECK;
/* Readable when a turn has something to do, for an event loop. */
int work_queue_fd(const struct work_queue *q);
/* When a turn is due even so: milliseconds, -1 never. */
int work_queue_timeout_ms(const struct work_queue *q);
/* Waits for either, at most max_ms. */
void work_queue_wait(const struct work_queue *q, int max_ms);

/* A processor is at work for this profile, be it for rows of the fleet of tables that are being replaced. */
bool work_queue_has(const struct work_queue *q, const char *profile);

/* Where a profile is published; the caller frees it. NULL without memory. */
char *work_queue_place(const char *data_path, const char *profile);

#endif
