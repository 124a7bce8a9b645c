/*
 * The pass over the CC-cores' rings: CcOp, CcInstruction, CcSemaphoreUpdate and CcStream. Collectives come first; the
 * instructions of a stream then walk along with its collectives to learn whose they are.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "arch/cc.h"
#include "base/alloc.h"
#include "pipeline/cc/cc_instrs.h"
#include "pipeline/cc/cc_notices.h"
#include "pipeline/cc/cc_table.h"
#include "pipeline/cc/cc_triggers.h"
#include "pipeline/formulas/formulas.h"
#include "pipeline/job.h"
#include "pipeline/rings/ring_io.h"

#define STREAMS_MAX (INPUT_NODES_MAX * CC_STREAMS_PER_NODE)
#define CORES_TEXT_MAX 4096

/* A collective that is in CcOp, as its instructions and consumers need it. */
struct done {
    int64_t start, end;
    uint64_t sequence;
    uint32_t place, op; /* CC_NONE: the file does not know it */
    int64_t trigger_start;
    uint64_t trigger_ps;
    uint32_t trigger_row;
    uint8_t has_trigger;
};

struct pass {
    struct job *j;
    struct cc_table table;
    struct cc_triggers *triggers;
    struct spill **notices;   /* by ring of the scan; NULL: none */
    struct met_waits **waits; /* by ring of instructions; NULL: none waited beyond its counter */
    struct spill *done;
    struct parquet_row *row;
    int64_t next_id, next_instr;
    uint64_t unknown, untriggered, saturated, untold;
    double ns_per_cycle;
};

/* Takes p->row, whether its rows came about (r) or not; a table without rows has no file. */
static int finish_table(struct pass *p, int r, uint64_t *ret_rows, struct kymo_err *err)
{
    struct parquet_row *row = p->row;
    p->row = NULL;
    *ret_rows = row ? parquet_row_count(row) : 0;
    if (r == 0 && *ret_rows)
        return parquet_row_finish(row, err);
    parquet_row_discard(row);
    return r;
}

/* ---- CcOp */

static void put_known(struct parquet_row *row, const struct cc_op *op)
{
    parquet_row_string(row, KYMO_CC_OP_OPERATION, op->operation);
    parquet_row_string(row, KYMO_CC_OP_ALGORITHM, op->algorithm);
    parquet_row_string(row, KYMO_CC_OP_DTYPE, op->dtype_name);
    parquet_row_int(row, KYMO_CC_OP_NUM_ELEMENTS, op->num_elements);
    parquet_row_int(row, KYMO_CC_OP_OP_ID, op->op_id);
    parquet_row_int(row, KYMO_CC_OP_STREAM_ID, op->stream_id);
    parquet_row_int(row, KYMO_CC_OP_STREAM_INDEX, op->stream_index);
    parquet_row_string(row, KYMO_CC_OP_TRIGGER_ENGINE,
                       op->engine >= 0 ? kymo_engine_name((enum kymo_engine)op->engine) : "");
    if (op->layout >= 0)
        parquet_row_int(row, KYMO_CC_OP_REPLICA_GROUP_ID, op->layout);
    parquet_row_string(row, KYMO_CC_OP_REPLICA_GROUP, op->replica_group);
    if (op->rank >= 0)
        parquet_row_int(row, KYMO_CC_OP_RANK, op->rank);
    if (op->ranks > 0)
        parquet_row_int(row, KYMO_CC_OP_RANKS, op->ranks);
}

static void put_bandwidth(struct parquet_row *row, const struct cc_op *op, int64_t ns)
{
    if (op->input_size < 0)
        return;
    parquet_row_int(row, KYMO_CC_OP_INPUT_SIZE, op->input_size);
    parquet_row_int(row, KYMO_CC_OP_OUTPUT_SIZE, op->output_size);
    double bandwidth = formulas_algorithm_bandwidth((uint64_t)op->input_size, (uint64_t)op->output_size, ns);
    double factor = kymo_cc_bus_factor(op->kind, (unsigned)op->ranks);
    if (ns <= 0)
        return;
    parquet_row_real(row, KYMO_CC_OP_ALGORITHM_BANDWIDTH, bandwidth);
    if (factor > 0)
        parquet_row_real(row, KYMO_CC_OP_BUS_BANDWIDTH, bandwidth * factor);
}

