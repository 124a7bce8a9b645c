#include "driver-iface/sim/sim_gather.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "base/alloc.h"

#define NS_PER_MS 1000000
#define NS_PER_S 1000000000

/* One joint execution, from the first rank's coming to the last one's going. */
struct team {
    struct team *next;
    uint64_t job;
    unsigned world, here, users;
    bool done;
    int result;
    void *members[SIM_GATHER_RANKS_MAX];
};

struct sim_gather {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct team *forming; /* teams that are not complete */
};

struct sim_gather *sim_gather_new(void)
{
    struct sim_gather *g = KYMO_NEW(struct sim_gather);
    pthread_condattr_t attributes;

    if (!g)
        return NULL;
    (void)pthread_mutex_init(&g->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&g->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return g;
}

struct sim_gather *sim_gather_free(struct sim_gather *g)
{
    if (!g)
        return NULL;
    for (struct team *t = g->forming, *next; t; t = next) {
        next = t->next;
        kymo_free(t);
    }
    (void)pthread_cond_destroy(&g->changed);
    (void)pthread_mutex_destroy(&g->lock);
    kymo_free(g);
    return NULL;
}

static struct team *find_team(struct sim_gather *g, const struct sim_gather_place *at, struct kymo_err *err)
{
    struct team *t = g->forming;

    while (t && (t->job != at->job || t->world != at->world))
        t = t->next;
    if (t)
        return t;
    t = KYMO_NEW(struct team);
    if (!t) {
        (void)kymo_err_set(err, -ENOMEM, "no memory for %u ranks", at->world);
        return NULL;
    }
    t->job = at->job;
    t->world = at->world;
    t->next = g->forming;
    g->forming = t;
    return t;
}

static void unlink_team(struct sim_gather *g, const struct team *t)
{
    struct team **at = &g->forming;

    while (*at && *at != t)
        at = &(*at)->next;
    if (*at)
        *at = t->next;
}

static void leave(struct sim_gather *g, struct team *t)
{
    if (--t->users)
        return;
    unlink_team(g, t);
    kymo_free(t);
}

static struct timespec deadline_of(unsigned ms)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * NS_PER_MS;
    if (t.tv_nsec >= NS_PER_S) {
        t.tv_nsec -= NS_PER_S;
        t.tv_sec++;
    }
    return t;
}

/* Lock held. The team runs without it: forming teams of other jobs go on. */
static int run_team(struct sim_gather *g, struct team *t, int (*run)(void *ctx, void *const *all, unsigned n),
                    void *ctx)
{
    unlink_team(g, t);
    (void)pthread_mutex_unlock(&g->lock);
    int r = run(ctx, t->members, t->world);
    (void)pthread_mutex_lock(&g->lock);
    t->result = r;
    t->done = true;
    (void)pthread_cond_broadcast(&g->changed);
    return r;
}

static int wait_for_team(struct sim_gather *g, struct team *t, const struct sim_gather_place *at, struct kymo_err *err)
{
    struct timespec deadline = deadline_of(at->timeout_ms);
    int r = 0;

    /* A complete team is waited for to its end: what it does is bounded by itself. */
    while (!t->done && (r != ETIMEDOUT || t->here == t->world))
        r = r == ETIMEDOUT ? pthread_cond_wait(&g->changed, &g->lock)
                           : pthread_cond_timedwait(&g->changed, &g->lock, &deadline);
    if (t->done)
        return t->result;
    unsigned here = t->here;
    t->members[at->rank] = NULL;
    t->here--;
    return kymo_err_set(err, -ETIMEDOUT, "collectives: rank %u waited %u ms for the others, %u of %u were there",
                        at->rank, at->timeout_ms, here, at->world);
}

int sim_gather_meet(struct sim_gather *g, const struct sim_gather_place *at, void *mine,
                    int (*run)(void *ctx, void *const *all, unsigned n), void *ctx, struct kymo_err *err)
{
    int r;

    if (at->world < 2 || at->world > SIM_GATHER_RANKS_MAX || at->rank >= at->world)
        return kymo_err_set(err, -EINVAL, "rank %u of %u: at most %u ranks", at->rank, at->world, SIM_GATHER_RANKS_MAX);
    (void)pthread_mutex_lock(&g->lock);
    struct team *t = find_team(g, at, err);
    if (!t) {
        r = -ENOMEM;
    } else if (t->members[at->rank]) {
        r = kymo_err_set(err, -EBUSY, "collectives: two processes are rank %u of %u", at->rank, at->world);
    } else {
        t->members[at->rank] = mine;
        t->users++;
        t->here++;
        r = t->here == t->world ? run_team(g, t, run, ctx) : wait_for_team(g, t, at, err);
        leave(g, t);
    }
    (void)pthread_mutex_unlock(&g->lock);
    return r;
}
