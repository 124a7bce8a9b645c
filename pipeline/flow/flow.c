#include "pipeline/flow/flow.h"

#include <errno.h>

#include "base/alloc.h"
#include "pipeline/flow/flow_cc.h"
#include "pipeline/flow/flow_core.h"
#include "pipeline/flow/flow_dma.h"
#include "pipeline/flow/flow_rows.h"
#include "pipeline/job.h"
#include "pipeline/lod/wait_sums.h"

#define REORDER 64 /* records whose times are not in the ring's order, by clocks that differ */

struct spilled {
    uint64_t ps;
    uint32_t value;
    uint8_t mode, index, source;
    uint8_t flags;
};
#define WRITES 4 /* remembered of one semaphore */
#define IS_SEMAPHORE 1
#define AFTER_LOSS 2

struct held { /* a record that an earlier one of the ring may still follow */
    struct spilled rec;
    uint64_t position;
    uint32_t gaps;
};

struct write { /* a WRITE instruction to a semaphore: it updates at its end */
    uint64_t end_ps;
    int64_t id, end;
    uint8_t pcore; /* that it runs on */
};

struct written {
    struct write writes[WRITES];
    uint32_t count;
};

struct core {
    struct flow_core *flow;
    struct written written[256]; /* by semaphore */
    struct spill *records;
    struct held held[REORDER]; /* a circle */
    size_t held_first, held_count;
    uint32_t gaps; /* of the record spilled last */
    struct spill_reader reader;
    const struct spilled *next; /* NULL: at the end */
    uint32_t lost, partials[KYMO_ENGINE_MAX];
    size_t hint, record_hint;
    uint64_t losses, record_losses;
};

struct flow {
    const struct job *j;
    struct flow_static facts;
    struct flow_dma *dma;
    struct flow_cc *cc;
    struct flow_rows *rows;
    struct wait_sums *sums;
    struct core cores[INPUT_CORES_MAX];
};

static void flow_free(void *ctx)
{
    struct flow *f = ctx;
    for (unsigned c = 0; c < INPUT_CORES_MAX; c++) {
        flow_core_free(f->cores[c].flow);
        spill_reader_done(&f->cores[c].reader);
        spill_free(f->cores[c].records);
    }
    flow_dma_free(f->dma);
    flow_cc_free(f->cc);
    flow_rows_free(f->rows);
    wait_sums_free(f->sums);
    flow_static_done(&f->facts);
    kymo_free(f);
}

static int write_edge(void *ctx, const struct flow_edge *e, struct kymo_err *err)
{
    struct flow *f = ctx;
    return flow_rows_edge(f->rows, e, err);
}

static int write_wait(void *ctx, const struct flow_wait *w, struct kymo_err *err)
{
    struct flow *f = ctx;
    int r = flow_rows_wait(f->rows, w, err);
    return r < 0 ? r : wait_sums_add(f->sums, w, err);
}

static int open_parts(struct flow *f, struct kymo_err *err)
{
    const struct job *j = f->j;
    struct flow_sink sink = {.edge = write_edge, .wait = write_wait, .ctx = f};
    int r = flow_static_open(&f->facts, j->in, &j->statics, err);
    if (r == 0)
        r = flow_dma_open(j, &f->dma, err);
    if (r == 0)
        r = flow_cc_open(j, &f->cc, err);
    if (r == 0)
        r = flow_rows_open(j->dir, &j->parquet, &f->rows, err);
    if (r == 0)
        r = wait_sums_open(j, &f->sums, err);
    for (unsigned c = 0; c < j->in->cores && r == 0; c++) {
        r = flow_core_new(&f->facts, c, sink, &f->cores[c].flow, err);
        if (r == 0)
            r = spill_open(j->dir, sizeof(struct spilled), &f->cores[c].records, err);
    }
    return r;
}

static int flow_open(const struct job *j, void **ret, struct kymo_err *err)
{
    struct flow *f = KYMO_NEW(struct flow);
    if (!f)
        return kymo_err_set(err, -ENOMEM, "no memory for dependencies");
    f->j = j;
    int r = open_parts(f, err);
    if (r < 0) {
        flow_free(f);
        return r;
    }
    *ret = f;
    return 0;
}

static int take_packets(void *ctx, const struct consumer_packet *rows, size_t n, struct kymo_err *err)
{
    struct flow *f = ctx;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = flow_dma_packet(f->dma, &rows[i], err);
    return r;
}