static int put_op(struct pass *p, const struct cc_notice *n, const struct done *d, int64_t id, struct kymo_err *err)
{
    struct parquet_row *row = p->row;
    parquet_row_int(row, KYMO_CC_OP_START_TS, d->start);
    parquet_row_int(row, KYMO_CC_OP_END_TS, d->end);
    parquet_row_int(row, KYMO_CC_OP_DURATION_NS, d->end - d->start);
    parquet_row_int(row, KYMO_CC_OP_ID, id);
    parquet_row_int(row, KYMO_CC_OP_INVOCATION, (int64_t)n->sequence);
    parquet_row_int(row, KYMO_CC_OP_CORE_IDX, p->j->scan.rings[n->ring].ring.engine_index);
    if (d->op != CC_NONE) {
        put_known(row, &p->table.ops[d->op]);
        put_bandwidth(row, &p->table.ops[d->op], d->end - d->start);
    }
    if (d->has_trigger) {
        parquet_row_int(row, KYMO_CC_OP_TRIGGER_START_TS, d->trigger_start);
        parquet_row_int(row, KYMO_CC_OP_CC_TRIGGER_START_DELAY, formulas_gap(d->start, d->trigger_start));
    }
    return parquet_row_end(row, err);
}

static int find_trigger(struct pass *p, const struct cc_notice *n, struct done *d, struct kymo_err *err)
{
    struct cc_trigger t;
    if (!p->triggers || d->op == CC_NONE || !n->has_start)
        return 0;
    int r = cc_triggers_find(p->triggers, d->op, n->start_ps, &t, err);
    if (r <= 0)
        return r;
    d->has_trigger = t.has_start;
    d->trigger_start = timebase_ns(&p->j->timebase, t.start_ps);
    d->trigger_ps = t.start_ps;
    d->trigger_row = t.row;
    return 0;
}

static int tell_consumers(struct pass *p, const struct cc_notice *n, const struct done *d, int64_t id,
                          struct kymo_err *err)
{
    const struct cc_op *op = d->op == CC_NONE ? NULL : &p->table.ops[d->op];
    struct consumer_collective row = {
        .id = id,
        .start = d->start,
        .end = d->end,
        .end_ps = n->end_ps,
        .invocation = (int64_t)n->sequence,
        .known = op,
        .semaphore = -1,
        .trigger_start = d->trigger_start,
        .trigger_ps = d->trigger_ps,
        .trigger_row = d->trigger_row,
        .has_trigger = d->has_trigger,
    };
    if (op) {
        row.kind = op->kind;
        row.dtype = op->dtype;
        row.pcore = op->pcore;
        row.semaphore = op->semaphore;
        row.num_elements = op->num_elements;
        row.ranks = op->ranks;
    }
    return consumers_collective(p->j->consumers, &row, err);
}

static int add_partial_op(struct pass *p, const struct cc_notice *n, bool start_side, struct kymo_err *err)
{
    struct job *j = p->j;
    const struct ntff_ring *ring = &j->scan.rings[n->ring].ring;
    struct partial one = {
        .ts = timebase_ns(&j->timebase, start_side ? n->start_ps : n->end_ps),
        .id = p->next_id++,
        .pc = -1,
        .ring = n->ring,
        .engine = (uint16_t)ring->engine_index,
        .pcore = (uint8_t)ring->pcore_idx,
        .kind = PARTIAL_COLLECTIVE,
        .reason = n->has_start && n->has_end ? PAIR_BACKWARDS : n->reason,
        .start_side = start_side,
    };
    j->ledger.rings[n->ring].partial[RECORD_EXPLICIT]++;
    return partials_add(j->partials, one, err);
}

