#include "pipeline/flow/flow_static.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arch/opcode.h"
#include "base/alloc.h"
#include "pipeline/flow/flow_loops.h"

#define PREDS_MAX (1u << 28)
#define PREDS_OF_ONE 256 /* the compiler writes at most 100 of each list */
#define KIND_ORDERED 1
#define KIND_FLOW 4

const char *flow_type_name(enum flow_type t)
{
    static const char *const names[] = {"FLOW_DEPENDENCE", "ANTI_DEPENDENCE", "OUTPUT_DEPENDENCE", "ORDERED_DEPENDENCE",
                                        "DMA_TRIGGER",     "DMA_WAIT",        "SEMAPHORE",         "SAME_PSUM_BANK"};
    return names[t];
}

const char *flow_table_name(enum flow_table t)
{
    static const char *const names[] = {"instruction", "dma_block", "cc_op"};
    return names[t];
}

int flow_static_block_semaphore(const struct dma_queues *q, uint32_t block)
{
    if (block == DMA_NONE)
        return -1;
    const struct dma_block *b = &q->blocks[block];
    const struct dma_set *set = &q->sets[b->set];
    int s = b->neff && b->neff->semaphore >= 0 ? b->neff->semaphore : set->neff ? set->neff->semaphore : -1;
    return s > 255 ? -1 : s;
}

/* A WRITE that adds to a semaphore, of another core too: a dependency that passes through AXI. */
static int16_t written_semaphore(const struct kymo_arch *arch, const uint8_t *rec)
{
    uint64_t addr;
    if (rec[0] != KYMO_OP_WRITE || !kymo_layout_get(arch, rec, KYMO_F_ADDR, &addr) ||
        addr < arch->sync_base + KYMO_SYNC_INC || !arch->core_stride)
        return -1;
    uint64_t at = addr - arch->sync_base - KYMO_SYNC_INC, core = at / arch->core_stride;
    at %= arch->core_stride;
    return core < INPUT_CORES_MAX && at < 4 * 256 ? (int16_t)(256 * core + at / 4) : -1;
}

static void take_operands(const struct kymo_arch *arch, const struct static_row *st, const struct static_facts *facts,
                          struct flow_row *row)
{
    const uint8_t *rec = facts->record;
    uint64_t v = 0, n = 0;
    row->known = true;
    row->writes = written_semaphore(arch, rec);
    row->sync[0] = kymo_instr_sync(rec);
    row->sets = kymo_instr_sync2(rec, &row->sync[1]) ? 2 : 1;
    row->psum_read = facts->footprint.psum_read_banks;
    row->psum_write = facts->footprint.psum_write_banks;
    row->accumulate = facts->footprint.acc_begin      ? FLOW_ACC_BEGIN
                      : facts->footprint.acc_continue ? FLOW_ACC_CONTINUE
                                                      : FLOW_ACC_NONE;
    if (st->trigger == STATICS_TRIGGER_DYNAMIC && kymo_layout_get(arch, rec, KYMO_F_DMA_SEM_INC, &n) && n &&
        kymo_layout_get(arch, rec, KYMO_F_DMA_SEM, &v))
        row->dma_semaphore = (int16_t)(v & 255);
    if (st->opcode == KYMO_OP_EVENT_SEMAPHORE_RANGE_CLEAR && kymo_layout_get(arch, rec, KYMO_F_RANGE_COUNT, &n)) {
        (void)kymo_layout_get(arch, rec, KYMO_F_RANGE_FIRST, &v);
        row->clear_first = (uint16_t)(v & 255);
        row->clear_count = (uint16_t)(n < 256 ? n : 256);
    }
}

/* A static row with a debug record. Sorted by program, BIR instruction and place, so that those of one BIR instruction
 * are together. */
struct member {
    uint64_t bir;
    int64_t slot;
    const struct neff_debug *debug;
    uint32_t row, node;
    uint8_t pcore, engine;
    bool semaphore; /* it only waits or signals */
};

