#include "pipeline/flow/flow_core.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

#define PS_TOLERANCE 2000u  /* clocks of different engines, once corrected (G) */
#define CLEARS 16           /* range clears that have not taken effect yet */
#define LAUNCHES (1u << 14) /* transfers, and collectives, under way */

struct met { /* one wait set */
    const struct kymo_sync *sync;
    struct flow_update by;
    uint64_t ps;   /* when it was met */
    uint8_t state; /* enum flow_met */
    bool done;
};

struct live {
    struct flow_instruction i;
    struct met met[2];
    int64_t prior;   /* the latest wait of the engine when it began, its own included; -1: none */
    uint8_t updates; /* bit k: the update of set k has not been seen */
    bool begun;
};

struct queue { /* of one engine, oldest first */
    struct live ring[FLOW_LIVE];
    uint32_t head, count;
    uint32_t waiting;  /* that have not begun */
    int64_t last_wait; /* id, -1: none */
};

struct launch {
    int64_t id, prior;
};

struct launches {
    struct launch list[LAUNCHES]; /* by id, modulo that */
};

struct clear {
    uint64_t ps;
    uint16_t first, count;
};

struct flow_core {
    const struct flow_static *facts;
    struct flow_sink sink;
    unsigned pcore;
    uint32_t execution;
    struct flow_history history;
    struct flow_psum psum;
    struct flow_compiler compiler;
    struct queue queues[KYMO_ENGINE_MAX];
    struct launches *launches; /* by table; of instructions those that write to a semaphore */
    struct clear clears[CLEARS];
    unsigned clear_count;
    struct flow_counts counts;
};

const char *flow_doubt_name(enum flow_doubt d)
{
    static const char *const names[] = {"",          "records_lost",     "threshold_in_register", "held_before",
                                        "held_long", "writer_not_known", "operands_not_known"};
    return names[d];
}

int flow_core_new(const struct flow_static *facts, unsigned pcore, struct flow_sink sink, struct flow_core **ret,
                  struct kymo_err *err)
{
    struct flow_core *c = KYMO_NEW(struct flow_core);
    if (!c)
        return kymo_err_set(err, -ENOMEM, "no memory for the dependencies of core %u", pcore);
    c->facts = facts;
    c->pcore = pcore;
    c->sink = sink;
    for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++)
        c->queues[e].last_wait = -1;
    int r = flow_compiler_open(&c->compiler, facts, err);
    c->launches = r < 0 ? NULL : KYMO_NEW_ARRAY(struct launches, FLOW_TABLES);
    if (r == 0 && !c->launches)
        r = kymo_err_set(err, -ENOMEM, "no memory for the transfers under way");
    if (r < 0) {
        flow_core_free(c);
        return r;
    }
    for (unsigned t = 0; t < FLOW_TABLES; t++)
        for (unsigned i = 0; i < LAUNCHES; i++)
            c->launches[t].list[i] = (struct launch){-1, -1};
    *ret = c;
    return 0;
}

struct flow_core *flow_core_free(struct flow_core *c)
{
    if (!c)
        return NULL;
    flow_compiler_done(&c->compiler);
    kymo_free(c->launches);
    kymo_free(c);
    return NULL;
}

static struct live *at(struct queue *q, uint32_t k)
{
    return &q->ring[(q->head + k) % FLOW_LIVE];
}

static int64_t ns_between(const struct live *l, uint64_t ps)
{
    return l->i.start + (int64_t)(ps / 1000) - (int64_t)(l->i.start_ps / 1000);
}

static int edge(struct flow_core *c, enum flow_type type, enum flow_table table, int64_t from, int64_t from_end,
                const struct flow_instruction *to, struct kymo_err *err)
{
    struct flow_edge e = {.in_id = from,
                          .out_id = to->id,
                          .gap = to->start - from_end,
                          .type = (uint8_t)type,
                          .in_table = (uint8_t)table};
    return c->sink.edge(c->sink.ctx, &e, err);
}

static enum flow_table table_of(const struct flow_update *by)
{
    return by->writer == FLOW_WRITER_TRANSFER     ? FLOW_TRANSFER
           : by->writer == FLOW_WRITER_COLLECTIVE ? FLOW_COLLECTIVE
                                                  : FLOW_INSTRUCTION;
}

