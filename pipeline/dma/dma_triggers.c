#include "pipeline/dma/dma_triggers.h"

#include <errno.h>

#include "base/alloc.h"
#include "pipeline/instructions/instr_stream.h"

struct engine {
    uint32_t next;     /* number of the next trigger */
    uint32_t open_row; /* static row of a trigger whose end was lost; UINT32_MAX: none */
    bool gap;          /* records were lost since the last event */
};

struct collect {
    struct dma_triggers *t;
    struct job *j;
    struct engine engines[INPUT_CORES_MAX][KYMO_ENGINE_MAX];
};

static int append(struct collect *c, uint32_t set, const struct dma_trigger *trigger, struct kymo_err *err)
{
    uint32_t group = c->j->queues.sets[set].group;
    struct spill **s = &c->t->groups[group];
    if (!*s) {
        int r = spill_open(c->j->dir, sizeof *trigger, s, err);
        if (r < 0)
            return r;
    }
    return spill_append(*s, trigger, err);
}

/* Lost records may have held triggers of any queue that this engine drives. */
static int append_gap(struct collect *c, unsigned pcore, unsigned engine, uint64_t ps, struct kymo_err *err)
{
    struct dma_trigger gap = {.kind = DMA_TRIGGER_GAP,
                              .effect_ps = ps,
                              .set = DMA_NONE,
                              .block = DMA_NONE,
                              .copy = DMA_NONE,
                              .pcore = (uint8_t)pcore,
                              .engine = (uint8_t)engine};
    for (uint32_t s = 0; s < c->j->queues.set_count; s++) {
        const struct dma_set *set = &c->j->queues.sets[s];
        if (set->pcore != pcore || (set->owner >= 0 && set->owner != (int)engine))
            continue;
        int r = append(c, s, &gap, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static uint64_t effect_of(const struct kymo_arch *a, const struct instr_event *e)
{
    if (!e->has_start || (e->wait_cycles == RECORD_WAIT_SATURATED && e->has_end))
        return e->end_ps;
    double ghz = a->clock_ghz[e->engine];
    return e->start_ps + (ghz > 0 ? (uint64_t)((double)e->wait_cycles * 1000 / ghz) : 0);
}

static int add_trigger(struct collect *c, const struct instr_event *e, uint32_t number, struct kymo_err *err)
{
    const struct static_row *row = &c->j->statics.rows[e->row];
    const struct kymo_arch *arch = c->j->in->arch;
    struct dma_trigger t = {
        .start_ps = e->start_ps,
        .end_ps = e->end_ps,
        .effect_ps = effect_of(arch, e),
        .set = row->set,
        .block = row->block,
        .copy = row->copy,
        .number = number,
        .kind = DMA_TRIGGER_BLOCK,
        .pcore = e->pcore,
        .engine = e->engine,
    };
    if (row->set == DMA_NONE)
        return 0;
    if (row->trigger == STATICS_TRIGGER_DYNAMIC) {
        const uint8_t *rec = program_record(row->program, (size_t)row->slot);
        if (!c->j->in->info->dge_notifications && !e->has_dge)
            return 0;
        if (!e->has_dge) {
            c->t->undescribed++;
            return append_gap(c, e->pcore, e->engine, t.effect_ps, err);
        }
        t.kind = DMA_TRIGGER_DYNAMIC;
        t.dge_engines = e->dge_engines;
        t.dge_per_engine = e->dge_per_engine;
        t.dge_group = e->dge_group;
        t.from = (uint8_t)statics_memory_at(arch, rec, KYMO_F_SRC_ADDR64);
        t.to = (uint8_t)statics_memory_at(arch, rec, KYMO_F_DST_ADDR64);
    }
    return append(c, row->set, &t, err);
}

static int take(struct collect *c, const struct instr_event *e, struct kymo_err *err)
{
    struct engine *g = &c->engines[e->pcore][e->engine];
    if (e->gap) {
        g->gap = true;
        return 0;
    }
    if (g->gap) {
        g->gap = false;
        int r = append_gap(c, e->pcore, e->engine, e->has_start ? e->start_ps : e->end_ps, err);
        if (r < 0)
            return r;
    }
    if (!c->j->statics.rows[e->row].trigger)
        return 0;
    uint32_t number = g->next++;
    /* The end of a trigger whose start stands before the loss: one launch, not two. */
    if (!e->has_start && g->open_row == e->row) {
        g->open_row = UINT32_MAX;
        return 0;
    }
    g->open_row = e->has_end ? g->open_row : e->row;
    return add_trigger(c, e, number, err);
}

static bool lost_some(const struct scan *s, unsigned pcore)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->rings[i].ring.kind == NTFF__RING_KIND__RING_INSTRUCTION && s->rings[i].ring.pcore_idx == pcore &&
            s->rings[i].gaps)
            return true;
    return false;
}

/* Engines without a trigger in the trace have nothing to say, but for what they may have lost. */
static void skip_others(const struct job *j, struct instr_stream *stream)
{
    bool wanted[INPUT_CORES_MAX][KYMO_ENGINE_MAX] = {{false}};
    for (size_t i = 0; i < j->statics.count; i++)
        if (j->statics.rows[i].trigger)
            wanted[j->statics.rows[i].pcore][j->statics.rows[i].engine] = true;
    for (unsigned pcore = 0; pcore < INPUT_CORES_MAX; pcore++)
        for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++)
            if (!wanted[pcore][e] && !lost_some(&j->scan, pcore))
                instr_stream_skip(stream, pcore, (enum kymo_engine)e);
}

static int open_results(struct job *j, struct collect *c, struct kymo_err *err)
{
    static const struct job_trigger none = {0};
    for (unsigned pcore = 0; pcore < INPUT_CORES_MAX; pcore++)
        for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++) {
            uint32_t n = c->engines[pcore][e].next;
            if (!n)
                continue;
            int r = spill_open(j->dir, sizeof(struct job_trigger), &j->triggers[pcore][e], err);
            if (r == 0)
                r = spill_put(j->triggers[pcore][e], n - 1, &none, err);
            if (r < 0)
                return r;
        }
    return 0;
}

int dma_triggers_collect(struct dma_triggers *t, struct job *j, struct kymo_err *err)
{
    struct instr_stream *stream KYMO_CLEANUP(instr_stream_freep) = NULL;
    struct collect c = {.t = t, .j = j};
    for (unsigned pcore = 0; pcore < INPUT_CORES_MAX; pcore++)
        for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++)
            c.engines[pcore][e].open_row = UINT32_MAX;
    *t = (struct dma_triggers){.group_count = j->queues.group_count};
    t->groups = KYMO_NEW_ARRAY(struct spill *, (size_t)t->group_count + 1);
    if (!t->groups)
        return kymo_err_set(err, -ENOMEM, "no memory for the DMA triggers");
    int r = instr_stream_open(j->in, &j->scan, &j->statics, &j->timeline, &stream, err);
    if (r < 0)
        return r;
    skip_others(j, stream);
    const struct instr_event *e;
    while ((r = instr_stream_next(stream, &e, err)) > 0) {
        r = take(&c, e, err);
        if (r < 0)
            return r;
    }
    for (uint32_t g = 0; g < t->group_count && r == 0; g++)
        r = t->groups[g] ? spill_seal(t->groups[g], err) : 0;
    return r < 0 ? r : open_results(j, &c, err);
}

void dma_triggers_done(struct dma_triggers *t)
{
    for (uint32_t g = 0; t->groups && g < t->group_count; g++)
        spill_free(t->groups[g]);
    kymo_free(t->groups);
    *t = (struct dma_triggers){0};
}
