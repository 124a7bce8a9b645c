/* The pass that writes DmaPacket and DmaPacketAggregated, and tells each trigger when its transfer ran. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/dma/dma_rows.h"
#include "pipeline/dma/dma_stream.h"
#include "pipeline/dma/dma_triggers.h"
#include "pipeline/job.h"

#define FLUSH_EVERY 256
#define REPORT_EVERY 65536

struct source {
    struct dma_stream *stream;
    const struct dma_event *next; /* NULL: at its end */
    uint32_t ring;
    uint8_t pcore, engine;
};

struct pass {
    struct job *j;
    struct dma_triggers triggers;
    struct dma_transfers *transfers;
    struct dma_transfer proto;
    struct source *sources;
    uint64_t *keys; /* by source: key of its next event; UINT64_MAX at its end, or so late */
    size_t source_count;
    struct dma_assign *assigns; /* by hardware queue */
    bool *assigned;             /* assigns[i] is in use */
    int64_t next_id;
    uint64_t strays, unnamed, wrong_bytes, packets, total;
    uint64_t dynamic, nameless; /* transfers with a DGE record; those of them that name no variable */
    size_t hint;
};

/* The usage row of a hardware queue at a time; of any NEFF when the one that ran has none. */
static uint32_t set_at(struct pass *p, uint32_t phys, uint64_t ps)
{
    const struct dma_queues *q = &p->j->queues;
    const struct dma_hwq *h = dma_queues_hwq(q, timeline_node(&p->j->timeline, ps, &p->hint), phys);
    for (uint32_t n = 0; !h && n < p->j->in->node_count; n++)
        h = dma_queues_hwq(q, n, phys);
    return h ? h->set : DMA_NONE;
}

static bool share_over(const struct pass *p, uint32_t phys, uint64_t entry)
{
    return !p->assigned[phys] || dma_assign_over(&p->assigns[phys], entry);
}

static bool transfer_over(void *ctx, const struct dma_transfer *t)
{
    const struct pass *p = ctx;
    const struct dma_queues *q = &p->j->queues;
    if (t->block != DMA_NONE) {
        const struct dma_block *b = &q->blocks[t->block];
        for (size_t i = 0; i < b->share_count; i++)
            if (b->shares[i].packets && !share_over(p, b->shares[i].phys, t->entry))
                return false;
        return true;
    }
    for (size_t i = 0; i < q->hwq_count; i++) {
        unsigned engine = q->hwqs[i].phys / DMA_QUEUES % DMA_ENGINES, first = t->dge_group ? 16 : 0;
        if (q->hwqs[i].set == t->set && engine >= first && engine < first + 16 &&
            (t->dge_engines >> (engine - first) & 1) && !share_over(p, q->hwqs[i].phys, t->entry))
            return false;
    }
    return true;
}

static int write_transfer(void *ctx, const struct dma_transfer *t, bool complete, struct kymo_err *err)
{
    struct pass *p = ctx;
    struct job *j = p->j;
    const struct dma_block *b = t->block == DMA_NONE ? NULL : &j->queues.blocks[t->block];
    if (complete && b && b->neff && b->neff->bytes && b->neff->bytes != t->bytes)
        p->wrong_bytes++;
    summary_transfer(j->summary, t->block, t->copy, t->start, t->end, t->bytes);
    bool dynamic = t->block == DMA_NONE && t->trigger_number != UINT32_MAX;
    p->dynamic += dynamic;
    p->nameless += dynamic && t->copy == DMA_NONE;
    j->result->transfers++;
    int r = consumers_transfer(j->consumers, &(struct consumer_transfer){*t, complete}, err);
    if (r < 0 || t->trigger_number == UINT32_MAX)
        return r;
    struct job_trigger result = {t->start, t->end, t->id + 1, complete};
    return spill_put(j->triggers[t->pcore][t->trigger_engine], t->trigger_number, &result, err);
}

