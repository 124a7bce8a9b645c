/* The pass that writes Instruction, and PartialEvent rows of instructions. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/instructions/instr_rows.h"
#include "pipeline/instructions/instr_stream.h"
#include "pipeline/job.h"

#define REPORT_EVERY 65536

struct pass {
    struct job *j;
    struct spill_reader triggers[INPUT_CORES_MAX][KYMO_ENGINE_MAX];
    double ns_per_cycle[KYMO_ENGINE_MAX];
    int64_t next_id;
    uint64_t saturated, untold; /* waits beyond their counter, and those of them that no record tells the length of */
    uint32_t gaps[INPUT_CORES_MAX][KYMO_ENGINE_MAX], partials[INPUT_CORES_MAX][KYMO_ENGINE_MAX];
    size_t hint;
};

/* A start that is open at the end of a ring which dropped records may have ended among those. */
static enum pair_reason reason_of(const struct job *j, const struct instr_event *e)
{
    uint64_t lost = 0;
    bool dropped = ledger_lost(&j->scan.rings[e->ring], &lost) && lost;
    if (e->has_start && e->has_end)
        return PAIR_BACKWARDS;
    return e->reason == PAIR_OPEN_AT_END && dropped ? PAIR_LOST_AFTER : (enum pair_reason)e->reason;
}

static int add_partial(struct pass *p, const struct instr_event *e, bool start_side, struct kymo_err *err)
{
    struct job *j = p->j;
    const struct static_row *st = &j->statics.rows[e->row];
    struct partial one = {
        .ts = timebase_ns(&j->timebase, start_side ? e->start_ps : e->end_ps),
        .id = p->next_id++,
        .pc = st->slot >= 0 ? st->slot : (int64_t)e->pc,
        .ring = e->ring,
        .engine = e->engine,
        .pcore = e->pcore,
        .kind = PARTIAL_INSTRUCTION,
        .reason = (uint8_t)reason_of(j, e),
        .start_side = start_side,
    };
    enum record_kind kind = start_side ? RECORD_INSTRUCTION_START : RECORD_INSTRUCTION_END;
    j->ledger.rings[e->ring].partial[kind]++;
    return partials_add(j->partials, one, err);
}

/* The k-th trigger of an engine has the k-th result, whole or partial: the passes see the same events in the same
 * order. */
static int take_trigger(struct pass *p, const struct instr_event *e, struct instr_row *row, struct kymo_err *err)
{
    struct spill_reader *reader = &p->triggers[e->pcore][e->engine];
    if (!reader->spill)
        return 0;
    const void *next;
    int r = spill_reader_next(reader, &next, err);
    if (r <= 0)
        return r;
    const struct job_trigger *t = next;
    row->transfer = t->transfer - 1;
    row->has_dma = t->complete;
    row->dma_start = t->start;
    row->dma_end = t->end;
    return 0;
}

/* The counter says when the wait was over, or, at its end, the met wait's record. */
static int find_begin(struct pass *p, const struct instr_event *e, struct instr_row *row, struct kymo_err *err)
{
    double counted = (double)e->wait_cycles * p->ns_per_cycle[e->engine];
    /* A little is added so that a whole number of ns is not rounded down to the one before. */
    row->wait = (int64_t)(counted + 1e-6);
    row->begin = row->wait < row->end - row->start ? row->start + row->wait : row->end;
    row->saturated = e->wait_cycles == RECORD_WAIT_SATURATED;
    if (!row->saturated)
        return 0;
    const struct static_row *st = &p->j->statics.rows[e->row];
    const uint8_t *rec = st->slot >= 0 ? program_record(st->program, (size_t)st->slot) : NULL;
    uint64_t met;
    int r = met_waits_find(p->j->met_waits[e->pcore][e->engine], rec ? met_waits_target(rec) : MET_WAITS_ANY,
                           e->start_ps, counted, e->end_ps, &met, err);
    if (r > 0)
        row->begin = timebase_ns(&p->j->timebase, met);
    p->saturated++;
    p->untold += r == 0;
    return r < 0 ? r : 0;
}