/* Its instructions are its own even if the end is not known. */
static int take_op(struct pass *p, const struct cc_notice *n, struct kymo_err *err)
{
    struct job *j = p->j;
    struct done d = {.sequence = n->sequence, .place = n->place, .op = cc_table_at(&p->table, n->node, n->place)};
    d.start = n->has_start ? timebase_ns(&j->timebase, n->start_ps) : INT64_MIN;
    d.end = n->has_end ? timebase_ns(&j->timebase, n->end_ps) : INT64_MAX;
    int r = find_trigger(p, n, &d, err);
    if (r == 0 && n->has_start)
        r = spill_append(p->done, &d, err);
    bool whole = n->has_start && n->has_end;
    if (r < 0)
        return r;
    if (!whole || n->start_ps > n->end_ps) {
        j->backwards += whole;
        r = add_partial_op(p, n, n->has_start, err);
        return r == 0 && whole ? add_partial_op(p, n, false, err) : r;
    }
    int64_t id = p->next_id++;
    p->unknown += d.op == CC_NONE;
    p->untriggered += !d.has_trigger;
    j->ledger.rings[n->ring].rows[RECORD_EXPLICIT] += 2;
    r = summary_collective(j->summary, d.start, d.end, err);
    if (r == 0)
        r = put_op(p, n, &d, id, err);
    return r < 0 ? r : tell_consumers(p, n, &d, id, err);
}

/* ---- merging the rings' notices */

struct source {
    struct spill_reader reader;
    struct cc_notice at;
    bool live;
};

static int next_notice(struct source *s, struct kymo_err *err)
{
    const void *next = NULL;
    int r = spill_reader_next(&s->reader, &next, err);
    s->live = r > 0;
    if (s->live)
        s->at = *(const struct cc_notice *)next;
    return r < 0 ? r : 0;
}

static uint64_t key_of(const struct cc_notice *n)
{
    return n->has_start ? n->start_ps : n->end_ps;
}

static int merge_notices(struct pass *p, struct source *sources, size_t count, struct kymo_err *err)
{
    for (;;) {
        struct source *best = NULL;
        for (size_t i = 0; i < count; i++)
            if (sources[i].live && (!best || key_of(&sources[i].at) < key_of(&best->at)))
                best = &sources[i];
        if (!best)
            return 0;
        int r = take_op(p, &best->at, err);
        if (r == 0)
            r = next_notice(best, err);
        if (r < 0)
            return r;
    }
}

static int collect_notices(struct pass *p, size_t *ret_count, struct kymo_err *err)
{
    struct job *j = p->j;
    int r = 0;
    for (size_t i = 0; i < j->scan.count && r == 0; i++) {
        const struct scan_ring *ring = &j->scan.rings[i];
        if (ring->ring.kind != NTFF__RING_KIND__RING_CC_CORE_INSTRUCTION || !ring->by_kind[RECORD_EXPLICIT])
            continue;
        r = spill_open(j->dir, sizeof(struct cc_notice), &p->notices[i], err);
        if (r == 0)
            r = cc_notices_collect(j, i, p->notices[i], err);
        *ret_count += 1;
    }
    return r;
}

static int write_ops(struct pass *p, struct kymo_err *err)
{
    struct job *j = p->j;
    size_t count = 0, n = 0;
    int r = collect_notices(p, &count, err);
    if (r < 0 || !count)
        return r;
    struct source *sources = KYMO_NEW_ARRAY(struct source, count);
    if (!sources)
        return kymo_err_set(err, -ENOMEM, "no memory for the collectives' rings");
    r = cc_triggers_open(j, &p->table, &p->triggers, err);
    if (r == 0)
        r = parquet_row_open(j->dir, kymo_schema_table(KYMO_T_CC_OP), &j->parquet, &p->row, err);
    for (size_t i = 0; i < j->scan.count && r == 0; i++) {
        if (!p->notices[i])
            continue;
        r = spill_reader_init(&sources[n].reader, p->notices[i], err);
        if (r == 0)
            r = next_notice(&sources[n++], err);
    }
    if (r == 0)
        r = merge_notices(p, sources, n, err);
    for (size_t i = 0; i < n; i++)
        spill_reader_done(&sources[i].reader);
    kymo_free(sources);
    return finish_table(p, r, &j->result->collectives, err);
}

/* ---- CcInstruction */