static uint32_t row_key_of(const struct dma_queues *q, const struct dma_trigger *t)
{
    if (t->kind == DMA_TRIGGER_BLOCK)
        return dma_rows_key_block(q, t->block);
    return t->copy != DMA_NONE ? dma_rows_key_copy(q, t->copy)
                               : dma_rows_key_dynamic(q, t->set, (enum dma_memory)t->from, (enum dma_memory)t->to);
}

static struct dma_transfer transfer_of(const struct pass *p, const struct dma_trigger *t, uint64_t entry,
                                       uint32_t queue)
{
    const struct dma_queues *q = &p->j->queues;
    bool block = t->kind == DMA_TRIGGER_BLOCK;
    return (struct dma_transfer){
        .entry = entry,
        .group = q->sets[t->set].group,
        .key = row_key_of(q, t),
        .set = t->set,
        .block = block ? t->block : DMA_NONE,
        .copy = block ? DMA_NONE : t->copy,
        .dge_engines = t->dge_engines,
        .dge_group = t->dge_group,
        .expected = dma_trigger_packets(t, q),
        .queue_idx = queue,
        .pcore = t->pcore,
        .has_trigger_start = t->start_ps,
        .has_trigger_end = t->end_ps,
        .trigger_engine = t->engine,
        .trigger_number = t->number,
        .trigger_start = timebase_ns(&p->j->timebase, t->start_ps),
        .trigger_end = timebase_ns(&p->j->timebase, t->end_ps),
    };
}

/* What a packet is added with: all that is known of its transfer when it is the first. */
static const struct dma_transfer *proto_of(struct pass *p, const struct dma_trigger *t, uint64_t entry, uint32_t queue)
{
    uint32_t group = p->j->queues.sets[t->set].group;
    if (dma_transfers_open(p->transfers, group, entry)) {
        p->proto.group = group;
        p->proto.entry = entry;
    } else {
        p->proto = transfer_of(p, t, entry, queue);
    }
    return &p->proto;
}

static struct summary_flow flow_of(const struct pass *p, const struct dma_trigger *t)
{
    if (t->kind == DMA_TRIGGER_DYNAMIC)
        return (struct summary_flow){t->set, (enum dma_memory)t->from, (enum dma_memory)t->to, false};
    const struct dma_block *b = &p->j->queues.blocks[t->block];
    return (struct summary_flow){t->set, b->from, b->to, b->spill};
}

/* 1 and the packet's transfer, 0: it belongs to none. */
static int assign(struct pass *p, const struct dma_event *e, uint32_t phys, struct dma_trigger *ret,
                  uint64_t *ret_entry, bool *ret_moved, struct kymo_err *err)
{
    *ret_moved = false;
    return p->assigned[phys] ? dma_assign_packet(&p->assigns[phys], e, ret, ret_entry, ret_moved, err) : 0;
}

/* A queue left triggers behind: transfers that still wait for it may be over. Called once the packet itself is counted.
 */
static void close_left_behind(struct pass *p, uint32_t phys, uint64_t ps)
{
    uint32_t set = set_at(p, phys, ps);
    if (set != DMA_NONE)
        dma_transfers_close(p->transfers, p->j->queues.sets[set].group, transfer_over, p);
}

static int add_partial(struct pass *p, const struct source *s, const struct dma_event *e, bool start_side,
                       struct kymo_err *err)
{
    struct job *j = p->j;
    struct partial one = {
        .ts = timebase_ns(&j->timebase, start_side ? e->start_ps : e->end_ps),
        .id = p->next_id++,
        .pc = -1,
        .ring = s->ring,
        .engine = s->engine,
        .pcore = s->pcore,
        .kind = PARTIAL_DMA_PACKET,
        .reason = e->has_start && e->has_end ? PAIR_BACKWARDS : e->reason,
        .start_side = start_side,
    };
    j->ledger.rings[s->ring].partial[RECORD_DMA]++;
    return partials_add(j->partials, one, err);
}

