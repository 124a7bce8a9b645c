#include "tests/unit/sim_interpreter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/layout.h"
#include "arch/opcode.h"
#include "base/alloc.h"

#define SEMAPHORES 256
#define ACTORS (KYMO_ENGINE_MAX + SEMAPHORES) /* a transfer acts as the semaphore that tells its end */
#define CELL 64
#define SBUF_CELLS (256 * 1024 / CELL)
#define PSUM_CELLS (16 * 1024 / CELL)
#define PENDING_MAX 4096
#define STEPS_MAX 20000000ull

struct clock {
    uint32_t at[ACTORS];
};

struct cell {
    uint32_t write_tick, read_tick[ACTORS];
    uint16_t writer;
    bool written;
};

/* What was added so far: unit k carries everything known when it was added and all before. */
struct semaphore {
    uint32_t value;
    uint64_t added, subtracted, cap;
    struct clock *history;
};

struct pending { /* a transfer under way: units still to come */
    unsigned semaphore, units, step;
    struct clock clock;
};

struct engine {
    const struct neff_engine *neff;
    size_t pc;
    unsigned phase; /* sync sets done */
    uint32_t reg[KYMO_REGISTERS];
    struct clock clock;
};

struct machine {
    const struct kymo_arch *arch;
    const struct neff_subgraph *sg;
    struct engine engines[KYMO_ENGINE_MAX];
    struct semaphore semaphores[SEMAPHORES];
    struct cell sbuf[SBUF_CELLS], psum[PSUM_CELLS];
    struct pending pending[PENDING_MAX];
    unsigned pending_count;
    uint64_t random;
    struct interpreter_result result;
};

static uint64_t next_random(struct machine *m)
{
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return m->random;
}

static void join(struct clock *to, const struct clock *from)
{
    for (unsigned i = 0; i < ACTORS; i++)
        if (to->at[i] < from->at[i])
            to->at[i] = from->at[i];
}

static void trouble(struct machine *m, const char *what, int engine, size_t pc, unsigned detail)
{
    if (!m->result.text[0])
        (void)snprintf(m->result.text, sizeof m->result.text, "%s: engine %d, pc %zu, %u", what, engine, pc, detail);
}

static void add_units(struct machine *m, unsigned s, uint32_t n, const struct clock *c)
{
    struct semaphore *sem = &m->semaphores[s];
    for (uint32_t i = 0; i < n; i++) {
        if (sem->added == sem->cap) {
            uint64_t cap = sem->cap ? sem->cap * 2 : 64;
            struct clock *more = kymo_realloc_array(sem->history, cap, sizeof *more);
            if (!more)
                abort();
            sem->history = more;
            sem->cap = cap;
        }
        sem->history[sem->added] = *c;
        if (sem->added)
            join(&sem->history[sem->added], &sem->history[sem->added - 1]);
        sem->added++;
    }
    sem->value += n;
}

static void update(struct machine *m, struct engine *e, uint8_t mode, uint8_t idx, uint32_t value)
{
    switch (mode & 0x0F) {
    case KYMO_UPD_INC:
        add_units(m, idx, 1, &e->clock);
        break;
    case KYMO_UPD_ADD:
        add_units(m, idx, value, &e->clock);
        break;
    case KYMO_UPD_SUB:
        m->semaphores[idx].value -= value;
        m->semaphores[idx].subtracted += value;
        break;
    default:
        break;
    }
}

/* A wait for v is for the unit that makes the count v: earlier units were taken off already. */
static bool wait_met(struct machine *m, struct engine *e, const struct kymo_sync *s)
{
    if (s->wait_mode == KYMO_WAIT_NONE)
        return true;
    const struct semaphore *sem = &m->semaphores[s->wait_idx];
    if (sem->value < s->wait_value)
        return false;
    uint64_t unit = sem->subtracted + s->wait_value;
    if (unit)
        join(&e->clock, &sem->history[unit - 1]);
    return true;
}

