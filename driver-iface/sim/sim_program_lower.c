/* Nodes with waits and signals into instruction records (the protocol of the semaphores stands in sim_program.h). */
#include <errno.h>
#include <string.h>

#include "driver-iface/sim/sim_program_internal.h"

#define SYNC_MAX (CHANNELS_MAX + NODE_WAIT_MAX)
#define NO_CHANNEL CHANNELS_MAX

struct lower {
    struct sim_program *p;
    size_t first, end;
    uint32_t trips;
    unsigned channel_of[KYMO_ENGINE_MAX][KYMO_ENGINE_MAX]; /* [from][to] */
    uint64_t weight;                                       /* executions of what is being emitted */
};

/* Waits and updates on their way into records. */
struct sync_list {
    struct kymo_sync list[SYNC_MAX];
    unsigned count;
};

static struct stream *append_record(struct lower *l, enum kymo_engine e, const uint8_t *rec, uint32_t bir)
{
    struct sim_program *p = l->p;
    struct stream *s = &p->streams[e];
    if (!sim_program_grow(p, (void **)&s->code, &s->code_cap, s->count + 1, SIM_PROGRAM_NODES_MAX, KYMO_INSTR_SIZE) ||
        !sim_program_grow(p, (void **)&s->bir, &s->bir_cap, s->count + 1, SIM_PROGRAM_NODES_MAX, sizeof *s->bir))
        return NULL;
    memcpy(s->code + s->count * KYMO_INSTR_SIZE, rec, KYMO_INSTR_SIZE);
    s->bir[s->count++] = bir;
    p->stats.static_instructions++;
    /* The loader takes labels out. */
    p->stats.executed_instructions += rec[0] == KYMO_OP_PSEUDO_BRANCH_LABEL ? 0 : l->weight;
    return s;
}

static void put_sync(uint8_t *rec, unsigned slot, const struct kymo_sync *s)
{
    if (slot == 1) {
        kymo_instr_set_sync2(rec, s);
        return;
    }
    kymo_instr_set_wait(rec, s->wait_mode, s->wait_idx, s->wait_value);
    kymo_instr_set_update(rec, s->update_mode, s->update_idx, s->update_value);
}

/* EVENT_SEMAPHOREs for list[from, to), two sets in each. */
static void append_syncs(struct lower *l, enum kymo_engine e, const struct sync_list *s, unsigned from, unsigned to,
                         uint32_t bir)
{
    for (unsigned i = from; i < to; i += 2) {
        uint8_t rec[KYMO_INSTR_SIZE];
        kymo_instr_init(rec, KYMO_OP_EVENT_SEMAPHORE);
        put_sync(rec, 0, &s->list[i]);
        if (i + 1 < to)
            put_sync(rec, 1, &s->list[i + 1]);
        (void)append_record(l, e, rec, bir);
    }
}

static uint32_t credit_of(const struct channel *c)
{
    return c->carried ? c->total : 0;
}

static void add_wait(struct sync_list *s, const struct channel *c, uint32_t value)
{
    for (unsigned i = 0; i < s->count; i++) {
        if (s->list[i].wait_idx != c->semaphore)
            continue;
        if (s->list[i].wait_value < value)
            s->list[i].wait_value = value;
        return;
    }
    s->list[s->count++] = (struct kymo_sync){.wait_mode = KYMO_WAIT_GE, .wait_idx = c->semaphore, .wait_value = value};
}

static void lower_node(struct lower *l, const struct node *n)
{
    struct sim_program *p = l->p;
    struct sync_list waits = {.count = 0}, updates = {.count = 0};
    for (unsigned i = 0; i < n->wait_count; i++) {
        const struct node_wait *w = &n->wait[i];
        const struct channel *c = &p->channels[w->channel];
        uint32_t value = w->amount;
        if (w->from != NODE_NONE)
            value = p->out[w->from].signal_index[n->engine] + (w->carried ? 0 : credit_of(c));
        add_wait(&waits, c, value);
    }
    for (unsigned to = 0; to < KYMO_ENGINE_MAX; to++)
        if (n->signals >> to & 1)
            updates.list[updates.count++] =
                (struct kymo_sync){.update_mode = KYMO_UPD_INC | KYMO_UPD_COMPLETE,
                                   .update_idx = p->channels[l->channel_of[n->engine][to]].semaphore};
    unsigned room = n->kind == NODE_SYNC ? 2 : 1;
    unsigned own_waits = waits.count < room ? waits.count : room;
    unsigned own_updates = updates.count < room ? updates.count : room;
    unsigned before = waits.count - own_waits;
    append_syncs(l, n->engine, &waits, 0, before, n->bir);
    uint8_t rec[KYMO_INSTR_SIZE];
    memcpy(rec, n->rec, sizeof rec);
    for (unsigned k = 0; k < room; k++) {
        struct kymo_sync s = {0};
        if (k < own_waits)
            s = waits.list[before + k];
        if (k < own_updates) {
            s.update_mode = updates.list[k].update_mode;
            s.update_idx = updates.list[k].update_idx;
        }
        put_sync(rec, k, &s);
    }
    (void)append_record(l, n->engine, rec, n->bir);
    append_syncs(l, n->engine, &updates, own_updates, updates.count, n->bir);
}

