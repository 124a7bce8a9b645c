/*
 * The thread that owns a store (store.h) and its work queue: whatever waits for a disk, the catalogue or a child is
 * done there, while the loop goes on. Jobs go to it in the order they are posted, and come back to the loop in the
 * order they are over. All functions belong to the loop's thread unless they say otherwise.
 */
#ifndef KYMO_COLLECTOR_STORE_THREAD_H
#define KYMO_COLLECTOR_STORE_THREAD_H

#include <uv.h>

#include "collector/store.h"
#include "collector/work_queue.h"

struct store_thread;

/* To be the first member of what a caller posts; the callers bound how many there are. */
struct store_job {
    struct store_job *next; /* the thread's */
    /* On the store's thread. false: it is not over; store_thread_give_back follows. Every job that is posted runs, also
     * while the thread is being stopped (store_thread_is_stopping). */
    bool (*run)(struct store_job *j, struct store_thread *t);
    void (*done)(struct store_job *j); /* on the loop; the job is the caller's again */
};

struct store_thread_config {
    uv_loop_t *loop;
    const char *data_path;
    uint64_t reserve; /* as store_open */
    struct work_queue_config
        work;     /* what it points to must outlive the thread; data_path, catalog and raw are filled in */
    bool no_work; /* profiles only wait */
    /* On the store's thread, now and then and after jobs, for what waits for its time. May be NULL. */
    void (*tick)(void *ctx, struct store_thread *t);
    /* On the loop. A profile's state or progress has changed. May be NULL. */
    void (*changed)(void *ctx, const struct catalog_profile *p);
    /* On the loop. The work queue or the catalogue has a trouble of its own, such as a full disk; NULL text: it is
     * over. */
    void (*trouble)(void *ctx, const char *text);
    void (*ended)(void *ctx); /* on the loop: the thread has stopped, store_thread_free will not wait */
    void *ctx;
};

/* Opens the store, on its thread, and waits for it: errors as store_open and work_queue_open have them. */
int store_thread_new(const struct store_thread_config *config, struct store_thread **ret,
                     struct kymo_err *err) KYMO_MUST_CHECK;
/* Also for jobs of the store's thread, while it is not being stopped: one that posts itself is not over. */
void store_thread_post(struct store_thread *t, struct store_job *j);
/* Ends its children, runs what is posted, then config->ended. Nothing may be posted afterwards. */
void store_thread_stop(struct store_thread *t);
/* Waits for the thread. The loop must run once more before it is closed. NULL is fine; returns NULL. */
struct store_thread *store_thread_free(struct store_thread *t);

/* Moves about once a second as long as the thread does not hang; any thread. */
uint64_t store_thread_beats(const struct store_thread *t);

/* The following belong to the store's thread. */
struct store *store_thread_store(struct store_thread *t);
/* There is work for the queue. */
void store_thread_wake_work(struct store_thread *t);
/* NULL with no_work. */
struct work_queue *store_thread_work(struct store_thread *t);
void store_thread_give_back(struct store_thread *t, struct store_job *j);
void *store_thread_ctx(const struct store_thread *t);        /* config->ctx; any thread */
bool store_thread_is_stopping(const struct store_thread *t); /* any thread */

#endif
