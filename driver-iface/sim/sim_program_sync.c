/*
 * Finds dependencies and turns them into waits. Text order is the order of emission. A node needs the last writer of
 * what it touches, a writer also the readers since; within one engine order is enough, across engines the needed node
 * signals. A loop's body is walked twice: what the second walk needs from the first is carried from iteration to
 * iteration.
 */
#include <errno.h>
#include <string.h>

#include "driver-iface/sim/sim_program_internal.h"

#define READERS_MAX 64 /* the latest of each engine and walk, and transfers still under way */

struct use {
    uint32_t node; /* index into out, NODE_NONE: none */
    uint8_t walk;
};

struct buffer_state {
    struct use writer;
    struct use readers[READERS_MAX];
    unsigned reader_count;
};

struct sync {
    struct sim_program *p;
    struct buffer_state *bufs;
    size_t first; /* of the segment in out */
    unsigned walk;
    /* What engine e knows to be done of engine f: position in out plus one, by walk. */
    uint64_t known[KYMO_ENGINE_MAX][KYMO_ENGINE_MAX];
};

static uint64_t position(struct use u)
{
    return ((uint64_t)u.walk << 32) + u.node + 1;
}

static unsigned find_channel(struct sync *s, const struct channel *want)
{
    struct sim_program *p = s->p;
    for (unsigned i = 0; i < p->channel_count; i++) {
        const struct channel *c = &p->channels[i];
        bool same = c->dma ? c->queue == want->queue && c->buf == want->buf : c->from == want->from;
        if (c->to == want->to && c->dma == want->dma && same)
            return i;
    }
    if (p->channel_count == CHANNELS_MAX) {
        sim_program_fail(p, -ENOSPC, "the program needs more than %d semaphores", CHANNELS_MAX);
        return 0;
    }
    p->channels[p->channel_count] = *want;
    p->channels[p->channel_count].semaphore = (uint8_t)(CHANNEL_FIRST_SEMAPHORE + p->channel_count);
    return p->channel_count++;
}

static void add_wait(struct sync *s, uint32_t node, struct node_wait w)
{
    struct node *n = &s->p->out[node];
    if (n->wait_count == NODE_WAIT_MAX) {
        sim_program_fail(s->p, -E2BIG, "an instruction waits for more than %d things", NODE_WAIT_MAX);
        return;
    }
    n->wait[n->wait_count++] = w;
}

/* Node n waits for engine node m of this walk or the one before. */
static void wait_for_engine(struct sync *s, uint32_t n, struct use m)
{
    enum kymo_engine to = s->p->out[n].engine, from = s->p->out[m.node].engine;
    if (to == from || s->known[to][from] >= position(m))
        return;
    s->known[to][from] = position(m);
    unsigned c = find_channel(s, &(struct channel){.to = to, .from = from});
    s->p->out[m.node].signals |= (uint8_t)(1u << to);
    bool carried = m.walk < s->walk;
    s->p->channels[c].carried |= carried;
    add_wait(s, n, (struct node_wait){.channel = (uint16_t)c, .carried = carried, .from = m.node});
}

/* A wait of its own for an engine: appended to out at the end of what is there. */
static uint32_t append_sync(struct sync *s, enum kymo_engine e, uint32_t bir)
{
    struct sim_program *p = s->p;
    if (!sim_program_grow(p, (void **)&p->out, &p->out_cap, p->out_count + 1, 2 * SIM_PROGRAM_NODES_MAX,
                          sizeof *p->out))
        return NODE_NONE;
    struct node *n = &p->out[p->out_count];
    *n = (struct node){.kind = NODE_SYNC, .engine = e, .bir = bir, .acquired_by = NODE_NONE};
    kymo_instr_init(n->rec, KYMO_OP_EVENT_SEMAPHORE);
    return (uint32_t)p->out_count++;
}

/* Node n is the one that waits for transfer d: its semaphore is settled now. */
static void acquire(struct sync *s, uint32_t n, uint32_t d)
{
    struct node *t = &s->p->out[d];
    struct channel want = {.to = s->p->out[n].engine, .dma = true, .queue = t->queue, .buf = t->chip_buf};
    unsigned c = find_channel(s, &want);
    struct channel *ch = &s->p->channels[c];
    ch->total += t->amount;
    t->acquired_by = n;
    if (t->rec[0] == KYMO_OP_PSEUDO_DMA_DIRECT2D || t->rec[0] == KYMO_OP_PSEUDO_TRIGGER_COLLECTIVE)
        sim_program_set(s->p, t, KYMO_F_DMA_SEM, ch->semaphore);
    else
        s->p->blocks[t->block].semaphore = ch->semaphore;
    add_wait(s, n, (struct node_wait){.channel = (uint16_t)c, .from = NODE_NONE, .amount = ch->total});
}

/*
 * Nodes that need transfers by engines that cannot wait for them themselves get those waits placed before them. So
 * relays are settled for all accesses of an emitted node before it is appended to out itself.
 */
