#include "pipeline/crew.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>

#include "base/alloc.h"

struct crew {
    pthread_mutex_t lock;
    pthread_cond_t work, quiet;
    crew_step step;
    void *ctx;
    uint64_t wakes;
    unsigned inside, count, ready;
    bool stop;
    pthread_t threads[CREW_MAX];
};

static void *serve(void *arg)
{
    struct crew *c = arg;
    uint64_t seen = 0;
    (void)pthread_mutex_lock(&c->lock);
    c->ready++;
    (void)pthread_cond_broadcast(&c->quiet);
    for (;;) {
        while (!c->stop && (!c->step || seen == c->wakes))
            (void)pthread_cond_wait(&c->work, &c->lock);
        if (c->stop)
            break;
        crew_step step = c->step;
        void *ctx = c->ctx;
        seen = c->wakes;
        c->inside++;
        (void)pthread_mutex_unlock(&c->lock);
        while (step(ctx)) {
        }
        (void)pthread_mutex_lock(&c->lock);
        if (--c->inside == 0)
            (void)pthread_cond_broadcast(&c->quiet);
    }
    (void)pthread_mutex_unlock(&c->lock);
    return NULL;
}

static void destroy(struct crew *c)
{
    (void)pthread_cond_destroy(&c->quiet);
    (void)pthread_cond_destroy(&c->work);
    (void)pthread_mutex_destroy(&c->lock);
    kymo_free(c);
}

struct crew *crew_new(unsigned threads)
{
    struct crew *c = KYMO_NEW(struct crew);
    sigset_t all, before;
    if (!c)
        return NULL;
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->work, NULL);
    (void)pthread_cond_init(&c->quiet, NULL);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    while (c->count < threads && c->count < CREW_MAX && pthread_create(&c->threads[c->count], NULL, serve, c) == 0)
        c->count++;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    /* The C library's part of a thread's start makes calls that a sandbox does not allow. */
    (void)pthread_mutex_lock(&c->lock);
    while (c->ready < c->count)
        (void)pthread_cond_wait(&c->quiet, &c->lock);
    (void)pthread_mutex_unlock(&c->lock);
    if (c->count)
        return c;
    destroy(c);
    return NULL;
}

struct crew *crew_free(struct crew *c)
{
    if (!c)
        return NULL;
    (void)pthread_mutex_lock(&c->lock);
    c->stop = true;
    (void)pthread_cond_broadcast(&c->work);
    (void)pthread_mutex_unlock(&c->lock);
    for (unsigned i = 0; i < c->count; i++)
        (void)pthread_join(c->threads[i], NULL);
    destroy(c);
    return NULL;
}

void crew_lend(struct crew *c, crew_step step, void *ctx)
{
    if (!c)
        return;
    (void)pthread_mutex_lock(&c->lock);
    c->step = step;
    c->ctx = ctx;
    while (!step && c->inside)
        (void)pthread_cond_wait(&c->quiet, &c->lock);
    (void)pthread_mutex_unlock(&c->lock);
}

void crew_wake(struct crew *c)
{
    if (!c)
        return;
    (void)pthread_mutex_lock(&c->lock);
    c->wakes++;
    (void)pthread_cond_broadcast(&c->work);
    (void)pthread_mutex_unlock(&c->lock);
}