static enum flow_doubt doubt_of(const struct met *m)
{
    switch (m->state) {
    case FLOW_MET_BY:
        if (m->by.writer >= FLOW_WRITER_INSTRUCTION)
            return FLOW_DOUBT_NONE;
        return m->by.writer == FLOW_WRITER_LOST ? FLOW_DOUBT_RECORDS_LOST : FLOW_DOUBT_WRITER;
    case FLOW_MET_BEFORE:
        return FLOW_DOUBT_HELD;
    case FLOW_MET_REGISTER:
        return FLOW_DOUBT_REGISTER;
    case FLOW_MET_LONG:
        return FLOW_DOUBT_LONG;
    default:
        return FLOW_DOUBT_RECORDS_LOST;
    }
}

/* When the condition came to hold. */
static uint64_t held_from(const struct live *l, const struct met *m)
{
    if (m->state == FLOW_MET_BEFORE)
        return l->i.start_ps;
    uint64_t ps = m->state == FLOW_MET_BY && m->by.ps < m->ps ? m->by.ps : m->ps;
    return ps > l->i.start_ps ? ps : l->i.start_ps;
}

/* The set that held the instruction up: the one whose condition came to hold last. *other: when it would have begun
 * without it. NULL: there is none, or not all of them were seen to be met. */
static const struct met *binding(const struct live *l, uint64_t *other)
{
    const struct met *found = NULL;
    *other = l->i.start_ps;
    for (unsigned k = 0; k < 2; k++) {
        const struct met *m = &l->met[k];
        if (!m->sync)
            continue;
        if (!m->done)
            return NULL;
        if (found && held_from(l, m) <= held_from(l, found)) {
            *other = held_from(l, m);
            continue;
        }
        if (found)
            *other = held_from(l, found);
        found = m;
    }
    return found;
}

static int write_wait(struct flow_core *c, const struct live *l, bool exact, uint64_t ps, struct kymo_err *err)
{
    const struct flow_row *row = &c->facts->rows[l->i.row];
    uint64_t other;
    const struct met *m = binding(l, &other);
    bool both = l->met[0].sync && l->met[1].sync;
    const struct kymo_sync *sync = m ? m->sync : both ? NULL : l->met[0].sync ? l->met[0].sync : l->met[1].sync;
    struct flow_wait w = {.id = l->i.id,
                          .start = l->i.start,
                          .wait = l->i.wait,
                          .row = l->i.row,
                          .target = sync ? (int)flow_target_of_wait(sync) : -1,
                          .pcore = row->pcore,
                          .engine = row->engine,
                          .saturated = l->i.saturated,
                          .lower_bound = l->i.saturated && !exact};
    if (exact)
        w.wait = ns_between(l, ps) - w.start;
    w.end = w.start + w.wait;
    w.cost = w.wait;
    if (m)
        w.cost = ns_between(l, ps) - ns_between(l, other);
    w.doubt = m ? (uint8_t)doubt_of(m) : sync || both ? FLOW_DOUBT_RECORDS_LOST : FLOW_DOUBT_OPERANDS;
    if (w.doubt == FLOW_DOUBT_NONE) {
        w.in_id = m->by.id;
        w.in_table = (uint8_t)table_of(&m->by);
        w.update = ns_between(l, m->by.ps);
        w.prior = m->by.prior;
    }
    c->counts.waits++;
    c->counts.unexplained[w.doubt]++;
    return c->sink.wait(c->sink.ctx, &w, err);
}

static int semaphore_edges(struct flow_core *c, const struct live *l, struct kymo_err *err)
{
    int r = 0;
    for (unsigned k = 0; k < 2 && r == 0; k++) {
        const struct met *m = &l->met[k];
        if (!m->done || m->state != FLOW_MET_BY || m->by.writer < FLOW_WRITER_INSTRUCTION)
            continue;
        enum flow_table from = table_of(&m->by);
        r = edge(c, flow_wait_type(from), from, m->by.id, m->by.end, &l->i, err);
    }
    return r;
}