static int take_partial(struct pass *p, const struct source *s, const struct dma_event *e, struct kymo_err *err)
{
    uint32_t phys = dma_phys(s->pcore, s->engine, e->queue);
    struct dma_trigger t;
    uint64_t entry;
    bool moved;
    int r = assign(p, e, phys, &t, &entry, &moved, err);
    if (r > 0) {
        int64_t id;
        int32_t index;
        r = dma_transfers_add(p->transfers, proto_of(p, &t, entry, e->queue), true, 0, 0, 0, &id, &index, err);
    }
    if (moved)
        close_left_behind(p, phys, e->has_start ? e->start_ps : e->end_ps);
    bool backwards = e->has_start && e->has_end;
    p->j->backwards += backwards;
    r = r < 0 ? r : add_partial(p, s, e, e->has_start, err);
    return r == 0 && backwards ? add_partial(p, s, e, false, err) : r;
}

/* A packet of a dynamic queue whose transfers cannot be told apart is a transfer of its own. */
static int take_alone(struct pass *p, const struct source *s, const struct dma_event *e, struct dma_packet_row *row,
                      struct summary_flow *flow, struct kymo_err *err)
{
    const struct dma_queues *q = &p->j->queues;
    flow->set = set_at(p, row->phys, e->start_ps);
    row->key = dma_rows_key_stray(q, flow->set);
    row->transfer = -1;
    if (flow->set == DMA_NONE || !q->sets[flow->set].dynamic || p->j->in->info->dge_notifications) {
        p->strays++;
        return 0;
    }
    p->unnamed++;
    row->key = dma_rows_key_dynamic(q, flow->set, DMA_MEMORY_UNKNOWN, DMA_MEMORY_UNKNOWN);
    struct dma_transfer proto = {
        .group = q->sets[flow->set].group,
        .key = row->key,
        .set = flow->set,
        .block = DMA_NONE,
        .copy = DMA_NONE,
        .expected = 1,
        .queue_idx = e->queue,
        .pcore = s->pcore,
        .trigger_number = UINT32_MAX,
    };
    return dma_transfers_single(p->transfers, &proto, row->start, row->end, row->bytes, &row->transfer, err);
}

static int take_whole(struct pass *p, const struct source *s, const struct dma_event *e, struct kymo_err *err)
{
    struct job *j = p->j;
    struct dma_packet_row row = {
        .id = p->next_id++,
        .start = timebase_ns(&j->timebase, e->start_ps),
        .end = timebase_ns(&j->timebase, e->end_ps),
        .bytes = e->bytes,
        .phys = dma_phys(s->pcore, s->engine, e->queue),
    };
    struct summary_flow flow = {.set = DMA_NONE};
    struct dma_trigger t;
    uint64_t entry;
    bool moved;
    int r = assign(p, e, row.phys, &t, &entry, &moved, err);
    if (r > 0) {
        flow = flow_of(p, &t);
        row.key = row_key_of(&j->queues, &t);
        r = dma_transfers_add(p->transfers, proto_of(p, &t, entry, e->queue), false, row.start, row.end, row.bytes,
                              &row.transfer, &row.index, err);
    } else if (r == 0) {
        r = take_alone(p, s, e, &row, &flow, err);
    }
    if (moved)
        close_left_behind(p, row.phys, e->start_ps);
    if (r < 0)
        return r;
    j->ledger.rings[s->ring].rows[RECORD_DMA] += 2;
    timeline_count(&j->timeline, e->start_ps, &p->hint);
    r = summary_packet(j->summary, flow, row.start, row.end, row.bytes, err);
    j->result->packets++;
    return r < 0 ? r : consumers_packet(j->consumers, &(struct consumer_packet){row, flow, e->end_ps}, err);
}

static void end_ring(struct pass *p, const struct source *s)
{
    for (unsigned queue = 0; queue < DMA_QUEUES; queue++) {
        uint32_t phys = dma_phys(s->pcore, s->engine, queue);
        if (p->assigned[phys])
            dma_assign_end(&p->assigns[phys]);
    }
    for (uint32_t g = 0; g < p->j->queues.group_count; g++)
        dma_transfers_close(p->transfers, g, transfer_over, p);
}

static void note_gap(struct pass *p, const struct source *s)
{
    for (unsigned queue = 0; queue < DMA_QUEUES; queue++)
        dma_assign_gap(&p->assigns[dma_phys(s->pcore, s->engine, queue)]);
}