static int take_transfers(void *ctx, const struct consumer_transfer *rows, size_t n, struct kymo_err *err)
{
    struct flow *f = ctx;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = flow_dma_transfer(f->dma, &rows[i], err);
    return r;
}

static int take_collectives(void *ctx, const struct consumer_collective *rows, size_t n, struct kymo_err *err)
{
    struct flow *f = ctx;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = flow_cc_collective(f->cc, &rows[i], err);
    return r;
}

static struct held *held_at(struct core *c, size_t at)
{
    return &c->held[(c->held_first + at) % REORDER];
}

static int spill_first(struct core *c, struct kymo_err *err)
{
    struct held *h = held_at(c, 0);
    if (h->gaps > c->gaps)
        h->rec.flags |= AFTER_LOSS;
    c->gaps = h->gaps > c->gaps ? h->gaps : c->gaps;
    int r = spill_append(c->records, &h->rec, err);
    c->held_first = (c->held_first + 1) % REORDER;
    c->held_count--;
    return r;
}

static int take_semaphore(struct core *c, const struct consumer_semaphore *s, struct kymo_err *err)
{
    int r = c->held_count == REORDER ? spill_first(c, err) : 0;
    size_t at = c->held_count++;
    for (; at > 0 && held_at(c, at - 1)->position > s->position; at--)
        *held_at(c, at) = *held_at(c, at - 1);
    *held_at(c, at) = (struct held){
        .rec = {s->ps, s->value, s->mode, s->index, s->source, s->is_semaphore ? IS_SEMAPHORE : 0},
        .position = s->position,
        .gaps = s->gaps,
    };
    return r;
}

static int take_semaphores(void *ctx, const struct consumer_semaphore *rows, size_t n, struct kymo_err *err)
{
    struct flow *f = ctx;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = take_semaphore(&f->cores[rows[i].pcore], &rows[i], err);
    return r;
}

static int read_next(struct core *c, struct kymo_err *err)
{
    const void *next = NULL;
    int r = spill_reader_next(&c->reader, &next, err);
    c->next = r > 0 ? next : NULL;
    return r < 0 ? r : 0;
}

static int seal_records(struct core *c, struct kymo_err *err)
{
    int r = 0;
    while (c->held_count && r == 0)
        r = spill_first(c, err);
    if (r == 0)
        r = spill_seal(c->records, err);
    if (r == 0)
        r = spill_reader_init(&c->reader, c->records, err);
    return r < 0 ? r : read_next(c, err);
}

static uint32_t execution_at(const struct flow *f, uint64_t ps, size_t *hint)
{
    size_t at = timeline_at(&f->j->timeline, ps, hint);
    return at == SIZE_MAX ? 1 : (uint32_t)at + 1;
}

static bool find_write(const struct flow *f, const struct written *w, uint64_t ps, struct flow_update *ret)
{
    for (uint32_t k = 0; k < WRITES && k < w->count; k++) {
        const struct write *at = &w->writes[k];
        if (at->end_ps + FLOW_REACH_EXACT_PS < ps || ps + FLOW_REACH_EXACT_PS < at->end_ps)
            continue;
        *ret = (struct flow_update){.id = at->id,
                                    .end = at->end,
                                    .prior = flow_core_prior(f->cores[at->pcore].flow, FLOW_INSTRUCTION, at->id),
                                    .writer = FLOW_WRITER_INSTRUCTION};
        return true;
    }
    return false;
}

/* 1: an update through AXI is that of this transfer, collective or instruction, or it is known why that is not known.
 */
static int find_writer(struct flow *f, unsigned pcore, const struct flow_record *rec, struct flow_update *ret,
                       struct kymo_err *err)
{
    if (rec->source != KYMO_ENGINE_MAX || !rec->mode || !rec->is_semaphore)
        return 0;
    if (find_write(f, &f->cores[pcore].written[rec->index], rec->ps, ret))
        return 1;
    struct flow_found transfer = {0}, collective = {0};
    int t = flow_dma_find(f->dma, pcore, rec->index, rec->ps, &transfer, err);
    int c = t < 0 ? t : flow_cc_find(f->cc, pcore, rec->index, rec->ps, &collective, err);
    if (c < 0)
        return c;
    if (c && (!t || collective.distance < transfer.distance))
        *ret = (struct flow_update){.id = collective.id, .end = collective.end, .writer = FLOW_WRITER_COLLECTIVE};
    else if (t)
        *ret = (struct flow_update){.id = transfer.id, .end = transfer.end, .writer = FLOW_WRITER_TRANSFER};
    else if (flow_cc_lost(f->cc, pcore, rec->index))
        *ret = (struct flow_update){.id = -1, .prior = -1, .writer = FLOW_WRITER_LOST};
    else
        return 0;
    return 1;
}