/* Who touches memory, when by its own count, and what its starter knows of all others. */
struct toucher {
    unsigned actor;
    uint32_t tick;
    const struct clock *known;
    int engine;
    size_t pc;
};

static void touch_cell(struct machine *m, struct cell *c, const struct toucher *t, bool write, unsigned where)
{
    bool race = c->written && t->known->at[c->writer] < c->write_tick;
    for (unsigned a = 0; write && a < ACTORS; a++)
        race |= t->known->at[a] < c->read_tick[a];
    if (race) {
        m->result.races++;
        trouble(m, write ? "write races" : "read races", t->engine, t->pc, where * CELL);
    }
    if (write) {
        c->written = true;
        c->writer = (uint16_t)t->actor;
        c->write_tick = t->tick;
        memset(c->read_tick, 0, sizeof c->read_tick);
    } else {
        c->read_tick[t->actor] = t->tick;
    }
}

static void touch(struct machine *m, const struct toucher *t, bool psum, uint64_t first, uint64_t bytes, bool write)
{
    struct cell *cells = psum ? m->psum : m->sbuf;
    uint64_t limit = psum ? PSUM_CELLS : SBUF_CELLS;
    for (uint64_t i = first / CELL; bytes && i <= (first + bytes - 1) / CELL && i < limit; i++)
        touch_cell(m, &cells[i], t, write, (unsigned)i);
}

/* All operands of the builder are dense rows. */
static void touch_operands(struct machine *m, struct engine *e, const uint8_t *rec, int number)
{
    static const enum kymo_field fields[] = {KYMO_F_SRC, KYMO_F_SRC1, KYMO_F_DST};
    static const enum kymo_field types[] = {KYMO_F_IN_DTYPE, KYMO_F_IN1_DTYPE, KYMO_F_OUT_DTYPE};
    const struct toucher who = {(unsigned)number, e->clock.at[number], &e->clock, number, e->pc};
    for (size_t i = 0; i < 3; i++) {
        struct kymo_tensor t;
        uint64_t type = 0;
        if (!kymo_layout_get_tensor(m->arch, rec, fields[i], &t))
            continue;
        (void)kymo_layout_get(m->arch, rec, types[i], &type);
        struct kymo_addr a = kymo_addr_decode(t.addr);
        touch(m, &who, a.psum, a.offset, (uint64_t)t.count[0] * kymo_dtype_bits((uint8_t)type) / 8,
              fields[i] == KYMO_F_DST);
    }
}

static void start_transfer(struct machine *m, struct engine *e, int number, unsigned semaphore, unsigned units,
                           unsigned step, bool write, uint64_t first, uint64_t bytes)
{
    if (m->pending_count == PENDING_MAX || units == 0) {
        trouble(m, "transfer without units", number, e->pc, semaphore);
        m->result.deadlock = true;
        return;
    }
    struct pending *p = &m->pending[m->pending_count++];
    *p = (struct pending){.semaphore = semaphore, .units = units, .step = step, .clock = e->clock};
    unsigned actor = KYMO_ENGINE_MAX + semaphore;
    /* Its own tick: later than all earlier transfers of the same semaphore that the starter knows of, unlike any other.
     */
    static uint32_t ticks;
    p->clock.at[actor] = ++ticks;
    const struct toucher who = {actor, ticks, &e->clock, number, e->pc};
    touch(m, &who, false, first, bytes, write);
    m->result.transfers++;
}

static const struct neff_queue *find_queue(const struct neff_subgraph *sg, const char *name)
{
    for (size_t i = 0; i < sg->queue_count; i++)
        if (!strcmp(sg->queues[i].name, name))
            return &sg->queues[i];
    return NULL;
}