static bool needs_relay(const struct sync *s, struct use m, enum kymo_engine e)
{
    if (m.node == NODE_NONE || m.walk != s->walk)
        return false;
    const struct node *d = &s->p->out[m.node];
    return d->kind == NODE_DMA && d->acquired_by == NODE_NONE && d->store && d->engine != e;
}

static void relay(struct sync *s, struct use m, enum kymo_engine e)
{
    if (!needs_relay(s, m, e))
        return;
    uint32_t r = append_sync(s, s->p->out[m.node].engine, s->p->out[m.node].bir);
    if (r != NODE_NONE)
        acquire(s, r, m.node);
}

static void need(struct sync *s, uint32_t n, struct use m)
{
    if (m.node == NODE_NONE || (m.node == n && m.walk == s->walk))
        return;
    const struct node *node = &s->p->out[m.node];
    if (node->kind == NODE_DMA) {
        if (node->acquired_by == NODE_NONE) {
            acquire(s, n, m.node);
            return;
        }
        if (node->acquired_by == n)
            return;
        m.node = node->acquired_by;
    }
    /* The first walk has settled what lies within one iteration. */
    if (s->walk == 0 || m.walk < s->walk)
        wait_for_engine(s, n, m);
}

static void note_dep(struct sync *s, uint32_t n, struct use m, enum dep_kind kind)
{
    struct sim_program *p = s->p;
    if (m.node == NODE_NONE || s->walk)
        return;
    uint32_t to = p->out[n].bir, from = p->out[m.node].bir;
    if (to == NODE_NONE || from == NODE_NONE || to == from)
        return;
    struct bir *b = &p->birs[to];
    for (uint32_t i = 0; i < b->dep_count; i++)
        if (p->deps[b->dep_first + i].bir == from && p->deps[b->dep_first + i].kind == kind)
            return;
    if (!sim_program_grow(p, (void **)&p->deps, &p->dep_cap, p->dep_count + 1, 16 * SIM_PROGRAM_NODES_MAX,
                          sizeof *p->deps))
        return;
    if (b->dep_count == 0)
        b->dep_first = (uint32_t)p->dep_count;
    /* Nodes of one operation follow each other, so its dependencies are adjacent. */
    p->deps[p->dep_count++] = (struct dep){.bir = from, .kind = kind};
    b->dep_count++;
}

/* A transfer that somebody has waited for counts as that node's reading from then on. */
static struct use settled(const struct sync *s, struct use u)
{
    const struct node *n = &s->p->out[u.node];
    if (n->kind == NODE_DMA && n->acquired_by != NODE_NONE)
        u.node = n->acquired_by;
    return u;
}

static void add_reader(struct sync *s, struct buffer_state *b, uint32_t n)
{
    struct sim_program *p = s->p;
    struct use new = settled(s, (struct use){.node = n, .walk = (uint8_t)s->walk});
    bool pending = p->out[new.node].kind == NODE_DMA && p->out[new.node].acquired_by == NODE_NONE;
    for (unsigned i = 0; i < b->reader_count; i++) {
        struct use *old = &b->readers[i];
        *old = settled(s, *old);
        bool old_pending = p->out[old->node].kind == NODE_DMA && p->out[old->node].acquired_by == NODE_NONE;
        if (!pending && !old_pending && old->walk == new.walk && p->out[old->node].engine == p->out[new.node].engine) {
            if (old->node < new.node)
                old->node = new.node;
            return;
        }
    }
    if (b->reader_count == READERS_MAX) {
        sim_program_fail(p, -E2BIG, "a buffer has more than %d readers at once", READERS_MAX);
        return;
    }
    b->readers[b->reader_count++] = new;
}

static void visit_access(struct sync *s, uint32_t n, const struct node_access *a)
{
    struct buffer_state *b = &s->bufs[a->buf];
    bool store = s->p->out[n].kind == NODE_DMA && s->p->out[n].store && s->p->out[n].chip_buf == a->buf;
    note_dep(s, n, b->writer, a->write ? DEP_OUTPUT : DEP_FLOW);
    need(s, n, b->writer);
    for (unsigned i = 0; i < b->reader_count; i++) {
        struct use r = b->readers[i];
        /* Two stores from one buffer would share a semaphore: they follow each other. */
        if (!a->write && !(store && s->p->out[r.node].kind == NODE_DMA))
            continue;
        note_dep(s, n, r, a->write ? DEP_ANTI : DEP_ORDERED);
        need(s, n, r);
    }
    if (a->write) {
        b->writer = (struct use){.node = n, .walk = (uint8_t)s->walk};
        b->reader_count = 0;
    } else {
        add_reader(s, b, n);
    }
}

/* What node n of this walk already waits for is known to its engine when the loop comes round. */
static void recall_waits(struct sync *s, uint32_t n)
{
    const struct node *node = &s->p->out[n];
    for (unsigned i = 0; s->walk && i < node->wait_count; i++) {
        const struct node_wait *w = &node->wait[i];
        if (w->from == NODE_NONE || w->carried)
            continue;
        enum kymo_engine from = s->p->out[w->from].engine;
        struct use u = {.node = w->from, .walk = (uint8_t)s->walk};
        if (s->known[node->engine][from] < position(u))
            s->known[node->engine][from] = position(u);
    }
}