struct owners {
    struct spill_reader reader;
    struct done next;
    bool live;
    struct done by_place[KYMO_CC_OPS_MAX]; /* the latest collective of each place in a program */
    bool known[KYMO_CC_OPS_MAX];
};

static int read_owner(struct owners *o, struct kymo_err *err)
{
    const void *next = NULL;
    int r = spill_reader_next(&o->reader, &next, err);
    o->live = r > 0;
    if (o->live)
        o->next = *(const struct done *)next;
    return r < 0 ? r : 0;
}

/* The collective that an instruction which begins at ts is part of; NULL: not known. */
static int find_owner(struct owners *o, uint32_t pc, int64_t ts, const struct done **ret, struct kymo_err *err)
{
    int r = 0;
    *ret = NULL;
    while (o->live && o->next.start <= ts && r == 0) {
        if (o->next.place < KYMO_CC_OPS_MAX) {
            o->by_place[o->next.place] = o->next;
            o->known[o->next.place] = true;
        }
        r = read_owner(o, err);
    }
    uint32_t place = kymo_cc_pc_op(pc);
    if (r == 0 && place < KYMO_CC_OPS_MAX && o->known[place] && o->by_place[place].end >= ts)
        *ret = &o->by_place[place];
    return r;
}

static void put_owner(struct pass *p, const struct done *d)
{
    struct parquet_row *row = p->row;
    parquet_row_int(row, KYMO_CC_INSTRUCTION_INVOCATION, (int64_t)d->sequence);
    if (d->op != CC_NONE) {
        const struct cc_op *op = &p->table.ops[d->op];
        parquet_row_int(row, KYMO_CC_INSTRUCTION_OP_ID, op->op_id);
        parquet_row_int(row, KYMO_CC_INSTRUCTION_STREAM_ID, op->stream_id);
        if (op->engine >= 0)
            parquet_row_string(row, KYMO_CC_INSTRUCTION_TRIGGER_ENGINE, kymo_engine_name((enum kymo_engine)op->engine));
    }
    if (d->has_trigger)
        parquet_row_int(row, KYMO_CC_INSTRUCTION_TRIGGER_START_TS, d->trigger_start);
}

static int put_instr(struct pass *p, const struct cc_instr *e, const struct done *owner, int64_t start, int64_t end,
                     int64_t wait, struct kymo_err *err)
{
    struct parquet_row *row = p->row;
    char text[24];
    const char *name = kymo_cc_instr_name(e->hint);
    if (!name) {
        (void)snprintf(text, sizeof text, "Instruction(%u)", e->hint);
        name = text;
    }
    parquet_row_int(row, KYMO_CC_INSTRUCTION_START_TS, start);
    parquet_row_int(row, KYMO_CC_INSTRUCTION_END_TS, end);
    parquet_row_int(row, KYMO_CC_INSTRUCTION_DURATION_NS, end - start);
    parquet_row_int(row, KYMO_CC_INSTRUCTION_CORE_IDX, p->j->scan.rings[e->ring].ring.engine_index);
    parquet_row_string(row, KYMO_CC_INSTRUCTION_DESCRIPTION, name);
    parquet_row_int(row, KYMO_CC_INSTRUCTION_ID, p->next_instr++);
    parquet_row_int(row, KYMO_CC_INSTRUCTION_PC, e->pc);
    parquet_row_int(row, KYMO_CC_INSTRUCTION_EVT_WAIT_TIME_NS, wait);
    if (owner)
        put_owner(p, owner);
    return parquet_row_end(row, err);
}

static int add_partial_instr(struct pass *p, const struct cc_instr *e, bool start_side, struct kymo_err *err)
{
    struct job *j = p->j;
    const struct ntff_ring *ring = &j->scan.rings[e->ring].ring;
    struct partial one = {
        .ts = timebase_ns(&j->timebase, start_side ? e->start_ps : e->end_ps),
        .id = p->next_instr++,
        .pc = e->pc,
        .ring = e->ring,
        .engine = (uint16_t)ring->engine_index,
        .pcore = (uint8_t)ring->pcore_idx,
        .kind = PARTIAL_CC_INSTRUCTION,
        .reason = e->has_start && e->has_end ? PAIR_BACKWARDS : e->reason,
        .start_side = start_side,
    };
    j->ledger.rings[e->ring].partial[start_side ? RECORD_INSTRUCTION_START : RECORD_INSTRUCTION_END]++;
    return partials_add(j->partials, one, err);
}