static void trigger(struct machine *m, struct engine *e, const uint8_t *rec, int number)
{
    char queue[33];
    uint64_t id;
    (void)kymo_layout_get_chars(m->arch, rec, KYMO_F_QUEUE_NAME, queue, sizeof queue);
    (void)kymo_layout_get(m->arch, rec, KYMO_F_BLOCK_ID, &id);
    const struct neff_queue *q = find_queue(m->sg, queue);
    for (size_t i = 0; q && i < e->neff->block_count; i++) {
        const struct neff_dma_block *b = &e->neff->blocks[i];
        if (b->id != id || strcmp(b->queue, queue) != 0)
            continue;
        bool store = !strcmp(b->from.variable, "state_buffer_0");
        const struct neff_access *chip = store ? &b->from : &b->to;
        start_transfer(m, e, number, (unsigned)b->semaphore, q->num_queues, 1, !store, (uint64_t)chip->offset,
                       (uint64_t)chip->sizes[0]);
        return;
    }
    trouble(m, "no such block", number, e->pc, (unsigned)id);
    m->result.deadlock = true;
}

static uint64_t get(const struct machine *m, const uint8_t *rec, enum kymo_field f)
{
    uint64_t v = 0;
    (void)kymo_layout_get(m->arch, rec, f, &v);
    return v;
}

static void direct(struct machine *m, struct engine *e, const uint8_t *rec, int number)
{
    struct kymo_var_ref from = {0}, to = {0};
    if (!kymo_addr64_variable(get(m, rec, KYMO_F_SRC_ADDR64), &from) ||
        !kymo_addr64_variable(get(m, rec, KYMO_F_DST_ADDR64), &to) || !from.var_id == !to.var_id)
        trouble(m, "a copy does not name the state buffer and a variable", number, e->pc, 0);
    bool to_chip = !to.var_id; /* the state buffer's number */
    uint64_t offset = to_chip ? to.offset : from.offset;
    unsigned inc = (unsigned)get(m, rec, KYMO_F_DMA_SEM_INC);
    start_transfer(m, e, number, (unsigned)get(m, rec, KYMO_F_DMA_SEM), inc, inc, to_chip, offset,
                   get(m, rec, KYMO_F_SRC_ELEM) * get(m, rec, KYMO_F_SRC_COUNT0));
}

/* Returns the next pc. */
static size_t perform(struct machine *m, struct engine *e, const uint8_t *rec, int number)
{
    uint32_t *dst = &e->reg[get(m, rec, KYMO_F_REG_DST) % KYMO_REGISTERS],
             a = e->reg[get(m, rec, KYMO_F_REG_A) % KYMO_REGISTERS];
    uint32_t value = (uint32_t)get(m, rec, KYMO_F_VALUE);
    int64_t target = 0;
    switch (rec[0]) {
    case KYMO_OP_PSEUDO_DMA_TRIGGER:
        trigger(m, e, rec, number);
        break;
    case KYMO_OP_PSEUDO_DMA_DIRECT2D:
        direct(m, e, rec, number);
        break;
    case KYMO_OP_MOVE:
        *dst = value;
        break;
    case KYMO_OP_ALU_OP:
        *dst = a + value;
        break;
    case KYMO_OP_COMPARE_BRANCH:
        (void)kymo_layout_get_int(m->arch, rec, KYMO_F_TARGET, &target);
        return a < value ? (size_t)((int64_t)e->pc + target) : e->pc + 1;
    default:
        touch_operands(m, e, rec, number);
        break;
    }
    return e->pc + 1;
}

