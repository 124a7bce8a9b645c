/* Executions of several ranks side by side: one common order of events, and the places where ranks meet. */
#include <errno.h>

#include "base/alloc.h"
#include "driver-iface/sim/sim_internal.h"

#define MEET_PS 500000u /* from the last arrival until everybody knows (G) */
#define MEETINGS_MAX 65536

/* One group of ranks at one collective, while not all are there. */
struct meeting {
    const struct neff_replica_set *group; /* of the first to come; others' sets are compared by their first rank */
    uint32_t op;
    unsigned arrived;
    uint64_t last_ps; /* common time */
};

struct sim_joint {
    struct sim_joint_rank *ranks;
    unsigned n;
    struct meeting *meetings;
    size_t count, cap;
};

static struct sim_execution *exec_of(const struct sim_joint_rank *k)
{
    return &k->core->execs[k->first_pcore];
}

static struct meeting *find_meeting(struct sim_joint *j, const struct neff_replica_set *group, uint32_t op)
{
    for (size_t i = 0; i < j->count; i++)
        if (j->meetings[i].op == op && j->meetings[i].group->ranks[0] == group->ranks[0])
            return &j->meetings[i];
    if (kymo_grow((void **)&j->meetings, &j->cap, j->count + 1, MEETINGS_MAX, sizeof *j->meetings) < 0)
        return NULL;
    j->meetings[j->count] = (struct meeting){.group = group, .op = op};
    return &j->meetings[j->count++];
}

/* Word of the last arrival reaches each rank a little later or earlier; always the same for the same collective. */
static uint64_t spread(unsigned rank, uint64_t sequence)
{
    uint64_t h = (rank + 1) * 0x9E3779B97F4A7C15ull ^ (sequence + 1) * 0xBF58476D1CE4E5B9ull;
    return (h ^ h >> 29) & 0x1FFFF;
}

static void release(struct sim_joint *j, struct meeting *m, unsigned stream)
{
    for (size_t i = 0; i < m->group->count; i++) {
        unsigned rank = m->group->ranks[i];
        if (rank >= j->n)
            continue;
        struct sim_execution *x = exec_of(&j->ranks[rank]);
        uint64_t local = m->last_ps + MEET_PS + spread(rank, x->streams[stream].sequence);
        sim_cc_release(x, stream, local + j->ranks[rank].skew_ps);
    }
    *m = j->meetings[--j->count];
}

void sim_joint_arrive(struct sim_execution *x, const struct sim_core_image *ci, const struct sim_cc_op *op, uint64_t ps)
{
    struct sim_joint *j = x->joint;
    const struct neff_replica_set *group = sim_image_group(ci, op, x->rank);
    struct meeting *m = j && group ? find_meeting(j, group, op->id) : NULL;
    if (!m) {
        x->error = kymo_err_set(x->err, -ENOTCONN, "collective %u has nobody to meet", op->id);
        return;
    }
    uint64_t common = ps - j->ranks[x->rank].skew_ps;
    m->last_ps = common > m->last_ps ? common : m->last_ps;
    if (++m->arrived == m->group->count)
        release(j, m, op->stream);
}

/* A rank's own sequence of chance, so that it does not matter what else has happened on its device. */
static uint64_t seed_of(const struct sim_joint_rank *k, unsigned rank, uint64_t count)
{
    uint64_t s = k->core->config.seed * 0x9E3779B97F4A7C15ull ^ (rank + 1) * 0xD1B54A32D192ED03ull ^
                 (count + 1) * 0x94D049BB133111EBull;
    return s ? s : 1;
}

static void begin_rank(struct sim_joint *j, unsigned rank)
{
    struct sim_joint_rank *k = &j->ranks[rank];
    struct sim_core *c = k->core;
    struct sim_execution *x = exec_of(k);
    uint64_t outer = c->rng;
    x->rank = rank;
    x->joint = j;
    c->rng = seed_of(k, rank, x->count++);
    sim_core_set_slow(c, k->slow_factor != 0 ? k->slow_factor : 1);
    k->error = sim_exec_begin(c, k->first_pcore, k->image, k->fail, k->err);
    if (k->error == 0)
        *k->result = (struct sim_exec_result){.start_ps = c->now[k->first_pcore], .end_ps = c->now[k->first_pcore]};
    x->rng = c->rng;
    c->rng = outer;
}