static void visit(struct sync *s, uint32_t index)
{
    recall_waits(s, index);
    for (unsigned i = 0; i < s->p->out[index].access_count && !s->p->error; i++) {
        struct node_access a = s->p->out[index].access[i];
        visit_access(s, index, &a);
    }
}

static void append(struct sync *s, const struct node *n)
{
    struct sim_program *p = s->p;
    for (unsigned i = 0; i < n->access_count; i++) {
        const struct buffer_state *b = &s->bufs[n->access[i].buf];
        relay(s, b->writer, n->engine);
        for (unsigned r = 0; r < b->reader_count; r++)
            if (n->access[i].write || n->kind == NODE_DMA)
                relay(s, b->readers[r], n->engine);
    }
    if (!sim_program_grow(p, (void **)&p->out, &p->out_cap, p->out_count + 1, 2 * SIM_PROGRAM_NODES_MAX,
                          sizeof *p->out))
        return;
    p->out[p->out_count++] = *n;
    visit(s, (uint32_t)(p->out_count - 1));
}

/* Transfers that nobody waited for are waited for by their engine at the segment's end. */
static void flush(struct sync *s)
{
    struct sim_program *p = s->p;
    size_t end = p->out_count;
    for (size_t i = s->first; i < end && !p->error; i++) {
        if (p->out[i].kind != NODE_DMA || p->out[i].acquired_by != NODE_NONE)
            continue;
        uint32_t r = append_sync(s, p->out[i].engine, p->out[i].bir);
        if (r != NODE_NONE)
            acquire(s, r, (uint32_t)i);
    }
}

static void begin_segment(struct sync *s)
{
    s->first = s->p->out_count;
    s->walk = 0;
    memset(s->known, 0, sizeof s->known);
    for (size_t i = 0; i < s->p->buf_count; i++)
        s->bufs[i] = (struct buffer_state){.writer = {.node = NODE_NONE}};
    for (unsigned c = 0; c < s->p->channel_count; c++) {
        s->p->channels[c].total = 0;
        s->p->channels[c].carried = false;
    }
}

/* All engines tell Sync that they are here, Sync tells them to go on. */
static void barrier(struct sync *s)
{
    uint32_t here[KYMO_ENGINE_MAX];
    for (int e = 0; e < KYMO_ENGINE_MAX; e++)
        here[e] = e == KYMO_ENGINE_SYNC ? NODE_NONE : append_sync(s, (enum kymo_engine)e, NODE_NONE);
    uint32_t all = append_sync(s, KYMO_ENGINE_SYNC, NODE_NONE);
    for (int e = 0; e < KYMO_ENGINE_MAX && !s->p->error; e++)
        if (e != KYMO_ENGINE_SYNC)
            wait_for_engine(s, all, (struct use){.node = here[e]});
    for (int e = 0; e < KYMO_ENGINE_MAX && !s->p->error; e++) {
        if (e == KYMO_ENGINE_SYNC)
            continue;
        uint32_t go = append_sync(s, (enum kymo_engine)e, NODE_NONE);
        if (go != NODE_NONE)
            wait_for_engine(s, go, (struct use){.node = all});
    }
}

static void end_straight(struct sync *s, bool loop_follows)
{
    flush(s);
    if (loop_follows && !s->p->error)
        barrier(s);
    if (!s->p->error)
        (void)sim_program_lower(s->p, s->first, s->p->out_count, 1, false);
    begin_segment(s);
}

static void end_loop(struct sync *s, uint32_t trips)
{
    flush(s);
    size_t end = s->p->out_count;
    s->walk = 1;
    for (size_t i = s->first; i < end && trips > 1 && !s->p->error; i++)
        visit(s, (uint32_t)i);
    if (!s->p->error)
        (void)sim_program_lower(s->p, s->first, end, trips, true);
    begin_segment(s);
    if (!s->p->error)
        barrier(s);
}

int sim_program_sync(struct sim_program *p)
{
    struct sync s = {.p = p, .bufs = KYMO_NEW_ARRAY(struct buffer_state, p->buf_count)};
    if (!s.bufs) {
        sim_program_fail(p, -ENOMEM, "out of memory");
        return p->error;
    }
    begin_segment(&s);
    uint32_t trips = 1;
    for (size_t i = 0; i < p->node_count && !p->error; i++) {
        if (p->nodes[i].kind == NODE_LOOP_BEGIN) {
            trips = p->nodes[i].trips;
            end_straight(&s, true);
        } else if (p->nodes[i].kind == NODE_LOOP_END) {
            end_loop(&s, trips);
        } else {
            append(&s, &p->nodes[i]);
        }
    }
    if (!p->error)
        end_straight(&s, false);
    kymo_free(s.bufs);
    return p->error;
}