/* What each engine takes off its semaphores once per iteration or at the end of straight code. */
static void lower_drains(struct lower *l, enum kymo_engine e, bool credits)
{
    struct sync_list s = {.count = 0};
    for (unsigned i = 0; i < l->p->channel_count; i++) {
        const struct channel *c = &l->p->channels[i];
        uint32_t n = credits ? credit_of(c) : c->total;
        if (c->to != e || n == 0)
            continue;
        s.list[s.count++] = (struct kymo_sync){.wait_mode = KYMO_WAIT_GE,
                                               .wait_idx = c->semaphore,
                                               .wait_value = n,
                                               .update_mode = KYMO_UPD_SUB,
                                               .update_idx = c->semaphore,
                                               .update_value = n};
    }
    append_syncs(l, e, &s, 0, s.count, NODE_NONE);
}

static void lower_credits(struct lower *l, enum kymo_engine e)
{
    struct sync_list s = {.count = 0};
    for (unsigned i = 0; i < l->p->channel_count; i++) {
        const struct channel *c = &l->p->channels[i];
        if (!c->dma && c->from == e && credit_of(c))
            s.list[s.count++] = (struct kymo_sync){
                .update_mode = KYMO_UPD_ADD, .update_idx = c->semaphore, .update_value = credit_of(c)};
    }
    append_syncs(l, e, &s, 0, s.count, NODE_NONE);
}

static void number_signals(struct lower *l)
{
    struct sim_program *p = l->p;
    for (size_t f = 0; f < KYMO_ENGINE_MAX; f++)
        for (size_t t = 0; t < KYMO_ENGINE_MAX; t++)
            l->channel_of[f][t] = NO_CHANNEL;
    for (unsigned i = 0; i < p->channel_count; i++)
        if (!p->channels[i].dma)
            l->channel_of[p->channels[i].from][p->channels[i].to] = i;
    for (size_t i = l->first; i < l->end; i++)
        for (unsigned to = 0; to < KYMO_ENGINE_MAX; to++)
            if (p->out[i].signals >> to & 1)
                p->out[i].signal_index[to] = ++p->channels[l->channel_of[p->out[i].engine][to]].total;
}

static void append_control(struct lower *l, enum kymo_engine e, uint8_t opcode, const enum kymo_field *fields,
                           const uint64_t *values, unsigned n)
{
    struct node control = {0};
    kymo_instr_init(control.rec, opcode);
    for (unsigned i = 0; i < n; i++)
        sim_program_set(l->p, &control, fields[i], values[i]);
    (void)append_record(l, e, control.rec, NODE_NONE);
}

static void open_loop(struct lower *l, enum kymo_engine e, uint32_t label)
{
    static const enum kymo_field move[] = {KYMO_F_REG_DST, KYMO_F_VALUE}, mark[] = {KYMO_F_LABEL};
    l->weight = 1;
    lower_credits(l, e);
    append_control(l, e, KYMO_OP_MOVE, move, (const uint64_t[]){SIM_LOOP_REGISTER, 0}, 2);
    append_control(l, e, KYMO_OP_PSEUDO_BRANCH_LABEL, mark, (const uint64_t[]){label}, 1);
    l->weight = l->trips;
}

static void close_loop(struct lower *l, enum kymo_engine e, uint32_t label, size_t label_at)
{
    static const enum kymo_field alu[] = {KYMO_F_REG_DST, KYMO_F_REG_A, KYMO_F_ALU_OP, KYMO_F_VALUE};
    static const enum kymo_field branch[] = {KYMO_F_REG_A, KYMO_F_BRANCH_OP, KYMO_F_VALUE, KYMO_F_TARGET, KYMO_F_LABEL};
    lower_drains(l, e, false);
    append_control(l, e, KYMO_OP_ALU_OP, alu, (const uint64_t[]){SIM_LOOP_REGISTER, SIM_LOOP_REGISTER, KYMO_ALU_ADD, 1},
                   4);
    uint64_t target = (uint64_t)label_at - (uint64_t)l->p->streams[e].count;
    append_control(l, e, KYMO_OP_COMPARE_BRANCH, branch,
                   (const uint64_t[]){SIM_LOOP_REGISTER, KYMO_BR_LT, l->trips, target, label}, 5);
    l->weight = 1;
    lower_drains(l, e, true);
}

int sim_program_lower(struct sim_program *p, size_t first, size_t end, uint32_t trips, bool loop)
{
    struct lower l = {.p = p, .first = first, .end = end, .trips = trips, .weight = 1};
    bool used[KYMO_ENGINE_MAX] = {false};
    size_t label_at[KYMO_ENGINE_MAX] = {0};
    uint32_t label[KYMO_ENGINE_MAX] = {0};
    for (size_t i = first; i < end; i++)
        used[p->out[i].engine] = true;
    number_signals(&l);
    for (size_t e = 0; loop && e < KYMO_ENGINE_MAX; e++) {
        if (!used[e])
            continue;
        label[e] = ++p->label_count;
        open_loop(&l, (enum kymo_engine)e, label[e]);
        label_at[e] = p->streams[e].count - 1;
    }
    l.weight = trips;
    for (size_t i = first; i < end && !p->error; i++)
        lower_node(&l, &p->out[i]);
    for (size_t e = 0; e < KYMO_ENGINE_MAX && !p->error; e++) {
        if (!used[e])
            continue;
        l.weight = trips;
        if (loop)
            close_loop(&l, (enum kymo_engine)e, label[e], label_at[e]);
        else
            lower_drains(&l, (enum kymo_engine)e, false);
    }
    return p->error;
}