static bool is_over(const struct sim_joint_rank *k)
{
    const struct sim_execution *x = exec_of(k);
    return k->error < 0 || x->failed || x->error < 0;
}

/* The rank whose next event comes first in common time; ties go to the lower rank. NULL: none has one. */
static struct sim_joint_rank *next_rank(struct sim_joint *j, uint64_t *ret_ps)
{
    struct sim_joint_rank *best = NULL;
    uint64_t first = SIM_NEVER;
    bool alive = false; /* some rank has more than notices to come */
    for (unsigned r = 0; r < j->n; r++) {
        struct sim_joint_rank *k = &j->ranks[r];
        const struct sim_agenda *a = &exec_of(k)->agenda;
        uint64_t ps = a->key[sim_agenda_first(a)];
        if (ps == SIM_NEVER || is_over(k))
            continue;
        bool only = sim_notices_only(a);
        alive |= !only;
        if (ps - k->skew_ps >= first || (only && sim_exec_check_halted(k->core, k->first_pcore, NULL) == 0))
            continue;
        first = ps - k->skew_ps;
        best = k;
        *ret_ps = ps;
    }
    return alive ? best : NULL;
}

static void run_all(struct sim_joint *j)
{
    struct sim_joint_rank *k;
    uint64_t ps = 0;
    while ((k = next_rank(j, &ps))) {
        struct sim_execution *x = exec_of(k);
        uint64_t outer = k->core->rng;
        k->core->rng = x->rng;
        k->result->end_ps = ps;
        sim_exec_step(k->core, x, sim_agenda_first(&x->agenda), ps);
        x->rng = k->core->rng;
        k->core->rng = outer;
        if (x->error)
            k->error = x->error;
        else if (ps - k->result->start_ps > SIM_RUN_PS_MAX)
            k->error = kymo_err_set(k->err, -ETIMEDOUT, "the execution takes more than an hour of device time");
    }
}

/* Who waits for a collective that can no longer come to its end has that as its status, not an error. */
static void settle(struct sim_joint *j)
{
    bool broken = false;
    for (unsigned r = 0; r < j->n; r++)
        broken |= is_over(&j->ranks[r]);
    for (unsigned r = 0; r < j->n; r++) {
        struct sim_joint_rank *k = &j->ranks[r];
        struct sim_execution *x = exec_of(k);
        for (unsigned p = 0; k->error == 0 && !x->failed && p < k->core->config.lnc; p++)
            sim_notices_end(k->core, &k->core->pcores[k->first_pcore + p], k->result->end_ps);
        k->core->now[k->first_pcore] = k->result->end_ps;
        if (k->error == 0 && x->failed)
            k->result->status = SIM_STATUS_WITH_ERROR;
        else if (k->error == 0)
            k->error = sim_exec_check_halted(k->core, k->first_pcore, broken ? NULL : k->err);
        if (broken && k->error == -EDEADLK) {
            k->error = 0;
            k->result->status = SIM_STATUS_COLLECTIVES;
        }
        x->joint = NULL;
        x->err = NULL;
    }
}

int sim_core_execute_joint(struct sim_joint_rank *ranks, unsigned n, struct kymo_err *err)
{
    struct sim_joint j = {.ranks = ranks, .n = n};
    for (unsigned r = 0; r < n; r++) {
        unsigned world = sim_image_world(ranks[r].image);
        if (world != n)
            return kymo_err_set(err, -EINVAL, "rank %u: its program is for %u ranks, there are %u", r, world, n);
    }
    for (unsigned r = 0; r < n; r++)
        begin_rank(&j, r);
    run_all(&j);
    settle(&j);
    kymo_free(j.meetings);
    return 0;
}