static int take_record(struct flow *f, unsigned pcore, struct kymo_err *err)
{
    struct core *c = &f->cores[pcore];
    const struct spilled *s = c->next;
    struct flow_record rec = {s->ps, s->value, s->mode, s->index, s->source, s->flags & IS_SEMAPHORE};
    struct flow_update writer = {0};
    bool lost = s->flags & AFTER_LOSS;
    int found = find_writer(f, pcore, &rec, &writer, err);
    int r = found < 0 ? found : read_next(c, err);
    if (r < 0)
        return r;
    flow_core_execution(c->flow, execution_at(f, rec.ps, &c->record_hint));
    if (lost) {
        c->record_losses++;
        flow_core_lost_records(c->flow);
    }
    return flow_core_record(c->flow, &rec, found ? &writer : NULL, err);
}

static int advance(struct flow *f, unsigned pcore, uint64_t ps, struct kymo_err *err)
{
    struct core *c = &f->cores[pcore];
    int r = 0;
    while (r == 0 && c->next && c->next->ps < ps)
        r = take_record(f, pcore, err);
    return r < 0 ? r : flow_core_settle(c->flow, ps, !c->next, err);
}

/* What an instruction started: a transfer, or a collective. */
static int take_launch(struct flow *f, const struct instr_row *row, const struct flow_row *st, struct flow_launch *ret,
                       struct kymo_err *err)
{
    struct flow_edge e = {.in_id = row->id, .type = FLOW_TYPE_DMA_TRIGGER};
    struct flow_collective collective = {0};
    *ret = (struct flow_launch){.id = -1};
    int found = row->transfer >= 0 ? 0 : flow_cc_started(f->cc, row, &collective, err);
    if (row->transfer >= 0) {
        *ret = (struct flow_launch){row->transfer, row->dma_end, FLOW_TRANSFER};
        e.gap = row->dma_start - row->end;
        if (st->dma_semaphore >= 0)
            flow_dma_dynamic(f->dma, row->transfer, (unsigned)st->dma_semaphore);
    } else if (found > 0) {
        *ret = (struct flow_launch){collective.id, collective.end, FLOW_COLLECTIVE};
        e.gap = collective.start - row->end;
    } else {
        return found;
    }
    e.out_id = ret->id;
    e.out_table = ret->table;
    return flow_rows_edge(f->rows, &e, err);
}

/* What was lost before this instruction may have used banks, and run what the compiler's edges lead to. */
static void note_losses(struct core *c, const struct instr_row *row, unsigned engine)
{
    bool lost = row->gaps > c->lost || row->partials > c->partials[engine];
    c->lost = row->gaps > c->lost ? row->gaps : c->lost;
    c->partials[engine] = row->partials;
    if (!lost)
        return;
    c->losses++;
    flow_core_lost_instructions(c->flow);
}

static int take_instruction(struct flow *f, const struct instr_row *row, struct kymo_err *err)
{
    const struct flow_row *st = &f->facts.rows[row->row];
    struct core *c = &f->cores[st->pcore];
    uint64_t begin = row->start_ps + (uint64_t)row->wait * 1000;
    struct flow_instruction i = {
        .id = row->id,
        .start = row->start,
        .end = row->end,
        .start_ps = row->start_ps,
        .end_ps = row->end_ps,
        .wait = row->wait,
        .row = row->row,
        .execution = execution_at(f, begin, &c->hint),
        .saturated = row->saturated,
    };
    int r = advance(f, st->pcore, row->start_ps, err);
    if (r < 0)
        return r;
    note_losses(c, row, st->engine);
    if (st->writes >= 0) {
        struct written *to = &f->cores[st->writes / 256].written[st->writes % 256];
        to->writes[to->count++ % WRITES] = (struct write){row->end_ps, row->id, row->end, st->pcore};
    }
    r = take_launch(f, row, st, &i.launched, err);
    return r < 0 ? r : flow_core_instruction(c->flow, &i, err);
}

static int take_instructions(void *ctx, const struct instr_row *rows, size_t n, struct kymo_err *err)
{
    struct flow *f = ctx;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = take_instruction(f, &rows[i], err);
    return r;
}