static int take(struct pass *p, struct source *s, struct kymo_err *err)
{
    int r = 0;
    if (s->next->gap)
        note_gap(p, s);
    else
        r = dma_event_whole(s->next) ? take_whole(p, s, s->next, err) : take_partial(p, s, s->next, err);
    if (r < 0)
        return r;
    dma_stream_pop(s->stream);
    r = dma_stream_peek(s->stream, &s->next, err);
    if (r == 0) {
        s->next = NULL;
        end_ring(p, s);
    }
    if (r >= 0 && ++p->packets % FLUSH_EVERY == 0)
        r = dma_transfers_flush(p->transfers, err);
    if (r >= 0 && p->packets % REPORT_EVERY == 0)
        r = job_report(p->j, PROCESS_DMA, 2 * p->packets < p->total ? 2 * p->packets : p->total, p->total, err);
    return r < 0 ? r : 0;
}

/* The source whose event is next; of several at one time the first. NULL: all are at their end. */
static struct source *earliest(struct pass *p)
{
    const uint64_t *keys = p->keys;
    uint64_t least = keys[0];
    size_t best = 0;
    for (size_t i = 1; i < p->source_count; i++) {
        best = keys[i] < least ? i : best;
        least = keys[i] < least ? keys[i] : least;
    }
    if (least < UINT64_MAX)
        return &p->sources[best];
    for (size_t i = 0; i < p->source_count; i++)
        if (p->sources[i].next)
            return &p->sources[i];
    return NULL;
}

static uint64_t key_of(const struct source *s)
{
    return s->next ? s->next->key : UINT64_MAX;
}

static int merge(struct pass *p, struct kymo_err *err)
{
    for (size_t i = 0; i < p->source_count; i++)
        p->keys[i] = key_of(&p->sources[i]);
    struct source *s;
    int r = 0;
    while (r == 0 && (s = earliest(p))) {
        r = take(p, s, err);
        p->keys[s - p->sources] = key_of(s);
    }
    return r < 0 ? r : dma_transfers_finish(p->transfers, err);
}

static int open_sources(struct pass *p, struct kymo_err *err)
{
    struct job *j = p->j;
    for (size_t i = 0; i < j->scan.count; i++) {
        const struct ntff_ring *ring = &j->scan.rings[i].ring;
        if (ring->kind != NTFF__RING_KIND__RING_DMA || ring->pcore_idx >= j->in->cores ||
            ring->engine_index >= DMA_ENGINES || !ring->records)
            continue;
        struct source *s = &p->sources[p->source_count++];
        s->ring = (uint32_t)i;
        s->pcore = (uint8_t)ring->pcore_idx;
        s->engine = (uint8_t)ring->engine_index;
        p->total += ring->records;
        int r = dma_stream_open(j->in, &j->scan, i, &s->stream, err);
        if (r == 0)
            r = dma_stream_peek(s->stream, &s->next, err);
        if (r < 0)
            return r;
        if (!r)
            s->next = NULL;
    }
    return 0;
}

static int open_assigns(struct pass *p, struct kymo_err *err)
{
    const struct dma_queues *q = &p->j->queues;
    for (size_t i = 0; i < q->hwq_count; i++) {
        uint32_t phys = q->hwqs[i].phys;
        if (p->assigned[phys])
            continue;
        int r = dma_assign_init(&p->assigns[phys], q, phys, p->triggers.groups[q->sets[q->hwqs[i].set].group], err);
        if (r < 0)
            return r;
        p->assigned[phys] = true;
    }
    return 0;
}