/* One step of an engine; false when it is done or waits. */
static bool step_engine(struct machine *m, int number)
{
    struct engine *e = &m->engines[number];
    if (!e->neff || e->pc >= e->neff->count)
        return false;
    const uint8_t *rec = e->neff->code + e->pc * KYMO_INSTR_SIZE;
    struct kymo_sync sets[2] = {kymo_instr_sync(rec)};
    unsigned n = kymo_instr_sync2(rec, &sets[1]) ? 2 : 1;
    for (; e->phase < n; e->phase++) {
        const struct kymo_sync *s = &sets[e->phase];
        if (!wait_met(m, e, s))
            return false;
        if (!(s->update_mode & KYMO_UPD_COMPLETE))
            update(m, e, s->update_mode, s->update_idx, s->update_value);
    }
    e->phase = 0;
    e->clock.at[number]++;
    size_t next = perform(m, e, rec, number);
    for (unsigned k = 0; k < n; k++)
        if (sets[k].update_mode & KYMO_UPD_COMPLETE)
            update(m, e, sets[k].update_mode, sets[k].update_idx, sets[k].update_value);
    m->result.executed += rec[0] != KYMO_OP_PSEUDO_BRANCH_LABEL;
    e->pc = next;
    return true;
}

static bool step_transfer(struct machine *m)
{
    if (!m->pending_count)
        return false;
    unsigned i = (unsigned)(next_random(m) % m->pending_count);
    struct pending *p = &m->pending[i];
    add_units(m, p->semaphore, p->step, &p->clock);
    p->units -= p->step;
    if (p->units == 0)
        *p = m->pending[--m->pending_count];
    return true;
}

static bool all_done(const struct machine *m)
{
    for (int e = 0; e < KYMO_ENGINE_MAX; e++)
        if (m->engines[e].neff && m->engines[e].pc < m->engines[e].neff->count)
            return false;
    return m->pending_count == 0;
}

/* Bursts of one engine, so that all shapes of running ahead occur. */
static void run_once(struct machine *m)
{
    for (uint64_t steps = 0; !all_done(m) && !m->result.deadlock; steps++) {
        unsigned first = (unsigned)(next_random(m) % (KYMO_ENGINE_MAX + 1)),
                 burst = 1 + (unsigned)(next_random(m) % 30);
        bool moved = false;
        for (unsigned k = 0; k <= KYMO_ENGINE_MAX && !moved; k++) {
            unsigned who = (first + k) % (KYMO_ENGINE_MAX + 1);
            for (unsigned b = 0; b < burst; b++)
                if (!(who == KYMO_ENGINE_MAX ? step_transfer(m) : step_engine(m, (int)who)))
                    break;
                else
                    moved = true;
        }
        if (moved && steps < STEPS_MAX)
            continue;
        m->result.deadlock = true;
        for (int e = 0; e < KYMO_ENGINE_MAX; e++)
            if (m->engines[e].neff && m->engines[e].pc < m->engines[e].neff->count)
                trouble(m, "waits for ever", e, m->engines[e].pc, m->engines[e].phase);
    }
}

struct interpreter_result interpreter_run(const struct kymo_arch *arch, const struct neff_subgraph *sg,
                                          unsigned executions, uint64_t seed)
{
    struct machine *m = KYMO_NEW(struct machine);
    if (!m)
        abort();
    m->arch = arch;
    m->sg = sg;
    m->random = seed * 2 + 1;
    for (size_t i = 0; i < sg->engine_count; i++)
        m->engines[sg->engines[i].engine].neff = &sg->engines[i];
    for (unsigned x = 0; x < executions && !m->result.deadlock; x++) {
        run_once(m);
        /* Between executions everything has come to rest: all know all. */
        struct clock all = {{0}};
        for (int e = 0; e < KYMO_ENGINE_MAX; e++)
            join(&all, &m->engines[e].clock);
        for (unsigned s = 0; s < SEMAPHORES; s++)
            if (m->semaphores[s].added)
                join(&all, &m->semaphores[s].history[m->semaphores[s].added - 1]);
        for (int e = 0; e < KYMO_ENGINE_MAX; e++) {
            m->engines[e].clock = all;
            m->engines[e].pc = 0;
        }
    }
    for (unsigned s = 0; s < SEMAPHORES; s++) {
        m->result.nonzero_semaphores += m->semaphores[s].value != 0;
        kymo_free(m->semaphores[s].history);
    }
    struct interpreter_result result = m->result;
    kymo_free(m);
    return result;
}