static int by_bir(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    if (x->pcore != y->pcore)
        return x->pcore < y->pcore ? -1 : 1;
    if (x->bir != y->bir)
        return x->bir < y->bir ? -1 : 1;
    if (x->engine != y->engine)
        return x->engine < y->engine ? -1 : 1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

struct group { /* one BIR instruction on one core */
    uint64_t bir;
    uint32_t node, first, count, last; /* in members; last: the last one that is principal */
    uint8_t pcore;
};

struct build {
    struct flow_static *f;
    const struct statics *statics;
    struct member *members;
    size_t count;
    struct group *groups;
    size_t group_count;
};

static bool is_principal(const struct build *b, const struct group *g, uint32_t i)
{
    const struct member *last = &b->members[g->last], *m = &b->members[i];
    return m->engine == last->engine && m->semaphore == last->semaphore;
}

static void choose_last(const struct build *b, struct group *g)
{
    bool all = true;
    for (uint32_t i = g->first; i < g->first + g->count; i++)
        all = all && b->members[i].semaphore;
    g->last = FLOW_NONE;
    for (uint32_t i = g->first; i < g->first + g->count; i++)
        if ((all || !b->members[i].semaphore) &&
            (g->last == FLOW_NONE || b->members[i].engine == b->members[g->last].engine))
            g->last = i;
}

static int make_groups(struct build *b, struct kymo_err *err)
{
    if (b->count)
        qsort(b->members, b->count, sizeof *b->members, by_bir);
    b->groups = KYMO_NEW_ARRAY(struct group, b->count + 1);
    if (!b->groups)
        return kymo_err_set(err, -ENOMEM, "no memory for the compiler's dependencies");
    for (uint32_t i = 0; i < b->count; i++) {
        const struct member *m = &b->members[i];
        struct group *g = b->group_count ? &b->groups[b->group_count - 1] : NULL;
        if (!g || g->node != m->node || g->pcore != m->pcore || g->bir != m->bir) {
            g = &b->groups[b->group_count++];
            *g = (struct group){.bir = m->bir, .node = m->node, .first = i, .pcore = m->pcore};
        }
        g->count++;
    }
    for (size_t i = 0; i < b->group_count; i++)
        choose_last(b, &b->groups[i]);
    return 0;
}

static int group_order(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    if (x->pcore != y->pcore)
        return x->pcore < y->pcore ? -1 : 1;
    return x->bir < y->bir ? -1 : x->bir > y->bir;
}

static uint32_t tail_of(struct build *b, const struct group *g)
{
    struct flow_static *f = b->f;
    uint32_t row = b->members[g->last].row;
    if (f->rows[row].tail != FLOW_NONE)
        return f->rows[row].tail;
    for (uint32_t i = g->first; i < g->first + g->count; i++)
        if (is_principal(b, g, i))
            f->rows[b->members[i].row].tail = (uint32_t)f->tail_count;
    f->tail_loop[f->tail_count] = f->rows[row].loop;
    return (uint32_t)f->tail_count++;
}

static int add_pred(struct build *b, const struct group *g, uint32_t first, uint64_t bir, enum flow_type type,
                    struct kymo_err *err)
{
    struct flow_static *f = b->f;
    const struct group key = {.node = g->node, .pcore = g->pcore, .bir = bir};
    const struct group *from = bsearch(&key, b->groups, b->group_count, sizeof key, group_order);
    if (!from || from == g)
        return 0;
    uint32_t tail = tail_of(b, from);
    for (size_t i = first; i < f->pred_count; i++)
        if (f->preds[i].tail == tail && f->preds[i].type == type)
            return 0;
    if (f->pred_count - first == PREDS_OF_ONE) {
        f->beyond++;
        return 0;
    }
    void *p = f->preds;
    int r = kymo_grow(&p, &f->pred_cap, f->pred_count + 1, PREDS_MAX, sizeof *f->preds);
    f->preds = p;
    if (r < 0)
        return kymo_err_set(err, r, "no memory for the compiler's dependencies");
    f->preds[f->pred_count++] = (struct flow_pred){tail, (uint8_t)type, bir > g->bir};
    return 0;
}

/* Kinds of neff.md 4.2: 1 ordered, 2 anti, 3 output, 4 flow. */
static bool type_of(uint32_t kind, enum flow_type *ret)
{
    static const enum flow_type types[] = {FLOW_TYPE_ORDERED, FLOW_TYPE_ANTI, FLOW_TYPE_OUTPUT, FLOW_TYPE_FLOW};
    if (kind < KIND_ORDERED || kind > KIND_FLOW)
        return false;
    *ret = types[kind - KIND_ORDERED];
    return true;
}

static int add_preds(struct build *b, const struct group *g, struct kymo_err *err)
{
    const struct neff_debug *d = b->members[g->first].debug;
    struct flow_static *f = b->f;
    uint32_t first = (uint32_t)f->pred_count;
    int r = 0;
    for (size_t i = 0; i < d->dataflow_count && r == 0; i++) {
        enum flow_type type;
        if (type_of(d->dataflow_kinds[i], &type))
            r = add_pred(b, g, first, d->dataflow_predecessors[i], type, err);
        else
            f->unknown_kinds++;
    }
    for (size_t i = 0; i < d->scheduling_count && r == 0; i++) {
        enum flow_type type = FLOW_TYPE_ORDERED; /* also where the scheduler gave no kind */
        (void)type_of(d->scheduling_kinds[i], &type);
        r = add_pred(b, g, first, d->scheduling_predecessors[i], type, err);
    }
    for (uint32_t i = g->first; i < g->first + g->count; i++)
        if (is_principal(b, g, i)) {
            f->rows[b->members[i].row].preds = first;
            f->rows[b->members[i].row].pred_count = (uint32_t)f->pred_count - first;
        }
    return r;
}

static int read_rows(struct build *b, const struct input *in, struct kymo_err *err)
{
    struct flow_static *f = b->f;
    f->count = b->statics->count;
    f->rows = KYMO_NEW_ARRAY(struct flow_row, f->count + 1);
    f->tail_loop = KYMO_NEW_ARRAY(uint32_t, f->count + 1);
    b->members = KYMO_NEW_ARRAY(struct member, f->count + 1);
    if (!f->rows || !f->tail_loop || !b->members)
        return kymo_err_set(err, -ENOMEM, "no memory for the dependencies of %zu instructions", f->count);
    for (size_t i = 0; i < f->count; i++) {
        const struct static_row *st = &b->statics->rows[i];
        struct flow_row *row = &f->rows[i];
        struct static_facts facts;
        *row = (struct flow_row){
            .tail = FLOW_NONE, .dma_semaphore = -1, .writes = -1, .pcore = st->pcore, .engine = st->engine};
        statics_facts(b->statics, st, &facts);
        if (!facts.record)
            continue;
        take_operands(in->arch, st, &facts, row);
        if (facts.debug)
            b->members[b->count++] = (struct member){.bir = facts.debug->raw_bir_id,
                                                     .slot = st->slot,
                                                     .debug = facts.debug,
                                                     .row = (uint32_t)i,
                                                     .node = st->program->node,
                                                     .pcore = st->pcore,
                                                     .engine = st->engine,
                                                     .semaphore = st->opcode == KYMO_OP_EVENT_SEMAPHORE};
    }
    f->has_debug = b->count;
    return 0;
}

static int find_loops(struct build *b, const struct input *in, struct kymo_err *err)
{
    struct flow_loops loops = {0};
    int r = flow_loops_open(&loops, in->arch, b->statics, err);
    for (size_t i = 0; i < b->count && r == 0; i++)
        flow_loops_note(&loops, &b->statics->rows[b->members[i].row], b->members[i].bir);
    if (r == 0)
        r = flow_loops_join(&loops, err);
    for (size_t i = 0; i < b->count && r == 0; i++)
        b->f->rows[b->members[i].row].loop = flow_loops_find(&loops, &b->statics->rows[b->members[i].row]);
    flow_loops_done(&loops);
    return r;
}

int flow_static_open(struct flow_static *f, const struct input *in, const struct statics *statics, struct kymo_err *err)
{
    struct build b = {.f = f, .statics = statics};
    *f = (struct flow_static){0};
    int r = read_rows(&b, in, err);
    if (r == 0)
        r = find_loops(&b, in, err);
    if (r == 0)
        r = make_groups(&b, err);
    for (size_t i = 0; i < b.group_count && r == 0; i++)
        r = add_preds(&b, &b.groups[i], err);
    kymo_free(b.members);
    kymo_free(b.groups);
    if (r < 0)
        flow_static_done(f);
    return r;
}

void flow_static_done(struct flow_static *f)
{
    kymo_free(f->rows);
    kymo_free(f->preds);
    kymo_free(f->tail_loop);
    *f = (struct flow_static){0};
}