/* How long it waited: as counted, or, where the counter is at its end, by the met wait's record. */
static int find_wait(struct pass *p, const struct cc_instr *e, int64_t start, int64_t *ret, struct kymo_err *err)
{
    double counted = (double)e->wait_cycles * p->ns_per_cycle;
    *ret = (int64_t)(counted + 1e-6);
    if (e->wait_cycles != RECORD_WAIT_SATURATED)
        return 0;
    uint64_t met;
    int r = met_waits_find(p->waits[e->ring], MET_WAITS_ANY, e->start_ps, counted, e->end_ps, &met, err);
    if (r > 0)
        *ret = timebase_ns(&p->j->timebase, met) - start;
    p->saturated++;
    p->untold += r == 0;
    return r < 0 ? r : 0;
}

static int take_instr(struct pass *p, struct owners *o, const struct cc_instr *e, struct kymo_err *err)
{
    struct job *j = p->j;
    bool whole = e->has_start && e->has_end;
    if (!whole || e->start_ps > e->end_ps) {
        j->backwards += whole;
        int r = add_partial_instr(p, e, e->has_start, err);
        return r == 0 && whole ? add_partial_instr(p, e, false, err) : r;
    }
    int64_t start = timebase_ns(&j->timebase, e->start_ps), end = timebase_ns(&j->timebase, e->end_ps);
    int64_t counted = (int64_t)((double)e->wait_cycles * p->ns_per_cycle + 1e-6), wait = counted;
    const struct done *owner;
    int r = find_owner(o, e->pc, start, &owner, err);
    j->ledger.rings[e->ring].rows[RECORD_INSTRUCTION_START]++;
    j->ledger.rings[e->ring].rows[RECORD_INSTRUCTION_END]++;
    if (r == 0)
        r = find_wait(p, e, start, &wait, err);
    if (r == 0)
        r = summary_cc_instruction(j->summary, start, end, wait, err);
    return r < 0 ? r : put_instr(p, e, owner, start, end, counted, err);
}

static int walk_instrs(struct pass *p, struct cc_instrs *s, struct owners *o, struct kymo_err *err)
{
    struct cc_instr e;
    int r;
    while ((r = cc_instrs_next(s, &e, err)) > 0) {
        r = take_instr(p, o, &e, err);
        if (r < 0)
            return r;
    }
    return r;
}

/* CcSemaphoreUpdate, and from the same records the waits that CC-core instructions ask for. */
static int write_events(struct pass *p, struct kymo_err *err)
{
    const struct scan *s = &p->j->scan;
    int r = 0;
    for (size_t i = 0; i < s->count && r == 0; i++)
        if (s->rings[i].ring.kind == NTFF__RING_KIND__RING_CC_CORE_INSTRUCTION && s->rings[i].saturated)
            r = met_waits_open(p->j->dir, &p->waits[i], err);
    if (r == 0)
        r = cc_events_write(p->j, p->waits, err);
    for (size_t i = 0; i < s->count && r == 0; i++)
        r = p->waits[i] ? met_waits_seal(p->waits[i], err) : 0;
    return r;
}

static int write_instrs(struct pass *p, struct kymo_err *err)
{
    struct job *j = p->j;
    struct owners *o KYMO_FREE = KYMO_NEW(struct owners);
    struct cc_instrs *s = NULL;
    int r = o ? cc_instrs_open(j, &s, err) : kymo_err_set(err, -ENOMEM, "no memory for the collectives under way");
    if (r == 0)
        r = spill_seal(p->done, err);
    if (r == 0)
        r = spill_reader_init(&o->reader, p->done, err);
    if (r == 0)
        r = read_owner(o, err);
    if (r == 0)
        r = parquet_row_open(j->dir, kymo_schema_table(KYMO_T_CC_INSTRUCTION), &j->parquet, &p->row, err);
    if (r == 0)
        r = finish_table(p, walk_instrs(p, s, o, err), &j->result->cc_instructions, err);
    if (o)
        spill_reader_done(&o->reader);
    cc_instrs_free(s);
    return r;
}

