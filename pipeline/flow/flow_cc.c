#include "pipeline/flow/flow_cc.h"

#include <errno.h>
#include <string.h>

#include "arch/layout.h"
#include "arch/opcode.h"
#include "base/alloc.h"
#include "pipeline/job.h"
#include "pipeline/spill/sort_spill.h"

#define SEMAPHORES 256
#define RUN 4096    /* collectives sorted at once */
#define TRIGGERS 16 /* that start at one time: one of each engine */

struct trigger { /* sorted by its start */
    uint64_t ps;
    struct flow_collective started;
    uint32_t row; /* static */
};

struct ended { /* sorted by time */
    struct flow_end end;
    uint64_t semaphore;
};

struct core {
    struct sort_spill *ended;
    struct ended next;
    bool has_next;
    struct flow_ends ends[SEMAPHORES];
    bool counted[SEMAPHORES]; /* a program has a collective that counts it up */
};

struct flow_cc {
    const struct timebase *timebase;
    struct core cores[INPUT_CORES_MAX];
    struct sort_spill *triggers;
    struct trigger next;
    bool has_next, lossy;
    struct trigger here[TRIGGERS]; /* that start with the latest instruction */
    unsigned here_count;
};

static bool lossy(const struct job *j)
{
    for (size_t i = 0; i < j->scan.count; i++) {
        const struct scan_ring *r = &j->scan.rings[i];
        uint64_t lost = 0;
        if (r->ring.kind == NTFF__RING_KIND__RING_CC_CORE_INSTRUCTION && (r->gaps || (ledger_lost(r, &lost) && lost)))
            return true;
    }
    return false;
}

/* Semaphores that the triggers which ran name, whether their collectives are in the trace or not. */
static void note_semaphores(struct flow_cc *c, const struct statics *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct static_row *row = &s->rows[i];
        const uint8_t *rec =
            row->program && row->slot >= 0 ? program_compiler_record(row->program, (size_t)row->slot) : NULL;
        uint64_t id;
        if (rec && rec[0] == KYMO_OP_PSEUDO_TRIGGER_COLLECTIVE &&
            kymo_layout_get(s->in->arch, rec, KYMO_F_DMA_SEM, &id) && id < SEMAPHORES)
            c->cores[row->pcore].counted[id] = true;
    }
}

int flow_cc_open(const struct job *j, struct flow_cc **ret, struct kymo_err *err)
{
    struct flow_cc *c = KYMO_NEW(struct flow_cc);
    if (!c)
        return kymo_err_set(err, -ENOMEM, "no memory for the ends of collectives");
    c->timebase = &j->timebase;
    c->lossy = lossy(j);
    note_semaphores(c, &j->statics);
    int r = sort_spill_open(j->dir, sizeof(struct trigger), RUN, &c->triggers, err);
    for (unsigned p = 0; p < INPUT_CORES_MAX && r == 0; p++)
        r = sort_spill_open(j->dir, sizeof(struct ended), RUN, &c->cores[p].ended, err);
    if (r < 0) {
        flow_cc_free(c);
        return r;
    }
    *ret = c;
    return 0;
}

struct flow_cc *flow_cc_free(struct flow_cc *c)
{
    if (!c)
        return NULL;
    for (unsigned p = 0; p < INPUT_CORES_MAX; p++)
        sort_spill_free(c->cores[p].ended);
    sort_spill_free(c->triggers);
    kymo_free(c);
    return NULL;
}

int flow_cc_collective(struct flow_cc *c, const struct consumer_collective *one, struct kymo_err *err)
{
    struct trigger t = {.ps = one->trigger_ps, .started = {one->id, one->start, one->end}, .row = one->trigger_row};
    int r = one->has_trigger ? sort_spill_add(c->triggers, (int64_t)t.ps, &t, err) : 0;
    if (r < 0 || one->semaphore < 0)
        return r;
    struct ended e = {{one->end_ps, one->id}, (uint64_t)one->semaphore};
    return sort_spill_add(c->cores[one->pcore].ended, (int64_t)e.end.ps, &e, err);
}

static int next_trigger(struct flow_cc *c, struct kymo_err *err)
{
    const void *next;
    int r = sort_spill_next(c->triggers, &next, err);
    c->has_next = r > 0;
    if (r > 0)
        memcpy(&c->next, next, sizeof c->next);
    return r < 0 ? r : 0;
}

static int next_ended(struct core *p, struct kymo_err *err)
{
    const void *next;
    int r = sort_spill_next(p->ended, &next, err);
    p->has_next = r > 0;
    if (r > 0)
        memcpy(&p->next, next, sizeof p->next);
    return r < 0 ? r : 0;
}

int flow_cc_seal(struct flow_cc *c, struct kymo_err *err)
{
    int r = sort_spill_merge(c->triggers, err);
    if (r == 0)
        r = next_trigger(c, err);
    for (unsigned p = 0; p < INPUT_CORES_MAX && r == 0; p++) {
        r = sort_spill_merge(c->cores[p].ended, err);
        if (r == 0)
            r = next_ended(&c->cores[p], err);
    }
    return r;
}

/* Triggers at ps; those before it had no row. */
static int take_triggers(struct flow_cc *c, uint64_t ps, struct kymo_err *err)
{
    int r = 0;
    c->here_count = c->here_count && c->here[0].ps == ps ? c->here_count : 0;
    while (r == 0 && c->has_next && c->next.ps <= ps) {
        if (c->next.ps == ps && c->here_count < TRIGGERS)
            c->here[c->here_count++] = c->next;
        r = next_trigger(c, err);
    }
    return r;
}

int flow_cc_started(struct flow_cc *c, const struct instr_row *row, struct flow_collective *ret, struct kymo_err *err)
{
    int r = c->here_count || c->has_next ? take_triggers(c, row->start_ps, err) : 0;
    for (unsigned k = 0; k < c->here_count && r == 0; k++)
        if (c->here[k].row == row->row) {
            *ret = c->here[k].started;
            return 1;
        }
    return r;
}

static int take_ends(struct core *p, uint64_t ps, struct kymo_err *err)
{
    int r = 0;
    while (r == 0 && p->has_next && p->next.end.ps <= ps) {
        flow_ends_add(&p->ends[p->next.semaphore], &p->next.end);
        r = next_ended(p, err);
    }
    return r;
}

int flow_cc_find(struct flow_cc *c, unsigned pcore, unsigned semaphore, uint64_t ps, struct flow_found *ret,
                 struct kymo_err *err)
{
    struct core *p = &c->cores[pcore];
    int r = take_ends(p, ps + FLOW_REACH_EXACT_PS, err);
    uint64_t reach = c->lossy ? FLOW_REACH_EXACT_PS : FLOW_REACH_PS;
    const struct flow_end *best = flow_ends_near(&p->ends[semaphore % SEMAPHORES], ps, reach);
    if (r < 0 || !best)
        return r;
    *ret = (struct flow_found){
        .id = best->id, .end = timebase_ns(c->timebase, best->ps), .distance = flow_ends_distance(best, ps)};
    return 1;
}

bool flow_cc_lost(const struct flow_cc *c, unsigned pcore, unsigned semaphore)
{
    return c->lossy && c->cores[pcore].counted[semaphore % SEMAPHORES];
}