static int compiler_edges(struct flow_core *c, const struct flow_instruction *i, struct kymo_err *err)
{
    const struct flow_row *row = &c->facts->rows[i->row];
    uint32_t number = flow_compiler_number(&c->compiler, i->row);
    int r = 0;
    for (uint32_t k = 0; k < row->pred_count && r == 0; k++) {
        const struct flow_pred *p = &c->facts->preds[row->preds + k];
        const struct flow_run *run = flow_compiler_find(&c->compiler, i->row, number, p);
        if (!run)
            continue;
        const struct flow_launch *used = &run->launched;
        r = edge(c, (enum flow_type)p->type, FLOW_INSTRUCTION, run->id, run->end, i, err);
        if (r == 0 && used->id >= 0 && p->type != FLOW_TYPE_ORDERED)
            r = edge(c, (enum flow_type)p->type, (enum flow_table)used->table, used->id, used->end, i, err);
    }
    struct flow_run run = {.id = i->id, .end = i->end, .launched = i->launched};
    flow_compiler_note(&c->compiler, i->row, &run);
    return r;
}

static int psum_edges(struct flow_core *c, const struct flow_instruction *i, struct kymo_err *err)
{
    const struct flow_row *row = &c->facts->rows[i->row];
    if (!(row->psum_read | row->psum_write))
        return 0;
    struct flow_psum_use use = {.id = i->id,
                                .end = i->end,
                                .read = row->psum_read,
                                .write = row->psum_write,
                                .starts = row->accumulate == FLOW_ACC_BEGIN};
    if (row->accumulate != FLOW_ACC_NONE && row->psum_write)
        use.group = flow_psum_group(&c->psum, row->psum_write, use.starts);
    else
        flow_psum_overwrite(&c->psum, row->psum_write);
    struct flow_psum_edge edges[FLOW_PSUM_BANKS];
    unsigned n = flow_psum_take(&c->psum, &use, edges);
    int r = 0;
    for (unsigned k = 0; k < n && r == 0; k++)
        r = edge(c, FLOW_TYPE_SAME_PSUM_BANK, FLOW_INSTRUCTION, edges[k].id, edges[k].end, i, err);
    return r;
}

static struct launch *launch_of(const struct flow_core *c, unsigned table, int64_t id)
{
    return &c->launches[table].list[(uint64_t)id % LAUNCHES];
}

/* The instruction runs from here on. exact: a record says so. */
static int begin(struct flow_core *c, struct live *l, bool exact, uint64_t ps, struct kymo_err *err)
{
    struct queue *q = &c->queues[c->facts->rows[l->i.row].engine];
    if (l->i.wait > 0)
        q->last_wait = l->i.id;
    l->begun = true;
    l->prior = q->last_wait;
    if (l->i.launched.id >= 0)
        *launch_of(c, l->i.launched.table, l->i.launched.id) = (struct launch){l->i.launched.id, l->prior};
    if (c->facts->rows[l->i.row].writes >= 0)
        *launch_of(c, FLOW_INSTRUCTION, l->i.id) = (struct launch){l->i.id, l->prior};
    flow_core_execution(c, l->i.execution);
    int r = semaphore_edges(c, l, err);
    if (r == 0)
        r = compiler_edges(c, &l->i, err);
    if (r == 0)
        r = psum_edges(c, &l->i, err);
    return r == 0 && l->i.wait > 0 ? write_wait(c, l, exact, ps, err) : r;
}

static int begin_waiting(struct flow_core *c, struct queue *q, struct live *l, bool exact, uint64_t ps,
                         struct kymo_err *err)
{
    q->waiting--;
    return begin(c, l, exact, ps, err);
}

/* When an instruction that waits begins, by its own word. A saturated counter leaves its end. */
static uint64_t by_counter(const struct live *l)
{
    uint64_t ps = l->i.start_ps + (uint64_t)l->i.wait * 1000;
    return l->i.saturated || ps > l->i.end_ps ? l->i.end_ps : ps;
}

static bool awaits(const struct live *l)
{
    return !l->begun || l->updates;
}

static int drop_old(struct flow_core *c, struct queue *q, uint64_t ps, struct kymo_err *err)
{
    while (q->count) {
        struct live *l = at(q, 0);
        bool over = ps > l->i.end_ps && ps - l->i.end_ps > FLOW_LATE_PS;
        if (awaits(l) && !over && q->count < FLOW_LIVE)
            return 0;
        int r = l->begun ? 0 : begin_waiting(c, q, l, false, by_counter(l), err);
        if (r < 0)
            return r;
        q->head = (q->head + 1) % FLOW_LIVE;
        q->count--;
    }
    return 0;
}