static int add_row(struct pass *p, const struct instr_event *e, struct instr_row *row, struct kymo_err *err)
{
    struct job *j = p->j;
    row->start = timebase_ns(&j->timebase, e->start_ps);
    row->end = timebase_ns(&j->timebase, e->end_ps);
    row->id = p->next_id++;
    row->row = e->row;
    row->crc_in = e->crc_in;
    row->crc_out = e->crc_out;
    row->start_ps = e->start_ps;
    row->end_ps = e->end_ps;
    row->gaps = p->gaps[e->pcore][e->engine];
    row->partials = p->partials[e->pcore][e->engine];
    j->ledger.rings[e->ring].rows[RECORD_INSTRUCTION_START]++;
    j->ledger.rings[e->ring].rows[RECORD_INSTRUCTION_END]++;
    timeline_count(&j->timeline, e->start_ps, &p->hint);
    int r = find_begin(p, e, row, err);
    if (r == 0)
        r = summary_instruction(j->summary, e->row, row->start, row->end, row->begin - row->start, err);
    j->result->instructions++;
    return r < 0 ? r : consumers_instruction(j->consumers, row, err);
}

static int take(struct pass *p, const struct instr_event *e, struct kymo_err *err)
{
    if (e->gap) {
        p->gaps[e->pcore][e->engine]++;
        return 0;
    }
    struct instr_row row = {.transfer = -1};
    if (p->j->statics.rows[e->row].trigger) {
        int r = take_trigger(p, e, &row, err);
        if (r < 0)
            return r;
    }
    bool whole = e->has_start && e->has_end;
    if (whole && e->start_ps <= e->end_ps)
        return add_row(p, e, &row, err);
    p->j->backwards += whole;
    p->partials[e->pcore][e->engine]++;
    int r = add_partial(p, e, e->has_start, err);
    return r == 0 && whole ? add_partial(p, e, false, err) : r;
}

static int open_triggers(struct pass *p, struct kymo_err *err)
{
    for (unsigned pcore = 0; pcore < INPUT_CORES_MAX; pcore++)
        for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++)
            if (p->j->triggers[pcore][e]) {
                int r = spill_reader_init(&p->triggers[pcore][e], p->j->triggers[pcore][e], err);
                if (r < 0)
                    return r;
            }
    return 0;
}

static int run(struct pass *p, struct kymo_err *err)
{
    struct job *j = p->j;
    struct instr_stream *stream KYMO_CLEANUP(instr_stream_freep) = NULL;
    int r = instr_stream_open(j->in, &j->scan, &j->statics, &j->timeline, &stream, err);
    if (r < 0)
        return r;
    const struct instr_event *e;
    uint64_t n = 0, records = 0;
    for (size_t i = 0; i < j->scan.count; i++)
        if (j->scan.rings[i].ring.kind == NTFF__RING_KIND__RING_INSTRUCTION)
            records += j->scan.rings[i].ring.records;
    while ((r = instr_stream_next(stream, &e, err)) > 0) {
        r = take(p, e, err);
        if (r == 0 && ++n % REPORT_EVERY == 0)
            r = job_report(j, PROCESS_INSTRUCTIONS, 2 * n < records ? 2 * n : records, records, err);
        if (r < 0)
            return r;
    }
    return r;
}

int job_instructions(struct job *j, struct kymo_err *err)
{
    struct pass p = {.j = j};
    for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++)
        p.ns_per_cycle[e] = j->in->arch->clock_ghz[e] > 0 ? 1 / j->in->arch->clock_ghz[e] : 0;
    int r = open_triggers(&p, err);
    if (r == 0)
        r = run(&p, err);
    for (unsigned pcore = 0; pcore < INPUT_CORES_MAX; pcore++)
        for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++)
            spill_reader_done(&p.triggers[pcore][e]);
    if (r == 0)
        met_waits_warn(j->warnings, "instructions", p.saturated, p.untold);
    return r;
}