static void explain(const struct pass *p)
{
    struct warnings *w = p->j->warnings;
    p->j->unnamed = p->unnamed;
    p->j->strays = p->strays;
    warnings_add(w, "Missing Data",
                 "DmaPacket.crc is -1: the trace's DMA records hold no checksum that this version can read");
    if (p->unnamed)
        warnings_add(w, "DGE notifications",
                     "%llu packets of dynamic DMA queues have no DGE notifications: each is shown as a transfer of its "
                     "own with variable "
                     "unknown, and HBM and SBUF bytes are lower bounds; set NEURON_RT_ENABLE_DGE_NOTIFICATIONS=1 for "
                     "the capture",
                     (unsigned long long)p->unnamed);
    if (p->nameless)
        warnings_add(w, "DMA names",
                     "%llu of %llu dynamic transfers with DGE notifications have variable unknown: the NEFF has no "
                     "record of the instruction that issued them, or its operand is in a register or a table or is a "
                     "plain address instead of a variable's number; they are not in TensorInfo's loads",
                     (unsigned long long)p->nameless, (unsigned long long)p->dynamic);
    if (p->strays)
        warnings_add(w, "DMA transfers",
                     "%llu DMA packets belong to no transfer: their trigger is not in the trace, its block is not "
                     "known without the NEFF, "
                     "or records were lost before the queue was idle again; HBM and SBUF bytes are lower bounds",
                     (unsigned long long)p->strays);
    if (p->wrong_bytes)
        warnings_add(w, "DMA transfers",
                     "%llu of %llu transfers moved another number of bytes than their block in the NEFF: their packets "
                     "may be assigned "
                     "wrongly",
                     (unsigned long long)p->wrong_bytes, (unsigned long long)p->j->result->transfers);
    if (p->triggers.undescribed)
        warnings_add(w, "DGE notifications",
                     "%llu dynamic DMAs lack their DGE record: packets after them belong to no transfer until the "
                     "queue was idle",
                     (unsigned long long)p->triggers.undescribed);
    if (dma_transfers_forced(p->transfers))
        warnings_add(w, "DMA transfers",
                     "%llu transfers were closed early because too many were open at once: their sums are lower bounds",
                     (unsigned long long)dma_transfers_forced(p->transfers));
}

static void pass_done(struct pass *p)
{
    for (size_t i = 0; i < p->source_count; i++)
        dma_stream_free(p->sources[i].stream);
    for (size_t i = 0; p->assigns && i < DMA_PHYS_MAX; i++)
        dma_assign_done(&p->assigns[i]);
    dma_transfers_free(p->transfers);
    dma_triggers_done(&p->triggers);
    kymo_free(p->sources);
    kymo_free(p->keys);
    kymo_free(p->assigns);
    kymo_free(p->assigned);
}

static int seal_results(struct job *j, struct kymo_err *err)
{
    int r = 0;
    for (unsigned pcore = 0; pcore < INPUT_CORES_MAX; pcore++)
        for (unsigned e = 0; e < KYMO_ENGINE_MAX && r == 0; e++)
            r = j->triggers[pcore][e] ? spill_seal(j->triggers[pcore][e], err) : 0;
    return r;
}

static int run(struct pass *p, struct kymo_err *err)
{
    struct job *j = p->j;
    p->sources = KYMO_NEW_ARRAY(struct source, j->scan.count + 1);
    p->keys = KYMO_NEW_ARRAY(uint64_t, j->scan.count + 1);
    p->assigns = KYMO_NEW_ARRAY(struct dma_assign, DMA_PHYS_MAX);
    p->assigned = KYMO_NEW_ARRAY(bool, DMA_PHYS_MAX);
    if (!p->sources || !p->keys || !p->assigns || !p->assigned)
        return kymo_err_set(err, -ENOMEM, "no memory for the DMA rings");
    int r = open_sources(p, err);
    if (r < 0 || !p->source_count)
        return r;
    r = dma_triggers_collect(&p->triggers, j, err);
    if (r == 0)
        r = open_assigns(p, err);
    if (r == 0)
        r = dma_transfers_new(j->queues.group_count, write_transfer, p, &p->transfers, err);
    if (r == 0)
        r = merge(p, err);
    return r < 0 ? r : seal_results(j, err);
}

int job_dma(struct job *j, struct kymo_err *err)
{
    struct pass p = {.j = j};
    int r = run(&p, err);
    if (r == 0 && p.source_count)
        explain(&p);
    pass_done(&p);
    return r;
}