static void note_clear(struct flow_core *c, const struct flow_instruction *i)
{
    const struct flow_row *row = &c->facts->rows[i->row];
    if (row->clear_count && c->clear_count < CLEARS)
        c->clears[c->clear_count++] = (struct clear){i->end_ps, row->clear_first, row->clear_count};
}

static void apply_clears(struct flow_core *c, uint64_t ps)
{
    unsigned kept = 0;
    for (unsigned k = 0; k < c->clear_count; k++) {
        if (c->clears[k].ps <= ps)
            flow_history_clear(&c->history, c->clears[k].first, c->clears[k].count);
        else
            c->clears[kept++] = c->clears[k];
    }
    c->clear_count = kept;
}

int flow_core_instruction(struct flow_core *c, const struct flow_instruction *i, struct kymo_err *err)
{
    const struct flow_row *row = &c->facts->rows[i->row];
    struct live l = {.i = *i, .begun = true};
    for (unsigned k = 0; k < row->sets; k++) {
        if (flow_waits(&row->sync[k])) {
            l.met[k].sync = &row->sync[k];
            l.begun = false;
        }
        if (row->sync[k].update_mode != KYMO_UPD_NONE)
            l.updates = (uint8_t)(l.updates | 1u << k);
    }
    note_clear(c, i);
    if (!awaits(&l))
        return begin(c, &l, false, i->start_ps + (uint64_t)i->wait * 1000, err);
    struct queue *q = &c->queues[row->engine];
    int r = drop_old(c, q, i->start_ps, err);
    if (r < 0)
        return r;
    struct live *to = at(q, q->count++);
    *to = l;
    q->waiting += !l.begun;
    return l.begun ? begin(c, to, false, i->start_ps + (uint64_t)i->wait * 1000, err) : 0;
}

static uint64_t deadline(const struct live *l, bool no_records)
{
    return no_records ? by_counter(l) : l->i.end_ps + PS_TOLERANCE;
}

int flow_core_settle(struct flow_core *c, uint64_t ps, bool no_records, struct kymo_err *err)
{
    for (;;) {
        struct queue *from = NULL;
        struct live *first = NULL;
        for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++) {
            struct queue *q = &c->queues[e];
            for (uint32_t k = 0, left = q->waiting; left && k < q->count; k++) {
                struct live *l = at(q, k);
                if (l->begun)
                    continue;
                left--;
                if (deadline(l, no_records) < ps && (!first || deadline(l, no_records) < deadline(first, no_records))) {
                    first = l;
                    from = q;
                }
                break;
            }
        }
        if (!first)
            return 0;
        int r = begin_waiting(c, from, first, false, by_counter(first), err);
        if (r < 0)
            return r;
    }
}

static bool there(const struct live *l, uint64_t ps)
{
    return l->i.start_ps <= ps + PS_TOLERANCE && ps <= l->i.end_ps + PS_TOLERANCE;
}

static int take_wait(struct flow_core *c, const struct flow_record *r, unsigned target, struct kymo_err *err)
{
    struct queue *q = &c->queues[r->source];
    for (uint32_t n = 0, left = q->waiting; left && n < q->count; n++) {
        struct live *l = at(q, n);
        if (l->begun)
            continue;
        left--;
        for (unsigned k = 0; k < 2 && there(l, r->ps); k++) {
            struct met *m = &l->met[k];
            if (!m->sync || m->done || flow_target_of_wait(m->sync) != target)
                continue;
            const struct flow_update *by;
            m->state = (uint8_t)flow_history_met(&c->history, target, m->sync, r->value, l->i.start_ps, &by);
            m->by = by ? *by : (struct flow_update){0};
            m->ps = r->ps;
            m->done = true;
            flow_history_flip(&c->history, target, m->sync->wait_mode, r->ps);
            bool last = k || !l->met[1].sync;
            return last ? begin_waiting(c, q, l, true, r->ps, err) : 0;
        }
    }
    return 0;
}