/* ---- CcStream */

static int write_streams(struct pass *p, struct kymo_err *err)
{
    struct parquet_row *row;
    if (!p->table.stream_count)
        return 0;
    int r = parquet_row_open(p->j->dir, kymo_schema_table(KYMO_T_CC_STREAM), NULL, &row, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < p->table.stream_count && r == 0; i++) {
        const struct cc_stream *s = &p->table.streams[i];
        char text[CORES_TEXT_MAX] = "[";
        size_t at = 1;
        for (size_t k = 0; k < s->core_count && at + 24 < sizeof text; k++)
            at += (size_t)snprintf(text + at, sizeof text - at, k ? ",%u" : "%u", (unsigned)s->cores[k]);
        (void)snprintf(text + at, sizeof text - at, "]");
        parquet_row_int(row, KYMO_CC_STREAM_STREAM_ID, s->stream_id);
        parquet_row_int(row, KYMO_CC_STREAM_STREAM_INDEX, s->stream_index);
        parquet_row_string(row, KYMO_CC_STREAM_CC_CORE_IDS, text);
        r = parquet_row_end(row, err);
    }
    if (r < 0) {
        parquet_row_discard(row);
        return r;
    }
    return parquet_row_finish(row, err);
}

static void explain(const struct pass *p)
{
    struct warnings *w = p->j->warnings;
    met_waits_warn(w, "CC-core instructions", p->saturated, p->untold);
    uint64_t n = p->j->result->collectives;
    if (p->unknown)
        warnings_add(w, "Missing Data",
                     "CcOp.operation, algorithm, dtype, num_elements, op_id and stream_id are empty for %llu of %llu "
                     "collectives: the trace does not describe them",
                     (unsigned long long)p->unknown, (unsigned long long)n);
    size_t engines = 0;
    for (size_t i = 0; i < p->table.count; i++)
        engines += p->table.ops[i].engine < 0;
    if (engines && n)
        warnings_add(w, "Missing Data",
                     "CcOp.trigger_engine is empty for %zu of %zu different collectives: no NEFF shows their trigger",
                     engines, p->table.count);
    if (p->untriggered && !engines && n)
        warnings_add(w, "Missing Data",
                     "CcOp.trigger_start_ts is not known for %llu of %llu collectives: records of the instructions "
                     "that started them were lost",
                     (unsigned long long)p->untriggered, (unsigned long long)n);
}

int job_cc(struct job *j, struct kymo_err *err)
{
    struct pass p = {.j = j};
    double ghz = j->in->arch->core_clock_ghz;
    p.ns_per_cycle = ghz > 0 ? 1 / ghz : 0;
    p.notices = KYMO_NEW_ARRAY(struct spill *, j->scan.count + 1);
    p.waits = KYMO_NEW_ARRAY(struct met_waits *, j->scan.count + 1);
    int r = p.notices && p.waits ? 0 : kymo_err_set(err, -ENOMEM, "no memory for the CC-cores' rings");
    if (r == 0)
        r = cc_table_open(&p.table, j->in, err);
    if (r == 0)
        r = spill_open(j->dir, sizeof(struct done), &p.done, err);
    if (r == 0)
        r = write_ops(&p, err);
    if (r == 0)
        r = consumers_end_stage(j->consumers, CONSUMER_COLLECTIVES, err);
    if (r == 0)
        r = write_events(&p, err);
    if (r == 0)
        r = write_instrs(&p, err);
    if (r == 0)
        r = write_streams(&p, err);
    if (r == 0)
        explain(&p);
    for (size_t i = 0; i < j->scan.count; i++) {
        if (p.notices)
            spill_free(p.notices[i]);
        if (p.waits)
            met_waits_free(p.waits[i]);
    }
    spill_free(p.done);
    cc_triggers_free(p.triggers);
    cc_table_done(&p.table);
    kymo_free(p.notices);
    kymo_free(p.waits);
    return r;
}