static int end_stage(void *ctx, enum consumer_stage stage, struct kymo_err *err)
{
    struct flow *f = ctx;
    int r = 0;
    if (stage == CONSUMER_TRANSFERS)
        return flow_dma_seal(f->dma, err);
    if (stage == CONSUMER_COLLECTIVES)
        return flow_cc_seal(f->cc, err);
    for (unsigned c = 0; c < f->j->in->cores && r == 0; c++) {
        if (stage == CONSUMER_SEMAPHORES)
            r = seal_records(&f->cores[c], err);
        else if (stage == CONSUMER_INSTRUCTIONS)
            r = advance(f, c, UINT64_MAX, err);
    }
    return r;
}

static void explain_waits(const struct flow_counts *n, struct warnings *w)
{
    static const struct {
        enum flow_doubt doubt;
        const char *why;
    } reasons[] = {
        {FLOW_DOUBT_RECORDS_LOST, "records that would tell were lost or not captured: raise the ring's buffer"},
        {FLOW_DOUBT_REGISTER, "their threshold is in a register"},
        {FLOW_DOUBT_HELD, "their condition is recorded as having held before"},
        {FLOW_DOUBT_LONG, "their condition has held for more updates than are remembered"},
        {FLOW_DOUBT_WRITER,
         "the update came through AXI from no transfer and no collective that the trace and the NEFF name"},
        {FLOW_DOUBT_OPERANDS, "their operands are not known"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (n->unexplained[reasons[i].doubt])
            warnings_add(w, "Dependencies", "%llu of %llu waits have no cause in WaitCause: %s",
                         (unsigned long long)n->unexplained[reasons[i].doubt], (unsigned long long)n->waits,
                         reasons[i].why);
}

static void explain_losses(const struct flow *f, const struct flow_counts *n, struct warnings *w)
{
    uint64_t losses = 0, records = 0;
    for (unsigned c = 0; c < INPUT_CORES_MAX; c++) {
        losses += f->cores[c].losses;
        records += f->cores[c].record_losses;
    }
    if (losses)
        warnings_add(w, "Dependencies",
                     "instruction records were lost at %llu places: no edge leads across them in Flow; the last users "
                     "of %llu PSUM banks were forgotten, and %llu edges of the compiler are left out",
                     (unsigned long long)losses, (unsigned long long)n->banks, (unsigned long long)n->compiler);
    else if (n->compiler)
        warnings_add(w, "Dependencies",
                     "%llu edges of the compiler are left out: engines ran more than %d rounds apart",
                     (unsigned long long)n->compiler, FLOW_RUNS);
    if (records)
        warnings_add(w, "Dependencies",
                     "semaphore records were lost at %llu places: no semaphore edge leads across them in Flow",
                     (unsigned long long)records);
    if (f->facts.unknown_kinds)
        warnings_add(w, "Dependencies", "%llu dependencies in the debug layer are of a kind that is not known",
                     (unsigned long long)f->facts.unknown_kinds);
    if (f->facts.beyond)
        warnings_add(w, "Dependencies",
                     "%llu dependencies in the debug layer are left out: their instructions have too many",
                     (unsigned long long)f->facts.beyond);
    if (!f->facts.has_debug && f->facts.count)
        warnings_add(w, "Dependencies",
                     "no debug layer names dependencies: Flow has no edges of the compiler; give the NEFF, compiled "
                     "with debug information");
}

static int flow_finish(void *ctx, struct warnings *w, struct kymo_err *err)
{
    struct flow *f = ctx;
    struct flow_counts sum = {0};
    for (unsigned c = 0; c < f->j->in->cores; c++) {
        struct flow_counts one;
        flow_core_counts(f->cores[c].flow, &one);
        sum.banks += one.banks;
        sum.compiler += one.compiler;
        sum.waits += one.waits;
        for (unsigned d = 0; d < FLOW_DOUBT_MAX; d++)
            sum.unexplained[d] += one.unexplained[d];
    }
    explain_waits(&sum, w);
    explain_losses(f, &sum, w);
    int r = flow_rows_finish(f->rows, err);
    return r < 0 ? r : wait_sums_finish(f->sums, err);
}

const struct consumer flow_consumer = {
    .name = "flow",
    .open = flow_open,
    .packets = take_packets,
    .transfers = take_transfers,
    .collectives = take_collectives,
    .semaphores = take_semaphores,
    .instructions = take_instructions,
    .end_stage = end_stage,
    .finish = flow_finish,
    .free = flow_free,
};