static unsigned target_of_update(const struct kymo_sync *s)
{
    unsigned mode = s->update_mode & ~(unsigned)(KYMO_UPD_COMPLETE | KYMO_UPD_REGISTER);
    return (mode == KYMO_UPD_EVT_SET || mode == KYMO_UPD_EVT_CLEAR ? 256u : 0u) + s->update_idx;
}

/* Set of an instruction that makes this update, -1: none. */
static int update_set(const struct flow_core *c, const struct live *l, uint8_t mode, unsigned target)
{
    const struct flow_row *row = &c->facts->rows[l->i.row];
    for (int k = 0; k < row->sets; k++)
        if (l->updates >> k & 1 && target_of_update(&row->sync[k]) == target &&
            (row->sync[k].update_mode & ~(unsigned)KYMO_UPD_REGISTER) == (mode & ~(unsigned)KYMO_UPD_REGISTER))
            return k;
    return -1;
}

static struct live *find_writer(struct flow_core *c, struct queue *q, const struct flow_record *r, unsigned target,
                                int *ret_set)
{
    struct live *late = NULL;
    for (uint32_t n = 0; n < q->count; n++) {
        struct live *l = at(q, n);
        int set = l->updates ? update_set(c, l, r->mode, target) : -1;
        if (set < 0 || l->i.start_ps > r->ps + PS_TOLERANCE)
            continue;
        if (r->ps > l->i.end_ps + FLOW_LATE_PS)
            continue;
        *ret_set = set;
        if (there(l, r->ps))
            return l;
        late = l;
    }
    if (late)
        *ret_set = update_set(c, late, r->mode, target);
    return late;
}

static int take_update(struct flow_core *c, const struct flow_record *r, unsigned target,
                       const struct flow_update *writer, struct kymo_err *err)
{
    struct flow_update u = writer ? *writer : (struct flow_update){.id = -1, .prior = -1};
    if (u.writer == FLOW_WRITER_TRANSFER || u.writer == FLOW_WRITER_COLLECTIVE)
        u.prior = flow_core_prior(c, table_of(&u), u.id);
    const uint32_t *operand = NULL;
    u.ps = r->ps;
    u.value = r->value;
    if (r->source < KYMO_ENGINE_MAX) {
        struct queue *q = &c->queues[r->source];
        int set = -1;
        struct live *l = find_writer(c, q, r, target, &set);
        u.writer = l ? FLOW_WRITER_INSTRUCTION : FLOW_WRITER_LOST;
        if (l) {
            l->updates = (uint8_t)(l->updates & ~(1u << set));
            u.id = l->i.id;
            u.end = l->i.end;
            const struct kymo_sync *s = &c->facts->rows[l->i.row].sync[set];
            operand = s->update_mode & KYMO_UPD_REGISTER ? NULL : &s->update_value;
            int e = l->begun ? 0 : begin_waiting(c, q, l, false, by_counter(l), err);
            if (e < 0)
                return e;
            u.prior = l->prior;
        }
    }
    flow_history_update(&c->history, target, r->mode, operand, &u);
    return 0;
}

int flow_core_record(struct flow_core *c, const struct flow_record *r, const struct flow_update *writer,
                     struct kymo_err *err)
{
    unsigned target = (r->is_semaphore ? 0u : 256u) + r->index;
    apply_clears(c, r->ps);
    if (r->mode)
        return take_update(c, r, target, writer, err);
    return r->source < KYMO_ENGINE_MAX ? take_wait(c, r, target, err) : 0;
}

int64_t flow_core_prior(const struct flow_core *c, enum flow_table table, int64_t id)
{
    const struct launch *launch = launch_of(c, table, id);
    return launch->id == id ? launch->prior : -1;
}

void flow_core_execution(struct flow_core *c, uint32_t execution)
{
    if (execution <= c->execution)
        return;
    c->execution = execution;
    flow_history_forget(&c->history, false);
    (void)flow_psum_forget(&c->psum);
    flow_compiler_execution(&c->compiler);
}

void flow_core_lost_records(struct flow_core *c)
{
    flow_history_forget(&c->history, true);
}

void flow_core_lost_instructions(struct flow_core *c)
{
    c->counts.banks += flow_psum_forget(&c->psum);
    flow_compiler_lost(&c->compiler);
}

void flow_core_counts(const struct flow_core *c, struct flow_counts *ret)
{
    *ret = c->counts;
    ret->compiler = c->compiler.left_out;
}
